"""The Job controller: parallelism, completions, suspension, the backoff limit, and the status that tells of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from headgate.api.jobs import pod_from_template
from headgate.model.effects import Create, Delete, Effect, JobProgress, PatchStatus, WakeAt, Write
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, Trouble
from headgate.model.keys import Key, Kind
from headgate.model.objects import Job
from headgate.model.pod import Phase, Pod
from headgate.world.job_counts import JobPods

CONTROLLER = "kubernetes.io/job-controller"
FIRST_BACKOFF = 10.0  # seconds before a failed pod is replaced; doubles with each failure
LONGEST_BACKOFF = 600.0
LONGEST_NAME = 63
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_STRIDE = 6_180_340  # shares no factor with the number of suffixes, so no two counts give one suffix
_HOPELESS = frozenset({Trouble.REFUSED, Trouble.GONE})


class JobController:
    """Pods of a deleted Job are left to garbage collection; a Job managed by someone else is left alone.

    A pod that was deleted, by whomever, is replaced and counts as no failure.
    """

    reads = (Kind.JOB, Kind.POD)

    def __init__(self) -> None:
        self._jobs: dict[str, JobPods] = {}  # by job uid
        self._job_of: dict[str, str] = {}  # job uid by pod uid
        self._orders: dict[Key, str] = {}  # job uid by the key of a pod asked for

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        touched = dict.fromkeys(uid for event in batch if (uid := self._absorb(event, now)))
        return [effect for uid in touched for effect in self._reconcile(self._jobs.get(uid), now)]

    def _absorb(self, event: Event, now: float) -> str:
        """Notes what the event says; the uid of the Job it concerns, if any."""
        match event:
            case Observed(Job() as job):
                self._jobs.setdefault(job.uid, JobPods()).begin(job)
                return job.uid
            case Observed(Pod() as pod) if pod.owner is not None and pod.owner.key.kind is Kind.JOB:
                return self._take_in(pod, pod.owner.uid, now)
            case Gone(key, uid) if key.kind is Kind.JOB:
                self._jobs.pop(uid, None)
            case Gone(_, uid):
                return self._lose(uid)
            case TimerFired(timer):
                return timer
            case Outcome(effect, Trouble() as trouble):
                return self._undo(effect, trouble)
        return ""

    def _take_in(self, pod: Pod, job_uid: str, now: float) -> str:
        self._jobs.setdefault(job_uid, JobPods()).take_in(pod, now)
        self._job_of[pod.uid] = job_uid
        self._orders.pop(pod.key, None)
        return job_uid

    def _lose(self, pod_uid: str) -> str:
        job_uid = self._job_of.pop(pod_uid, "")
        if job_uid in self._jobs:
            self._jobs[job_uid].lose(pod_uid)
        return job_uid

    def _undo(self, effect: Write, trouble: Trouble) -> str:
        """What did not take hold is decided again, unless the server will never accept it."""
        if trouble in _HOPELESS:
            return ""
        match effect:
            case Create(key):
                uid = self._orders.pop(key, "")
                if uid in self._jobs:
                    self._jobs[uid].ordered.pop(key, None)
                return uid
            case PatchStatus(target):
                if target.uid in self._jobs:
                    self._jobs[target.uid].reported = None
                return target.uid
        return ""

    def _reconcile(self, pods: JobPods | None, now: float) -> list[Effect]:
        if pods is None or pods.job is None or pods.job.deleted is not None:
            return []
        if pods.job.managed_by not in ("", CONTROLLER):
            return []
        verdict = _ending(pods, pods.job)
        effects: list[Effect] = []
        if verdict or pods.job.suspended:
            effects += _send_away(pods, list(pods.active.values()))
            pods.started = None if pods.job.suspended and not verdict else pods.started
        else:
            pods.started = now if pods.started is None else pods.started
            effects += self._adjust(pods, pods.job, now)
            verdict = _ending(pods, pods.job)
        return effects + _tell(pods, pods.job, verdict, now)

    def _adjust(self, pods: JobPods, job: Job, now: float) -> list[Effect]:
        """As many active pods as the Job wants at this time."""
        have, want = len(pods.active) + len(pods.ordered), _wanted(pods, job)
        if have > want:
            return _send_away(pods, _least_worth(pods)[: have - want])
        if have == want:
            return []
        ready_again = _backoff_ends(pods)
        if now < ready_again:
            return [WakeAt(ready_again, job.uid)]
        return [self._order(pods, job) for _ in range(want - have)]

    def _order(self, pods: JobPods, job: Job) -> Create:
        name = f"{job.key.name[: LONGEST_NAME - 6]}-{_suffix(pods.created)}"
        create = pod_from_template(job, name, {})
        pods.created += 1
        pods.ordered[create.key] = None
        self._orders[create.key] = job.uid
        return create


def _ending(pods: JobPods, job: Job) -> str:
    """Complete or Failed once the Job is, else empty."""
    if job.ended:
        return job.ended
    if pods.failures > job.backoff_limit:
        return "Failed"
    if job.completions is None:
        return "Complete" if pods.successes and not pods.active and not pods.ordered else ""
    return "Complete" if pods.successes >= job.completions else ""


def _wanted(pods: JobPods, job: Job) -> int:
    if job.completions is None:  # a work queue: the first success means there is no more work
        return len(pods.active) + len(pods.ordered) if pods.successes else job.parallelism
    return max(0, min(job.parallelism, job.completions - pods.successes))


def _backoff_ends(pods: JobPods) -> float:
    if not pods.failed:
        return 0.0
    return max(pods.failed.values()) + min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** (len(pods.failed) - 1))


def _least_worth(pods: JobPods) -> list[Pod]:
    """Those that lose least by leaving first: not bound, not running, youngest."""
    return sorted(
        pods.active.values(),
        key=lambda pod: (bool(pod.node), pod.phase is Phase.RUNNING, -pod.created, pod.key),
    )


def _send_away(pods: JobPods, leaving: Iterable[Pod]) -> list[Effect]:
    effects: list[Effect] = []
    for pod in leaving:
        pods.send_away(pod)
        effects.append(Delete(pod.target))
    return effects


_ENDINGS = {
    "Complete": ("CompletionsReached", "Reached expected number of succeeded pods"),
    "Failed": ("BackoffLimitExceeded", "Job has reached the specified backoff limit"),
    "Suspended": ("JobSuspended", "Job suspended"),
    "": ("", ""),
}


def _tell(pods: JobPods, job: Job, verdict: str, now: float) -> list[Effect]:
    """The status, where it differs from what was last written."""
    if job.ended and pods.reported is None:
        return []
    condition = verdict or ("Suspended" if job.suspended else "")
    reason, message = _ENDINGS[condition]
    progress = JobProgress(
        active=len(pods.active) + len(pods.ordered),
        ready=len(pods.running),
        succeeded=pods.successes,
        failed=pods.failures,
        started=pods.started,
        at=now,
        condition=condition,
        reason=reason,
        message=message,
    )
    if pods.reported is not None and replace(pods.reported, at=now) == progress:
        return []
    pods.reported = progress
    return [PatchStatus(job.target, progress)]


def _suffix(count: int) -> str:
    """Five letters for the count, scattered so that names do not read as numbers."""
    number = (count + 1) * _STRIDE % len(_LETTERS) ** 5
    letters = []
    for _ in range(5):
        number, position = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[position])
    return "".join(letters)
