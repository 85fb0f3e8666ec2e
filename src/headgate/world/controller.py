"""What every controller of the world is: events in, effects out, as the engine itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headgate.model.effects import Effect
from headgate.model.events import Event, WriteError
from headgate.model.keys import Kind

PERMANENT = frozenset({WriteError.REFUSED, WriteError.GONE})
"""Write errors after which the same write is not tried again."""


class Controller(Protocol):
    """A component of the cluster other than Headgate. Level-triggered: the same event twice changes nothing."""

    @property
    def reads(self) -> tuple[Kind, ...]:
        """The kinds it watches."""

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        """The effects it asks for after these events; their outcomes are events of a later batch."""
