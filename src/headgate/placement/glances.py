"""A quick look for a shape seen for the first time: enough good nodes instead of all of them."""

from __future__ import annotations

import numpy as np

from headgate.model.pod import PodShape
from headgate.placement.ranking import UNFIT, RowRules, best_seat

ALL_BELOW = 100  # in clusters smaller than this every node is looked at
KEPT_SHAPES = 4096


class Glances:
    """Looks at a stretch of nodes that moves on with every look, until enough of them will do.

    How many are enough is kube-scheduler's rule: half of them in small clusters, down to one in twenty in large ones,
    and never fewer than 100.
    """

    def __init__(self, rules: RowRules) -> None:
        self._rules = rules
        self._start = 0
        self._seen: dict[PodShape, None] = {}

    def will_do(self, shape: PodShape) -> bool:
        """True for a shape not seen lately in a cluster that is large enough; one that returns deserves a ranking."""
        if len(self._rules.nodes) < ALL_BELOW or self._seen.pop(shape, self) is None:
            return False
        self._seen[shape] = None
        if len(self._seen) > KEPT_SHAPES:
            del self._seen[next(iter(self._seen))]
        return True

    def best(self, shape: PodShape) -> tuple[int, int] | None:
        """The best of enough rows, with its score; None when no row at all will do."""
        rows, enough = len(self._rules.nodes.nodes), self._enough()
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

    def _look(self, shape: PodShape, start: int, stop: int) -> tuple[int, tuple[int, int] | None]:
        scores = self._rules.rate(shape, slice(start, stop))
        top = int(scores.max())
        if top == UNFIT:
            return 0, None
        tied = np.flatnonzero(scores == top) + start
        return int(np.count_nonzero(scores > UNFIT)), (best_seat(self._rules.nodes, tied), top)

    def _enough(self) -> int:
        nodes = len(self._rules.nodes)
        percent = max(5, 50 - nodes // 125)
        return max(100, nodes * percent // 100)
