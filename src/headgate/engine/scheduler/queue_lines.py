"""Who waits for a Volcano queue, and who is the first of each fifo queue: nobody behind it may start.

A pod that its queue allowed, that no node fits and that reserves nothing waits for a node, and everybody may pass it.
As soon as its queue is too full for it, it waits for its queue again, and is asked before others are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable

from msgspec import Struct

from headgate.model.keys import Key
from headgate.model.pod import GroupKey, Pod
from headgate.queueing.queue import MOST_STALE, QueuedPodInfo, QueueOrder


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


class UnplacedEntry(Struct, frozen=True):
    """Pods that start together, which their queue allowed and no node fits; none of them reserves anything."""

    pods: tuple[Pod, ...]
    first: Pod  # in whose place they stand
    queue: str
    alike: Hashable  # what they share with others that get the same answer of their queue

    @property
    def place(self) -> tuple[QueueOrder, Key]:
        return QueuedPodInfo(self.first).order, self.first.key


class UnplacedEntries:
    """By queue and by what decides the answer of the queue: the first of those alike is asked for all of them."""

    def __init__(self) -> None:
        self._entries: dict[Key, UnplacedEntry] = {}
        self._alike: dict[str, dict[Hashable, list[tuple[QueueOrder, Key]]]] = {}  # heaps, also of earlier ones

    def __contains__(self, pod: Key) -> bool:
        return pod in self._entries

    def put(self, entry: UnplacedEntry) -> None:
        place = entry.place
        known = self._entries.get(place[1])
        self._entries[place[1]] = entry
        if known is not None and (known.queue, known.alike, known.place) == (entry.queue, entry.alike, place):
            return
        heap = self._alike.setdefault(entry.queue, {}).setdefault(entry.alike, [])
        heapq.heappush(heap, place)
        if len(heap) > 2 * len(self._entries) + MOST_STALE:
            heap[:] = sorted({each for each in heap if self._stands(entry.queue, entry.alike, each)})

    def drop(self, pod: Key) -> None:
        """The pod has a node, is gone or waits for its queue."""
        entry = self._entries.pop(pod, None)
        if entry is not None:
            self._first(entry.queue, entry.alike)

    def firsts(self, queue: str) -> list[UnplacedEntry]:
        """The first of each that get the same answer, in order."""
        found = [self._first(queue, alike) for alike in list(self._alike.get(queue, ()))]
        return sorted((each for each in found if each is not None), key=lambda each: each.place)

    def _first(self, queue: str, alike: Hashable) -> UnplacedEntry | None:
        heap = self._alike[queue][alike]
        while heap:
            if self._stands(queue, alike, heap[0]):
                return self._entries[heap[0][1]]
            heapq.heappop(heap)
        del self._alike[queue][alike]
        if not self._alike[queue]:
            del self._alike[queue]
        return None

    def _stands(self, queue: str, alike: Hashable, place: tuple[QueueOrder, Key]) -> bool:
        entry = self._entries.get(place[1])
        return entry is not None and (entry.queue, entry.alike, entry.place) == (queue, alike, place)
