"""One admission cycle: an outcome for the head of each queue, a function of the snapshot alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import assert_never

from msgspec import Struct, structs

from headgate.lifecycle.workload.conditions import second
from headgate.model.queues import PreemptionProposal, QueueingStrategy, Reclaim, ResourceFlavor, WithinQueue
from headgate.model.settings import QuotaSettings
from headgate.preemption.quota.classical import classical_victims
from headgate.preemption.quota.fair import fair_victims
from headgate.preemption.quota.search import QuotaPreemptor, Victim, VictimSearch, fitness_with
from headgate.quota import messages
from headgate.quota.allocations import AllocationPlan
from headgate.quota.fair_sharing import by_priority, by_share
from headgate.quota.flavors import Assignment, Fitness, FlavorAssigner, Mode, assign, most_pods
from headgate.quota.ledger import Ledger, Reservation
from headgate.quota.pending_queue import Requeue, Unreserved
from headgate.quota.pending_queues import MayEnter, PendingQueues
from headgate.quota.pending_workload import PendingWorkload, Progress, has_failed_checks
from headgate.quota.tree import FlavorResource, QuotaNode, Usage, usage_of

Needed = tuple[FlavorResource, ...]
"""The flavor resources that are short."""


class VictimsFor(Struct, gc=False):
    """The victims of one head. Searches are remembered while the ledger does not change."""

    ledger: Ledger
    head: PendingWorkload
    find: VictimSearch
    known: dict[tuple[Usage, Needed], tuple[Victim, ...]] = {}

    def of(self, assignment: Assignment) -> tuple[Victim, ...]:
        """The victims for the whole assignment; none where it fits, or where preemption does not help."""
        if assignment.mode is not _PREEMPT:
            return ()
        return self._victims(self._preemptor(assignment.usage, assignment.needing_preemption))

    def fitness(self, of: FlavorResource, amount: int) -> Fitness:
        """How well the flavor would do if only this resource was short."""
        preemptor = self._preemptor(((of, amount),), (of,))
        return fitness_with(self.ledger, preemptor, self._victims(preemptor))

    def _preemptor(self, usage: Usage, needed: Needed) -> QuotaPreemptor:
        return QuotaPreemptor(self.head.queue, self.head.priority, self.head.ordered, usage, needed)

    def _victims(self, preemptor: QuotaPreemptor) -> tuple[Victim, ...]:
        question = preemptor.usage, preemptor.needed
        found = self.known.get(question)
        if found is None:
            found = self.known[question] = self.find(self.ledger, preemptor)
        return found


def search_by(settings: QuotaSettings) -> VictimSearch:
    """The search for victims by these settings: classical, or by fair sharing."""
    strategies = settings.fair
    if not strategies:
        return classical_victims
    return lambda ledger, preemptor: fair_victims(ledger, preemptor, strategies)


class Admitted(Struct, frozen=True, gc=False):
    head: PendingWorkload
    assignment: Assignment


class Preempting(Struct, frozen=True, gc=False):
    """It gets its assignment once the victims are gone; some of them may be evicted already."""

    head: PendingWorkload
    assignment: Assignment
    victims: tuple[Victim, ...]
    message: str
    recomputed: bool = False  # these are not the victims it had at first, for some were others' already


class Deferred(Struct, frozen=True, gc=False):
    """It fits once the victims of others are gone; until then quota would be exceeded."""

    head: PendingWorkload
    assignment: Assignment
    message: str
    recomputed: bool = False


class Gated(Struct, frozen=True, gc=False):
    """It needs preemption, which a closed preemption gate forbids."""

    head: PendingWorkload
    victims: tuple[Victim, ...]
    message: str
    recomputed: bool = False


class Waits(Struct, frozen=True, gc=False):
    """`skipped_preemption`: it would have preempted, had others not gone before.

    `withheld`: it would have preempted, had that not led back to an allocation from before.
    """

    head: PendingWorkload
    reason: Unreserved
    requeue: Requeue
    message: str
    progress: Progress | None = None
    skipped_preemption: bool = False
    recomputed: bool = False
    withheld: bool = False


Outcome = Admitted | Preempting | Deferred | Gated | Waits


_FIT, _PREEMPT, _NO_FIT = Mode.FIT, Mode.PREEMPT, Mode.NO_FIT  # found sooner than members of enums
_WAITING, _NO_CANDIDATES, _FROM_ANY = Unreserved.WAITING, Requeue.NO_CANDIDATES, Reclaim.ANY


class QuotaSnapshot(Struct, frozen=True):
    """What a cycle decides on. Trials on the ledger are taken back when the cycle ends."""

    ledger: Ledger
    flavors: Mapping[str, ResourceFlavor]
    may_enter: MayEnter
    inactive: frozenset[str] = frozenset()  # queues that admit nothing now
    all_ready: bool = True  # the pods of all admitted workloads are ready
    number: int = 0  # of the cycle


class _Tree(Struct):
    """What the cycle decided so far in one tree: victims by uid, and what was charged to queues ahead of its use.

    What is `lent` was charged for this cycle only: whoever it is kept for steps aside in the next.
    """

    preempted: dict[str, Reservation] = {}
    freed: dict[str, dict[FlavorResource, int]] = {}  # what these hold, by queue
    assume: list[tuple[str, Usage]] = []
    lent: list[tuple[str, Usage]] = []
    admits: bool = False
    is_as_found: bool = True  # nothing was charged to any of its queues yet
    plan: AllocationPlan | None = None  # where it has preempted since the last change from outside

    def preempt(self, victims: Iterable[Victim]) -> None:
        for victim in victims:
            reservation = victim.reservation
            if reservation.uid not in self.preempted:
                self.preempted[reservation.uid] = reservation
                freed = self.freed.setdefault(reservation.queue, {})
                for of, amount in reservation.usage:
                    freed[of] = freed.get(of, 0) + amount


class _Nominee(Struct, frozen=True, gc=False):
    """A head with its assignment, its victims, and what was decided in its tree so far."""

    head: PendingWorkload
    assignment: Assignment
    victims: tuple[Victim, ...]
    tree: _Tree

    @property
    def may_go(self) -> bool:
        """It fits, as it is or after preemption."""
        return bool(self.victims) or self.assignment.mode is _FIT

    @property
    def shares_victims(self) -> bool:
        """Some of its victims are already another's."""
        preempted = self.tree.preempted
        return any(victim.reservation.uid in preempted for victim in self.victims)


