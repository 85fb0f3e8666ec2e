"""Pods that were asked to leave and still take room, and which of them should be gone by now."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from headgate.engine.integrations.job_index import job_of
from headgate.lifecycle.terminating.debt import (
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


class TerminatingPods:
    """Knows when to look whether a pod is stuck."""

    def __init__(self) -> None:
        self._pods: dict[Key, Pod] = {}
        self._overdue: list[tuple[float, Key]] = []  # when to see whether a pod that leaves is stuck
        self.stuck: dict[Key, None] = {}

    def put(self, pod: Pod) -> bool:
        """Whether the pod left, and does not leave any more."""
        if not is_terminating(pod):
            return self.drop(pod.key)
        known = pod.key in self._pods
        self._pods[pod.key] = pod
        if not known:
            self._look_at(pod)
        return False

    def drop(self, key: Key) -> bool:
        """Whether the pod left."""
        self.stuck.pop(key, None)
        return self._pods.pop(key, None) is not None

    def newly_stuck(self, now: float) -> Iterator[Pod]:
        """Pods that should be gone and are not; each once."""
        while self._overdue and self._overdue[0][0] <= now:
            pod = self._pods.get(heapq.heappop(self._overdue)[1])
            if pod is None or pod.key in self.stuck:
                continue
            if is_stuck(pod, now):
                self.stuck[pod.key] = None
                yield pod
            else:
                self._look_at(pod)

    def next_looks(self) -> list[float]:
        return [at for at, _ in self._overdue[:1]]

    def _look_at(self, pod: Pod) -> None:
        assert pod.deleted is not None, f"{pod.key} does not leave"
        heapq.heappush(self._overdue, (pod.deleted + STUCK_AFTER, pod.key))


FlavorResource = tuple[str, str]
_NOBODY = PodOccupancy()


class Debts:
    """Keeps the standing of all work that has pods, and the sum of what these owe."""

    def __init__(self, workload_for: Callable[[Pod], QueuedWorkload | None]) -> None:
        self._workload_for = workload_for
        self._pods: dict[Key, dict[Key, Pod]] = {}  # started pods by work
        self._job_of: dict[Key, Key] = {}  # by pod
        self._occupancy: dict[Key, PodOccupancy] = {}
        self._debts: dict[Key, Counter[DebtKey]] = {}  # by work; without those that owe nothing
        self._by_queue: dict[str, Counter[FlavorResource]] = {}
        self._by_flavor: Counter[FlavorResource] = Counter()
        self._stale: dict[Key, None] = {}
        self._changed_queues: dict[str, None] = {}
        self._changed_jobs: dict[Key, None] = {}
        self._version = 0

    def put(self, pod: Pod) -> None:
        self.drop(pod.key)
        if is_started(pod):
            job = job_of(pod)
            self._pods.setdefault(job, {})[pod.key] = pod
            self._job_of[pod.key] = job
            self._stale[job] = None

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
        self._stale[job] = None

    def mark_dirty(self, jobs: Iterable[Key]) -> None:
        """Something happened to this work or to its Workload."""
        for job in jobs:
            if job in self._pods:
                self._stale[job] = None

    def occupancy(self, job: Key) -> PodOccupancy:
        self._refresh()
        return self._occupancy.get(job, _NOBODY)

    def of_queue(self, queue: str) -> Mapping[FlavorResource, int]:
        """What is owed by pods that had their quota of this cluster queue."""
        self._refresh()
        return self._by_queue.get(queue, {})

    def by_queue(self) -> Iterator[tuple[str, Mapping[FlavorResource, int]]]:
        self._refresh()
        return iter(sorted(self._by_queue.items()))

    def by_flavor(self) -> Mapping[FlavorResource, int]:
        self._refresh()
        return self._by_flavor

    @property
    def version(self) -> int:
        """Another one whenever pods may have come to owe, or no longer do."""
        self._refresh()
        return self._version

    def owing(self) -> Iterator[Pod]:
        """All pods that are leaving and whose quota was given back."""
        self._refresh()
        return (pod for job in self._debts for pod in self._occupancy[job].owing)

    def take_changed_queues(self) -> Iterator[str]:
        """The queues whose debt is another than when this was last asked."""
        self._refresh()
        changed, self._changed_queues = self._changed_queues, {}
        return iter(changed)

    def take_changed_jobs(self) -> Iterator[Key]:
        """The work whose standing may be another than when this was last asked."""
        self._refresh()
        changed, self._changed_jobs = self._changed_jobs, {}
        return iter(changed)

    def _refresh(self) -> None:
        stale, self._stale = self._stale, {}
        self._changed_jobs.update(stale)
        self._version += bool(stale)
        for job in stale:
            pods = self._pods.get(job)
            if pods is None:
                self._occupancy.pop(job, None)
                self._owe(job, Counter())
                continue
            now = occupancy(list(pods.values()), self._workload_for(next(iter(pods.values()))))
            self._occupancy[job] = now
            debt: Counter[DebtKey] = Counter()
            for pod in now.owing:
                debt.update(taken_by(pod))
            self._owe(job, debt)

    def _owe(self, job: Key, debt: Counter[DebtKey]) -> None:
        before = self._debts.pop(job, Counter[DebtKey]())
        if debt:
            self._debts[job] = debt
        if debt == before:
            return
        for sign, amounts in ((1, debt), (-1, before)):
            for (queue, flavor, resource), amount in amounts.items():
                _add(self._by_queue.setdefault(queue, Counter()), (flavor, resource), sign * amount)
                _add(self._by_flavor, (flavor, resource), sign * amount)
                self._changed_queues[queue] = None
        for queue in {name: None for name, _, _ in before}:
            if not self._by_queue[queue]:
                del self._by_queue[queue]


def _add(total: Counter[FlavorResource], name: FlavorResource, amount: int) -> None:
    """What comes to nothing is not kept."""
    total[name] += amount
    if not total[name]:
        del total[name]
