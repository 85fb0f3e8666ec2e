"""The status a Workload should show, given its job. Where it shows that already, nothing changes."""

from __future__ import annotations

from msgspec.structs import replace

from headgate.lifecycle.jobframework.generic_job import Ending, GenericJob
from headgate.lifecycle.terminating import WAITING_FOR_ROOM, Hold, with_hold
from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    EVICTED,
    FINISHED,
    ON_HOLD,
    PENDING_EVALUATION,
    PODS_READY,
    QUOTA_RESERVED,
    REQUEUED,
    ConditionUpdate,
    edited,
    shows,
    true_conditions,
    with_status,
)
from headgate.lifecycle.workload.deadlines import RECOVERING, STARTING
from headgate.lifecycle.workload.eviction import released, unreserved
from headgate.model.queues import QueuedWorkload

WAITING = "WaitingForReplacementPods"
OWNER_GONE = Ending("OwnerNotFound", "The work this workload stands for is being deleted")
READY = "All pods reached readiness and the workload is running"
NO_LONGER_ON_HOLD = "Workload no longer on hold; waiting for quota reservation"
NOT_READY = {
    STARTING: "Not all pods are ready or succeeded",
    RECOVERING: "At least one pod has failed, waiting for recovery",
}


def progressed(
    job: GenericJob, workload: QueuedWorkload, active: bool, now: float, hold: Hold | None = None
) -> QueuedWorkload:
    """The Workload as it should be. `active`: a part of the job holds quota, or may be about to.

    A job that is deleted is finished, unless we deleted it and others may take its place.
    """
    true = true_conditions(workload)
    if FINISHED in true:
        return workload
    if hold is not None or WAITING_FOR_ROOM in true:
        workload = with_hold(workload, hold, now)
    if (ending := job.ending) is not None:
        return finished(workload, ending, now)
    if QUOTA_RESERVED in true:
        workload = _with_reclaimable(job, workload)
    if job.missing is not None:
        workload = _with_replacements(job.missing, workload, now)
    if job.on_hold or QUOTA_RESERVED not in true:
        before, workload = workload, _with_on_hold(job, workload, active, now)
        true = true if workload is before else true_conditions(workload)
    if EVICTED in true:
        workload = (
            _with_release(job, workload, now) if workload.status.admission is not None and not active else workload
        )
    elif ADMITTED in true:
        workload = _with_readiness(job, workload, PODS_READY in true, now)
    is_over = job.is_terminating and not active and not (EVICTED in true and job.can_restart)
    return finished(workload, OWNER_GONE, now) if is_over else workload


def finished(workload: QueuedWorkload, ending: Ending, now: float) -> QueuedWorkload:
    return _showing(workload, ConditionUpdate(FINISHED, True, ending.reason, ending.message), now)


def _with_release(job: GenericJob, workload: QueuedWorkload, now: float) -> QueuedWorkload:
    """An evicted Workload releases its quota; one whose job cannot restart is not requeued."""
    workload = with_status(workload, released(workload, now))
    again, evicted = workload.condition(REQUEUED), workload.condition(EVICTED)
    if again is not None and evicted is not None and not job.can_restart:
        workload = _showing(workload, ConditionUpdate(REQUEUED, False, again.reason, again.message), now)
    if workload.is_true(PODS_READY):
        workload = _showing(workload, ConditionUpdate(PODS_READY, False, STARTING, NOT_READY[STARTING]), now)
    return workload


def _with_on_hold(job: GenericJob, workload: QueuedWorkload, active: bool, now: float) -> QueuedWorkload:
    """A job on hold has no quota and does not queue for it until the hold ends."""
    if job.on_hold and workload.active and not active and not workload.is_on_hold:
        return with_status(workload, unreserved(workload, ON_HOLD, job.on_hold, now))
    if workload.is_on_hold and not job.on_hold:
        return _showing(workload, ConditionUpdate(QUOTA_RESERVED, False, PENDING_EVALUATION, NO_LONGER_ON_HOLD), now)
    return workload


def _with_reclaimable(job: GenericJob, workload: QueuedWorkload) -> QueuedWorkload:
    """Pods that are done stay done; no set has more of them than it has pods."""
    known, found = dict(workload.status.reclaimable), dict(job.reclaimable)
    each = [
        (pod_set.name, min(pod_set.count, max(known.get(pod_set.name, 0), found.get(pod_set.name, 0))))
        for pod_set in workload.pod_sets
    ]
    reclaimable = tuple((name, count) for name, count in each if count or name in known)
    return with_status(workload, replace(workload.status, reclaimable=reclaimable))


def _with_readiness(job: GenericJob, workload: QueuedWorkload, was_ready: bool, now: float) -> QueuedWorkload:
    """That pods are not ready yet is not written, which saves a write per Workload; that they are no longer, is."""
    is_ready = job.is_ready
    if is_ready and not was_ready:
        shown = workload.condition(PODS_READY)
        recovered = shown is not None and shown.reason == RECOVERING
        return _showing(
            workload, ConditionUpdate(PODS_READY, True, "Recovered" if recovered else "Started", READY), now
        )
    if was_ready and not is_ready:
        return _showing(workload, ConditionUpdate(PODS_READY, False, RECOVERING, NOT_READY[RECOVERING]), now)
    return workload


def _with_replacements(missing: int, workload: QueuedWorkload, now: float) -> QueuedWorkload:
    shown = workload.condition(WAITING)
    if shown is None and not missing:
        return workload
    if not missing:
        return _showing(workload, ConditionUpdate(WAITING, False, PODS_READY, "No pods need replacement"), now)
    evicted = workload.condition(EVICTED)
    if evicted is not None and evicted.status == "True":
        return _showing(workload, ConditionUpdate(WAITING, True, evicted.reason, evicted.message), now)
    if shown is not None and shown.status == "True":
        return workload
    return _showing(workload, ConditionUpdate(WAITING, True, "PodsFailed", "Some Failed pods need replacement"), now)


def _showing(workload: QueuedWorkload, update: ConditionUpdate, now: float) -> QueuedWorkload:
    return workload if shows(workload, update) else with_status(workload, edited(workload, now, update))
