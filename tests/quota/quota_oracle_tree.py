"""The arithmetic of quota once more, as plainly as it can be said: every number is worked out from the formulas.

A state is who holds what and what was charged besides. Nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

from headgate.model.queues import ClusterQueue, Cohort, Quota
from headgate.model.settings import FairStrategy
from headgate.quota.ledger import Reservation

Pair = tuple[str, str]
Pairs = tuple[Pair, ...]
Amounts = Mapping[Pair, int]


@dataclass(frozen=True)
class State:
    holders: tuple[Reservation, ...]
    extra: tuple[tuple[str, Pair, int], ...] = ()

    def without(self, *uids: str) -> State:
        return replace(self, holders=tuple(one for one in self.holders if one.uid not in uids))

    def charged(self, queue: str, usage: Mapping[Pair, int]) -> State:
        return replace(self, extra=(*self.extra, *((queue, of, amount) for of, amount in usage.items())))


class TreeRules:
    """The arithmetic of quota and of fair shares. A node is ("q", name) or ("c", name)."""

    def __init__(self, queues: list[ClusterQueue], cohorts: list[Cohort], fair: tuple[FairStrategy, ...] = ()) -> None:
        self.queues = {queue.name: queue for queue in queues}
        self.cohorts = {cohort.name: cohort for cohort in cohorts}
        self.fair = fair
        for never_changes in (
            "parent",
            "above",
            "children",
            "leaves",
            "height",
            "pairs",
            "subtree",
            "local",
            "potential",
        ):
            setattr(self, never_changes, cache(getattr(self, never_changes)))

    def parent(self, node: Pair) -> Pair | None:
        sort, name = node
        above = self.queues[name].cohort if sort == "q" else self.cohorts[name].parent if name in self.cohorts else ""
        return ("c", above) if above else None

    def above(self, node: Pair) -> list[Pair]:
        parent = self.parent(node)
        return [parent, *self.above(parent)] if parent else []

    def root(self, node: Pair) -> Pair:
        return [node, *self.above(node)][-1]

    def children(self, node: Pair) -> list[Pair]:
        everything = [("q", name) for name in self.queues] + [("c", name) for name in self.names()]
        return sorted((one for one in everything if self.parent(one) == node), key=lambda one: (one[1], one[0]))

    def names(self) -> list[str]:
        named = set(self.cohorts)
        named |= {queue.cohort for queue in self.queues.values() if queue.cohort}
        named |= {cohort.parent for cohort in self.cohorts.values() if cohort.parent}
        return sorted(named)

    def leaves(self, node: Pair) -> list[Pair]:
        return [node] if node[0] == "q" else [leaf for child in self.children(node) for leaf in self.leaves(child)]

    def height(self, node: Pair) -> int:
        return max((self.height(child) + 1 for child in self.children(node)), default=0)

    def weight(self, node: Pair) -> Fraction:
        sort, name = node
        owner: Any = self.queues[name] if sort == "q" else self.cohorts.get(name)
        return Fraction(owner.fair_weight if owner else 1000, 1000)

    # The arithmetic of quota.

    def quotas(self, node: Pair) -> dict[Pair, Quota]:
        sort, name = node
        owner: Any = self.queues[name] if sort == "q" else self.cohorts.get(name)
        groups = owner.groups if owner else ()
        return {
            (one.flavor, resource): quota for group in groups for one in group.flavors for resource, quota in one.quotas
        }

    def quota(self, node: Pair, of: Pair) -> Quota:
        return self.quotas(node).get(of, Quota())

    def pairs(self, node: Pair) -> list[Pair]:
        below = {of for child in self.children(node) for of in self.pairs(child)}
        return sorted(set(self.quotas(node)) | below)

    def subtree(self, node: Pair, of: Pair) -> int:
        lent = sum(self.subtree(child, of) - self.local(child, of) for child in self.children(node))
        return self.quota(node, of).nominal + lent

    def local(self, node: Pair, of: Pair) -> int:
        limit = self.quota(node, of).lending_limit
        return 0 if limit is None else max(0, self.subtree(node, of) - limit)

    def usage(self, node: Pair, of: Pair, state: State) -> int:
        if node[0] == "q":
            held = sum(dict(one.usage).get(of, 0) for one in state.holders if one.queue == node[1])
            return held + sum(amount for queue, what, amount in state.extra if (queue, what) == (node[1], of))
        return sum(max(0, self.usage(child, of, state) - self.local(child, of)) for child in self.children(node))

    def local_available(self, node: Pair, of: Pair, state: State) -> int:
        return max(0, self.local(node, of) - self.usage(node, of, state))

    def available(self, node: Pair, of: Pair, state: State) -> int:
        parent = self.parent(node)
        if parent is None:
            return self.subtree(node, of) - self.usage(node, of, state)
        room, limit = self.available(parent, of, state), self.quota(node, of).borrowing_limit
        if limit is not None:
            lent = self.subtree(node, of) - self.local(node, of)
            room = min(room, lent - max(0, self.usage(node, of, state) - self.local(node, of)) + limit)
        return self.local_available(node, of, state) + room

    def potential(self, node: Pair, of: Pair) -> int:
        parent = self.parent(node)
        if parent is None:
            return self.subtree(node, of)
        limit, room = self.quota(node, of).borrowing_limit, self.local(node, of) + self.potential(parent, of)
        return room if limit is None else min(room, self.subtree(node, of) + limit)

    def borrows_with(self, node: Pair, of: Pair, amount: int, state: State) -> bool:
        return self.subtree(node, of) < self.usage(node, of, state) + amount

    def level(self, node: Pair, of: Pair, amount: int, state: State) -> tuple[int, bool]:
        above = self.above(node)
        if not above or not self.borrows_with(node, of, amount, state):
            return 0, bool(above)
        rest = amount - self.local_available(node, of, state)
        for cohort in above:
            if not self.borrows_with(cohort, of, rest, state):
                return self.height(cohort), self.parent(cohort) is not None
            rest -= self.local_available(cohort, of, state)
        return self.height(above[-1]), False

    def fits(self, queue: str, usage: Mapping[Pair, int], state: State, borrow: bool = True) -> bool:
        node = ("q", queue)
        return all(
            amount <= max(0, self.available(node, of, state))
            and (borrow or not self.borrows_with(node, of, amount, state))
            for of, amount in usage.items()
        )

    def over(self, node: Pair, short: Pairs, state: State) -> bool:
        return any(self.usage(node, of, state) > self.subtree(node, of) for of in short)

    # Fair shares.

    def share(self, node: Pair, state: State) -> tuple[bool, Fraction]:
        parent = self.parent(node)
        if parent is None:
            return False, Fraction(0)
        borrowed: dict[str, int] = {}
        for of in self.pairs(node):
            extra = self.usage(node, of, state) - self.subtree(node, of)
            if extra > 0:
                borrowed[of[1]] = borrowed.get(of[1], 0) + extra
        lendable: dict[str, int] = {}
        for of in self.pairs(self.root(node)):
            lendable[of[1]] = lendable.get(of[1], 0) + self.potential(parent, of)
        ratios = [
            Fraction(1000 * extra, lendable[name]) for name, extra in borrowed.items() if lendable.get(name, 0) > 0
        ]
        ratio = max(ratios, default=Fraction(0))
        if self.weight(node) == 0:
            return bool(borrowed), ratio
        return False, ratio / self.weight(node)

    def is_borrowing(self, node: Pair, state: State) -> bool:
        return self.parent(node) is not None and any(
            self.usage(node, of, state) > self.subtree(node, of) for of in self.pairs(node)
        )
