"""Which waiting pods their Volcano queues allow, told from Queues, PodGroups and pods alone.

This is what the review of scale-ups measures a scheduler against. So it shares nothing with one: it has an arithmetic
of its own, and reads neither queue-allocation gates nor annotations that a scheduler writes. What conditions say
decides the order only, of pods that are equally important.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from headgate.model.keys import Key, Kind
from headgate.model.pod import GroupKey, Pod, Workload
from headgate.model.resources import Resources
from headgate.model.volcano import (
    DEFAULT_QUEUE,
    QUEUE_GATES,
    ROOT,
    DequeueStrategy,
    VolcanoQueue,
    asks_for_gate,
    queue_named,
)

UNSCHEDULABLE = "Unschedulable"


class VolcanoQuota:
    """Queues, PodGroups and the pods on nodes, as observed."""

    def __init__(self) -> None:
        self._queues: dict[str, VolcanoQueue] = {}  # by name
        self._groups: dict[Key, Workload] = {}
        self._bound: dict[str, Pod] = {}  # by uid
        self._limits: QueueLimits | None = None  # with what the pods on nodes use; None: to be built

    def observe_queue(self, queue: VolcanoQueue) -> None:
        self._queues[queue.name] = queue
        self._limits = None

    def observe_group(self, group: Workload) -> None:
        self._groups[group.key] = group
        self._limits = None

    def observe_pod(self, pod: Pod) -> None:
        self.lose_pod(pod.uid)
        if pod.holds_room:
            self._bound[pod.uid] = pod
            if self._limits is not None:
                self._limits.add(self._queue_of(pod), pod.shape.requests)

    def lose_pod(self, uid: str) -> None:
        known = self._bound.pop(uid, None)
        if known is not None and self._limits is not None:
            self._limits.remove(self._queue_of(known), known.shape.requests)

    def lose(self, key: Key) -> None:
        """The Queue or PodGroup is gone."""
        if key.kind is Kind.VOLCANO_QUEUE:
            self._queues.pop(key.name, None)
        else:
            self._groups.pop(key, None)
        self._limits = None

    def beyond(self, waiting: Iterable[Pod]) -> set[str]:
        """The uids of those of the waiting pods that a queue keeps from starting. A gang starts whole or not at all.

        Who starts before whom: by priority; of equal priority, pods that were called unschedulable, since these may
        have been told so because the queue is theirs; then by age and name.
        """
        pods = [pod for pod in waiting if self._queue_of(pod)]
        if not pods:
            return set()
        limits = self._current_limits()
        taken: list[Pod] = []
        refused: set[tuple[str, Resources]] = set()  # by queue, what did not fit; less and less does
        blocked: set[str] = set()  # fifo queues with a pod that does not fit
        for unit, wanted in self._units(pods):
            queue, alone = self._queue_of(unit[0]), len(unit) == 1
            alike = (queue, unit[0].shape.requests)
            if queue in blocked or (alone and alike in refused):
                continue
            if not self._take(limits, unit, wanted, taken):
                known = self._queues.get(queue)
                if known is not None and known.dequeue is DequeueStrategy.FIFO:
                    blocked.add(queue)
                if alone and not _has_other_gates(unit[0]):
                    refused.add(alike)
        for pod in taken:
            limits.remove(self._queue_of(pod), pod.shape.requests)
        return {pod.uid for pod in pods} - {pod.uid for pod in taken}

    def _take(self, limits: QueueLimits, unit: Sequence[Pod], wanted: Resources, taken: list[Pod]) -> bool:
        """Whether all pods of the unit fit on top of those taken, which they then are too."""
        if not limits.fits(self._queue_of(unit[0]), wanted):
            return False
        added: list[Pod] = []
        for pod in unit:
            queue = self._queue_of(pod)
            if _has_other_gates(pod) or not limits.fits(queue, pod.shape.requests):
                for each in added:
                    limits.remove(self._queue_of(each), each.shape.requests)
                return False
            limits.add(queue, pod.shape.requests)
            added.append(pod)
        taken += added
        return True

    def _units(self, pods: Iterable[Pod]) -> Iterator[tuple[list[Pod], Resources]]:
        """Pods that start together, in the order of the queue, and what the queue must have for them besides."""
        gangs: dict[GroupKey | str, list[Pod]] = {}
        for pod in sorted(pods, key=_order):
            gangs.setdefault(pod.group or pod.uid, []).append(pod)
        bound = Counter(pod.group for pod in self._bound.values() if pod.group is not None)
        for key, members in gangs.items():
            running = bound[key] if isinstance(key, GroupKey) else 0
            needed = self._min_member(members[0]) - running
            if len(members) >= needed:
                first = max(1, needed)
                yield members[:first], Resources() if running else self._min_resources(members[0])
                yield from (([pod], Resources()) for pod in members[first:])

    def _current_limits(self) -> QueueLimits:
        if self._limits is None:
            self._limits = QueueLimits(self._queues)
            for pod in self._bound.values():
                self._limits.add(self._queue_of(pod), pod.shape.requests)
        return self._limits

    def _group_of(self, pod: Pod) -> Workload | None:
        return self._groups.get(pod.group.workload) if pod.group is not None else None

    def _queue_of(self, pod: Pod) -> str:
        """The queue of its PodGroup, else the one it names; empty for a pod that belongs to none."""
        group = self._group_of(pod)
        if group is not None and group.volcano is not None:
            return group.volcano.queue
        return queue_named(pod.annotations) or (DEFAULT_QUEUE if asks_for_gate(pod.annotations) else "")

    def _min_member(self, pod: Pod) -> int:
        group = self._group_of(pod)
        described = group.group(pod.group.group) if group is not None and pod.group is not None else None
        return described.gang.min_count if described is not None and described.gang is not None else 1

    def _min_resources(self, pod: Pod) -> Resources:
        group = self._group_of(pod)
        return group.volcano.min_resources if group is not None and group.volcano is not None else Resources()


class QueueLimits:
    """What queues use and may use. A queue claims what it and those below it use, at least its guarantee."""

    def __init__(self, queues: Mapping[str, VolcanoQueue]) -> None:
        known = {DEFAULT_QUEUE: None, ROOT: None, **queues}
        paths = {name: _path(name, queues) for name in known}
        self._paths = {name: path for name, path in paths.items() if path is not None}
        self._open = {name for name, queue in known.items() if queue is None or queue.is_open}
        self._limits = {(name, of): most for name, queue in queues.items() for of, most in queue.capability}
        self._guarantees = {
            (name, of): min(kept, self._limits.get((name, of), kept))
            for name, queue in queues.items()
            for of, kept in queue.guarantee
        }
        self._inside: dict[tuple[str, str], int] = {}  # by queue and resource: its own use and the claims right below
        for of in sorted({of for _, of in self._guarantees}):
            self._claim_guarantees(of)

    def _claim_guarantees(self, of: str) -> None:
        """Guarantees below a queue that are more than it may use do not count."""
        for name in sorted(self._paths, key=lambda name: -len(self._paths[name])):
            if self._inside.get((name, of), 0) > self._limits.get((name, of), math.inf):
                for below in [each for each, path in self._paths.items() if name in path[1:]]:
                    self._guarantees.pop((below, of), None)
                    self._inside.pop((below, of), None)
                self._inside[name, of] = 0
            for parent in self._paths[name][1:2]:
                self._inside[parent, of] = self._inside.get((parent, of), 0) + self._claim(name, of)

    def fits(self, queue: str, requests: Resources) -> bool:
        """Whether the queue is there and open, and has this much more at every level."""
        path = self._paths.get(queue)
        if path is None or queue not in self._open:
            return False
        return all(self._fits(path, of, amount) for of, amount in requests)

    def add(self, queue: str, requests: Resources) -> None:
        for of, amount in requests:
            self._add(self._paths.get(queue, ()), of, amount)

    def remove(self, queue: str, requests: Resources) -> None:
        for of, amount in requests:
            self._add(self._paths.get(queue, ()), of, -amount)

    def _fits(self, path: Sequence[str], of: str, amount: int) -> bool:
        for level in path:
            inside, claimed = self._inside.get((level, of), 0), self._claim(level, of)
            if amount > 0 and inside + amount > self._limits.get((level, of), math.inf):
                return False
            amount = max(claimed, inside + amount) - claimed
        return True

    def _add(self, path: Sequence[str], of: str, amount: int) -> None:
        for level in path:
            before = self._claim(level, of)
            self._inside[level, of] = self._inside.get((level, of), 0) + amount
            amount = self._claim(level, of) - before

    def _claim(self, queue: str, of: str) -> int:
        return max(self._guarantees.get((queue, of), 0), self._inside.get((queue, of), 0))


def _path(queue: str, queues: Mapping[str, VolcanoQueue]) -> tuple[str, ...] | None:
    """The queue and those above it, the root last; None where it has no place below the root."""
    path: list[str] = []
    while queue != ROOT:
        known = queues.get(queue)
        if queue in path or (known is None and queue != DEFAULT_QUEUE):
            return None
        path.append(queue)
        queue = known.parent if known is not None else ROOT
    return (*path, ROOT)


def _order(pod: Pod) -> tuple[int, bool, float, Key]:
    told = pod.scheduled is not None and pod.scheduled.reason == UNSCHEDULABLE
    return -pod.priority, not told, pod.created, pod.key


def _has_other_gates(pod: Pod) -> bool:
    return any(gate not in QUEUE_GATES for gate in pod.gates)
