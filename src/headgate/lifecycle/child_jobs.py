"""Jobs made by work that waits for quota: they run while that is admitted, and have no Workload of their own."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.lifecycle.quota_conditions import ADMITTED, FINISHED
from headgate.model.effects import Effect, EmitEvent, EventType, JobSuspend, PatchSpec
from headgate.model.objects import Job
from headgate.model.queues import QueuedWorkload

SUSPENDED = "Kueue managed child job suspended"


def held_with_its_maker(job: Job, workload: QueuedWorkload | None, now: float) -> Iterator[Effect]:
    """A job that runs is suspended unless the work that made it is admitted; whoever made it starts it again."""
    if job.suspended or job.ended or job.deleted is not None or _may_run(workload):
        return
    yield PatchSpec(job.target, JobSuspend())
    yield EmitEvent(job.target, EventType.NORMAL, "Suspended", "Suspended", SUSPENDED, now)


def _may_run(workload: QueuedWorkload | None) -> bool:
    return workload is not None and not workload.is_true(FINISHED) and workload.is_true(ADMITTED)
