"""What a pod that has resources as a whole leaves unsaid about them."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.apiserver.messages import Json
from headgate.apiserver.pod_totals import Nanos, nanos_of, together
from headgate.model.quantity import Quantity, parse_quantity

_HUGE_PAGES = "hugepages-"
_SHARED = ("cpu", "memory")


def with_pod_requests(spec: Json) -> Json:
    """A pod with limits of its own asks for what its containers ask for, and beyond that for its limits."""
    resources = spec["resources"]
    if not resources.get("limits"):
        return spec
    limits = _amounts(spec, "limits", huge=True) | resources["limits"]
    requests = limits | _amounts(spec, "requests", huge=False) | (resources.get("requests") or {})
    if requests == resources.get("requests") and limits == resources["limits"]:
        return spec
    return {**spec, "resources": {**resources, "limits": limits, "requests": requests}}


def _amounts(spec: Json, field: str, *, huge: bool) -> Json:
    """Requests or limits of the containers together, of huge pages or of what containers share."""
    nanos = together(
        [_nanos(container, field) for container in spec.get("containers") or ()],
        [(_nanos(one, field), one.get("restartPolicy") == "Always") for one in spec.get("initContainers") or ()],
    )
    notations = {name: parse_quantity(str(amount)).notation for name, amount in reversed(list(_each(spec, field)))}
    wanted = [name for name in nanos if (name.startswith(_HUGE_PAGES) if huge else name in _SHARED)]
    return {name: str(Quantity(nanos[name], notations[name])) for name in wanted}


def _each(spec: Json, field: str) -> Iterator[tuple[str, str | int | float]]:
    for part in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        yield from ((part.get("resources") or {}).get(field) or {}).items()


def _nanos(container: Json, field: str) -> Nanos:
    return nanos_of((container.get("resources") or {}).get(field) or {})
