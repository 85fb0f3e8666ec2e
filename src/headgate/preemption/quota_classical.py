"""Quota victims by priority and by whose quota it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto

from msgspec import Struct

from headgate.model.queues import BorrowWithinCohort, ClusterQueue, QueuePreemption, Reclaim, WithinQueue
from headgate.preemption.quota_search import (
    Preemptor,
    Victim,
    VictimReason,
    candidate_order,
    fits,
    give_back,
    in_order,
    may_take,
)
from headgate.quota.ledger import Holder, Ledger, LocalUse
from headgate.quota.tree import FlavorResource, QuotaNode, borrows_with, local_available, within_nominal


class _Claim(Enum):
    """What a preemptor has over a candidate."""

    OWN_QUEUE = auto()
    NEARER = auto()  # the quota is nearer to the preemptor's queue than to the candidate's
    WITHOUT_BORROWING = auto()  # only if the preemptor's queue does not borrow in the end
    WHILE_BORROWING = auto()


_REASONS = {
    _Claim.OWN_QUEUE: VictimReason.IN_QUEUE,
    _Claim.NEARER: VictimReason.RECLAMATION,
    _Claim.WITHOUT_BORROWING: VictimReason.RECLAMATION,
    _Claim.WHILE_BORROWING: VictimReason.WHILE_BORROWING,
}


class _Candidate(Struct, frozen=True):
    """`meeting` is the lowest cohort that has both it and the preemptor below; None for the preemptor's own queue."""

    holder: Holder
    claim: _Claim
    meeting: QuotaNode | None = None


def classical_victims(ledger: Ledger, preemptor: Preemptor) -> tuple[Victim, ...]:
    """The first of the allowed attempts that makes room decides."""
    node = ledger.forest.queues[preemptor.queue]
    if node.queue is None:
        return ()
    candidates = _candidates(ledger, preemptor, node, node.queue.preemption)
    if not candidates:
        return ()
    for borrow in _attempts(node, node.queue, preemptor, candidates):
        with ledger.trial():
            victims = _take(ledger, preemptor, candidates, borrow)
            if victims:
                return give_back(ledger, preemptor, victims, borrow)
    return ()


def _take(ledger: Ledger, preemptor: Preemptor, candidates: Sequence[_Candidate], borrow: bool) -> list[Victim]:
    """Candidates leave one by one until there is room; none when all of them are too few."""
    victims: list[Victim] = []
    for candidate in candidates:
        if not _still_counts(ledger, preemptor, candidate, borrow):
            continue
        ledger.leave(candidate.holder.queue, candidate.holder.uid)
        victims.append(Victim(candidate.holder, _REASONS[candidate.claim]))
        if fits(ledger, preemptor, borrow):
            return victims
    return []


def _still_counts(ledger: Ledger, preemptor: Preemptor, candidate: _Candidate, borrow: bool) -> bool:
    """Others are only taken from queues and cohorts that borrow, which they may have ceased to by now."""
    if candidate.meeting is None:
        return True
    if borrow and candidate.claim is _Claim.WITHOUT_BORROWING:
        return False
    node = ledger.forest.queues[candidate.holder.queue]
    if within_nominal(node, preemptor.needed):
        return False
    for cohort in node.ancestors():
        if cohort is candidate.meeting:
            return True
        if within_nominal(cohort, preemptor.needed):
            return False
    return True


def _attempts(
    node: QuotaNode, queue: ClusterQueue, preemptor: Preemptor, candidates: Sequence[_Candidate]
) -> tuple[bool, ...]:
    """Whether to try with borrowing, without, or both, in order."""
    no_borrowing = queue.preemption.borrow is BorrowWithinCohort.NEVER
    under_nominal = all(node.used(of) < node.quota(of).nominal for of in preemptor.needed)
    from_others = any(candidate.meeting is not None for candidate in candidates)
    if not from_others or (no_borrowing and not under_nominal):
        return (True,)
    if no_borrowing and not any(candidate.claim is _Claim.NEARER for candidate in candidates):
        return False, True
    return True, False


_LISTS = (_Claim.NEARER, _Claim.WITHOUT_BORROWING, _Claim.OWN_QUEUE)


def _candidates(ledger: Ledger, preemptor: Preemptor, node: QuotaNode, policy: QueuePreemption) -> list[_Candidate]:
    """In the order they are tried: the evicted, then the rest; nearer quota, then by priority, then its own queue."""
    found = [*_from_own_queue(ledger, preemptor, policy), *_from_others(ledger, preemptor, node, policy)]
    if not found:
        return []

    def place(candidate: _Candidate, use: LocalUse) -> tuple[object, ...]:
        claim = candidate.claim
        which = _LISTS.index(_Claim.WITHOUT_BORROWING if claim is _Claim.WHILE_BORROWING else claim)
        return not candidate.holder.evicted, which, *candidate_order(candidate.holder, preemptor.queue, use)

    return in_order(ledger, found, lambda candidate: candidate.holder, place)


def _from_own_queue(ledger: Ledger, preemptor: Preemptor, policy: QueuePreemption) -> Iterator[_Candidate]:
    if policy.within_queue is not WithinQueue.NEVER:
        for holder in ledger.holders(preemptor.queue):
            if may_take(preemptor, policy, holder):
                yield _Candidate(holder, _Claim.OWN_QUEUE)


def _from_others(
    ledger: Ledger, preemptor: Preemptor, node: QuotaNode, policy: QueuePreemption
) -> Iterator[_Candidate]:
    """Up the tree: once the rest of the request fits into some cohort, all beyond it are farther from that quota."""
    if policy.reclaim is Reclaim.NEVER or not any(cohort.borrowers for cohort in node.ancestors()):
        return
    below, nearer, remaining = node, *_fits_in_quota(node, dict(preemptor.usage))
    for cohort in node.ancestors():
        for queue in _borrowers(cohort, below, preemptor.needed):
            for holder in ledger.holders(queue.name):
                if may_take(preemptor, policy, holder):
                    yield _Candidate(holder, _claim(preemptor, policy, holder, nearer), cohort)
        fits_here, remaining = _fits_in_quota(cohort, remaining)
        below, nearer = cohort, nearer or fits_here


def _fits_in_quota(node: QuotaNode, requests: dict[FlavorResource, int]) -> tuple[bool, dict[FlavorResource, int]]:
    """Whether it borrows nothing with these, and what of them goes beyond what it keeps to itself."""
    inside = not any(borrows_with(node, of, amount) for of, amount in requests.items())
    return inside, {of: max(0, amount - local_available(node, of)) for of, amount in requests.items()}


def _borrowers(cohort: QuotaNode, visited: QuotaNode, needed: Sequence[FlavorResource]) -> Iterator[QuotaNode]:
    """The queues below that borrow, through cohorts that borrow, without those already visited."""
    borrowing = {child: None for of in needed for child in cohort.borrowers.get(of, ())}
    for child in borrowing:
        if child is visited:
            continue
        if child.queue is not None:
            yield child
        else:
            yield from _borrowers(child, visited, needed)


def _claim(preemptor: Preemptor, policy: QueuePreemption, holder: Holder, nearer: bool) -> _Claim:
    if nearer:
        return _Claim.NEARER
    too_important = holder.priority >= preemptor.priority or (
        policy.borrow_threshold is not None and holder.priority > policy.borrow_threshold
    )
    if policy.borrow is BorrowWithinCohort.NEVER or too_important:
        return _Claim.WITHOUT_BORROWING
    return _Claim.WHILE_BORROWING
