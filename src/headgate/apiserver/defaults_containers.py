"""What a container leaves unsaid."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_

from headgate.apiserver.defaults_amounts import with_canonical_amounts
from headgate.apiserver.defaults_known import CONTAINER, known
from headgate.apiserver.messages import Json

_ALWAYS_SAID: Json = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}


def each_container(containers: list[Json], rewrite: Callable[[Json], Json]) -> list[Json]:
    """All of them rewritten; the very same list when nothing changes."""
    rewritten = [rewrite(container) for container in containers]
    return containers if all(map(is_, rewritten, containers)) else rewritten


def default_container(container: Json) -> Json:
    """What pods and pod templates share; the very same container when nothing is missing."""
    whole = known(container, CONTAINER)
    missing = {name: value for name, value in _ALWAYS_SAID.items() if not container.get(name)}
    if not container.get("imagePullPolicy"):
        missing["imagePullPolicy"] = _pull_policy(container.get("image") or "")
    given = container.get("resources")
    resources = with_canonical_amounts(given or {}, ("limits", "requests"))
    if resources is not given and (resources or given is None):
        missing["resources"] = resources
    if not all(port.get("protocol") for port in container.get("ports") or ()):
        missing["ports"] = [{**port, "protocol": port.get("protocol") or "TCP"} for port in container["ports"]]
    return {**whole, **missing} if missing else whole


def _pull_policy(image: str) -> str:
    """An image without a tag or a digest is the latest, and the latest is always pulled."""
    tag = image.rpartition("/")[2].partition(":")[2]
    return "IfNotPresent" if "@" in image or (tag and tag != "latest") else "Always"


def requests_from_limits(container: Json) -> Json:
    """Where a limit is given without a request, the request is the limit; for pods only, never for templates."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if limits.keys() <= requests.keys():
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def host_ports_from_ports(container: Json) -> Json:
    """On the host's network a port of the container is the same port of the host; for pods only."""
    if not container.get("ports"):
        return container
    ports = [{**port, "hostPort": port.get("hostPort") or port.get("containerPort")} for port in container["ports"]]
    return {**container, "ports": ports}
