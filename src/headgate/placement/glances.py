"""A quick look for a shape seen for the first time: enough good nodes instead of all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headgate.model.pod import PodShape
from headgate.placement.batches import bundled
from headgate.placement.columns import Amounts
from headgate.placement.ranking import UNFIT, RowRules, best_seat

ALL_BELOW = 100  # in clusters smaller than this every node is looked at
KEPT_SHAPES = 4096
STRETCH = 128  # nodes each pod looks at when several look together
MOST_TOGETHER = 32


class Glances:
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
        found: list[tuple[int, int]] = []
        fit = looked = 0
        while fit < enough and looked < rows:
            stop = min(self._start + enough, rows, self._start + rows - looked)
            count, best = self._look(shape, self._start, stop)
            fit, looked = fit + count, looked + stop - self._start
            self._start = stop % rows
            found += [best] if best is not None else []
        if not found:
            return None
        top = max(score for _, score in found)
        tied = np.array([row for row, score in found if score == top], dtype=np.intp)
        return best_seat(self._rules.nodes, tied), top

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
        scores = self._rules.rate(bundled(shapes), stretches)
        return [self._winner(line, row) for line, row in zip(scores, stretches, strict=True)]

    def _winner(self, scores: Amounts, rows: NDArray[np.intp]) -> tuple[int, int] | None:
        top = int(scores.max())
        return None if top == UNFIT else (best_seat(self._rules.nodes, rows[scores == top]), top)

    def _look(self, shape: PodShape, start: int, stop: int) -> tuple[int, tuple[int, int] | None]:
        scores = self._rules.rate(shape, slice(start, stop))
        return int(np.count_nonzero(scores > UNFIT)), self._winner(scores, np.arange(start, stop))

    def _enough(self) -> int:
        nodes = len(self._rules.nodes)
        percent = self._percentage or max(5, 50 - nodes // 125)
        return max(ALL_BELOW, nodes * percent // 100)

    def _looks_at_all(self) -> bool:
        return len(self._rules.nodes) < ALL_BELOW or self._percentage >= 100
