"""Fair sharing: dominant resource shares, the order of heads by share or priority, and decayed usage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Protocol, TypeVar

from msgspec import Struct

from headgate.model.quantity import LARGEST, NANOS
from headgate.model.queues import WHOLE_WEIGHT
from headgate.model.resources import CPU
from headgate.quota.flavors import Assignment
from headgate.quota.ledger import Ledger
from headgate.quota.pending_workload import PendingWorkload
from headgate.quota.tree import FlavorResource, QuotaNode, Usage

NOTHING = Fraction(0)


class Share(Struct, frozen=True):
    """What a node borrows of what could be lent to it, in thousandths, of its dominant resource.

    `weighted` is divided by the node's weight. Whoever borrows with a weight of zero has more than anybody with
    another weight; among such nodes the unweighted ratio counts.
    """

    ratio: Fraction = NOTHING
    weight: int = WHOLE_WEIGHT
    borrowed: tuple[FlavorResource, ...] = ()

    @property
    def borrows(self) -> bool:
        return bool(self.borrowed)

    @property
    def is_boundless(self) -> bool:
        return self.weight == 0 and self.borrows

    @property
    def order(self) -> tuple[bool, Fraction]:
        """The sort key: lower shares are admitted first, higher shares preempted first."""
        if self.is_boundless or not self.ratio:
            return self.is_boundless, self.ratio
        return False, self.ratio * WHOLE_WEIGHT / self.weight

    def borrows_any(self, usage: Usage) -> bool:
        """Whether it borrows something that this usage is made of."""
        return any(amount > 0 and of in self.borrowed for of, amount in usage)

    @property
    def rounded(self) -> int:
        """As shown in a status: rounded up, the largest number there is when boundless."""
        if self.is_boundless:
            return LARGEST
        _, weighted = self.order
        return -(-weighted.numerator // weighted.denominator)


def share_of(node: QuotaNode) -> Share:
    """The share of a node; zero for a root, and for a node that borrows nothing."""
    if node.parent is None:
        return Share(weight=node.weight)
    borrowed = [account for of in node.subtree if (account := node.accounts[of]).borrows]
    if not borrowed:
        return Share(weight=node.weight)
    amounts: dict[str, int] = {}
    for account in borrowed:
        resource = account.of.resource
        amounts[resource] = amounts.get(resource, 0) + account.used - account.subtree
    return Share(_dominant(amounts, node.parent), node.weight, tuple(account.of for account in borrowed))


def _dominant(amounts: dict[str, int], parent: QuotaNode) -> Fraction:
    lendable = parent.lendable
    ratios = [Fraction(1000 * amount, lendable[name]) for name, amount in amounts.items() if lendable.get(name, 0) > 0]
    return max(ratios, default=NOTHING)


class Nominee(Protocol):
    @property
    def head(self) -> PendingWorkload: ...

    @property
    def assignment(self) -> Assignment: ...


N = TypeVar("N", bound=Nominee)


def by_priority(nominees: Sequence[N]) -> list[N]:
    """Preemptors first, then by borrowing level, priority and age.

    Without the first rule a victim that borrows less than its preemptor would come back before it, again and again.
    """
    return sorted(nominees, key=lambda one: (not one.head.is_preemptor, one.assignment.borrow, one.head.rank))


def by_share(ledger: Ledger, nominees: Sequence[N]) -> Iterator[N]:
    """Heads by the share their queue and cohorts would have with them; compared again after each, as shares change."""
    trees: dict[QuotaNode, dict[QuotaNode, N]] = {}
    for one in nominees:
        node = ledger.forest.queues[one.head.queue]
        trees.setdefault(node.root, {})[node] = one
    for root, waiting in trees.items():
        while waiting:
            ledger.work += 3 * SHARE_WORK * len(waiting)
            scores = {node: _scores(ledger, node, one) for node, one in waiting.items()}
            winner = _winner(root, waiting, scores)
            assert winner is not None
            yield waiting.pop(winner)


SHARE_WORK = 3  # the share of a node, in units of Ledger.work

Score = tuple[bool, bool, tuple[bool, Fraction], tuple[int, float, str]]


def _scores(ledger: Ledger, queue: QuotaNode, one: Nominee) -> dict[QuotaNode, Score]:
    """How its queue and each cohort above would stand with it admitted; lower is better.

    Whoever others have left for, and whoever would borrow nothing of what it asks for, goes before all shares.
    """
    usage, rank, last = one.assignment.usage, one.head.rank, not one.head.is_preemptor
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


BITS = 62
ONE = 1 << BITS
MICROS = 10**6  # in a second

Amounts = Mapping[str, int]
"""Billionths of whole units, by resource."""


def _roots(count: int) -> Iterable[int]:
    root = ONE >> 1
    for _ in range(count):
        root = math.isqrt(root * ONE)
        yield root


_ROOTS = tuple(_roots(40))
"""A half to the power of 1/2, 1/4, 1/8 and so on, each as a part of ONE."""


def remaining(seconds: float, half_life: float) -> int:
    """What is left after so long, as a part of ONE."""
    whole, rest = divmod(max(0, round(seconds * MICROS)), round(half_life * MICROS))
    life, part = round(half_life * MICROS), ONE
    for root in _ROOTS:
        rest *= 2
        if rest >= life:
            rest -= life
            part = part * root >> BITS
    return part >> whole if whole < BITS else 0


def decayed(consumed: Amounts, in_use: Amounts, seconds: float, half_life: float) -> dict[str, int]:
    """The average moves from what it was towards what is in use; without a half-life everything is forgotten."""
    if not half_life:
        return {}
    kept = remaining(seconds, half_life)
    names = sorted(consumed.keys() | in_use.keys())
    return {
        name: (consumed.get(name, 0) * kept >> BITS) + (in_use.get(name, 0) * (ONE - kept) >> BITS) for name in names
    }


def entry_penalty(asked: Amounts, interval: float, half_life: float) -> dict[str, int]:
    """What one sampling interval of such use adds: charged in advance, so that many cannot enter before the next."""
    return decayed({}, asked, interval, half_life)


def by_resource(usage: Usage) -> dict[str, int]:
    """All flavors together, in billionths."""
    amounts: dict[str, int] = {}
    for of, amount in usage:
        amounts[of.resource] = amounts.get(of.resource, 0) + amount * (NANOS // 1000 if of.resource == CPU else NANOS)
    return amounts
