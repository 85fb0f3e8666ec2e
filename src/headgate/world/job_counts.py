"""What the Job controller knows of one Job: its pods by what became of them."""

from __future__ import annotations

from msgspec import Struct, field

from headgate.model.effects import JobProgress
from headgate.model.keys import Key
from headgate.model.objects import Job
from headgate.model.pod import Phase, Pod


class JobPods(Struct):
    """Counts only grow: a pod that succeeded or failed once stays counted when its object is deleted."""

    job: Job | None = None  # None while only its pods were seen
    active: dict[str, Pod] = field(default_factory=dict)  # by uid: neither ended nor deleted
    running: dict[str, None] = field(default_factory=dict)
    succeeded: dict[str, None] = field(default_factory=dict)
    failed: dict[str, float] = field(default_factory=dict)  # when it was first seen failed
    earlier_succeeded: int = 0  # counted in status before we began, their objects gone since
    earlier_failed: int = 0
    ordered: dict[Key, None] = field(default_factory=dict)  # asked for, not seen yet
    leaving: dict[str, None] = field(default_factory=dict)  # by uid: deletion asked for, not seen yet
    created: int = 0
    started: float | None = None
    reported: JobProgress | None = None

    def take_in(self, pod: Pod, now: float) -> None:
        self.ordered.pop(pod.key, None)
        self._drop(pod.uid)
        if pod.phase is Phase.SUCCEEDED:
            self.succeeded[pod.uid] = None
        elif pod.deleted is not None or pod.uid in self.failed:
            return  # told to leave: neither active nor a failure of the work
        elif pod.phase is Phase.FAILED:
            self.failed.setdefault(pod.uid, now)
        elif pod.uid not in self.leaving:
            self._count_active(pod)

    def lose(self, uid: str) -> None:
        self._drop(uid)
        self.leaving.pop(uid, None)

    def begin(self, job: Job) -> None:
        """The Job as it is now; at first sight, ends counted in its status whose pods are gone stay counted."""
        if self.job is None:
            self.earlier_succeeded = max(0, job.succeeded - len(self.succeeded))
            self.earlier_failed = max(0, job.failed - len(self.failed))
            self.started = job.started
        self.job = job

    def send_away(self, pod: Pod) -> None:
        self._drop(pod.uid)
        self.leaving[pod.uid] = None

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

    def _drop(self, uid: str) -> None:
        self.active.pop(uid, None)
        self.running.pop(uid, None)
