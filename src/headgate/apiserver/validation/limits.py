"""Limit ranges and runtime classes: types, defaults and rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headgate.apiserver.defaulting import with_canonical_quantities
from headgate.apiserver.field_errors import FieldError, complaints, duplicate, forbidden, invalid, required, unchanged
from headgate.apiserver.messages import Json
from headgate.apiserver.validation.metadata import (
    dns_label_errors,
    metadata_errors,
    metadata_update_errors,
    qualified_name_errors,
)
from headgate.apiserver.validation.resources import (
    container_resource_name_errors,
    container_resources_errors,
    resource_name_errors,
)
from headgate.apiserver.validation.types import ApiType, ObjectMeta, ResourceList, ResourceRequirements, typed
from headgate.model.names import dns_subdomain_errors
from headgate.model.quantity import NANOS, Quantity, parse_quantity

_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_AMOUNTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_ONE = Quantity(NANOS)


class Limit(ApiType, frozen=True):
    type: str | None = None
    max: ResourceList = None
    min: ResourceList = None
    default: ResourceList = None
    default_request: ResourceList = None
    max_limit_request_ratio: ResourceList = None


class LimitRangeSpec(ApiType, frozen=True):
    limits: list[Limit] | None = None


class LimitRange(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    spec: LimitRangeSpec | None = None


class Overhead(ApiType, frozen=True):
    pod_fixed: ResourceList = None


class RuntimeClass(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    handler: str | None = None
    overhead: Overhead | None = None


def default_limit_range(new: Json) -> Json:
    spec = new.get("spec") or {}
    return {**new, "spec": {**spec, "limits": [_default_limit(one) for one in spec.get("limits") or ()]}}


def _default_limit(limit: Json) -> Json:
    """The most is the default limit of a container, that its default request, and for want of it the least."""
    limit = with_canonical_quantities(limit, _AMOUNTS)
    if limit.get("type") != "Container":
        return limit
    default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
    asked = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
    filled = {"default": default, "defaultRequest": asked}
    return {**limit, **{name: amounts for name, amounts in filled.items() if amounts}}


def default_runtime_class(new: Json) -> Json:
    overhead = new.get("overhead")
    return {**new, "overhead": with_canonical_quantities(overhead, ("podFixed",))} if overhead else new


def limit_range_errors(new: Json) -> list[FieldError]:
    found = typed(new, LimitRange)
    errors = metadata_errors(found.metadata or ObjectMeta(), dns_subdomain_errors, namespaced=True)
    return errors + _limits_errors(found)


def limit_range_update_errors(new: Json, old: Json) -> list[FieldError]:
    found = typed(new, LimitRange)
    return metadata_update_errors(new["metadata"], old["metadata"], found.metadata or ObjectMeta()) + _limits_errors(
        found
    )


def runtime_class_errors(new: Json) -> list[FieldError]:
    found = typed(new, RuntimeClass)
    errors = metadata_errors(found.metadata or ObjectMeta(), dns_subdomain_errors, namespaced=False)
    handler = found.handler or ""
    errors += complaints("handler", handler, dns_label_errors(handler)) if handler else [required("handler")]
    fixed = (
        ResourceRequirements(limits=found.overhead.pod_fixed) if found.overhead is not None else ResourceRequirements()
    )
    return errors + container_resources_errors("overhead", fixed)


def runtime_class_update_errors(new: Json, old: Json) -> list[FieldError]:
    metadata = typed(new, RuntimeClass).metadata or ObjectMeta()
    errors = metadata_update_errors(new["metadata"], old["metadata"], metadata)
    return errors + unchanged("handler", new.get("handler"), old.get("handler"))


def _limits_errors(found: LimitRange) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: list[str] = []
    for index, limit in enumerate((found.spec or LimitRangeSpec()).limits or ()):
        path, type_ = f"spec.limits[{index}]", limit.type or ""
        errors += _type_errors(f"{path}.type", type_)
        errors += [duplicate(f"{path}.type", type_)] if type_ in seen else []
        errors += [*_name_errors(path, limit), *_default_errors(path, limit), *_order_errors(path, limit)]
        seen.append(type_)
    return errors


def _type_errors(path: str, type_: str) -> list[FieldError]:
    wrong = complaints(path, type_, qualified_name_errors(type_))
    if not wrong and "/" not in type_ and type_ not in _TYPES:
        return [invalid(path, type_, "must be a standard limit type or fully qualified")]
    return wrong


def _name_errors(path: str, limit: Limit) -> Iterator[FieldError]:
    rule = container_resource_name_errors if limit.type in ("Pod", "Container") else resource_name_errors
    for field, amounts in _fields(limit).items():
        if limit.type != "Pod" or not field.startswith("default"):
            for name in amounts:
                yield from rule(f"{path}.{field}[{name}]", name)


def _default_errors(path: str, limit: Limit) -> Iterator[FieldError]:
    fields = _fields(limit)
    for field in ("default", "defaultRequest") if limit.type == "Pod" else ():
        if fields[field]:
            yield forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")


def _order_errors(path: str, limit: Limit) -> Iterator[FieldError]:
    """The least, the default request, the default limit and the most, in this order."""
    named = {"min": "min", "defaultRequest": "default request", "default": "default", "max": "max"}
    fields = _fields(limit)
    pairs = (
        *(
            ("min", "max", "min"),
            ("min", "defaultRequest", "defaultRequest"),
            ("defaultRequest", "max", "defaultRequest"),
        ),
        *(
            ("defaultRequest", "default", "defaultRequest"),
            ("min", "default", "default"),
            ("default", "max", "default"),
        ),
    )
    for lower, upper, at in pairs:
        for name in sorted(fields[lower].keys() & fields[upper].keys()):
            low, high = fields[lower][name], fields[upper][name]
            if low > high:
                called = "default limit" if (lower, upper) == ("defaultRequest", "default") else named[upper]
                detail = f"{named[lower]} value {low} is greater than {called} value {high}"
                yield invalid(f"{path}.{at}[{name}]", str(_shown(lower, upper, low, high)), detail)
    for name, ratio in fields["maxLimitRequestRatio"].items():
        if ratio < _ONE:
            yield invalid(f"{path}.maxLimitRequestRatio[{name}]", str(ratio), f"ratio {ratio} is less than 1")


def _shown(lower: str, upper: str, low: Quantity, high: Quantity) -> Quantity:
    """A real server shows the default request where that is wrong, and the other amount where the default is."""
    return high if (lower, upper) in (("min", "defaultRequest"), ("default", "max")) else low


def _fields(limit: Limit) -> Mapping[str, Mapping[str, Quantity]]:
    given = (limit.max, limit.min, limit.default, limit.default_request, limit.max_limit_request_ratio)
    return {
        field: {name: parse_quantity(str(amount)) for name, amount in (amounts or {}).items()}
        for field, amounts in zip(_AMOUNTS, given, strict=True)
    }
