"""Dominant resource shares: how much more than its due a queue or cohort has, in exact fractions."""

from __future__ import annotations

from fractions import Fraction

from msgspec import Struct

from headgate.model.quantity import LARGEST
from headgate.model.queues import WHOLE_WEIGHT
from headgate.quota.tree import FlavorResource, QuotaNode, Usage, potential

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
        """Smaller goes first when quota is given, larger when it is taken."""
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
    """The root, and whoever borrows nothing, has none."""
    if node.parent is None:
        return Share(weight=node.weight)
    usage = node.usage
    borrowed = [of for of, own in node.subtree.items() if usage.get(of, 0) > own]
    if not borrowed:
        return Share(weight=node.weight)
    amounts: dict[str, int] = {}
    for of in borrowed:
        amounts[of.resource] = amounts.get(of.resource, 0) + usage[of] - node.subtree[of]
    return Share(_dominant(amounts, node.parent), node.weight, tuple(borrowed))


def _dominant(amounts: dict[str, int], parent: QuotaNode) -> Fraction:
    lendable = _lendable(parent)
    ratios = [Fraction(1000 * amount, lendable[name]) for name, amount in amounts.items() if lendable.get(name, 0) > 0]
    return max(ratios, default=NOTHING)


def _lendable(node: QuotaNode) -> dict[str, int]:
    """All a node could ever have, by resource, over every flavor of its tree."""
    lendable: dict[str, int] = {}
    for of in node.root.subtree:
        lendable[of.resource] = lendable.get(of.resource, 0) + potential(node, of)
    return lendable
