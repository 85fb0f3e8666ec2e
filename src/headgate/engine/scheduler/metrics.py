"""How often pods and gangs were tried, and others searched through for them: what only ever grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

from headgate.engine.planes import Number
from headgate.queueing.queue import QueuedPodInfo


class AttemptResult(StrEnum):
    """What came of an attempt; the values are the labels of scheduler_schedule_attempts_total and its like."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting_on_preemption"  # of groups only: a pod that waits for others to leave is unschedulable
    ERROR = "error"  # the binding did not take hold


class SchedulerMetrics:
    def __init__(self) -> None:
        self._pods: Counter[tuple[AttemptResult, str]] = Counter()  # by profile
        self._groups: Counter[tuple[AttemptResult, str]] = Counter()
        self._searches = 0
        self._group_searches: Counter[str] = Counter()

    def attempted(self, info: QueuedPodInfo, result: AttemptResult, pods: int) -> None:
        """One who stood in line was tried, with so many pods."""
        profile = info.pod.scheduler_name
        self._pods[AttemptResult.UNSCHEDULABLE if result is AttemptResult.WAITING else result, profile] += pods
        if info.group is not None:
            self._groups[result, profile] += 1

    def failed(self, profile: str, *, as_group: bool) -> None:
        """A binding did not take hold; `as_group` for the first of a gang's attempt."""
        self._pods[AttemptResult.ERROR, profile] += 1
        self._groups[AttemptResult.ERROR, profile] += as_group

    def searched(self, found: bool, *, for_group: bool) -> None:
        """It was worked out who would have to leave."""
        if for_group:
            self._group_searches["success" if found else "unschedulable"] += 1
        else:
            self._searches += 1

    def collect(self) -> Iterator[Number]:
        for (result, profile), count in self._pods.items():
            yield "scheduler_schedule_attempts_total", (("profile", profile), ("result", result)), count
        for (result, profile), count in self._groups.items():
            yield "scheduler_podgroup_schedule_attempts_total", (("profile", profile), ("result", result)), count
        yield "scheduler_preemption_attempts_total", (), self._searches
        for came_of_it, count in self._group_searches.items():
            yield "scheduler_workload_preemption_attempts_total", (("result", came_of_it),), count
