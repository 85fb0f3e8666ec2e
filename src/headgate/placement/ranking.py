"""All nodes ranked for one shape of pod, kept up to date change by change."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.model.pod import PodShape
from headgate.placement.columns import Amounts
from headgate.placement.plugins import Each, LoadFilter, Rows, RowScore
from headgate.placement.table import PODS, NodeTable
from headgate.placement.verdicts import Verdicts

UNFIT = -1
CROWD_BITS = 20  # more than enough for the pods on one node
FEW = 8  # changed rows up to which judging one by one is faster than all at once


Picks = tuple[NDArray[np.intp], NDArray[np.intp], Amounts]


class RowRules:
    """The rules of one profile that judge each node by itself."""

    def __init__(
        self,
        nodes: NodeTable,
        node_filters: tuple[Verdicts, ...],
        load_filters: tuple[LoadFilter, ...],
        scores: tuple[tuple[RowScore, int], ...],
    ) -> None:
        self.nodes = nodes
        self.node_filters = node_filters
        self.load_filters = load_filters
        self.scores = scores

    def rate(self, shape: PodShape, rows: Rows, already: Each = 0) -> Each:
        """The weighted score of each row, UNFIT where the shape cannot run."""
        fit = self.fit(shape, rows, already)
        total: Each = 0
        for rule, weight in self.scores:
            total = total + weight * rule.scores(shape, self.nodes, rows, already)
        return (total - UNFIT) * fit + UNFIT

    def fit(self, shape: PodShape, rows: Rows, already: Each) -> Each:
        """Which of the rows can run the shape."""
        fit: Each = self.nodes.alive.item(rows) if type(rows) is int else self.nodes.alive[rows]
        for verdicts in self.node_filters:
            passes = verdicts.passes(shape, rows)
            if passes is not None:
                fit = fit & passes
        for rule in self.load_filters:
            for _, met in rule.demands(shape, self.nodes, rows, already):
                fit = fit & met
        return fit

    def room(self, shape: PodShape, most: int) -> Amounts:
        """How many pods of the shape each row can take, counted up to `most`."""
        everything = slice(0, len(self.nodes.nodes))
        room = np.zeros(len(self.nodes.nodes), dtype=np.int64)
        for bit in reversed(range(most.bit_length())):
            more = room + (1 << bit)
            room = np.where((more <= most) & self.fit(shape, everything, more - 1), more, room)
        return room


class Ranking:
    """A score for every row, brought up to date for changed rows only."""

    def __init__(self, shape: PodShape, rules: RowRules) -> None:
        self._shape = shape
        self._rules = rules
        self.scores: Amounts = np.zeros(0, dtype=np.int64)
        self._cursor = -1

    def best(self) -> tuple[int, int] | None:
        """The row with the highest score, and that score; equal ones are settled by their seats."""
        self.refresh()
        top = int(self.scores.max(initial=UNFIT))
        return None if top == UNFIT else (best_seat(self._rules.nodes, np.flatnonzero(self.scores == top)), top)

    def plan(self, count: int, most: Amounts | None = None) -> list[tuple[int, int]]:
        """The rows that so many pods of the shape would get, one after the other, each with its score.

        What `best` would say if each pod were put on its node before the next is asked for; fewer when room runs out.
        `most` limits how many each row may get.
        """
        self.refresh()
        rows = self._foremost(count, most)
        depth = count // max(1, len(rows)) + 2  # how many pods on one row are imagined
        while len(rows):
            levels, picked, scores = self._picks(rows, min(depth, count), count, most)
            if depth >= count or levels.max(initial=0) < depth - 1:
                return list(zip(rows[picked].tolist(), scores.tolist(), strict=True))
            depth *= 2
        return []

    def _picks(self, rows: NDArray[np.intp], depth: int, count: int, most: Amounts | None) -> Picks:
        """The first picks if no row gets more than `depth`: how many the row had before, its index, its score.

        A row's turn comes no sooner than the turn before it, however good it is then: so its rank is the worst of all
        its turns so far, and of equal ones the earlier turn goes first.
        """
        nodes, turns = self._rules.nodes, np.arange(depth)[:, np.newaxis]
        scores: Amounts = self._rules.rate(self._shape, rows, turns)
        open_ = np.logical_and.accumulate(scores > UNFIT, axis=0)
        if most is not None:
            open_ &= turns < most[rows]
        ranks = np.maximum.accumulate((-scores << CROWD_BITS) + nodes.requested[PODS][rows] + turns, axis=0)
        levels, indexes = np.nonzero(open_)
        order = np.lexsort((levels, indexes, nodes.draws[rows][indexes], ranks[levels, indexes]))[:count]
        levels, indexes = levels[order], indexes[order]
        return levels, indexes, scores[levels, indexes]

    def _foremost(self, count: int, most: Amounts | None) -> NDArray[np.intp]:
        """The rows that come first when asked in order; no other can be among the first `count` picks."""
        nodes, open_ = self._rules.nodes, self.scores > UNFIT
        fit = np.flatnonzero(open_ if most is None else open_ & (most > 0))
        if len(fit) <= count:
            return fit
        places = (-self.scores[fit] << 47) | (nodes.requested[PODS][fit] << 31) | (nodes.draws[fit] >> 32)
        foremost: NDArray[np.intp] = fit[places <= np.partition(places, count - 1)[count - 1]]
        return foremost

    def refresh(self) -> None:
        """Take in what changed since the last look."""
        nodes = self._rules.nodes
        if len(self.scores) != len(nodes.nodes):
            self._cursor = -1
        if self._cursor == nodes.load_changes.end:
            return
        changes = nodes.load_changes.since(self._cursor) if self._cursor >= 0 else None
        if changes is None:
            self.scores = np.array(self._rules.rate(self._shape, slice(0, len(nodes.nodes))), dtype=np.int64)
        else:
            self._judge(sorted(set(changes)))
        self._cursor = nodes.load_changes.end

    def _judge(self, rows: list[int]) -> None:
        if len(rows) > FEW:
            several = np.array(rows, dtype=np.intp)
            self.scores[several] = self._rules.rate(self._shape, several)
            return
        for row in rows:
            self.scores[row] = self._rules.rate(self._shape, row)


def best_seat(nodes: NodeTable, tied: NDArray[np.intp]) -> int:
    """Of equally good rows the one whose node runs fewer pods, then the one with the smaller draw.

    That depends on nothing but the cluster and the seed, so a restarted process chooses alike.
    """
    crowds = nodes.requested[PODS][tied]
    tied = tied[crowds == crowds.min()]
    return int(tied[nodes.draws[tied].argmin()])
