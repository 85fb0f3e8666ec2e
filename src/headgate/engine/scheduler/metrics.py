"""The metrics of the scheduler plane, named as kube-scheduler's: pods in the queue, attempts, preemption searches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from headgate.engine.planes import Number
from headgate.queueing.queue import PodQueue, QueuedPodInfo


class AttemptResult(StrEnum):
    """The result of an attempt; the values are the labels of scheduler_schedule_attempts_total and its like."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting_on_preemption"  # of groups only: a pod that waits for its victims counts as unschedulable
    ERROR = "error"  # the binding failed


class GroupAttempt(Struct):
    """An attempt to schedule a gang: it succeeds with the last of its bindings."""

    bindings: int  # that are not known to have succeeded


class SchedulerMetrics:
    def __init__(self, queue: PodQueue) -> None:
        self._queue = queue
        self._pods: Counter[tuple[AttemptResult, str]] = Counter()  # by profile
        self._groups: Counter[tuple[AttemptResult, str]] = Counter()
        self._searches = 0
        self._group_searches: Counter[str] = Counter()

    def attempted(self, info: QueuedPodInfo, result: AttemptResult, pods: int) -> None:
        """An attempt of a queue entry with so many pods has ended without a placement."""
        profile = info.pod.scheduler_name
        self._pods[AttemptResult.UNSCHEDULABLE if result is AttemptResult.WAITING else result, profile] += pods
        if info.group is not None:
            self._groups[result, profile] += 1

    def bound(self, profile: str, attempt: GroupAttempt | None) -> None:
        """A binding succeeded; `attempt` is that of its gang, if it was tried as one."""
        self._pods[AttemptResult.SCHEDULED, profile] += 1
        if attempt is not None:
            attempt.bindings -= 1
            self._groups[AttemptResult.SCHEDULED, profile] += not attempt.bindings

    def failed(self, profile: str, *, as_group: bool) -> None:
        """A binding failed; `as_group` for the first one of a gang's attempt."""
        self._pods[AttemptResult.ERROR, profile] += 1
        self._groups[AttemptResult.ERROR, profile] += as_group

    def searched(self, found: bool, *, for_group: bool) -> None:
        """Victims were searched for."""
        if for_group:
            self._group_searches["success" if found else "unschedulable"] += 1
        else:
            self._searches += 1

    def collect(self) -> Iterator[Number]:
        """Gauges of the queue and counters, by metric, labels and value."""
        for name, size in self._queue.sizes.items():
            yield "scheduler_pending_pods", (("queue", name),), size
        for (name, event), count in self._queue.incoming.items():
            yield "scheduler_queue_incoming_pods_total", (("event", event), ("queue", name)), count
        for (plugin, profile), size in self._queue.unschedulable_by.items():
            yield "scheduler_unschedulable_pods", (("plugin", plugin), ("profile", profile)), size
        for (result, profile), count in self._pods.items():
            yield "scheduler_schedule_attempts_total", (("profile", profile), ("result", result)), count
        for (result, profile), count in self._groups.items():
            yield "scheduler_podgroup_schedule_attempts_total", (("profile", profile), ("result", result)), count
        yield "scheduler_preemption_attempts_total", (), self._searches
        for came_of_it, count in self._group_searches.items():
            yield "scheduler_workload_preemption_attempts_total", (("result", came_of_it),), count
