"""Invariants, checked after every step of a run on what the step touched."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from headgate.engine.journal import Entry, Journal
from headgate.engine.scheduler.events import named
from headgate.engine.scheduler.groups import Described, Groups
from headgate.model.effects import (
    Bind,
    Effect,
    Evict,
    FleetEffect,
    Nomination,
    PatchSpec,
    PatchStatus,
    QueueReservation,
    RemoveGate,
)
from headgate.model.events import Gone, Observed, Outcome, WriteError
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.objects import Object, PriorityClass
from headgate.model.pod import Gang, GroupKey, Pod, PodShape, PreemptionMode, Workload
from headgate.model.volcano import QUEUE_GATES, queue_named
from headgate.simulator.observing import ObjectChange

IN_DOUBT = frozenset({WriteError.UNKNOWN})
GROUP_KINDS = frozenset({Kind.WORKLOAD, Kind.POD_GROUP, Kind.VOLCANO_POD_GROUP})
KNOWN_KINDS = GROUP_KINDS | {Kind.POD, Kind.PRIORITY_CLASS}
"""The kinds ObservedState must observe."""
PODS = "pods"
CAPACITY_KINDS = frozenset({Kind.POD, Kind.NODE})
"""The kinds NodeCapacityInvariant must observe."""


class BrokenInvariant(AssertionError):
    """An invariant does not hold; carries the journal of the object concerned."""

    def __init__(self, what: str, key: Key, journal: Journal | None) -> None:
        entries = journal.about(key) if journal is not None else ()
        lines = [f"  {entry.decision} {entry.reason}: {entry.message}" for entry in entries]
        super().__init__("\n".join([f"{key}: {what}", *lines]))


class BoundOnce:
    """No pod is ever bound to two nodes. Checked on the objects in the server, whatever our process has observed."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}

    def check(self, changes: Iterable[ObjectChange], journal: Journal | None) -> None:
        for change in changes:
            match change:
                case Observed(Pod() as pod) if pod.node:
                    before = self._node_of.setdefault(pod.uid, pod.node)
                    if before != pod.node:
                        raise BrokenInvariant(f"bound to {before}, then to {pod.node}", pod.key, journal)
                case Gone(key, uid) if key.kind is Kind.POD:
                    self._node_of.pop(uid, None)


