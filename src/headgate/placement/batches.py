"""Pods that differ in nothing but what they ask for, judged together: one pass of each rule serves all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from msgspec import structs

from headgate.model.pod import PodShape
from headgate.model.resources import Resources
from headgate.placement.columns import Amounts
from headgate.placement.scores import BALANCED_RESOURCES

NOTHING = Resources()


class Sheaf:
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
    requests, scored = Sheaf([each.requests for each in shapes]), Sheaf([each.scored_requests for each in shapes])
    return structs.replace(shapes[0], requests=cast(Resources, requests), scored_requests=cast(Resources, scored))


def bundles_with(first: PodShape, other: PodShape) -> bool:
    """Whether the two differ in nothing but amounts, of which both ask for cpu and memory."""
    if not all(shape.requests.asks_for(name) for shape in (first, other) for name in BALANCED_RESOURCES):
        return False
    bare = structs.replace(other, requests=first.requests, scored_requests=first.scored_requests)
    return bare == first and not first.ports
