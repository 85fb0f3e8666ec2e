"""Preemption by queue: victims for pods that their Volcano queue has no capacity for, and whose pods leave a node.

A queue keeps what it deserves, whoever comes. What it uses beyond that it gives back to a pod whose queue stays within
what that one deserves, and otherwise to pods of higher priority.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from msgspec import Struct

from headgate.engine.deadlines import Deadlines
from headgate.engine.scheduler.cache import ClusterCache
from headgate.engine.scheduler.capacity import NotNow
from headgate.engine.scheduler.preempt import PreemptStage
from headgate.engine.scheduler.queue_capacity import QueueCapacity
from headgate.engine.scheduler.queue_refusals import UNSCHEDULABLE, reason_for
from headgate.model.cluster_events import ClusterEvent
from headgate.model.effects import Effect
from headgate.model.keys import Key
from headgate.model.pod import GroupKey, Pod
from headgate.model.resources import Resources
from headgate.preemption.candidates import BY_PRIORITY, Reach
from headgate.preemption.search import Preemptor
from headgate.preemption.units import Unit
from headgate.preemption.volcano import (
    QueueUnit,
    Use,
    add,
    givable,
    remove,
    victims_elsewhere,
    victims_within,
)
from headgate.queueing.queue import QueuedPodInfo
from headgate.quota.volcano import VolcanoQueueNode


class QueuePreemptionResult(Struct, frozen=True):
    """What is done for an entry that its queue has no capacity for, in words and in effects."""

    says: str = ""
    effects: tuple[Effect, ...] = ()
    wake_on: frozenset[ClusterEvent] = frozenset()  # what may change that nothing is done


NOTHING = QueuePreemptionResult()


class QueueUnits:
    """The running pods of queues, as the units that are evicted together."""

    def __init__(self, cache: ClusterCache, capacity: QueueCapacity) -> None:
        self._cache = cache
        self._capacity = capacity

    def reaches(self, preemptor: Preemptor) -> tuple[Reach, ...]:
        """Whom a preemptor that no node fits may evict: first by priority, then what other queues give back."""
        capacity = self._capacity
        mine = capacity.usage.node(capacity.queue_of(preemptor.pods[0])) if capacity.in_use else None
        if mine is None:
            return (BY_PRIORITY,)
        others = [node for node in capacity.usage.tree if node is not mine]
        pods = {pod for node in others for pod in capacity.usage.pods_of(node.name)}
        if not pods:
            return (BY_PRIORITY,)
        needed = preemptor.pods[: max(1, preemptor.needed)]
        wanted = [(mine, pod.shape.requests) for pod in needed]
        given = self._given(wanted, others, apart=preemptor.single)
        by_priority = Reach(frozenset(pods - given))
        if not given or not capacity.within_deserved(needed, mine):
            return (by_priority,)
        return by_priority, Reach(by_priority.kept, frozenset(given))

    def _given(self, wanted: list[Use], others: list[VolcanoQueueNode], *, apart: bool) -> set[Key]:
        """The pods that other queues give back; what one pod may have on a node does not depend on other nodes."""
        places: dict[str, list[QueueUnit]] = {}
        for unit in [unit for node in others for unit in self.of(node)]:
            for name in self._nodes_of(unit) if apart else ("",):
                places.setdefault(name, []).append(unit)
        going = self.going(others)
        found = [unit for here in places.values() for unit in givable(wanted, here, going)]
        return {pod.key for each in found for pod in each.unit.pods}

    def _nodes_of(self, unit: QueueUnit) -> Iterable[str]:
        charges = [self._cache.nodes.charge_of(pod.key) for pod in unit.unit.pods]
        return dict.fromkeys(charge[0] for charge in charges if charge is not None)

    def running(self, node: VolcanoQueueNode) -> Iterator[Pod]:
        for key in self._capacity.usage.pods_of(node.name):
            charge = self._cache.nodes.charge_of(key)
            if charge is not None:
                yield charge[1]

    def going(self, nodes: list[VolcanoQueueNode]) -> list[Use]:
        return [(node, pod.shape.requests) for node in nodes for pod in self.running(node) if pod.deleted is not None]

    def of(self, node: VolcanoQueueNode) -> Iterator[QueueUnit]:
        """The running pods of the queue; gangs that leave whole are one unit, with members of whatever queue."""
        seen: dict[Key | GroupKey, None] = {}
        before: dict[tuple[str, int], Resources] = {}  # reserved before running pods, which differ in priority only
        for pod in self.running(node):
            standing = self._cache.groups.standing(pod)
            whole = standing.whole and standing.gang is not None
            key = standing.gang if whole and standing.gang is not None else pod.key
            if pod.deleted is not None or key in seen:
                continue
            seen[key] = None
            members = self._members(standing.gang) if whole and standing.gang is not None else [pod]
            uses = [(member, use) for member in members if (use := self._use(member)) is not None]
            alike = [(use[0].name, member.priority) for member, use in uses]
            for known, (member, use) in zip(alike, uses, strict=True):
                if known not in before:
                    before[known] = self._capacity.reservations.held_before(member, use[0])
            created = max(member.created for member in members)
            unit = Unit(key, standing.priority, tuple(members))
            reserved = tuple(before[known] for known in alike)
            yield QueueUnit(unit, tuple(use for _, use in uses), created, reserved)

    def _members(self, gang: GroupKey) -> list[Pod]:
        found = [self._cache.nodes.charge_of(pod.key) for pod in self._cache.groups.pods_of(gang.workload)]
        return [each[1] for each in found if each is not None and each[1].group == gang and each[1].deleted is None]

    def _use(self, pod: Pod) -> Use | None:
        node = self._capacity.usage.node(self._capacity.queue_of(pod))
        return (node, pod.shape.requests) if node is not None else None


class QueuePreemptStage:
    """A search that found nothing is not repeated for entries of the same class until something changed."""

    def __init__(
        self,
        units: QueueUnits,
        capacity: QueueCapacity,
        preempt: PreemptStage,
        alike_on_nodes: Callable[[QueuedPodInfo], Hashable],
    ) -> None:
        self._units = units
        self._capacity = capacity
        self._preempt = preempt
        self._alike_on_nodes = alike_on_nodes  # what an entry shares with others that fit the same nodes
        self._in_vain: dict[Hashable, QueuePreemptionResult] = {}
        self._in_vain_at = -1

    def run(
        self, info: QueuedPodInfo, pods: list[Pod], needed: int, alike: Hashable, now: float
    ) -> QueuePreemptionResult:
        """Evicts pods so that the first `needed` of these fit their queue, or says for whom they wait.

        `alike`: what the entry shares with others that got the same answer of the queue.
        """
        if not self._may_evict(pods):
            return NOTHING
        if self._in_vain_at != self._capacity.usage.changes:
            self._in_vain_at = self._capacity.usage.changes
            self.forget_failed_searches()
        found_kept = self._capacity.kept_from(alike)
        kept = found_kept.wanted if found_kept is not None else ()
        alike = info.equivalence, bool(kept)
        if alike in self._in_vain:
            return self._in_vain[alike]
        found = self._victims(pods[:needed], info.pod.priority, kept)
        units = [each.unit for each in found or ()]
        refused = self._preempt.refused_without(info, units, now) if units and not self._capacity.keeps(pods) else None
        if found is None or refused is not None:
            return self._in_vain.setdefault(alike, QueuePreemptionResult(wake_on=refused or frozenset()))
        if not found:
            return QueuePreemptionResult("waiting for pods that are leaving")
        preemptor = Preemptor(info.group or info.pod.key, tuple(pods[:needed]), needed, info.pod.priority)
        effects = tuple(self._preempt.evict_units(info.key, preemptor, units, now))
        for pod in (pod for unit in units for pod in unit.pods):
            self._capacity.leaves(pod.key)
        leaving = sum(len(unit.pods) for unit in units)
        return QueuePreemptionResult(f"preempting {leaving} pods for it", effects)

    def equivalence(self, info: QueuedPodInfo, pods: Sequence[Pod]) -> Hashable:
        """Tells entries apart that their queue answers alike, and for which victims help one and not the other."""
        if not self._may_evict(pods):
            return None
        return "" if self._capacity.keeps(pods) else self._alike_on_nodes(info)

    def _may_evict(self, pods: Iterable[Pod]) -> bool:
        return all(map(self._capacity.may_evict, pods))

    def forget_failed_searches(self) -> None:
        self._in_vain.clear()

    def _victims(self, pods: list[Pod], priority: int, kept: tuple[Use, ...]) -> list[QueueUnit] | None:
        """What is `kept` for others counts as taken: then victims of its own queue alone can help."""
        wanted = self._capacity.wanted(pods)
        if not wanted:
            return None
        node = wanted[0][0]
        own = list(self._units.of(node))
        add(kept)
        within = victims_within(wanted, priority, own, self._units.going([node]))
        remove(kept)
        if within is not None or kept or not self._capacity.within_deserved(pods, node):
            return within
        everywhere = [level for level in self._capacity.usage.tree if level is not node]
        units = [unit for each in everywhere for unit in self._units.of(each)]
        return victims_elsewhere(wanted, units, self._units.going([node, *everywhere]))


class ReclaimedNodes:
    """A capacity stage: what a queue takes back on a node does not go to those it is taken from.

    A pod that waits for its victims keeps its node from pods of its priority or less. Victims of another queue may have
    a higher one, and would come back and be evicted again for ever. So a pod that puts its queue above what it
    deserves, and may run on a node that is nominated to a pod of lower priority whose queue is within what that one
    deserves, waits until that pod has it. A pod that should be gone from the node by now, and is not, keeps nobody
    waiting: `overdue` says when that will be.
    """

    name = "QueueReclaim"
    wake_on = frozenset({ClusterEvent.CANDIDATES_CHANGED, ClusterEvent.QUEUE_CAPACITY_FREED, ClusterEvent.ROOM_FREED})

    def __init__(self, cache: ClusterCache, capacity: QueueCapacity) -> None:
        self._nodes = cache.nodes
        self._nominations = cache.nominations
        self._note = cache.note
        self._capacity = capacity
        self.overdue = Deadlines[str]()  # by node that pods wait for: when one that leaves it should be gone

    def wake(self, now: float) -> None:
        """Has pods tried again that waited for a node which a pod did not leave in time."""
        if self.overdue.due(now):
            self._note(ClusterEvent.ROOM_FREED)

    def check(self, pods: Sequence[Pod], needed: int) -> NotNow | None:
        if not self._capacity.in_use or not self._nominations:
            return None
        promised = [pod for pod in self._nominations.pods.values() if self._takes_back(pod)]
        for allowed, pod in enumerate(pods if promised else ()):
            queue = self._capacity.queue_of(pod)
            before = [one for one in promised if one.priority < pod.priority and self._wants_same_node(pod, queue, one)]
            node = self._capacity.usage.node(queue)
            if before and node is not None and not self._capacity.within_deserved(pods[: allowed + 1], node):
                first = min(before, key=lambda one: one.key)
                for name in dict.fromkeys(one.nominated for one in before):
                    self._expect(name)
                theirs = self._capacity.queue_of(first)
                message = f"waiting until queue {theirs} has taken back what it deserves on node {first.nominated}"
                reserves = pod.key in self._capacity.in_force  # an autoscaler may bring another node for it
                reason = UNSCHEDULABLE if reserves else reason_for(pod)
                alike = (queue, pod.shape.requests, pod.priority, reason)
                return NotNow(reason, message, self.wake_on, {"queue": queue}, allowed, alike)
        return None

    def _wants_same_node(self, pod: Pod, queue: str, promised: Pod) -> bool:
        """Whether a pod of this queue may run on the node that is promised to one of another queue."""
        node = self._nodes.get(promised.nominated)
        if node is None or self._capacity.queue_of(promised) == queue:
            return False
        return all(node.labels.get(name) == value for name, value in pod.shape.node_selector)

    def _takes_back(self, pod: Pod) -> bool:
        if any(gone_by <= self._capacity.now for gone_by in self._leaving(pod.nominated)):
            return False
        node = self._capacity.usage.node(self._capacity.queue_of(pod))
        return node is not None and self._capacity.within_deserved([pod], node)

    def _expect(self, node: str) -> None:
        leaving = self._leaving(node)
        if leaving:
            self.overdue.set(node, min(leaving))

    def _leaving(self, node: str) -> list[float]:
        """When the pods that leave this node should be gone."""
        return [one.deleted for one in self._nodes.pods_on(node) if one.deleted is not None]
