"""Decodes containers and resource lists, and sums what a pod requests of a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import field

from headgate.api.wire import Amounts, Int32, InvalidField, Wire
from headgate.model.node import HostPort
from headgate.model.quantity import InvalidQuantity, Quantity, parse_quantity
from headgate.model.resources import (
    CPU,
    MEMORY,
    PodParts,
    Resources,
    amount_text,
    is_asked_of_whole_pods,
    total_requests,
)

SCORED_AS: Mapping[str, int] = {CPU: 100, MEMORY: 200 * 1024 * 1024}
"""What scoring assumes of a container that does not say: 100m and 200Mi."""


class WirePodNeeds(Wire, frozen=True):
    """The parts of a pod's spec that say how much it needs."""

    containers: list[WireContainer]
    init_containers: list[WireContainer] | None = None
    overhead: Amounts | None = None
    resources: WireResourceNeeds | None = None


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
    return {name: _text(name, amount) for name, amount in resources.items}


def billionths_at(path: str, amounts: Amounts | None) -> Resources:
    """As `resources_at`, in billionths of whole units: for averages, of which small parts matter."""
    return Resources.of({name: _billionths(path, name, str(amount)) for name, amount in (amounts or {}).items()})


def billionth_texts(resources: Resources) -> dict[str, str]:
    return {name: str(Quantity(amount)) for name, amount in resources}


def effective_requests(needs: WirePodNeeds) -> tuple[Resources, Resources]:
    """What the pod needs of a node, and what scoring takes it to need (see SCORED_AS)."""
    if needs.init_containers or needs.overhead or needs.resources:
        return _effective(needs)
    return _of_containers(tuple([_asked(container) for container in needs.containers]))


Asked = tuple[tuple[str, str | int | float], ...]


def _asked(container: WireContainer) -> Asked:
    resources = container.resources
    return tuple(resources.requests.items()) if resources is not None and resources.requests else ()


@lru_cache(maxsize=16_384)  # bench_decode takes 1.6 times as long without it
def _of_containers(asked: tuple[Asked, ...]) -> tuple[Resources, Resources]:
    """As `_effective` for a pod of nothing but containers, as most are: pods of one template are worked out once."""
    return _effective(WirePodNeeds([WireContainer(resources=WireResourceNeeds(dict(amounts))) for amounts in asked]))


def _effective(needs: WirePodNeeds) -> tuple[Resources, Resources]:
    containers = _each("$.spec.containers", needs.containers)
    steps = _each("$.spec.initContainers", needs.init_containers or ())
    sidecars = [container.is_sidecar for container in needs.init_containers or ()]
    of_pod = _of_whole_pod(needs.resources)
    overhead = _requested("$.spec.overhead", needs.overhead) if needs.overhead else {}

    asked = total_requests(PodParts(containers, steps, sidecars, of_pod, overhead))
    defaults = {name: amount for name, amount in SCORED_AS.items() if not of_pod or name not in asked}
    requests = _without_zeros(asked)
    if not _lacks(containers, defaults) and not _lacks(steps, defaults):
        return requests, requests
    filled = PodParts(_filled(containers, defaults), _filled(steps, defaults), sidecars, of_pod, overhead)
    scored = total_requests(filled)
    return requests, _without_zeros({**asked, CPU: scored[CPU], MEMORY: scored[MEMORY]})


def _without_zeros(amounts: Mapping[str, int]) -> Resources:
    return Resources.of({name: amount for name, amount in amounts.items() if amount})


def _lacks(containers: Sequence[Mapping[str, int]], defaults: Mapping[str, int]) -> bool:
    return any(name not in container for container in containers for name in defaults)


def _filled(containers: Sequence[Mapping[str, int]], defaults: Mapping[str, int]) -> list[Mapping[str, int]]:
    return [{**defaults, **container} for container in containers]


