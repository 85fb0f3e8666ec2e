"""Workloads that must be told why they wait: at once as a rule, but only so many in a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from msgspec import Struct

from headgate.engine.quota.pace import Pace
from headgate.lifecycle.workload.conditions import ConditionUpdate
from headgate.model.keys import Key

AHEAD = 50  # how many may be told at once after a while of silence


class Refusal(Struct, frozen=True, gc=False):
    """The reason and words of the condition QuotaReserved; `also` are other conditions that go with it."""

    reason: str
    message: str
    also: tuple[ConditionUpdate, ...] = ()


class Refusals:
    """Refusals not told yet; a later one takes the place of an earlier one, admission that of both.

    When thousands wait, their places change faster than anybody reads. Writing each change down would slow down
    those who are admitted.
    """

    def __init__(self) -> None:
        self._untold: dict[Key, Refusal] = {}
        self._pace = Pace(seconds=0.125, ahead=AHEAD)

    def note(self, key: Key, refusal: Refusal) -> None:
        self._untold[key] = refusal

    @property
    def untold(self) -> Mapping[Key, Refusal]:
        return self._untold

    def drop(self, key: Key) -> None:
        self._untold.pop(key, None)

    def take(self, now: float, can_be_told: Callable[[Key], bool]) -> Iterator[tuple[Key, Refusal]]:
        """Those that are told now, longest untold first."""
        if now < self._pace.next_turn:
            return
        for key in list(islice(self._untold, AHEAD)):
            if can_be_told(key):
                if not self._pace.take(now):
                    return
                yield key, self._untold.pop(key)

    def next_deadline(self) -> float | None:
        """When the next one can be told."""
        return self._pace.next_turn if self._untold else None
