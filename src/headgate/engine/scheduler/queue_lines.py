"""Who waits for a Volcano queue, and who is the first of each fifo queue: nobody behind it may start."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from headgate.model.keys import Key
from headgate.model.pod import GroupKey, Pod
from headgate.queueing.queue import MOST_STALE, QueueOrder


class QueueLines:
    """The pods that their queue refused when they were tried last. A gang stands where its oldest member does."""

    def __init__(self, is_fifo: Callable[[str], bool]) -> None:
        self._is_fifo = is_fifo
        self.refused: dict[Key, tuple[str, QueueOrder, GroupKey | None]] = {}
        self._of_group: dict[GroupKey, dict[Key, None]] = {}  # of these, those of groups
        self._lines: dict[str, list[tuple[QueueOrder, Key]]] = {}  # of fifo queues: heaps of the refused, also earlier

    def refuse(self, pod: Pod, queue: str, order: QueueOrder) -> bool:
        """The queue refuses the pod. Whether it is news."""
        if pod.key in self.refused:
            return False
        self.refused[pod.key] = queue, order, pod.group
        if pod.group is not None:
            self._of_group.setdefault(pod.group, {})[pod.key] = None
        self._stand_in_line(queue, order, pod.key)
        return True

    def refused_of(self, group: GroupKey | None) -> list[Key]:
        """The refused pods of this group."""
        return list(self._of_group.get(group, ())) if group is not None else []

    def passes(self, pod: Key) -> bool:
        """The pod waits no longer: it may start, is gone, or is elsewhere. Whether others may have waited behind it."""
        refused = self.refused.pop(pod, None)
        if refused is None:
            return False
        queue, _, group = refused
        if group is not None:
            self._of_group[group].pop(pod)
            if not self._of_group[group]:
                del self._of_group[group]
        if queue not in self._lines:
            return False
        if self.head(queue) is None:
            del self._lines[queue]
        return True

    def stands_elsewhere(self, pod: Key, queue: str, order: QueueOrder) -> bool:
        return pod in self.refused and not self._stands(pod, queue, order)

    def _stands(self, pod: Key, queue: str, order: QueueOrder) -> bool:
        return pod in self.refused and self.refused[pod][:2] == (queue, order)

    def head(self, queue: str) -> tuple[QueueOrder, Key] | None:
        """The first of those that wait for a fifo queue."""
        line = self._lines.get(queue)
        while line:
            order, pod = line[0]
            if self._stands(pod, queue, order):
                return line[0]
            heapq.heappop(line)
        return None

    def form(self) -> None:
        """Of those that wait now, without those that stood there once, for the queues that are fifo now."""
        self._lines = {}
        for pod, (queue, order, _) in self.refused.items():
            self._stand_in_line(queue, order, pod)

    def _stand_in_line(self, queue: str, order: QueueOrder, pod: Key) -> None:
        if not self._is_fifo(queue):
            return
        line = self._lines.setdefault(queue, [])
        heapq.heappush(line, (order, pod))
        if len(line) > 2 * len(self.refused) + MOST_STALE:
            self.form()
