"""What is counted about quota, by Kueue's names: whatever only grows, and how long things took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from headgate.engine.distributions import Distributions, Labels
from headgate.engine.planes import Number
from headgate.engine.quota.waits import (
    BOUNDS,
    EVICTION_LATENCY,
    READY_TO_EVICTED,
    Came,
    came_true,
    evicted_until_released,
    ready_until_evicted,
    waits_over,
)
from headgate.lifecycle.quota_conditions import ADMITTED, EVICTED, FINISHED, PREEMPTED, QUOTA_RESERVED, reason_of
from headgate.model.keys import Key, Kind
from headgate.model.queues import EvictionCount, QueuedWorkload

TURNS = {QUOTA_RESERVED: "quota_reserved", ADMITTED: "admitted", FINISHED: "finished"}
"""Conditions that are counted when they turn true, and under what name."""


class QuotaCounts:
    """Counted is what has come about, whoever wrote it, once for each time it did.

    `tells_of` says whether a local queue is told of; `cohorts_above` names the cohorts of a cluster queue.
    """

    def __init__(self, tells_of: Callable[[Key], bool], cohorts_above: Callable[[str], Iterable[str]]) -> None:
        self._tells_of = tells_of
        self._cohorts_above = cohorts_above
        self._counted: Counter[tuple[str, Labels]] = Counter()
        self._waits = Distributions(BOUNDS)
        self._skips: dict[str, int] = {}  # of preemption, in the last cycle the queue was in
        self._preemptors: dict[Key, str] = {}  # for which queue a workload must go, until it shows that it must

    # what is decided

    def attempt(self, queues: Iterable[str], *, success: bool) -> None:
        """One cycle, with the heads of these queues."""
        self._add("kueue_admission_attempts_total", result="success" if success else "inadmissible")
        self._skips.update((queue, 0) for queue in queues if queue in self._skips)

    def skipped_preemption(self, queue: str) -> None:
        self._skips[queue] = self._skips.get(queue, 0) + 1

    def recomputed(self, queue: str, result: str) -> None:
        """A workload's victims had to go for another one already, so it was decided about once more."""
        self._add("kueue_preemption_target_recomputations_total", cluster_queue=queue, result=result)

    def preempts(self, victim: Key, by_queue: str) -> None:
        self._preemptors[victim] = by_queue

    # what is seen

    def seen(self, before: QueuedWorkload, after: QueuedWorkload, queue: str, now: float) -> None:
        """The workload has changed; `queue` is the one it has quota of, or had before, or would get it from."""
        if before.conditions != after.conditions:
            came = came_true(before, after)
            if came:
                self._came(after, queue, came, now)
            released = evicted_until_released(before, after, now)
            if released is not None:
                labels = (("cluster_queue", queue), ("reason", reason_of(after, EVICTED)))
                self._waits.observe(EVICTION_LATENCY, labels, released)
        if before.evictions != after.evictions and before.admission is not None:
            self._evicted(before, after, queue)

    def lose(self, workload: Key) -> None:
        self._preemptors.pop(workload, None)

    def forget(self, key: Key) -> None:
        """A queue or cohort is gone, and with it whatever was counted of it."""
        for labels in _naming(key):
            for at in [at for at in self._counted if labels.items() <= dict(at[1]).items()]:
                del self._counted[at]
            self._waits.forget(labels)
        if key.kind is Kind.CLUSTER_QUEUE:
            self._skips.pop(key.name, None)

    def numbers(self) -> Iterator[Number]:
        yield from ((name, labels, count) for (name, labels), count in self._counted.items())
        yield from self._waits
        for queue, count in self._skips.items():
            yield "kueue_admission_cycle_preemption_skips", (("cluster_queue", queue),), count

    def _came(self, workload: QueuedWorkload, queue: str, came: Came, now: float) -> None:
        waits = list(waits_over(workload, came, now))
        for prefix, labels in self._both(workload, queue):
            for type_, what in TURNS.items():
                if type_ in came:
                    self._counted[f"{prefix}{what}_workloads_total", labels] += 1
            for name, seconds in waits:
                self._waits.observe(f"{prefix}{name}", labels, seconds)
        if ADMITTED in came:
            for cohort in self._cohorts_above(queue):
                name = "kueue_cohort_subtree_admitted_workloads_total"
                self._add(name, cohort=cohort, priority_class=_class(workload))
        by_queue = self._preemptors.pop(workload.key, None) if PREEMPTED in came else None
        if by_queue is not None:
            reason = came[PREEMPTED].reason
            self._add("kueue_preempted_workloads_total", preempting_cluster_queue=by_queue, reason=reason)

    def _evicted(self, before: QueuedWorkload, after: QueuedWorkload, queue: str) -> None:
        times = {(one.reason, one.cause): one.count for one in before.evictions}
        for one in after.evictions:
            known = times.get((one.reason, one.cause), 0)
            if one.count > known:
                self._count_eviction(after, queue, one)
                ready = ready_until_evicted(before, after)
                if ready is not None:
                    self._waits.observe(READY_TO_EVICTED, (("cluster_queue", queue), *_why(one)), ready)

    def _count_eviction(self, workload: QueuedWorkload, queue: str, one: EvictionCount) -> None:
        for prefix, labels in self._both(workload, queue):
            said = tuple(sorted((*labels, *_why(one))))
            self._counted[f"{prefix}evicted_workloads_total", said] += 1
            if one.count == 1 and prefix == "kueue_":
                self._counted["kueue_evicted_workloads_once_total", said] += 1

    def _both(self, workload: QueuedWorkload, queue: str) -> Iterator[tuple[str, Labels]]:
        """How metrics of its cluster queue begin, and of its local queue, with their labels."""
        by_class = ("priority_class", _class(workload))
        yield "kueue_", (("cluster_queue", queue), by_class)
        space, local = workload.key.namespace, workload.queue
        if self._tells_of(Key(Kind.LOCAL_QUEUE, space, local)):
            yield "kueue_local_queue_", (("name", local), ("namespace", space), by_class)

    def _add(self, metric: str, **labels: str) -> None:
        self._counted[metric, tuple(sorted(labels.items()))] += 1


def _naming(key: Key) -> Iterator[Mapping[str, str]]:
    """The labels by which metrics name a queue or cohort."""
    match key.kind:
        case Kind.CLUSTER_QUEUE:
            yield from ({"cluster_queue": key.name}, {"preempting_cluster_queue": key.name})
        case Kind.COHORT:
            yield {"cohort": key.name}
        case Kind.LOCAL_QUEUE:
            yield {"name": key.name, "namespace": key.namespace}


def _why(one: EvictionCount) -> Labels:
    return (("reason", one.reason), ("underlying_cause", one.cause))


def _class(workload: QueuedWorkload) -> str:
    return workload.priority_class.name if workload.priority_class is not None else ""
