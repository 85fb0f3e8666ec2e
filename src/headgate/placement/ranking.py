"""All nodes ranked for one shape of pod, kept up to date change by change.

A shape seen for the first time gets a quick look: enough good nodes of a sample instead of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from headgate.model.pod import PodShape
from headgate.model.resources import Resources
from headgate.placement.filters import Verdicts
from headgate.placement.plugins import Each, LoadFilter, Mask, Rows, RowScore, SkewLimit
from headgate.placement.scores import BALANCED_RESOURCES
from headgate.placement.table import PODS, Amounts, NodeTable

NOTHING = Resources()
KEPT_SHAPES = 4096


class RankedRows(Struct, frozen=True):
    """Rows in the order in which pods would be placed on them if nothing but their rank mattered."""

    rows: NDArray[np.intp]
    places: Amounts
    draws: Amounts


class SpreadSequence:
    """Places one pod after the other: each time on the best of the next rows of those cells that may get one more.

    A cell is all rows that every limit treats alike: so its own rows are always taken in their order.
    """

    def __init__(self, ranked: RankedRows, limits: Sequence[SkewLimit]) -> None:
        self._ranked = ranked
        cells, first = _cells(ranked.rows, limits)
        self._order = np.argsort(cells, kind="stable")
        self._ends = np.cumsum(np.bincount(cells, minlength=len(first)))
        self._next = self._ends - np.bincount(cells, minlength=len(first))
        self._counts = [_LimitCount(limit, ranked.rows[first]) for limit in limits]
        self._places = ranked.places[self._order[self._next]]  # of the next row of each cell
        self._draws = ranked.draws[self._order[self._next]]

    def take(self, count: int) -> NDArray[np.intp]:
        """The indexes of so many ranked rows; fewer when no cell may get one more."""
        taken: list[int] = []
        while len(taken) < count and (cell := self._best()) is not None:
            taken.append(self._order.item(self._next.item(cell)))
            self._advance(cell)
        return np.array(taken, dtype=np.intp)

    def _best(self) -> int | None:
        places = self._places
        for count in self._counts:
            places = only(places, count.open())
        return foremost(places, self._draws)

    def _advance(self, cell: int) -> None:
        for count in self._counts:
            count.add(cell)
        self._next[cell] += 1
        if self._next[cell] == self._ends[cell]:
            self._places[cell] = NO_PLACE
            return
        chosen = self._order[self._next[cell]]
        self._places[cell], self._draws[cell] = self._ranked.places[chosen], self._ranked.draws[chosen]


class _LimitCount:
    """One limit as rows are taken, by cell."""

    def __init__(self, limit: SkewLimit, rows: NDArray[np.intp]) -> None:
        self._limit = limit
        self._totals = limit.totals.copy()
        self._ids = limit.ids[rows]
        self._counted = limit.counted[rows]

    def open(self) -> Mask:
        compared = self._limit.compared
        fewest = self._totals[compared].min() if len(compared) else 0
        may_grow: Mask = self._totals <= fewest + self._limit.ahead
        return may_grow[self._ids]

    def add(self, cell: int) -> None:
        if self._counted[cell]:
            self._totals[self._ids[cell]] += 1


def _cells(rows: NDArray[np.intp], limits: Sequence[SkewLimit]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """For each of the rows the number of its cell, and by cell the index of its first row."""
    traits = [limit.ids[rows] * 2 + limit.counted[rows] for limit in limits]
    cells = np.zeros(len(rows), dtype=np.intp)
    for trait in traits:
        _, first, cells = np.unique(cells * (trait.max() + 1) + trait, return_index=True, return_inverse=True)
    return cells, first


DRAW_BITS = 26
CROWD_BITS = 20  # more than enough for the pods on one node
SCORE_SHIFT = CROWD_BITS + DRAW_BITS  # leaves 17 bits for scores, which all rules with the highest weights do not fill
SHORTENING = 63 - DRAW_BITS  # of the draw its first bits
LEAST_CROWD, FIRST_DRAW = (1 << CROWD_BITS) - 1, (1 << DRAW_BITS) - 1
NO_PLACE = 0


def place_of(nodes: NodeTable, rows: Rows, scores: Each, already: Each = 0) -> Each:
    """The higher the better; none above NO_PLACE where the score is below 0. `already` more pods are imagined there."""
    draw = nodes.draws.item(rows) if type(rows) is int else nodes.draws[rows]
    crowd = LEAST_CROWD - nodes.requested.at(PODS, rows) - already
    return (scores << SCORE_SHIFT) + (crowd << DRAW_BITS) + (FIRST_DRAW - (draw >> SHORTENING))


def score_of(place: Each) -> Each:
    return place >> SCORE_SHIFT


def raised(places: Amounts, points: Amounts) -> Amounts:
    """The same places with so many points more."""
    return places + (points << SCORE_SHIFT)


def foremost(places: Amounts, draws: Amounts) -> int | None:
    """The index of the highest place, None if there is none; where draws begin alike, all of their bits count."""
    first = int(places.argmax())
    top = places.item(first)
    if top <= NO_PLACE:
        return None
    later = places[first + 1 :]
    if not len(later) or later.item(later.argmax()) < top:
        return first
    tied: NDArray[np.intp] = (places == top).nonzero()[0]
    return tied.item(draws[tied].argmin())


def only(places: Amounts, allowed: Mask) -> Amounts:
    """The same places, and none where not allowed."""
    return places * allowed


UNFIT = -1
FEW = 12  # changed rows up to which judging one by one is faster than all at once


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

    def rate_one(self, shape: PodShape, row: int) -> int:
        """As `rate` for a single row that suits the shape: most pods ask for no more than that."""
        for rule in self.load_filters:
            for _, met in rule.demands(shape, self.nodes, row, 0):
                if not met:
                    return UNFIT
        total = 0
        for score, weight in self.scores:
            total += weight * score.scores(shape, self.nodes, row, 0)
        return int(total)

    def fit(self, shape: PodShape, rows: Rows, already: Each) -> Each:
        """Which of the rows can run the shape."""
        fit = self.suits(shape, rows)
        for rule in self.load_filters:
            for _, met in rule.demands(shape, self.nodes, rows, already):
                fit = fit & met
        return fit

    def suits(self, shape: PodShape, rows: Rows) -> Each:
        """Which of the rows have a node that will do for what it is, whatever runs there."""
        suits: Each = self.nodes.alive.item(rows) if type(rows) is int else self.nodes.alive[rows]
        for verdicts in self.node_filters:
            passes = verdicts.passes(shape, rows)
            if passes is not None:
                suits = suits & passes
        return suits

    def capacity(self, shape: PodShape, most: int) -> Amounts:
        """How many pods of the shape each row can take, counted up to `most`."""
        everything = slice(0, len(self.nodes.nodes))
        fitting = np.zeros(len(self.nodes.nodes), dtype=np.int64)
        for bit in reversed(range(most.bit_length())):
            more = fitting + (1 << bit)
            fitting = np.where((more <= most) & self.fit(shape, everything, more - 1), more, fitting)
        return fitting


class Ranking:
    """A place for every row, brought up to date for changed rows only."""

    def __init__(self, shape: PodShape, rules: RowRules) -> None:
        self._shape = shape
        self._rules = rules
        self.places: Amounts = np.zeros(0, dtype=np.int64)
        self._suits: Mask = np.zeros(0, dtype=np.bool_)
        self._late: Mask = np.zeros(0, dtype=np.bool_)  # rows that changed while nobody asked about them
        self._cursor = self._node_cursor = -1

    def best(self) -> tuple[int, int] | None:
        """The row with the highest place, and its score."""
        self.refresh()
        row = foremost(self.places, self._rules.nodes.draws)
        return None if row is None else (row, score_of(self.places.item(row)))

    def plan(self, count: int, most: Amounts | None = None, limits: Sequence[SkewLimit] = ()) -> list[tuple[int, int]]:
        """The rows that so many pods of the shape would get, one after the other, each with its score.

        What `best` would say if each pod were put on its node before the next is placed; fewer when capacity runs out.
        `most` limits how many each row may get, `limits` how many those in one domain may.
        """
        self.refresh()
        rows = self._foremost(len(self.places) if limits else count, most)
        depth = count // max(1, len(rows)) + 2  # how many pods on one row are imagined
        while len(rows):
            ranked, levels = self._ranked(rows, min(depth, count), most)
            taken = SpreadSequence(ranked, limits).take(count) if limits else slice(count)
            if depth >= count or levels[taken].max(initial=0) < depth - 1:
                scores = score_of(ranked.places[taken])
                return list(zip(ranked.rows[taken].tolist(), scores.tolist(), strict=True))
            depth *= 2
        return []

    def _ranked(self, rows: NDArray[np.intp], depth: int, most: Amounts | None) -> tuple[RankedRows, NDArray[np.intp]]:
        """The rows for pods of the shape if none gets more than `depth`, and how many its row had before each.

        A row's turn comes no sooner than the turn before it, however good it is then: so it comes with the worst of all
        its turns so far, and of equal ones the earlier turn goes first.
        """
        nodes, turns = self._rules.nodes, np.arange(depth)[:, np.newaxis]
        scores: Amounts = self._rules.rate(self._shape, rows, turns)
        open_ = np.logical_and.accumulate(scores > UNFIT, axis=0)
        if most is not None:
            open_ &= turns < most[rows]
        places = place_of(nodes, rows, scores, turns)
        levels, indexes = np.nonzero(open_)
        draws, worst = nodes.draws[rows][indexes], np.minimum.accumulate(places, axis=0)[levels, indexes]
        order = np.lexsort((levels, indexes, draws, -worst))
        levels, indexes = levels[order], indexes[order]
        return RankedRows(rows[indexes], places[levels, indexes], draws[order]), levels

    def _foremost(self, count: int, most: Amounts | None) -> NDArray[np.intp]:
        """The rows that come first when asked in order; no other can be among the first `count` picks."""
        open_ = self.places > NO_PLACE
        fit = np.flatnonzero(open_ if most is None else open_ & (most > 0))
        if len(fit) <= count:
            return fit
        places = self.places[fit]
        first: NDArray[np.intp] = fit[places >= np.partition(places, -count)[-count]]
        return first

    def refresh(self, asked: Mask | None = None) -> None:
        """Take in what changed since the last look, on the rows asked about; the others may go on waiting for that."""
        nodes = self._rules.nodes
        known = self._cursor if len(self.places) == len(nodes.nodes) else -1
        changed = nodes.load_changes.since(known) if known >= 0 else None
        self._cursor = nodes.load_changes.end
        if changed is None:
            self.places = self._judge(slice(0, len(nodes.nodes)))
            self._late = np.zeros(len(nodes.nodes), dtype=np.bool_)
        elif len(rows := self._due(changed, asked)) > FEW:
            self.places[rows] = self._judge(rows)
        elif len(rows):
            self._judge_each(rows.tolist())

    def _due(self, changed: list[int], asked: Mask | None) -> NDArray[np.intp]:
        """The rows asked about that changed since they were judged."""
        for row in changed:
            self._late[row] = True
        due: NDArray[np.intp] = (self._late if asked is None else self._late & asked).nonzero()[0]
        self._late[due] = False
        return due

    def _judge(self, rows: Rows) -> Amounts:
        places: Amounts = place_of(self._rules.nodes, rows, self._rules.rate(self._shape, rows))
        return places

    def _judge_each(self, rows: list[int]) -> None:
        nodes = self._rules.nodes
        if self._node_cursor != nodes.node_changes.end:
            self._suits = self._rules.suits(self._shape, slice(0, len(nodes.nodes)))
            self._node_cursor = nodes.node_changes.end
        for row in rows:
            score = self._rules.rate_one(self._shape, row) if self._suits.item(row) else UNFIT
            self.places[row] = place_of(nodes, row, score)


class RequestBatch:
    """The amounts of several pods, one line a pod. Rules read it as they read one pod's amounts."""

    def __init__(self, amounts: Sequence[Resources]) -> None:
        names = sorted({name for each in amounts for name, _ in each.items})
        self.items = tuple((name, _line_each(name, amounts)) for name in names)
        self._lines = dict(self.items)
        self._none = np.zeros((len(amounts), 1), dtype=np.int64)

    def __getitem__(self, name: str) -> Amounts:
        return self._lines.get(name, self._none)

    def asks_for(self, name: str) -> bool:
        return name in self._lines


