"""Who waits for a Volcano queue, and who is the first of each fifo queue: nobody behind it may start.

A pod that its queue allowed, that no node fits and that reserves nothing waits for a node, and everybody may pass it.
As soon as its queue is too full for it, it waits for its queue again, and is asked before others are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from msgspec import Struct

from headgate.model.keys import Key
from headgate.model.pod import GroupKey, Pod
from headgate.model.resources import Resources
from headgate.queueing.queue import MOST_STALE, QueuedPodInfo, QueueOrder
from headgate.quota.volcano import VolcanoQueueNode


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
        if self.head(queue) is None:
            self._lines.pop(queue, None)
            return False
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


SameRequests = tuple[tuple[tuple[str, int], ...], bool]


class UnplacedEntry(Struct, frozen=True):
    """Pods that start together, which their queue allowed and no node fits; none of them reserves anything."""

    pods: tuple[Pod, ...]
    first: Pod  # in whose place they stand
    queue: str
    requests: Resources  # of all of them, or of the group they begin
    devices: bool  # whether resource claims name devices

    @property
    def place(self) -> tuple[QueueOrder, Key]:
        return QueuedPodInfo(self.first).order, self.first.key

    @property
    def alike(self) -> SameRequests:
        """What they share with others that get the same answer of their queue."""
        return self.requests.items, self.devices


class UnplacedEntries:
    """By queue and by what they request: the first of those alike is asked for all of them.

    Most of the time all of them would fit, which the largest request of each resource tells.
    """

    def __init__(self, is_refused: Callable[[UnplacedEntry, VolcanoQueueNode], bool]) -> None:
        self._is_refused = is_refused  # whether the queue does not allow an entry any more
        self.entries: dict[Key, UnplacedEntry] = {}
        self._queues: dict[str, _UnplacedOfQueue] = {}
        self._first_refused: dict[str, UnplacedEntry | None] = {}  # by queue, until something changes

    def put(self, entry: UnplacedEntry) -> None:
        self.drop(entry.first.key)
        self.entries[entry.first.key] = entry
        self._queues.setdefault(entry.queue, _UnplacedOfQueue()).put(entry)
        self._first_refused.pop(entry.queue, None)

    def drop(self, pod: Key) -> None:
        """The pod has a node, is gone or waits for its queue, if it was among the unplaced of one."""
        entry = self.entries.pop(pod, None)
        if entry is None:
            return
        self._first_refused.pop(entry.queue, None)
        self._queues[entry.queue].drop(entry)
        if not self._queues[entry.queue].alike:
            del self._queues[entry.queue]

    def forget_answers(self) -> None:
        """Queues may allow others than before."""
        self._first_refused.clear()

    def first_refused(self, node: VolcanoQueueNode) -> UnplacedEntry | None:
        """The first of this queue that it does not allow any more; None if it allows all of them."""
        if node.name not in self._first_refused:
            self._first_refused[node.name] = self.first_refused_now(node)
        return self._first_refused[node.name]

    def first_refused_now(self, node: VolcanoQueueNode) -> UnplacedEntry | None:
        """The same on top of what is taken for the moment."""
        unplaced = self._queues.get(node.name)
        limits_devices = any(level.device_limit for level in node.path())
        if unplaced is None or (not limits_devices and node.fits(unplaced.largest())):
            return None
        return next((each for each in unplaced.firsts() if self._is_refused(each, node)), None)


class _UnplacedOfQueue:
    def __init__(self) -> None:
        self.alike: dict[SameRequests, dict[Key, UnplacedEntry]] = {}
        self._lines: dict[SameRequests, list[tuple[QueueOrder, Key]]] = {}  # heaps, also of earlier ones
        self._largest: dict[str, list[tuple[int, SameRequests]]] = {}  # by resource, the same

    def put(self, entry: UnplacedEntry) -> None:
        alike, place = entry.alike, entry.place
        if alike not in self.alike:
            self.alike[alike], self._lines[alike] = {}, []
            for resource, amount in entry.requests.items:
                largest = self._largest.setdefault(resource, [])
                heapq.heappush(largest, (-amount, alike))
                if len(largest) > 2 * len(self.alike) + MOST_STALE:
                    largest[:] = sorted({each for each in largest if each[1] in self.alike})
        self.alike[alike][place[1]] = entry
        line = self._lines[alike]
        heapq.heappush(line, place)
        if len(line) > 2 * len(self.alike[alike]) + MOST_STALE:
            line[:] = sorted({each for each in line if self._stands(alike, each)})

    def drop(self, entry: UnplacedEntry) -> None:
        del self.alike[entry.alike][entry.first.key]
        if not self.alike[entry.alike]:
            del self.alike[entry.alike], self._lines[entry.alike]

    def largest(self) -> Resources:
        """The most that any of them requests of each resource."""
        found: dict[str, int] = {}
        for resource, largest in list(self._largest.items()):
            while largest and largest[0][1] not in self.alike:
                heapq.heappop(largest)
            if largest:
                found[resource] = -largest[0][0]
            else:
                del self._largest[resource]
        return Resources.of(found)

    def firsts(self) -> list[UnplacedEntry]:
        """The first of each that get the same answer, in order."""
        found: list[UnplacedEntry] = []
        for alike, line in self._lines.items():
            while not self._stands(alike, line[0]):
                heapq.heappop(line)
            found.append(self.alike[alike][line[0][1]])
        return sorted(found, key=lambda each: each.place)

    def _stands(self, alike: SameRequests, place: tuple[QueueOrder, Key]) -> bool:
        entry = self.alike[alike].get(place[1])
        return entry is not None and entry.place == place
