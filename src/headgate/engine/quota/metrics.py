"""Counters and histograms of admission, by Kueue's names.

Waits are measured when a condition turns true between two observations of one object. What is first observed with the
condition true, as after a restart, ended earlier and is not counted again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from headgate.engine.metrics import Bounds, Distributions, Histogram, Labels, Number
from headgate.engine.quota.workload_records import WorkloadRecord
from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    EVICTED,
    FINISHED,
    PODS_READY,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    reason_of,
    true_since,
)
from headgate.model.keys import Condition, Key, Kind
from headgate.model.queues import GATE_SIGNALS, EvictionCount, QueuedWorkload

STARTED = "Started"  # the reason of PodsReady the first time; pods that recovered are no news
BLOCKED_ON_GATES, PREEMPTION_BLOCKED = GATE_SIGNALS

Came = Mapping[str, Condition]
"""Conditions that have turned true, by type."""


def _doubling(count: int) -> Bounds:
    return (1.0, *(2.5 * 2**n for n in range(count - 1)))


RESERVED_WAIT = "quota_reserved_wait_time_seconds"
ADMISSION_WAIT = "admission_wait_time_seconds"
CHECKS_WAIT = "admission_checks_wait_time_seconds"
READY_WAIT = "ready_wait_time_seconds"
ADMITTED_UNTIL_READY = "admitted_until_ready_wait_time_seconds"
EXECUTION = "execution_time_seconds"
READY_TO_EVICTED = "kueue_pods_ready_to_evicted_time_seconds"
EVICTION_LATENCY = "kueue_workload_eviction_latency_seconds"

OF_QUEUES: Mapping[str, Bounds] = {
    RESERVED_WAIT: _doubling(14),
    ADMISSION_WAIT: _doubling(16),
    CHECKS_WAIT: _doubling(14),
    READY_WAIT: _doubling(14),
    ADMITTED_UNTIL_READY: _doubling(14),
    EXECUTION: _doubling(16),
}
"""Reported for ClusterQueues and LocalQueues."""

BOUNDS: Mapping[str, Bounds] = {
    **{f"kueue_{name}": bounds for name, bounds in OF_QUEUES.items()},
    **{f"kueue_local_queue_{name}": bounds for name, bounds in OF_QUEUES.items()},
    f"kueue_local_queue_{ADMISSION_WAIT}": _doubling(14),
    READY_TO_EVICTED: _doubling(14),
    EVICTION_LATENCY: _doubling(14),
}


def waits_over(after: QueuedWorkload, came: Came, now: float) -> list[tuple[str, float]]:
    """The waits that ended, by metric, in seconds."""
    over: list[tuple[str, float]] = []
    reserved, admitted, ready = QUOTA_RESERVED in came, ADMITTED in came, came.get(PODS_READY)
    if reserved or admitted:
        waited = now - queued_since(after)
        if reserved:
            over.append((RESERVED_WAIT, waited))
        if admitted:
            over.append((ADMISSION_WAIT, waited))
            if after.status.checks or not reserved:
                over.append((CHECKS_WAIT, 0.0 if reserved else now - _since(after, QUOTA_RESERVED, now)))
    if ready is not None and ready.reason == STARTED:
        over.append((READY_WAIT, now - queued_since(after)))
        over.append((ADMITTED_UNTIL_READY, ready.at - _since(after, ADMITTED, ready.at)))
    if FINISHED in came:
        running = now - _since(after, ADMITTED, now)
        over.append((EXECUTION, after.status.past_execution_seconds + max(0.0, running)))
    return over


def ready_until_evicted(before: QueuedWorkload, after: QueuedWorkload) -> float | None:
    """Seconds from PodsReady to Evicted; None when it was not ready or not evicted."""
    ready, evicted = true_since(before, PODS_READY), true_since(after, EVICTED)
    return None if ready is None or evicted is None else evicted - ready


def evicted_until_released(released: QueuedWorkload, now: float) -> float | None:
    """Seconds from Evicted to the release of quota; None when it was not evicted."""
    since = true_since(released, EVICTED)
    return None if since is None or released.is_true(FINISHED) else now - since


def queued_since(workload: QueuedWorkload) -> float:
    """When it was created, or last requeued."""
    again = workload.condition(REQUEUED)
    return workload.created if again is None else again.at


def _since(workload: QueuedWorkload, type_: str, otherwise: float) -> float:
    since = true_since(workload, type_)
    return otherwise if since is None else since


SUCCESS: Labels = (("result", "success"),)
FAILURE: Labels = (("result", "inadmissible"),)
TURNS = {QUOTA_RESERVED: "quota_reserved", ADMITTED: "admitted", FINISHED: "finished"}
"""Conditions that are counted when they turn true, and the metric's name."""