Claims = Mapping[str, Preempting]
"""What the preemptors of some cluster queues were told last."""
NO_CLAIMS: Claims = {}


def cycle(
    snapshot: QuotaSnapshot, heads: Sequence[PendingWorkload], settings: QuotaSettings, claims: Claims = NO_CLAIMS
) -> list[Outcome]:
    """One outcome for each head, at most one head of each queue, in the order they were decided."""
    return _Cycle(snapshot, settings, claims).outcomes(heads)


class AdmissionCycle:
    """The cycle as an extension point, which can be timed.

    A preemptor is one of the heads of every cycle until its victims are gone. Its victims are not searched for again
    while its claim stands.
    """

    name = "AdmissionCycle"

    def __init__(self) -> None:
        self._claims: dict[str, Preempting] = {}
        self._ledger: Ledger | None = None  # of the claims

    def outcomes(
        self, snapshot: QuotaSnapshot, heads: Sequence[PendingWorkload], settings: QuotaSettings
    ) -> list[Outcome]:
        if self._ledger is not snapshot.ledger:
            self._ledger, self._claims = snapshot.ledger, {}
        outcomes = cycle(snapshot, heads, settings, self._claims)
        for outcome in outcomes:
            if isinstance(outcome, Preempting):
                self._claims[outcome.head.queue] = outcome
            else:
                self._claims.pop(outcome.head.queue, None)
        return outcomes


