"""What is seen of a cluster: all of it, at once and decoded once; and our process's own, possibly late, view."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter

import msgspec

from headgate.api.admission import Read, read_once, why_unreadable
from headgate.api.decode import node_taken
from headgate.api.kinds import RESOURCES, collection_paths
from headgate.apiserver.handlers.reading import Watch, WatchEvent
from headgate.apiserver.server import ApiServer
from headgate.apiserver.status import ApiError
from headgate.apiserver.storage import Collection as Stored
from headgate.model.events import Gone, Observed, Unreadable
from headgate.model.keys import Key, Kind
from headgate.model.objects import Object

Sight = Observed | Gone
Dated = tuple[int, Sight]
"""With the server's version from which on it is so."""


def kinds_of(sights: Iterable[Sight]) -> frozenset[Kind]:
    return frozenset([(sight.object if isinstance(sight, Observed) else sight).key.kind for sight in sights])


def of_kinds(sights: Iterable[Sight], kinds: Collection[Kind]) -> list[Sight]:
    """Those of objects of these kinds, in their order."""
    return [sight for sight in sights if (sight.object if isinstance(sight, Observed) else sight).key.kind in kinds]


class Feed:
    """Every change of the kinds that anyone reads, in the server's order; each is decoded once for all.

    An optional kind that the server does not serve has no objects until it does.
    """

    def __init__(self, server: ApiServer, kinds: Iterable[Kind], read: Read = read_once) -> None:
        self._server, self._read = server, read
        self._served = server.served()
        self._watches = {kind: self._watch(kind) for kind in kinds}
        self._collections = self._in_watches()
        self.objects: dict[Key, Object] = {}
        self.unreadable: dict[Key, Unreadable] = {}
        self._seen = 0  # the server's version at the last look

    def poll(self) -> list[Sight]:
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
        return [sight for _, sight in fresh]

    def _in_watches(self) -> list[tuple[Kind, Stored]]:
        """What is watched: asked at every look whether it has changed."""
        return [(kind, watch.collection) for kind, watch in self._watches.items() if watch is not None]

    def _watch(self, kind: Kind) -> Watch | None:
        """A watch of all objects in the newest version that is served; None when none is and none need be."""
        resource = RESOURCES[kind]
        for path in collection_paths(resource):
            try:
                return self._server.watch(path, {})
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
        there = {(sight.object.key, sight.object.uid) for _, sight in present if isinstance(sight, Observed)}
        gone = [Gone(key, found.uid) for key, found in known.items() if (key, found.uid) not in there]
        for lost in gone:
            if self.objects[lost.key].uid == lost.uid:
                del self.objects[lost.key]
        return [*((0, lost) for lost in gone), *present]

    def _decoded(self, kind: Kind, events: Iterable[WatchEvent]) -> list[Dated]:
        """What they show, and keeps it in mind."""
        fresh: list[Dated] = []
        for event in events:
            sight = self._sight(kind, event) or self._cannot_read(kind, event)
            if isinstance(sight, Observed):
                self.unreadable.pop(sight.object.key, None)
                self.objects[sight.object.key] = sight.object
            elif sight is not None:
                self.objects.pop(sight.key, None)
                if event.type == "DELETED":
                    self.unreadable.pop(sight.key, None)
            else:
                continue
            fresh.append((event.version, sight))
        return fresh

    def _sight(self, kind: Kind, event: WatchEvent) -> Sight | None:
        """None of a bookmark and of what cannot be read."""
        value = event.shown.value
        if event.type == "DELETED":
            gone = value["metadata"]
            return Gone(Key(kind, gone.get("namespace") or "", gone["name"]), gone["uid"])
        seen = self._read(kind, value) if event.type != "BOOKMARK" else None
        return None if seen is None else Observed(seen)

    def _cannot_read(self, kind: Kind, event: WatchEvent) -> Gone | None:
        """To all but our process, which is told by `unreadable`, the object is gone if it could be read before."""
        if event.type == "BOOKMARK":
            return None
        value = event.shown.value
        metadata = value["metadata"]
        key, uid = Key(kind, metadata.get("namespace") or "", metadata["name"]), metadata["uid"]
        node = node_taken(msgspec.json.encode(value)) if kind is Kind.POD else ""
        why = why_unreadable(kind, value)
        self.unreadable[key] = Unreadable(key, uid, metadata["resourceVersion"], why, node)
        return Gone(key, uid) if key in self.objects else None


class View:
    """What our process has been told of a cluster. It may lag; it never goes back."""

    def __init__(self, lag: float) -> None:
        self._lag = lag
        self._known: dict[Key, str] = {}
        self._coming: deque[tuple[float, Sequence[Sight]]] = deque()  # together as they happened, never none

    def learn(self, sights: Sequence[Sight], now: float) -> None:
        if sights:
            self._coming.append((now + self._lag, sights))

    def set_lag(self, seconds: float, now: float) -> None:
        """What is under way comes no later than it would with this lag."""
        self._lag = seconds
        self._coming = deque((min(at, now + seconds), sights) for at, sights in self._coming)

    @property
    def next_at(self) -> float | None:
        return self._coming[0][0] if self._coming else None

    def release(self, now: float) -> list[Sight]:
        """What our process gets to see by now."""
        seen: list[Sight] = []
        while self._coming and self._coming[0][0] <= now:
            seen += self._coming.popleft()[1]
        self._note(seen)
        return seen

    def relist(self, objects: Mapping[Key, Object]) -> list[Sight]:
        """Everything as it is now, and what is gone since the last look; a list is never late."""
        self._coming.clear()
        seen: list[Sight] = [
            Gone(key, uid) for key, uid in self._known.items() if key not in objects or objects[key].uid != uid
        ]
        seen += [Observed(found) for found in objects.values()]
        self._note(seen)
        return seen

    def forget(self) -> None:
        """A new process knows nothing."""
        self._known.clear()

    def _note(self, seen: Iterable[Sight]) -> None:
        for sight in seen:
            if isinstance(sight, Observed):
                self._known[sight.object.key] = sight.object.uid
            else:
                self._known.pop(sight.key, None)


def coalesced(sights: Iterable[Sight]) -> list[Sight]:
    """Only the last sight of every object, where it came last."""
    last: dict[tuple[Key, str], Sight] = {}
    for sight in sights:
        key = (sight.object.key, sight.object.uid) if isinstance(sight, Observed) else (sight.key, sight.uid)
        last.pop(key, None)
        last[key] = sight
    return list(last.values())
