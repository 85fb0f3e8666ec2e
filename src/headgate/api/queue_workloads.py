"""Workloads of kueue.x-k8s.io from the wire."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw

from headgate.api.amounts import resources_at
from headgate.api.conditions import ConditionEntry, conditions_of
from headgate.api.owners import controller
from headgate.api.pod_sets import DEFAULT_NAME, PodSetEntry, pod_sets_of
from headgate.api.wire import Amounts, Buffer, FinalizedMetadata, Metadata, Wire, time_at
from headgate.model.keys import Key, Kind, Target
from headgate.model.queues import (
    ADMISSION_GATED_BY,
    PRIORITY_BOOST,
    Admission,
    CheckState,
    CheckStatus,
    EvictionCount,
    GateStatus,
    PodSetAssignment,
    PriorityClassRef,
    QueuedWorkload,
    RequeueState,
)
from headgate.model.resources import Resources

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
    priority: int | None = None
    active: bool | None = None
    maximum_execution_time_seconds: int | None = None
    preemption_gates: list[GateEntry] | None = None


class AssignmentEntry(Wire, frozen=True):
    name: str = DEFAULT_NAME
    flavors: dict[str, str] | None = None
    resource_usage: Amounts | None = None
    count: int | None = None


class AdmissionEntry(Wire, frozen=True):
    cluster_queue: str
    pod_set_assignments: list[AssignmentEntry]


class RequeueEntry(Wire, frozen=True):
    count: int | None = None
    requeue_at: str | None = None


class NamedCount(Wire, frozen=True):
    name: str
    count: int


class CheckEntry(Wire, frozen=True):
    name: str
    state: CheckState
    message: str = ""
    last_transition_time: str | None = None
    requeue_after_seconds: int | None = None
    retry_count: int | None = None
    pod_set_updates: Raw = Raw()


class RequestsEntry(Wire, frozen=True):
    name: str
    resources: Amounts | None = None


class EvictionEntry(Wire, frozen=True):
    reason: str
    underlying_cause: str
    count: int


class StatsEntry(Wire, frozen=True):
    evictions: list[EvictionEntry] | None = None


class GateStateEntry(Wire, frozen=True):
    name: str
    position: str
    last_transition_time: str | None = None


class WorkloadStatus(Wire, frozen=True):
    conditions: list[ConditionEntry] | None = None
    admission: AdmissionEntry | None = None
    requeue_state: RequeueEntry | None = None
    reclaimable_pods: list[NamedCount] | None = None
    admission_checks: list[CheckEntry] | None = None
    resource_requests: list[RequestsEntry] | None = None
    accumulated_past_execution_time_seconds: int | None = None
    scheduling_stats: StatsEntry | None = None
    nominated_cluster_names: list[str] | None = None
    cluster_name: str | None = None
    preemption_gates: list[GateStateEntry] | None = None


class WorkloadObject(Wire, frozen=True):
    metadata: FinalizedMetadata
    spec: WorkloadSpec
    status: WorkloadStatus = WorkloadStatus()


_decoder = msgspec.json.Decoder(WorkloadObject)


def decode_queued_workload(raw: Buffer) -> QueuedWorkload:
    wire = _decoder.decode(raw)
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    annotations, stats = metadata.annotations or {}, status.scheduling_stats or StatsEntry()
    return QueuedWorkload(
        key=metadata.key(Kind.KUEUE_WORKLOAD),
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.created,
        pod_sets=pod_sets_of(spec.pod_sets, metadata.namespace),
        queue=spec.queue_name,
        priority=spec.priority or 0,
        priority_class=_priority_class(spec.priority_class_ref),
        boost=_boost(annotations),
        gated_by=_gates_named(annotations.get(ADMISSION_GATED_BY, "")),
        preemption_gates=tuple(gate.name for gate in spec.preemption_gates or ()),
        active=spec.active is not False,
        max_execution_seconds=spec.maximum_execution_time_seconds,
        generation=metadata.generation,
        labels=metadata.labels or {},
        annotations=annotations,
        finalizers=tuple(metadata.finalizers or ()),
        owner=_owner(metadata),
        owners=_pods(metadata),
        owned_by_stranger=bool(metadata.owner_references) and _owner(metadata) is None,
        deleted=metadata.deleted,
        conditions=conditions_of(status.conditions),
        admission=_admission(status.admission, {entry.name: entry.count for entry in spec.pod_sets}),
        requeue=_requeue(status.requeue_state),
        reclaimable=tuple((entry.name, entry.count) for entry in status.reclaimable_pods or ()),
        checks=_checks(status.admission_checks or ()),
        gate_statuses=_gate_statuses(status.preemption_gates or ()),
        resource_requests=_requests(status.resource_requests or ()),
        past_execution_seconds=status.accumulated_past_execution_time_seconds or 0,
        evictions=tuple(
            EvictionCount(each.reason, each.underlying_cause, each.count) for each in stats.evictions or ()
        ),
        nominated_clusters=tuple(status.nominated_cluster_names or ()),
        cluster=status.cluster_name or "",
    )


def _gates_named(text: str) -> tuple[str, ...]:
    """The controllers an admission-gated-by annotation names, in order; a blank one is none."""
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _boost(annotations: Mapping[str, str]) -> int:
    """A boost that is no number is none: that is said when the annotation is written, and held quota is held."""
    text = annotations.get(PRIORITY_BOOST, "")
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else 0


def _priority_class(entry: PriorityClassEntry | None) -> PriorityClassRef | None:
    return None if entry is None else PriorityClassRef(entry.group, entry.kind, entry.name)


def _owner(metadata: Metadata) -> Target | None:
    """The job it stands for, or the pod, where that is a single one; of a group's, the first."""
    for owner in metadata.owner_references or ():
        if owner.controller and (owner.api_version, owner.kind) == ("v1", "Pod"):
            return Target(Key(Kind.POD, metadata.namespace, owner.name), owner.uid)
    return controller(metadata) or next(iter(_pods(metadata)), None)


