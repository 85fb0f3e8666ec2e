"""Quarantine: an object that makes the engine raise is kept from it until it changes, so that the rest goes on.

The engine names whom it was busy with. Whether that is the one to blame, and who is if not, is found by trial: fresh
engines decide on what is known without some of it. What they decide is thrown away. Afterwards a fresh engine starts
as after a restart, from observation alone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from headgate.engine.fleet.fleet_index import remote_workload
from headgate.engine.in_flight import AwaitedPermits
from headgate.engine.journal import Entry, Journal
from headgate.engine.loop import MOST_SAID, Engine, Raised
from headgate.engine.metrics import Distribution, Labels
from headgate.model.effects import Connect, Disconnect, Effect, EmitEvent, EventType, FleetEffect, WakeAt
from headgate.model.events import (
    AnyEvent,
    Event,
    FleetEvent,
    Gone,
    Observed,
    Outcome,
    RemoteConnection,
    RemoteEvent,
    RemoteState,
    Unreadable,
)
from headgate.model.keys import Key, Kind, Target
from headgate.model.node import Node
from headgate.model.objects import Job, Object, StatefulSet
from headgate.model.pod import Pod, PodShape
from headgate.model.queues import QueuedWorkload
from headgate.model.resources import Resources

REASON = "Quarantined"
TIMER = "quarantine"
MOST_TRIALS = 100  # for one search; what cannot be narrowed down further is quarantined together
FIRST_REST, LONGEST_REST = 10.0, 600.0  # seconds until an object that changed is tried for the third time, and later
REMEMBERED_SECONDS = 600.0  # how long a rebuild counts when the next is delayed
LONGEST_PAUSE = 60.0  # seconds between two rebuilds
UNTOUCHABLE = 2**31 - 1  # the priority of a pod that nobody can be preempted for

WORK = (
    *(Kind.POD, Kind.KUEUE_WORKLOAD, Kind.JOB, Kind.STATEFUL_SET),
    *(Kind.WORKLOAD, Kind.POD_GROUP, Kind.VOLCANO_POD_GROUP),
)
"""The kinds that anybody may create, and that most mistakes will be about."""

Seen = AnyEvent | Unreadable


class RemoteObject(Struct, frozen=True, gc=False):
    """An object of a worker cluster."""

    cluster: str
    key: Key

    @property
    def kind(self) -> Kind:
        return self.key.kind

    def __str__(self) -> str:
        return f"{self.key} of worker cluster {self.cluster}"


Subject = Key | RemoteObject
"""What can be quarantined. An object of a worker cluster is shown to the engine as one that cannot be read."""
Found = Generator[None, None, tuple[Key, ...]]
"""A search: pauses after each trial, and returns whom to quarantine."""


class Quarantined(Struct):
    """An object kept from the engine, as long as it is the same. A pod on a node is shown to it in a reduced form."""

    key: Subject
    uid: str
    version: str
    why: str
    node: str = ""  # where it takes room
    stand_in: bool = True  # the room it takes is known; if not, its node is kept out of placement
    retry_at: float = 0.0  # it is not tried again before, however often it changes
    changed: bool = False  # it is to be tried again then
    workload: Key | None = None  # of an object of a worker cluster: all of one Workload are tried again together


class Quarantine:
    """What is kept from the engines of one process, one after the other."""

    def __init__(self) -> None:
        self._entries: dict[Subject, Quarantined] = {}
        self._strikes: Counter[Subject] = Counter()  # how often each was quarantined, until it is gone
        self._unexplained: dict[
            Subject, None
        ] = {}  # the engine was busy with it when it raised, and nobody was to blame
        self._excused: dict[Subject, set[Key]] = {}  # whom it was busy with, and who was to blame instead
        self._totals: Counter[Kind] = Counter()
        self._rebuilds: deque[float] = deque()
        self._rebuilt = 0
        self._untold: list[Quarantined] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __contains__(self, key: Subject) -> bool:
        return key in self._entries

    def add(self, entry: Quarantined, now: float) -> None:
        """From now on it is left out. The first time it is tried again as soon as it changes, later after a rest."""
        key = entry.key
        self._strikes[key] += 1
        self._totals[key.kind] += 1
        strikes = self._strikes[key]
        entry.retry_at = now + (0.0 if strikes == 1 else min(LONGEST_REST, FIRST_REST * 2.0 ** min(strikes - 2, 64)))
        self._entries[key] = entry
        self._untold.append(entry)

    def rebuilding(self, now: float) -> float:
        """A fresh engine is about to start; how many seconds to wait before that. The first few start at once."""
        while self._rebuilds and self._rebuilds[0] < now - REMEMBERED_SECONDS:
            self._rebuilds.popleft()
        self._rebuilds.append(now)
        self._rebuilt += 1
        few = len(self._rebuilds) - 3
        return 0.0 if few <= 0 else min(LONGEST_PAUSE, 2.0 ** min(few - 1, 64))

    def told(self, journal: Journal, now: float, *, is_new: bool) -> Iterator[EmitEvent]:
        """What owners are told of those quarantined since the last call.

        The journal has it as well; one that `is_new` gets to know of all that are in quarantine. Of objects of worker
        clusters it is said at home whose they are.
        """
        untold, self._untold = self._untold, []
        for known in self._entries.values() if is_new else untold:
            if isinstance(known.key, RemoteObject):
                continue
            message = f"left out until it changes, because it could not be dealt with: {known.why}"
            journal.write(Entry(now, known.key, "quarantine", REASON, message))
            if known in untold:
                target = Target(known.key, known.uid)
                yield EmitEvent(target, EventType.WARNING, REASON, "Quarantining", message, now)

    def alarms(self) -> Iterator[WakeAt]:
        for entry in self._entries.values():
            if entry.changed:
                yield WakeAt(entry.retry_at, TIMER)

    def collect(self) -> Iterator[tuple[str, Labels, int]]:
        now = Counter(key.kind for key in self._entries)
        for kind, total in self._totals.items():
            yield "headgate_quarantined_objects", (("kind", kind.value),), now[kind]
            yield "headgate_quarantines_total", (("kind", kind.value),), total
        yield "headgate_engine_rebuilds_total", (), self._rebuilt

    def is_suspected_again(self, suspects: Collection[Key]) -> bool:
        """Whether the engine raised before while it was busy with one of these, and nobody was to blame."""
        return any(key in self._unexplained for key in suspects)

    def settled(self, suspects: tuple[Key, ...], found: tuple[Key, ...]) -> tuple[Key, ...]:
        """Whom to blame by what was found: who is excused by ever new others is to blame after all."""
        if not found:
            self._unexplained.update(dict.fromkeys(suspects))
        elif suspects and set(found).isdisjoint(suspects):
            for key in suspects:
                others = self._excused.setdefault(key, set(found))
                if not set(found) <= others:
                    return suspects
        return found

    # what the engine gets to see

    def keep_only(self, there: Collection[Subject], cluster: str = "") -> None:
        """No other object exists any more at home, or on that worker cluster."""
        for key in {*self._entries, *self._strikes, *self._unexplained, *self._excused} - set(there):
            if (key.cluster if isinstance(key, RemoteObject) else "") == cluster:
                self._forget(key)

    def blocked(self) -> set[str]:
        """The nodes with a pod on them of which it is not known how much it takes."""
        return {entry.node for entry in self._entries.values() if entry.node and not entry.stand_in}

    def shown(self, event: Seen, now: float, blocked: Collection[str], before: Object | None) -> Iterator[AnyEvent]:
        """The event as the engine gets it; `before` is the object as it was last observed."""
        if isinstance(event, Unreadable):
            yield from self._hide(event, now, before)
        elif isinstance(event, Observed):
            yield from self._show(event.object, now, blocked)
        elif isinstance(event, RemoteEvent):
            yield self._show_remote(event, now)
        else:
            entry = self._entries.get(event.key) if isinstance(event, Gone) else None
            if isinstance(event, Gone) and entry is not None and entry.uid == event.uid:
                self._forget(event.key)
            yield event

    def due(self, now: float) -> list[Subject]:
        """Those that changed and have rested, which are in quarantine no more."""
        ready = [key for key, entry in self._entries.items() if entry.changed and entry.retry_at <= now]
        for key in ready:
            del self._entries[key]
        return ready

    def _show(self, seen: Object, now: float, blocked: Collection[str]) -> Iterator[Event]:
        entry = self._entries.get(seen.key)
        if entry is not None and entry.uid != seen.uid:
            self._forget(seen.key)
            yield Gone(seen.key, entry.uid)
            entry = None
        elif entry is not None and entry.version != seen.version and entry.retry_at <= now:
            del self._entries[seen.key]
            entry = None
        if entry is None:
            yield Observed(as_blocked(seen) if isinstance(seen, Node) and seen.key.name in blocked else seen)
            return
        entry.changed = entry.changed or entry.version != seen.version
        if isinstance(seen, Pod):
            entry.node = seen.node if seen.holds_room else ""
            if entry.stand_in and seen.holds_room:
                yield Observed(as_stand_in(seen))
            else:
                yield Gone(seen.key, seen.uid, None if seen.node else seen.group)

    def _show_remote(self, event: RemoteEvent, now: float) -> RemoteEvent:
        told = event.event
        if isinstance(told, Outcome):
            return event
        place = RemoteObject(event.cluster, told.object.key if isinstance(told, Observed) else told.key)
        entry = self._entries.get(place)
        if entry is None:
            return event
        if not isinstance(told, Observed) or entry.uid != told.object.uid:
            self._forget(place)
            return event
        if entry.version != told.object.version and entry.retry_at <= now:
            del self._entries[place]
            for other in self._entries.values():
                other.changed = other.changed or other.workload == entry.workload
            return event
        entry.changed = entry.changed or entry.version != told.object.version
        return RemoteEvent(event.cluster, _as_unreadable(told.object, entry.why))

    def _hide(self, event: Unreadable, now: float, before: Object | None) -> Iterator[Event]:
        """What is known from before of a pod's room still holds."""
        entry, why = self._entries.get(event.key), event.why[:MOST_SAID]
        if entry is not None and (entry.uid, entry.node, entry.why) == (event.uid, event.node, why):
            entry.version = event.version
        else:
            known = isinstance(before, Pod) and before.uid == event.uid and before.node == event.node != ""
            self.add(Quarantined(event.key, event.uid, event.version, why, event.node, known), now)
            if isinstance(before, Pod) and known:
                yield Observed(as_stand_in(before))
            elif before is not None:
                yield Gone(event.key, before.uid, before.group if isinstance(before, Pod) and not before.node else None)

    def _forget(self, key: Subject) -> None:
        for known in (self._entries, self._strikes, self._unexplained, self._excused):
            known.pop(key, None)


