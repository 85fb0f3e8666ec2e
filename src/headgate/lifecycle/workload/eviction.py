"""The status of a Workload that is evicted, releases its quota, backs off, is requeued, deactivated or finished."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from headgate.lifecycle.terminating import seconds_run
from headgate.lifecycle.workload.admission import HAS_NO_RESERVATION, reset_checks
from headgate.lifecycle.workload.conditions import (
    DEACTIVATED,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    PENDING_EVALUATION,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    ConditionUpdate,
    edited,
    no_longer_gated,
    second,
    with_status,
    without,
)
from headgate.model.queues import EvictionCount, GateStatus, QueuedWorkload, QueuedWorkloadStatus, RequeueState
from headgate.model.settings import PodsReady

POD_TIMEOUT = "PodsReadyTimeout"
CHECK = "AdmissionCheck"
QUEUE_STOPPED = "ClusterQueueStopped"
LOCAL_STOPPED = "LocalQueueStopped"
REQUEUED_AT_ONCE = frozenset({PREEMPTED, "NodeFailures"})
"""Evictions after which nothing but quota is waited for."""


def evicted(
    workload: QueuedWorkload, reason: str, message: str, now: float, *also: ConditionUpdate, cause: str = ""
) -> QueuedWorkloadStatus:
    """Evicted. It holds its quota until its pods are gone; checks and gates start anew."""
    return edited(
        workload,
        now,
        ConditionUpdate(EVICTED, True, _with_cause(reason, cause), message),
        *also,
        *no_longer_gated(workload, EVICTED, "The workload was evicted"),
        cluster="",
        nominated_clusters=(),
        checks=reset_checks(workload.status.checks, now),
        gate_statuses=_closed(workload.status.gate_statuses, now),
        proposal=None,
        evictions=_counted(workload.status.evictions, reason, cause),
    )


def preempted(workload: QueuedWorkload, reason: str, message: str, now: float) -> QueuedWorkloadStatus:
    """Evicted for another workload; the reason says by which rule."""
    return evicted(workload, PREEMPTED, message, now, ConditionUpdate(PREEMPTED, True, reason, message))


def timed_out(workload: QueuedWorkload, settings: PodsReady, cause: str, now: float) -> QueuedWorkloadStatus | None:
    """Its pods were not ready in time: it rests longer each time. None when that happened too often."""
    count = (workload.status.requeue.count if workload.status.requeue is not None else 0) + 1
    if settings.backoff_limit is not None and count > settings.backoff_limit:
        return None
    rest = min(settings.backoff_base * 2 ** min(count - 1, 62), settings.backoff_most)
    message = f"Exceeded the PodsReady timeout {workload.key.namespace}/{workload.key.name}"
    status = evicted(workload, POD_TIMEOUT, message, now, cause=cause)
    return structs.replace(status, requeue=RequeueState(count, second(now) + rest))


def released(workload: QueuedWorkload, now: float, reason: str = PENDING_EVALUATION) -> QueuedWorkloadStatus:
    """Evicted and gone: the quota is free. Whether it queues up at once depends on why it had to go."""
    why = workload.condition(EVICTED)
    cause, message = (why.reason, why.message) if why is not None else (reason, "")
    again = cause in REQUEUED_AT_ONCE
    return unreserved(workload, reason, message, now, ConditionUpdate(REQUEUED, again, cause, message))


def unreserved(
    workload: QueuedWorkload, reason: str, message: str, now: float, *also: ConditionUpdate
) -> QueuedWorkloadStatus:
    """Without quota, as if it had never had any, but for the time it ran."""
    updates = [ConditionUpdate(QUOTA_RESERVED, False, reason, message), *also, HAS_NO_RESERVATION]
    past = workload.status.past_execution_seconds + seconds_run(workload, now)
    return edited(workload, now, *updates, admission=None, past_execution_seconds=past)


def deactivation_target(workload: QueuedWorkload, reason: str, message: str, now: float) -> QueuedWorkloadStatus:
    """To be deactivated: first this is said, then its spec is changed, then it is evicted."""
    return edited(workload, now, ConditionUpdate(DEACTIVATION_TARGET, True, reason, message))


def deactivated(workload: QueuedWorkload, now: float) -> QueuedWorkloadStatus:
    """Its spec says it is not active: evicted, for the reason of its DeactivationTarget if it has one."""
    shown = workload.condition(DEACTIVATION_TARGET)
    target = shown if shown is not None and shown.status == "True" else None
    cause = target.reason if target is not None else ""
    message = "The workload is deactivated" + (f" due to {target.message}" if target is not None else "")
    bare = without(workload, DEACTIVATION_TARGET)
    bare = with_status(bare, structs.replace(bare.status, requeue=None))
    status = evicted(bare, DEACTIVATED, message, now, cause=cause)
    if workload.status.admission is not None:
        return status
    return released(with_status(bare, status), now, DEACTIVATED)


def requeued(workload: QueuedWorkload, reason: str, message: str, now: float) -> QueuedWorkloadStatus:
    """What kept it from queueing is over. How often it rested is remembered, until when is not."""
    requeue = None if workload.status.requeue is None else structs.replace(workload.status.requeue, at=None)
    return edited(workload, now, ConditionUpdate(REQUEUED, True, reason, message), requeue=requeue)


def finished(workload: QueuedWorkload, reason: str, message: str, now: float) -> QueuedWorkloadStatus:
    return edited(workload, now, ConditionUpdate(FINISHED, True, reason, message))


def _closed(gates: Sequence[GateStatus], now: float) -> tuple[GateStatus, ...]:
    return tuple([GateStatus(gate.name, False, second(now)) for gate in gates]) if gates else ()


def _with_cause(reason: str, cause: str) -> str:
    return f"{reason}DueTo{cause}" if reason == DEACTIVATED and cause else reason


def _counted(evictions: Sequence[EvictionCount], reason: str, cause: str) -> tuple[EvictionCount, ...]:
    for index, each in enumerate(evictions):
        if (each.reason, each.cause) == (reason, cause):
            return (*evictions[:index], EvictionCount(reason, cause, each.count + 1), *evictions[index + 1 :])
    return (*evictions, EvictionCount(reason, cause, 1))
