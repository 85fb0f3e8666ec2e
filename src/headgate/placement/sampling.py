"""A quick look for a shape seen for the first time: enough good nodes instead of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from headgate.model.pod import PodShape
from headgate.model.resources import Resources
from headgate.placement.columns import Amounts
from headgate.placement.plugins import Rows
from headgate.placement.ranking import NO_PLACE, RowRules, foremost, place_of, score_of
from headgate.placement.scores import BALANCED_RESOURCES

NOTHING = Resources()


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
KEPT_SHAPES = 4096
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
