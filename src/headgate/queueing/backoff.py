"""Exponential back-off."""

from __future__ import annotations

from msgspec import Struct

ENOUGH_DOUBLINGS = 64  # beyond any limit anyone sets


class Backoff(Struct, frozen=True):
    """How long to wait after the n-th failure in a row: `initial` seconds, doubled each time, at most `limit`."""

    initial: float
    limit: float

    def after(self, times: int) -> float:
        return min(self.limit, self.initial * 2.0 ** min(times - 1, ENOUGH_DOUBLINGS)) if times else 0.0
