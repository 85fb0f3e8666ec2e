"""What pods will really ask for once a server has completed them, and whether the server would let them be.

Limit ranges of their namespace give containers what they do not say themselves and set bounds; runtime classes add an
overhead. The words are those people search for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct, structs

from headgate.model.limits import Bounds, LimitRange
from headgate.model.needs import ContainerNeeds, PodParts, TemplateNeeds, is_asked_of_whole_pods, total_requests
from headgate.model.queues import PodSet
from headgate.model.resources import Resources

ABOVE_LIMIT = "requests must not exceed its limits"
ABOVE_MAX = "requests must not be above the limitRange max"
BELOW_MIN = "requests must not be below the limitRange min"
INVALID = "resources validation failed"
OUT_OF_BOUNDS = "resources didn't satisfy LimitRange constraints"


class Limits(Struct, frozen=True, gc=False, cache_hash=True):
    """All limit ranges of a namespace together; None where there are none for containers, or for pods."""

    container: Bounds | None = None
    pod: Bounds | None = None


class Adjustments(Struct, frozen=True, gc=False):
    """What holds for the workloads of one namespace; `overheads` are those of all runtime classes, by name."""

    limits: Limits = Limits()
    overheads: Mapping[str, Resources] = {}

    def overhead_of(self, needs: TemplateNeeds) -> Resources:
        """What the template itself says goes before what its runtime class says."""
        if needs.overhead.items or not needs.runtime_class:
            return needs.overhead
        return self.overheads.get(needs.runtime_class, Resources())


NO_LIMITS, NO_ADJUSTMENTS = Limits(), Adjustments()


def limits_of(ranges: Iterable[LimitRange]) -> Limits:
    """The tightest bounds of all; of the defaults the first counts, with ranges in the order of their names."""
    ordered = sorted(ranges, key=lambda one: one.key)
    containers = [bounds for one in ordered for bounds in one.containers]
    pods = [bounds for one in ordered for bounds in one.pods]
    return Limits(_tightest(containers), _tightest(pods))


def requests_of(pod_set: PodSet, around: Adjustments) -> Resources:
    """What one of its pods asks for."""
    overhead = around.overhead_of(pod_set.needs)
    if around.limits == NO_LIMITS and overhead == pod_set.needs.overhead:
        return pod_set.shape.requests
    return _requests(pod_set.needs, around.limits, overhead)


def problem_of(pod_sets: Sequence[PodSet], around: Adjustments) -> str:
    """Why no server would have such pods; empty when nothing is wrong with them."""
    over: list[str] = []
    out: list[str] = []
    for index, pod_set in enumerate(pod_sets):
        above, outside = _errors(pod_set.needs, around.limits, around.overhead_of(pod_set.needs), index)
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


@lru_cache(maxsize=16_384)
def _requests(needs: TemplateNeeds, limits: Limits, overhead: Resources) -> Resources:
    asked = _total(_completed(needs, limits, overhead))
    return Resources.of({name: amount for name, amount in asked if amount})


@lru_cache(maxsize=16_384)
def _errors(
    needs: TemplateNeeds, limits: Limits, overhead: Resources, index: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where requests are above limits, and where they are out of the bounds of limit ranges."""
    path = f"spec.podSets[{index}].template.spec"
    completed = _completed(needs, limits, overhead)
    return tuple(_above_limits(completed, path)), tuple(_out_of_bounds(completed, limits, path))


def _completed(needs: TemplateNeeds, limits: Limits, overhead: Resources) -> TemplateNeeds:
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


def _out_of_bounds(needs: TemplateNeeds, limits: Limits, path: str) -> Iterator[str]:
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
