"""The planes of the engine: each decides about its own objects, and they know each other only by what is observed.

What several of them report in the same words is here too: requests that are too large to be counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from headgate.engine.journal import Entry
from headgate.engine.metrics import Number
from headgate.model.effects import Effect, EmitEvent, EventType, FleetEffect
from headgate.model.events import Event
from headgate.model.keys import Key, Kind, Target
from headgate.model.resources import LARGEST_REQUEST, amount_text


class Plane(Protocol):
    """`absorb` takes what is now true, `decide` yields what to do about it.

    A plane is told of objects of the kinds it reads, of outcomes of writes to them, also of those that another plane
    made, which it passes over, and of its own timer. It is asked to decide when it was told something.
    Only the fleet plane is told of other clusters, and only it yields what concerns them.
    """

    @property
    def deciding(self) -> Key | None:
        """The object that `decide` is busy with, or was when it raised, where that is known."""

    @property
    def reads(self) -> tuple[Kind, ...]:
        """The kinds it must observe; it writes to no others."""

    @property
    def timer(self) -> str:
        """The name of its timer."""

    def absorb(self, event: Event, now: float) -> Iterable[Effect | FleetEffect]: ...

    def decide(self, now: float) -> Iterator[Effect | FleetEffect]: ...

    def check(self) -> None:
        """What must hold after every step, for what this step touched."""

    def collect(self) -> Iterator[Number]:
        """What can be counted or measured now, by metric, labels and value."""


def saturated_entry(key: Key, names: tuple[str, ...], now: float) -> Entry:
    most = ", ".join(f"{name} {amount_text(name, LARGEST_REQUEST)}" for name in names)
    message = f"requests more than can be counted, which no node has; it counts as {most}"
    return Entry(now, key, "saturate", "RequestsTooLarge", message)


def saturated_event(target: Target, entry: Entry) -> EmitEvent:
    return EmitEvent(target, EventType.WARNING, entry.reason, "Scheduling", entry.message, entry.at)
