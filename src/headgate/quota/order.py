"""Which workloads may queue, in which order, and which are as good as equal."""

from __future__ import annotations

from msgspec import Struct

from headgate.model.keys import Key
from headgate.model.queues import CheckState, QueuedWorkload
from headgate.model.quota_settings import QuotaSettings, RequeueTime
from headgate.quota.adjusting import NO_ADJUSTMENTS, Adjustments, problem_of
from headgate.quota.progress import Progress
from headgate.quota.requests import Ask, asks_of

Rank = tuple[int, float, str]
"""Higher priority first, then the earlier, then by uid."""


class EquivalenceClass(Struct, frozen=True, gc=False, cache_hash=True):
    """Workloads of one class get the same answer, so one of them asks for all."""

    priority: int
    asks: tuple[Ask, ...]


class Applicant(Struct, frozen=True, gc=False):
    """A workload that applies for admission to a cluster queue.

    `progress` says which flavors it has tried. `problem` says why it can never be admitted as it is, where that is so.
    Victims have left, or are about to leave, for one that `is_preemptor`.
    """

    workload: QueuedWorkload
    queue: str
    kind: EquivalenceClass
    ordered: float
    rank: Rank
    progress: Progress | None = None
    problem: str = ""
    is_preemptor: bool = False

    @property
    def key(self) -> Key:
        return self.workload.key

    @property
    def priority(self) -> int:
        return self.kind.priority

    @property
    def asks(self) -> tuple[Ask, ...]:
        return self.kind.asks


def applicant(
    workload: QueuedWorkload, queue: str, settings: QuotaSettings, around: Adjustments = NO_ADJUSTMENTS
) -> Applicant:
    kind = EquivalenceClass(workload.effective_priority, asks_of(workload, settings, around))
    problem = problem_of(workload.pod_sets, around)
    ordered = ordered_at(workload, settings)
    return Applicant(workload, queue, kind, ordered, (-kind.priority, ordered, workload.uid), problem=problem)


def may_queue(workload: QueuedWorkload) -> bool:
    """Nothing about the workload itself keeps it from applying."""
    held_back = workload.is_on_hold or workload.is_true("WaitingForReplacementPods")
    settled = workload.is_true("Finished") or workload.is_true("QuotaReserved")
    return workload.active and not workload.gated_by and not held_back and not settled


def has_rested(workload: QueuedWorkload, now: float) -> bool:
    """Its backoff is over: nobody says it is not requeued, and its time has come."""
    requeued = workload.condition("Requeued")
    if requeued is not None and requeued.status == "False":
        return False
    return workload.requeue is None or workload.requeue.at is None or workload.requeue.at <= now


def ordered_at(workload: QueuedWorkload, settings: QuotaSettings) -> float:
    """Its place by time: when it was created, or when it was sent back by something it can do nothing about."""
    evicted = workload.condition("Evicted")
    if evicted is None or evicted.status != "True":
        return workload.created
    if evicted.reason == "PodsReadyTimeout" and settings.requeue_time is RequeueTime.EVICTION:
        return evicted.at
    return evicted.at if evicted.reason == "AdmissionCheck" else workload.created


def has_failed_checks(workload: QueuedWorkload) -> bool:
    if not workload.checks:
        return False
    return any(check.state in (CheckState.RETRY, CheckState.REJECTED) for check in workload.checks)


def differs(old: QueuedWorkload, new: QueuedWorkload) -> bool:
    """Something changed that could change the answer a waiting workload got."""
    return _matters(old) != _matters(new)


def _matters(workload: QueuedWorkload) -> tuple[object, ...]:
    return (
        workload.uid,
        workload.generation,
        workload.pod_sets,
        workload.queue,
        workload.effective_priority,
        workload.preemption_gates,
        workload.has_closed_gate,
        workload.reclaimable,
        workload.condition("Evicted"),
        workload.condition("Requeued"),
    )
