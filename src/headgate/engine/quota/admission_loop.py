"""The admission loop: runs admission cycles, and turns their outcomes into writes, journal entries and events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import assert_never

from msgspec import Struct, structs

from headgate.engine.journal import Journal
from headgate.engine.quota import events
from headgate.engine.quota.admission_cycle import (
    AdmissionCycle,
    Admitted,
    Deferred,
    Gated,
    Outcome,
    Preempting,
    QuotaSnapshot,
    Waits,
    admit_all,
    reservation_for,
    settle_refusal,
)
from headgate.engine.quota.cache import QuotaCache
from headgate.engine.quota.metrics import AdmissionMetrics
from headgate.engine.quota.object_cache import QuotaObjectCache
from headgate.engine.quota.workload_records import Refusal, WorkloadRecord, WorkloadRecords
from headgate.lifecycle.workload.admission import IS_GATED, refused, reserved
from headgate.lifecycle.workload.checks import required_checks
from headgate.lifecycle.workload.conditions import (
    DEACTIVATED,
    EVICTED,
    QUOTA_RESERVED,
    ConditionUpdate,
    no_longer_gated,
    shows,
)
from headgate.lifecycle.workload.eviction import preempted
from headgate.model.keys import Key
from headgate.model.queues import QueuedWorkload
from headgate.model.quota_settings import QuotaSettings
from headgate.model.resources import Resources
from headgate.preemption.quota.search import Victim
from headgate.quota import messages
from headgate.quota.flavors import Assignment, admission
from headgate.quota.ledger import Ledger
from headgate.quota.pending_queue import Unreserved
from headgate.quota.pending_queues import PendingQueues
from headgate.quota.pending_workload import PendingWorkload
from headgate.quota.requests import pod_set_requests_of
from headgate.quota.tree import Usage

_RECOMPUTED: Mapping[type[Outcome], str] = {
    Deferred: "DeferredFit",
    Preempting: "NewTargets",
    Gated: "NewTargets",
    Waits: "Skipped",
}
"""The result label of outcomes that were decided anew because their victims were already another's."""

BETTER_TOLD = frozenset({Unreserved.PENDING.value, Unreserved.SUSPENDED.value, DEACTIVATED})
"""Reasons of QuotaReserved=False that say nothing about quota, and give way to one that does."""


class AssumedReservation(Struct, frozen=True, gc=False):
    """Quota reserved in this step, assumed until it is observed."""

    key: Key
    queue: str
    usage: Usage


