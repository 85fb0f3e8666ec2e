"""What both ways of choosing quota victims share: who may be one, in which order, and that none is needless."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct

from headgate.model.queues import QueuePreemption, Reclaim, WithinQueue
from headgate.quota.flavors import Fitness, Granular
from headgate.quota.ledger import Ledger, LocalUse, Reservation
from headgate.quota.tree import FlavorResource, Usage


class VictimReason(StrEnum):
    """Why a workload is preempted; the values are the reasons of its condition."""

    IN_QUEUE = "InClusterQueue"
    RECLAMATION = "InCohortReclamation"
    FAIR_SHARING = "InCohortFairSharing"
    WHILE_BORROWING = "InCohortReclaimWhileBorrowing"

    @property
    def text(self) -> str:
        return _TEXTS[self]


_TEXTS = {
    VictimReason.IN_QUEUE: "prioritization in the ClusterQueue",
    VictimReason.RECLAMATION: "reclamation within the cohort",
    VictimReason.FAIR_SHARING: "Fair Sharing within the cohort",
    VictimReason.WHILE_BORROWING: "reclamation within the cohort while borrowing",
}


class Victim(Struct, frozen=True, gc=False):
    reservation: Reservation
    reason: VictimReason


class QuotaPreemptor(Struct, frozen=True, gc=False):
    """A workload that quota must be freed for: all it wants, and what of that is short."""

    queue: str
    priority: int
    ordered: float
    usage: Usage
    needed: tuple[FlavorResource, ...]


VictimSearch = Callable[[Ledger, QuotaPreemptor], tuple[Victim, ...]]
"""Victims that make room and none of them needless; none at all when there is no way."""

CandidateOrder = tuple[bool, bool, LocalUse, int, float, str]
C = TypeVar("C")


def candidate_order(reservation: Reservation, queue: str, use: LocalUse = 0) -> CandidateOrder:
    """Evicted already, of other queues, of busier local queues, less important, admitted later: these go first."""
    own = reservation.queue == queue
    return not reservation.evicted, own, -use, reservation.priority, -reservation.reserved, reservation.uid


def in_order(
    ledger: Ledger,
    found: Sequence[C],
    reservation: Callable[[C], Reservation],
    place: Callable[[C, LocalUse], tuple[object, ...]],
) -> list[C]:
    """As they are taken. What local queues used decides only between candidates of one and the same cluster queue.

    So these change places among themselves, and between those of different cluster queues nothing changes.
    """
    without_use, local_use = sorted(found, key=lambda one: place(one, 0)), ledger.local_use
    if local_use is None:
        return without_use
    lines: dict[str, deque[C]] = {}
    for one in sorted(found, key=lambda one: place(one, local_use(reservation(one)))):
        lines.setdefault(reservation(one).queue, deque()).append(one)
    return [lines[reservation(one).queue].popleft() for one in without_use]


# Members of enums by names of their own, which are found ten times sooner.
_RECLAIMS_ANY, _RECLAIMS_LOWER = Reclaim.ANY, Reclaim.LOWER_PRIORITY
_TAKES_LOWER, _TAKES_NEWER = WithinQueue.LOWER_PRIORITY, WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY


def may_take(preemptor: QuotaPreemptor, policy: QueuePreemption, reservation: Reservation) -> bool:
    """Whether the policy of the preemptor's queue lets it preempt this one, wherever quota is short."""
    less_important = reservation.priority < preemptor.priority
    if reservation.queue != preemptor.queue:
        reclaim = policy.reclaim
        allowed = reclaim is _RECLAIMS_ANY or (less_important and reclaim is _RECLAIMS_LOWER)
    elif less_important:
        allowed = policy.within_queue is _TAKES_LOWER or policy.within_queue is _TAKES_NEWER
    else:
        newer = reservation.priority == preemptor.priority and preemptor.ordered < reservation.ordered
        allowed = newer and policy.within_queue is _TAKES_NEWER
    return allowed and reservation.uses_any(preemptor.needed)


def fits(ledger: Ledger, preemptor: QuotaPreemptor, borrow: bool = True) -> bool:
    """Whether there is room now, without `borrow` within the queue's own quota."""
    node = ledger.forest.queues[preemptor.queue]
    for of, amount in preemptor.usage:
        account = node.accounts[of]
        if amount > max(0, account.available()) or not (borrow or account.used + amount <= account.subtree):
            return False
    return True


def give_back(ledger: Ledger, preemptor: QuotaPreemptor, victims: Sequence[Victim], borrow: bool) -> tuple[Victim, ...]:
    """The victims less those without whom there is room as well, tried from the last but one to the first."""
    needed = list(victims[-1:])
    for victim in reversed(victims[:-1]):
        ledger.charge(victim.reservation.queue, victim.reservation.usage)
        if not fits(ledger, preemptor, borrow):
            ledger.credit(victim.reservation.queue, victim.reservation.usage)
            needed.append(victim)
    return tuple(reversed(needed))


def fitness_with(ledger: Ledger, preemptor: QuotaPreemptor, victims: Sequence[Victim]) -> Fitness:
    """How well one flavor does for one resource when these would go."""
    ((of, amount),) = preemptor.usage
    account = ledger.forest.queues[preemptor.queue].accounts[of]
    if not victims:
        return Fitness(Granular.NO_CANDIDATES, account.level(amount).height)
    with ledger.trial():
        for victim in victims:
            ledger.credit(victim.reservation.queue, victim.reservation.usage)
        height = account.level(amount).height
    of_its_own = any(victim.reservation.queue == preemptor.queue for victim in victims)
    return Fitness(Granular.PREEMPT if of_its_own else Granular.RECLAIM, height)
