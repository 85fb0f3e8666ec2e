"""Resource requirements: resource names, quantities, requests within limits, pod-level resources."""

from __future__ import annotations

from collections.abc import Callable

from headgate.apiserver.defaulting import Nanos, cached_quantity, nanos_of, pod_total
from headgate.apiserver.field_errors import (
    NEGATIVE,
    FieldError,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)
from headgate.apiserver.validation.metadata import qualified_name_errors
from headgate.apiserver.validation.types import Container, PodSpec, ResourceList, ResourceRequirements
from headgate.model.quantity import InvalidQuantity, Quantity

_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED = (
    *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
    *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
)
_QUOTA_RESOURCES = tuple(
    f"{prefix}{name}" for prefix in ("requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")
)
_STANDARD = frozenset({*_CONTAINER_RESOURCES, *_COUNTED, *_QUOTA_RESOURCES, "storage", "requests.storage"})
_POD_LEVEL = ("cpu", "hugepages-*", "memory")
_HUGE_PAGES = "hugepages-"

ResourceNameValidator = Callable[[str, str], list[FieldError]]


def is_huge_page(name: str) -> bool:
    return name.startswith(_HUGE_PAGES)


def is_native(name: str) -> bool:
    """Whether the resource is Kubernetes' own: without a prefix, or with its prefix."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether the resource is an extended one: an integer, never overcommitted."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not qualified_name_errors(f"requests.{name}")


def _overcommits(name: str) -> bool:
    return is_native(name) and not is_huge_page(name)


def resource_name_errors(path: str, name: str) -> list[FieldError]:
    errors = invalid_each(path, name, qualified_name_errors(name))
    if not errors and "/" not in name and name not in _STANDARD and not is_huge_page(name):
        errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return errors


def container_resource_name_errors(path: str, name: str) -> list[FieldError]:
    if name in _CONTAINER_RESOURCES:
        return []
    errors = resource_name_errors(path, name)
    if "/" not in name:
        if not is_huge_page(name):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def pod_resource_name_errors(path: str, name: str) -> list[FieldError]:
    errors = resource_name_errors(path, name)
    if not errors and name not in _POD_LEVEL and not is_huge_page(name):
        errors.append(not_supported(path, name, _POD_LEVEL))
    return errors


def quantity_errors(path: str, name: str, amount: Quantity) -> list[FieldError]:
    errors = [invalid(path, str(amount), NEGATIVE)] if amount.nanos < 0 else []
    if amount.milli_value % 1000 and (name in _COUNTED or is_extended(name)):
        errors.append(invalid(path, str(amount), "must be an integer"))
    return errors


def node_resources_errors(path: str, amounts: ResourceList) -> list[FieldError]:
    """Errors of a node's capacity or allocatable."""
    found = ((name, cached_quantity(str(amount))) for name, amount in (amounts or {}).items())
    return [error for name, amount in found for error in quantity_errors(f"{path}.{name}", name, amount)]


def container_resources_errors(path: str, resources: ResourceRequirements) -> list[FieldError]:
    return _resources_errors(path, resources, container_resource_name_errors)


def pod_resources_errors(path: str, resources: ResourceRequirements) -> list[FieldError]:
    return _resources_errors(path, resources, pod_resource_name_errors)


def _resources_errors(path: str, resources: ResourceRequirements, name_rule: ResourceNameValidator) -> list[FieldError]:
    limits, requests = resources.limits or {}, resources.requests or {}
    errors = _quantities_errors(f"{path}.limits", limits, name_rule)
    errors += _quantities_errors(f"{path}.requests", requests, name_rule)
    for name, amount in requests.items():
        errors += _within_limit_errors(path, name, str(amount), limits)
    asked = {**limits, **requests}
    if any(map(is_huge_page, asked)) and not {"cpu", "memory"} & asked.keys():
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors


def _quantities_errors(
    path: str, amounts: dict[str, str | int | float], name_rule: ResourceNameValidator
) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, text in amounts.items():
        here, amount = f"{path}[{name}]", cached_quantity(str(text))
        errors += name_rule(here, name)
        errors += quantity_errors(here, name, amount)
        if is_huge_page(name) and not _is_multiple_of_page(name, amount):
            errors.append(invalid(here, str(amount), f"{amount} is not positive integer multiple of {name}"))
    return errors


def _is_multiple_of_page(name: str, amount: Quantity) -> bool:
    try:
        page = cached_quantity(name.removeprefix(_HUGE_PAGES))
    except InvalidQuantity:
        return False
    return page.nanos > 0 and amount.nanos % page.nanos == 0


def _within_limit_errors(path: str, name: str, text: str, limits: dict[str, str | int | float]) -> list[FieldError]:
    if name not in limits:
        missing = required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return [] if _overcommits(name) else [missing]
    amount, limit = cached_quantity(text), cached_quantity(str(limits[name]))
    if amount == limit:
        return []
    if not _overcommits(name):
        return [invalid(f"{path}.requests", str(amount), f"must be equal to {name} limit of {limit}")]
    if amount > limit:
        return [invalid(f"{path}.requests", str(amount), f"must be less than or equal to {name} limit of {limit}")]
    return []


def pod_level_errors(path: str, spec: PodSpec, resources: ResourceRequirements) -> list[FieldError]:
    requests, limits = resources.requests or {}, resources.limits or {}
    containers = pod_total(
        [_requests(container) for container in spec.containers or ()],
        [(_requests(one), one.restart_policy == "Always") for one in spec.init_containers or ()],
    )
    errors: list[FieldError] = []
    for name, amount in requests.items():
        whole = cached_quantity(str(amount))
        if containers.get(name, 0) > whole.nanos:
            least = Quantity(containers[name], whole.notation)
            detail = f"must be greater than or equal to aggregate container requests of {least}"
            errors.append(invalid(f"{path}.requests[{name}]", str(whole), detail))
    for index, container in enumerate(spec.containers or ()):
        own = (container.resources or ResourceRequirements()).limits or {}
        for name in (name for name in own if name in limits):
            limit, whole = cached_quantity(str(own[name])), cached_quantity(str(limits[name]))
            if limit > whole:
                here = f"{path}.containers[{index}][{name}].limits"
                errors.append(invalid(here, str(limit), f"must be less than or equal to pod limits of {whole}"))
    return errors


def _requests(container: Container) -> Nanos:
    return nanos_of((container.resources or ResourceRequirements()).requests or {})
