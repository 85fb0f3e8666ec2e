"""Resources of a pod as a whole: never less than its containers ask for pod_total."""

from __future__ import annotations

from headgate.apiserver.defaulting import Nanos, nanos_of, pod_total
from headgate.apiserver.field_errors import FieldError, invalid
from headgate.apiserver.validate_shapes import Container, PodSpec, Resources
from headgate.model.quantity import Quantity, parse_quantity


def pod_level_errors(path: str, spec: PodSpec, resources: Resources) -> list[FieldError]:
    requests, limits = resources.requests or {}, resources.limits or {}
    containers = pod_total(
        [_requests(container) for container in spec.containers or ()],
        [(_requests(one), one.restart_policy == "Always") for one in spec.init_containers or ()],
    )
    errors: list[FieldError] = []
    for name, amount in requests.items():
        whole = parse_quantity(str(amount))
        if containers.get(name, 0) > whole.nanos:
            least = Quantity(containers[name], whole.notation)
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


def _requests(container: Container) -> Nanos:
    return nanos_of((container.resources or Resources()).requests or {})