OF_CLUSTER_QUEUE, OF_LOCAL_QUEUE = "kueue_", "kueue_local_queue_"
"""Prefixes of the metrics."""


class _OriginMetrics:
    """Counts of one origin: conditions that turned true, waits, and evictions by reason."""

    __slots__ = ("evictions", "turns", "waits")

    def __init__(self) -> None:
        self.turns: dict[str, int] = {}
        self.waits: dict[str, Histogram] = {}
        self.evictions: dict[tuple[Labels, bool], int] = {}  # why, and whether for the first time

    def add(self, came: Came, waits: Iterable[tuple[str, float]]) -> None:
        turns, spreads = self.turns, self.waits
        for type_ in came:
            if type_ in TURNS:
                turns[type_] = turns.get(type_, 0) + 1
        for name, seconds in waits:
            spread = spreads.get(name)
            if spread is None:
                spread = spreads[name] = Histogram(OF_QUEUES[name])
            spread.add(seconds)

    def evict(self, one: EvictionCount) -> None:
        how = _why(one), one.count == 1
        self.evictions[how] = self.evictions.get(how, 0) + 1


_Origin = tuple[str, str, str, str]
"""ClusterQueue, priority class, namespace and LocalQueue."""


class AdmissionMetrics:
    """Counts what is observed, whoever wrote it, once each time it happens.

    `reports_on` says whether a LocalQueue has metrics; `cohorts_above` names the cohorts of a ClusterQueue. Counts are
    kept by origin, and added to the series of queues and cohorts when they are collected, or before these change.
    """

    def __init__(self, reports_on: Callable[[Key], bool], cohorts_above: Callable[[str], Iterable[str]]) -> None:
        self._reports_on = reports_on
        self._cohorts_above = cohorts_above
        self._counted: Counter[tuple[str, Labels]] = Counter()
        self._waits = Distributions(BOUNDS)
        self._unattributed: dict[_Origin, _OriginMetrics] = {}
        self._skips: dict[str, int] = {}  # of preemption, in the last cycle the queue was in

    # what is decided

    def attempt(self, queues: Iterable[str], *, success: bool) -> None:
        """One cycle, with the heads of these queues."""
        self._counted["kueue_admission_attempts_total", SUCCESS if success else FAILURE] += 1
        if self._skips:
            self._skips.update((queue, 0) for queue in queues if queue in self._skips)

    def skipped_preemption(self, queue: str) -> None:
        self._skips[queue] = self._skips.get(queue, 0) + 1

    def withheld_preemption(self, queue: str) -> None:
        """A preemption was withheld: it would have led back to an earlier allocation."""
        self._add("headgate_withheld_preemptions_total", cluster_queue=queue)

    def recomputed(self, queue: str, result: str) -> None:
        """A head was decided anew because its victims were already another's."""
        self._add("kueue_preemption_target_recomputations_total", cluster_queue=queue, result=result)

    # what is observed

    def observe(self, record: WorkloadRecord, after: QueuedWorkload, queue: str, now: float) -> None:
        """The workload has changed; `queue` is the one it has quota of, or had before, or would get it from."""
        before = record.observed
        was, had_quota = before.status.conditions, before.status.admission is not None
        if was != after.status.conditions:
            came: dict[str, Condition] = {}
            for one in after.status.conditions:
                if one.status == "True" and one not in was and not before.is_true(one.type):
                    came[one.type] = one
            if came:
                self._counts_of(after, queue).add(came, waits_over(after, came, now))
                if (BLOCKED_ON_GATES in came or PREEMPTION_BLOCKED in came) and _is_newly_gated(before, after):
                    self._add("headgate_gated_preemptions_total", cluster_queue=queue)
                if PREEMPTED in came:
                    self._preempted(record, came[PREEMPTED].reason)
            if had_quota and not after.is_true(QUOTA_RESERVED) and before.is_true(QUOTA_RESERVED):
                self._released(after, queue, now)
        if had_quota and before.status.evictions != after.status.evictions:
            self._evicted(before, after, queue)

    def forget(self, key: Key) -> None:
        """A queue or cohort was deleted: its series are dropped."""
        self.sum_up()
        for labels in _naming(key):
            for at in [at for at in self._counted if labels.items() <= dict(at[1]).items()]:
                del self._counted[at]
            self._waits.forget(labels)
        if key.kind is Kind.CLUSTER_QUEUE:
            self._skips.pop(key.name, None)

    def sum_up(self) -> None:
        """Adds all counts to the series of the queues and cohorts they belong to now, before these change."""
        unattributed, self._unattributed = self._unattributed, {}
        for (queue, class_, space, local), counts in unattributed.items():
            self._add_to_series(OF_CLUSTER_QUEUE, _of_queue(queue, class_), counts)
            if self._reports_on(Key(Kind.LOCAL_QUEUE, space, local)):
                self._add_to_series(OF_LOCAL_QUEUE, _of_local(space, local, class_), counts)
            admitted = counts.turns.get(ADMITTED, 0)
            for name in self._cohorts_above(queue) if admitted else ():
                self._counted["kueue_cohort_subtree_admitted_workloads_total", _of_cohort(name, class_)] += admitted

    def collect(self) -> Iterator[Number]:
        self.sum_up()
        yield from ((name, labels, count) for (name, labels), count in self._counted.items())
        yield from self._waits
        for queue, count in self._skips.items():
            yield "kueue_admission_cycle_preemption_skips", (("cluster_queue", queue),), count

    def _add_to_series(self, prefix: str, labels: Labels, counts: _OriginMetrics) -> None:
        counted = self._counted
        for type_, count in counts.turns.items():
            counted[f"{prefix}{TURNS[type_]}_workloads_total", labels] += count
        for name, spread in counts.waits.items():
            self._waits.take_in(f"{prefix}{name}", labels, spread)
        for (why, is_first), count in counts.evictions.items():
            counted[f"{prefix}evicted_workloads_total", (*labels, *why)] += count
            if is_first and prefix == OF_CLUSTER_QUEUE:
                counted[f"{prefix}evicted_workloads_once_total", (*labels, *why)] += count

    def _preempted(self, record: WorkloadRecord, reason: str) -> None:
        by_queue, record.preempted_for = record.preempted_for, ""
        if by_queue:
            self._add("kueue_preempted_workloads_total", preempting_cluster_queue=by_queue, reason=reason)

    def _released(self, workload: QueuedWorkload, queue: str, now: float) -> None:
        took = evicted_until_released(workload, now)
        if took is not None:
            labels = (("cluster_queue", queue), ("reason", reason_of(workload, EVICTED)))
            self._waits.observe(EVICTION_LATENCY, labels, took)

    def _evicted(self, before: QueuedWorkload, after: QueuedWorkload, queue: str) -> None:
        times = {(one.reason, one.cause): one.count for one in before.status.evictions}
        for one in after.status.evictions:
            known = times.get((one.reason, one.cause), 0)
            if one.count > known:
                self._counts_of(after, queue).evict(one)
                ready = ready_until_evicted(before, after)
                if ready is not None:
                    self._waits.observe(READY_TO_EVICTED, (("cluster_queue", queue), *_why(one)), ready)

    def _counts_of(self, workload: QueuedWorkload, queue: str) -> _OriginMetrics:
        named = workload.priority_class
        origin = queue, named.name if named is not None else "", workload.key.namespace, workload.queue
        counts = self._unattributed.get(origin)
        if counts is None:
            counts = self._unattributed[origin] = _OriginMetrics()
        return counts

    def _add(self, metric: str, **labels: str) -> None:
        self._counted[metric, tuple(sorted(labels.items()))] += 1


def _is_newly_gated(before: QueuedWorkload, after: QueuedWorkload) -> bool:
    return after.gated_since is not None and before.gated_since is None


def _naming(key: Key) -> Iterator[Mapping[str, str]]:
    """The labels by which metrics name a queue or cohort."""
    match key.kind:
        case Kind.CLUSTER_QUEUE:
            yield from ({"cluster_queue": key.name}, {"preempting_cluster_queue": key.name})
        case Kind.COHORT:
            yield {"cohort": key.name}
        case Kind.LOCAL_QUEUE:
            yield {"name": key.name, "namespace": key.namespace}


def _of_queue(name: str, class_: str) -> Labels:
    return (("cluster_queue", name), ("priority_class", class_))


def _of_local(namespace: str, name: str, class_: str) -> Labels:
    return (("name", name), ("namespace", namespace), ("priority_class", class_))


def _of_cohort(name: str, class_: str) -> Labels:
    return (("cohort", name), ("priority_class", class_))


def _why(one: EvictionCount) -> Labels:
    return (("reason", one.reason), ("underlying_cause", one.cause))
