"""What must hold of gangs and of evictions after every step of a run. Only what the step touched is looked at."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from headgate.engine.groups import Described, Groups
from headgate.engine.journal import Entry, Journal
from headgate.engine.telling_preemption import named
from headgate.model.effects import Bind, Effect, Evict, Nomination, PatchStatus
from headgate.model.events import Gone, Observed, Outcome, Trouble
from headgate.model.groups import Gang, GroupKey, PreemptionMode, Workload
from headgate.model.keys import Key, Kind
from headgate.model.objects import Object, PriorityClass
from headgate.model.pod import Pod
from headgate.simulator.invariants import BrokenInvariant
from headgate.simulator.observing import Sight

IN_DOUBT = frozenset({Trouble.UNKNOWN})
GROUP_KINDS = frozenset({Kind.WORKLOAD, Kind.POD_GROUP, Kind.VOLCANO_POD_GROUP})
KNOWN_KINDS = GROUP_KINDS | {Kind.POD, Kind.PRIORITY_CLASS}
"""What Known must see."""


class Known:
    """What one life of our process was shown, and how its writes went: all it could know when it decided.

    Kept apart from the engine's own books on purpose.
    """

    def __init__(self) -> None:
        self.groups = Groups()
        self.pods: dict[Key, Pod] = {}
        self.bindings: dict[str, Trouble | None] = {}  # sent, by pod uid, and how that went as far as it is known
        self.evictions: dict[str, Trouble | None] = {}  # likewise
        self._promises: dict[str, str] = {}  # on record and not seen yet, by pod uid

    def saw(self, sights: Iterable[Sight]) -> None:
        for sight in sights:
            match sight:
                case Observed(Pod() as pod):
                    self._see(pod)
                case Observed(Workload() as workload):
                    self.groups.put(workload)
                case Observed(PriorityClass() as found):
                    self.groups.put_class(found)
                case Gone(key, uid):
                    self._lose(key, uid)

    def heard(self, outcome: Outcome) -> None:
        match outcome.effect:
            case PatchStatus(target, change):
                if isinstance(change, Nomination) and outcome.trouble is None:
                    self._promises[target.uid] = change.node
            case Bind(target):
                doubtful = self.bindings.get(target.uid) in IN_DOUBT  # a conflict may then be with ourselves
                if not doubtful or outcome.trouble in (None, Trouble.GONE):
                    self.bindings[target.uid] = outcome.trouble
            case Evict(target):
                self.evictions[target.uid] = outcome.trouble

    def promised(self, pod: Pod) -> str:
        """The node nominated to the pod, on record."""
        return self._promises.get(pod.uid, pod.nominated)

    def members(self, group: GroupKey) -> list[Pod]:
        return [pod for pod in self.groups.pods_of(group.workload) if pod.group == group]

    def gang_of(self, pod: Pod) -> Gang | None:
        described = self.groups.describe(pod) if pod.group is not None else None
        return described.group.gang if isinstance(described, Described) else None

    def has_node(self, pod: Pod) -> bool:
        """It is bound and stays, or a binding is sent that nobody has refused."""
        if pod.node:
            return pod.holds_room and pod.deleted is None
        return pod.deleted is None and pod.uid in self.bindings and self.bindings[pod.uid] in (None, *IN_DOUBT)

    def _see(self, pod: Pod) -> None:
        known = self.pods.get(pod.key)
        if known is not None and known.uid != pod.uid:
            self._lose(known.key, known.uid)
        self.pods[pod.key] = pod
        self.groups.put_pod(pod)
        if self._promises.get(pod.uid) == pod.nominated:
            del self._promises[pod.uid]

    def _lose(self, key: Key, uid: str) -> None:
        pod = self.pods.get(key)
        if pod is not None and pod.uid == uid:
            del self.pods[key]
            self.groups.drop_pod(pod)
            for book in (self.bindings, self.evictions, self._promises):
                book.pop(uid, None)
        elif key.kind is Kind.PRIORITY_CLASS:
            self.groups.drop_class(key.name, uid)
        elif key.kind in GROUP_KINDS:
            self.groups.drop(key, uid)


class FairPlay:
    """Gangs start with enough pods or not at all; whoever is evicted leaves once, for one who is worth more and has
    the promise of room on record.
    """

    def __init__(self, with_gangs: frozenset[str]) -> None:
        """`with_gangs` are the schedulerNames that start gangs as gangs."""
        self.known = Known()
        self._with_gangs = with_gangs

    def check(self, effects: Sequence[Effect], entries: Iterable[Entry], journal: Journal | None) -> None:
        """What one step decided, and the entries it wrote about that."""
        binds = [effect for effect in effects if isinstance(effect, Bind)]
        if binds:
            self._check_starts(binds, journal)
        told = {entry.key: entry for entry in entries if entry.decision == "evict"}
        for effect in effects:
            if isinstance(effect, Evict):
                self._check_eviction(effect, told.get(effect.target.key), journal)
        if told:
            self._check_worth(told.values(), journal)

    def _check_starts(self, binds: Sequence[Bind], journal: Journal | None) -> None:
        anew = [bind for bind in binds if self.known.bindings.get(bind.target.uid) not in IN_DOUBT]
        self.known.bindings.update((bind.target.uid, None) for bind in anew)
        starting = {pod.group: pod for bind in anew if (pod := self._as_member(bind)) is not None}
        for group, pod in starting.items():
            gang = self.known.gang_of(pod)
            have = sum(self.known.has_node(member) for member in self.known.members(group)) if group and gang else 0
            if gang is not None and have < gang.min_count:
                what = f"was to be bound with {have} of the {gang.min_count} pods its gang needs"
                raise BrokenInvariant(what, pod.key, journal)

    def _as_member(self, bind: Bind) -> Pod | None:
        """The pod that is bound, if it belongs to a group that may be a gang."""
        pod = self.known.pods.get(bind.target.key)
        return pod if pod is not None and pod.group is not None and pod.scheduler_name in self._with_gangs else None

    def _check_eviction(self, evict: Evict, told: Entry | None, journal: Journal | None) -> None:
        key, uid = evict.target.key, evict.target.uid
        pod = self.known.pods.get(key)
        if pod is not None and pod.uid == uid and pod.deleted is not None:
            raise BrokenInvariant("was to be evicted although it was seen to leave", key, journal)
        again = uid in self.known.evictions
        if again and self.known.evictions[uid] is None:
            raise BrokenInvariant("was to be evicted twice", key, journal)
        self.known.evictions[uid] = None
        if told is None and not again:
            raise BrokenInvariant("was to be evicted and nobody was told why", key, journal)

    def _check_worth(self, told: Collection[Entry], journal: Journal | None) -> None:
        """Everyone who leaves makes room for somebody."""
        waiting = self._waiting_by_name()
        for entry in told:
            victim, preemptor = self.known.pods.get(entry.key), entry.numbers.get("for")
            if victim is not None and isinstance(preemptor, str):
                self._check_one(victim, preemptor, waiting.get(preemptor, []), journal)

    def _waiting_by_name(self) -> dict[str, list[Pod]]:
        named_so: dict[str, list[Pod]] = {}
        for pod in self.known.pods.values():
            for key in (pod.key, pod.group) if pod.wants_node else ():
                if key is not None:
                    named_so.setdefault(named(key), []).append(pod)
        return named_so

    def _check_one(self, victim: Pod, preemptor: str, waiting: Sequence[Pod], journal: Journal | None) -> None:
        promised = sum(bool(self.known.promised(pod)) for pod in waiting)
        if not waiting or promised < self._needed(preemptor, waiting[0]):
            what = f"was to be evicted for {preemptor}, of which {promised} pods had the promise of room on record"
            raise BrokenInvariant(what, victim.key, journal)
        shield, priority = self.known.groups.standing(victim).priority, self.known.groups.ranked(waiting[0]).priority
        if shield >= priority:
            what = f"was to be evicted for {preemptor}, which has priority {priority} against its own {shield}"
            raise BrokenInvariant(what, victim.key, journal)

    def _needed(self, preemptor: str, pod: Pod) -> int:
        """How many pods of the preemptor must have a promise before anyone leaves for it."""
        gang = self.known.gang_of(pod)
        if pod.group is None or gang is None or preemptor != named(pod.group):
            return 1
        return gang.min_count - sum(self.known.has_node(member) for member in self.known.members(pod.group))


class WholeGangs:
    """A gang that leaves whole leaves no pod behind, whoever of us began with it. Checked on what is true."""

    def __init__(self) -> None:
        self._leaving: set[str] = set()  # the uids of all that ran when the first of their gang was evicted

    def evicted(self, evict: Evict, objects: Mapping[Key, Object]) -> None:
        """The eviction took hold."""
        pod = objects.get(evict.target.key)
        if not isinstance(pod, Pod) or pod.uid in self._leaving or not _leaves_whole(pod, objects):
            return
        for member in objects.values():
            if isinstance(member, Pod) and member.group == pod.group and member.holds_room:
                self._leaving.add(member.uid)

    def check_settled(self, objects: Iterable[Object], journal: Journal | None) -> None:
        """Nothing more will happen."""
        for found in objects:
            if isinstance(found, Pod) and found.uid in self._leaving and found.holds_room and found.deleted is None:
                raise BrokenInvariant("stays although the rest of its gang was evicted", found.key, journal)


def _leaves_whole(pod: Pod, objects: Mapping[Key, Object]) -> bool:
    if pod.group is None:
        return False
    workload = objects.get(pod.group.workload)
    if not isinstance(workload, Workload):
        return pod.group_total > 0
    group = workload.group(pod.group.group)
    return group is not None and group.gang is not None and group.gang.mode is PreemptionMode.POD_GROUP
