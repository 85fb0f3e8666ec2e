"""Which nodes count as one place: those with the same value of a topology label."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from headgate.placement.table import Amounts, NodeTable, padded

NOWHERE = 0
KEPT_KEYS = 256  # topology keys whose domains are kept
FEW_VALUES = 64  # numbers given out for values up to which nobody looks for those that are gone
FEW = 32  # changed rows up to which taking them in one by one is faster than adding up all


class Domain:
    """For one topology key, a number for each row; rows without the label are NOWHERE."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.ids: Amounts = np.zeros(0, dtype=np.int64)
        self.somewhere: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.nowhere: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.single = False  # every row is a domain of its own, as with host names
        self.cursor = -1
        self._numbers: dict[str, int] = {}

    @property
    def count(self) -> int:
        """One above the largest number given out."""
        return len(self._numbers) + 1

    def number(self, value: str | None) -> int:
        return NOWHERE if value is None else self._numbers.setdefault(value, len(self._numbers) + 1)

    def renumber(self) -> None:
        """Forgets all values: numbers are given out anew to those that nodes still have."""
        self._numbers = {}
        self.cursor = -1

    def having(self, values: Iterable[str]) -> NDArray[np.bool_]:
        """The rows whose label has one of these values."""
        wanted = np.zeros(self.count, dtype=np.bool_)
        wanted[[self._numbers[value] for value in values if value in self._numbers]] = True
        having: NDArray[np.bool_] = wanted[self.ids]
        return having

    def sums(self, counts: Amounts) -> Amounts:
        """For each row, the total of `counts` over its domain; 0 for rows that are nowhere."""
        if self.single:
            return counts * self.somewhere
        totals = np.bincount(self.ids, weights=counts, minlength=self.count).astype(np.int64)
        totals[NOWHERE] = 0
        summed: Amounts = totals[self.ids]
        return summed

    def without(self, counts: Amounts) -> NDArray[np.bool_]:
        """The rows in whose domains none is counted; rows that are nowhere share a domain with nobody."""
        free: NDArray[np.bool_] = (counts if self.single else self.sums(counts)) == 0
        return free | self.nowhere


class Totals:
    """By domain number, how many of those counted by row there are; brought up to date for changed rows only.

    It holds while no node changes, for counts that change with pods alone.
    """

    def __init__(self, nodes: NodeTable, domain: Domain, included: NDArray[np.bool_]) -> None:
        self._changes = nodes.load_changes
        self._domains = domain.count
        self._ids = np.where(included, domain.ids, domain.count)  # the last number is for what is left out
        self._cursor = -1
        self._counts: Amounts = np.zeros(0, dtype=np.int64)  # when last looked at
        self._totals: Amounts = np.zeros(0, dtype=np.int64)

    def of(self, counts: Amounts) -> Amounts:
        """The totals of these counts, which must be the ones given before as they are now."""
        if self._cursor != self._changes.end:
            changed = self._changes.since(self._cursor) if self._cursor >= 0 else None
            if changed is None or len(changed) > FEW:
                self._add_up(counts)
            else:
                self._take_in(changed, counts)
            self._cursor = self._changes.end
        return self._totals[: self._domains]

    def _add_up(self, counts: Amounts) -> None:
        self._counts = counts.copy()
        self._totals = np.bincount(self._ids, counts, self._domains + 1).astype(np.int64)

    def _take_in(self, changed: list[int], counts: Amounts) -> None:
        for row in changed:
            more = counts.item(row) - self._counts.item(row)
            if more:
                self._counts[row] += more
                self._totals[self._ids.item(row)] += more


class Domains:
    """The domains of every topology key anyone asked for."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._by_key: dict[str, Domain] = {}

    def of(self, key: str) -> Domain:
        domain = self._by_key.get(key)
        if domain is None:
            domain = self._by_key[key] = Domain(key)
            if len(self._by_key) > KEPT_KEYS:
                del self._by_key[next(iter(self._by_key))]
        if domain.cursor != self._nodes.node_changes.end:
            self._refresh(domain)
        return domain

    def _refresh(self, domain: Domain) -> None:
        domain.ids = padded(domain.ids, len(self._nodes.nodes))
        if domain.count > 2 * len(self._nodes) + FEW_VALUES:
            domain.renumber()
        for row in self._nodes.rows_changed_since(domain.cursor):
            node = self._nodes.nodes[row]
            domain.ids[row] = NOWHERE if node is None else domain.number(node.labels.get(domain.key))
        domain.nowhere = domain.ids == NOWHERE
        domain.somewhere = ~domain.nowhere
        there = domain.ids[domain.somewhere]
        domain.single = len(np.unique(there)) == len(there)
        domain.cursor = self._nodes.node_changes.end
