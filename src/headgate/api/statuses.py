"""Encodes status changes as patches."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, assert_never

import msgspec
from msgspec import Raw

from headgate.api.amounts import amount_texts, billionth_texts
from headgate.api.volcano import volcano_status_of
from headgate.api.wire import LONGEST_MESSAGE, Wire, WireWrittenCondition, condition_entries, format_time
from headgate.model.effects import (
    AdmissionCheckStatus,
    BudgetStatus,
    ClusterQueueDebt,
    ClusterQueueStatus,
    CohortStatus,
    Consumption,
    CronJobProgress,
    FlavorUse,
    JobProgress,
    LocalQueueStatus,
    MultiKueueClusterStatus,
    NodeReadiness,
    Nomination,
    PodCondition,
    PodRun,
    PreemptionGateStates,
    QueueStatus,
    ReplicaCounts,
    StatusChange,
    VolcanoStatus,
    WorkloadStatus,
)
from headgate.model.pod import Phase
from headgate.model.queues import (
    Admission,
    CheckStatus,
    EvictionCount,
    FlavorDebt,
    GateStatus,
    PreemptionProposal,
    QueuedWorkloadStatus,
    RequeueState,
)
from headgate.model.resources import Resources

COMES_BEFORE: Mapping[str, str] = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
"""The Job condition without which a server does not accept that a Job has ended."""

_NOT_READY: Mapping[Phase, str] = {
    Phase.PENDING: "ContainersNotReady",
    Phase.SUCCEEDED: "PodCompleted",
    Phase.FAILED: "PodFailed",
    Phase.UNKNOWN: "ContainersNotReady",
}


def status_of(change: StatusChange) -> dict[str, Any] | WireWrittenWorkload:
    """The fields of `status` to set; None removes a field."""
    if isinstance(change, QueueStatus):
        return queue_status_of(change)
    if isinstance(change, VolcanoStatus):
        return volcano_status_of(change)
    match change:
        case PodCondition(type_, status, reason, message, at):
            return {"conditions": [_condition(type_, status, reason, message, at)]}
        case Nomination(node):
            return {"nominatedNodeName": node or None}
        case PodRun():
            return _pod_run(change)
        case JobProgress():
            return _job_progress(change)
        case ReplicaCounts(observed, replicas, ready):
            counts = {"replicas": replicas, "readyReplicas": ready, "availableReplicas": ready}
            return {"observedGeneration": observed, **counts}
        case CronJobProgress(at):
            return {"lastScheduleTime": format_time(at)}
        case NodeReadiness(ready, reason, message, at):
            condition = _condition("Ready", str(ready), reason, message, at)
            return {"conditions": [{**condition, "lastHeartbeatTime": format_time(at)}]}
        case WorkloadStatus():
            return _workload_status(change)
        case BudgetStatus(observed, expected, healthy, desired, allowed):
            counts = {"expectedPods": expected, "currentHealthy": healthy, "desiredHealthy": desired}
            return {"observedGeneration": observed, "disruptionsAllowed": allowed, **counts}
        case _:
            assert_never(change)


def _workload_status(status: WorkloadStatus) -> dict[str, Any]:
    return {
        "priority": status.priority,
        "preemptionPriority": status.preemption_priority,
        "preemptionPolicy": "PreemptLowerPriority" if status.preempts else "Never",
        "conditions": condition_entries(status.conditions),
    }


def _condition(type_: str, status: str, reason: str, message: str, at: float | None) -> dict[str, Any]:
    """A condition to be merged by type; without a time, the one that stands there stays."""
    condition = {"type": type_, "status": status, "reason": reason, "message": message}
    return condition if at is None else {**condition, "lastTransitionTime": format_time(at)}


def _pod_run(run: PodRun) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": run.phase.value, "conditions": _run_conditions(run)}
    if run.phase is Phase.RUNNING:
        status["startTime"] = format_time(run.at)
    if run.reason:
        status["reason"] = run.reason
    if run.exit_code is not None:
        status["message"] = f"exit code {run.exit_code}"
    if run.containers:
        status["containerStatuses"] = [_container_status(run, name, image) for name, image in run.containers]
    return status


def _container_status(run: PodRun, name: str, image: str) -> dict[str, Any]:
    """A container that runs, or that has ended with the exit code of its pod."""
    runs, code = run.phase is Phase.RUNNING, run.exit_code or 0
    state: dict[str, Any] = {"running": {"startedAt": format_time(run.at)}}
    if not runs:
        began = run.at if run.started is None else run.started
        times = {"startedAt": format_time(began), "finishedAt": format_time(run.at)}
        state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", **times}}
    fixed = {"image": image, "imageID": "", "restartCount": 0}
    return {"name": name, **fixed, "ready": runs, "started": runs, "state": state}


def _run_conditions(run: PodRun) -> list[dict[str, Any]]:
    """What has just changed: a pod that ended was initialized long before, so that is not said again."""
    if run.phase is Phase.RUNNING:
        return [_condition(type_, "True", "", "", run.at) for type_ in ("Initialized", "ContainersReady", "Ready")]
    reason = _NOT_READY[run.phase]
    return [_condition(type_, "False", reason, "", run.at) for type_ in ("ContainersReady", "Ready")]


def _job_progress(progress: JobProgress) -> dict[str, Any]:
    """Counts and times; `conditions` is the whole list, so a Job that goes on loses its Suspended condition."""
    started = progress.at if progress.started is None and progress.condition in COMES_BEFORE else progress.started
    status: dict[str, Any] = {
        "active": progress.active,
        "ready": progress.ready,
        "succeeded": progress.succeeded,
        "failed": progress.failed,
        "startTime": None if started is None else format_time(started),
        "conditions": _job_conditions(progress),
    }
    if progress.completed_indexes is not None:
        status["completedIndexes"] = progress.completed_indexes
    if progress.failed_indexes is not None:
        status["failedIndexes"] = progress.failed_indexes
    if progress.condition == "Complete":
        status["completionTime"] = format_time(progress.at)
    return status


def _job_conditions(progress: JobProgress) -> list[dict[str, Any]]:
    types = (COMES_BEFORE.get(progress.condition, ""), progress.condition)
    return [
        {
            **_condition(type_, "True", progress.reason, progress.message, progress.at),
            "lastProbeTime": format_time(progress.at),
        }
        for type_ in types
        if type_
    ]


REMEMBERED = 4_096
"""Size of the cache of encoded admissions."""

_Entries = list[dict[str, Any]]


class WireWrittenWorkload(Wire, frozen=True):
    """The fields of a workload's status that we answer for; None removes one."""

    conditions: list[WireWrittenCondition]
    admission: Raw | None
    requeue_state: dict[str, Any] | None
    reclaimable_pods: _Entries | None
    admission_checks: _Entries | None
    preemption_gates: list[dict[str, str]] | None
    preemption_proposal: dict[str, Any] | None
    resource_requests: _Entries | None
    accumulated_past_execution_time_seconds: int | None
    scheduling_stats: dict[str, Any] | None
    nominated_cluster_names: tuple[str, ...] | None
    cluster_name: str | None


