"""Quota victims by priority and by whose quota it is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from enum import IntEnum, auto
from typing import NamedTuple

from msgspec import Struct

from headgate.model.queues import BorrowWithinCohort, ClusterQueue, QueuePreemption, Reclaim, WithinQueue
from headgate.preemption.quota.search import (
    QuotaPreemptor,
    Victim,
    VictimReason,
    candidate_order,
    fits,
    give_back,
    in_order,
    may_take,
)
from headgate.quota.ledger import Ledger, LocalUse, Reservation
from headgate.quota.tree import FlavorResource, QuotaNode, Usage, within_nominal


class _Claim(IntEnum):
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


class _Candidate(Struct, frozen=True, gc=False):
    """`meeting` is the lowest cohort that has both it and the preemptor below; None for the preemptor's own queue."""

    reservation: Reservation
    claim: _Claim
    meeting: QuotaNode | None = None


def classical_victims(ledger: Ledger, preemptor: QuotaPreemptor) -> tuple[Victim, ...]:
    """The first of the allowed attempts that makes room decides."""
    node = ledger.forest.queues[preemptor.queue]
    candidates = _candidates(ledger, preemptor, node, node.queue.preemption)
    if not candidates:
        return ()
    for borrow in _attempts(node, node.queue, preemptor, candidates):
        with ledger.trial():
            victims = _take(ledger, preemptor, candidates, borrow)
            if victims:
                return give_back(ledger, preemptor, victims, borrow)
    return ()


def _take(ledger: Ledger, preemptor: QuotaPreemptor, candidates: Sequence[_Candidate], borrow: bool) -> list[Victim]:
    """Candidates leave one by one until there is room; none when all of them are too few."""
    victims: list[Victim] = []
    for candidate in candidates:
        if not _still_counts(ledger, preemptor, candidate, borrow):
            continue
        ledger.credit(candidate.reservation.queue, candidate.reservation.usage)
        victims.append(Victim(candidate.reservation, _REASONS[candidate.claim]))
        if fits(ledger, preemptor, borrow):
            return victims
    return []


def _still_counts(ledger: Ledger, preemptor: QuotaPreemptor, candidate: _Candidate, borrow: bool) -> bool:
    """Others are only taken from queues and cohorts that borrow, which they may have ceased to by now."""
    if candidate.meeting is None:
        return True
    if borrow and candidate.claim is _Claim.WITHOUT_BORROWING:
        return False
    node = ledger.forest.queues[candidate.reservation.queue]
    if within_nominal(node, preemptor.needed):
        return False
    for cohort in node.ancestors():
        if cohort is candidate.meeting:
            return True
        if within_nominal(cohort, preemptor.needed):
            return False
    return True


