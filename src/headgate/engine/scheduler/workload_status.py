"""What workloads show: their priorities as numbers, and whether their pods say otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from headgate.engine.scheduler.groups import Groups, Rank
from headgate.model.conditions import Condition
from headgate.model.effects import PatchStatus, WorkloadStatus
from headgate.model.groups import Workload
from headgate.model.keys import Key, Kind, Target
from headgate.model.pod import Pod

MISMATCH = "PodsNotMatchingPriority"
SHOWN = 3  # names in a text before it only counts


class WorkloadStatuses:
    """Writes a status when it is news; a write not observed yet is not written again."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._touched: dict[Key, None] = {}
        self._written: dict[Key, tuple[str, WorkloadStatus]] = {}  # with the uid of the object

    def touch(self, workload: Key) -> None:
        """It, one of its pods, or what its priority classes are worth has changed."""
        if workload.kind is Kind.WORKLOAD:
            self._touched[workload] = None

    def failed(self, workload: Key) -> None:
        """The write did not take hold and will not be tried again as it is."""
        if self._written.pop(workload, None) is not None:
            self._touched[workload] = None

    def settle(self, now: float) -> Iterator[PatchStatus]:
        touched, self._touched = self._touched, {}
        for key in touched:
            workload = self._groups.workloads.get(key)
            if workload is None:
                self._written.pop(key, None)
            elif workload.deleted is None:
                yield from self._news(workload, now)

    def _news(self, workload: Workload, now: float) -> Iterator[PatchStatus]:
        rank = self._groups.rank(workload)
        if not isinstance(rank, Rank):
            return
        wanted = WorkloadStatus(rank.priority, rank.preemption_priority, self._conditions(workload, rank, now))
        shown = (workload.priority, workload.preemption_priority, workload.conditions)
        if (wanted.priority, wanted.preemption_priority, wanted.conditions) == shown:
            self._written.pop(workload.key, None)
        elif not self._wrote(workload, wanted):
            self._written[workload.key] = (workload.uid, wanted)
            yield PatchStatus(Target(workload.key, workload.uid, workload.version), wanted)

    def _wrote(self, workload: Workload, wanted: WorkloadStatus) -> bool:
        """Whether the same was written about this very object, times aside."""
        uid, written = self._written.get(workload.key, ("", None))
        return uid == workload.uid and written is not None and _says(written) == _says(wanted)

    def _conditions(self, workload: Workload, rank: Rank, now: float) -> tuple[Condition, ...]:
        """The conditions it shows, ours among them brought up to date; nothing is said while all is well."""
        shown = next((condition for condition in workload.conditions if condition.type == MISMATCH), None)
        others = tuple(condition for condition in workload.conditions if condition.type != MISMATCH)
        strangers = sorted(self._groups.mismatched(workload, rank.priority), key=lambda pod: pod.key)
        if not strangers and shown is None:
            return others
        status, reason, message = _verdict(strangers, rank.priority)
        at = shown.at if shown is not None and shown.status == status else now
        return (*others, Condition(MISMATCH, status, reason, message, at))


def _verdict(strangers: list[Pod], priority: int) -> tuple[str, str, str]:
    if not strangers:
        return "False", "PrioritiesMatch", f"all pods have the workload's priority, {priority}"
    names = ", ".join(f"{pod.key.name} has {pod.priority}" for pod in itertools.islice(strangers, SHOWN))
    more = f" and {len(strangers) - SHOWN} more" if len(strangers) > SHOWN else ""
    message = f"the workload's priority, {priority}, counts and not that of its pods: {names}{more}"
    return "True", "PriorityDiffers", message


def _says(status: WorkloadStatus) -> tuple[object, ...]:
    """All but the times."""
    conditions = tuple((each.type, each.status, each.message) for each in status.conditions)
    return status.priority, status.preemption_priority, conditions
