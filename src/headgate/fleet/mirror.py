"""The status of a job at home, which is that of its clone on the worker cluster that admitted it."""

from __future__ import annotations

from msgspec import Struct

from headgate.model.effects import JobProgress, PodRun
from headgate.model.objects import Job
from headgate.model.pod import ENDED, Phase, Pod

SUSPENDED = "Suspended"
STOPPED = "JobSuspended"


class _Shown(Struct, frozen=True):
    """What both statuses have in common, to be compared."""

    active: int
    ready: int
    succeeded: int
    failed: int
    ended: str
    suspended: bool


def job_status(home: Job, clone: Job | None, now: float) -> JobProgress | None:
    """The status the Job at home is to get; None when it shows that, or must not show it yet.

    A suspended Job shows no progress of pods that run. Without a clone it is at rest. Counters never go back, and the
    time of a start does not change while it runs.
    """
    if home.ended:
        return None
    if clone is None:
        return _at_rest(home, now) if home.suspended else None
    if home.suspended and not clone.suspended and not clone.ended:
        return None
    wanted = _Shown(
        0 if clone.ended else clone.active,
        0 if clone.ended else min(clone.ready, clone.active),
        max(home.succeeded, clone.succeeded),
        max(home.failed, clone.failed),
        clone.ended,
        home.suspended and not clone.ended,
    )
    indexes, shown = clone.indexes, home.indexes
    if wanted == _shown(home) and (indexes is None or shown is None or indexes.completed == shown.completed):
        return None
    return JobProgress(
        wanted.active,
        wanted.ready,
        wanted.succeeded,
        wanted.failed,
        _started(home, clone),
        now // 1.0,
        condition=clone.ended or (SUSPENDED if wanted.suspended else ""),
        reason=STOPPED if wanted.suspended else "",
        message=clone.ended_message,
        completed_indexes=indexes.completed if indexes is not None else None,
        failed_indexes=indexes.failed if indexes is not None and indexes.backoff_limit is not None else None,
    )


def _at_rest(home: Job, now: float) -> JobProgress | None:
    if not home.active and (home.started is None or home.suspension_shown):
        return None
    return JobProgress(
        0,
        0,
        home.succeeded,
        home.failed,
        None,
        now // 1.0,
        condition=SUSPENDED,
        reason=STOPPED,
        message="Job suspended",
    )


def _shown(job: Job) -> _Shown:
    return _Shown(job.active, job.ready, job.succeeded, job.failed, job.ended, job.suspension_shown)


def _started(home: Job, clone: Job) -> float | None:
    if home.started is not None and not home.suspended:
        return home.started
    return clone.started if clone.ended or not home.suspended else None


def pod_status(home: Pod, clone: Pod | None, now: float) -> PodRun | None:
    """The status a pod at home is to get; None when it shows that. It runs once its clone is ready.

    A clone that is stopped, as by an eviction there, has not failed: the pod at home may run again elsewhere.
    """
    if home.phase in ENDED:
        return None
    if clone is not None and clone.deleted is not None and clone.phase is Phase.FAILED and home.deleted is None:
        return None
    phase = Phase.PENDING if clone is None else clone.phase
    if clone is not None and phase is Phase.RUNNING and home.phase is not phase and not _is_ready(clone):
        phase = Phase.PENDING
    return None if phase is home.phase else PodRun(phase, now // 1.0)


def _is_ready(pod: Pod) -> bool:
    return pod.held is not None and pod.held.ready
