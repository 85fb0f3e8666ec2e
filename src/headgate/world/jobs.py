"""The Job controller: parallelism, completions, indexes, suspension, the backoff limits, and the Job's status."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct, field
from msgspec.structs import replace

from headgate.api.owners import COMPLETION_INDEX, index_ranges, pod_from_template
from headgate.model.effects import Create, Delete, Effect, JobProgress, PatchStatus, WakeAt, Write
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.keys import Key, Kind
from headgate.model.objects import Job, JobIndexes
from headgate.model.pod import Phase, Pod
from headgate.world.controller import PERMANENT, backoff_after
from headgate.world.replica_sets import child_name, deletion_order

CONTROLLER = "kubernetes.io/job-controller"


class IndexProgress(Struct):
    """Kept for each Job, also for one that has no indexes."""

    completed: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)  # for good
    active: dict[str, int] = field(default_factory=dict)  # by uid of a pod
    failures: dict[int, dict[str, float]] = field(default_factory=dict)  # when each pod of an index was seen failed
    first_open: int = 0  # all indexes below are done

    def update(self, shown: JobIndexes, completions: int) -> None:
        """What the status of the Job has stays."""
        self.completed.update(*index_ranges(shown.completed, completions))
        self.failed.update(*index_ranges(shown.failed, completions))

    def add_pod(self, pod: Pod, now: float) -> None:
        index = index_of(pod)
        if index is None:
            return
        self.active.pop(pod.uid, None)
        if pod.phase is Phase.SUCCEEDED:
            self.completed.add(index)
        elif pod.deleted is None and pod.phase is Phase.FAILED:
            self.failures.setdefault(index, {}).setdefault(pod.uid, now)
        elif pod.deleted is None and pod.uid not in self.failures.get(index, {}):
            self.active[pod.uid] = index

    def delete_pod(self, uid: str) -> None:
        self.active.pop(uid, None)

    def fail(self, limit: int | None) -> None:
        """Indexes of which more pods failed than the limit allows failed for good."""
        if limit is not None:
            self.failed.update(index for index, pods in self.failures.items() if len(pods) > limit)
            self.failed -= self.completed

    def done(self, completions: int) -> int:
        return sum(index < completions for index in self.completed) + self.failed_below(completions)

    def failed_below(self, completions: int) -> int:
        return sum(index < completions for index in self.failed)

    def next_open(self, completions: int, taken: Collection[int]) -> Iterator[int]:
        """The indexes to be tried, the lowest first."""
        while self.first_open in self.completed or self.first_open in self.failed:
            self.first_open += 1
        for index in range(self.first_open, completions):
            if index not in self.completed and index not in self.failed and index not in taken:
                yield index

    def backoff_ends(self, index: int) -> float:
        return backoff_after(self.failures.get(index, {}).values())


def index_of(pod: Pod) -> int | None:
    text = pod.annotations.get(COMPLETION_INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else None


def intervals_of(indexes: Iterable[int]) -> str:
    """The list of these indexes, as `0,2-4`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


class JobPods(Struct):
    """The pods of one Job. A pod that succeeded or failed stays counted after its object is deleted."""

    job: Job | None = None  # None while only its pods were seen
    active: dict[str, Pod] = field(default_factory=dict)  # by uid: neither ended nor deleted
    running: dict[str, None] = field(default_factory=dict)
    succeeded: dict[str, None] = field(default_factory=dict)
    failed: dict[str, float] = field(default_factory=dict)  # when it was first seen failed
    earlier_succeeded: int = 0  # counted in status at first sight, their objects already gone
    earlier_failed: int = 0
    indexes: IndexProgress = field(default_factory=IndexProgress)  # of an Indexed Job
    creating: dict[Key, int | None] = field(default_factory=dict)  # created, not observed yet, and the index of each
    deleting: dict[str, None] = field(default_factory=dict)  # by uid: deleted, not observed yet
    created: int = 0
    started: float | None = None
    written: JobProgress | None = None

    def add_pod(self, pod: Pod, now: float) -> None:
        self.creating.pop(pod.key, None)
        self._deactivate(pod.uid)
        if pod.uid not in self.deleting:
            self.indexes.add_pod(pod, now)
        if pod.phase is Phase.SUCCEEDED:
            self.succeeded[pod.uid] = None
        elif pod.deleted is not None or pod.uid in self.failed:
            return  # being deleted: neither active nor failed
        elif pod.phase is Phase.FAILED:
            self.failed.setdefault(pod.uid, now)
        elif pod.uid not in self.deleting:
            self._count_active(pod)

    def delete_pod(self, uid: str) -> None:
        self._deactivate(uid)
        self.deleting.pop(uid, None)

    def update_job(self, job: Job) -> None:
        """Keeps the Job; at first sight also the pods its status counts as ended whose objects are gone."""
        if self.job is None:
            self.earlier_succeeded = max(0, job.succeeded - len(self.succeeded))
            self.earlier_failed = max(0, job.failed - len(self.failed))
            self.started = job.started
        if job.indexes is not None:
            self.indexes.update(job.indexes, job.completions or 0)
        self.job = job

    def expect_deletion(self, pod: Pod) -> None:
        self._deactivate(pod.uid)
        self.deleting[pod.uid] = None

    @property
    def successes(self) -> int:
        """Of an Indexed Job, the indexes that completed."""
        if self.job is not None and self.job.indexes is not None:
            return len(self.indexes.completed)
        return self.earlier_succeeded + len(self.succeeded)

    @property
    def failures(self) -> int:
        return self.earlier_failed + len(self.failed)

    def _count_active(self, pod: Pod) -> None:
        self.active[pod.uid] = pod
        if pod.phase is Phase.RUNNING:
            self.running[pod.uid] = None

    def _deactivate(self, uid: str) -> None:
        self.indexes.delete_pod(uid)
        self.active.pop(uid, None)
        self.running.pop(uid, None)


