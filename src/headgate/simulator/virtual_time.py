"""Virtual time is a queue, and equal instants keep their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Generic, TypeVar

E = TypeVar("E")


@dataclass(slots=True)
class VirtualTime(Generic[E]):
    """A clock that stands still between events and jumps to the next one."""

    now: float = 0.0
    _instants: list[float] = field(default_factory=list)  # a heap of those at which anything is due
    _timers: dict[float, deque[tuple[E, bool]]] = field(default_factory=dict)  # by instant, never none
    _awaited: int = 0

    def wake(self, at: float, event: E, idle: bool = False) -> None:
        """Sets a timer; one set for the past goes off at once, as a clock that cannot go back must.

        Nobody waits for an idle one.
        """
        at = max(at, self.now)
        timers = self._timers.get(at)
        if timers is None:
            timers = self._timers[at] = deque()
            heappush(self._instants, at)
        timers.append((event, idle))
        self._awaited += not idle

    @property
    def awaiting(self) -> bool:
        """Whether anything is due some time that is not idle."""
        return self._awaited > 0

    @property
    def next_at(self) -> float | None:
        """When the earliest event is due."""
        return self._instants[0] if self._instants else None

    def due(self) -> Iterator[E]:
        """All events of the instant the clock stands at, in order, also those set meanwhile."""
        while self._instants and self._instants[0] <= self.now:
            timers = self._timers[self._instants[0]]
            event, idle = timers.popleft()
            if not timers:
                del self._timers[heappop(self._instants)]
            self._awaited -= not idle
            yield event

    def advance(self, to: float) -> None:
        """Lets time pass to an instant at which nothing is due."""
        assert to >= self.now, "time does not go back"
        self.now = to
