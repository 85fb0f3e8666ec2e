"""What is counted about quota, by Kueue's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headgate.engine.quota.surroundings import QuotaSurroundings
from headgate.engine.quota.tally import Tally
from headgate.lifecycle.quota_conditions import ADMITTED, FINISHED, QUOTA_RESERVED
from headgate.model.queues import QueuedWorkload
from headgate.quota.ledger import Ledger
from headgate.quota.queues import PendingQueues
from headgate.quota.shares import share_of

Labels = tuple[tuple[str, str], ...]
Number = tuple[str, Labels, int]
TURNS = {QUOTA_RESERVED: "quota_reserved", ADMITTED: "admitted", FINISHED: "finished"}
"""Conditions that are counted when they turn true, and under what name."""


class QuotaCounts:
    """Counters that only grow."""

    def __init__(self) -> None:
        self._counted: Counter[tuple[str, Labels]] = Counter()

    def attempt(self, result: str) -> None:
        self._add("kueue_admission_attempts_total", result=result)

    def skipped_preemption(self, queue: str) -> None:
        self._add("kueue_admission_cycle_preemption_skips", cluster_queue=queue)

    def seen(self, before: QueuedWorkload, after: QueuedWorkload, queue: str) -> None:
        """The workload has changed. Counted is what has come about, whoever wrote it."""
        labels = {"cluster_queue": queue, "priority_class": _class(after)}
        for type_, what in TURNS.items():
            if after.is_true(type_) and not before.is_true(type_):
                self._add(f"kueue_{what}_workloads_total", **labels)
                self._local(what, after)
        known = {(one.reason, one.cause): one.count for one in before.evictions}
        for one in after.evictions:
            if one.count > known.get((one.reason, one.cause), 0):
                self._add("kueue_evicted_workloads_total", **labels, reason=one.reason, underlying_cause=one.cause)

    def preempted(self, by_queue: str, reason: str) -> None:
        self._add("kueue_preempted_workloads_total", preempting_cluster_queue=by_queue, reason=reason)

    def numbers(self) -> Iterator[Number]:
        return ((name, labels, count) for (name, labels), count in self._counted.items())

    def _local(self, what: str, workload: QueuedWorkload) -> None:
        labels = {"name": workload.queue, "namespace": workload.key.namespace, "priority_class": _class(workload)}
        self._add(f"kueue_local_queue_{what}_workloads_total", **labels)

    def _add(self, metric: str, **labels: str) -> None:
        self._counted[metric, tuple(sorted(labels.items()))] += 1


def gauges(
    surroundings: QuotaSurroundings, tally: Tally, pending: PendingQueues, ledger: Ledger, is_fair: bool
) -> Iterator[Number]:
    """What can be measured now."""
    for name, queue in surroundings.queues.items():
        labels = (("cluster_queue", name),)
        count, waiting = tally.queue(name), pending.of(name)
        if waiting is not None:
            yield "kueue_pending_workloads", (*labels, ("status", "active")), waiting.active
            yield "kueue_pending_workloads", (*labels, ("status", "inadmissible")), waiting.inadmissible
        yield "kueue_reserving_active_workloads", labels, count.reserving
        yield "kueue_admitted_active_workloads", labels, count.admitted
        shown = _status(surroundings.activity(queue).reason)
        for status in ("active", "pending", "terminating"):
            yield "kueue_cluster_queue_status", (*labels, ("status", status)), int(status == shown)
        node = ledger.node(name)
        if is_fair and node is not None:
            yield "kueue_cluster_queue_weighted_share", (*labels, ("cohort", queue.cohort)), share_of(node).rounded
    for key in surroundings.locals:
        local, at = tally.local(key), (("name", key.name), ("namespace", key.namespace))
        yield "kueue_local_queue_pending_workloads", at, local.pending
        yield "kueue_local_queue_reserving_active_workloads", at, local.reserving
        yield "kueue_local_queue_admitted_active_workloads", at, local.admitted


def _status(reason: str) -> str:
    return {"Ready": "active", "Terminating": "terminating"}.get(reason, "pending")


def _class(workload: QueuedWorkload) -> str:
    return workload.priority_class.name if workload.priority_class is not None else ""
