"""Which nodes count as one place: those with the same value of a topology label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.placement.columns import Amounts, padded
from headgate.placement.table import NodeTable

NOWHERE = 0


class Domain:
    """For one topology key, a number for each row; rows without the label are NOWHERE."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.ids: Amounts = np.zeros(0, dtype=np.int64)
        self.somewhere: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.single = False  # every row is a domain of its own, as with host names
        self.cursor = -1
        self._numbers: dict[str, int] = {}

    @property
    def count(self) -> int:
        """One above the largest number given out."""
        return len(self._numbers) + 1

    def number(self, value: str | None) -> int:
        return NOWHERE if value is None else self._numbers.setdefault(value, len(self._numbers) + 1)

    def sums(self, counts: Amounts) -> Amounts:
        """For each row, the total of `counts` over its domain; 0 for rows that are nowhere."""
        if self.single:
            return counts * self.somewhere
        totals = np.bincount(self.ids, weights=counts, minlength=self.count).astype(np.int64)
        totals[NOWHERE] = 0
        summed: Amounts = totals[self.ids]
        return summed


class Domains:
    """The domains of every topology key anyone asked for."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._by_key: dict[str, Domain] = {}

    def of(self, key: str) -> Domain:
        domain = self._by_key.setdefault(key, Domain(key))
        if domain.cursor != self._nodes.node_changes.end:
            self._refresh(domain)
        return domain

    def _refresh(self, domain: Domain) -> None:
        domain.ids = padded(domain.ids, len(self._nodes.nodes))
        for row in self._nodes.rows_changed_since(domain.cursor):
            node = self._nodes.nodes[row]
            domain.ids[row] = NOWHERE if node is None else domain.number(node.labels.get(domain.key))
        domain.somewhere = domain.ids != NOWHERE
        there = domain.ids[domain.somewhere]
        domain.single = len(np.unique(there)) == len(there)
        domain.cursor = self._nodes.node_changes.end
