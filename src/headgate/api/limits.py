"""Limit ranges and runtime classes from the wire."""

from __future__ import annotations

import msgspec

from headgate.api.amounts import resources_at
from headgate.api.wire import Amounts, Buffer, Metadata, Wire
from headgate.model.keys import Kind
from headgate.model.limits import Bounds, LimitRange, RuntimeClass


class LimitEntry(Wire, frozen=True):
    type: str
    max: Amounts | None = None
    min: Amounts | None = None
    default: Amounts | None = None
    default_request: Amounts | None = None


class LimitRangeSpec(Wire, frozen=True):
    limits: list[LimitEntry] | None = None


class LimitRangeObject(Wire, frozen=True):
    metadata: Metadata
    spec: LimitRangeSpec = LimitRangeSpec()


class Overhead(Wire, frozen=True):
    pod_fixed: Amounts | None = None


class RuntimeClassObject(Wire, frozen=True):
    metadata: Metadata
    overhead: Overhead | None = None


_limit_ranges = msgspec.json.Decoder(LimitRangeObject)
_runtime_classes = msgspec.json.Decoder(RuntimeClassObject)


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
    metadata, overhead = wire.metadata, wire.overhead or Overhead()
    fixed = resources_at("$.overhead.podFixed", overhead.pod_fixed)
    return RuntimeClass(metadata.key(Kind.RUNTIME_CLASS), metadata.uid, metadata.resource_version, fixed)


def _bounds(entry: LimitEntry, path: str) -> Bounds:
    return Bounds(
        max=resources_at(f"{path}.max", entry.max),
        min=resources_at(f"{path}.min", entry.min),
        default=resources_at(f"{path}.default", entry.default),
        default_request=resources_at(f"{path}.defaultRequest", entry.default_request),
    )
