"""What both ways of choosing quota victims share: who may be one, in which order, and that none is needless."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct

from headgate.model.queues import QueuePreemption, Reclaim, WithinQueue
from headgate.quota.ledger import Holder, Ledger, LocalUse
from headgate.quota.modes import Fitness, Granular
from headgate.quota.tree import FlavorResource, QuotaNode, Usage, available, borrow_level, borrows_with


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
    holder: Holder
    reason: VictimReason


class Preemptor(Struct, frozen=True, gc=False):
    """A workload that quota must be freed for: all it wants, and what of that is short."""

    queue: str
    priority: int
    ordered: float
    usage: Usage
    needed: tuple[FlavorResource, ...]


VictimSearch = Callable[[Ledger, Preemptor], tuple[Victim, ...]]
"""Victims that make room and none of them needless; none at all when there is no way."""

CandidateOrder = tuple[bool, bool, LocalUse, int, float, str]
C = TypeVar("C")


def candidate_order(holder: Holder, queue: str, use: LocalUse = 0) -> CandidateOrder:
    """Evicted already, of other queues, of busier local queues, less important, admitted later: these go first."""
    own = holder.queue == queue
    return not holder.evicted, own, -use, holder.priority, -holder.reserved, holder.uid


def in_order(
    ledger: Ledger,
    found: Sequence[C],
    holder: Callable[[C], Holder],
    place: Callable[[C, LocalUse], tuple[object, ...]],
) -> list[C]:
    """As they are taken. What local queues used decides only between candidates of one and the same cluster queue.

    So these change places among themselves, and between those of different cluster queues nothing changes.
    """
    without_use, local_use = sorted(found, key=lambda one: place(one, 0)), ledger.local_use
    if local_use is None:
        return without_use
    lines: dict[str, deque[C]] = {}
    for one in sorted(found, key=lambda one: place(one, local_use(holder(one)))):
        lines.setdefault(holder(one).queue, deque()).append(one)
    return [lines[holder(one).queue].popleft() for one in without_use]


def may_take(preemptor: Preemptor, policy: QueuePreemption, holder: Holder) -> bool:
    """Whether the policy of the preemptor's queue lets it preempt this one, wherever quota is short."""
    if not holder.uses_any(preemptor.needed):
        return False
    less_important = holder.priority < preemptor.priority
    if holder.queue != preemptor.queue:
        return policy.reclaim is Reclaim.ANY or (policy.reclaim is Reclaim.LOWER_PRIORITY and less_important)
    if policy.within_queue is WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY:
        newer = holder.priority == preemptor.priority and preemptor.ordered < holder.ordered
        return less_important or newer
    return policy.within_queue is WithinQueue.LOWER_PRIORITY and less_important


def fits(ledger: Ledger, preemptor: Preemptor, borrow: bool = True) -> bool:
    """Whether there is room now, without `borrow` within the queue's own quota."""
    node = ledger.forest.queues[preemptor.queue]
    return all(_fits_one(node, of, amount, borrow) for of, amount in preemptor.usage)


def _fits_one(node: QuotaNode, of: FlavorResource, amount: int, borrow: bool) -> bool:
    return amount <= max(0, available(node, of)) and (borrow or not borrows_with(node, of, amount))


def give_back(ledger: Ledger, preemptor: Preemptor, victims: Sequence[Victim], borrow: bool) -> tuple[Victim, ...]:
    """The victims less those without whom there is room as well, tried from the last but one to the first."""
    needed = list(victims[-1:])
    for victim in reversed(victims[:-1]):
        ledger.hold(victim.holder)
        if not fits(ledger, preemptor, borrow):
            ledger.leave(victim.holder.queue, victim.holder.uid)
            needed.append(victim)
    return tuple(reversed(needed))


def fitness_with(ledger: Ledger, preemptor: Preemptor, victims: Sequence[Victim]) -> Fitness:
    """How well one flavor does for one resource when these would go."""
    node, ((of, amount),) = ledger.forest.queues[preemptor.queue], preemptor.usage
    if not victims:
        return Fitness(Granular.NO_CANDIDATES, borrow_level(node, of, amount).height)
    with ledger.trial():
        for victim in victims:
            ledger.leave(victim.holder.queue, victim.holder.uid)
        height = borrow_level(node, of, amount).height
    of_its_own = any(victim.holder.queue == preemptor.queue for victim in victims)
    return Fitness(Granular.PREEMPT if of_its_own else Granular.RECLAIM, height)
