"""Preemption by queue: victims for pods that their Volcano queue has no capacity for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

from msgspec import Struct

from headgate.engine.scheduler.cache import ClusterCache
from headgate.engine.scheduler.preempt import PreemptStage
from headgate.engine.scheduler.queue_capacity import QueueCapacity
from headgate.model.effects import Effect
from headgate.model.groups import GroupKey
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.preemption.search import Preemptor
from headgate.preemption.units import Unit
from headgate.preemption.volcano import QueueUnit, Use, add, may_reclaim, remove, victims_elsewhere, victims_within
from headgate.queueing.queue import QueuedPodInfo
from headgate.quota.volcano import VolcanoQueueNode


class QueuePreemptionResult(Struct, frozen=True):
    """What is done for an entry that its queue has no capacity for, in words and in effects."""

    says: str = ""
    effects: tuple[Effect, ...] = ()


NOTHING = QueuePreemptionResult()


class QueuePreemptStage:
    """A search that found nothing is not repeated for pods alike until something changed."""

    def __init__(
        self,
        cache: ClusterCache,
        capacity: QueueCapacity,
        preempt: PreemptStage,
        enabled: frozenset[str],
        *,
        keeps: Callable[[Iterable[Pod]], bool],
    ) -> None:
        self._cache = cache
        self._capacity = capacity
        self._preempt = preempt
        self._enabled = enabled  # the schedulerNames whose profile has preemption on
        self._keeps = keeps  # whether pods reserve what victims leave them, if no node fits
        self._in_vain: dict[Hashable, None] = {}
        self._in_vain_at = -1

    def run(
        self, info: QueuedPodInfo, pods: list[Pod], needed: int, alike: Hashable, now: float
    ) -> QueuePreemptionResult:
        """Evicts pods so that the first `needed` of these fit their queue, or says for whom they wait."""
        if info.pod.scheduler_name not in self._enabled or not all(pod.preempts for pod in pods):
            return NOTHING
        if self._in_vain_at != self._capacity.use_changes:
            self._in_vain_at = self._capacity.use_changes
            self.forget_failed_searches()
        kept = self._capacity.kept_from(alike)
        alike = (info.key if info.group is not None or alike is None else alike), bool(kept)
        if alike in self._in_vain:
            return NOTHING
        found = self._victims(pods[:needed], info.pod.priority, kept)
        preemptor = Preemptor(info.group or info.pod.key, tuple(pods[:needed]), needed, info.pod.priority)
        if found and not self._keeps(pods) and not self._preempt.fits_without(info, [each.unit for each in found], now):
            found = None
        if found is None:
            self._in_vain[alike] = None
            return NOTHING
        if not found:
            return QueuePreemptionResult("waiting for pods that are leaving")
        effects = tuple(self._preempt.evict_units(info.key, preemptor, [each.unit for each in found], now))
        for pod in (pod for each in found for pod in each.unit.pods):
            self._capacity.leaves(pod.key)
        leaving = sum(len(each.unit.pods) for each in found)
        return QueuePreemptionResult(f"preempting {leaving} pods for it", effects)

    def forget_failed_searches(self) -> None:
        self._in_vain.clear()

    def _victims(self, pods: list[Pod], priority: int, kept: tuple[Use, ...]) -> list[QueueUnit] | None:
        """What is `kept` for others counts as taken: then victims of its own queue alone can help."""
        wanted = self._capacity.wanted(pods)
        if not wanted:
            return None
        node = wanted[0][0]
        own = list(self._units(node))
        add(kept)
        within = victims_within(wanted, priority, own, self._going([node]))
        remove(kept)
        if within is not None or kept or not may_reclaim(wanted):
            return within
        everywhere = [level for level in self._capacity.nodes() if level is not node]
        units = [unit for each in everywhere for unit in self._units(each)]
        return victims_elsewhere(wanted, units, self._going([node, *everywhere]))

    def _running(self, node: VolcanoQueueNode) -> Iterator[Pod]:
        for key in self._capacity.pods_of(node.name):
            charge = self._cache.nodes.charge_of(key)
            if charge is not None:
                yield charge[1]

    def _going(self, nodes: list[VolcanoQueueNode]) -> list[Use]:
        return [(node, pod.shape.requests) for node in nodes for pod in self._running(node) if pod.deleted is not None]

    def _units(self, node: VolcanoQueueNode) -> Iterator[QueueUnit]:
        """The running pods of the queue; gangs that leave whole are one unit, with members of whatever queue."""
        seen: dict[Key | GroupKey, None] = {}
        for pod in self._running(node):
            standing = self._cache.groups.standing(pod)
            whole = standing.whole and standing.gang is not None
            key = standing.gang if whole and standing.gang is not None else pod.key
            if pod.deleted is not None or key in seen:
                continue
            seen[key] = None
            members = self._members(standing.gang) if whole and standing.gang is not None else [pod]
            uses = [use for member in members if (use := self._use(member)) is not None]
            created = max(member.created for member in members)
            yield QueueUnit(Unit(key, standing.priority, tuple(members)), tuple(uses), created)

    def _members(self, gang: GroupKey) -> list[Pod]:
        found = [self._cache.nodes.charge_of(pod.key) for pod in self._cache.groups.pods_of(gang.workload)]
        return [each[1] for each in found if each is not None and each[1].group == gang and each[1].deleted is None]

    def _use(self, pod: Pod) -> Use | None:
        node = self._capacity.node(self._capacity.queue_of(pod))
        return (node, pod.shape.requests) if node is not None else None
