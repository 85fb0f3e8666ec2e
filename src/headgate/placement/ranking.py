"""All nodes ranked for one shape of pod, brought up to date for changed rows only."""

from __future__ import annotations

import numpy as np

from headgate.model.pod import PodShape
from headgate.placement.changes import Rows
from headgate.placement.plugins import LoadFilter, Mask, Score
from headgate.placement.table import Amounts, NodeTable
from headgate.placement.verdicts import Verdicts

UNFIT = -1


class Rules:
    """The filters and weighted scores of one profile, over one table of nodes."""

    def __init__(
        self,
        nodes: NodeTable,
        node_filters: tuple[Verdicts, ...],
        load_filters: tuple[LoadFilter, ...],
        scores: tuple[tuple[Score, int], ...],
    ) -> None:
        self.nodes = nodes
        self.node_filters = node_filters
        self.load_filters = load_filters
        self.scores = scores

    def fitting(self, shape: PodShape, rows: Rows) -> Mask:
        fit: Mask = self.nodes.alive[rows].copy()
        for verdicts in self.node_filters:
            passes = verdicts.passes(shape, rows)
            if passes is not None:
                fit &= passes
        for rule in self.load_filters:
            for _, refused in rule.refusals(shape, self.nodes, rows):
                fit &= ~refused
        return fit

    def score(self, shape: PodShape, rows: Rows) -> Amounts:
        total = np.zeros(len(rows), dtype=np.int64)
        for rule, weight in self.scores:
            total += weight * rule.scores(shape, self.nodes, rows)
        return total


class Ranking:
    """A score for every row, UNFIT where the shape cannot run."""

    def __init__(self, shape: PodShape, rules: Rules) -> None:
        self._shape = shape
        self._rules = rules
        self._scores: Amounts = np.zeros(0, dtype=np.int64)
        self._cursor = -1

    def best(self, lot: int) -> tuple[int, int] | None:
        """The row with the highest score, and that score; equal ones are settled by `lot` and the nodes' names.

        The choice does not depend on the order in which nodes became known, so a restart repeats it.
        """
        self._refresh()
        top = int(self._scores.max(initial=UNFIT))
        if top == UNFIT:
            return None
        tied = np.flatnonzero(self._scores == top)
        return int(tied[_draw(self._rules.nodes.name_hashes[tied], lot)]), top

    def _refresh(self) -> None:
        nodes = self._rules.nodes
        changed = nodes.load_changes.since(self._cursor) if len(self._scores) == len(nodes.nodes) else None
        if changed is None:
            changed = np.arange(len(nodes.nodes), dtype=np.intp)
            self._scores = np.full(len(nodes.nodes), UNFIT, dtype=np.int64)
        if len(changed):
            self._rate(changed)
        self._cursor = nodes.load_changes.end

    def _rate(self, rows: Rows) -> None:
        fit = self._rules.fitting(self._shape, rows)
        self._scores[rows] = np.where(fit, self._rules.score(self._shape, rows), UNFIT)


def _draw(hashes: np.ndarray[tuple[int], np.dtype[np.uint64]], lot: int) -> int:
    """The index that wins the draw: each name mixed with the lot, the smallest wins."""
    if len(hashes) == 1:
        return 0
    mixed = (hashes ^ np.uint64(lot)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    return int((mixed * np.uint64(0xBF58476D1CE4E5B9)).argmin())