Attempt = Callable[[QuotaSnapshot, Sequence[PendingWorkload], QuotaSettings], list[Outcome]]
Settle = Callable[[Outcome, PendingQueues, Ledger, float], None]


def settle(outcome: Outcome, pending: PendingQueues, ledger: Ledger, now: float) -> None:
    """Applies the outcome: quota is reserved, victims are marked evicted, refused heads are requeued."""
    if isinstance(outcome, Admitted):
        ledger.reserve(reservation_for(outcome.head, outcome.assignment.usage, now))
        pending.delete(outcome.head.workload.key)
        pending.reprice(outcome.head.queue, now)
    else:
        settle_refusal(outcome, pending, ledger, now)


def settle_refusal(
    outcome: Preempting | Deferred | Gated | Waits,
    pending: PendingQueues,
    ledger: Ledger,
    now: float,
    proposal: PreemptionProposal | None = None,
) -> None:
    """Applies an outcome that gives the head no quota yet; `proposal` is what preempting for it would cost."""
    head = outcome.head
    if isinstance(outcome, Preempting):
        victims = [victim.reservation for victim in outcome.victims]
        ledger.preempt(reservation_for(head, outcome.assignment.usage, now), victims)
        pending.refused(head, Requeue.PENDING_PREEMPTION)
        if not all(victim.evicted for victim in victims):
            pending.reprice(head.queue, now)
        return
    if ledger.allocations.histories:
        ledger.refuse(head.queue, head.workload.uid)
    if isinstance(outcome, Waits):
        if outcome.withheld:
            ledger.allocations.withhold(ledger.forest.queues[head.queue].root)
        pending.refused(head, outcome.requeue, outcome.progress, outcome.reason, proposal)
    elif isinstance(outcome, Gated):
        why = Requeue.CLASS_GATED if head.kind.gated and not _age_matters(head, ledger) else Requeue.PREEMPTION_GATED
        pending.refused(head, why, None, Unreserved.GATED, proposal)
    elif isinstance(outcome, Deferred):
        pending.refused(head, Requeue.PENDING_PREEMPTION)
    else:
        assert_never(outcome)


def _age_matters(head: PendingWorkload, ledger: Ledger) -> bool:
    """Whether younger workloads of the head's class, which is the oldest in line, may have fewer candidates."""
    queue = ledger.forest.queues[head.queue].queue
    if queue.preemption.within_queue is not WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY:
        return False
    oldest = -inf if queue.usage_based else head.ordered  # there, each LocalQueue has a line of its own
    return any(one.priority == head.priority and one.ordered > oldest for one in ledger.reservations(head.queue))


def admit_all(
    pending: PendingQueues,
    snapshot: QuotaSnapshot,
    settings: QuotaSettings,
    now: float,
    *,
    attempt: Attempt = cycle,
    settle: Settle = settle,
) -> Iterator[list[Outcome]]:
    """Runs cycles until no head could get another answer; each is settled before the next begins."""
    while heads := pending.heads():
        snapshot = structs.replace(snapshot, number=pending.cycle)
        outcomes, postponed = before_borrowers(attempt(snapshot, heads, settings), snapshot.ledger)
        for outcome in outcomes:
            settle(outcome, pending, snapshot.ledger, now)
        for head in postponed:
            pending.put_back(head)
        yield outcomes
        if any(isinstance(outcome, Admitted) for outcome in outcomes):
            snapshot = structs.replace(snapshot, all_ready=False)


