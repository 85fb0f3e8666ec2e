"""The requests or limits of a pod: its containers' together, and pod-level resources filled in from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headgate.apiserver.messages import Json
from headgate.model.quantity import Quantity, parse_quantity

Nanos = dict[str, int]
"""Amounts by resource name."""


def nanos_of(amounts: Mapping[str, str | int | float]) -> Nanos:
    return {name: parse_quantity(str(amount)).nanos for name, amount in amounts.items()}


def pod_total(containers: Iterable[Nanos], init_containers: Iterable[tuple[Nanos, bool]]) -> Nanos:
    """What containers and sidecars ask for at once, or an init container beside the sidecars before it.

    Init containers come with whether they are sidecars.
    """
    running = _sum(containers)
    most, sidecars = running, Nanos()
    for asked, is_sidecar in init_containers:
        if is_sidecar:
            sidecars = _sum((sidecars, asked))
            most = _largest(most, sidecars)
        else:
            most = _largest(most, _sum((sidecars, asked)))
    return _largest(most, _sum((running, sidecars)))


def _sum(parts: Iterable[Nanos]) -> Nanos:
    sums: Nanos = {}
    for part in parts:
        for name, nanos in part.items():
            sums[name] = sums.get(name, 0) + nanos
    return sums


def _largest(one: Nanos, other: Nanos) -> Nanos:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


_HUGE_PAGES = "hugepages-"
_AGGREGATED = ("cpu", "memory")


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
    """Requests or limits of the containers pod_total, of huge pages or of what containers share."""
    nanos = pod_total(
        [_nanos(container, field) for container in spec.get("containers") or ()],
        [(_nanos(one, field), one.get("restartPolicy") == "Always") for one in spec.get("initContainers") or ()],
    )
    notations = {name: parse_quantity(str(amount)).notation for name, amount in reversed(list(_each(spec, field)))}
    wanted = [name for name in nanos if (name.startswith(_HUGE_PAGES) if huge else name in _AGGREGATED)]
    return {name: str(Quantity(nanos[name], notations[name])) for name in wanted}


def _each(spec: Json, field: str) -> Iterator[tuple[str, str | int | float]]:
    for part in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        yield from ((part.get("resources") or {}).get(field) or {}).items()


def _nanos(container: Json, field: str) -> Nanos:
    return nanos_of((container.get("resources") or {}).get(field) or {})