def queue_status_of(change: QueueStatus) -> dict[str, Any] | WireWrittenWorkload:
    """The fields of `status` to set; None removes a field."""
    match change:
        case QueuedWorkloadStatus():
            return _workload(change)
        case ClusterQueueStatus():
            return {
                **_counts(change),
                "flavorsReservation": [_cluster_use(use) for use in change.reservation],
                "flavorsUsage": [_cluster_use(use) for use in change.usage],
                "fairSharing": _share(change.weighted_share),
            }
        case ClusterQueueDebt(debt):
            return {"flavorsDebt": [_plain_use(owed) for owed in debt] or None}
        case LocalQueueStatus():
            return {
                **_counts(change),
                "flavorsReservation": [_plain_use(use) for use in change.reservation],
                "flavorsUsage": [_plain_use(use) for use in change.usage],
                "fairSharing": _consumption(change.consumption),
            }
        case CohortStatus(weighted_share):
            return {"fairSharing": _share(weighted_share)}
        case PreemptionGateStates(gates):
            return {"preemptionGates": [_gate(gate) for gate in gates]}
        case AdmissionCheckStatus(conditions) | MultiKueueClusterStatus(conditions):
            return {"conditions": condition_entries(conditions)}
        case _:
            assert_never(change)


def _workload(status: QueuedWorkloadStatus) -> WireWrittenWorkload:
    requests, evictions = status.resource_requests, status.evictions
    return WireWrittenWorkload(
        conditions=condition_entries(status.conditions),
        admission=None if status.admission is None else _admission(status.admission),
        requeue_state=None if status.requeue is None else _requeue(status.requeue),
        reclaimable_pods=[_reclaimable(*each) for each in status.reclaimable] if status.reclaimable else None,
        admission_checks=[_check(check) for check in status.checks] if status.checks else None,
        preemption_gates=[_gate(gate) for gate in status.gate_statuses] if status.gate_statuses else None,
        preemption_proposal=None if status.proposal is None else _proposal(status.proposal),
        resource_requests=[_asked(*each) for each in requests] if requests else None,
        accumulated_past_execution_time_seconds=status.past_execution_seconds or None,
        scheduling_stats={"evictions": [_stat(each) for each in evictions]} if evictions else None,
        nominated_cluster_names=status.nominated_clusters or None,
        cluster_name=status.cluster or None,
    )