def before_borrowers(outcomes: list[Outcome], ledger: Ledger) -> tuple[list[Outcome], list[PendingWorkload]]:
    """Splits the outcomes of a cycle into those that hold, and the heads that are decided in the next cycle.

    Once a workload of a tree is admitted, none is admitted there in this cycle that borrows more: behind the first, in
    its queue, others may wait for the same quota, and would have to preempt the borrower at once. Whatever was decided
    in the tree after that borrower counted on it, and does not hold either.
    """
    if sum([isinstance(outcome, Admitted) for outcome in outcomes]) < 2:
        return outcomes, []
    holds: list[Outcome] = []
    postponed: list[PendingWorkload] = []
    least: dict[QuotaNode, int] = {}  # the lowest borrowing level of those admitted, by root
    closed: set[QuotaNode] = set()  # roots of trees in which nothing more is decided
    for outcome in outcomes:
        node = ledger.forest.queues.get(outcome.head.queue)
        root = node.root if node is not None else None
        if root is not None and isinstance(outcome, Admitted):
            borrow = outcome.assignment.borrow
            if borrow > least.setdefault(root, borrow):
                closed.add(root)
            else:
                least[root] = borrow
        if root in closed:
            postponed.append(outcome.head)
        else:
            holds.append(outcome)
    return holds, postponed


def reservation_for(head: PendingWorkload, usage: Usage, now: float) -> Reservation:
    """What the head holds once it is admitted with this usage."""
    workload = head.workload
    return Reservation(
        workload.key,
        workload.uid,
        head.queue,
        usage,
        head.kind.priority,
        workload.created,  # whatever sent it back is past
        reserved=second(now),  # as its status will show it
        local=workload.queue,
    )


HEAD_WORK = 100  # a head that needs no preemption, in units of Ledger.work


