"""What the cycles decide, put into writing: who gets quota, who leaves for whom, who waits and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import assert_never

from msgspec import Struct

from headgate.engine.journal import Journal
from headgate.engine.quota import telling
from headgate.engine.quota.admission_cycle import AdmissionCycle, QuotaSnapshot, admit_all
from headgate.engine.quota.books import Books
from headgate.engine.quota.counts import QuotaCounts
from headgate.engine.quota.desk import Desk, Sheet
from headgate.engine.quota.outcomes import Admitted, Deferred, Gated, Outcome, Preempting, Waits
from headgate.engine.quota.refusals import Refusal, Refusals
from headgate.engine.quota.surroundings import QuotaSurroundings
from headgate.lifecycle.workload.admission import IS_GATED, refused, reserved
from headgate.lifecycle.workload.checks import required_checks
from headgate.lifecycle.workload.conditions import DEACTIVATED, EVICTED, QUOTA_RESERVED, ConditionUpdate, shows
from headgate.lifecycle.workload.eviction import preempted
from headgate.model.keys import Key
from headgate.model.queues import QueuedWorkload
from headgate.model.quota_settings import QuotaSettings
from headgate.model.resources import Resources
from headgate.preemption.quota.search import Victim
from headgate.quota import wording
from headgate.quota.assignment import Assignment, admission
from headgate.quota.order import Applicant
from headgate.quota.requests import asks_of
from headgate.quota.requeue import Unreserved
from headgate.quota.tree import Usage

_RECOMPUTED: Mapping[type[Outcome], str] = {
    Deferred: "DeferredFit",
    Preempting: "NewTargets",
    Gated: "NewTargets",
    Waits: "Skipped",
}
"""What came of deciding once more, where the victims were others' already."""

BETTER_TOLD = frozenset({Unreserved.PENDING.value, Unreserved.SUSPENDED.value, DEACTIVATED})
"""Reasons that say nothing of the quota a workload waits for."""


class Promise(Struct, frozen=True, gc=False):
    """Quota given in this step."""

    key: Key
    queue: str
    usage: Usage


