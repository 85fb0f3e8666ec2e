"""All pending workloads by ClusterQueue. Trees in which nothing changed are not evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from headgate.model.keys import Key
from headgate.model.queues import ClusterQueue, PreemptionProposal, QueueingStrategy
from headgate.quota.pending_queue import (
    PRICED,
    BackoffDeadlines,
    ClassRefusal,
    LocalUsage,
    PendingQueue,
    Requeue,
    Unreserved,
)
from headgate.quota.pending_workload import PendingWorkload, Progress

MayEnter = Callable[[ClusterQueue, str], bool]
"""Whether workloads of this namespace may enter the queue."""


def _anybody(queue: ClusterQueue, namespace: str) -> bool:
    return True


class PendingQueues:
    """Heads are handed out tree by tree, one of each queue, and only where another answer is possible.

    A tree is dirty by a new head, by something that changed in it, and by a cycle that left another head in line.
    """

    def __init__(
        self,
        may_enter: MayEnter = _anybody,
        local_usage: LocalUsage | None = None,
        backoffs: BackoffDeadlines | None = None,
    ) -> None:
        self._may_enter = may_enter
        self._local_usage = local_usage
        self._backoffs = backoffs
        self._queues: dict[str, PendingQueue] = {}
        self._tree_of: dict[str, tuple[str, ...]] = {}
        self._home: dict[Key, str] = {}
        self._inactive: frozenset[str] = frozenset()
        self._dirty: dict[str, None] = {}  # the first queues of trees
        self._woken: dict[str, float] = {}  # the same, and when
        self._unsettled: dict[str, None] = {}  # queues in which something waits for the rest of the tree
        self.priced: dict[str, None] = {}  # queues in which gated workloads wait for others to leave
        self._repriced: dict[str, float] = {}  # trees of these in which quota was given or taken, and when
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
        """Sets the queues, their trees and which are inactive. All pending workloads are evaluated again."""
        self._wake_up()
        self._tree_of, self._inactive = dict(trees), inactive
        self._dirty, self.priced, self._repriced = {}, {}, {}
        existing = {queue.name: queue for queue in queues}
        for gone in [name for name in self._queues if name not in existing]:
            for pending in self._queues[gone].everybody():
                self._home.pop(pending.key, None)
            del self._queues[gone]
        for name in sorted(existing):
            if name in self._queues:
                self._queues[name].reconfigure(existing[name])
            else:
                self._queues[name] = PendingQueue(existing[name], self._local_usage, self._backoffs)
        for name in self._queues:
            self.wake(name, now)

    def of(self, queue: str) -> PendingQueue | None:
        self._wake_up()
        return self._queues.get(queue)

    def add(self, pending: PendingWorkload, now: float, *, evaluated: bool = True) -> bool:
        """The workload is new or has changed. One whose ClusterQueue does not exist is not queued: False.

        Its tree is dirty if the head may be another, unless that is not to be `evaluated` yet.
        """
        key, name = pending.workload.key, pending.queue
        home = self._home.get(key)
        if home is not None and home != name:
            self.delete(key)
        queue = self._queues.get(name)
        if queue is None:
            return False
        self._home[key] = name
        if queue.add(pending, now) and evaluated:
            self._mark_dirty(name)
        return True

    def give_up(self, key: Key, now: float) -> None:
        """The workload is removed without quota. What a StrictFIFO queue kept for it is free for others."""
        home = self._home.get(key)
        if home is None:
            return
        self.delete(key)
        if self._queues[home].queue.strategy is QueueingStrategy.STRICT_FIFO:
            self.wake(home, now)

    def delete(self, key: Key) -> None:
        """Removes the workload: it was admitted, or is finished, or deleted."""
        home = self._home.pop(key, None)
        if home is not None and self._queues[home].delete(key):
            self._mark_dirty(home)

    def heads(self) -> list[PendingWorkload]:
        """The head of each queue in the dirty trees. Each must be settled or put back before the next call."""
        self._wake_up()
        self._settle()
        self.cycle += 1
        heads = self._take()
        if not heads and self._unsettled:  # what was dirty has come to rest
            self._settle()
            heads = self._take()
        if not heads and self._repriced:
            self._reprice()
            heads = self._take()
        return heads

    def put_back(self, head: PendingWorkload) -> None:
        """The head was not decided, and is one of the heads of the next cycle."""
        self._queues[head.queue].put_back()
        self._mark_dirty(head.queue)

    def refused(
        self,
        pending: PendingWorkload,
        why: Requeue,
        progress: Progress | None = None,
        reason: Unreserved = Unreserved.WAITING,
        proposal: PreemptionProposal | None = None,
    ) -> None:
        """The head was not admitted. If another one follows, or it may do better next time, its tree is dirty."""
        queue = self._queues[pending.queue]
        back = queue.bring_back(pending.workload.key, why, progress, ClassRefusal(reason, proposal))
        if pending.kind.gated and reason in PRICED:
            self.priced[pending.queue] = None
        has_more = progress is not None and (progress.missed or progress.has_more) if back else queue.has_next
        if has_more or why in RETRIED:
            self._mark_dirty(pending.queue)
        if queue.is_unsettled:
            self._unsettled[pending.queue] = None

    def untold(self, head: PendingWorkload) -> list[PendingWorkload]:
        """As in its queue."""
        return self._queues[head.queue].untold(head)

    def reprice(self, queue: str, now: float) -> None:
        """Quota was given or taken in the tree: once all else is decided, gated workloads are evaluated again."""
        tree = self._tree_of.get(queue) if self.priced else None
        if tree and any(name in self.priced for name in tree):
            self._repriced[tree[0]] = now

    def passed_over(self, key: Key) -> tuple[PendingWorkload, ClassRefusal] | None:
        """As in its queue; None also for one that waits nowhere, or gets another chance now."""
        home = self._home.get(key)
        if home is None or self._tree_of.get(home, (home,))[0] in self._woken:
            return None
        return self._queues[home].passed_over(key)

    def wake(self, queue: str, now: float) -> None:
        """Something changed for all queues that share quota with this one."""
        tree = self._tree_of.get(queue)
        if tree:
            self._woken[tree[0]] = now
            self._dirty[tree[0]] = None

    def reorder(self, queue: str) -> None:
        """Another workload may be first now. That matters in a strict queue, where only the first is ever tried."""
        found = self._queues.get(queue)
        if found is not None and found.queue.usage_based and found.queue.strategy is QueueingStrategy.STRICT_FIFO:
            self._mark_dirty(queue)

    def flush_backoff(self, keys: Iterable[Key], now: float) -> list[str]:
        """Queues those of these workloads whose back-off is over; returns their ClusterQueues."""
        flushed: dict[str, None] = {}
        for key in keys:
            home = self._home.get(key)
            if home is not None and self._queues[home].flush_backoff(key, now):
                self._mark_dirty(home)
                flushed[home] = None
        return list(flushed)

    def __iter__(self) -> Iterator[PendingQueue]:
        return iter(self._queues.values())

    def _wake_up(self) -> None:
        """Once for each tree, however much changed in it."""
        if not self._woken:
            return
        woken, self._woken = self._woken, {}
        for first, now in woken.items():
            self._repriced.pop(first, None)
            for name in self._tree_of.get(first, ()):
                queue = self._queues.get(name)
                if queue is not None:
                    queue.wake(partial(self._may_enter, queue.queue), now)

    def _take(self) -> list[PendingWorkload]:
        """In the order of their queues' names."""
        names = [name for dirty in self._dirty for name in self._tree_of[dirty]]
        self._dirty.clear()
        names.sort()
        heads = []
        for name in names:
            queue = self._queues.get(name)
            head = queue.take() if queue is not None and name not in self._inactive else None
            if head is not None:
                heads.append(head)
        return heads

    def _settle(self) -> None:
        """Where nothing else is left to try in the tree, those who had their turn step aside, or have another.

        Another turn is for one queue at a time: all at once, they would keep room from each other as before, for ever.
        """
        if not self._unsettled:
            return
        quiet = [name for name in self._unsettled if self._tree_of.get(name, ("",))[0] not in self._dirty]
        for name in quiet:
            queue = self._queues.get(name)
            if queue is not None and queue.step_aside():
                self._mark_dirty(name)
        for name in quiet:
            if self._tree_of.get(name, ("",))[0] not in self._dirty:
                del self._unsettled[name]
                queue = self._queues.get(name)
                if queue is not None and queue.try_again():
                    self._mark_dirty(name)

    def _reprice(self) -> None:
        repriced, self._repriced = self._repriced, {}
        for first, now in repriced.items():
            for name in self._tree_of[first]:
                if name in self.priced:
                    del self.priced[name]
                    self._queues[name].reprice(now)
            self._dirty[first] = None

    def _mark_dirty(self, queue: str) -> None:
        tree = self._tree_of.get(queue)
        if tree:
            self._dirty[tree[0]] = None


RETRIED = frozenset({Requeue.FAILED_AFTER_NOMINATION, Requeue.PREEMPTION_FAILED})
"""Trouble outside the tree, which may be over by now."""