@lru_cache(maxsize=REMEMBERED)  # bench_queues takes 1.005 times as long without it
def _admission(admission: Admission) -> Raw:
    assignments = [
        {
            "name": given.name,
            "flavors": dict(given.flavors),
            "resourceUsage": amount_texts(given.usage),
            "count": given.count,
        }
        for given in admission.pod_sets
    ]
    return Raw(msgspec.json.encode({"clusterQueue": admission.cluster_queue, "podSetAssignments": assignments}))


def _requeue(state: RequeueState) -> dict[str, Any]:
    return {"count": state.count or None, "requeueAt": None if state.at is None else format_time(state.at)}


def _reclaimable(name: str, count: int) -> dict[str, Any]:
    return {"name": name, "count": count}


def _asked(name: str, resources: Resources) -> dict[str, Any]:
    return {"name": name, "resources": amount_texts(resources)}


def _check(check: CheckStatus) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": check.name,
        "state": check.state.value,
        "message": check.message[:LONGEST_MESSAGE],
        "lastTransitionTime": format_time(check.at),
    }
    if check.requeue_after is not None:
        entry["requeueAfterSeconds"] = check.requeue_after
    if check.retries:
        entry["retryCount"] = check.retries
    return {**entry, "podSetUpdates": Raw(check.updates)} if check.updates else entry


def _gate(gate: GateStatus) -> dict[str, str]:
    """Under the field's two names; a server whose definition has one of them drops the other."""
    state = "Open" if gate.open else "Closed"
    return {"name": gate.name, "state": state, "position": state, "lastTransitionTime": format_time(gate.at)}


def _proposal(proposal: PreemptionProposal) -> dict[str, Any]:
    """Whole, for it is merged into what stands there."""
    return {
        "canPreempt": proposal.can_preempt,
        "victims": proposal.victims,
        "highestPriority": proposal.highest_priority,
        "prioritySum": proposal.priority_sum,
        "pods": proposal.pods,
        "runningSince": format_time(proposal.running_since) if proposal.pods else None,
    }


def _stat(evictions: EvictionCount) -> dict[str, Any]:
    return {"reason": evictions.reason, "underlyingCause": evictions.cause, "count": evictions.count}


def _counts(status: ClusterQueueStatus | LocalQueueStatus) -> dict[str, Any]:
    return {
        "conditions": condition_entries(status.conditions),
        "pendingWorkloads": status.pending,
        "reservingWorkloads": status.reserving,
        "admittedWorkloads": status.admitted,
    }


def _cluster_use(use: FlavorUse) -> dict[str, Any]:
    borrowed = amount_texts(use.borrowed)
    resources = [
        {"name": name, "total": total, "borrowed": borrowed.get(name, "0")}
        for name, total in amount_texts(use.total).items()
    ]
    return {"name": use.flavor, "resources": resources}


def _plain_use(use: FlavorUse | FlavorDebt) -> dict[str, Any]:
    resources = [{"name": name, "total": total} for name, total in amount_texts(use.total).items()]
    return {"name": use.flavor, "resources": resources}


def _share(weighted: int | None) -> dict[str, int] | None:
    return None if weighted is None else {"weightedShare": weighted}


def _consumption(consumption: Consumption | None) -> dict[str, Any] | None:
    """A local queue has no share of its own; the field is there because it must be."""
    if consumption is None:
        return None
    status = {"consumedResources": billionth_texts(consumption.consumed), "lastUpdate": format_time(consumption.at)}
    return {"weightedShare": 0, "admissionFairSharingStatus": status}
