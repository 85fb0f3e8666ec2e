"""What every controller of the world is: events in, effects out, as the engine itself; and when it tries again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from headgate.model.effects import Effect
from headgate.model.events import Event, WriteError
from headgate.model.keys import Kind

PERMANENT = frozenset({WriteError.REFUSED, WriteError.GONE})
"""Write errors after which the same write is not tried again."""
FIRST_BACKOFF = 10.0  # seconds before a failed pod is replaced; doubles with each failure
LONGEST_BACKOFF = 600.0


class Controller(Protocol):
    """A component of the cluster other than Headgate. Level-triggered: the same event twice changes nothing."""

    @property
    def reads(self) -> tuple[Kind, ...]:
        """The kinds it watches."""

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        """The effects it asks for after these events; their outcomes are events of a later batch."""


def backoff_after(failures: Collection[float]) -> float:
    """When the next pod may be created after failures at these times."""
    if not failures:
        return 0.0
    return max(failures) + min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** (len(failures) - 1))
