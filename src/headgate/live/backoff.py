"""How long to wait before trying again, and telling people about an outage once."""

from __future__ import annotations

from collections.abc import Callable

from headgate.live.logs import Log

FIRST_PAUSE = 0.8  # seconds
LONGEST_PAUSE = 30.0  # seconds


class Backoff:
    """Pauses that double up to a limit, each spread by half of itself either way so that clients drift apart."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._next = FIRST_PAUSE

    def pause(self) -> float:
        nominal, self._next = self._next, min(self._next * 2, LONGEST_PAUSE)
        return nominal * (0.5 + self._random())

    def reset(self) -> None:
        self._next = FIRST_PAUSE


class Outages:
    """Says once that something does not work and once that it works again, however many suffer from it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._sufferers: dict[str, dict[str, None]] = {}

    def suffers(self, what: str, who: str, why: str) -> None:
        """`who` cannot go on because `what` fails."""
        known = self._sufferers.setdefault(what, {})
        if not known:
            self._log.warning(f"{what}: {why}; trying again until it works")
        known[who] = None

    def recovers(self, who: str) -> None:
        """`who` can go on."""
        for what in self._freed_by(who):
            self._log.info(f"{what}: works again")

    def leaves(self, who: str) -> None:
        """`who` has given up trying, so its trouble counts no more."""
        self._freed_by(who)

    def _freed_by(self, who: str) -> list[str]:
        """What nobody suffers from any more without `who`."""
        freed = [what for what, known in self._sufferers.items() if list(known) == [who]]
        for known in self._sufferers.values():
            known.pop(who, None)
        for what in freed:
            del self._sufferers[what]
        return freed