class Cycles:
    """Runs the cycles on the books, and takes each outcome for true by wanting it written."""

    def __init__(
        self,
        settings: QuotaSettings,
        cycle: AdmissionCycle,
        *,
        surroundings: QuotaSurroundings,
        books: Books,
        desk: Desk,
        counts: QuotaCounts,
        journal: Journal,
    ) -> None:
        self._settings = settings
        self._cycle = cycle
        self._surroundings = surroundings
        self._books = books
        self._desk = desk
        self._counts = counts
        self._journal = journal
        self.refusals = Refusals()
        self.promises: dict[Key, Promise] = {}

    def run(self, now: float, evicted: Callable[[Key], None]) -> None:
        """Until no other answer is possible. Who must leave is handed to `evicted`, to be looked at and placed."""
        self.promises = {}
        books, around = self._books, self._surroundings
        for queue in books.pending.ripen(now):
            books.ledger.forget_allocations(queue)
        all_ready = not books.tally.waiting_for_pods
        snapshot = QuotaSnapshot(books.ledger, around.flavors, around.may_enter, around.inactive, all_ready)
        for outcomes in admit_all(books.pending, snapshot, self._settings, now, self._cycle.outcomes):
            self._count(outcomes)
            for outcome in outcomes:
                self._act(outcome, now, evicted)

    def _count(self, outcomes: Sequence[Outcome]) -> None:
        others = [outcome for outcome in outcomes if not isinstance(outcome, Admitted)]
        self._counts.attempt([outcome.applicant.queue for outcome in outcomes], success=len(others) < len(outcomes))
        for outcome in others:
            if isinstance(outcome, Waits) and outcome.skipped_preemption:
                self._counts.skipped_preemption(outcome.applicant.queue)
            if isinstance(outcome, Waits) and outcome.withheld:
                self._counts.withheld_preemption(outcome.applicant.queue)
            if outcome.recomputed:
                self._counts.recomputed(outcome.applicant.queue, _RECOMPUTED[type(outcome)])

    def tell(self, now: float) -> None:
        """Why they wait, to those who have not been told."""
        for key, refusal in self.refusals.take(now, self._can_be_told):
            sheet = self._desk.get(key)
            if sheet is None or key not in self._books.pending or _shows(sheet.now, refusal):
                continue
            workload, asked = sheet.now, self._asked(sheet.now)
            status = refused(workload, refusal.reason, refusal.message, asked, now, *refusal.also)
            self._desk.want(key, status, partial(telling.refused_event, workload, refusal, now))

    def _can_be_told(self, key: Key) -> bool:
        """Not while it is in doubt what it looks like."""
        sheet = self._desk.get(key)
        return sheet is None or sheet.is_open

    def pass_over(self, sheet: Sheet, now: float) -> None:
        """One like it was refused and nothing has changed since: a workload that shows no better reason is told so."""
        shown = sheet.now.condition(QUOTA_RESERVED)
        if shown is None or shown.reason not in BETTER_TOLD:
            return
        found = self._books.pending.passed_over(sheet.now.key)
        if found is not None:
            applicant, why = found
            self._refuse(applicant, Refusal(why.value, wording.PASSED_OVER), now)

    def _act(self, outcome: Outcome, now: float, evicted: Callable[[Key], None]) -> None:
        if isinstance(outcome, Admitted):
            self._reserve(outcome.applicant, outcome.assignment, now)
            return
        if isinstance(outcome, Waits):
            refusal = Refusal(outcome.reason.value, outcome.message)
        elif isinstance(outcome, Preempting):
            for key in self._preempt(outcome.applicant, outcome.victims, now):
                evicted(key)
            refusal = Refusal(Unreserved.PREEMPTING.value, outcome.message)
        elif isinstance(outcome, Deferred):
            refusal = Refusal(Unreserved.PREEMPTING.value, outcome.message)
        elif isinstance(outcome, Gated):
            refusal = Refusal(Unreserved.GATED.value, outcome.message, (IS_GATED,))
        else:
            assert_never(outcome)
        self._refuse(outcome.applicant, refusal, now)

    def _reserve(self, applicant: Applicant, assignment: Assignment, now: float) -> None:
        key, queue = applicant.workload.key, self._surroundings.queues[applicant.queue]
        sheet = self._desk.get(key)
        assert sheet is not None
        given, workload = admission(applicant.queue, assignment.pod_sets), sheet.now
        status = reserved(workload, given, required_checks(queue, given), now)
        self._journal.write(telling.reserved(workload, status, assignment.borrow, now))
        self._desk.want(key, status, partial(telling.reserved_event, workload, status, now))
        self.refusals.drop(key)
        self.promises[key] = Promise(key, applicant.queue, assignment.usage)
        self._books.promised(sheet, applicant.queue)

    def _preempt(self, applicant: Applicant, victims: tuple[Victim, ...], now: float) -> Iterator[Key]:
        """Those on their way out already are not told again."""
        for chosen in victims:
            sheet = self._desk.get(chosen.holder.key)
            if sheet is None or not sheet.is_open or sheet.now.is_true(EVICTED):
                continue
            message = telling.preempted_message(applicant, chosen, self._books.ledger)
            self._journal.write(telling.preempted(sheet.now, applicant, chosen, message, now))
            self.promises.pop(chosen.holder.key, None)
            if sheet.so_far.admission is None:
                self._take_back(sheet, now)
            else:
                self._evict(sheet.now, applicant, chosen, message, now)
            yield chosen.holder.key

    def _take_back(self, sheet: Sheet, now: float) -> None:
        """It was promised quota a moment ago, and nobody knows yet: it never was.

        It lines up again when it is looked at once more, after all cycles of this step. Otherwise it could get and lose
        the same quota over and over, while the one it has to make way for waits for others to leave.
        """
        key = sheet.seen.key
        self._desk.take_back(key)
        self._books.place(sheet, now)
        self._books.pending.withdraw(key)

    def _evict(self, victim: QueuedWorkload, applicant: Applicant, chosen: Victim, message: str, now: float) -> None:
        self._desk.want(
            victim.key,
            preempted(victim, chosen.reason.value, message, now),
            partial(telling.evicted_event, victim, message, now),
            partial(telling.preempted_event, victim, message, applicant, now),
            partial(telling.preempted_for_event, applicant, victim, chosen.reason.text, now),
        )
        self._counts.preempts(victim.key, applicant.queue)

    def _refuse(self, applicant: Applicant, refusal: Refusal, now: float) -> None:
        """What the workload shows already is not told again."""
        if self.refusals.untold.get(applicant.key) == refusal:
            return
        sheet = self._desk.get(applicant.key)
        if sheet is not None and _shows(sheet.now, refusal):
            self.refusals.drop(applicant.key)
            return
        last = self._journal.last(applicant.key)
        if last is None or last.reason != refusal.reason or last.message != refusal.message:
            self._journal.write(telling.refused(applicant, refusal, now))
        self.refusals.note(applicant.key, refusal)

    def _asked(self, workload: QueuedWorkload) -> tuple[tuple[str, Resources], ...]:
        asks = asks_of(workload, self._settings, self._surroundings.adjustments(workload))
        return tuple((ask.name, ask.scaled(ask.count)) for ask in asks)


def _shows(workload: QueuedWorkload, refusal: Refusal) -> bool:
    said = ConditionUpdate(QUOTA_RESERVED, False, refusal.reason, refusal.message)
    return shows(workload, said) and all(shows(workload, one) for one in refusal.also)
