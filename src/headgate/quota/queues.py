"""All workloads that wait for quota, by cluster queue; trees in which nothing changed are left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from headgate.model.keys import Key
from headgate.model.queues import ClusterQueue, QueueingStrategy
from headgate.quota.order import Applicant
from headgate.quota.pending import LocalUsage, PendingQueue
from headgate.quota.progress import Progress
from headgate.quota.requeue import Requeue

MayEnter = Callable[[ClusterQueue, str], bool]
"""Whether workloads of this namespace may enter the queue."""


def _anybody(queue: ClusterQueue, namespace: str) -> bool:
    return True


def _alike(key: Key) -> int:
    return 0


class PendingQueues:
    """Heads are handed out tree by tree, one of each queue, and only where another answer is possible.

    A tree is stirred by a new head, by something that changed in it, and by a cycle that left another head in line.
    """

    def __init__(self, may_enter: MayEnter = _anybody, local_usage: LocalUsage = _alike) -> None:
        self._may_enter = may_enter
        self._local_usage = local_usage
        self._queues: dict[str, PendingQueue] = {}
        self._tree_of: dict[str, tuple[str, ...]] = {}
        self._home: dict[Key, str] = {}
        self._inactive: frozenset[str] = frozenset()
        self._stirred: dict[str, None] = {}  # queues, each standing for its tree
        self.cycle = 0  # how often heads were handed out

    def __contains__(self, key: Key) -> bool:
        return key in self._home

    def configure(
        self,
        queues: Iterable[ClusterQueue],
        trees: Mapping[str, tuple[str, ...]],
        inactive: frozenset[str] = frozenset(),
        now: float = 0.0,
    ) -> None:
        """These queues exist, share quota so, and hand out heads unless inactive. Everything gets another chance."""
        self._tree_of, self._inactive = dict(trees), inactive
        existing = {queue.name: queue for queue in queues}
        for gone in [name for name in self._queues if name not in existing]:
            for applicant in self._queues[gone].everybody():
                self._home.pop(applicant.key, None)
            del self._queues[gone]
        for name in sorted(existing):
            if name in self._queues:
                self._queues[name].reconfigure(existing[name])
            else:
                self._queues[name] = PendingQueue(existing[name], self._local_usage)
        for name in self._queues:
            self.wake(name, now)

    def of(self, queue: str) -> PendingQueue | None:
        return self._queues.get(queue)

    def offer(self, applicant: Applicant, now: float) -> None:
        """The workload applies, or has changed. One whose queue does not exist waits nowhere."""
        home = self._home.get(applicant.key)
        if home is not None and home != applicant.queue:
            self.withdraw(applicant.key)
        queue = self._queues.get(applicant.queue)
        if queue is None:
            return
        self._home[applicant.key] = applicant.queue
        if queue.offer(applicant, now):
            self._stir(applicant.queue)

    def leave(self, key: Key, now: float) -> None:
        """The workload waits no longer though it got nothing. Room a strict queue kept for it is free for others."""
        home = self._home.get(key)
        self.withdraw(key)
        if home is not None and self._queues[home].queue.strategy is QueueingStrategy.STRICT_FIFO:
            self.wake(home, now)

    def withdraw(self, key: Key) -> None:
        """The workload waits no longer: it was admitted, or is finished, or gone."""
        home = self._home.pop(key, None)
        if home is not None and self._queues[home].withdraw(key):
            self._stir(home)

    def heads(self) -> list[Applicant]:
        """The head of each queue in the stirred trees. Each must be settled before the next call."""
        names = sorted({name for stirred in self._stirred for name in self._tree_of.get(stirred, ())})
        self._stirred.clear()
        self.cycle += 1
        taken = [self._queues[name].take() for name in names if name in self._queues and name not in self._inactive]
        return [head for head in taken if head is not None]

    def refused(self, applicant: Applicant, why: Requeue, progress: Progress | None = None) -> None:
        """The head was not admitted. If another one follows, or it may do better next time, its tree is stirred."""
        queue = self._queues[applicant.queue]
        back = queue.bring_back(applicant.key, why, progress)
        more = progress is not None and progress.has_more
        if (queue.has_next and not back) or (back and more) or why in RETRIED:
            self._stir(applicant.queue)

    def wake(self, queue: str, now: float) -> None:
        """Something changed that concerns all who share quota with this queue."""
        for name in self._tree_of.get(queue, ()):
            pending = self._queues.get(name)
            if pending is not None:
                pending.wake(partial(self._may_enter, pending.queue), now)
        self._stir(queue)

    def ripen(self, now: float) -> None:
        for name, queue in self._queues.items():
            if queue.ripen(now):
                self._stir(name)

    def next_deadline(self) -> float | None:
        times = [at for queue in self._queues.values() if (at := queue.next_deadline()) is not None]
        return min(times, default=None)

    def __iter__(self) -> Iterator[PendingQueue]:
        return iter(self._queues.values())

    def _stir(self, queue: str) -> None:
        self._stirred[queue] = None


RETRIED = frozenset({Requeue.FAILED_AFTER_NOMINATION, Requeue.PREEMPTION_FAILED})
"""Trouble outside the tree, which may be over by now."""
