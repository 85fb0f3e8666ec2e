"""Everything that happened since the engine looked last, gathered into one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from headgate.engine.quarantine import Seen
from headgate.model.events import Gone, Observed, Outcome, TimerFired, Unreadable
from headgate.model.keys import Key, Kind

Sight = Observed | Gone | Unreadable


class Feed:
    """Batches for the engine. The first comes when every kind was listed once, and so holds the whole cluster.

    Of several events about one object only the last is handed over; another object that had the same
    key is another object, so news that it is gone is kept. What waits is bounded by the size of the
    cluster plus the effects under way.
    """

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._unlisted = dict.fromkeys(kinds)
        self._objects: dict[Kind, dict[tuple[Key, str], Sight]] = {kind: {} for kind in self._unlisted}
        self._others: list[TimerFired | Outcome] = []
        self._news = asyncio.Event()

    def observe(self, event: Sight) -> None:
        place = _place(event)
        waiting = self._objects[place[0].kind]
        waiting.pop(place, None)  # the later event takes the later place
        waiting[place] = event
        self._news.set()

    def tell(self, event: TimerFired | Outcome) -> None:
        self._others.append(event)
        self._news.set()

    def listed(self, kind: Kind) -> None:
        """All objects of this kind have been observed."""
        if kind in self._unlisted:
            del self._unlisted[kind]
            self._news.set()

    async def next(self) -> list[Seen]:
        """All that waits, as soon as something waits: observations kind by kind, then timers and outcomes."""
        while self._unlisted or not self._news.is_set():
            self._news.clear()
            await self._news.wait()
        self._news.clear()
        batch: list[Seen] = []
        for waiting in self._objects.values():
            batch.extend(waiting.values())
            waiting.clear()
        batch.extend(self._others)
        self._others.clear()
        return batch


def _place(event: Sight) -> tuple[Key, str]:
    if isinstance(event, Observed):
        return event.object.key, event.object.uid
    return event.key, event.uid
