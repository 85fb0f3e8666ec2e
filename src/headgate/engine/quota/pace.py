"""How fast something may be told: a burst at once, then evenly."""

from __future__ import annotations

import math


class Pace:
    """One in so many seconds in the long run, of which some may run ahead."""

    def __init__(self, seconds: float, ahead: int) -> None:
        self._seconds = seconds
        self._slack = ahead * seconds
        self._turn = -math.inf  # when the next would be due, were they even

    @property
    def next_turn(self) -> float:
        return self._turn - self._slack

    def take(self, now: float) -> bool:
        """Whether one more may be told now; if so, it counts as told."""
        if now < self._turn - self._slack:
            return False
        self._turn = max(self._turn, now) + self._seconds
        return True
