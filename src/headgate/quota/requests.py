"""What a workload asks of quota, and what it holds of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from headgate.model.pod import PodShape
from headgate.model.quantity import LARGEST
from headgate.model.queues import PodSet, PodSetAssignment, QueuedWorkload
from headgate.model.quota_settings import QuotaSettings, Transformation
from headgate.model.resources import Resources
from headgate.quota.adjusting import NO_ADJUSTMENTS, Adjustments, requests_of
from headgate.quota.ledger import Holder
from headgate.quota.tree import FlavorResource, Usage, usage_of

CPU = "cpu"


class Ask(Struct, frozen=True, gc=False, cache_hash=True):
    """What one pod set asks for: so much for each of so many pods, of which fewer may do."""

    name: str
    count: int
    each: Resources
    min_count: int | None = None
    shape: PodShape = PodShape()

    def scaled(self, count: int) -> Resources:
        """Saturated, so that what is reserved is what the workload's status says when it is read again."""
        return Resources(tuple((name, min(amount * count, LARGEST)) for name, amount in self.each.items))

    @property
    def spare(self) -> int:
        """How many pods it can do without."""
        return 0 if self.min_count is None else max(0, self.count - self.min_count)


def asks_of(workload: QueuedWorkload, settings: QuotaSettings, around: Adjustments = NO_ADJUSTMENTS) -> tuple[Ask, ...]:
    """One for each pod set, without the pods that are done for good."""
    done = dict(workload.reclaimable)
    return tuple(_ask(pod_set, done.get(pod_set.name, 0), settings, around) for pod_set in workload.pod_sets)


def _ask(pod_set: PodSet, done: int, settings: QuotaSettings, around: Adjustments) -> Ask:
    each = counted(requests_of(pod_set, around), settings)
    return Ask(pod_set.name, max(0, pod_set.count - done), each, pod_set.min_count, pod_set.shape)


def counted(requests: Resources, settings: QuotaSettings) -> Resources:
    """The requests of one pod as quota counts them: some left out, some counted as others."""
    kept = {
        name: max(0, amount) for name, amount in requests if not name.startswith(settings.excluded_prefixes or "\0")
    }
    if not settings.transformations:
        return Resources.of(kept)
    asked, made = dict(kept), dict[str, int]()
    for rule in settings.transformations:
        if rule.source in asked:
            _transform(rule, asked, made)
            if not rule.keeps:
                del kept[rule.source]
    for name, amount in made.items():
        kept[name] = kept.get(name, 0) + max(0, amount)
    return Resources.of(kept)


def _transform(rule: Transformation, asked: Mapping[str, int], made: dict[str, int]) -> None:
    times = _whole_units(rule.source, asked)
    if rule.multiplied_by:
        times *= _whole_units(rule.multiplied_by, asked)
    for name, amount in rule.outputs:
        made[name] = made.get(name, 0) + amount * times


def _whole_units(name: str, asked: Mapping[str, int]) -> int:
    amount = asked.get(name, 0)
    return -(-amount // 1000) if name == CPU else amount


def usage_held(workload: QueuedWorkload) -> Usage:
    """What its admission gave it, less the share of pods that are done for good since."""
    if workload.admission is None:
        return ()
    return _usage_held(workload.admission.pod_sets, workload.reclaimable, workload.pod_sets)


@lru_cache(maxsize=16_384)  # most that are admitted to a queue are like others
def _usage_held(
    given: tuple[PodSetAssignment, ...], reclaimable: tuple[tuple[str, int], ...], pod_sets: tuple[PodSet, ...]
) -> Usage:
    done, counts = dict(reclaimable), {pod_set.name: pod_set.count for pod_set in pod_sets}
    held: dict[FlavorResource, int] = {}
    for one in given:
        left = min(one.count, counts.get(one.name, one.count) - done.get(one.name, 0))
        for resource, flavor in one.flavors:
            of = _flavor_resource(flavor, resource)
            amount = one.usage[resource]
            held[of] = held.get(of, 0) + (amount if left == one.count else amount * max(0, left) // max(1, one.count))
    return usage_of(held)


@lru_cache(maxsize=4096)
def _flavor_resource(flavor: str, resource: str) -> FlavorResource:
    """The very same for all, for it is looked up in dicts all the time."""
    return FlavorResource(flavor, resource)


def holder_of(workload: QueuedWorkload, ordered: float) -> Holder | None:
    """The workload as holder of quota; None when it has none reserved."""
    if workload.admission is None:
        return None
    reserved, evicted = 0.0, False
    for condition in workload.conditions:
        if condition.status == "True":
            if condition.type == "QuotaReserved":
                reserved = condition.at
            elif condition.type == "Evicted":
                evicted = True
    return Holder(
        workload.key,
        workload.uid,
        workload.admission.cluster_queue,
        usage_held(workload),
        workload.priority + workload.boost,
        ordered,
        reserved,
        evicted,
        workload.queue,
    )
