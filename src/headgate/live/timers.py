"""Waking the engine at the times it asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headgate.model.effects import WakeAt
from headgate.model.events import TimerFired

LONGEST_WAIT = 86_400.0  # seconds, after which a timer that is set for later is set anew: loops cannot wait for ever


class Timers:
    """Each (timer, time) asked for fires once; asking twice for the same changes nothing."""

    def __init__(self, wall: Callable[[], float], tell: Callable[[TimerFired], None]) -> None:
        self._wall, self._tell = wall, tell
        self._set: dict[WakeAt, asyncio.TimerHandle] = {}

    def set(self, wake: WakeAt) -> None:
        if wake not in self._set:
            delay = min(LONGEST_WAIT, max(0.0, wake.at - self._wall()))
            self._set[wake] = asyncio.get_running_loop().call_later(delay, self._fire, wake)

    def clear(self) -> None:
        for handle in self._set.values():
            handle.cancel()
        self._set.clear()

    def _fire(self, wake: WakeAt) -> None:
        """The loop's clock and the wall clock differ a little: never early by the engine's clock."""
        del self._set[wake]
        if self._wall() < wake.at:
            self.set(wake)
        else:
            self._tell(TimerFired(wake.timer))
