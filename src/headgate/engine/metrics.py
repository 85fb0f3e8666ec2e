"""What the engine measures: numbers, distributions of durations, and extension points at which plugins are observed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar

from msgspec import Struct

from headgate.placement.plugins import NamedPlugin

Bounds = tuple[float, ...]
Labels = tuple[tuple[str, str], ...]

FILTER, POST_FILTER, SCORE, RESERVE = "Filter", "PostFilter", "Score", "Reserve"  # as kube-scheduler's metrics say
ADMISSION = "Admission"  # of workloads, one cycle: no extension point of kube-scheduler, but timed like one
R = TypeVar("R", bound=NamedPlugin)


class Distribution(Struct, frozen=True, gc=False):
    """How many values were at most as large as each bound and larger than the one before; the last are beyond all."""

    bounds: Bounds
    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        return sum(self.counts)


Number = tuple[str, Labels, int | float | Distribution]
"""A metric, its labels sorted by name, and its value."""


class Histogram:
    """A distribution that grows. A value costs the same however many there were."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def add(self, value: float) -> None:
        """Clocks differ a little: what seems to have taken less than no time took none."""
        self._counts[bisect_left(self._bounds, value)] += 1
        if value > 0.0:
            self._total += value

    def take_in(self, other: Histogram) -> None:
        """All that was added to the other, whose bounds begin with the bounds of this one."""
        last = len(self._bounds)
        for index, count in enumerate(other._counts):
            self._counts[min(index, last)] += count
        self._total += other._total

    @property
    def so_far(self) -> Distribution:
        return Distribution(self._bounds, tuple(self._counts), self._total)


class Distributions:
    """One for each name and labels; the bounds go by name."""

    def __init__(self, bounds: Mapping[str, Bounds]) -> None:
        self._bounds = bounds
        self._spreads: dict[tuple[str, Labels], Histogram] = {}

    def observe(self, name: str, labels: Labels, value: float) -> None:
        self._spread(name, labels).add(value)

    def take_in(self, name: str, labels: Labels, other: Histogram) -> None:
        self._spread(name, labels).take_in(other)

    def forget(self, labels: Mapping[str, str]) -> None:
        """What these labels stand for is gone."""
        for at in [at for at in self._spreads if labels.items() <= dict(at[1]).items()]:
            del self._spreads[at]

    def __iter__(self) -> Iterator[tuple[str, Labels, Distribution]]:
        for (name, labels), spread in self._spreads.items():
            yield name, labels, spread.so_far

    def _spread(self, name: str, labels: Labels) -> Histogram:
        spread = self._spreads.get((name, labels))
        if spread is None:
            spread = self._spreads[name, labels] = Histogram(self._bounds[name])
        return spread


class PluginObserver(Protocol):
    """Returns the plugin to use in place of the one given: itself, or one whose calls are timed."""

    def __call__(self, rule: R, point: str, /) -> R: ...


def unwatched(rule: R, _point: str, /) -> R:
    return rule