class _Cycle:
    """Nominates all heads against the ledger as it is, then decides them in order against what those before left."""

    def __init__(self, snapshot: QuotaSnapshot, settings: QuotaSettings, claims: Claims) -> None:
        self._snapshot = snapshot
        self._claims = claims
        self._settings = settings
        self._ledger = snapshot.ledger
        self._find_victims = search_by(settings)
        self._is_fair = settings.is_fair
        self._trees: dict[QuotaNode, _Tree] = {}
        self._all_ready = snapshot.all_ready

    def outcomes(self, heads: Sequence[PendingWorkload]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        nominees: list[_Nominee] = []
        self._ledger.work += HEAD_WORK * len(heads)
        for head in heads:
            why_not = self._inadmissible(head)
            if why_not is None:
                progress = self._still_valid(head, head.progress) if head.progress is not None else None
                before = self._nominated_before(head) if head.claim_stands else None
                nominees.append(before or self._nominate(head, progress))
            else:
                outcomes.append(why_not)
                self._note_inadmissible(head)
        with self._ledger.trial():
            outcomes += [self._decide(nominee) for nominee in self._in_turn(nominees)]
        return outcomes

    def _note_inadmissible(self, head: PendingWorkload) -> None:
        node = self._ledger.forest.queues.get(head.queue)
        plan = self._tree(node.root).plan if node is not None else None
        if plan is not None:
            plan.refuse(head.workload.uid)

    def _in_turn(self, nominees: Sequence[_Nominee]) -> Iterable[_Nominee]:
        return by_share(self._ledger, nominees) if self._is_fair else by_priority(nominees)

    def _inadmissible(self, head: PendingWorkload) -> Waits | None:
        """What makes the head inadmissible whatever quota there is."""
        if head.workload.status.checks and has_failed_checks(head.workload):
            return Waits(head, Unreserved.PENDING, Requeue.GENERIC, messages.FAILED_CHECKS)
        queue, forest = head.queue, self._ledger.forest
        node = forest.queues.get(queue)
        if queue in self._snapshot.inactive or (node is None and queue in forest.cyclic):
            return Waits(head, Unreserved.SUSPENDED, Requeue.GENERIC, messages.queue_inactive(queue))
        if node is None:
            return Waits(head, Unreserved.MISCONFIGURED, Requeue.GENERIC, messages.queue_missing(queue))
        if not self._snapshot.may_enter(node.queue, head.workload.key.namespace):
            return Waits(head, Unreserved.MISCONFIGURED, Requeue.NAMESPACE_MISMATCH, messages.WRONG_NAMESPACE)
        if head.problem:
            return Waits(head, Unreserved.MISCONFIGURED, Requeue.GENERIC, head.problem)
        return None

    def _nominated_before(self, head: PendingWorkload) -> _Nominee | None:
        """As it was told last, if its victims are still enough."""
        claim = self._claims.get(head.queue)
        if claim is None or claim.head.workload.uid != head.workload.uid or claim.head.kind != head.kind:
            return None
        ledger, usage, victims = self._ledger, claim.assignment.usage, list[Victim]()
        with ledger.trial():
            for victim in claim.victims:
                held = ledger.release(victim.reservation.queue, victim.reservation.uid)
                if held is None:
                    return None
                victims.append(Victim(held, victim.reason))
            if not ledger.fits(head.queue, usage):
                return None
        tree = self._tree(ledger.forest.queues[head.queue].root)
        return _Nominee(head, claim.assignment, tuple(victims), tree)

    def _nominate(
        self,
        head: PendingWorkload,
        progress: Progress | None,
        pinned: Mapping[tuple[str, str], str] | None = None,
        find_victims: VictimSearch | None = None,
    ) -> _Nominee:
        """Assigns flavors to all its pods, or to as many as possible, and finds the victims this needs."""
        settings, node = self._settings, self._ledger.forest.queues[head.queue]
        victims = VictimsFor(self._ledger, head, find_victims or self._find_victims)
        search = FlavorAssigner(
            node,
            self._snapshot.flavors,
            victims.fitness,
            self._is_fair,
            settings.ignore_undeclared,
            progress,
            pinned,
        )
        assignment, tree = assign(search, head.kind.pod_set_requests), self._tree(node.root)
        if assignment.mode is _FIT:
            return _Nominee(head, assignment, (), tree)
        whole = _Nominee(head, assignment, victims.of(assignment), tree)
        return whole if whole.may_go else _of_fewer_pods(whole, search, victims) or whole

    def _still_valid(self, head: PendingWorkload, progress: Progress) -> Progress | None:
        """The flavors tried before, if that result still holds."""
        generation = self._ledger.generation(head.queue)
        return progress if progress.holds(generation, self._snapshot.number, head.kind) else None

    def _tree(self, root: QuotaNode) -> _Tree:
        tree = self._trees.get(root)
        if tree is None:
            tree = self._trees[root] = _Tree(plan=self._ledger.allocations.plan(root))
        return tree

    def _decide(self, nominee: _Nominee) -> Outcome:
        shares = nominee.victims and nominee.shares_victims
        outcome = self._decided_anew(nominee) if shares else self._outcome(nominee)
        if nominee.tree.plan is not None:
            _follow(nominee.tree.plan, outcome)
        return outcome

    def _decided_anew(self, nominee: _Nominee) -> Outcome:
        """Some of its victims are another's: it fits once these are gone, or preempts others."""
        again = self._again_without_preempted(nominee)
        if again.assignment.mode is _FIT:
            return self._defer(nominee, again.assignment)
        outcome = self._outcome(again)
        return outcome if isinstance(outcome, Admitted) else structs.replace(outcome, recomputed=True)

    def _outcome(self, nominee: _Nominee) -> Outcome:
        head, assignment, victims = nominee.head, nominee.assignment, nominee.victims
        if assignment.mode is _NO_FIT:
            reason = Unreserved(assignment.no_fit.value)
            return Waits(head, reason, Requeue.NO_FIT, assignment.message, self._progress(nominee))
        if assignment.mode is _PREEMPT and not victims:
            self._reserve(nominee)
            message = assignment.message
            return Waits(head, _WAITING, _NO_CANDIDATES, message, self._progress(nominee))
        if victims and self._settings.preemption_gates and head.workload.has_closed_gate:
            return Gated(head, victims, messages.GATED)
        if not self._fits(nominee):
            return self._skip(nominee)
        return self._go(nominee)

    def _skip(self, nominee: _Nominee) -> Waits:
        """It no longer fits after the heads before it, and goes on with the flavors it has not tried yet.

        If one was admitted for good, or if it would fit but for those that step aside, it tries all of them again then.
        """
        head, progress = nominee.head, self._progress(nominee)
        if nominee.tree.admits or self._fits_in_the_next(nominee):
            progress = structs.replace(progress, tried=progress.tried if progress.has_more else (), missed=True)
        message, skipped = messages.NO_LONGER_FITS, bool(nominee.victims)
        return Waits(head, Unreserved.WAITING, Requeue.GENERIC, message, progress, skipped)

    def _defer(self, before: _Nominee, assignment: Assignment) -> Deferred:
        """Victims of others are enough; the quota they free is charged to it."""
        head = before.head
        self._charge_ahead(before, assignment.usage)
        return Deferred(head, assignment, messages.WAITS_FOR_THE_SAME, recomputed=True)

    def _go(self, nominee: _Nominee) -> Outcome:
        """Admits the head, preempts for it, or defers it until others' victims are gone."""
        head, assignment, victims = nominee.head, nominee.assignment, nominee.victims
        preempted = nominee.tree.preempted
        if victims and self._closes_circle(nominee):
            return self._withhold(nominee)
        if victims:
            self._charge_ahead(nominee, assignment.usage)
            nominee.tree.preempt(victims)
            return Preempting(head, assignment, victims, messages.pending_preemption(assignment.message, len(victims)))
        if not self._fits_as_yet(nominee):
            self._charge_ahead(nominee, assignment.usage)
            return Deferred(head, assignment, messages.pending_preemption(messages.NO_LONGER_FITS, len(preempted)))
        self._charge(nominee, assignment.usage)
        if self._settings.block_admission:
            if not self._all_ready:
                return Waits(head, Unreserved.PODS_NOT_READY, Requeue.PODS_NOT_READY, messages.NOT_READY)
            self._all_ready = False
        nominee.tree.admits = True
        return Admitted(head, assignment)

    def _closes_circle(self, nominee: _Nominee) -> bool:
        plan, assignment = nominee.tree.plan, nominee.assignment
        if plan is None:
            return False
        victims = [victim.reservation for victim in nominee.victims]
        gets = reservation_for(nominee.head, assignment.usage, 0.0)
        return plan.closes_circle(gets, victims, borrows=assignment.borrow > 0)

    def _withhold(self, nominee: _Nominee) -> Outcome:
        """Withholds the preemption until something changes from outside; the head may still get unused quota."""
        head = nominee.head
        free = self._nominate(head, None, find_victims=_nobody)
        if free.may_go:
            return self._go(free)
        message = messages.preemption_withheld(nominee.assignment.message, len(nominee.victims))
        return Waits(head, Unreserved.WAITING, Requeue.PREEMPTION_GATED, message, withheld=True)

    def _charge(self, nominee: _Nominee, usage: Usage) -> None:
        self._ledger.charge(nominee.head.queue, usage)
        nominee.tree.is_as_found = False

    def _charge_ahead(self, nominee: _Nominee, usage: Usage) -> None:
        self._charge(nominee, usage)
        nominee.tree.assume.append((nominee.head.queue, usage))

    def _fits_as_yet(self, nominee: _Nominee) -> bool:
        """Whether it fits while the victims of this cycle still hold quota and their preemptors use none."""
        tree = nominee.tree
        if not tree.preempted:
            return True
        with self._ledger.trial():
            for queue, usage in tree.assume:
                self._ledger.credit(queue, usage)
            return self._ledger.fits(nominee.head.queue, nominee.assignment.usage)

    def _again_without_preempted(self, nominee: _Nominee) -> _Nominee:
        """Assigns the same flavors as if all victims so far were gone."""
        with self._ledger.without(nominee.tree.preempted, nominee.tree.freed):
            return self._nominate(nominee.head, None, nominee.assignment.flavors)

    def _fits(self, nominee: _Nominee) -> bool:
        """Whether it fits once all victims so far and its own are gone."""
        if nominee.tree.is_as_found:
            return True
        ledger, queue, usage = self._ledger, nominee.head.queue, nominee.assignment.usage
        freed, victims = nominee.tree.freed, nominee.victims
        if not victims and ledger.fits(queue, usage):
            return True
        if not victims and not freed:
            return False
        with ledger.trial():
            for name, amounts in freed.items():
                ledger.credit(name, tuple(amounts.items()))
            for victim in victims:
                ledger.credit(victim.reservation.queue, victim.reservation.usage)
            return ledger.fits(queue, usage)

    def _fits_in_the_next(self, nominee: _Nominee) -> bool:
        """Whether it would fit in the next cycle if nothing else happens."""
        with self._ledger.trial():
            for queue, usage in nominee.tree.lent:
                self._ledger.credit(queue, usage)
            return self._fits(nominee)

    def _progress(self, nominee: _Nominee) -> Progress:
        """The flavors tried. A search that began midway on a changed ledger `missed` flavors that may fit by now."""
        head, before = nominee.head, nominee.head.progress
        generation, number = self._ledger.generation(head.queue), self._snapshot.number
        unchanged = before is not None and before.generation == generation
        earlier = (*before.earlier, before.tried) if before is not None and unchanged else ()
        progress = Progress(nominee.assignment.tried, generation, number, head.kind, earlier)
        stale = not unchanged or (before is not None and before.missed)
        if not nominee.assignment.began_midway or not stale:
            return progress
        if progress.has_more:
            return structs.replace(progress, missed=True)
        return Progress((), generation, number, head.kind, missed=True)

    def _reserve(self, nominee: _Nominee) -> None:
        """Where it cannot reclaim its nominal quota, keeps heads after it in this cycle from borrowing more of it."""
        node = self._ledger.forest.queues[nominee.head.queue]
        if node.queue.preemption.reclaim is not _FROM_ANY:
            borrows = nominee.assignment.borrow > 0
            kept = {of: _own_part(node, of, amount, borrows) for of, amount in nominee.assignment.usage}
            self._charge_ahead(nominee, usage_of(kept))
            if node.queue.strategy is QueueingStrategy.BEST_EFFORT_FIFO:
                nominee.tree.lent.append((nominee.head.queue, usage_of(kept)))


def _of_fewer_pods(whole: _Nominee, search: FlavorAssigner, victims: VictimsFor) -> _Nominee | None:
    """Partial admission: the nominee with the most pods that fit; None when even the fewest do not."""
    head = whole.head

    def attempt(metrics: Sequence[int]) -> _Nominee | None:
        assignment = assign(search, head.kind.pod_set_requests, metrics)
        nominee = _Nominee(head, assignment, victims.of(assignment), whole.tree)
        return nominee if nominee.may_go else None

    return most_pods(head.kind.pod_set_requests, attempt)


def _follow(plan: AllocationPlan, outcome: Outcome) -> None:
    """Heads that come next in this cycle are checked for circles against the allocation this outcome leads to."""
    if isinstance(outcome, Waits):
        plan.refuse(outcome.head.workload.uid)
    elif isinstance(outcome, Admitted):
        plan.admit(reservation_for(outcome.head, outcome.assignment.usage, 0.0))
    elif isinstance(outcome, Preempting):
        victims = [victim.reservation for victim in outcome.victims]
        plan.admit(reservation_for(outcome.head, outcome.assignment.usage, 0.0), victims)
    else:
        plan.refuse(outcome.head.workload.uid)


def _nobody(ledger: Ledger, preemptor: QuotaPreemptor) -> tuple[Victim, ...]:
    return ()


def _own_part(node: QuotaNode, of: FlavorResource, amount: int, borrows: bool) -> int:
    quota = node.quota(of)
    if not borrows:
        return max(0, min(amount, quota.nominal - node.used(of)))
    if quota.borrowing_limit is None:
        return amount
    return max(0, min(amount, quota.nominal + quota.borrowing_limit - node.used(of)))