class JobController:
    """Pods of a deleted Job are left to garbage collection; a Job managed by someone else is left alone.

    A pod that was deleted, by whomever, is replaced and counts as no failure.
    """

    reads = (Kind.JOB, Kind.POD)

    def __init__(self) -> None:
        self._jobs: dict[str, JobPods] = {}  # by job uid
        self._job_of: dict[str, str] = {}  # job uid by pod uid
        self._creating: dict[Key, str] = {}  # job uid by the key of a pod being created

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        touched = dict.fromkeys(uid for event in batch if (uid := self._observe(event, now)))
        return [effect for uid in touched for effect in self._reconcile(self._jobs.get(uid), now)]

    def _observe(self, event: Event, now: float) -> str:
        """Keeps what the event says; returns the uid of the Job it concerns, or an empty string."""
        match event:
            case Observed(Job() as job):
                self._jobs.setdefault(job.uid, JobPods()).update_job(job)
                return job.uid
            case Observed(Pod() as pod) if pod.owner is not None and pod.owner.key.kind is Kind.JOB:
                return self._add_pod(pod, pod.owner.uid, now)
            case Gone(key, uid) if key.kind is Kind.JOB:
                self._jobs.pop(uid, None)
            case Gone(_, uid):
                return self._delete_pod(uid)
            case TimerFired(timer):
                return timer
            case Outcome(effect, WriteError() as trouble):
                return self._forget_write(effect, trouble)
        return ""

    def _add_pod(self, pod: Pod, job_uid: str, now: float) -> str:
        self._jobs.setdefault(job_uid, JobPods()).add_pod(pod, now)
        self._job_of[pod.uid] = job_uid
        self._creating.pop(pod.key, None)
        return job_uid

    def _delete_pod(self, pod_uid: str) -> str:
        job_uid = self._job_of.pop(pod_uid, "")
        if job_uid in self._jobs:
            self._jobs[job_uid].delete_pod(pod_uid)
        return job_uid

    def _forget_write(self, effect: Write, trouble: WriteError) -> str:
        """A failed write is forgotten, so that it is decided again, unless its error is permanent."""
        if trouble in PERMANENT:
            return ""
        match effect:
            case Create(key):
                uid = self._creating.pop(key, "")
                if uid in self._jobs:
                    self._jobs[uid].creating.pop(key, None)
                return uid
            case PatchStatus(target):
                if target.uid in self._jobs:
                    self._jobs[target.uid].written = None
                return target.uid
        return ""

    def _reconcile(self, pods: JobPods | None, now: float) -> list[Effect]:
        if pods is None or pods.job is None or pods.job.deleted is not None:
            return []
        if pods.job.managed_by not in ("", CONTROLLER):
            return []
        finished = _finished(pods, pods.job)
        effects: list[Effect] = []
        if finished or pods.job.suspended:
            effects += _delete_pods(pods, list(pods.active.values()))
            pods.started = None if pods.job.suspended and not finished else pods.started
        else:
            pods.started = now if pods.started is None else pods.started
            effects += self._adjust(pods, pods.job, now)
            finished = _finished(pods, pods.job)
        return effects + _update_status(pods, pods.job, finished, now)

    def _adjust(self, pods: JobPods, job: Job, now: float) -> list[Effect]:
        """Creates or deletes pods until as many are active as the Job wants now."""
        if spent := _spent_pods(pods, job):
            return _delete_pods(pods, spent)
        have, want = len(pods.active) + len(pods.creating), _desired(pods, job)
        if have > want:
            return _delete_pods(pods, deletion_order(pods.active.values())[: have - want])
        if have == want:
            return []
        if job.indexes is not None and job.indexes.backoff_limit is not None:
            return self._create_indexes(pods, job, want - have, now)
        ready_again = backoff_after(pods.failed.values())
        if now < ready_again:
            return [WakeAt(ready_again, job.uid)]
        if job.indexes is None:
            return [self._create(pods, job, None) for _ in range(want - have)]
        return [self._create(pods, job, index) for index in islice(_open_indexes(pods, job), want - have)]

    def _create_indexes(self, pods: JobPods, job: Job, count: int, now: float) -> list[Effect]:
        """Pods for indexes with a backoff of their own, and a timer for those that wait."""
        effects: list[Effect] = []
        waits: list[float] = []
        for index in _open_indexes(pods, job):
            if len(effects) == count:
                return effects
            if (ends := pods.indexes.backoff_ends(index)) > now:
                waits.append(ends)
            else:
                effects.append(self._create(pods, job, index))
        return [*effects, WakeAt(min(waits), job.uid)] if waits else effects

    def _create(self, pods: JobPods, job: Job, index: int | None) -> Create:
        owner = job.key.name if index is None else f"{job.key.name}-{index}"
        create = pod_from_template(job, child_name(owner, pods.created), index)
        pods.created += 1
        pods.creating[create.key] = index
        self._creating[create.key] = job.uid
        return create


