"""Deadlines: when a thing must be looked at again although nothing happens to it, and one timer for the earliest."""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterator
from typing import Generic, Protocol, TypeVar

from headgate.model.effects import WakeAt

K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    """At most one deadline for each key; the last one set counts. Equal deadlines come in the order they were set."""

    def __init__(self) -> None:
        self._set: dict[K, tuple[float, int, K]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0

    def __contains__(self, key: K) -> bool:
        return key in self._set

    def __len__(self) -> int:
        return len(self._set)

    def set(self, key: K, at: float) -> None:
        known = self._set.get(key)
        if known is None or known[0] != at:
            self._sequence += 1
            self._set[key] = entry = at, self._sequence, key
            heapq.heappush(self._heap, entry)
            if len(self._heap) > 2 * len(self._set) + 64:  # most were replaced or dropped
                self._heap = list(self._set.values())
                heapq.heapify(self._heap)

    def drop(self, key: K) -> None:
        self._set.pop(key, None)

    def due(self, now: float) -> list[K]:
        """Removes and returns the keys whose deadline has come, earliest first."""
        due: list[K] = []
        heap = self._heap
        while heap and heap[0][0] <= now:
            entry = heapq.heappop(heap)
            if self._set.get(entry[2]) is entry:
                del self._set[entry[2]]
                due.append(entry[2])
        return due

    def next_deadline(self) -> float | None:
        """The earliest deadline; None when there is none."""
        heap = self._heap
        while heap and self._set.get(heap[0][2]) is not heap[0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None


class HasDeadline(Protocol):
    def next_deadline(self) -> float | None: ...


class Timer:
    """The one timer of a plane: set to the earliest of the deadlines it watches, and again when it has fired."""

    def __init__(self, name: str, *watched: HasDeadline, idle: bool = False) -> None:
        """`idle`: its deadlines are safety nets only, for which nobody needs to be kept awake."""
        self._name = name
        self._watched = watched
        self._idle = idle
        self.at = math.inf  # not after any deadline that was there when it was last set

    def wake_at(self, now: float, *others: float | None) -> Iterator[WakeAt]:
        """Yields a WakeAt when the earliest deadline, these others included, comes before the one that is set."""
        if self.at <= now:
            self.at = math.inf
        earliest = self.at
        for at in others:
            if at is not None and at < earliest:
                earliest = at
        for each in self._watched:
            at = each.next_deadline()
            if at is not None and at < earliest:
                earliest = at
        if earliest < self.at:
            self.at = max(earliest, now)
            yield WakeAt(self.at, self._name, idle=self._idle)
