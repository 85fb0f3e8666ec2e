"""How many workloads each queue has, and how much they hold: counted as they change, never recounted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from headgate.model.keys import Key
from headgate.quota.tree import FlavorResource, Usage


class WorkloadPhase(StrEnum):
    """Where a workload stands with its queues."""

    PENDING = "pending"
    RESERVING = "reserving"
    ADMITTED = "admitted"


_PENDING, _ADMITTED = WorkloadPhase.PENDING, WorkloadPhase.ADMITTED


class QueueUsage:
    """What is told of one queue. Whoever has quota is admitted, or only promised to be."""

    __slots__ = ("admitted", "pending", "reserved", "reserved_usage", "usage")

    def __init__(self) -> None:
        self.pending = self.reserved = self.admitted = 0
        self.reserved_usage: Counter[FlavorResource] = Counter()
        self.usage: Counter[FlavorResource] = Counter()

    @property
    def reserving(self) -> int:
        """All who have quota, admitted or not."""
        return self.reserved + self.admitted

    @property
    def reservation(self) -> Counter[FlavorResource]:
        """What all of them hold."""
        total = Counter(self.usage)
        total.update(self.reserved_usage)
        return total

    def take_in(self, other: QueueUsage) -> None:
        self.pending += other.pending
        self.reserved += other.reserved
        self.admitted += other.admitted
        self.reserved_usage.update(other.reserved_usage)
        self.usage.update(other.usage)


class LocalQueueUsage(QueueUsage):
    """What there is of one local queue in one cluster queue."""

    __slots__ = ("local", "queue")

    def __init__(self, local: Key, queue: str) -> None:
        super().__init__()
        self.local = local
        self.queue = queue


class CountedWorkload(Struct, frozen=True, gc=False):
    """One workload in the books of its queues; `waits_for_pods` where it is admitted and its pods are not ready."""

    of: LocalQueueUsage
    place: WorkloadPhase
    usage: Usage = ()
    waits_for_pods: bool = False


class QueueUsages:
    """The counts of all queues, and which of them changed since they were last asked for.

    Counted is by local queue and cluster queue together, and put together for one of them when that is asked for.
    """

    def __init__(self) -> None:
        self._standings: dict[Key, CountedWorkload] = {}
        self._crossings: dict[tuple[Key, str], LocalQueueUsage] = {}
        self._of_locals: defaultdict[Key, list[LocalQueueUsage]] = defaultdict(list)
        self._of_queues: defaultdict[str, list[LocalQueueUsage]] = defaultdict(list)
        self._changed: dict[LocalQueueUsage, None] = {}
        self.waiting_for_pods = 0

    def local_usage(self, local: Key, queue: str) -> LocalQueueUsage:
        """Of this local queue and this cluster queue."""
        found = self._crossings.get((local, queue))
        if found is None:
            found = self._crossings[local, queue] = LocalQueueUsage(local, queue)
            self._of_locals[local].append(found)
            self._of_queues[queue].append(found)
        return found

    def put(self, key: Key, standing: CountedWorkload | None) -> None:
        """The workload stands so now; None: it is no concern of any queue."""
        before = self._standings.get(key)
        if before == standing:
            return
        if before is not None:
            self._count(before, -1)
        if standing is not None:
            self._count(standing, 1)
            self._standings[key] = standing
        else:
            del self._standings[key]

    def local(self, key: Key) -> QueueUsage:
        return _sum(self._of_locals.get(key, ()))

    def queue(self, name: str) -> QueueUsage:
        return _sum(self._of_queues.get(name, ()))

    @property
    def changed_queues(self) -> Iterable[str]:
        """Those that count otherwise since `take_changed` was last called."""
        return dict.fromkeys([one.queue for one in self._changed]) if self._changed else ()

    def take_changed(self) -> tuple[Iterable[Key], Iterable[str]]:
        """The local queues and the cluster queues that count otherwise since the last call."""
        if not self._changed:
            return (), ()
        queues, changed, self._changed = self.changed_queues, self._changed, {}
        return dict.fromkeys([one.local for one in changed]), queues

    def _count(self, standing: CountedWorkload, sign: int) -> None:
        count = standing.of
        self._changed[count] = None
        if standing.place is _PENDING:
            count.pending += sign
            return
        if standing.place is _ADMITTED:
            held = count.usage
            count.admitted += sign
            self.waiting_for_pods += sign * standing.waits_for_pods
        else:
            held = count.reserved_usage
            count.reserved += sign
        for of, amount in standing.usage:
            held[of] += sign * amount


def _sum(metrics: Sequence[QueueUsage]) -> QueueUsage:
    if len(metrics) == 1:
        return metrics[0]
    total = QueueUsage()
    for count in metrics:
        total.take_in(count)
    return total