class GuardedEngine:
    """An engine and what it was told. What it raises for the sake of an object is `Raised`; then `find` says of which.

    The first batch must hold the whole cluster, as an engine's must.
    """

    def __init__(self, fresh: Callable[[], Engine], quarantine: Quarantine, trial: Callable[[], Engine]) -> None:
        self._engine, self._trial = fresh(), trial
        self.journal = self._engine.journal
        self.quarantine = quarantine
        self._has_workers = bool(self._engine.remote_reads)  # clusters may be connected and left
        self._known: dict[Subject, Object] = {}
        self._is_first = True

    @property
    def reads(self) -> tuple[Kind, ...]:
        return self._engine.reads

    @property
    def remote_reads(self) -> tuple[Kind, ...]:
        return self._engine.remote_reads

    def step(self, batch: Sequence[Seen], now: float) -> list[Effect | FleetEffect]:
        """Raises Raised, after which this engine must not be asked again, and AssertionError."""
        is_first = self._is_first
        effects = self._engine.step(self._shown(batch, now), now)
        effects.extend(self.quarantine.told(self.journal, now, is_new=is_first))
        effects.extend(self.quarantine.alarms())
        if self._has_workers:
            for effect in effects:
                if isinstance(effect, Connect | Disconnect):
                    self._forget_cluster(effect.cluster)
        return effects

    @property
    def awaited_permits(self) -> AwaitedPermits | None:
        return self._engine.awaited_permits

    def gauges(self) -> Mapping[tuple[str, Labels], int | float | Distribution]:
        own = {(name, labels): value for name, labels, value in self.quarantine.collect()}
        return {**self._engine.gauges(), **own}

    def find(self, raised: Raised, now: float) -> Generator[None, None, tuple[Subject, ...]]:
        """Quarantines whoever is to blame, if it is anybody. Raises AssertionError if the engine fails without any."""
        if isinstance(raised.cluster, str):
            return self._blame_remote(raised, [RemoteObject(raised.cluster, key) for key in raised.suspects], now)
        suspects = tuple(key for key in raised.suspects if key in self._known)
        trials = _Trials(self._trial, self._known, self.quarantine, now)
        if self.quarantine.is_suspected_again(suspects):
            blamed = suspects
        else:
            found = yield from trials.culprits(suspects, raised.told)
            remote = [] if found else self._remote_objects_of(raised.suspects)
            if remote:
                return self._blame_remote(raised, remote, now)
            blamed = self.quarantine.settled(suspects, found)
        for key in blamed:
            yield from self._blame(key, blamed, raised, trials, now)
        return blamed

    def _remote_objects_of(self, workloads: Collection[Key]) -> list[RemoteObject]:
        """Those of worker clusters on which the decision about these Workloads depends."""
        return [
            place
            for place, seen in self._known.items()
            if isinstance(place, RemoteObject) and place not in self.quarantine and remote_workload(seen) in workloads
        ]

    def _blame_remote(self, raised: Raised, places: Iterable[RemoteObject], now: float) -> tuple[Subject, ...]:
        found = [place for place in places if place in self._known]
        for place in found:
            seen = self._known[place]
            entry = Quarantined(place, seen.uid, seen.version, raised.why, workload=remote_workload(seen))
            self.quarantine.add(entry, now)
        return tuple(found)

    def _forget_cluster(self, cluster: str) -> None:
        for place in [place for place in self._known if isinstance(place, RemoteObject) and place.cluster == cluster]:
            del self._known[place]

    def story(self, subject: Subject) -> tuple[Entry, ...]:
        """The last entries of the journal about the object."""
        return self.journal.about(subject.key if isinstance(subject, RemoteObject) else subject)

    def _blame(
        self, key: Key, blamed: tuple[Key, ...], raised: Raised, trials: _Trials, now: float
    ) -> Generator[None, None, None]:
        seen, node, stand_in = self._known[key], "", True
        if isinstance(seen, Pod) and seen.holds_room:
            node, stand_in = seen.node, trials.passes(blamed, reduced=True)
            yield
        self.quarantine.add(Quarantined(key, seen.uid, seen.version, raised.why, node, stand_in), now)

    def _shown(self, batch: Sequence[Seen], now: float) -> Sequence[AnyEvent]:
        """The batch as the engine gets it; the very same as long as nothing is in quarantine."""
        if not self.quarantine and self._note(batch):
            self._is_first = False
            return batch  # type: ignore[return-value]  # nothing in it is unreadable
        before = self.quarantine.blocked()
        if self._is_first:
            self.quarantine.keep_only({key for event in batch if (key := _existing(event)) is not None})
        shown: list[AnyEvent] = []
        for event in batch:
            if isinstance(event, Gone) and event.key in self.quarantine:
                self.journal.forget(event.key)
            shown += self.quarantine.shown(event, now, before, self._object_of(event))
            if isinstance(event, RemoteConnection) and event.state is RemoteState.CONNECTED:
                self.quarantine.keep_only(self._known, event.cluster)
            if isinstance(event, Unreadable):
                self._known.pop(event.key, None)
            else:
                self._note((event,))
        self._is_first = False
        shown += [_seen_at(key, self._known[key]) for key in self.quarantine.due(now) if key in self._known]
        return [*shown, *self._nodes_changed(before, self.quarantine.blocked())]

    def _nodes_changed(self, before: set[str], after: set[str]) -> Iterator[Event]:
        for name in sorted(before ^ after):
            node = self._known.get(Key(Kind.NODE, "", name))
            if isinstance(node, Node):
                yield Observed(as_blocked(node) if name in after else node)

    def _object_of(self, event: Seen) -> Object | None:
        return self._known.get(event.key) if isinstance(event, Unreadable) else None

    def _note(self, batch: Iterable[Seen]) -> bool:
        """Notes what is known from now on, up to the first object that cannot be read; True when there is none."""
        known = self._known
        for event in batch:
            if isinstance(event, Observed):
                found = event.object
                known[found.key] = found
            elif isinstance(event, Outcome):
                continue
            elif isinstance(event, Unreadable):
                return False
            elif isinstance(event, Gone):
                self._note_gone(event.key, event.uid)
            elif isinstance(event, RemoteEvent):
                match event.event:
                    case Observed(object=seen):
                        self._known[RemoteObject(event.cluster, seen.key)] = seen
                    case Gone(key=key, uid=uid) | Unreadable(key=key, uid=uid):
                        self._note_gone(RemoteObject(event.cluster, key), uid)
        return True

    def _note_gone(self, place: Subject, uid: str) -> None:
        known = self._known.get(place)
        if known is not None and known.uid == uid:
            del self._known[place]


