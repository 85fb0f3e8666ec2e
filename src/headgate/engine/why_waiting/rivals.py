"""All others who want quota of a tree, in lines of equals, so that only the first of each has to be looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headgate.model.keys import Key
from headgate.quota.pending_workload import EquivalenceClass, PendingWorkload

Line = tuple[str, str, str, EquivalenceClass]
"""The cluster queue, the local queue by namespace and name, and the class."""


def line_of(one: PendingWorkload) -> Line:
    return one.queue, one.key.namespace, one.workload.queue, one.kind


class Rivals:
    """Nothing in it changes. Those of one local queue and one class stand in one line, in their order."""

    def __init__(self, applicants: Iterable[PendingWorkload] = ()) -> None:
        self._lines: dict[Line, list[PendingWorkload]] = {}
        for one in sorted(applicants, key=lambda one: (one.rank, one.key)):
            self._lines.setdefault(line_of(one), []).append(one)

    def __iter__(self) -> Iterator[PendingWorkload]:
        return (one for line in self._lines.values() for one in line)

    def without(self, key: Key) -> Rivals:
        return Rivals(one for one in self if one.key != key)

    def of(self, queue: str) -> list[PendingWorkload]:
        return [one for line in self._lines.values() if line[0].queue == queue for one in line]

    @property
    def kinds(self) -> list[tuple[PendingWorkload, int]]:
        """The first of each line, and how many stand in it."""
        return [(line[0], len(line)) for line in self._lines.values()]

    def lines(self, is_relevant: Callable[[PendingWorkload], bool]) -> dict[Line, Iterator[PendingWorkload]]:
        """Those who are relevant, one after the other."""
        return {name: filter(is_relevant, line) for name, line in self._lines.items()}
