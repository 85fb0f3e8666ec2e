"""A rate limit in virtual time."""

from __future__ import annotations

import math


class RateLimiter:
    """A token bucket: one per interval in the long run, with a burst."""

    def __init__(self, interval: float, burst: int) -> None:
        self._interval = interval
        self._slack = burst * interval
        self._turn = -math.inf  # when the next would be due, were they even

    @property
    def next_at(self) -> float:
        return self._turn - self._slack

    def try_accept(self, now: float) -> bool:
        """Takes a token; False when there is none."""
        if now < self._turn - self._slack:
            return False
        self._turn = max(self._turn, now) + self._interval
        return True