class _Trials:
    """Fresh engines that decide on what is known without some of it."""

    def __init__(
        self, fresh: Callable[[], Engine], known: Mapping[Subject, Object], quarantine: Quarantine, now: float
    ) -> None:
        self._fresh, self._now, self._made = fresh, now, 0
        places = {kind: place for place, kind in enumerate(fresh().reads)}
        kept = [seen for key, seen in known.items() if isinstance(key, Key) and key not in quarantine]
        self._objects = sorted(kept, key=lambda seen: places.get(seen.key.kind, len(places)))

    def culprits(self, suspects: tuple[Key, ...], told: Collection[Key]) -> Found:
        """Whom the engine does not raise without, as few as can be found; nobody where a fresh engine does not raise.

        If it raises for one of the suspects only while a certain other pod is there, then that one is to blame.
        """
        raised = self._raised_without(())
        if raised is None:
            return ()
        yield
        if suspects:
            others = [key for key in self._keys(Kind.POD) if key not in suspects]
            if others and self.passes(others):
                found = yield from self._fewest(others)
                if len(found) <= len(suspects):
                    return found
            yield
            marked = yield from self._all_marked(suspects)
            if marked:
                return marked
        for some in self._groups(told):
            yield
            if some and self.passes(some):
                return (yield from self._fewest(some))
        raise AssertionError("the engine fails without any object to decide about")

    def passes(self, without: Collection[Key], *, reduced: bool = False) -> bool:
        """Whether a fresh engine decides without these; `reduced`: with stand-ins for the pods among them."""
        return self._raised_without(without, reduced=reduced) is None

    def _raised_without(self, without: Collection[Key], *, reduced: bool = False) -> Raised | AssertionError | None:
        self._made += 1
        left_out = frozenset(without)
        shown = [
            Observed(as_stand_in(seen) if isinstance(seen, Pod) and seen.key in left_out else seen)
            for seen in self._objects
            if seen.key not in left_out or (reduced and isinstance(seen, Pod) and seen.holds_room)
        ]
        try:
            self._fresh().step(shown, self._now)
        except (Raised, AssertionError) as raised:
            return raised
        return None

    def _all_marked(self, suspects: tuple[Key, ...]) -> Found:
        """The suspects, and whom the engine is busy with when it raises without them, and so on; nobody: that fails."""
        marked = dict.fromkeys(suspects)
        while self._made < MOST_TRIALS:
            raised = self._raised_without(marked)
            if raised is None:
                break
            more = [key for key in raised.suspects if key not in marked] if isinstance(raised, Raised) else []
            if not more:
                return ()
            marked.update(dict.fromkeys(more))
            yield
        return tuple(marked)

    def _groups(self, told: Collection[Key]) -> Iterator[list[Key]]:
        """Among whom to look, one after the other: what is new first, and work before what it depends on."""
        for keys in (self._keys(Kind.POD), self._keys(*WORK), self._keys()):
            yield [key for key in keys if key in told]
            yield keys

    def _keys(self, *kinds: Kind) -> list[Key]:
        """All objects, or those of these kinds."""
        return [seen.key for seen in self._objects if not kinds or seen.key.kind in kinds]

    def _fewest(self, guilty: list[Key]) -> Found:
        """Part of the guilty, without whom the engine does not raise: halves, then halves of halves."""
        parts = 2
        while len(guilty) > 1 and self._made < MOST_TRIALS:
            smaller = None
            for part in _split(guilty, parts):
                rest = [key for key in guilty if key not in frozenset(part)]
                for some in (part, rest):
                    yield
                    if len(some) < len(guilty) and self.passes(some):
                        smaller = some
                        break
                if smaller is not None or self._made >= MOST_TRIALS:
                    break
            if smaller is not None:
                guilty, parts = smaller, 2
            elif parts >= len(guilty):
                break
            else:
                parts = min(len(guilty), parts * 2)
        return tuple(guilty)


