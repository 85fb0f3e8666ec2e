"""How long things took, counted by how long: what a histogram shows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from msgspec import Struct

Bounds = tuple[float, ...]
Labels = tuple[tuple[str, str], ...]


class Distribution(Struct, frozen=True, gc=False):
    """How many values were at most as large as each bound and larger than the one before; the last are beyond all."""

    bounds: Bounds
    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        return sum(self.counts)


class Distributions:
    """One for each name and labels; the bounds go by name. A value costs the same however many there were."""

    def __init__(self, bounds: Mapping[str, Bounds]) -> None:
        self._bounds = bounds
        self._counts: dict[tuple[str, Labels], list[int]] = {}
        self._totals: dict[tuple[str, Labels], float] = {}

    def observe(self, name: str, labels: Labels, value: float) -> None:
        """Clocks differ a little: what seems to have taken less than no time took none."""
        bounds, value, at = self._bounds[name], max(0.0, value), (name, labels)
        if at not in self._counts:
            self._counts[at], self._totals[at] = [0] * (len(bounds) + 1), 0.0
        self._counts[at][bisect_left(bounds, value)] += 1
        self._totals[at] += value

    def forget(self, labels: Mapping[str, str]) -> None:
        """What these labels stand for is gone."""
        for at in [at for at in self._counts if labels.items() <= dict(at[1]).items()]:
            del self._counts[at], self._totals[at]

    def __iter__(self) -> Iterator[tuple[str, Labels, Distribution]]:
        for (name, labels), counts in self._counts.items():
            yield name, labels, Distribution(self._bounds[name], tuple(counts), self._totals[name, labels])
