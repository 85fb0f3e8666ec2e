"""The one story: every decision with its reason and its numbers. All that people see is rendered from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping

from msgspec import Struct

from headgate.model.keys import Key

KEPT_PER_OBJECT = 20
KEPT_RECEIPTS = 2000
RECEIPTS = frozenset({"preempt", "evict"})  # decisions people ask about when the object is gone


class Entry(Struct, frozen=True, gc=False):
    """At this time this was decided about this object, for this reason."""

    at: float
    key: Key
    decision: str
    reason: str
    message: str = ""
    numbers: Mapping[str, int | str] = {}


class Journal:
    """Hands each entry out once and keeps the last few of every object that still exists."""

    def __init__(self) -> None:
        self._fresh: list[Entry] = []
        self._recent: dict[Key, list[Entry]] = {}
        self._receipts: deque[Entry] = deque(maxlen=KEPT_RECEIPTS)

    def write(self, entry: Entry) -> None:
        self._fresh.append(entry)
        recent = self._recent.get(entry.key)
        if recent is None:
            self._recent[entry.key] = [entry]
        else:
            recent.append(entry)
            if len(recent) > KEPT_PER_OBJECT:
                del recent[0]
        if entry.decision in RECEIPTS:
            self._receipts.append(entry)

    def take(self) -> list[Entry]:
        """What was written since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def last(self, key: Key) -> Entry | None:
        """The last entry about this object, if there is any."""
        recent = self._recent.get(key)
        return recent[-1] if recent else None

    def about(self, key: Key) -> tuple[Entry, ...]:
        """The last entries about this object, oldest first."""
        return tuple(self._recent.get(key, ()))

    def receipts(self) -> tuple[Entry, ...]:
        """The last preemptions, oldest first, also of objects that are gone."""
        return tuple(self._receipts)

    def forget_fresh(self, gone: Container[Key]) -> None:
        """The stories of those of these objects about which something was written since the last `take`."""
        for entry in self._fresh:
            if entry.key in gone:
                self._recent.pop(entry.key, None)

    def forget(self, key: Key) -> None:
        """The object is gone, so is its story."""
        self._recent.pop(key, None)