def _attempts(
    node: QuotaNode, queue: ClusterQueue, preemptor: QuotaPreemptor, candidates: Sequence[_Candidate]
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


# found sooner than members of enums
_OWN_QUEUE, _SPARES_OWN, _SPARES_OTHERS = _Claim.OWN_QUEUE, WithinQueue.NEVER, Reclaim.NEVER
_LISTS = {_Claim.NEARER: 0, _Claim.WITHOUT_BORROWING: 1, _Claim.WHILE_BORROWING: 1, _Claim.OWN_QUEUE: 2}


def _candidates(
    ledger: Ledger, preemptor: QuotaPreemptor, node: QuotaNode, policy: QueuePreemption
) -> Sequence[_Candidate]:
    """In the order they are tried: the evicted, then the rest; nearer quota, then by priority, then its own queue."""
    own, others = _from_own_queue(ledger, preemptor, policy), _from_others(ledger, preemptor, node, policy)
    if not own or not others:
        return own or others
    own_evicted, others_evicted = _count_evicted(own), _count_evicted(others)
    return [*others[:others_evicted], *own[:own_evicted], *others[others_evicted:], *own[own_evicted:]]


def _count_evicted(candidates: Sequence[_Candidate]) -> int:
    """How many are evicted already, which are the first."""
    return bisect_left(candidates, True, key=lambda candidate: not candidate.reservation.evicted)


def _in_order(ledger: Ledger, preemptor: QuotaPreemptor, found: Sequence[_Candidate]) -> list[_Candidate]:
    def place(candidate: _Candidate, use: LocalUse) -> tuple[object, ...]:
        reservation = candidate.reservation
        return not reservation.evicted, _LISTS[candidate.claim], candidate_order(reservation, preemptor.queue, use)

    return in_order(ledger, found, lambda candidate: candidate.reservation, place)


def _from_own_queue(ledger: Ledger, preemptor: QuotaPreemptor, policy: QueuePreemption) -> list[_Candidate]:
    if policy.within_queue is _SPARES_OWN:
        return []
    priority, own = preemptor.priority, _OWN_QUEUE
    found = [
        _Candidate(reservation, own)
        for reservation in ledger.reservations(preemptor.queue)
        if reservation.priority <= priority
        and may_take(preemptor, policy, reservation)
        and reservation.uid not in ledger.gone
    ]
    return _in_order(ledger, preemptor, found)


def _from_others(
    ledger: Ledger, preemptor: QuotaPreemptor, node: QuotaNode, policy: QueuePreemption
) -> list[_Candidate]:
    """Up the tree, of all queues that borrow what is short.

    Heads of one cycle mostly have the same candidates in the same order, so that these are found once for all.
    """
    groups = _groups_of_borrowers(preemptor, node) if policy.reclaim is not _SPARES_OTHERS else ()
    if not groups:
        return []

    def find() -> list[_Candidate]:
        found = [
            _Candidate(reservation, _claim(preemptor, policy, reservation, group.nearer), group.meeting)
            for group in groups
            for queue in group.borrowers
            for reservation in ledger.reservations(queue.name)
            if may_take(preemptor, policy, reservation)
        ]
        return _in_order(ledger, preemptor, found)

    if ledger.local_use is not None:  # changes with time
        found = find()
    else:
        found = ledger.remembered((groups, policy, preemptor.priority, preemptor.needed), find)
    gone = ledger.gone
    if not gone:
        return found
    ledger.work += len(found) // 8  # a look at one that was found before costs less
    return [candidate for candidate in found if candidate.reservation.uid not in gone]


class _Group(NamedTuple):
    """Queues that borrow, and the lowest cohort that has both them and the preemptor's queue below."""

    meeting: QuotaNode
    nearer: bool  # the quota is nearer to the preemptor's queue than to theirs
    borrowers: tuple[QuotaNode, ...]


def _groups_of_borrowers(preemptor: QuotaPreemptor, node: QuotaNode) -> tuple[_Group, ...]:
    groups: list[_Group] = []
    below, cohort = node, node.parent
    while cohort is not None:
        queues = _borrowers(cohort, below, preemptor.needed)
        if queues:
            groups.append(_Group(cohort, _is_nearer(node, cohort, preemptor.usage), tuple(queues)))
        below, cohort = cohort, cohort.parent
    return tuple(groups)


def _is_nearer(node: QuotaNode, meeting: QuotaNode, usage: Usage) -> bool:
    """Whether the request fits into the quota of the queue or of a cohort below the one where it meets the others.

    What goes beyond what a node keeps to itself is for the next one above.
    """
    at: QuotaNode | None = node
    while at is not None and at is not meeting:
        accounts = [(at.accounts[of], amount) for of, amount in usage]
        if all(account.used + amount <= account.subtree for account, amount in accounts):
            return True
        usage = tuple((one.of, max(0, amount - max(0, one.kept - one.used))) for one, amount in accounts)
        at = at.parent
    return False


def _borrowers(cohort: QuotaNode, visited: QuotaNode, needed: Sequence[FlavorResource]) -> list[QuotaNode]:
    """The queues below that borrow, through cohorts that borrow, without those already visited."""
    borrowing = {child: None for of in needed for child in cohort.accounts[of].borrowers if child is not visited}
    queues: list[QuotaNode] = []
    for child in borrowing:
        queues += (child,) if child.is_queue else _borrowers(child, visited, needed)
    return queues


def _claim(preemptor: QuotaPreemptor, policy: QueuePreemption, reservation: Reservation, nearer: bool) -> _Claim:
    if nearer:
        return _Claim.NEARER
    too_important = reservation.priority >= preemptor.priority or (
        policy.borrow_threshold is not None and reservation.priority > policy.borrow_threshold
    )
    if policy.borrow is BorrowWithinCohort.NEVER or too_important:
        return _Claim.WITHOUT_BORROWING
    return _Claim.WHILE_BORROWING
