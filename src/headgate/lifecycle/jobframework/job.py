"""batch/v1 Jobs: held back by spec.suspend, started with fewer pods where they allow it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from headgate.lifecycle.jobframework.generic_job import (
    Ending,
    PodSetInfos,
    Stop,
    WantedPodSet,
    requests_topology,
    topology_request,
)
from headgate.lifecycle.jobframework.pod_writes import merged_selector
from headgate.lifecycle.workload.conditions import ADMITTED, FINISHED
from headgate.model.effects import (
    Delete,
    Directives,
    Effect,
    EmitEvent,
    EventType,
    JobRestore,
    JobStart,
    JobStop,
    JobSuspend,
    PatchSpec,
)
from headgate.model.keys import Key, Kind, Target
from headgate.model.kueue_names import (
    COMPLETIONS_EQUAL_PARALLELISM,
    FLAVORS,
    MIN_PARALLELISM,
    MULTIKUEUE,
    OURS_ON_PODS,
    PREBUILT_WORKLOAD,
    STOPPING,
    positive,
    workload_name,
)
from headgate.model.objects import Job
from headgate.model.pod import PodShape
from headgate.model.queues import PodSet, QueuedWorkload
from headgate.model.settings import QuotaRelease

POD_SET_NAME = "main"
_ENDINGS = {"Complete": ("Succeeded", "Job finished successfully"), "Failed": ("Failed", "Job failed")}


class JobAdapter:
    """A Job as it is now. Where it says who replaces its pods, that is its own controller's matter."""

    can_restart = True
    missing = None
    problem = on_hold = ""
    is_complete = True
    workload_annotations: Mapping[str, str] = {}

    def __init__(self, job: Job, release: QuotaRelease) -> None:
        self.job = job
        self._release = release
        self.key, self.uid = job.key, job.uid
        self.labels, self.annotations = job.labels, job.annotations
        self.part_labels: Sequence[Mapping[str, str]] = (job.labels,)
        self.controller: Target | None = Target(job.key, job.uid)
        self.parts = self.owners = (Target(job.key, job.uid),)
        self.pod_priority_class = job.pods.priority_class
        self.is_terminating = job.deleted is not None
        self.may_run = not job.suspended and not job.ended
        name = job.labels.get(PREBUILT_WORKLOAD) or workload_name("Job", "batch", job.key.name, job.uid)
        self.workload_key = Key(Kind.KUEUE_WORKLOAD, job.key.namespace, name)

    @property
    def can_start(self) -> bool:
        """Its template can be changed only while nothing of it runs."""
        return self.job.suspended and not self.job.ended and self._is_at_rest and STOPPING not in self.job.annotations

    @property
    def ending(self) -> Ending | None:
        if not self.job.ended:
            return None
        reason, message = _ENDINGS[self.job.ended]
        return Ending(reason, self.job.ended_message or message)

    @property
    def is_ready(self) -> bool:
        """An index that failed for good gets no pod any more that could be ready."""
        job = self.job
        return job.succeeded + job.ready + job.uncounted_succeeded + job.failed_indexes >= self._count

    @property
    def reclaimable(self) -> tuple[tuple[str, int], ...]:
        """Once fewer pods are left to run than may run at once, the others will never come."""
        job = self.job
        ended = job.succeeded + job.failed_indexes
        if job.parallelism <= 1 or not ended:
            return ()
        completions = job.parallelism if job.completions is None else job.completions
        done = job.parallelism - max(0, completions - ended)
        return ((POD_SET_NAME, done),) if done > 0 else ()

    def is_active(self, now: float) -> bool:
        """Its controller does not count terminating pods as active; OnTerminal waits for those too."""
        job = self.job
        terminating = job.terminating if self._release is QuotaRelease.ON_TERMINAL else 0
        return bool(job.active or terminating) or self.may_run

    def occupies_nodes(self, now: float) -> bool:
        return bool(self.job.active or self.job.terminating)

    def next_release(self, now: float) -> float | None:
        return None

    def pod_sets(self) -> tuple[WantedPodSet, ...]:
        topology = topology_request(self.job.pods.annotations)
        return (WantedPodSet(POD_SET_NAME, self.job.template, self._count, self._min_count, topology),)

    def owns(self, workload: QueuedWorkload) -> bool:
        """Its own, or one made for it that no one owns yet."""
        if workload.owner is None:
            return self.job.labels.get(PREBUILT_WORKLOAD) == workload.key.name
        return workload.is_controlled and workload.owner.uid == self.job.uid

    def matches(self, workload: QueuedWorkload) -> bool:
        """As it is while it waits, or as it was started. One that is being put back is not judged."""
        if STOPPING in self.job.annotations or self.job.ended:
            return True
        if len(workload.pod_sets) != 1:
            return False
        return self._waits_as(workload.pod_sets[0]) or self._was_started_as(workload)

    def start(self, workload: QueuedWorkload, given: PodSetInfos) -> Iterator[Effect]:
        job, wanted = self.job, workload.pod_sets[0]
        got = given[wanted.name]
        more = tuple(each for each in got.tolerations if each not in job.pods.shape.tolerations)
        directives = Directives(
            merged_selector(dict(job.pods.shape.node_selector), got.node_selector),
            (*job.pods.shape.tolerations, *more) if more else None,
            dict(got.labels),
            dict(got.annotations),
        )
        change = JobStart(directives, *self._counts(got.count, wanted))
        yield PatchSpec(Target(job.key, job.uid, job.version), change)

    def start_elsewhere(self) -> Iterator[Effect]:
        """A Job whose own controller leaves it alone is not suspended any more, so that its status can be shown."""
        if self.job.managed_by == MULTIKUEUE:
            yield PatchSpec(Target(self.job.key, self.job.uid, self.job.version), JobStart(Directives()))

    def stop(self, why: Stop) -> Iterator[Effect]:
        if self.may_run:
            yield PatchSpec(self.job.target, JobStop())

    def sync_parts(self, workload: QueuedWorkload | None, now: float) -> Iterator[Effect]:
        """Put the template back, once it may be changed, to what it was when the Workload was made of it."""
        job = self.job
        if STOPPING not in job.annotations or not job.suspended or not self._is_at_rest or self.is_terminating:
            return
        wanted = workload.pod_sets[0] if workload is not None and workload.pod_sets else None
        counts = (None, None) if wanted is None else self._counts(wanted.count, wanted)
        directives = _back_to(job, job.pods.shape if wanted is None else wanted.shape)
        yield PatchSpec(Target(job.key, job.uid, job.version), JobRestore(directives, *counts))

    def delete(self) -> Iterator[Effect]:
        yield Delete(self.job.target)

    def finalize(self) -> Iterator[Effect]:
        return iter(())

    @property
    def _is_at_rest(self) -> bool:
        return not self.job.active and (self.job.started is None or self.job.suspension_shown)

    @cached_property
    def _count(self) -> int:
        completions = self.job.completions
        return self.job.parallelism if completions is None else min(self.job.parallelism, completions)

    @cached_property
    def _min_count(self) -> int | None:
        annotations = self.job.annotations
        least = positive(annotations, MIN_PARALLELISM) if MIN_PARALLELISM in annotations else None
        return least if least is not None and least < self._count else None

    def _counts(self, count: int, wanted: PodSet) -> tuple[int | None, int | None]:
        """How many pods at once and in all, where that is not what the Job says; only a partial Job is changed."""
        if wanted.min_count is None or count == self._count:
            return None, None
        follows = self.job.annotations.get(COMPLETIONS_EQUAL_PARALLELISM) == "true"
        return count, count if follows else None

    def _waits_as(self, wanted: PodSet) -> bool:
        annotations = self.job.pods.annotations
        if (wanted.topology or annotations) and not requests_topology(wanted, self.labels, annotations):
            return False
        mine = (_asked(self.job.pods.shape), self._count, self._min_count)
        return mine == (_asked(wanted.shape), wanted.count, wanted.min_count)

    def _was_started_as(self, workload: QueuedWorkload) -> bool:
        wanted, shape = workload.pod_sets[0], self.job.pods.shape
        if workload.status.admission is None:
            return self.may_run  # it will be stopped and put back
        counts = {assigned.name: assigned.count for assigned in workload.status.admission.pod_sets}
        has_all = set(wanted.shape.node_selector) <= set(shape.node_selector)
        return self._count == counts.get(wanted.name) and shape.requests == wanted.shape.requests and has_all