def _line_each(name: str, amounts: Sequence[Resources]) -> Amounts:
    return np.array([[each[name]] for each in amounts], dtype=np.int64)


def bundled(shapes: Sequence[PodShape]) -> PodShape:
    """One shape that stands for all of them, in their order."""
    requests, scored = (
        RequestBatch([each.requests for each in shapes]),
        RequestBatch([each.scored_requests for each in shapes]),
    )
    return structs.replace(shapes[0], requests=cast(Resources, requests), scored_requests=cast(Resources, scored))


def bundles_with(first: PodShape, other: PodShape) -> bool:
    """Whether the two differ in nothing but amounts, of which both ask for cpu and memory."""
    if not all(shape.requests.asks_for(name) for shape in (first, other) for name in BALANCED_RESOURCES):
        return False
    bare = structs.replace(other, requests=first.requests, scored_requests=first.scored_requests)
    return bare == first and not first.ports


ALL_BELOW = 100  # in clusters smaller than this every node is looked at
STRETCH = 128  # nodes each pod looks at when several look together
MOST_TOGETHER = 32


class SampledNodes:
    """Looks at a stretch of nodes that moves on with every look, until enough of them will do.

    How many are enough is kube-scheduler's rule: the given percentage, or for 0 half of them in small clusters down to
    one in twenty in large ones; never fewer than 100.
    """

    def __init__(self, rules: RowRules, percentage: int = 0) -> None:
        self._rules = rules
        self._percentage = percentage
        self._start = 0
        self._seen: dict[PodShape, None] = {}

    def will_do(self, shape: PodShape) -> bool:
        """True for a shape not seen lately in a cluster that is large enough; one that returns deserves a ranking."""
        if self._looks_at_all() or self._seen.pop(shape, self) is None:
            return False
        self._seen[shape] = None
        if len(self._seen) > KEPT_SHAPES:
            del self._seen[next(iter(self._seen))]
        return True

    def best(self, shape: PodShape) -> tuple[int, int] | None:
        """The best of enough rows, with its score; None when no row at all will do."""
        rows, enough = self._rules.nodes.extent, self._enough()
        looks: list[tuple[NDArray[np.intp], Amounts]] = []
        fit = looked = 0
        while fit < enough and looked < rows:
            stop = min(self._start + enough, rows, self._start + rows - looked)
            places = self._places(shape, slice(self._start, stop))
            looks.append((np.arange(self._start, stop), places))
            fit, looked = fit + int(np.count_nonzero(places > NO_PLACE)), looked + len(places)
            self._start = stop % rows
        seen, places = (np.concatenate(parts) for parts in zip(*looks, strict=True))
        return self._winner(seen, places)

    def most_together(self) -> int:
        """How many pods can look at once without two looking at the same node; 1 where each must look further."""
        if self._looks_at_all() or self._percentage:
            return 1
        return max(1, min(MOST_TOGETHER, self._rules.nodes.extent // STRETCH))

    def best_of_each(self, shapes: Sequence[PodShape]) -> list[tuple[int, int] | None]:
        """For pods that differ only in amounts, the best of a stretch of its own for each; None where nothing will do.

        No two look at the same node, so what one gets does not change what the next finds.
        """
        rows = self._rules.nodes.extent
        stretches = (self._start + np.arange(len(shapes) * STRETCH).reshape(len(shapes), STRETCH)) % rows
        self._start = (self._start + len(shapes) * STRETCH) % rows
        places = self._places(bundled(shapes), stretches)
        return [self._winner(seen, line) for seen, line in zip(stretches, places, strict=True)]

    def _places(self, shape: PodShape, rows: Rows) -> Amounts:
        places: Amounts = place_of(self._rules.nodes, rows, self._rules.rate(shape, rows))
        return places

    def _winner(self, rows: NDArray[np.intp], places: Amounts) -> tuple[int, int] | None:
        """The row with the highest of these places, and its score."""
        index = foremost(places, self._rules.nodes.draws[rows])
        return None if index is None else (rows.item(index), score_of(places.item(index)))

    def _enough(self) -> int:
        nodes = len(self._rules.nodes)
        percent = self._percentage or max(5, 50 - nodes // 125)
        return max(ALL_BELOW, nodes * percent // 100)

    def _looks_at_all(self) -> bool:
        return len(self._rules.nodes) < ALL_BELOW or self._percentage >= 100
