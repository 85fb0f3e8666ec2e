"""When time itself changes something for a workload."""

from __future__ import annotations

from typing import NamedTuple

from headgate.lifecycle.terminating import runs_from
from headgate.lifecycle.workload.conditions import (
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    PODS_READY,
    REQUEUED,
    true_since,
)
from headgate.model.queues import QueuedWorkload, RequeueState
from headgate.model.settings import QuotaSettings

STARTING, RECOVERING = "WaitForStart", "WaitForRecovery"


class Patience(NamedTuple):
    """Until when its pods are waited for, and what they are waited for to do."""

    at: float
    cause: str


def next_deadline(workload: QueuedWorkload, settings: QuotaSettings) -> float | None:
    """The first time at which the workload must be looked at again, though nothing else may happen to it."""
    if workload.deleted is not None:
        return None
    if settings.retention.after_finished is not None and workload.is_true(FINISHED):
        return kept_until(workload, settings)
    if not workload.active:
        return None  # it is or will be evicted, and no time requeues it; nor one that is to be deactivated
    if workload.status.admission is not None:
        at = _runs_until(workload, settings)
    elif workload.status.requeue is not None:
        at = _rests_until(workload, workload.status.requeue)
    else:
        return None
    if at is None or workload.is_true(FINISHED) or workload.is_true(DEACTIVATION_TARGET):
        return None
    return at


def kept_until(workload: QueuedWorkload, settings: QuotaSettings) -> float | None:
    """When a finished workload is deleted."""
    kept = settings.retention.after_finished
    since = true_since(workload, FINISHED) if kept is not None else None
    return None if since is None or kept is None else since + kept


def ready_until(workload: QueuedWorkload, settings: QuotaSettings) -> Patience | None:
    """Until when its pods must be ready; while the workload is held they are not waited for.

    None: nothing is waited for, or nobody would say when it is there, as with a workload that nobody owns.
    """
    ready = workload.condition(PODS_READY)
    if workload.owner is None if ready is None else ready.status == "True":
        return None
    since = runs_from(workload, settings.max_hold)
    if since is None or workload.is_true(EVICTED):
        return None
    start, recovery = settings.pods_ready.timeout, settings.pods_ready.recovery_timeout
    if ready is None or ready.reason != RECOVERING:
        return None if start is None else Patience(since + start, STARTING)
    return None if recovery is None else Patience(ready.at + recovery, RECOVERING)


def _runs_until(workload: QueuedWorkload, settings: QuotaSettings) -> float | None:
    ready, ends = ready_until(workload, settings), execution_ends(workload, settings)
    if ready is None:
        return ends
    return ready.at if ends is None else min(ready.at, ends)


def execution_ends(workload: QueuedWorkload, settings: QuotaSettings) -> float | None:
    """When it has run as long as it may, over all its admissions; time while it is held does not count."""
    most = workload.max_execution_seconds
    since = runs_from(workload, settings.max_hold) if most is not None else None
    return None if since is None or most is None else since + most - workload.status.past_execution_seconds


def _rests_until(workload: QueuedWorkload, rest: RequeueState) -> float | None:
    requeued = workload.condition(REQUEUED)
    return rest.at if requeued is not None and requeued.status == "False" else None