class NodeCapacityInvariant:
    """No binding of ours exceeds a node's allocatable resources, by what our process could know when it decided.

    Independent of the engine's own caches on purpose: it counts observations and successful writes.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._charged: dict[str, tuple[str, PodShape]] = {}  # by pod uid
        self._used: dict[str, dict[str, int]] = {}  # by node

    def observe(self, changes: Iterable[ObjectChange]) -> None:
        for change in changes:
            match change:
                case Observed(Pod() as pod):
                    self._see(pod)
                case Observed(Node() as node):
                    self._nodes[node.name] = node
                case Gone(key, uid):
                    self._release(uid)
                    if key.kind is Kind.NODE:
                        self._nodes.pop(key.name, None)

    def observe_outcome(self, outcome: Outcome) -> None:
        """A pod that no longer exists uses nothing, even before its deletion is observed."""
        if isinstance(outcome.effect, Bind) and outcome.trouble is WriteError.GONE:
            self._release(outcome.effect.target.uid)

    def bound(self, bind: Bind, pod: Pod, journal: Journal | None) -> None:
        """The binding succeeded."""
        self._release(pod.uid)
        self._charge(pod.uid, bind.node, pod.shape)
        node = self._nodes.get(bind.node)
        if node is None:
            return  # the node was deleted before the binding; the pod is garbage collected
        for name, _ in (*pod.shape.requests.items, (PODS, 1)):
            used, allocatable = self._used[bind.node][name], node.allocatable[name]
            if used > allocatable:
                raise BrokenInvariant(
                    f"{node.name} has {allocatable} {name}, its pods request {used}", pod.key, journal
                )

    def _see(self, pod: Pod) -> None:
        if pod.holds_room:
            self._release(pod.uid)
            self._charge(pod.uid, pod.node, pod.shape)
        elif pod.node:
            self._release(pod.uid)

    def _charge(self, uid: str, node: str, shape: PodShape) -> None:
        self._charged[uid] = (node, shape)
        self._add(node, shape, 1)

    def _release(self, uid: str) -> None:
        charged = self._charged.pop(uid, None)
        if charged is not None:
            self._add(*charged, -1)

    def _add(self, node: str, shape: PodShape, sign: int) -> None:
        used = self._used.setdefault(node, {})
        used[PODS] = used.get(PODS, 0) + sign
        for name, amount in shape.requests.items:
            used[name] = used.get(name, 0) + sign * amount


def check_gates(effect: Effect, journal: Journal | None) -> None:
    """Gates of other controllers are never removed."""
    match effect:
        case RemoveGate(gate=gate):
            removed = [gate]
        case PatchSpec(change=QueueReservation(gates=gates)):
            removed = [gate for _, gate in gates]
        case _:
            return
    for gate in removed:
        if gate not in QUEUE_GATES:
            raise BrokenInvariant(f"was to lose another controller's gate {gate}", effect.target.key, journal)


def check_nothing_lost(objects: Iterable[Object], served: frozenset[str], journal: Journal) -> None:
    """Every pending pod of ours has a journal entry, at least why it waits."""
    for found in objects:
        if (
            isinstance(found, Pod)
            and found.wants_node
            and found.scheduler_name in served
            and not journal.about(found.key)
        ):
            raise BrokenInvariant("is pending without a journal entry", found.key, journal)


class ObservedState:
    """What our process observed since it started, and the outcomes of its writes: all it could know when it decided.

    Independent of the engine's own caches on purpose.
    """

    def __init__(self) -> None:
        self.groups = Groups()
        self.pods: dict[Key, Pod] = {}
        self.bindings: dict[str, WriteError | None] = {}  # sent, by pod uid, with the error if there was one
        self.evictions: dict[str, WriteError | None] = {}  # likewise
        self._nominations: dict[str, str] = {}  # written and not observed yet, by pod uid

    def observe(self, changes: Iterable[ObjectChange]) -> None:
        for change in changes:
            match change:
                case Observed(Pod() as pod):
                    self._see(pod)
                case Observed(Workload() as workload):
                    self.groups.put(workload)
                case Observed(PriorityClass() as found):
                    self.groups.put_class(found)
                case Gone(key, uid):
                    self._lose(key, uid)

    def observe_outcome(self, outcome: Outcome) -> None:
        match outcome.effect:
            case PatchStatus(target, change):
                if isinstance(change, Nomination) and outcome.trouble is None:
                    self._nominations[target.uid] = change.node
            case Bind(target):
                doubtful = self.bindings.get(target.uid) in IN_DOUBT  # a conflict may then be with ourselves
                if not doubtful or outcome.trouble in (None, WriteError.GONE):
                    self.bindings[target.uid] = outcome.trouble
            case Evict(target):
                self.evictions[target.uid] = outcome.trouble

    def nominated_node(self, pod: Pod) -> str:
        """The node the pod is nominated to, as written."""
        return self._nominations.get(pod.uid, pod.nominated)

    def members(self, group: GroupKey) -> list[Pod]:
        return [pod for pod in self.groups.pods_of(group.workload) if pod.group == group]

    def gang_of(self, pod: Pod) -> Gang | None:
        described = self.groups.describe(pod) if pod.group is not None else None
        return described.group.gang if isinstance(described, Described) else None

    def has_node(self, pod: Pod) -> bool:
        """Bound and not terminating, or with a binding sent that was not refused."""
        if pod.node:
            return pod.holds_room and pod.deleted is None
        return pod.deleted is None and pod.uid in self.bindings and self.bindings[pod.uid] in (None, *IN_DOUBT)

    def _see(self, pod: Pod) -> None:
        known = self.pods.get(pod.key)
        if known is not None and known.uid != pod.uid:
            self._lose(known.key, known.uid)
        self.pods[pod.key] = pod
        self.groups.put_pod(pod)
        if self._nominations.get(pod.uid) == pod.nominated:
            del self._nominations[pod.uid]

    def _lose(self, key: Key, uid: str) -> None:
        pod = self.pods.get(key)
        if pod is not None and pod.uid == uid:
            del self.pods[key]
            self.groups.drop_pod(pod)
            for by_uid in (self.bindings, self.evictions, self._nominations):
                by_uid.pop(uid, None)
        elif key.kind is Kind.PRIORITY_CLASS:
            self.groups.drop_class(key.name, uid)
        elif key.kind in GROUP_KINDS:
            self.groups.drop(key, uid)


class SchedulingInvariants:
    """Gangs start with at least `minCount` pods or not at all. A pod is evicted once, for a preemptor of higher
    priority whose nominations are written.
    """

    def __init__(self, with_gangs: frozenset[str]) -> None:
        """`with_gangs` are the schedulerNames whose profile has GangScheduling on."""
        self.known = ObservedState()
        self._with_gangs = with_gangs

    def check(self, effects: Sequence[Effect | FleetEffect], entries: Iterable[Entry], journal: Journal | None) -> None:
        """Checks the effects of one step against its journal entries."""
        types = set(map(type, effects))
        if Bind in types:
            self._check_starts([effect for effect in effects if isinstance(effect, Bind)], journal)
        entries_of = {entry.key: entry for entry in entries if entry.decision == "evict"}
        for effect in effects if Evict in types else ():
            if isinstance(effect, Evict):
                self._check_eviction(effect, entries_of.get(effect.target.key), journal)
        if entries_of:
            self._check_priorities(entries_of.values(), journal)

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

    def _check_eviction(self, evict: Evict, entry: Entry | None, journal: Journal | None) -> None:
        key, uid = evict.target.key, evict.target.uid
        pod = self.known.pods.get(key)
        if pod is not None and pod.uid == uid and pod.deleted is not None:
            raise BrokenInvariant("was to be evicted although it is terminating", key, journal)
        again = uid in self.known.evictions
        if again and self.known.evictions[uid] is None:
            raise BrokenInvariant("was to be evicted twice", key, journal)
        self.known.evictions[uid] = None
        if entry is None and not again:
            raise BrokenInvariant("was to be evicted without a journal entry", key, journal)

    def _check_priorities(self, evictions: Collection[Entry], journal: Journal | None) -> None:
        """Every victim has a preemptor of higher priority, or of another queue, with its nominations written."""
        waiting = self._waiting_by_name()
        for entry in evictions:
            victim, preemptor = self.known.pods.get(entry.key), entry.numbers.get("for")
            if victim is not None and isinstance(preemptor, str):
                self._check_one(victim, preemptor, waiting.get(preemptor, []), journal)

    def _queue_of(self, pod: Pod) -> str:
        """The Volcano queue of the pod; empty for none."""
        workload = self.known.groups.workloads.get(pod.group.workload) if pod.group is not None else None
        return workload.volcano.queue if workload is not None and workload.volcano else queue_named(pod.annotations)

    def _waiting_by_name(self) -> dict[str, list[Pod]]:
        named_so: dict[str, list[Pod]] = {}
        for pod in self.known.pods.values():
            for key in (pod.key, pod.group) if pod.wants_node else ():
                if key is not None:
                    named_so.setdefault(named(key), []).append(pod)
        return named_so

    def _check_one(self, victim: Pod, preemptor: str, waiting: Sequence[Pod], journal: Journal | None) -> None:
        nominated = sum(bool(self.known.nominated_node(pod)) for pod in waiting)
        if not waiting or nominated < self._needed(preemptor, waiting[0]):
            what = f"was to be evicted for {preemptor}, of which {nominated} pods are nominated"
            raise BrokenInvariant(what, victim.key, journal)
        shield, priority = self.known.groups.standing(victim).priority, self.known.groups.ranked(waiting[0]).priority
        if shield >= priority and self._queue_of(victim) in ("", self._queue_of(waiting[0])):
            what = f"was to be evicted for {preemptor}, which has priority {priority} against its own {shield}"
            raise BrokenInvariant(what, victim.key, journal)

    def _needed(self, preemptor: str, pod: Pod) -> int:
        """How many pods of the preemptor must be nominated before any victim is evicted."""
        gang = self.known.gang_of(pod)
        if pod.group is None or gang is None or preemptor != named(pod.group):
            return 1
        return gang.min_count - sum(self.known.has_node(member) for member in self.known.members(pod.group))


class WholeGangPreemption:
    """A gang that is preempted as a whole leaves no pod running. Checked on the objects in the server."""

    def __init__(self) -> None:
        self._evicted: set[str] = set()  # uids of the pods that ran when the first of their gang was evicted

    def evicted(self, evict: Evict, objects: Mapping[Key, Object]) -> None:
        """The eviction succeeded."""
        pod = objects.get(evict.target.key)
        if not isinstance(pod, Pod) or pod.uid in self._evicted or not _preempted_whole(pod, objects):
            return
        for member in objects.values():
            if isinstance(member, Pod) and member.group == pod.group and member.holds_room:
                self._evicted.add(member.uid)

    def check_settled(self, objects: Iterable[Object], journal: Journal | None) -> None:
        """Checks the end of a run."""
        for found in objects:
            if isinstance(found, Pod) and found.uid in self._evicted and found.holds_room and found.deleted is None:
                raise BrokenInvariant("is running although the rest of its gang was evicted", found.key, journal)


def _preempted_whole(pod: Pod, objects: Mapping[Key, Object]) -> bool:
    if pod.group is None:
        return False
    workload = objects.get(pod.group.workload)
    if not isinstance(workload, Workload):
        return pod.group_total > 0
    group = workload.group(pod.group.group)
    return group is not None and group.gang is not None and group.gang.mode is PreemptionMode.POD_GROUP