class AdmissionLoop:
    """Runs cycles on the quota cache; each outcome is assumed at once and written by the workload records."""

    def __init__(
        self,
        settings: QuotaSettings,
        cycle: AdmissionCycle,
        *,
        objects: QuotaObjectCache,
        cache: QuotaCache,
        records: WorkloadRecords,
        metrics: AdmissionMetrics,
        journal: Journal,
        evicted: Callable[[Key], None],
    ) -> None:
        """Evicted workloads are passed to `evicted`."""
        self._settings = settings
        self._cycle = cycle
        self._objects = objects
        self._cache = cache
        self._records = records
        self._metrics = metrics
        self._journal = journal
        self._evicted = evicted
        self.assumed: dict[Key, AssumedReservation] = {}

    def run(self, now: float) -> None:
        """Runs cycles until no head could get another answer."""
        self.assumed = {}
        cache, objects = self._cache, self._objects
        all_ready = not cache.usage.waiting_for_pods
        snapshot = QuotaSnapshot(cache.ledger, objects.flavors, objects.may_enter, objects.inactive, all_ready)
        for outcomes in admit_all(
            cache.pending, snapshot, self._settings, now, attempt=self._cycle.outcomes, settle=self._settle
        ):
            self._count(outcomes)

    def _count(self, outcomes: Sequence[Outcome]) -> None:
        others = [outcome for outcome in outcomes if not isinstance(outcome, Admitted)]
        self._metrics.attempt([outcome.head.queue for outcome in outcomes], success=len(others) < len(outcomes))
        for outcome in others:
            if isinstance(outcome, Waits) and outcome.skipped_preemption:
                self._metrics.skipped_preemption(outcome.head.queue)
            if isinstance(outcome, Waits) and outcome.withheld:
                self._metrics.withheld_preemption(outcome.head.queue)
            if outcome.recomputed:
                self._metrics.recomputed(outcome.head.queue, _RECOMPUTED[type(outcome)])

    def report_refusals(self, now: float) -> None:
        """Writes QuotaReserved=False with its reason to workloads that do not show it yet, within the rate limit."""
        for record, refusal in self._records.take_refusals(now):
            if record.key not in self._cache.pending or _shows(record.decided, refusal):
                continue
            workload, requests = record.decided, self._requests_shown(record.decided)
            status = refused(workload, refusal.reason, refusal.message, requests, now, *refusal.also)
            self._records.want(record, status, partial(events.refused_event, workload, refusal, now))

    def report_bypassed(self, record: WorkloadRecord, now: float) -> None:
        """Reports a workload that is not evaluated because another of its class was refused since the last change."""
        shown = record.decided.condition(QUOTA_RESERVED)
        if shown is None or shown.reason not in BETTER_TOLD:
            return
        found = self._cache.pending.passed_over(record.decided.key)
        if found is not None:
            head, why = found
            self._refuse(head, record, Refusal(why.value, messages.PASSED_OVER), now)

    def _settle(self, outcome: Outcome, pending: PendingQueues, ledger: Ledger, now: float) -> None:
        """Applies the outcome to the quota cache, and decides what is written, journaled and emitted."""
        record = self._records.get(outcome.head.workload.key)
        assert record is not None, f"{outcome.head.workload.key} waits and is not known"
        if isinstance(outcome, Admitted):
            self._reserve(outcome.head, record, outcome.assignment, now)
            return
        settle_refusal(outcome, pending, ledger, now)
        if isinstance(outcome, Waits):
            refusal = Refusal(outcome.reason.value, outcome.message)
        elif isinstance(outcome, Preempting):
            self._preempt(outcome.head, outcome.victims, now)
            refusal = Refusal(Unreserved.PREEMPTING.value, outcome.message)
        elif isinstance(outcome, Deferred):
            refusal = Refusal(Unreserved.PREEMPTING.value, outcome.message)
        elif isinstance(outcome, Gated):
            refusal = Refusal(Unreserved.GATED.value, outcome.message, IS_GATED)
        else:
            assert_never(outcome)
        self._refuse(outcome.head, record, refusal, now)

    def _reserve(self, head: PendingWorkload, record: WorkloadRecord, assignment: Assignment, now: float) -> None:
        key, queue = record.key, self._objects.queues[head.queue]
        given, workload = admission(head.queue, assignment.pod_sets), record.decided
        status = reserved(workload, given, required_checks(queue, given), now)
        self._journal.write(events.reserved(workload, status, assignment.borrow, now))
        self._records.want(record, status, *events.reserved_events(workload, status, now))
        self._records.drop_refusal(record)
        self.assumed[key] = AssumedReservation(key, head.queue, assignment.usage)
        self._cache.assume(record, reservation_for(head, assignment.usage, now))

    def _preempt(self, head: PendingWorkload, victims: tuple[Victim, ...], now: float) -> None:
        """Evicts the victims that are not evicted yet."""
        for chosen in victims:
            record = self._records.get(chosen.reservation.key)
            if record is None or not record.is_open or record.decided.is_true(EVICTED):
                continue
            message = events.preempted_message(head, chosen, self._cache.ledger)
            self._journal.write(events.preempted(record.decided, head, chosen, message, now))
            self.assumed.pop(chosen.reservation.key, None)
            if record.assumed.status.admission is None:
                self._take_back(record, now)
            else:
                self._evict(record, head, chosen, message, now)
            self._evicted(record.key)

    def _take_back(self, record: WorkloadRecord, now: float) -> None:
        """Takes back a reservation made in this step, of which nothing was written yet.

        It lines up again when it is looked at once more, after all cycles of this step. Otherwise it could get and lose
        the same quota over and over, while the one it has to make way for waits for others to leave.
        """
        self._records.take_back(record)
        self._cache.place(record, now)
        self._cache.pending.delete(record.key)

    def _evict(self, record: WorkloadRecord, head: PendingWorkload, chosen: Victim, message: str, now: float) -> None:
        victim = record.decided
        self._records.want(
            record,
            preempted(victim, chosen.reason.value, message, now),
            partial(events.evicted_event, victim, message, now),
            partial(events.preempted_event, victim, message, head, now),
            partial(events.preempted_for_event, head, victim, chosen.reservation.queue, now),
        )
        record.preempted_for = head.queue

    def _refuse(self, head: PendingWorkload, record: WorkloadRecord, refusal: Refusal, now: float) -> None:
        """Notes the refusal, unless the workload shows it already; a gate that blocked preemption may no longer."""
        if not refusal.also and (withdrawn := no_longer_gated(record.decided, refusal.reason)):
            refusal = structs.replace(refusal, also=withdrawn)
        if record.refusal == refusal:
            return
        if _shows(record.decided, refusal):
            self._records.drop_refusal(record)
            return
        last = self._journal.last(head.key)
        if last is None or last.reason != refusal.reason or last.message != refusal.message:
            self._journal.write(events.refused(head, refusal, now))
        self._records.refuse(record, refusal)

    def _requests_shown(self, workload: QueuedWorkload) -> tuple[tuple[str, Resources], ...]:
        pod_set_requests = pod_set_requests_of(workload, self._settings, self._objects.adjustments(workload))
        return tuple((requested.name, requested.scaled(requested.count)) for requested in pod_set_requests)


def _shows(workload: QueuedWorkload, refusal: Refusal) -> bool:
    update = ConditionUpdate(QUOTA_RESERVED, False, refusal.reason, refusal.message)
    return shows(workload, update) and all(shows(workload, one) for one in refusal.also)