def _finished(pods: JobPods, job: Job) -> str:
    """`Complete` or `Failed` once the Job is finished, else an empty string."""
    if job.ended:
        return job.ended
    if pods.failures > job.backoff_limit:
        return "Failed"
    if job.indexes is not None and job.completions is not None:
        return _finished_indexes(pods.indexes, job.indexes, job.completions)
    if job.completions is None:
        return "Complete" if pods.successes and not pods.active and not pods.creating else ""
    return "Complete" if pods.successes >= job.completions else ""


def _desired(pods: JobPods, job: Job) -> int:
    if job.completions is None:  # a work queue: the first success means there is no more work
        return len(pods.active) + len(pods.creating) if pods.successes else job.parallelism
    done = pods.successes if job.indexes is None else pods.indexes.done(job.completions)
    return max(0, min(job.parallelism, job.completions - done))


def _finished_indexes(progress: IndexProgress, indexes: JobIndexes, completions: int) -> str:
    progress.fail(indexes.backoff_limit)
    failed = progress.failed_below(completions)
    if indexes.most_failed is not None and failed > indexes.most_failed:
        return "Failed"
    if progress.done(completions) < completions:
        return ""
    return "Failed" if failed else "Complete"


def _spent_pods(pods: JobPods, job: Job) -> list[Pod]:
    """Active pods of indexes that are done, or that the Job does not have any more."""
    if job.indexes is None:
        return []
    progress = pods.indexes
    done = progress.completed | progress.failed
    beyond = float("inf") if job.completions is None else job.completions
    return [pods.active[uid] for uid, index in progress.active.items() if index in done or index >= beyond]


def _open_indexes(pods: JobPods, job: Job) -> Iterator[int]:
    taken = {*pods.indexes.active.values(), *pods.creating.values()}
    return pods.indexes.next_open(job.completions or 0, {index for index in taken if index is not None})


def _delete_pods(pods: JobPods, surplus: Iterable[Pod]) -> list[Effect]:
    effects: list[Effect] = []
    for pod in surplus:
        pods.expect_deletion(pod)
        effects.append(Delete(pod.target))
    return effects


_CONDITIONS = {
    "Complete": ("CompletionsReached", "Reached expected number of succeeded pods"),
    "Failed": ("BackoffLimitExceeded", "Job has reached the specified backoff limit"),
    "Suspended": ("JobSuspended", "Job suspended"),
    "": ("", ""),
}


def _has_limit(job: Job) -> bool:
    return job.indexes is not None and job.indexes.backoff_limit is not None


def _failed_indexes(pods: JobPods, job: Job) -> tuple[str, str]:
    """Why it failed: by its indexes, or by its backoff limit."""
    if pods.failures > job.backoff_limit or job.indexes is None:
        return _CONDITIONS["Failed"]
    most = job.indexes.most_failed
    if most is not None and pods.indexes.failed_below(job.completions or 0) > most:
        return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
    return "FailedIndexes", "Job has failed indexes"


def _update_status(pods: JobPods, job: Job, finished: str, now: float) -> list[Effect]:
    """Patches the status where it differs from the last one written."""
    if job.ended and pods.written is None:
        return []
    condition = finished or ("Suspended" if job.suspended else "")
    reason, message = _failed_indexes(pods, job) if condition == "Failed" else _CONDITIONS[condition]
    progress = JobProgress(
        active=len(pods.active) + len(pods.creating),
        ready=len(pods.running),
        succeeded=pods.successes,
        failed=pods.failures,
        started=pods.started,
        at=now,
        condition=condition,
        reason=reason,
        message=message,
        completed_indexes=None if job.indexes is None else intervals_of(pods.indexes.completed),
        failed_indexes=intervals_of(pods.indexes.failed) if _has_limit(job) else None,
    )
    if pods.written is not None and replace(pods.written, at=now) == progress:
        return []
    pods.written = progress
    return [PatchStatus(job.target, progress)]