def _existing(event: Seen) -> Key | None:
    """The object that exists by what the event says."""
    if isinstance(event, Observed):
        return event.object.key
    return event.key if isinstance(event, Unreadable) else None


def _as_unreadable(seen: Object, why: str) -> Unreadable:
    leaves = isinstance(seen, Job | Pod | StatefulSet | QueuedWorkload) and seen.deleted is not None
    return Unreadable(seen.key, seen.uid, seen.version, why, "", remote_workload(seen).name, leaves)


def _seen_at(place: Subject, seen: Object) -> Event | FleetEvent:
    return RemoteEvent(place.cluster, Observed(seen)) if isinstance(place, RemoteObject) else Observed(seen)


def _split(keys: list[Key], parts: int) -> list[list[Key]]:
    size = -(-len(keys) // parts)
    return [keys[start : start + size] for start in range(0, len(keys), size)]


def as_stand_in(pod: Pod) -> Pod:
    """A pod that takes the same room at the same place, and of which nothing else is known; nobody preempts it."""
    taken = PodShape(requests=pod.shape.requests, scored_requests=pod.shape.scored_requests, ports=pod.shape.ports)
    return Pod(
        pod.key,
        pod.uid,
        pod.version,
        {},
        {},
        taken,
        pod.created,
        priority=UNTOUCHABLE,
        node=pod.node,
        phase=pod.phase,
        deleted=pod.deleted,
    )


def as_blocked(node: Node) -> Node:
    """The node with no room for anybody who is not there."""
    return structs.replace(node, allocatable=Resources())