def _each(path: str, containers: Sequence[WireContainer]) -> list[dict[str, int]]:
    """What each container asks for."""
    return [
        _requested(f"{path}[{index}].resources.requests", container.resources.requests)
        if container.resources is not None and container.resources.requests
        else {}
        for index, container in enumerate(containers)
    ]


def _of_whole_pod(resources: WireResourceNeeds | None) -> dict[str, int]:
    """What the pod as a whole asks for, where it may: cpu, memory and huge pages."""
    if resources is None or not resources.requests:
        return {}
    amounts = _requested("$.spec.resources.requests", resources.requests)
    return {name: amount for name, amount in amounts.items() if is_asked_of_whole_pods(name)}


def _requested(path: str, amounts: Amounts) -> dict[str, int]:
    """As `_exact`; negative amounts count as 0."""
    exact = _exact(path, amounts)
    for name, amount in exact.items():
        if amount < 0:
            raise InvalidField(f"{path}.{name}", "expected a quantity of at least 0")
    return exact


def _exact(path: str, amounts: Amounts) -> dict[str, int]:
    exact: dict[str, int] = {}
    for name, amount in amounts.items():
        try:
            exact[name] = _units(name, amount)
        except InvalidQuantity as error:
            raise InvalidField(f"{path}.{name}", str(error)) from None
    return exact


def _billionths(path: str, name: str, text: str) -> int:
    try:
        return parse_quantity(text).nanos
    except InvalidQuantity as error:
        raise InvalidField(f"{path}.{name}", str(error)) from None


def _units(name: str, amount: str | int | float) -> int:
    return _milli(str(amount)) if name == CPU else _whole(str(amount))


_text = lru_cache(maxsize=4096)(amount_text)  # bench_queues takes 1.005 times as long without it


@lru_cache(maxsize=4096)  # bench_queues takes 1.003 times as long without it
def _milli(text: str) -> int:
    return parse_quantity(text).milli_value


@lru_cache(maxsize=4096)  # as `_milli`
def _whole(text: str) -> int:
    return parse_quantity(text).value


class WireResourceNeeds(Wire, frozen=True):
    requests: Amounts | None = None


class WirePort(Wire, frozen=True):
    container_port: Int32 = 0
    host_port: Int32 = 0
    protocol: str = ""
    host_ip: str = field(name="hostIP", default="")


class WireContainer(Wire, frozen=True):
    name: str = ""
    image: str = ""
    resources: WireResourceNeeds | None = None
    restart_policy: str | None = None
    ports: list[WirePort] | None = None

    @property
    def is_sidecar(self) -> bool:
        return self.restart_policy == "Always"


def images(containers: Sequence[WireContainer]) -> tuple[str, ...]:
    """The image of every container, each with a tag or digest."""
    return tuple([_tagged(container.image) for container in containers if container.image])


def host_ports(
    containers: Sequence[WireContainer], steps: Sequence[WireContainer], on_host_network: bool
) -> tuple[HostPort, ...]:
    """Every port taken on the node, once; on the host's network every port of a container is one.

    Of the init containers (`steps`) only sidecars count: the others end before the pod runs.
    """
    listening = [container for container in containers if container.ports]
    if steps:
        listening.extend([step for step in steps if step.ports and step.is_sidecar])
    if not listening:
        return ()
    found = dict.fromkeys(_host_ports(listening, on_host_network))
    return tuple(sorted(found, key=lambda port: (port.port, port.protocol, port.ip)))


def _host_ports(containers: Sequence[WireContainer], on_host_network: bool) -> Iterator[HostPort]:
    for container in containers:
        for port in container.ports or ():
            number = port.host_port or (port.container_port if on_host_network else 0)
            if number > 0:
                yield HostPort(number, port.protocol or "TCP", port.host_ip or "0.0.0.0")


@lru_cache(maxsize=4096)  # bench_decode takes 1.02 times as long without it
def _tagged(image: str) -> str:
    """A colon after the last slash begins a tag or the end of a digest; one before it belongs to the host's port."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
