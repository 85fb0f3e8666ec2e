"""Decodes Namespaces, PriorityClasses, PodDisruptionBudgets, LimitRanges and RuntimeClasses."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from headgate.api.amounts import resources_at
from headgate.api.wire import Amounts, Buffer, Int32, InvalidField, Wire, WireMetadata
from headgate.model.keys import Kind
from headgate.model.objects import (
    Bounds,
    DisruptionBudget,
    LimitRange,
    Namespace,
    PodCount,
    PriorityClass,
    RuntimeClass,
)
from headgate.model.selectors import InvalidSelector, Requirement, label_selector


class WireNamespace(Wire, frozen=True):
    metadata: WireMetadata


class WirePriorityClass(Wire, frozen=True):
    metadata: WireMetadata
    value: Int32
    global_default: bool = False
    preemption_policy: str | None = None


class WireDisruptionBudgetSpec(Wire, frozen=True):
    selector: dict[str, Any] | None = None
    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None


class WireDisruptionBudgetStatus(Wire, frozen=True):
    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, Any] | None = None


class WireDisruptionBudget(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireDisruptionBudgetSpec = WireDisruptionBudgetSpec()
    status: WireDisruptionBudgetStatus = WireDisruptionBudgetStatus()


_PERCENTAGE = re.compile(r"([0-9]{1,9})%")

_namespaces = msgspec.json.Decoder(WireNamespace)
_priority_classes = msgspec.json.Decoder(WirePriorityClass)
_budgets = msgspec.json.Decoder(WireDisruptionBudget)


def decode_namespace(raw: Buffer) -> Namespace:
    metadata = _namespaces.decode(raw).metadata
    return Namespace(
        key=metadata.key(Kind.NAMESPACE),
        uid=metadata.uid,
        version=metadata.resource_version,
        labels=metadata.labels or {},
        deleted=metadata.deleted,
    )


def decode_priority_class(raw: Buffer) -> PriorityClass:
    wire = _priority_classes.decode(raw)
    return PriorityClass(
        key=wire.metadata.key(Kind.PRIORITY_CLASS),
        uid=wire.metadata.uid,
        version=wire.metadata.resource_version,
        value=wire.value,
        is_default=wire.global_default,
        preempts=wire.preemption_policy != "Never",
    )


def decode_disruption_budget(raw: Buffer) -> DisruptionBudget:
    wire = _budgets.decode(raw)
    return DisruptionBudget(
        key=wire.metadata.key(Kind.DISRUPTION_BUDGET),
        uid=wire.metadata.uid,
        version=wire.metadata.resource_version,
        selector=None if wire.spec.selector is None else _requirements(wire.spec.selector),
        disruptions_allowed=wire.status.disruptions_allowed,
        already_disrupted=frozenset(wire.status.disrupted_pods or ()),
        min_available=_pod_count("$.spec.minAvailable", wire.spec.min_available),
        max_unavailable=_pod_count("$.spec.maxUnavailable", wire.spec.max_unavailable),
        generation=wire.metadata.generation,
    )


def _pod_count(path: str, value: int | str | None) -> PodCount | None:
    if value is None or isinstance(value, int):
        return None if value is None else PodCount(value)
    percentage = _PERCENTAGE.fullmatch(value)
    if percentage is None:
        raise InvalidField(path, f"expected a number or a percentage such as 50%, got {value!r}")
    return PodCount(int(percentage[1]), percent=True)


def _requirements(selector: dict[str, Any]) -> tuple[Requirement, ...]:
    try:
        return label_selector(selector)
    except InvalidSelector as error:
        raise InvalidField("$.spec.selector", str(error)) from None


class WireLimit(Wire, frozen=True):
    type: str
    max: Amounts | None = None
    min: Amounts | None = None
    default: Amounts | None = None
    default_request: Amounts | None = None


class WireLimitRangeSpec(Wire, frozen=True):
    limits: list[WireLimit] | None = None


class WireLimitRange(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireLimitRangeSpec = WireLimitRangeSpec()


class WireOverhead(Wire, frozen=True):
    pod_fixed: Amounts | None = None


class WireRuntimeClass(Wire, frozen=True):
    metadata: WireMetadata
    overhead: WireOverhead | None = None


_limit_ranges = msgspec.json.Decoder(WireLimitRange)
_runtime_classes = msgspec.json.Decoder(WireRuntimeClass)


def decode_limit_range(raw: Buffer) -> LimitRange:
    """Of other types, such as PersistentVolumeClaim, nothing is read."""
    wire = _limit_ranges.decode(raw)
    limits = [(entry.type, _bounds(entry, f"$.spec.limits[{i}]")) for i, entry in enumerate(wire.spec.limits or ())]
    return LimitRange(
        key=wire.metadata.key(Kind.LIMIT_RANGE),
        uid=wire.metadata.uid,
        version=wire.metadata.resource_version,
        containers=tuple(bounds for type_, bounds in limits if type_ == "Container"),
        pods=tuple(bounds for type_, bounds in limits if type_ == "Pod"),
    )


def decode_runtime_class(raw: Buffer) -> RuntimeClass:
    wire = _runtime_classes.decode(raw)
    metadata, overhead = wire.metadata, wire.overhead or WireOverhead()
    fixed = resources_at("$.overhead.podFixed", overhead.pod_fixed)
    return RuntimeClass(metadata.key(Kind.RUNTIME_CLASS), metadata.uid, metadata.resource_version, fixed)


def _bounds(entry: WireLimit, path: str) -> Bounds:
    return Bounds(
        max=resources_at(f"{path}.max", entry.max),
        min=resources_at(f"{path}.min", entry.min),
        default=resources_at(f"{path}.default", entry.default),
        default_request=resources_at(f"{path}.defaultRequest", entry.default_request),
    )
