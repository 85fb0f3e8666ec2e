"""Resource lists and what a pod effectively requests of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from headgate.api.containers import Container, ResourceNeeds
from headgate.api.errors import InvalidField
from headgate.api.wire import Amounts, Wire
from headgate.model.quantity import InvalidQuantity, parse_quantity
from headgate.model.resources import CPU, HUGE_PAGES, MEMORY, Resources, amount_text

SCORED_AS: Mapping[str, int] = {CPU: 100, MEMORY: 200 * 1024 * 1024}
"""What scoring assumes of a container that does not say: 100m and 200Mi."""


class PodNeeds(Wire, frozen=True):
    """The parts of a pod's spec that say how much it needs."""

    containers: list[Container]
    init_containers: list[Container] | None = None
    overhead: Amounts | None = None
    resources: ResourceNeeds | None = None


def resources_at(path: str, amounts: Amounts | None) -> Resources:
    """The exact amounts of a resource list found at `path`."""
    return Resources.of(_exact(path, amounts)) if amounts else Resources()


def amount_at(path: str, name: str, amount: str | int | float) -> int:
    """The exact amount of one resource found at `path`."""
    try:
        return _units(name, amount)
    except InvalidQuantity as error:
        raise InvalidField(path, str(error)) from None


def amount_texts(resources: Resources) -> dict[str, str]:
    """The amounts as a resource list writes them, such as 500m or 2Gi."""
    return {name: amount_text(name, amount) for name, amount in resources}


def effective_requests(needs: PodNeeds) -> tuple[Resources, Resources]:
    """What the pod needs of a node, and what scoring takes it to need (see SCORED_AS)."""
    if needs.init_containers or needs.overhead or needs.resources:
        return _effective(needs)
    return _of_containers(tuple([_asked(container) for container in needs.containers]))


Asked = tuple[tuple[str, str | int | float], ...]


def _asked(container: Container) -> Asked:
    resources = container.resources
    return tuple(resources.requests.items()) if resources is not None and resources.requests else ()


@lru_cache(maxsize=16_384)
def _of_containers(asked: tuple[Asked, ...]) -> tuple[Resources, Resources]:
    """As `_effective` for a pod of nothing but containers, as most are: pods of one template are worked out once."""
    return _effective(PodNeeds([Container(resources=ResourceNeeds(dict(amounts))) for amounts in asked]))


def _effective(needs: PodNeeds) -> tuple[Resources, Resources]:
    containers = _each("$.spec.containers", needs.containers)
    steps = _each("$.spec.initContainers", needs.init_containers or ())
    sidecars = [container.is_sidecar for container in needs.init_containers or ()]
    of_pod = _of_whole_pod(needs.resources)
    overhead = _exact("$.spec.overhead", needs.overhead) if needs.overhead else {}

    asked = _total(containers, steps, sidecars, of_pod, overhead)
    defaults = {name: amount for name, amount in SCORED_AS.items() if not of_pod or name not in asked}
    requests = _without_zeros(asked)
    if not _lacks(containers, defaults) and not _lacks(steps, defaults):
        return requests, requests
    scored = _total(_filled(containers, defaults), _filled(steps, defaults), sidecars, of_pod, overhead)
    return requests, _without_zeros({**asked, CPU: scored[CPU], MEMORY: scored[MEMORY]})


def _total(
    containers: Sequence[Mapping[str, int]],
    steps: Sequence[Mapping[str, int]],
    sidecars: Sequence[bool],
    of_pod: Mapping[str, int],
    overhead: Mapping[str, int],
) -> dict[str, int]:
    """The larger of running and starting, unless the pod itself says; overhead comes on top."""
    running = _summed(containers)
    if steps:
        running, starting = _with_init_containers(running, steps, sidecars)
        for name, amount in starting.items():
            running[name] = max(running.get(name, 0), amount)
    running.update(of_pod)
    return _summed((running, overhead)) if overhead else running


def _with_init_containers(
    running: dict[str, int], steps: Sequence[Mapping[str, int]], sidecars: Sequence[bool]
) -> tuple[dict[str, int], dict[str, int]]:
    """What runs in the end (with every sidecar), and the most that any step of starting needs at once."""
    beside: dict[str, int] = {}  # the sidecars started so far
    most: dict[str, int] = {}
    for step, is_sidecar in zip(steps, sidecars, strict=True):
        together = _summed((beside, step))
        for name, amount in together.items():
            most[name] = max(most.get(name, 0), amount)
        if is_sidecar:
            beside = together
    return _summed((running, beside)), most


def _summed(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    if not parts:
        return {}
    amounts = dict(parts[0])
    for part in parts[1:]:
        for name, amount in part.items():
            amounts[name] = amounts.get(name, 0) + amount
    return amounts


def _without_zeros(amounts: Mapping[str, int]) -> Resources:
    return Resources.of({name: amount for name, amount in amounts.items() if amount})


def _lacks(containers: Sequence[Mapping[str, int]], defaults: Mapping[str, int]) -> bool:
    return any(name not in container for container in containers for name in defaults)


def _filled(containers: Sequence[Mapping[str, int]], defaults: Mapping[str, int]) -> list[Mapping[str, int]]:
    return [{**defaults, **container} for container in containers]


def _each(path: str, containers: Sequence[Container]) -> list[dict[str, int]]:
    """What each container asks for."""
    return [
        _exact(f"{path}[{index}].resources.requests", container.resources.requests)
        if container.resources is not None and container.resources.requests
        else {}
        for index, container in enumerate(containers)
    ]


def _of_whole_pod(resources: ResourceNeeds | None) -> dict[str, int]:
    """What the pod as a whole asks for, where it may: cpu, memory and huge pages."""
    if resources is None or not resources.requests:
        return {}
    amounts = _exact("$.spec.resources.requests", resources.requests)
    return {name: amount for name, amount in amounts.items() if name in SCORED_AS or name.startswith(HUGE_PAGES)}


def _exact(path: str, amounts: Amounts) -> dict[str, int]:
    return {name: _amount(path, name, amount) for name, amount in amounts.items()}


def _amount(path: str, name: str, amount: str | int | float) -> int:
    try:
        return _units(name, amount)
    except InvalidQuantity as error:
        raise InvalidField(f"{path}.{name}", str(error)) from None


def _units(name: str, amount: str | int | float) -> int:
    return _milli(str(amount)) if name == CPU else _whole(str(amount))


@lru_cache(maxsize=4096)
def _milli(text: str) -> int:
    return parse_quantity(text).milli_value


@lru_cache(maxsize=4096)
def _whole(text: str) -> int:
    return parse_quantity(text).value
