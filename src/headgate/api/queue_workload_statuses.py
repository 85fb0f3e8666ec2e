"""The status of a workload of kueue.x-k8s.io from the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Raw

from headgate.api.amounts import resources_at
from headgate.api.conditions import ConditionEntry, conditions_of
from headgate.api.pod_sets import DEFAULT_NAME
from headgate.api.wire import Amounts, Int32, Int64, Wire, time_at
from headgate.model.conditions import Condition
from headgate.model.queues import (
    Admission,
    CheckState,
    CheckStatus,
    EvictionCount,
    GateStatus,
    PodSetAssignment,
    QueuedWorkload,
    RequeueState,
)
from headgate.model.resources import Resources


class AssignmentEntry(Wire, frozen=True):
    name: str = DEFAULT_NAME
    flavors: dict[str, str] | None = None
    resource_usage: Amounts | None = None
    count: Int32 | None = None


class AdmissionEntry(Wire, frozen=True):
    cluster_queue: str
    pod_set_assignments: list[AssignmentEntry]


class RequeueEntry(Wire, frozen=True):
    count: Int32 | None = None
    requeue_at: str | None = None


class NamedCount(Wire, frozen=True):
    name: str
    count: Int32


class CheckEntry(Wire, frozen=True):
    name: str
    state: CheckState
    message: str = ""
    last_transition_time: str | None = None
    requeue_after_seconds: Int32 | None = None
    retry_count: Int32 | None = None
    pod_set_updates: Raw = Raw()


class RequestsEntry(Wire, frozen=True):
    name: str
    resources: Amounts | None = None


class EvictionEntry(Wire, frozen=True):
    reason: str
    underlying_cause: str
    count: Int32


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
    accumulated_past_execution_time_seconds: Int64 | None = None
    scheduling_stats: StatsEntry | None = None
    nominated_cluster_names: list[str] | None = None
    cluster_name: str | None = None
    preemption_gates: list[GateStateEntry] | None = None


class Standing(NamedTuple):
    """What its status says, in the order of a QueuedWorkload."""

    conditions: tuple[Condition, ...]
    admission: Admission | None
    requeue: RequeueState | None
    reclaimable: tuple[tuple[str, int], ...]
    checks: tuple[CheckStatus, ...]
    gate_statuses: tuple[GateStatus, ...]
    resource_requests: tuple[tuple[str, Resources], ...]
    past_execution_seconds: int
    evictions: tuple[EvictionCount, ...]
    nominated_clusters: tuple[str, ...]
    cluster: str


def standing_of(status: WorkloadStatus, counts: Mapping[str, int]) -> Standing:
    """What it says; most say little beside their conditions, and what is not there is not looked at."""
    stats = status.scheduling_stats
    return Standing(
        conditions_of(status.conditions) if status.conditions else (),
        _admission(status.admission, counts) if status.admission is not None else None,
        _requeue(status.requeue_state) if status.requeue_state is not None else None,
        _reclaimable(status.reclaimable_pods) if status.reclaimable_pods else (),
        _checks(status.admission_checks) if status.admission_checks else (),
        _gate_statuses(status.preemption_gates) if status.preemption_gates else (),
        _requests(status.resource_requests) if status.resource_requests else (),
        status.accumulated_past_execution_time_seconds or 0,
        _evictions(stats.evictions) if stats is not None and stats.evictions else (),
        tuple(status.nominated_cluster_names) if status.nominated_cluster_names else (),
        status.cluster_name or "",
    )


def with_standing(workload: QueuedWorkload, version: str, standing: Standing) -> QueuedWorkload:
    """The same workload in this version and with this status; by position, as names take time to look up."""
    return QueuedWorkload(
        workload.key,
        workload.uid,
        version,
        workload.created,
        workload.pod_sets,
        workload.queue,
        workload.priority,
        workload.priority_class,
        workload.boost,
        workload.gated_by,
        workload.preemption_gates,
        workload.active,
        workload.max_execution_seconds,
        workload.generation,
        workload.labels,
        workload.annotations,
        workload.finalizers,
        workload.owner,
        workload.deleted,
        *standing,
        workload.owners,
        workload.owned_by_stranger,
    )


def _admission(entry: AdmissionEntry, counts: Mapping[str, int]) -> Admission:
    """An assignment that does not say for how many pods it is, is for all of them."""
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


def _requeue(entry: RequeueEntry) -> RequeueState:
    return RequeueState(entry.count or 0, time_at("$.status.requeueState.requeueAt", entry.requeue_at))


def _reclaimable(entries: Sequence[NamedCount]) -> tuple[tuple[str, int], ...]:
    return tuple([(entry.name, entry.count) for entry in entries])


def _evictions(entries: Sequence[EvictionEntry]) -> tuple[EvictionCount, ...]:
    return tuple([EvictionCount(each.reason, each.underlying_cause, each.count) for each in entries])


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
