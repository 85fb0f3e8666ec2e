"""Virtual time is a queue, and equal instants keep their order."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

E = TypeVar("E")


@dataclass(slots=True)
class VirtualTime(Generic[E]):
    """A clock that stands still between events and jumps to the next one."""

    now: float = 0.0
    _timers: list[tuple[float, int, E, bool]] = field(default_factory=list)
    _awaited: int = 0
    _sequence: Iterator[int] = field(default_factory=itertools.count)

    def wake(self, at: float, event: E, idle: bool = False) -> None:
        """Sets a timer; one set for the past goes off at once, as a clock that cannot go back must.

        Nobody waits for an idle one.
        """
        heapq.heappush(self._timers, (max(at, self.now), next(self._sequence), event, idle))
        self._awaited += not idle

    @property
    def awaiting(self) -> bool:
        """Whether anything is due some time that is not idle."""
        return self._awaited > 0

    @property
    def next_at(self) -> float | None:
        """When the earliest event is due."""
        return self._timers[0][0] if self._timers else None

    def due(self) -> Iterator[E]:
        """All events of the instant the clock stands at, in order, also those set meanwhile."""
        while self._timers and self._timers[0][0] <= self.now:
            _, _, event, idle = heapq.heappop(self._timers)
            self._awaited -= not idle
            yield event

    def advance(self, to: float) -> None:
        """Lets time pass to an instant at which nothing is due."""
        assert to >= self.now, "time does not go back"
        self.now = to
