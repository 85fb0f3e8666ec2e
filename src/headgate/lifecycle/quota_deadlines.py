"""When time itself changes something for a workload."""

from __future__ import annotations

from typing import NamedTuple

from headgate.lifecycle.quota_conditions import (
    ADMITTED,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    PODS_READY,
    REQUEUED,
    true_since,
)
from headgate.model.queues import QueuedWorkload
from headgate.model.quota_settings import PodsReady, QuotaSettings

STARTING, RECOVERING = "WaitForStart", "WaitForRecovery"


class Patience(NamedTuple):
    """Until when its pods are waited for, and what they are waited for to do."""

    at: float
    cause: str


def next_deadline(workload: QueuedWorkload, settings: QuotaSettings) -> float | None:
    """The first time at which the workload must be looked at again, though nothing else may happen to it."""
    if workload.deleted is not None:
        return None
    if workload.is_true(FINISHED):
        return kept_until(workload, settings)
    if not workload.active or workload.is_true(DEACTIVATION_TARGET):
        return None  # it leaves, or has left, and no time brings it back
    ready = ready_until(workload, settings.pods_ready)
    times = (ready.at if ready is not None else None, execution_ends(workload), _rests_until(workload))
    return min((at for at in times if at is not None), default=None)


def kept_until(workload: QueuedWorkload, settings: QuotaSettings) -> float | None:
    """When a finished workload is deleted."""
    since, kept = true_since(workload, FINISHED), settings.retention.after_finished
    return None if since is None or kept is None else since + kept


def ready_until(workload: QueuedWorkload, settings: PodsReady) -> Patience | None:
    """None: nothing is waited for, or nobody would say when it is there, as with a workload that nobody owns."""
    since = true_since(workload, ADMITTED)
    if since is None or workload.is_true(EVICTED):
        return None
    ready = workload.condition(PODS_READY)
    if ready is None:
        return None if workload.owner is None else Patience(since + settings.timeout, STARTING)
    if ready.status == "True":
        return None
    if ready.reason != RECOVERING:
        return Patience(since + settings.timeout, STARTING)
    recovery = settings.recovery_timeout
    return None if recovery is None else Patience(ready.at + recovery, RECOVERING)


def execution_ends(workload: QueuedWorkload) -> float | None:
    since, most = true_since(workload, ADMITTED), workload.max_execution_seconds
    return None if since is None or most is None else since + most - workload.past_execution_seconds


def _rests_until(workload: QueuedWorkload) -> float | None:
    requeued = workload.condition(REQUEUED)
    if workload.admission is not None or requeued is None or requeued.status != "False":
        return None
    return workload.requeue.at if workload.requeue is not None else None
