"""What every rule of the world is: it learns as the engine learns, and asks for effects as the engine does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headgate.model.effects import Effect
from headgate.model.events import Event
from headgate.model.keys import Kind


class Rule(Protocol):
    """One part of a cluster that is not ours. Level-triggered: hearing the same thing twice changes nothing."""

    @property
    def reads(self) -> tuple[Kind, ...]:
        """The kinds it wants to observe."""

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        """What it does about the batch."""
