"""The status of pod-group workloads: what their priority classes were worth, and whether their pods name others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from headgate.engine.in_flight import InFlightWrites, WritePolicy, WriteResult
from headgate.engine.scheduler.cache import ClusterCache
from headgate.engine.scheduler.groups import Rank
from headgate.model.effects import PatchStatus, WorkloadStatus
from headgate.model.events import WriteError
from headgate.model.keys import Condition, Key, Target
from headgate.model.pod import Pod, Workload

MISMATCH = "PodsNotMatchingPriority"
SHOWN = 3  # names in a text before it only counts


class WorkloadStatuses:
    """Writes the status of a workload when it is outdated, at most one write at a time."""

    def __init__(self, cache: ClusterCache, policy: WritePolicy) -> None:
        self._cache = cache
        self._groups = cache.groups
        self.writes = InFlightWrites[Key, PatchStatus](policy)

    def answer(self, patch: PatchStatus, trouble: WriteError | None, now: float) -> None:
        """Takes in the server's answer. A write that failed is decided anew, as the workload may be another by now."""
        key = patch.target.key
        workload = self._groups.workloads.get(key)
        result = self.writes.answer(key, patch, trouble, workload.version if workload is not None else "", now)
        if result is WriteResult.CONFIRMED or result is WriteResult.FORGOTTEN:
            self._cache.touch_workload(key)

    def recheck_due(self, now: float) -> None:
        """Writes that failed, or were not observed in time, are decided anew by the next `settle`."""
        for key, _, _ in self.writes.due(now):
            self._cache.touch_workload(key)

    def settle(self, now: float) -> Iterator[PatchStatus]:
        touched, self._cache.touched_workloads = self._cache.touched_workloads, {}
        for key in touched:
            workload = self._groups.workloads.get(key)
            if workload is None:
                self.writes.forget(key)
            elif workload.deleted is None:
                yield from self._outdated(workload, now)

    def _outdated(self, workload: Workload, now: float) -> Iterator[PatchStatus]:
        rank = self._groups.rank(workload)
        if not isinstance(rank, Rank):
            return
        flight = self.writes.get(workload.key)
        if flight is not None and flight.write.target.uid != workload.uid:
            self.writes.forget(workload.key)  # it was written to another object of this name
        self.writes.observe(workload.key, workload.version)
        conditions = self._conditions(workload, rank, now)
        wanted = (rank.priority, rank.preemption_priority, rank.preempts, conditions)
        if wanted == (workload.priority, workload.preemption_priority, workload.preempts, workload.conditions):
            self.writes.confirm(workload.key)
        elif workload.key not in self.writes:
            patch = PatchStatus(Target(workload.key, workload.uid, workload.version), WorkloadStatus(*wanted))
            yield self.writes.send(workload.key, patch, workload.version)

    def _conditions(self, workload: Workload, rank: Rank, now: float) -> tuple[Condition, ...]:
        """The conditions it shows, ours among them brought up to date; nothing is said while all is well."""
        shown = next((condition for condition in workload.conditions if condition.type == MISMATCH), None)
        others = tuple(condition for condition in workload.conditions if condition.type != MISMATCH)
        strangers = sorted(self._groups.mismatched(workload, rank.priority), key=lambda pod: pod.key)
        if not strangers and shown is None:
            return others
        status, reason, message = _matching(strangers, rank.priority)
        at = shown.at if shown is not None and shown.status == status else now
        return (*others, Condition(MISMATCH, status, reason, message, at))


def _matching(strangers: list[Pod], priority: int) -> tuple[str, str, str]:
    if not strangers:
        return "False", "PrioritiesMatch", f"all pods have the workload's priority, {priority}"
    names = ", ".join(f"{pod.key.name} has {pod.priority}" for pod in itertools.islice(strangers, SHOWN))
    more = f" and {len(strangers) - SHOWN} more" if len(strangers) > SHOWN else ""
    message = f"the workload's priority, {priority}, counts and not that of its pods: {names}{more}"
    return "True", "PriorityDiffers", message
