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
from headgate.lifecycle.terminating import running_since
from headgate.lifecycle.workload.admission import IS_GATED, are_ready, refused, required_checks, reserved
from headgate.lifecycle.workload.conditions import (
    DEACTIVATED,
    EVICTED,
    QUOTA_RESERVED,
    no_longer_gated,
    shows,
)
from headgate.lifecycle.workload.eviction import preempted
from headgate.model.keys import Key
from headgate.model.queues import PreemptionProposal, QueuedWorkload
from headgate.model.resources import Resources
from headgate.model.settings import QuotaSettings
from headgate.preemption.quota.search import Victim
from headgate.quota import messages
from headgate.quota.flavors import Assignment, admission
from headgate.quota.ledger import Ledger
from headgate.quota.pending_queue import SPEAKS_FOR_CLASS, Unreserved
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


INFEASIBLE = PreemptionProposal(can_preempt=False)

_GATED = Unreserved.GATED.value  # found sooner than values of enums
MOST_WORK = 150_000  # of a step, in units of Ledger.work: about a third of a second


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
        self.goes_on = False  # heads are left to be decided

    def run(self, now: float) -> None:
        """Runs cycles until no head could get another answer, or MOST_WORK is done.

        The others come in the next step, which is to begin at once. A step that takes too long keeps everything else
        waiting, and with it the renewal of the lease.
        """
        self.assumed, self.goes_on = {}, False
        cache, objects = self._cache, self._objects
        enough = cache.ledger.work + MOST_WORK
        all_ready = not cache.usage.waiting_for_pods
        snapshot = QuotaSnapshot(cache.ledger, objects.flavors, objects.may_enter, objects.inactive, all_ready)
        for outcomes in admit_all(
            cache.pending, snapshot, self._settings, now, attempt=self._cycle.outcomes, settle=self._settle
        ):
            self._count(outcomes)
            if cache.ledger.work >= enough:
                self.goes_on = True
                break

    def _count(self, outcomes: Sequence[Outcome]) -> None:
        others = [outcome for outcome in outcomes if not isinstance(outcome, Admitted)]
        self._metrics.attempt([outcome.head.queue for outcome in outcomes], success=len(others) < len(outcomes))
        for outcome in others:
            if isinstance(outcome, Waits):
                if outcome.skipped_preemption:
                    self._metrics.skipped_preemption(outcome.head.queue)
                if outcome.withheld:
                    self._metrics.withheld_preemption(outcome.head.queue)
            if outcome.recomputed:
                self._metrics.recomputed(outcome.head.queue, _RECOMPUTED[type(outcome)])

    def report_refusals(self, now: float) -> None:
        """Writes QuotaReserved=False with its reason to workloads that do not show it yet, as far as permits go."""
        for record, refusal, informs in self._records.take_refusals():
            workload = record.decided
            if record.key not in self._cache.pending or self._is_shown(workload, refusal):
                continue
            requests, proposal = self._requests_shown(workload), refusal.proposal
            status = refused(workload, refusal.reason, refusal.message, requests, now, *refusal.also, proposal=proposal)
            emitted = () if _shows(workload, refusal) else (partial(events.refused_event, workload, refusal, now),)
            tells = refusal if informs else None
            self._records.want(record, status, *emitted, informs=informs, tells=tells)

    def report_bypassed(self, record: WorkloadRecord, now: float) -> None:
        """Reports a workload that is not evaluated because another of its class was refused since the last change."""
        shown, requests = record.decided.condition(QUOTA_RESERVED), record.requests
        gated = requests is not None and requests.kind.gated
        if not gated and (shown is None or shown.reason not in BETTER_TOLD):
            return
        found = self._cache.pending.passed_over(record.decided.key)
        if found is None:
            return
        head, why = found
        proposal = why.proposal if self._records.keeps_proposals else None
        if why.reason is Unreserved.GATED:
            self._refuse(head, record, Refusal(why.reason.value, messages.GATED, IS_GATED, proposal), now)
        elif shown is None or shown.reason in BETTER_TOLD or _tells_otherwise(record, proposal):
            self._refuse(head, record, Refusal(why.reason.value, why.message, proposal=proposal), now)

    def _settle(self, outcome: Outcome, pending: PendingQueues, ledger: Ledger, now: float) -> None:
        """Applies the outcome to the quota cache, and decides what is written, journaled and emitted."""
        record = self._records.get(outcome.head.workload.key)
        assert record is not None, f"{outcome.head.workload.key} waits and is not known"
        if isinstance(outcome, Admitted):
            self._reserve(outcome.head, record, outcome.assignment, now)
            return
        head, proposal = outcome.head, self._proposal(outcome)
        settle_refusal(outcome, pending, ledger, now, proposal)
        if isinstance(outcome, Waits):
            refusal = Refusal(str(outcome.reason), outcome.message, (), proposal)
        elif isinstance(outcome, Preempting):
            self._preempt(head, outcome.victims, now)
            refusal = Refusal(Unreserved.PREEMPTING.value, outcome.message)
        elif isinstance(outcome, Deferred):
            refusal = Refusal(Unreserved.PREEMPTING.value, outcome.message)
        elif isinstance(outcome, Gated):
            refusal = Refusal(Unreserved.GATED.value, outcome.message, IS_GATED, proposal)
        else:
            assert_never(outcome)
        self._refuse(head, record, refusal, now)
        for other in pending.untold(head):
            bypassed = self._records.get(other.key)
            if bypassed is not None and bypassed is not record:
                self.report_bypassed(bypassed, now)

    def _proposal(self, outcome: Outcome) -> PreemptionProposal | None:
        """What preempting for the head would cost, if a gate of it is closed, it was found out, and can be written."""
        if not self._records.keeps_proposals:
            return None
        if isinstance(outcome, Gated):
            return self._price(outcome.victims)
        if outcome.head.kind.gated and isinstance(outcome, Waits) and outcome.requeue in SPEAKS_FOR_CLASS:
            return INFEASIBLE
        return None

    def _price(self, victims: Sequence[Victim]) -> PreemptionProposal:
        """Victims that are evicted already cost nothing more, and those that do not run yet lose no work."""
        victims = [victim for victim in victims if not victim.reservation.evicted]
        priorities = [victim.reservation.priority for victim in victims]
        running, pod_seconds = 0, 0
        for victim in victims:
            record = self._records.get(victim.reservation.key)
            since = running_since(record.decided) if record is not None else None
            if record is not None and since is not None:
                pods = pods_left(record.decided)
                running, pod_seconds = running + pods, pod_seconds + pods * int(since)
        mean = float(pod_seconds // running) if running else 0.0
        return PreemptionProposal(True, len(victims), max(priorities, default=0), sum(priorities), running, mean)

    def _reserve(self, head: PendingWorkload, record: WorkloadRecord, assignment: Assignment, now: float) -> None:
        key, queue = record.key, self._objects.queues[head.queue]
        given, workload = admission(head.queue, assignment.pod_sets), record.decided
        checks = required_checks(queue, given)
        status = reserved(workload, given, checks, now)
        is_admitted = are_ready(status.checks, checks)
        entry, emitted = events.reserved(workload, given, assignment.borrow, now, is_admitted=is_admitted)
        self._journal.write(entry)
        self._records.want(record, status, *emitted)
        self._records.drop_refusal(record)
        self.assumed[key] = AssumedReservation(key, head.queue, assignment.usage)
        self._cache.assume(record, reservation_for(head, assignment.usage, now), now)

    def _preempt(self, head: PendingWorkload, victims: tuple[Victim, ...], now: float) -> None:
        """Evicts the victims that are not evicted yet."""
        for chosen in victims:
            record = self._records.get(chosen.reservation.key)
            if record is None or not record.is_open() or record.decided.is_true(EVICTED):
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
        if self._is_shown(record.decided, refusal):
            self._records.drop_refusal(record)
            return
        last = self._journal.last(head.key)
        if last is None or last.reason != refusal.reason or last.message != refusal.message:
            self._journal.write(events.refused(head, refusal, now))
        self._records.refuse(record, refusal, now)

    def _is_shown(self, workload: QueuedWorkload, refusal: Refusal) -> bool:
        """Whether its status says all that is to be said, of a gated one its requests as well: the text is constant."""
        if workload.status.proposal != refusal.proposal or not _shows(workload, refusal):
            return False
        is_constant = refusal.reason == _GATED or refusal.proposal is not None
        return not is_constant or workload.status.resource_requests == self._requests_shown(workload)

    def _requests_shown(self, workload: QueuedWorkload) -> tuple[tuple[str, Resources], ...]:
        pod_set_requests = pod_set_requests_of(workload, self._settings, self._objects.adjustments(workload))
        return tuple((requested.name, requested.scaled(requested.count)) for requested in pod_set_requests)


def pods_left(workload: QueuedWorkload) -> int:
    """How many pods it was admitted with, less those that are done for good."""
    given, done = workload.status.admission, dict(workload.status.reclaimable)
    return 0 if given is None else sum(max(0, one.count - done.get(one.name, 0)) for one in given.pod_sets)


def _tells_otherwise(record: WorkloadRecord, proposal: PreemptionProposal | None) -> bool:
    """Whether its status, or the refusal that is to be written, has another proposal."""
    told = record.decided.status.proposal if record.refusal is None else record.refusal.proposal
    return told != proposal or (record.refusal is None and record.decided.gated_since is not None)


def _shows(workload: QueuedWorkload, refusal: Refusal) -> bool:
    shown = workload.condition(QUOTA_RESERVED)
    if shown is None or shown.reason != refusal.reason or shown.message != refusal.message or shown.status != "False":
        return False
    return not refusal.also or all(shows(workload, one) for one in refusal.also)
