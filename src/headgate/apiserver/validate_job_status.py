"""What may be reported about a Job: how it goes on, and that it has ended, once and in one way."""

from __future__ import annotations

from headgate.apiserver.field_errors import OMITTED, FieldError, at_least_zero, invalid, required, unchanged
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import seconds_of
from headgate.apiserver.validate_shapes import JobInStatus, JobStatus, demand_shape

COMPLETE, FAILED = "Complete", "Failed"
SUCCESS, FAILURE = "SuccessCriteriaMet", "FailureTarget"
"""What is decided first; the end itself follows when the last pod is gone."""
_CONDITIONS = "status.conditions"


def job_status_errors(new: Json, old: Json) -> list[FieldError]:
    """In the order of a real server."""
    shape = demand_shape(new, JobInStatus).status or JobStatus()
    status, was = new.get("status") or {}, old.get("status") or {}
    spec = old.get("spec") or {}
    errors = _count_errors(shape)
    errors += _contradictions(status, (COMPLETE, FAILED), (COMPLETE, FAILURE))
    errors += _completion_time_errors(status)
    errors += _undecided_errors(status)
    if is_true(status, COMPLETE) or is_true(status, FAILED):
        errors += _ended_errors(status, shape)
    errors += _index_errors(status, spec)
    errors += _pod_errors(status, shape)
    errors += _contradictions(status, (SUCCESS, FAILED), (SUCCESS, FAILURE))
    return errors + _change_errors(status, was, spec)


def is_true(status: Json, kind: str) -> bool:
    return any(one.get("type") == kind and one.get("status") == "True" for one in status.get("conditions") or ())


def _count_errors(status: JobStatus) -> list[FieldError]:
    counts = (
        ("active", status.active),
        ("succeeded", status.succeeded),
        ("failed", status.failed),
        ("ready", status.ready),
        ("terminating", status.terminating),
    )
    return [error for name, count in counts for error in at_least_zero(f"status.{name}", count)]


def _contradictions(status: Json, *pairs: tuple[str, str]) -> list[FieldError]:
    return [
        invalid(_CONDITIONS, OMITTED, f"cannot set {one}=True and {other}=true conditions")
        for one, other in pairs
        if is_true(status, one) and is_true(status, other)
    ]


def _completion_time_errors(status: Json) -> list[FieldError]:
    path, time, started = "status.completionTime", status.get("completionTime"), status.get("startTime")
    if not is_true(status, COMPLETE):
        detail = "cannot set completionTime when there is no Complete=True condition"
        return [invalid(path, time, detail)] if time else []
    if not time:
        return [required(path, "completionTime is required for Complete jobs")]
    if started and seconds_of(time) < seconds_of(started):
        return [invalid(path, time, "must be equal to or after `startTime`")]
    return []


def _undecided_errors(status: Json) -> list[FieldError]:
    """An end needs the decision before it."""
    return [
        invalid(_CONDITIONS, OMITTED, f"cannot set {end}=True condition without the {decision}=true condition")
        for end, decision in ((FAILED, FAILURE), (COMPLETE, SUCCESS))
        if is_true(status, end) and not is_true(status, decision)
    ]


def _ended_errors(status: Json, shape: JobStatus) -> list[FieldError]:
    errors: list[FieldError] = []
    if shape.active:
        errors.append(invalid("status.active", shape.active, "active>0 is invalid for finished job"))
    if not status.get("startTime"):
        errors.append(required("status.startTime", "startTime is required for finished job"))
    uncounted = status.get("uncountedTerminatedPods") or {}
    if uncounted.get("succeeded") or uncounted.get("failed"):
        errors.append(invalid("status.uncountedTerminatedPods", uncounted, "must be empty for finished job"))
    return errors


def _index_errors(status: Json, spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    completed, failed = status.get("completedIndexes"), status.get("failedIndexes")
    if completed and spec.get("completionMode") != "Indexed":
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid("status.completedIndexes", completed, detail))
    if failed is not None and spec.get("backoffLimitPerIndex") is None:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid("status.failedIndexes", failed, detail))
    return errors


def _pod_errors(status: Json, shape: JobStatus) -> list[FieldError]:
    errors: list[FieldError] = []
    ended = is_true(status, COMPLETE) or is_true(status, FAILED)
    if ended and shape.terminating:
        errors.append(invalid("status.terminating", shape.terminating, "terminating>0 is invalid for finished job"))
    if shape.ready is not None and shape.ready > (shape.active or 0):
        errors.append(invalid("status.ready", shape.ready, "cannot set more ready pods than active"))
    return errors


def _change_errors(status: Json, was: Json, spec: Json) -> list[FieldError]:
    errors = [
        invalid(_CONDITIONS, OMITTED, f"cannot disable the terminal {kind}=True condition")
        for kind in (FAILED, COMPLETE, FAILURE)
        if is_true(was, kind) and not is_true(status, kind)
    ]
    errors += _decrease_errors("failed", status, was)
    reindexed = status.get("completedIndexes") != was.get("completedIndexes")
    if spec.get("completionMode") != "Indexed" or not reindexed:
        errors += _decrease_errors("succeeded", status, was)
    if was.get("completionTime") and status.get("completionTime"):
        errors += unchanged("status.completionTime", status["completionTime"], was["completionTime"])
    if was.get("startTime") and not spec.get("suspend"):
        errors += unchanged("status.startTime", status.get("startTime"), was["startTime"])
    if is_true(was, SUCCESS) and not is_true(status, SUCCESS):
        errors.append(invalid(_CONDITIONS, OMITTED, f"cannot disable the {SUCCESS}=True condition"))
    return errors


def _decrease_errors(name: str, status: Json, was: Json) -> list[FieldError]:
    count = status.get(name) or 0
    fewer = count < (was.get(name) or 0)
    return [invalid(f"status.{name}", count, f"cannot decrease the {name} counter")] if fewer else []
