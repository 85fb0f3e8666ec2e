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


class Wish(Struct, frozen=True, gc=False):
    """What all workloads that look alike apply for. `problem` says why they can never be admitted, where that is so."""

    kind: EquivalenceClass
    problem: str = ""


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


def wish_of(workload: QueuedWorkload, settings: QuotaSettings, around: Adjustments) -> Wish:
    kind = EquivalenceClass(workload.effective_priority, asks_of(workload, settings, around))
    return Wish(kind, problem_of(workload.pod_sets, around))


def applicant(
    workload: QueuedWorkload, queue: str, settings: QuotaSettings, around: Adjustments = NO_ADJUSTMENTS
) -> Applicant:
    return applying(workload, queue, wish_of(workload, settings, around), ordered_at(workload, settings))


def applying(workload: QueuedWorkload, queue: str, wish: Wish, ordered: float) -> Applicant:
    """The workload, of which it is known already what it wishes for, and its place by time."""
    kind = wish.kind
    rank = -kind.priority, ordered, workload.uid
    return Applicant(workload, queue, kind, ordered, rank, None, wish.problem)


_SETTLED = frozenset({"Finished", "QuotaReserved", "WaitingForReplacementPods"})
"""Conditions that keep a workload from applying as long as they are true."""


def may_queue(workload: QueuedWorkload) -> bool:
    """Nothing about the workload itself keeps it from applying."""
    if not workload.active or workload.gated_by:
        return False
    for condition in workload.conditions:
        if condition.status == "True":
            if condition.type in _SETTLED:
                return False
        elif condition.reason == "OnHold" and workload.is_on_hold:
            return False
    return True


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
    return any(check.state in (CheckState.RETRY, CheckState.REJECTED) for check in workload.checks)


def differs(old: QueuedWorkload, new: QueuedWorkload) -> bool:
    """Something changed that could change the answer a waiting workload got."""
    return (
        old.generation != new.generation
        or old.uid != new.uid
        or old.pod_sets != new.pod_sets
        or old.queue != new.queue
        or old.effective_priority != new.effective_priority
        or old.reclaimable != new.reclaimable
        or old.preemption_gates != new.preemption_gates
        or old.has_closed_gate is not new.has_closed_gate
        or old.condition("Evicted") != new.condition("Evicted")
        or old.condition("Requeued") != new.condition("Requeued")
    )


def changed_from_outside(old: QueuedWorkload, new: QueuedWorkload) -> bool:
    """Something changed that admission and preemption do not cause, and that may change what is decided about others.

    States of admission checks and readiness of pods follow from admission, and are none of this.
    """
    return (
        old.generation != new.generation
        or old.queue != new.queue
        or old.pod_sets != new.pod_sets
        or old.active is not new.active
        or old.gated_by != new.gated_by
        or old.effective_priority != new.effective_priority
        or (old.deleted is None) is not (new.deleted is None)
        or old.is_true("Finished") is not new.is_true("Finished")
        or old.is_on_hold is not new.is_on_hold
        or _more_is_reclaimable(old, new)
    )


def _more_is_reclaimable(old: QueuedWorkload, new: QueuedWorkload) -> bool:
    """Some more pods are done for good. A workload that starts all over after its eviction may take that back."""
    if old.reclaimable == new.reclaimable:
        return False
    before = dict(old.reclaimable)
    return any(count > before.get(name, 0) for name, count in new.reclaimable)