def _pods(metadata: Metadata) -> tuple[Target, ...]:
    """The pods of a group own its workload together."""
    return tuple(
        Target(Key(Kind.POD, metadata.namespace, owner.name), owner.uid)
        for owner in metadata.owner_references or ()
        if not owner.controller and (owner.api_version, owner.kind) == ("v1", "Pod")
    )


def _admission(entry: AdmissionEntry | None, counts: Mapping[str, int]) -> Admission | None:
    """An assignment that does not say for how many pods it is, is for all of them."""
    if entry is None:
        return None
    path = "$.status.admission.podSetAssignments"
    assignments = [
        PodSetAssignment(
            name=each.name,
            flavors=tuple(sorted((each.flavors or {}).items())),
            usage=resources_at(f"{path}[{index}].resourceUsage", each.resource_usage),
            count=counts.get(each.name, 0) if each.count is None else each.count,
        )
        for index, each in enumerate(entry.pod_set_assignments)
    ]
    return Admission(entry.cluster_queue, tuple(assignments))


def _requeue(entry: RequeueEntry | None) -> RequeueState | None:
    if entry is None:
        return None
    return RequeueState(entry.count or 0, time_at("$.status.requeueState.requeueAt", entry.requeue_at))


def _checks(entries: Sequence[CheckEntry]) -> tuple[CheckStatus, ...]:
    return tuple(
        CheckStatus(
            name=entry.name,
            state=entry.state,
            message=entry.message,
            at=_transition(f"$.status.admissionChecks[{index}]", entry.last_transition_time),
            requeue_after=entry.requeue_after_seconds,
            retries=entry.retry_count or 0,
            updates=bytes(entry.pod_set_updates),
        )
        for index, entry in enumerate(entries)
    )


def _gate_statuses(entries: Sequence[GateStateEntry]) -> tuple[GateStatus, ...]:
    return tuple(
        GateStatus(
            entry.name,
            entry.position == "Open",
            _transition(f"$.status.preemptionGates[{index}]", entry.last_transition_time),
        )
        for index, entry in enumerate(entries)
    )


def _transition(path: str, text: str | None) -> float:
    return time_at(f"{path}.lastTransitionTime", text) or 0.0


def _requests(entries: Sequence[RequestsEntry]) -> tuple[tuple[str, Resources], ...]:
    path = "$.status.resourceRequests"
    return tuple(
        (entry.name, resources_at(f"{path}[{index}].resources", entry.resources)) for index, entry in enumerate(entries)
    )
