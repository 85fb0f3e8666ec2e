"""Which admitted jobs are held, and for which terminating pods.

A job is held only while terminating pods that are promised to it, and to no other, would make it fit on the nodes where
it does not fit now. All others start at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from headgate.engine.integrations.debt import FlavorResource, QuotaTrees, granted_quota
from headgate.engine.integrations.node_capacity import FreeCapacity, NodeCapacity, Rows, Wanted
from headgate.lifecycle.jobframework.generic_job import PodSetInfo
from headgate.lifecycle.jobframework.pod_writes import CannotStart, pod_set_infos
from headgate.lifecycle.terminating import Hold, PodOccupancy, hold_limit, is_stuck, places_of, taken_by
from headgate.lifecycle.workload.conditions import ADMITTED, true_since
from headgate.model.keys import Key
from headgate.model.kueue_names import CLUSTER_QUEUE_NAME
from headgate.model.pod import Pod, PodShape
from headgate.model.queues import QueuedWorkload, ResourceFlavor
from headgate.placement.table import PODS, Amounts

Mask = NDArray[np.bool_]


class HoldCandidate(Struct, frozen=True):
    """An admitted job and those of its pods that are on no node."""

    job: Key
    rank: tuple[int, float, float, Key]  # by priority, then by the time of its admission, its creation and its name
    wanted: Wanted
    queue: str  # the cluster queue that admitted it
    quota: frozenset[FlavorResource]  # what it got quota of
    since: float  # when it was admitted
    until: float  # when a hold is over in any case
    started: bool = False  # it is not held; a scheduler gives its pods what is free

    @property
    def likeness(self) -> Hashable:
        """Candidates that are alike in this are helped by the same terminating pods."""
        return tuple(self.wanted.items()), self.queue, self.quota


class TerminatingPod(Struct, frozen=True):
    """A pod that is being deleted and whose quota was released already."""

    pod: Pod

    @property
    def due(self) -> float:
        """When its grace period is over. From then on no job is held for it."""
        assert self.pod.deleted is not None, f"{self.pod.key} is not being deleted"
        return self.pod.deleted

    @property
    def queue(self) -> str:
        return self.pod.labels.get(CLUSTER_QUEUE_NAME, "")

    @property
    def quota(self) -> frozenset[FlavorResource]:
        return frozenset((flavor, resource) for _, flavor, resource in taken_by(self.pod))


class HoldPlan:
    """Free capacity, and the terminating pods that are promised to no job yet, as candidates are considered in turn.

    Jobs that were started take what is free first, then those that fit now. Terminating pods are promised to those that
    remain, whether they have started or not: so a start takes no promise from others. Each time they are considered in
    the order of their rank.

    A pod whose grace period is over stays in the plan until it is reported as stuck: the job it was promised to starts
    without it, and takes nothing from others that are held for pods that are in time.
    """

    def __init__(self, nodes: NodeCapacity, trees: QuotaTrees) -> None:
        self._nodes = nodes
        self._trees = trees
        self._terminating: list[TerminatingPod] = []  # those that are due first in front
        self._free = FreeCapacity({})
        self._rows: Rows = np.zeros(0, dtype=np.intp)  # of the nodes they are on
        self._amounts: dict[str, Amounts] = {}  # what they free there
        self._due: NDArray[np.float64] = np.zeros(0)
        self._open: Mask = np.zeros(0, dtype=np.bool_)  # which of them are promised to nobody
        self._fitting: dict[PodShape, Rows] = {}
        self._masks: dict[tuple[str, frozenset[FlavorResource]], Mask] = {}
        self._beyond_help: dict[Hashable, float] = {}  # since when those were admitted that no terminating pods help

    def holds(
        self, terminating: Iterable[TerminatingPod], candidates: Iterable[HoldCandidate], now: float
    ) -> dict[Key, Hold]:
        """The holds of the jobs that are held; the others start now, or have."""
        in_time = [each for each in terminating if not is_stuck(each.pod, now)]
        there = [each for each in in_time if self._nodes.row_of(each.pod.node) is not None]
        if not any(each.due > now for each in there):
            return {}
        ranked = sorted(candidates, key=lambda each: each.rank)
        self._begin(sorted(there, key=lambda each: (each.due, each.pod.key)), ranked)
        pending = {each.job: self._pending(each.wanted) for each in ranked if each.started}
        waiting = {each.job for each in ranked if not each.started and not self._fits_now(each.wanted)}
        holds: dict[Key, Hold] = {}
        for candidate in ranked:
            if candidate.started:
                self._promise(structs.replace(candidate, wanted=pending[candidate.job]))
            elif candidate.job in waiting and (promised := self._promise(candidate)):
                until = min(candidate.until, promised[-1].due)
                if promised[0].due > now and until > now:
                    holds[candidate.job] = Hold(tuple(each.pod for each in promised), until)
        return holds

    def _begin(self, terminating: list[TerminatingPod], candidates: Sequence[HoldCandidate]) -> None:
        shapes = dict.fromkeys(shape for each in candidates for shape in each.wanted)
        self._free = self._nodes.free(name for shape in shapes for name, _ in shape.requests.items)
        self._terminating = terminating
        self._rows = np.array([self._nodes.row_of(each.pod.node) for each in terminating], dtype=np.intp)
        self._amounts = {name: _requests(terminating, name) for name in self._free.amounts}
        self._due = np.array([each.due for each in terminating])
        self._open = np.ones(len(terminating), dtype=np.bool_)

    def _fits_now(self, wanted: Wanted) -> bool:
        """Whether all pods fit on the nodes as they are; then they are placed."""
        trial = self._free.copy()
        if not self._places_all(wanted, trial):
            return False
        self._free = trial
        return True

    def _pending(self, wanted: Wanted) -> Wanted:
        """The pods for which nothing is free; the others are placed."""
        left = {shape: count - self._free.place(shape, count, self._rows_for(shape)) for shape, count in wanted.items()}
        return {shape: count for shape, count in left.items() if count}

    def _promise(self, candidate: HoldCandidate) -> list[TerminatingPod]:
        """Promises it as few terminating pods as make it fit, those that are due first; none when they all do not.

        None, too, when it needs none: pods of several shapes are placed one shape after the other, so what did not fit
        at first may fit among more capacity. A pod whose grace was over before the candidate was admitted helps no one.
        """
        if not candidate.wanted or candidate.since >= self._beyond_help.get(candidate.likeness, math.inf):
            return []
        may = np.flatnonzero(self._open & self._gave_to(candidate) & (self._due > candidate.since))
        few = _fewest(len(may), lambda count: self._places_all(candidate.wanted, self._once_gone(may[:count])))
        if few is None:
            self._beyond_help[candidate.likeness] = candidate.since
            return []
        after = self._once_gone(may[:few])
        self._places_all(candidate.wanted, after)
        return [self._terminating[index] for index in self._take(after, may[:few])]

    def _gave_to(self, candidate: HoldCandidate) -> Mask:
        """The terminating pods whose quota the candidate can have been admitted against."""
        kind = candidate.queue, candidate.quota
        if kind not in self._masks:
            root, tree = self._trees.root, self._trees.root(candidate.queue)
            found = [
                root(each.queue) == tree and not candidate.quota.isdisjoint(each.quota) for each in self._terminating
            ]
            self._masks[kind] = np.array(found, dtype=np.bool_)
        return self._masks[kind]

    def _places_all(self, wanted: Wanted, free: FreeCapacity) -> bool:
        return all(free.place(shape, count, self._rows_for(shape)) == count for shape, count in wanted.items())

    def _rows_for(self, shape: PodShape) -> Rows:
        if shape not in self._fitting:
            self._fitting[shape] = self._nodes.rows_for(shape)
        return self._fitting[shape]

    def _once_gone(self, gone: Rows) -> FreeCapacity:
        """What is free once these terminating pods are gone."""
        free = self._free.copy()
        for name, amounts in free.amounts.items():
            np.add.at(amounts, self._rows[gone], self._amounts[name][gone])
        return free

    def _take(self, after: FreeCapacity, gone: Rows) -> list[int]:
        """Takes what was placed on `after`, which counts on these terminating pods; returns those that it needs.

        What is left over of the capacity of such a pod is nobody's: a terminating pod is promised once.
        """
        before, now = self._once_gone(gone).amounts, self._free.amounts
        used = {name: before[name] - amounts for name, amounts in after.amounts.items()}
        leaving: dict[int, list[int]] = {}
        for index in gone.tolist():
            leaving.setdefault(int(self._rows[index]), []).append(index)
        needed: list[int] = []
        for row in np.flatnonzero(used[PODS]).tolist():
            short = {name: int(amounts[row] - now[name][row]) for name, amounts in used.items() if amounts[row]}
            needed += self._covering(short, leaving.get(row, []))
        for name, amounts in now.items():
            np.maximum(amounts - used[name], np.minimum(amounts, 0), out=amounts)
        self._open[needed] = False
        return sorted(needed)

    def _covering(self, short: Mapping[str, int], leaving: Sequence[int]) -> list[int]:
        """Terminating pods of one node that together free what is short there; none of them can be left out."""

        def is_enough(chosen: Sequence[int]) -> bool:
            return all(sum(int(self._amounts[name][each]) for each in chosen) >= most for name, most in short.items())

        chosen = list(leaving)
        for each in reversed(leaving):
            rest = [other for other in chosen if other != each]
            chosen = rest if is_enough(rest) else chosen
        return chosen


def _requests(terminating: Sequence[TerminatingPod], name: str) -> Amounts:
    return np.array([1 if name == PODS else each.pod.shape.requests[name] for each in terminating], dtype=np.int64)


def _fewest(most: int, is_enough: Callable[[int], bool]) -> int | None:
    """The smallest number, of at least one, that is enough; None when the largest is not."""
    if not most or not is_enough(most):
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return high


Counts = Mapping[str, int]
"""Pods by pod set."""


class _StartedJob(Struct):
    workload: QueuedWorkload
    counts: Counts  # pods still to come
    candidate: HoldCandidate | None = None  # once somebody asked


class HoldCandidates:
    """Admitted jobs with pods on no node yet, about to start or started. `version` changes with any of them."""

    def __init__(self, flavors: Mapping[str, ResourceFlavor], max_hold: float) -> None:
        self._flavors = flavors
        self._max_hold = max_hold
        self._started: dict[Key, _StartedJob] = {}
        self.waiting: dict[Key, HoldCandidate] = {}
        self.version = 0

    def put_started(self, job: Key, workload: QueuedWorkload, occupancy: PodOccupancy) -> None:
        """The job runs by this Workload, with these pods on nodes."""
        counts = _missing(workload, occupancy)
        known = self._started.get(job)
        if not counts:
            self.drop_started(job)
        elif known is None or known.counts != counts or known.workload.version != workload.version:
            self._started[job] = _StartedJob(workload, counts)
            self.version += 1

    def drop_started(self, job: Key) -> None:
        self.version += self._started.pop(job, None) is not None

    def put_waiting(self, job: Key, workload: QueuedWorkload, occupancy: PodOccupancy) -> None:
        """The job is about to start, all of it, though its pods may come one after another."""
        counts = _missing(workload, occupancy)
        until = hold_limit(workload, self._max_hold)
        found = None if until is None else self._candidate(job, workload, counts, until)
        if found is None:
            self.drop_waiting(job)
        elif self.waiting.get(job) != found:
            self.waiting[job] = found
            self.version += 1

    def drop_waiting(self, job: Key) -> None:
        self.version += self.waiting.pop(job, None) is not None

    def clear_waiting(self) -> None:
        self.version += bool(self.waiting)
        self.waiting = {}

    def all(self) -> list[HoldCandidate]:
        return [*self.waiting.values(), *filter(None, map(self._of_started, self._started))]

    def _of_started(self, job: Key) -> HoldCandidate | None:
        each = self._started[job]
        if each.candidate is None:
            found = self._candidate(job, each.workload, each.counts, -math.inf)
            each.candidate = None if found is None else structs.replace(found, started=True)
        return each.candidate

    def _candidate(self, job: Key, workload: QueuedWorkload, counts: Counts, until: float) -> HoldCandidate | None:
        """None when its pods cannot start as they are."""
        shapes = _started_shapes(workload, self._flavors)
        if shapes is None or workload.status.admission is None:
            return None
        wanted: dict[PodShape, int] = {}
        for name, shape in shapes.items():
            wanted[shape] = wanted.get(shape, 0) + counts.get(name, 0)
        since = true_since(workload, ADMITTED)
        since = math.inf if since is None else since
        return HoldCandidate(
            job=job,
            rank=(-workload.effective_priority, since, workload.created, workload.key),
            wanted={shape: count for shape, count in wanted.items() if count},
            queue=workload.status.admission.cluster_queue,
            quota=frozenset(name for name, amount in granted_quota(workload.status.admission).items() if amount),
            since=since,
            until=until,
        )


def _started_shapes(workload: QueuedWorkload, flavors: Mapping[str, ResourceFlavor]) -> Mapping[str, PodShape] | None:
    """What its pods look like once they are started, by pod set; None when they cannot be."""
    try:
        given = pod_set_infos(workload, flavors)
    except CannotStart:
        return None
    if given is None:
        return None
    return {
        wanted.name: _with(wanted.shape, given[wanted.name]) for wanted in workload.pod_sets if wanted.name in given
    }


def _with(shape: PodShape, given: PodSetInfo) -> PodShape:
    selector = {**given.node_selector, **dict(shape.node_selector)}
    return structs.replace(
        shape,
        node_selector=tuple(sorted(selector.items())),
        tolerations=tuple(dict.fromkeys((*shape.tolerations, *given.tolerations))),
    )


def _missing(workload: QueuedWorkload, occupancy: PodOccupancy) -> dict[str, int]:
    """Pods that it has quota for and that are on no node, by pod set. Pods that are done for good never come again."""
    done = dict(workload.status.reclaimable)
    each = {
        name: count - done.get(name, 0) - occupancy.on_nodes.get(name, 0) for name, count in places_of(workload).items()
    }
    return {name: count for name, count in each.items() if count > 0}
