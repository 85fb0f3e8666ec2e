"""Observations of a cluster: a feed of all changes, each decoded once, and the delayed ones of our process."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

import msgspec

from headgate.api.admission import Read, read_once, why_unreadable
from headgate.api.decode import Identity, unreadable
from headgate.api.kinds import RESOURCES, collection_paths
from headgate.apiserver.handlers.reading import Watch, WatchEvent
from headgate.apiserver.server import ApiServer
from headgate.apiserver.status import ApiError
from headgate.apiserver.storage import Collection as Stored
from headgate.model.events import Gone, Observed, Unreadable
from headgate.model.keys import Key, Kind
from headgate.model.objects import Object
from headgate.simulator.faults import FaultInjector, ObservationFault

ObjectChange = Observed | Gone
_PRESENT = ("ADDED", "MODIFIED")
NO_QUERY: Mapping[str, str] = {}
Dated = tuple[int, ObjectChange]
"""A change with its resource version."""


def kinds_of(changes: Iterable[ObjectChange]) -> frozenset[Kind]:
    return frozenset([(change.object if isinstance(change, Observed) else change).key.kind for change in changes])


def of_kinds(changes: Iterable[ObjectChange], kinds: Collection[Kind]) -> list[ObjectChange]:
    """The changes of objects of these kinds, in order."""
    return [
        change for change in changes if (change.object if isinstance(change, Observed) else change).key.kind in kinds
    ]


class Feed:
    """Every change of the kinds that anyone reads, in the server's order; each is decoded once for all.

    An optional kind that the server does not serve has no objects until it does.
    """

    def __init__(
        self, server: ApiServer, kinds: Iterable[Kind], read: Read = read_once, query: Mapping[str, str] = NO_QUERY
    ) -> None:
        """`query` selects the objects, as in the requests of a watch."""
        self._server, self._read, self._query = server, read, query
        self._served = server.served()
        self._watches = {kind: self._watch(kind) for kind in kinds}
        self._collections = self._in_watches()
        self.objects: dict[Key, Object] = {}
        self.unreadable: dict[Key, Unreadable] = {}
        self._seen = 0  # the server's version at the last look

    @property
    def is_behind(self) -> bool:
        """Whether anything changed in the server since the last poll."""
        return self._server.version != self._seen

    def poll(self) -> list[ObjectChange]:
        """What changed since the last call."""
        now, seen = self._server.version, self._seen
        if now == seen:
            return []
        self._seen = now
        self._find_newly_served()
        fresh: list[Dated] = []
        for kind, collection in self._collections:
            if collection.version > seen:
                fresh += self._drain(kind)
        fresh.sort(key=itemgetter(0))
        return [change for _, change in fresh]

    def _in_watches(self) -> list[tuple[Kind, Stored]]:
        """The watched collections, whose versions tell whether they changed."""
        return [(kind, watch.collection) for kind, watch in self._watches.items() if watch is not None]

    def _watch(self, kind: Kind) -> Watch | None:
        """A watch of all objects in the newest version that is served; None when none is and none need be."""
        resource = RESOURCES[kind]
        for path in collection_paths(resource):
            try:
                return self._server.watch(path, self._query)
            except ApiError:
                if not resource.optional:
                    raise
        return None

    def _find_newly_served(self) -> None:
        served = self._server.served()
        if served is self._served:
            return
        self._served = served
        for kind in [kind for kind, watch in self._watches.items() if watch is None]:
            self._watches[kind] = self._watch(kind)
        self._collections = self._in_watches()

    def _drain(self, kind: Kind) -> list[Dated]:
        watch = self._watches[kind]
        try:
            return self._decoded(kind, watch.drain()) if watch is not None else []
        except ApiError:  # more changed since the last look than the server remembers
            return self._relisted(kind)

    def _relisted(self, kind: Kind) -> list[Dated]:
        known = {found.key: found for found in self.objects.values() if found.key.kind is kind}
        watch = self._watches[kind] = self._watch(kind)
        present = self._decoded(kind, watch.drain()) if watch is not None else []
        there = {(change.object.key, change.object.uid) for _, change in present if isinstance(change, Observed)}
        gone = [Gone(key, found.uid) for key, found in known.items() if (key, found.uid) not in there]
        for lost in gone:
            if self.objects[lost.key].uid == lost.uid:
                del self.objects[lost.key]
        return [*((0, lost) for lost in gone), *present]

    def _decoded(self, kind: Kind, events: Iterable[WatchEvent]) -> list[Dated]:
        """The changes, applied to `objects` and `unreadable`."""
        fresh: list[Dated] = []
        for event in events:
            seen = self._read(kind, event.shown.value) if event.type in _PRESENT else None
            if seen is not None:
                key = seen.key
                if self.unreadable:
                    self.unreadable.pop(key, None)
                self.objects[key] = seen
                fresh.append((event.version, Observed(seen)))
            elif event.type != "BOOKMARK":
                fresh += [(event.version, gone) for gone in self._not_there(kind, event)]
        return fresh

    def _not_there(self, kind: Kind, event: WatchEvent) -> Iterator[Gone]:
        """An object that cannot be decoded is `unreadable`: for others than our process, it is gone if it could be."""
        value = event.shown.value
        metadata = value["metadata"]
        key, uid = Key(kind, metadata.get("namespace") or "", metadata["name"]), metadata["uid"]
        known = self.objects.pop(key, None)
        if event.type == "DELETED":
            self.unreadable.pop(key, None)
            yield Gone(key, uid)
            return
        about = Identity(key, uid, metadata["resourceVersion"])
        self.unreadable[key] = unreadable(about, msgspec.json.encode(value), why_unreadable(kind, value))
        if known is not None:
            yield Gone(key, uid)


class DelayedObservations:
    """The observations of our process: delayed by a lag, in order."""

    def __init__(self, lag: float) -> None:
        self._lag = lag
        self._known: dict[Key, str] = {}
        self._coming: deque[tuple[float, Sequence[ObjectChange]]] = deque()  # together as they happened, never none

    def learn(self, changes: Sequence[ObjectChange], now: float) -> None:
        if changes:
            self._coming.append((now + self._lag, changes))

    def set_lag(self, seconds: float, now: float) -> None:
        """Observations under way are delayed by at most this lag."""
        self._lag = seconds
        self._coming = deque((min(at, now + seconds), changes) for at, changes in self._coming)

    @property
    def next_at(self) -> float | None:
        return self._coming[0][0] if self._coming else None

    def is_due(self, now: float) -> bool:
        return bool(self._coming) and self._coming[0][0] <= now

    def release(self, now: float) -> list[ObjectChange]:
        """The changes our process observes by now."""
        seen: list[ObjectChange] = []
        while self._coming and self._coming[0][0] <= now:
            seen += self._coming.popleft()[1]
        self._note(seen)
        return seen

    def observe(self, objects: Mapping[Key, Object], now: float, injector: FaultInjector) -> list[ObjectChange]:
        """The changes observed by now, with the faults that observations have; `objects` are all there are."""
        if not self.is_due(now):
            return []
        match injector.for_observations():
            case ObservationFault.DROPPED:
                return self.relist(objects)
            case ObservationFault.COALESCED:
                return coalesced(self.release(now))
            case None:
                return self.release(now)

    def relist(self, objects: Mapping[Key, Object]) -> list[ObjectChange]:
        """All objects as they are now, and deletions since the last observation; a list is not delayed."""
        self._coming.clear()
        seen: list[ObjectChange] = [
            Gone(key, uid) for key, uid in self._known.items() if key not in objects or objects[key].uid != uid
        ]
        seen += [Observed(found) for found in objects.values()]
        self._note(seen)
        return seen

    def forget(self) -> None:
        """A new process has observed nothing."""
        self._known.clear()

    def _note(self, seen: Iterable[ObjectChange]) -> None:
        for change in seen:
            if isinstance(change, Observed):
                self._known[change.object.key] = change.object.uid
            else:
                self._known.pop(change.key, None)


def coalesced(changes: Iterable[ObjectChange]) -> list[ObjectChange]:
    """Only the last change of every object, at its last position."""
    last: dict[tuple[Key, str], ObjectChange] = {}
    for change in changes:
        key = (change.object.key, change.object.uid) if isinstance(change, Observed) else (change.key, change.uid)
        last.pop(key, None)
        last[key] = change
    return list(last.values())
