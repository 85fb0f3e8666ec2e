"""Journal entries that say something was done are told when it was: with the server's answer to the write.

The journal has every decision at the moment it is made. Logs and metrics are read as what happened, so an entry that
goes with a write about the same object waits for its answer, and a write that failed is told as failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from headgate.engine.in_flight import RETRIABLE
from headgate.engine.journal import Entry
from headgate.live.performer import object_of
from headgate.model.effects import Effect, EmitEvent, PatchStatus, WakeAt, Write
from headgate.model.events import Gone, Outcome
from headgate.model.keys import Key, Kind

DONE_BY_WRITES = frozenset(
    {
        *("bind", "evict"),
        *("admit", "reserve", "release", "requeue", "deactivate", "finish"),
        *("start", "stop", "create", "update", "delete"),
        *("nominate", "dispatch", "ungate", "check"),
    }
)
"""Decisions that are made true by a write about the object of the entry."""


_NO_WRITES = EmitEvent | WakeAt


class Announcement(Struct, frozen=True):
    """An entry that waits for an answer, and the seconds its attempt took."""

    entry: Entry
    seconds: float


class FailedAnnouncement(Struct, frozen=True):
    """What was decided and did not come true, and why."""

    entry: Entry
    trouble: str
    message: str


class Announcements:
    """The entries that wait for answers: of each object at most those of the last write about it."""

    def __init__(self) -> None:
        self._waiting: dict[Key, tuple[Write, list[Announcement]]] = {}

    def hold(self, entries: Sequence[Entry], effects: Iterable[Effect], seconds: float) -> list[Entry]:
        """Holds the entries of one step that announce one of its writes; returns the others, in their order."""
        if not any(_announces(entry) for entry in entries):
            return list(entries)
        writes = {
            object_of(effect): effect
            for effect in effects
            if not isinstance(effect, _NO_WRITES) and not (isinstance(effect, PatchStatus) and effect.informs)
        }
        at_once, held = [], dict[Key, list[Announcement]]()
        for entry in entries:
            if _announces(entry) and entry.key in writes:
                held.setdefault(entry.key, []).append(Announcement(entry, seconds))
            else:
                at_once.append(entry)
        for key, announced in held.items():
            self._waiting[key] = (writes[key], announced)
        return at_once

    def answered(self, batch: Iterable[object], now: float) -> Iterator[Announcement | FailedAnnouncement]:
        """The entries whose writes these events answer. A write that is sent again may still come true."""
        for event in batch if self._waiting else ():
            if isinstance(event, Gone):
                self._waiting.pop(event.key, None)
            elif isinstance(event, Outcome) and not isinstance(event.effect, EmitEvent):
                for one in self._answered(object_of(event.effect), event):
                    entry = _at(now, one.entry)
                    if event.trouble is None:
                        yield Announcement(entry, one.seconds)
                    else:
                        yield FailedAnnouncement(entry, event.trouble.value, event.message)

    def _answered(self, key: Key, outcome: Outcome) -> Sequence[Announcement]:
        """Those that waited for this answer; they go on waiting if the write may still come true."""
        waiting = self._waiting.get(key)
        if waiting is None:
            return ()
        write, announced = waiting
        if write is not outcome.effect and write != outcome.effect:
            return ()
        if outcome.trouble not in RETRIABLE:
            del self._waiting[key]
        return announced


def _at(now: float, entry: Entry) -> Entry:
    return Entry(now, entry.key, entry.decision, entry.reason, entry.message, entry.numbers)


def _announces(entry: Entry) -> bool:
    """A preemption for quota is the eviction of the workload it is about; one for a node is told by its victims."""
    return entry.decision in DONE_BY_WRITES or (entry.decision == "preempt" and entry.key.kind is Kind.KUEUE_WORKLOAD)
