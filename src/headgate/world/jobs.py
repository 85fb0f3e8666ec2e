"""The Job controller: parallelism, completions, suspension, the backoff limit, and the Job's status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from headgate.api.jobs import pod_from_template
from headgate.model.effects import Create, Delete, Effect, JobProgress, PatchStatus, WakeAt, Write
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.keys import Key, Kind
from headgate.model.objects import Job
from headgate.model.pod import Phase, Pod
from headgate.world.controller import PERMANENT

CONTROLLER = "kubernetes.io/job-controller"
FIRST_BACKOFF = 10.0  # seconds before a failed pod is replaced; doubles with each failure
LONGEST_BACKOFF = 600.0
LONGEST_NAME = 63
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_STRIDE = 6_180_340  # shares no factor with the number of suffixes, so no two counts give one suffix


class JobPods(Struct):
    """The pods of one Job. A pod that succeeded or failed stays counted after its object is deleted."""

    job: Job | None = None  # None while only its pods were seen
    active: dict[str, Pod] = field(default_factory=dict)  # by uid: neither ended nor deleted
    running: dict[str, None] = field(default_factory=dict)
    succeeded: dict[str, None] = field(default_factory=dict)
    failed: dict[str, float] = field(default_factory=dict)  # when it was first seen failed
    earlier_succeeded: int = 0  # counted in status at first sight, their objects already gone
    earlier_failed: int = 0
    creating: dict[Key, None] = field(default_factory=dict)  # created, not observed yet
    deleting: dict[str, None] = field(default_factory=dict)  # by uid: deleted, not observed yet
    created: int = 0
    started: float | None = None
    written: JobProgress | None = None

    def add_pod(self, pod: Pod, now: float) -> None:
        self.creating.pop(pod.key, None)
        self._deactivate(pod.uid)
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
        self.job = job

    def expect_deletion(self, pod: Pod) -> None:
        self._deactivate(pod.uid)
        self.deleting[pod.uid] = None

    @property
    def successes(self) -> int:
        return self.earlier_succeeded + len(self.succeeded)

    @property
    def failures(self) -> int:
        return self.earlier_failed + len(self.failed)

    def _count_active(self, pod: Pod) -> None:
        self.active[pod.uid] = pod
        if pod.phase is Phase.RUNNING:
            self.running[pod.uid] = None

    def _deactivate(self, uid: str) -> None:
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
        have, want = len(pods.active) + len(pods.creating), _desired(pods, job)
        if have > want:
            return _delete_pods(pods, _deletion_order(pods)[: have - want])
        if have == want:
            return []
        ready_again = _backoff_ends(pods)
        if now < ready_again:
            return [WakeAt(ready_again, job.uid)]
        return [self._create(pods, job) for _ in range(want - have)]

    def _create(self, pods: JobPods, job: Job) -> Create:
        name = f"{job.key.name[: LONGEST_NAME - 6]}-{_suffix(pods.created)}"
        create = pod_from_template(job, name, {})
        pods.created += 1
        pods.creating[create.key] = None
        self._creating[create.key] = job.uid
        return create


def _finished(pods: JobPods, job: Job) -> str:
    """`Complete` or `Failed` once the Job is finished, else an empty string."""
    if job.ended:
        return job.ended
    if pods.failures > job.backoff_limit:
        return "Failed"
    if job.completions is None:
        return "Complete" if pods.successes and not pods.active and not pods.creating else ""
    return "Complete" if pods.successes >= job.completions else ""


def _desired(pods: JobPods, job: Job) -> int:
    if job.completions is None:  # a work queue: the first success means there is no more work
        return len(pods.active) + len(pods.creating) if pods.successes else job.parallelism
    return max(0, min(job.parallelism, job.completions - pods.successes))


def _backoff_ends(pods: JobPods) -> float:
    if not pods.failed:
        return 0.0
    return max(pods.failed.values()) + min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** (len(pods.failed) - 1))


def _deletion_order(pods: JobPods) -> list[Pod]:
    """Those whose deletion loses least come first: not bound, not running, youngest."""
    return sorted(
        pods.active.values(),
        key=lambda pod: (bool(pod.node), pod.phase is Phase.RUNNING, -pod.created, pod.key),
    )


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


def _update_status(pods: JobPods, job: Job, finished: str, now: float) -> list[Effect]:
    """Patches the status where it differs from the last one written."""
    if job.ended and pods.written is None:
        return []
    condition = finished or ("Suspended" if job.suspended else "")
    reason, message = _CONDITIONS[condition]
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
    )
    if pods.written is not None and replace(pods.written, at=now) == progress:
        return []
    pods.written = progress
    return [PatchStatus(job.target, progress)]


def _suffix(count: int) -> str:
    """Five letters for the count, scattered so that names do not read as numbers."""
    number = (count + 1) * _STRIDE % len(_LETTERS) ** 5
    letters = []
    for _ in range(5):
        number, position = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[position])
    return "".join(letters)
