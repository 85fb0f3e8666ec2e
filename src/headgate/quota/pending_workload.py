"""A pending workload: whether it may queue, its rank, its equivalence class, and the flavors it has tried."""

from __future__ import annotations

from collections.abc import Hashable

from msgspec import Struct

from headgate.model.keys import Key
from headgate.model.queues import CheckState, QueuedWorkload
from headgate.model.settings import QuotaSettings, RequeueTime
from headgate.quota.requests import NO_ADJUSTMENTS, Adjustments, PodSetRequests, pod_set_requests_of, problem_of

FROM_THE_START = -1
"""The index that says all flavors were tried."""


Tried = tuple[tuple[tuple[str, int], ...], ...]
"""For each pod set, the last flavor tried by resource."""


class Progress(Struct, frozen=True, gc=False):
    """The flavors tried, and what this was found out under. `earlier`: how far it had got before, in the same state.

    With `missed`, flavors that were left out because they had been tried may do by now.
    """

    tried: Tried
    generation: int
    cycle: int
    kind: Hashable
    earlier: tuple[Tried, ...] = ()
    missed: bool = False

    @property
    def has_more(self) -> bool:
        """Some flavor was not tried yet, and this was not the result before."""
        for pod_set in self.tried:
            for _, index in pod_set:
                if index != FROM_THE_START:
                    return self.tried not in self.earlier
        return False

    @property
    def forgotten(self) -> Progress:
        """For a search from the start, which still does not go in circles."""
        return Progress((), self.generation, self.cycle, self.kind, (*self.earlier, self.tried))

    def next_flavor(self, pod_set: int, resource: str) -> int:
        if pod_set >= len(self.tried):
            return 0
        return dict(self.tried[pod_set]).get(resource, FROM_THE_START) + 1

    def holds(self, generation: int, cycle: int, kind: Hashable) -> bool:
        """What was found out still counts: nothing changed since, or it was just now and for the same demand."""
        return generation <= self.generation or (self.cycle >= cycle - 1 and self.kind == kind)


Rank = tuple[int, float, str]
"""Higher priority first, then the earlier, then by uid."""


class EquivalenceClass(Struct, frozen=True, gc=False, cache_hash=True):
    """Workloads of one equivalence class get the same answer, so one of them is evaluated for all.

    A preemption gate is closed for all of a class that is `gated`.
    """

    priority: int
    pod_set_requests: tuple[PodSetRequests, ...]
    gated: bool = False


class WorkloadRequests(Struct, frozen=True, weakref=True):
    """What equal workloads request. `problem` says why they can never be admitted, where that is so."""

    kind: EquivalenceClass
    problem: str = ""


class PendingWorkload(Struct, frozen=True, gc=False):
    """A workload that waits for quota of a ClusterQueue.

    `progress` says which flavors it has tried. `problem` says why it can never be admitted as it is, where that is so.
    Victims were or are being evicted for one that `is_preemptor`; nothing changed from outside since they were chosen
    while its `claim_stands`.
    """

    workload: QueuedWorkload
    queue: str
    kind: EquivalenceClass
    ordered: float
    rank: Rank
    progress: Progress | None = None
    problem: str = ""
    is_preemptor: bool = False
    claim_stands: bool = False

    @property
    def key(self) -> Key:
        return self.workload.key

    @property
    def priority(self) -> int:
        return self.kind.priority

    @property
    def pod_set_requests(self) -> tuple[PodSetRequests, ...]:
        return self.kind.pod_set_requests


def requests_of_workload(
    workload: QueuedWorkload, settings: QuotaSettings, adjustments: Adjustments
) -> WorkloadRequests:
    requests, gated = pod_set_requests_of(workload, settings, adjustments), settings.preemption_gates
    kind = EquivalenceClass(workload.effective_priority, requests, gated and workload.has_closed_gate)
    return WorkloadRequests(kind, problem_of(workload.pod_sets, adjustments))


def pending_workload(
    workload: QueuedWorkload, queue: str, settings: QuotaSettings, adjustments: Adjustments = NO_ADJUSTMENTS
) -> PendingWorkload:
    return with_requests(
        workload, queue, requests_of_workload(workload, settings, adjustments), ordered_at(workload, settings)
    )


def with_requests(workload: QueuedWorkload, queue: str, requests: WorkloadRequests, ordered: float) -> PendingWorkload:
    """The pending workload, with its requests and queueing time known already."""
    kind = requests.kind
    rank = -kind.priority, ordered, workload.uid
    return PendingWorkload(workload, queue, kind, ordered, rank, None, requests.problem)


_SETTLED = frozenset({"Finished", "QuotaReserved", "WaitingForReplacementPods"})
"""Conditions that keep a workload out of the queue while they are true."""


def may_queue(workload: QueuedWorkload) -> bool:
    """Nothing about the workload itself keeps it out of its queue."""
    if not workload.active or workload.gated_by:
        return False
    for condition in workload.status.conditions:
        if condition.status == "True":
            if condition.type in _SETTLED:
                return False
        elif condition.reason == "OnHold" and workload.is_on_hold:
            return False
    return not workload.unsupported


def has_rested(workload: QueuedWorkload, now: float) -> bool:
    """Its back-off is over: Requeued is not False, and requeueAt has passed."""
    requeued = workload.condition("Requeued")
    if requeued is not None and requeued.status == "False":
        return False
    return workload.status.requeue is None or workload.status.requeue.at is None or workload.status.requeue.at <= now


def ordered_at(workload: QueuedWorkload, settings: QuotaSettings) -> float:
    """The time it is ordered by: its creation, or its eviction by a failed check or a PodsReady timeout."""
    evicted = workload.condition("Evicted")
    if evicted is None or evicted.status != "True":
        return workload.created
    if evicted.reason == "PodsReadyTimeout" and settings.requeue_time is RequeueTime.EVICTION:
        return evicted.at
    return evicted.at if evicted.reason == "AdmissionCheck" else workload.created


def tells_of_gates(workload: QueuedWorkload) -> bool:
    """Its status says that a closed gate keeps it from preempting, or what that would cost."""
    return workload.status.proposal is not None or workload.gated_since is not None


def has_failed_checks(workload: QueuedWorkload) -> bool:
    return any(check.state in (CheckState.RETRY, CheckState.REJECTED) for check in workload.status.checks)


def differs(old: QueuedWorkload, new: QueuedWorkload) -> bool:
    """Something changed that could change the answer a waiting workload got."""
    return (
        old.generation != new.generation
        or old.uid != new.uid
        or old.pod_sets != new.pod_sets
        or old.queue != new.queue
        or old.effective_priority != new.effective_priority
        or old.status.reclaimable != new.status.reclaimable
        or old.preemption_gates != new.preemption_gates
        or old.has_closed_gate is not new.has_closed_gate
        or (old.status.proposal is not None and new.status.proposal is None)
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
        or old.unsupported != new.unsupported
        or old.effective_priority != new.effective_priority
        or (old.deleted is None) is not (new.deleted is None)
        or old.is_true("Finished") is not new.is_true("Finished")
        or old.is_on_hold is not new.is_on_hold
        or _more_is_reclaimable(old, new)
    )


def _more_is_reclaimable(old: QueuedWorkload, new: QueuedWorkload) -> bool:
    """Some more pods are done for good. A workload that starts all over after its eviction may take that back."""
    if old.status.reclaimable == new.status.reclaimable:
        return False
    before = dict(old.status.reclaimable)
    return any(count > before.get(name, 0) for name, count in new.status.reclaimable)
