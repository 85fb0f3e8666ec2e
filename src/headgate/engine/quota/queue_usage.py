"""Queue usage: how many workloads each LocalQueue and ClusterQueue has, by phase, and how much quota these hold.

Usage is updated as workloads change and never recounted; that of a queue without workloads is not kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from headgate.model.keys import Key
from headgate.quota.tree import FlavorResource, Usage


class WorkloadPhase(StrEnum):
    """Which count of its queues a workload is part of."""

    PENDING = "pending"
    RESERVING = "reserving"
    ADMITTED = "admitted"


_PENDING, _ADMITTED = WorkloadPhase.PENDING, WorkloadPhase.ADMITTED


class QueueUsage:
    """The counts and usage of one queue. A workload with quota is `admitted`, or only `reserved`."""

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
    def reservation(self) -> Mapping[FlavorResource, int]:
        """What all of them hold."""
        if not self.reserved_usage:
            return self.usage
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
    """The workloads of one LocalQueue in one ClusterQueue."""

    __slots__ = ("local", "queue")

    def __init__(self, local: Key, queue: str) -> None:
        super().__init__()
        self.local = local
        self.queue = queue

    @property
    def is_empty(self) -> bool:
        return not (self.pending or self.reserved or self.admitted)


UsagePlace = tuple[Key, str]
"""A LocalQueue and a ClusterQueue: where workloads are counted together."""


class CountedWorkload(Struct, frozen=True, gc=False):
    """How one workload is counted; `waits_for_pods` where it is admitted and its pods are not ready."""

    place: UsagePlace
    phase: WorkloadPhase
    usage: Usage = ()
    waits_for_pods: bool = False


class QueueUsages:
    """The usage of all queues, and which of them changed since they were last asked for.

    Workloads are counted by LocalQueue and ClusterQueue together, and summed up for one of them when that is asked for.
    """

    def __init__(self) -> None:
        self._usages: dict[UsagePlace, LocalQueueUsage] = {}
        self._of_locals: dict[Key, dict[str, LocalQueueUsage]] = {}
        self._of_queues: dict[str, dict[Key, LocalQueueUsage]] = {}
        self.changed: dict[UsagePlace, None] = {}
        self.waiting_for_pods = 0

    def replace(self, before: CountedWorkload | None, counted: CountedWorkload | None) -> None:
        """A workload was counted as `before` and is counted so from now on; None: not at all."""
        if before == counted:
            return
        if before is not None:
            self._count(before, -1)
        if counted is not None:
            self._count(counted, 1)
        if before is not None and self._usages[before.place].is_empty:
            self._drop(*before.place)

    def local(self, key: Key) -> QueueUsage:
        return _sum(tuple(self._of_locals.get(key, {}).values()))

    def queue(self, name: str) -> QueueUsage:
        return _sum(tuple(self._of_queues.get(name, {}).values()))

    @property
    def changed_queues(self) -> Iterable[str]:
        """The ClusterQueues whose usage has changed since `take_changed` was last called."""
        return dict.fromkeys([queue for _, queue in self.changed]) if self.changed else ()

    def take_changed(self) -> tuple[Iterable[Key], Iterable[str]]:
        """The LocalQueues and the ClusterQueues whose usage has changed since the last call."""
        if not self.changed:
            return (), ()
        queues, changed, self.changed = self.changed_queues, self.changed, {}
        return dict.fromkeys([local for local, _ in changed]), queues

    def _count(self, counted: CountedWorkload, sign: int) -> None:
        place = counted.place
        self.changed[place] = None
        count, phase = self._usages.get(place) or self._new(*place), counted.phase
        if phase is _PENDING:
            count.pending += sign
            return
        if phase is _ADMITTED:
            held = count.usage
            count.admitted += sign
            self.waiting_for_pods += sign * counted.waits_for_pods
        else:
            held = count.reserved_usage
            count.reserved += sign
        for of, amount in counted.usage:
            held[of] += sign * amount

    def _new(self, local: Key, queue: str) -> LocalQueueUsage:
        made = self._usages[local, queue] = LocalQueueUsage(local, queue)
        self._of_locals.setdefault(local, {})[queue] = made
        self._of_queues.setdefault(queue, {})[local] = made
        return made

    def _drop(self, local: Key, queue: str) -> None:
        by_queue, by_local = self._of_locals[local], self._of_queues[queue]
        del self._usages[local, queue], by_queue[queue], by_local[local]
        if not by_queue:
            del self._of_locals[local]
        if not by_local:
            del self._of_queues[queue]


def _sum(metrics: Sequence[QueueUsage]) -> QueueUsage:
    if len(metrics) == 1:
        return metrics[0]
    total = QueueUsage()
    for count in metrics:
        total.take_in(count)
    return total
