"""Whose turn it is among the heads of queues that share quota."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Protocol, TypeVar

from headgate.quota.assignment import Assignment
from headgate.quota.ledger import Ledger
from headgate.quota.order import Applicant
from headgate.quota.shares import share_of
from headgate.quota.tree import QuotaNode


class Nominee(Protocol):
    @property
    def applicant(self) -> Applicant: ...

    @property
    def assignment(self) -> Assignment: ...


N = TypeVar("N", bound=Nominee)


def by_priority(nominees: Sequence[N]) -> list[N]:
    """Whoever others have left for, then whoever borrows least, then the most important, then the oldest.

    Without the first rule a victim that borrows less than its preemptor would come back before it, again and again.
    """
    return sorted(nominees, key=lambda one: (not one.applicant.is_preemptor, one.assignment.borrow, one.applicant.rank))


def by_share(ledger: Ledger, nominees: Sequence[N]) -> Iterator[N]:
    """Always the one with whom its queue and cohorts would have least; asked again after each, for shares change."""
    trees: dict[QuotaNode, dict[QuotaNode, N]] = {}
    for one in nominees:
        node = ledger.forest.queues[one.applicant.queue]
        trees.setdefault(node.root, {})[node] = one
    for root, waiting in trees.items():
        while waiting:
            scores = {node: _scores(ledger, node, one) for node, one in waiting.items()}
            winner = _winner(root, waiting, scores)
            assert winner is not None
            yield waiting.pop(winner)


Score = tuple[bool, bool, tuple[bool, Fraction], tuple[int, float, str]]


def _scores(ledger: Ledger, queue: QuotaNode, one: Nominee) -> dict[QuotaNode, Score]:
    """How its queue and each cohort above would stand with it admitted; lower is better.

    Whoever others have left for, and whoever would borrow nothing of what it asks for, goes before all shares.
    """
    usage, rank, last = one.assignment.usage, one.applicant.rank, not one.applicant.is_preemptor
    with ledger.trial():
        ledger.charge(queue.name, usage)
        shares = {node: share_of(node) for node in (queue, *queue.ancestors())}
    return {node: (last, share.borrows_any(usage), share.order, rank) for node, share in shares.items()}


def _winner(
    node: QuotaNode, waiting: dict[QuotaNode, N], scores: dict[QuotaNode, dict[QuotaNode, Score]]
) -> QuotaNode | None:
    """A tournament from the leaves up: in each cohort, the children compete with their own winners."""
    if node.is_queue:
        return node if node in waiting else None
    best: tuple[Score, QuotaNode] | None = None
    for child in node.children:
        winner = _winner(child, waiting, scores)
        if winner is not None and (best is None or scores[winner][child] < best[0]):
            best = scores[winner][child], winner
    return best[1] if best else None
