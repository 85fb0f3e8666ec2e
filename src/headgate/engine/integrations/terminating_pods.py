"""Started pods by job, what those that are terminating owe, and which of them are stuck."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from headgate.engine.deadlines import Deadlines
from headgate.engine.integrations.job_index import job_of
from headgate.lifecycle.terminating import (
    STUCK_AFTER,
    DebtKey,
    PodOccupancy,
    is_started,
    is_stuck,
    is_terminating,
    occupancy,
    taken_by,
)
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.model.queues import QueuedWorkload

FlavorResource = tuple[str, str]
_NO_PODS = PodOccupancy()


class TerminatingPods:
    """Pods that are being deleted and still hold capacity that we gave them."""

    def __init__(self) -> None:
        self.pods: dict[Key, Pod] = {}
        self.stuck: dict[Key, None] = {}
        self.deadlines = Deadlines[Key]()  # when to see whether a pod is stuck

    def put(self, pod: Pod) -> bool:
        """Whether the pod was terminating, and is not any more."""
        if not is_terminating(pod):
            return self.drop(pod.key)
        if pod.key not in self.pods:
            self._look_later(pod)
        self.pods[pod.key] = pod
        return False

    def drop(self, key: Key) -> bool:
        """Whether the pod was terminating."""
        if self.pods.pop(key, None) is None:
            return False
        self.stuck.pop(key, None)
        self.deadlines.drop(key)
        return True

    def newly_stuck(self, now: float) -> Iterator[Pod]:
        """Pods that should be gone and are not; each once."""
        for key in self.deadlines.due(now):
            pod = self.pods[key]
            if is_stuck(pod, now):
                self.stuck[key] = None
                yield pod
            else:
                self._look_later(pod)

    def _look_later(self, pod: Pod) -> None:
        assert pod.deleted is not None, f"{pod.key} is not being deleted"
        self.deadlines.set(pod.key, pod.deleted + STUCK_AFTER)


class Debts:
    """The occupancy of every job with started pods, and the sum of what the terminating ones of these owe.

    All is as of the last `refresh`, which computes anew only what changed.
    """

    def __init__(self, workload_for: Callable[[Pod], QueuedWorkload | None]) -> None:
        self._workload_for = workload_for
        self._pods: dict[Key, dict[Key, Pod]] = {}  # started pods by job
        self._job_of: dict[Key, Key] = {}  # by pod
        self._occupancy: dict[Key, PodOccupancy] = {}
        self._by_queue: dict[str, Counter[FlavorResource]] = {}
        self._dirty: dict[Key, None] = {}
        self.by_job: dict[Key, Counter[DebtKey]] = {}  # without those that owe nothing
        self.by_flavor: Counter[FlavorResource] = Counter()
        self.changed_queues: dict[str, None] = {}  # whose debt is another than when somebody last took these
        self.version = 0  # another one whenever pods may have come to owe, or no longer do

    def put(self, pod: Pod) -> None:
        self.drop(pod.key)
        if is_started(pod):
            job = job_of(pod)
            self._pods.setdefault(job, {})[pod.key] = pod
            self._job_of[pod.key] = job
            self._dirty[job] = None

    def is_another(self, pod: Key, uid: str) -> bool:
        """Whether a pod of that name was started, and not this one."""
        job = self._job_of.get(pod)
        return job is not None and self._pods[job][pod].uid != uid

    def drop(self, pod: Key) -> None:
        job = self._job_of.pop(pod, None)
        if job is None:
            return
        pods = self._pods[job]
        del pods[pod]
        if not pods:
            del self._pods[job]
        self._dirty[job] = None

    def refresh(self, jobs: Iterable[Key]) -> Iterable[Key]:
        """Computes anew what jobs owe whose pods changed, and these jobs, whose Workloads may have; returns both."""
        for job in jobs:
            if job in self._pods:
                self._dirty[job] = None
        dirty, self._dirty = self._dirty, {}
        self.version += bool(dirty)
        for job in dirty:
            self._refresh(job)
        return dirty

    def occupancy(self, job: Key) -> PodOccupancy:
        return self._occupancy.get(job, _NO_PODS)

    def of_queue(self, queue: str) -> Mapping[FlavorResource, int]:
        """What is owed by pods that had their quota of this ClusterQueue."""
        return self._by_queue.get(queue, {})

    def by_queue(self) -> Iterator[tuple[str, Mapping[FlavorResource, int]]]:
        return iter(sorted(self._by_queue.items()))

    def owing(self) -> Iterator[Pod]:
        """All pods that are terminating and whose quota was released."""
        return (pod for job in self.by_job for pod in self._occupancy[job].owing)

    def take_changed_queues(self) -> Iterable[str]:
        changed, self.changed_queues = self.changed_queues, {}
        return changed

    def _refresh(self, job: Key) -> None:
        pods = self._pods.get(job)
        if pods is None:
            self._occupancy.pop(job, None)
            self._owe(job, Counter())
            return
        now = self._occupancy[job] = occupancy(list(pods.values()), self._workload_for(next(iter(pods.values()))))
        debt: Counter[DebtKey] = Counter()
        for pod in now.owing:
            debt.update(taken_by(pod))
        self._owe(job, debt)

    def _owe(self, job: Key, debt: Counter[DebtKey]) -> None:
        before = self.by_job.pop(job, Counter[DebtKey]())
        if debt:
            self.by_job[job] = debt
        if debt == before:
            return
        for sign, amounts in ((1, debt), (-1, before)):
            for (queue, flavor, resource), amount in amounts.items():
                _add(self._by_queue.setdefault(queue, Counter()), (flavor, resource), sign * amount)
                _add(self.by_flavor, (flavor, resource), sign * amount)
                self.changed_queues[queue] = None
        for queue in {name: None for name, _, _ in before}:
            if not self._by_queue[queue]:
                del self._by_queue[queue]


def _add(total: Counter[FlavorResource], name: FlavorResource, amount: int) -> None:
    """Adds the amount; a sum of zero is not kept."""
    total[name] += amount
    if not total[name]:
        del total[name]
