"""Resources of a pod as a whole: never less than its containers ask for together."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.apiserver.errors import FieldError
from headgate.apiserver.fields import invalid
from headgate.apiserver.validate_shapes import Container, PodSpec, Resources
from headgate.model.quantity import Quantity, parse_quantity

Nanos = dict[str, int]


def pod_level_errors(path: str, spec: PodSpec, resources: Resources) -> list[FieldError]:
    requests, limits = resources.requests or {}, resources.limits or {}
    together = _together(spec)
    errors: list[FieldError] = []
    for name, amount in requests.items():
        whole = parse_quantity(str(amount))
        if together.get(name, 0) > whole.nanos:
            least = Quantity(together[name], whole.notation)
            detail = f"must be greater than or equal to aggregate container requests of {least}"
            errors.append(invalid(f"{path}.requests[{name}]", str(whole), detail))
    for index, container in enumerate(spec.containers or ()):
        own = (container.resources or Resources()).limits or {}
        for name in (name for name in own if name in limits):
            limit, whole = parse_quantity(str(own[name])), parse_quantity(str(limits[name]))
            if limit > whole:
                here = f"{path}.containers[{index}][{name}].limits"
                errors.append(invalid(here, str(limit), f"must be less than or equal to pod limits of {whole}"))
    return errors


def _together(spec: PodSpec) -> Nanos:
    """What the containers and sidecars ask for at once, or an init container beside the sidecars before it."""
    running = _sum(_requests(container) for container in spec.containers or ())
    most, sidecars = running, Nanos()
    for container in spec.init_containers or ():
        if container.restart_policy == "Always":
            sidecars = _sum((sidecars, _requests(container)))
            most = _largest(most, sidecars)
        else:
            most = _largest(most, _sum((sidecars, _requests(container))))
    return _largest(most, _sum((running, sidecars)))


def _requests(container: Container) -> Nanos:
    amounts = (container.resources or Resources()).requests or {}
    return {name: parse_quantity(str(amount)).nanos for name, amount in amounts.items()}


def _sum(parts: Iterable[Nanos]) -> Nanos:
    total: Nanos = {}
    for part in parts:
        for name, nanos in part.items():
            total[name] = total.get(name, 0) + nanos
    return total


def _largest(one: Nanos, other: Nanos) -> Nanos:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
