"""Dominant resource shares: how much more than its due a queue or cohort has, in exact fractions."""

from __future__ import annotations

from fractions import Fraction

from msgspec import Struct

from headgate.model.quantity import LARGEST
from headgate.model.queues import WHOLE_WEIGHT
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
