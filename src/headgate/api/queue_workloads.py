"""Workloads of kueue.x-k8s.io from the wire."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from headgate.api.errors import InvalidField
from headgate.api.owners import controller
from headgate.api.pod_sets import PodSetEntry, pod_sets_of
from headgate.api.queue_workload_statuses import Standing, WorkloadStatus, standing_of
from headgate.api.wire import Buffer, FinalizedMetadata, Int32, Metadata, Wire
from headgate.model.keys import Key, Kind, Target
from headgate.model.queues import (
    ADMISSION_GATED_BY,
    PRIORITY_BOOST,
    PodSet,
    PriorityClassRef,
    QueuedWorkload,
)

REMEMBERED = 16_384
"""How many specs and statuses are kept decoded; the one not seen for longest goes first."""

_OWN_TOGETHER = {("v1", "Pod"): Kind.POD, ("apps/v1", "StatefulSet"): Kind.STATEFUL_SET}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")


class PriorityClassEntry(Wire, frozen=True):
    group: str
    kind: str
    name: str


class GateEntry(Wire, frozen=True):
    name: str


class WorkloadSpec(Wire, frozen=True):
    pod_sets: list[PodSetEntry]
    queue_name: str = ""
    priority_class_ref: PriorityClassEntry | None = None
    priority: Int32 | None = None
    active: bool | None = None
    maximum_execution_time_seconds: Int32 | None = None
    preemption_gates: list[GateEntry] | None = None


class WorkloadObject(Wire, frozen=True):
    metadata: FinalizedMetadata
    spec: WorkloadSpec
    status: WorkloadStatus = WorkloadStatus()


class WorkloadParts(Wire, frozen=True):
    """The same, with parts that are decoded once however often they are seen."""

    metadata: FinalizedMetadata
    spec: Raw
    status: Raw = Raw(b"{}")


class Asked(NamedTuple):
    """What its spec says, beside its pod sets."""

    queue: str
    priority: int
    priority_class: PriorityClassRef | None
    preemption_gates: tuple[str, ...]
    active: bool
    max_execution_seconds: int | None


_objects = msgspec.json.Decoder(WorkloadObject)
_parts = msgspec.json.Decoder(WorkloadParts)
_specs = msgspec.json.Decoder(WorkloadSpec)
_statuses = msgspec.json.Decoder(WorkloadStatus)


def decode_queued_workload(raw: Buffer) -> QueuedWorkload:
    """A write changes one part and leaves the others, and a part that stays is not looked into again."""
    try:
        wire = _parts.decode(raw)
        pod_sets, asked = _read_spec(bytes(wire.spec), wire.metadata.namespace)
        return workload_of(wire.metadata, pod_sets, asked, _read_status(bytes(wire.status), _counts(pod_sets)))
    except (msgspec.DecodeError, InvalidField):
        return _decoded_whole(raw)  # which names the field by its place in the object


def metadata_in(value: Mapping[str, Any]) -> FinalizedMetadata:
    """Those of a stored workload."""
    return msgspec.convert(value["metadata"], FinalizedMetadata)


def spec_in(spec: Any, namespace: str) -> tuple[tuple[PodSet, ...], Asked]:
    """What the spec of a stored workload says."""
    return _read_spec(msgspec.json.encode(spec), namespace)


def standing_in(status: Any, pod_sets: tuple[PodSet, ...]) -> Standing:
    """What the status of a stored workload with these pod sets says."""
    has_verbatim = isinstance(status, dict) and "admissionChecks" in status  # JSON, of which there is only in text
    wire = _statuses.decode(msgspec.json.encode(status)) if has_verbatim else msgspec.convert(status, WorkloadStatus)
    return standing_of(wire, dict(_counts(pod_sets)))


def _counts(pod_sets: tuple[PodSet, ...]) -> tuple[tuple[str, int], ...]:
    return tuple([(each.name, each.count) for each in pod_sets])


def _decoded_whole(raw: Buffer) -> QueuedWorkload:
    wire = _objects.decode(raw)
    pod_sets = pod_sets_of(wire.spec.pod_sets, wire.metadata.namespace)
    standing = standing_of(wire.status, dict(_counts(pod_sets)))
    return workload_of(wire.metadata, pod_sets, _asked(wire.spec), standing)


@lru_cache(maxsize=REMEMBERED)
def _read_spec(raw: bytes, namespace: str) -> tuple[tuple[PodSet, ...], Asked]:
    spec = _specs.decode(raw)
    return pod_sets_of(spec.pod_sets, namespace), _asked(spec)


@lru_cache(maxsize=REMEMBERED)
def _read_status(raw: bytes, counts: tuple[tuple[str, int], ...]) -> Standing:
    return standing_of(_statuses.decode(raw), dict(counts))


def _asked(spec: WorkloadSpec) -> Asked:
    return Asked(
        queue=spec.queue_name,
        priority=spec.priority or 0,
        priority_class=_priority_class(spec.priority_class_ref),
        preemption_gates=tuple(gate.name for gate in spec.preemption_gates or ()),
        active=spec.active is not False,
        max_execution_seconds=spec.maximum_execution_time_seconds,
    )


def workload_of(
    metadata: FinalizedMetadata, pod_sets: tuple[PodSet, ...], asked: Asked, standing: Standing
) -> QueuedWorkload:
    """What its parts say; by position, as to look up that many names takes most of the time."""
    annotations = metadata.annotations or {}
    owners = _together(metadata) if metadata.owner_references else ()
    owner = _owner(metadata, owners) if metadata.owner_references else None
    return QueuedWorkload(
        metadata.key(Kind.KUEUE_WORKLOAD),
        metadata.uid,
        metadata.resource_version,
        metadata.created,
        pod_sets,
        asked.queue,
        asked.priority,
        asked.priority_class,
        _boost(annotations) if annotations else 0,
        _gates_named(annotations.get(ADMISSION_GATED_BY, "")) if annotations else (),
        asked.preemption_gates,
        asked.active,
        asked.max_execution_seconds,
        metadata.generation,
        metadata.labels or {},
        annotations,
        tuple(metadata.finalizers) if metadata.finalizers else (),
        owner,
        metadata.deleted,
        *standing,
        owners,
        bool(metadata.owner_references) and owner is None,
    )


def _gates_named(text: str) -> tuple[str, ...]:
    """The controllers an admission-gated-by annotation names, in order; a blank one is none."""
    return tuple(name for part in text.split(",") if (name := part.strip())) if text else ()


def _boost(annotations: Mapping[str, str]) -> int:
    """A boost that is no number is none: that is said when the annotation is written, and held quota is held."""
    text = annotations.get(PRIORITY_BOOST, "")
    return int(text) if text and _WHOLE_NUMBER.fullmatch(text) else 0


def _priority_class(entry: PriorityClassEntry | None) -> PriorityClassRef | None:
    return None if entry is None else PriorityClassRef(entry.group, entry.kind, entry.name)


def _owner(metadata: Metadata, pods: Sequence[Target]) -> Target | None:
    """The job it stands for, or the pod, where that is a single one; of a group's, the first."""
    for owner in metadata.owner_references or ():
        if owner.controller and (owner.api_version, owner.kind) == ("v1", "Pod"):
            return Target(Key(Kind.POD, metadata.namespace, owner.name), owner.uid)
    return controller(metadata) or next(iter(pods), None)


def _together(metadata: Metadata) -> tuple[Target, ...]:
    """The pods of a group, or the stateful set they are of, own its workload together."""
    return tuple(
        Target(Key(kind, metadata.namespace, owner.name), owner.uid)
        for owner in metadata.owner_references or ()
        if not owner.controller and (kind := _OWN_TOGETHER.get((owner.api_version, owner.kind)))
    )
