"""When workloads must be looked at again though nothing happens to them, and one alarm for whatever comes first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from headgate.model.effects import WakeAt
from headgate.model.keys import Key

TIMER = "quota"


class Deadlines:
    """One time for each workload; the last one said counts."""

    def __init__(self) -> None:
        self._times: dict[Key, float] = {}
        self._line: list[tuple[float, Key]] = []
        self._alarm: float | None = None

    def put(self, key: Key, at: float | None, now: float) -> None:
        """For one just looked at. All that time could change by now was seen then, so only what is to come counts."""
        if at is None or at <= now:
            self._times.pop(key, None)
        elif self._times.get(key) != at:
            self._times[key] = at
            heapq.heappush(self._line, (at, key))

    def drop(self, key: Key) -> None:
        self._times.pop(key, None)

    def due(self, now: float) -> list[Key]:
        """Those whose time has come, once each."""
        due = []
        while self._line and self._line[0][0] <= now:
            at, key = heapq.heappop(self._line)
            if self._times.get(key) == at:
                del self._times[key]
                due.append(key)
        return due

    def wake_later(self, others: Iterable[float | None], now: float) -> Iterator[WakeAt]:
        """A later alarm is set when the earlier one has rung."""
        if self._alarm is not None and self._alarm <= now:
            self._alarm = None
        while self._line and self._times.get(self._line[0][1]) != self._line[0][0]:
            heapq.heappop(self._line)
        earliest = self._line[0][0] if self._line else None
        for at in others:
            if at is not None and (earliest is None or at < earliest):
                earliest = at
        if earliest is not None and (self._alarm is None or earliest < self._alarm):
            self._alarm = max(earliest, now)
            yield WakeAt(self._alarm, TIMER)
