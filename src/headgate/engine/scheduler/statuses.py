"""The statuses that the scheduler plane writes: of pod-group workloads, and of Volcano's queues and PodGroups.

A workload shows what its priority classes were worth, and whether its pods name others. Queues and PodGroups of Volcano
have a status of ours if they have pods of ours.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Set

from headgate.engine.in_flight import AwaitedPermits, InFlightWrites, InformPermits, WritePolicy, WriteResult
from headgate.engine.scheduler.cache import ClusterCache
from headgate.engine.scheduler.groups import Rank
from headgate.engine.scheduler.queue_capacity import QueueCapacity
from headgate.model.effects import PatchStatus, PodGroupStatus, VolcanoQueueStatus, WorkloadStatus
from headgate.model.events import WriteError
from headgate.model.keys import Condition, Key, Kind, Target
from headgate.model.pod import ENDED, Phase, Pod, Workload
from headgate.model.resources import Resources
from headgate.model.volcano import ROOT, PodGroupPhase, QueueCounts, QueueState, VolcanoQueue

MISMATCH = "PodsNotMatchingPriority"
SHOWN = 3  # names in a text before it only counts

WAITING_PHASES = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE})
SCHEDULED, UNSCHEDULABLE = "Scheduled", "Unschedulable"


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


class VolcanoStatuses:
    """Writes a status when it is outdated, at most one write at a time for each object. What a queue counts only
    informs, so it is written when there is a permit for it; its state, and the phase of a group, are written at once.

    Queues and groups without a pod of ours are somebody else's, perhaps Volcano's own.
    """

    def __init__(self, cache: ClusterCache, capacity: QueueCapacity, ours: frozenset[str], policy: WritePolicy) -> None:
        self._cache = cache
        self._capacity = capacity
        self._ours = ours
        self.writes = InFlightWrites[Key, PatchStatus](policy)
        self.permits = InformPermits()
        self._untold: dict[str, float] = {}  # queues that count otherwise than they show, and since when
        self._pods: dict[Key, str] = {}  # the queue of each pod of ours, whatever has become of it
        self._served: Counter[str] = Counter()  # the number of these by queue
        self._phases: dict[str, dict[Key, PodGroupPhase]] = {}  # of PodGroups, by queue
        self._queue_of: dict[Key, str] = {}  # of these PodGroups
        self._touched: dict[str, None] = {}

    def observe_pod(self, pod: Pod) -> None:
        queue = self._capacity.queue_of(pod) if pod.scheduler_name in self._ours else ""
        known = self._pods.get(pod.key, "")
        if queue != known:
            self._leave(pod.key)
            if queue:
                self._pods[pod.key] = queue
                self._served[queue] += 1
                self._touched[queue] = None
        if queue and pod.group is not None:
            self._cache.touch_workload(pod.group.workload)

    def lose_pod(self, pod: Pod) -> None:
        self._leave(pod.key)
        if pod.group is not None:
            self._cache.touch_workload(pod.group.workload)

    def _leave(self, pod: Key) -> None:
        queue = self._pods.pop(pod, None)
        if queue is not None:
            self._touched[queue] = None
            self._served[queue] -= 1
            if not self._served[queue]:
                del self._served[queue]

    def answer(self, patch: PatchStatus, trouble: WriteError | None, now: float) -> None:
        """Takes in the server's answer. A write that failed is decided anew, as the object may be another by now."""
        key = patch.target.key
        result = self.writes.answer(key, patch, trouble, self._version(key), now)
        if result is WriteResult.CONFIRMED or result is WriteResult.FORGOTTEN:
            self._touch(key)

    def recheck_due(self, now: float) -> None:
        for key, _, _ in self.writes.due(now):
            self._touch(key)

    def settle(self, now: float) -> Iterator[PatchStatus]:
        touched, self._capacity.usage.touched = self._capacity.usage.touched | self._touched, {}
        self._touched = {}
        groups, self._cache.touched_pod_groups = self._cache.touched_pod_groups, {}
        if not touched and not groups and not (self._untold and self.permits.left > 0):
            return
        for queue in self._sharing_with(touched):
            groups |= {key: None for key, phase in self._phases.get(queue, {}).items() if phase in WAITING_PHASES}
        for key in groups:
            yield from self._settle_group(key, touched, now)
        for queue in list(touched):
            touched |= {level.name: None for level in self._path(queue)}
        served = {level.name for queue in self._served for level in self._path(queue)} | self._served.keys()
        if self.permits.left > 0:
            touched |= dict.fromkeys(self._untold)
        for queue in touched:
            yield from self._settle_queue(queue, served, now)

    @property
    def awaited_permits(self) -> AwaitedPermits | None:
        """The statuses that wait for permits."""
        if not self._untold or self.permits.left > 0:
            return None
        return AwaitedPermits(len(self._untold), next(iter(self._untold.values())))

    def _sharing_with(self, touched: dict[str, None]) -> list[str]:
        """The queues with PodGroups for which it may matter what one of these uses."""
        tops = {self._top(queue) for queue in touched}
        return [queue for queue in self._phases if queue in touched or self._top(queue) in tops]

    def _top(self, queue: str) -> str:
        """The highest queue above it that has a limit of its own for all below it: the root, or one right below it."""
        path = [level.name for level in self._path(queue)]
        root = self._capacity.usage.node(ROOT)
        limited = root is not None and root.queue.capability.items
        return queue if not path else path[-1] if limited or len(path) == 1 else path[-2]

    def _path(self, queue: str) -> Iterator[VolcanoQueue]:
        node = self._capacity.usage.node(queue)
        return (level.queue for level in node.path()) if node is not None else iter(())

    def _touch(self, key: Key) -> None:
        if key.kind is Kind.VOLCANO_QUEUE:
            self._touched[key.name] = None
        else:
            self._cache.touch_workload(key)

    def _version(self, key: Key) -> str:
        found = (
            self._cache.volcano_queues.get(key.name)
            if key.kind is Kind.VOLCANO_QUEUE
            else self._cache.groups.workloads.get(key)
        )
        return found.version if found is not None else ""

    def _write(
        self,
        found: VolcanoQueue | Workload,
        wanted: VolcanoQueueStatus | PodGroupStatus,
        *,
        shown: bool,
        untold_since: float | None = None,
    ) -> Iterator[PatchStatus]:
        """The write, unless the object shows it already or another one is in flight.

        One that only informs is not known to be told since `untold_since`, and needs a permit.
        """
        flight = self.writes.get(found.key)
        if flight is not None and flight.write.target.uid != found.uid:
            self.writes.forget(found.key)  # it was written to another object of this name
        self.writes.observe(found.key, found.version)
        if shown:
            self.writes.confirm(found.key)
        elif found.key in self.writes:
            return
        elif untold_since is not None and self.permits.left <= 0:
            self._untold[found.key.name] = untold_since
        else:
            informs = untold_since is not None
            if informs:
                self.permits.take()
            patch = PatchStatus(Target(found.key, found.uid, found.version), wanted, permitted=informs)
            yield self.writes.send(found.key, patch, found.version)

    # queues

    def _settle_queue(self, name: str, served: Set[str], now: float) -> Iterator[PatchStatus]:
        """`served` are the queues with a pod of ours in them or below them."""
        queue = self._cache.volcano_queues.get(name)
        untold_since = self._untold.pop(name, now)
        if queue is None:
            self.writes.forget(Key(Kind.VOLCANO_QUEUE, "", name))
            return
        if queue.deleted is not None or name not in served:
            return
        node = self._capacity.usage.node(name)
        phases = Counter(self._phases.get(name, {}).values())
        reserved = Resources.of(node.reserved) if node is not None else Resources()
        allocated = (Resources.of(node.totals) if node is not None else Resources()) - reserved
        wanted = VolcanoQueueStatus(
            self._state(queue, phases),
            QueueCounts(
                phases[PodGroupPhase.PENDING],
                phases[PodGroupPhase.INQUEUE],
                phases[PodGroupPhase.RUNNING],
                phases[PodGroupPhase.UNKNOWN],
                phases[PodGroupPhase.COMPLETED],
            ),
            _shown_with(allocated, queue.allocated),
            _shown_with(reserved, queue.reserved),
        )
        shown = VolcanoQueueStatus(queue.state or QueueState.UNKNOWN, queue.counts, queue.allocated, queue.reserved)
        is_shown, informs = queue.state is not None and shown == wanted, queue.state is wanted.state
        yield from self._write(queue, wanted, shown=is_shown, untold_since=untold_since if informs else None)

    def _state(self, queue: VolcanoQueue, phases: Counter[PodGroupPhase]) -> QueueState:
        if queue.state is QueueState.CLOSED:
            return QueueState.CLOSED
        if queue.state is QueueState.CLOSING:
            left = sum(phases.values()) - phases[PodGroupPhase.COMPLETED]
            return QueueState.CLOSING if left or self._capacity.uses_any(queue.name) else QueueState.CLOSED
        return QueueState.UNKNOWN if self._capacity.misplaced(queue.name) else QueueState.OPEN

    # PodGroups

    def _settle_group(self, key: Key, touched: dict[str, None], now: float) -> Iterator[PatchStatus]:
        group = self._cache.groups.workloads.get(key)
        before = self._queue_of.pop(key, None)
        if before is not None:
            touched[before] = None
            self._phases[before].pop(key, None)
            if not self._phases[before]:
                del self._phases[before]
        if group is None or group.volcano is None:
            self.writes.forget(key)
            return
        pods = [self._cache.pods.get(pod.key, pod) for pod in self._cache.groups.pods_of(key)]
        if group.deleted is not None or not any(pod.scheduler_name in self._ours for pod in pods):
            return
        queue = group.volcano.queue
        wanted = self._status(group, pods, now)
        self._queue_of[key] = queue
        self._phases.setdefault(queue, {})[key] = wanted.phase
        touched[queue] = None
        said = group.volcano
        shown = (said.phase, group.conditions, said.running, said.succeeded, said.failed)
        same = shown == (wanted.phase, wanted.conditions, wanted.running, wanted.succeeded, wanted.failed)
        yield from self._write(group, wanted, shown=same)

    def _status(self, group: Workload, pods: list[Pod], now: float) -> PodGroupStatus:
        phases = Counter(pod.phase for pod in pods)
        placed = sum(bool(pod.node) and pod.phase not in ENDED and pod.deleted is None for pod in pods)
        done = phases[Phase.SUCCEEDED]
        gang = group.groups[0].gang
        needed = max(1, gang.min_count if gang is not None else 1)
        if placed == 0 and done + phases[Phase.FAILED] and all(pod.phase in ENDED for pod in pods):
            phase, why = PodGroupPhase.COMPLETED, ("", "")
        elif placed + done >= needed:
            phase, why = PodGroupPhase.RUNNING, ("", "")
        elif placed:
            why = "NotEnoughResources", f"{placed} of {needed} needed pods have a node"
            phase = PodGroupPhase.UNKNOWN
        else:
            phase, why = self._waiting(group, pods, needed)
        conditions = _conditions(group, phase, why, now)
        return PodGroupStatus(phase, conditions, phases[Phase.RUNNING], done, phases[Phase.FAILED])

    def _waiting(self, group: Workload, pods: list[Pod], needed: int) -> tuple[PodGroupPhase, tuple[str, str]]:
        """Inqueue once the queue has capacity for what the group says it needs, or for what its pods reserve."""
        assert group.volcano is not None
        node = self._capacity.usage.node(group.volcano.queue)
        if node is None or not node.queue.is_open:
            return PodGroupPhase.PENDING, ("NotEnoughResources", f"queue {group.volcano.queue} takes no pods")
        short = node.shortage(group.volcano.min_resources)
        if short is not None and not any(pod.key in self._capacity.in_force for pod in pods):
            return PodGroupPhase.PENDING, ("NotEnoughResources", str(short))
        if len(pods) < needed:
            return PodGroupPhase.INQUEUE, ("NotEnoughTasks", f"{len(pods)} of {needed} needed pods exist")
        waiting = [pod for pod in pods if pod.wants_node]
        if not self._capacity.allows(waiting, min(needed, len(waiting))):
            return PodGroupPhase.INQUEUE, ("NotEnoughResources", f"queue {node.name} has no capacity for its pods")
        if any(pod.scheduled is not None and pod.scheduled.reason == "Unschedulable" for pod in pods):
            return PodGroupPhase.INQUEUE, ("NotEnoughResources", f"0 of {needed} needed pods have a node")
        return PodGroupPhase.INQUEUE, ("", "")


def _conditions(group: Workload, phase: PodGroupPhase, why: tuple[str, str], now: float) -> tuple[Condition, ...]:
    """The conditions it shows, ours among them brought up to date: Scheduled, Unschedulable, or neither is True."""
    ours = {SCHEDULED: ("True", "Ready", "") if phase is PodGroupPhase.RUNNING else None}
    ours[UNSCHEDULABLE] = ("True", *why) if why[0] else None
    made: list[Condition] = [each for each in group.conditions if each.type not in ours]
    for type_, said in ours.items():
        shown = next((each for each in group.conditions if each.type == type_), None)
        if said is None and shown is None:
            continue
        status, reason, message = said or ("False", shown.reason if shown else "", "")
        at = shown.at if shown is not None and shown.status == status else float(now // 1)
        made.append(Condition(type_, status, reason, message, at))
    return tuple(made)


def _shown_with(amounts: Resources, before: Resources) -> Resources:
    """With a zero for what was shown before: a merge patch leaves what it does not name."""
    named = {name: amount for name, amount in amounts if amount}
    return Resources.of({**dict.fromkeys((name for name, _ in before), 0), **named})
