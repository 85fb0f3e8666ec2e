"""Writes that did not take hold are made anew, from what is known by then, after a rest that grows."""

from __future__ import annotations

from headgate.model.keys import Key
from headgate.queueing.backoff import Backoff


class Rests:
    """A rest for each object; how long it lasts depends on how many there were since a write last took hold."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._tries: dict[Key, int] = {}
        self._until: dict[Key, float] = {}

    def begin(self, key: Key, now: float) -> None:
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        self._until[key] = now + self._backoff.after(tries)

    def cut_short(self, key: Key) -> None:
        """It is written about already; should that fail too, the next rest is longer still."""
        self._until.pop(key, None)

    def forget(self, key: Key) -> None:
        """A write took hold, or none ever will."""
        self._tries.pop(key, None)
        self._until.pop(key, None)

    def over(self, now: float) -> list[Key]:
        """Those whose rest is over, once each."""
        over = [key for key, until in self._until.items() if until <= now] if self._until else []
        for key in over:
            del self._until[key]
        return over

    def next_deadline(self) -> float | None:
        return min(self._until.values()) if self._until else None
