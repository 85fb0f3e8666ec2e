"""What a workload requests of quota, after limit ranges, overheads and transformations, and what it holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from headgate.model.objects import Bounds, LimitRange
from headgate.model.pod import PodShape
from headgate.model.quantity import LARGEST
from headgate.model.queues import PodSet, QueuedWorkload
from headgate.model.resources import (
    ContainerNeeds,
    PodParts,
    Resources,
    TemplateNeeds,
    is_asked_of_whole_pods,
    total_requests,
)
from headgate.model.settings import QuotaSettings, Transformation
from headgate.quota.ledger import Reservation
from headgate.quota.tree import FlavorResource, Usage, usage_of

ABOVE_LIMIT = "requests must not exceed its limits"
ABOVE_MAX = "requests must not be above the limitRange max"
BELOW_MIN = "requests must not be below the limitRange min"
INVALID = "resources validation failed"
OUT_OF_BOUNDS = "resources didn't satisfy LimitRange constraints"


class NamespaceLimits(Struct, frozen=True, gc=False, cache_hash=True):
    """All limit ranges of a namespace together; None where there are none for containers, or for pods."""

    container: Bounds | None = None
    pod: Bounds | None = None


class Adjustments(Struct, frozen=True, gc=False):
    """What holds for the workloads of one namespace; `overheads` are those of all runtime classes, by name."""

    limits: NamespaceLimits = NamespaceLimits()
    overheads: Mapping[str, Resources] = {}

    def overhead_of(self, needs: TemplateNeeds) -> Resources:
        """What the template itself says goes before what its runtime class says."""
        if needs.overhead.items or not needs.runtime_class:
            return needs.overhead
        return self.overheads.get(needs.runtime_class, Resources())


NO_LIMITS, NO_ADJUSTMENTS = NamespaceLimits(), Adjustments()


def limits_of(ranges: Iterable[LimitRange]) -> NamespaceLimits:
    """The tightest bounds of all; of the defaults the first counts, with ranges in the order of their names."""
    ordered = sorted(ranges, key=lambda one: one.key)
    containers = [bounds for one in ordered for bounds in one.containers]
    pods = [bounds for one in ordered for bounds in one.pods]
    return NamespaceLimits(_tightest(containers), _tightest(pods))


def requests_of(pod_set: PodSet, adjustments: Adjustments) -> Resources:
    """The requests of one of its pods."""
    overhead = adjustments.overhead_of(pod_set.needs)
    if adjustments.limits == NO_LIMITS and overhead == pod_set.needs.overhead:
        return pod_set.shape.requests
    return _requests(pod_set.needs, adjustments.limits, overhead)


def problem_of(pod_sets: Sequence[PodSet], adjustments: Adjustments) -> str:
    """Why an API server would refuse such pods; empty when it would not."""
    over: list[str] = []
    out: list[str] = []
    for index, pod_set in enumerate(pod_sets):
        above, outside = _errors(pod_set.needs, adjustments.limits, adjustments.overhead_of(pod_set.needs), index)
        over += above
        out += outside
    if over:
        return f"{INVALID}: {_together(over)}"
    return f"{OUT_OF_BOUNDS}: {_together(out)}" if out else ""


def _tightest(bounds: Sequence[Bounds]) -> Bounds | None:
    if not bounds:
        return None
    return Bounds(
        max=_merged([one.max for one in bounds], min),
        min=_merged([one.min for one in bounds], max),
        default=_merged([one.default for one in bounds], _first),
        default_request=_merged([one.default_request for one in bounds], _first),
    )


def _merged(parts: Iterable[Resources], choose: Callable[[int, int], int]) -> Resources:
    """All amounts; where several name the same resource, the chosen one."""
    amounts: dict[str, int] = {}
    for part in parts:
        for name, amount in part:
            amounts[name] = choose(amounts[name], amount) if name in amounts else amount
    return Resources.of(amounts)


def _first(one: int, _other: int) -> int:
    return one


def _requests(needs: TemplateNeeds, limits: NamespaceLimits, overhead: Resources) -> Resources:
    asked = _total(_completed(needs, limits, overhead))
    return Resources.of({name: amount for name, amount in asked if amount})


def _errors(
    needs: TemplateNeeds, limits: NamespaceLimits, overhead: Resources, index: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where requests are above limits, and where they are out of the bounds of limit ranges."""
    path = f"spec.podSets[{index}].template.spec"
    completed = _completed(needs, limits, overhead)
    return tuple(_above_limits(completed, path)), tuple(_out_of_bounds(completed, limits, path))


def _completed(needs: TemplateNeeds, limits: NamespaceLimits, overhead: Resources) -> TemplateNeeds:
    whole = needs.whole_pod
    return structs.replace(
        needs,
        containers=tuple(_filled(one, limits.container) for one in needs.containers),
        init_containers=tuple(_filled(one, limits.container) for one in needs.init_containers),
        whole_pod=None if whole is None else _filled(whole, limits.pod),
        overhead=overhead,
    )


