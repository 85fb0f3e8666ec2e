"""The status a change stands for, in the form of a patch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from headgate.api.conditions import condition_entries
from headgate.api.queue_statuses import WrittenWorkload, queue_status_of
from headgate.api.times import format_time
from headgate.model.effects import (
    BudgetStatus,
    JobProgress,
    NodeReadiness,
    Nomination,
    PodCondition,
    PodRun,
    StatusChange,
    WorkloadStatus,
)
from headgate.model.pod import Phase
from headgate.model.queue_changes import QueueStatus

COMES_BEFORE: Mapping[str, str] = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
"""The Job condition without which a server does not accept that a Job has ended."""

_NOT_READY: Mapping[Phase, str] = {
    Phase.PENDING: "ContainersNotReady",
    Phase.SUCCEEDED: "PodCompleted",
    Phase.FAILED: "PodFailed",
    Phase.UNKNOWN: "ContainersNotReady",
}


def status_of(change: StatusChange) -> dict[str, Any] | WrittenWorkload:
    """The fields of `status` to set; None removes a field."""
    if isinstance(change, QueueStatus):
        return queue_status_of(change)
    match change:
        case PodCondition(type_, status, reason, message, at):
            return {"conditions": [_condition(type_, status, reason, message, at)]}
        case Nomination(node):
            return {"nominatedNodeName": node or None}
        case PodRun():
            return _pod_run(change)
        case JobProgress():
            return _job_progress(change)
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
    return status


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
