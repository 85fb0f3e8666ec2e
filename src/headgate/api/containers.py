"""Containers from the wire: what they ask for, the images they run and the host ports they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import field

from headgate.api.wire import Amounts, Int32, Wire
from headgate.model.peers import HostPort


class ResourceNeeds(Wire, frozen=True):
    requests: Amounts | None = None


class Port(Wire, frozen=True):
    container_port: Int32 = 0
    host_port: Int32 = 0
    protocol: str = ""
    host_ip: str = field(name="hostIP", default="")


class Container(Wire, frozen=True):
    image: str = ""
    resources: ResourceNeeds | None = None
    restart_policy: str | None = None
    ports: list[Port] | None = None

    @property
    def is_sidecar(self) -> bool:
        return self.restart_policy == "Always"


def images(containers: Sequence[Container]) -> tuple[str, ...]:
    """The image of every container, each with a tag or digest."""
    return tuple([_tagged(container.image) for container in containers if container.image])


def host_ports(
    containers: Sequence[Container], steps: Sequence[Container], on_host_network: bool
) -> tuple[HostPort, ...]:
    """Every port taken on the node, once; on the host's network every port of a container is one.

    Of the init containers (`steps`) only sidecars count: the others end before the pod runs.
    """
    listening = [container for container in containers if container.ports]
    listening.extend([step for step in steps if step.ports and step.is_sidecar])
    if not listening:
        return ()
    found = dict.fromkeys(_host_ports(listening, on_host_network))
    return tuple(sorted(found, key=lambda port: (port.port, port.protocol, port.ip)))


def _host_ports(containers: Sequence[Container], on_host_network: bool) -> Iterator[HostPort]:
    for container in containers:
        for port in container.ports or ():
            number = port.host_port or (port.container_port if on_host_network else 0)
            if number > 0:
                yield HostPort(number, port.protocol or "TCP", port.host_ip or "0.0.0.0")


@lru_cache(maxsize=4096)
def _tagged(image: str) -> str:
    """A colon after the last slash begins a tag or the end of a digest; one before it belongs to the host's port."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