def _filled(needs: ContainerNeeds, bounds: Bounds | None) -> ContainerNeeds:
    """Defaults where nothing is said; who then has a limit and asks for nothing asks for that much."""
    defaults = bounds or Bounds()
    limits = _merged((needs.limits, defaults.default), _first)
    requests = _merged((needs.requests, defaults.default_request, limits), _first)
    return ContainerNeeds(requests, limits, needs.is_sidecar)


def _total(needs: TemplateNeeds) -> Resources:
    whole = needs.whole_pod.requests if needs.whole_pod is not None else Resources()
    parts = PodParts(
        containers=[dict(one.requests) for one in needs.containers],
        steps=[dict(one.requests) for one in needs.init_containers],
        sidecars=[one.is_sidecar for one in needs.init_containers],
        whole_pod={name: amount for name, amount in whole if is_asked_of_whole_pods(name)},
        overhead=dict(needs.overhead),
    )
    return Resources.of(total_requests(parts))


def _places(needs: TemplateNeeds, path: str) -> Iterator[tuple[str, ContainerNeeds]]:
    for field, containers in (("initContainers", needs.init_containers), ("containers", needs.containers)):
        yield from ((f"{path}.{field}[{index}]", one) for index, one in enumerate(containers))


def _above_limits(needs: TemplateNeeds, path: str) -> Iterator[str]:
    whole = () if needs.whole_pod is None else ((f"{path}.resources", needs.whole_pod),)
    for place, one in (*_places(needs, path), *whole):
        yield from _wrong(place, _greater(one.requests, one.limits), ABOVE_LIMIT)


def _out_of_bounds(needs: TemplateNeeds, limits: NamespaceLimits, path: str) -> Iterator[str]:
    if limits.container is not None:
        for place, one in _places(needs, path):
            least, most = (_merged((one.requests, one.limits), choose) for choose in (min, max))
            yield from _beyond(place, least, most, limits.container)
    if limits.pod is not None:
        total = _total(needs)
        yield from _beyond(path, total, total, limits.pod)


def _beyond(place: str, least: Resources, most: Resources, bounds: Bounds) -> Iterator[str]:
    yield from _wrong(place, _greater(most, bounds.max), ABOVE_MAX)
    yield from _wrong(place, _greater(bounds.min, least), BELOW_MIN)


def _greater(one: Resources, other: Resources) -> list[str]:
    """The resources both name of which the first has more."""
    amounts = dict(other)
    return [name for name, amount in one if name in amounts and amount > amounts[name]]


def _wrong(place: str, names: Sequence[str], why: str) -> Iterator[str]:
    if names:
        yield f"{place}: Invalid value: {json.dumps(names, separators=(',', ':'))}: {why}"


def _together(errors: Sequence[str]) -> str:
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"


CPU = "cpu"


class PodSetRequests(Struct, frozen=True, gc=False, cache_hash=True):
    """The requests of one pod set: per pod, and for how many pods, of which fewer may do."""

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
        """How many pods partial admission may leave out."""
        return 0 if self.min_count is None else max(0, self.count - self.min_count)


def pod_set_requests_of(
    workload: QueuedWorkload, settings: QuotaSettings, adjustments: Adjustments = NO_ADJUSTMENTS
) -> tuple[PodSetRequests, ...]:
    """One for each pod set, without the pods that are done for good."""
    done = dict(workload.status.reclaimable)
    return tuple(
        _pod_set_requests(pod_set, done.get(pod_set.name, 0), settings, adjustments) for pod_set in workload.pod_sets
    )


def _pod_set_requests(pod_set: PodSet, done: int, settings: QuotaSettings, adjustments: Adjustments) -> PodSetRequests:
    each = counted(requests_of(pod_set, adjustments), settings)
    return PodSetRequests(pod_set.name, max(0, pod_set.count - done), each, pod_set.min_count, pod_set.shape)


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
    if workload.status.admission is None:
        return ()
    done, counts = dict(workload.status.reclaimable), {pod_set.name: pod_set.count for pod_set in workload.pod_sets}
    held: dict[FlavorResource, int] = {}
    for one in workload.status.admission.pod_sets:
        left = min(one.count, counts.get(one.name, one.count) - done.get(one.name, 0))
        for resource, flavor in one.flavors:
            of = FlavorResource(flavor, resource)
            amount = one.usage[resource]
            held[of] = held.get(of, 0) + (amount if left == one.count else amount * max(0, left) // max(1, one.count))
    return usage_of(held)


def reservation_of(workload: QueuedWorkload, ordered: float) -> Reservation | None:
    """The reservation of the workload; None when it has none."""
    if workload.status.admission is None:
        return None
    reserved, evicted = 0.0, False
    for condition in workload.status.conditions:
        if condition.status == "True":
            if condition.type == "QuotaReserved":
                reserved = condition.at
            elif condition.type == "Evicted":
                evicted = True
    return Reservation(
        workload.key,
        workload.uid,
        workload.status.admission.cluster_queue,
        usage_held(workload),
        workload.priority + workload.boost,
        ordered,
        reserved,
        evicted,
        workload.queue,
    )