def _asked(shape: PodShape) -> tuple[object, ...]:
    return shape.requests, shape.node_selector, shape.required_terms, shape.tolerations


def _back_to(job: Job, shape: PodShape) -> Directives:
    has, wanted = dict(job.pods.shape.node_selector), dict(shape.node_selector)
    selector: dict[str, str | None] = {name: None for name in has if name not in wanted}
    selector |= {name: value for name, value in wanted.items() if has.get(name) != value}
    return Directives(
        selector,
        None if shape.tolerations == job.pods.shape.tolerations else shape.tolerations,
        {label: None for label in OURS_ON_PODS if label in job.pods.labels},
        {FLAVORS: None} if FLAVORS in job.pods.annotations else {},
    )


SUSPENDED = "Kueue managed child job suspended"


def suspend_child_job(job: Job, workload: QueuedWorkload | None, now: float) -> Iterator[Effect]:
    """Suspends a Job that runs unless the job that owns it is admitted; the owner resumes it."""
    if job.suspended or job.ended or job.deleted is not None or _may_run(workload):
        return
    yield PatchSpec(job.target, JobSuspend())
    yield EmitEvent(job.target, EventType.NORMAL, "Suspended", "Suspended", SUSPENDED, now)


def _may_run(workload: QueuedWorkload | None) -> bool:
    return workload is not None and not workload.is_true(FINISHED) and workload.is_true(ADMITTED)
