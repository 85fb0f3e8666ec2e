"""All nodes ranked for one shape of pod, kept up to date change by change."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from headgate.model.pod import PodShape
from headgate.placement.changes import Change
from headgate.placement.columns import Amounts
from headgate.placement.plugins import Each, LoadFilter, Rows, RowScore
from headgate.placement.table import PODS, NodeTable
from headgate.placement.verdicts import Verdicts

UNFIT = -1
FEW = 8  # changed rows up to which judging one by one is faster than all at once
CALM = 4  # looks in a row with few changes after which a heap pays


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
        fit = self._fit(shape, rows, already)
        total: Each = 0
        for rule, weight in self.scores:
            total = total + weight * rule.scores(shape, self.nodes, rows, already)
        return (total - UNFIT) * fit + UNFIT

    def _fit(self, shape: PodShape, rows: Rows, already: Each) -> Each:
        fit: Each = self.nodes.alive[rows]
        for verdicts in self.node_filters:
            passes = verdicts.passes(shape, rows)
            if passes is not None:
                fit = fit & passes
        for rule in self.load_filters:
            for _, met in rule.demands(shape, self.nodes, rows, already):
                fit = fit & met
        return fit


class Ranking:
    """A score for every row, brought up to date for changed rows only."""

    def __init__(self, shape: PodShape, rules: RowRules) -> None:
        self._shape = shape
        self._rules = rules
        self.scores: Amounts = np.zeros(0, dtype=np.int64)
        self._run: Run | None = None
        self._calm = 0
        self._cursor = -1

    def best(self) -> tuple[int, int] | None:
        """The row with the highest score, and that score; equal ones are settled by their seats."""
        self.refresh()
        if self._run is not None:
            return self._run.best()
        top = int(self.scores.max(initial=UNFIT))
        return None if top == UNFIT else (best_seat(self._rules.nodes, np.flatnonzero(self.scores == top)), top)

    def refresh(self) -> None:
        """Take in what changed since the last look."""
        nodes = self._rules.nodes
        if len(self.scores) != len(nodes.nodes):
            self._cursor = -1
        if self._cursor == nodes.load_changes.end:
            return
        changes = nodes.load_changes.since(self._cursor) if self._cursor >= 0 else None
        if changes is None:
            self._judge(slice(0, len(nodes.nodes)))
        else:
            self._follow(changes)
        self._cursor = nodes.load_changes.end

    def _follow(self, changes: list[Change]) -> None:
        others = {row: None for row, cause in changes if cause is not self._shape and cause != self._shape}
        if len(others) > FEW or (self._run is None and len(changes) > FEW):
            self._judge(np.array(sorted({row for row, _ in changes}), dtype=np.intp))
            return
        self._calm += 1
        if self._run is None and self._calm < CALM:
            for row in {row: None for row, _ in changes}:
                self.scores[row] = self._rules.rate(self._shape, row)
        elif self._run is None:
            self._judge(slice(0, len(self.scores)))
            self._run = Run(self._shape, self._rules, self.scores)
        else:
            self._run.follow([row for row, _ in changes if row not in others], list(others))

    def _judge(self, rows: Rows) -> None:
        self._run, self._calm = None, 0
        if isinstance(rows, slice):
            self.scores = np.zeros(rows.stop, dtype=np.int64)
        self.scores[rows] = self._rules.rate(self._shape, rows)


class Run:
    """The best row for a shape, again and again, while pods of that shape fill the nodes.

    `levels[k]` holds each row's score with k more pods of the shape on it than when the run began; one level is
    computed for all rows at once and serves until some row needs the next.
    """

    def __init__(self, shape: PodShape, rules: RowRules, scores: Amounts) -> None:
        self._shape = shape
        self._rules = rules
        self._scores = scores
        self._levels = [scores.copy()]
        self._taken = np.zeros(len(scores), dtype=np.int64)
        nodes, fit = rules.nodes, np.flatnonzero(scores > UNFIT)
        columns = (-scores[fit], nodes.requested[PODS][fit], nodes.draws[fit], fit)
        self._heap = list(zip(*(column.tolist() for column in columns), strict=True))
        heapq.heapify(self._heap)

    def best(self) -> tuple[int, int] | None:
        pods, draws = self._rules.nodes.requested[PODS], self._rules.nodes.draws
        while self._heap:
            negated, crowd, draw, row = self._heap[0]
            if self._scores[row] == -negated and pods[row] == crowd and draws[row] == draw:
                return row, -negated
            heapq.heappop(self._heap)
        return None

    def follow(self, own: list[int], others: list[int]) -> None:
        """One pod of the shape came to each row of `own`; of `others` anything may have changed."""
        for row in own:
            self._taken[row] += 1
            self._set(row, self._level_score(row))
        for row in others:
            self._judge_anew(row)

    def _level_score(self, row: int) -> int:
        level = int(self._taken[row])
        while len(self._levels) <= level:
            self._levels.append(self._next_level())
        return int(self._levels[level][row])

    def _next_level(self) -> Amounts:
        everything = slice(0, len(self._taken))
        return np.array(self._rules.rate(self._shape, everything, len(self._levels) - self._taken), dtype=np.int64)

    def _judge_anew(self, row: int) -> None:
        self._taken[row] = 0
        for level, scores in enumerate(self._levels):
            scores[row] = self._rules.rate(self._shape, row, level)
        self._set(row, int(self._levels[0][row]))

    def _set(self, row: int, score: int) -> None:
        self._scores[row] = score
        if score > UNFIT:
            nodes = self._rules.nodes
            heapq.heappush(self._heap, (-score, int(nodes.requested[PODS][row]), int(nodes.draws[row]), row))


def best_seat(nodes: NodeTable, tied: NDArray[np.intp]) -> int:
    """Of equally good rows the one whose node runs fewer pods, then the one with the smaller draw.

    That depends on nothing but the cluster and the seed, so a restarted process chooses alike.
    """
    crowds = nodes.requested[PODS][tied]
    tied = tied[crowds == crowds.min()]
    return int(tied[nodes.draws[tied].argmin()])
