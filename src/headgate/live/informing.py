"""Informative writes: how many may be under way, and which of them wait.

Decisive writes (bind, admit, evict, start) go at once. What only tells how things stand shares the capacity that the
API server has left: all of it while the server is idle, a trickle while it is saturated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container

from msgspec import Struct, structs

from headgate.model.effects import EmitEvent, PatchStatus, PodCondition
from headgate.model.keys import Key, Target
from headgate.model.settings import InformWithin

MOST, FEWEST = 16, 0.1  # informative writes under way; below 1 it is one, with a rest after it
SHRINKS = 0.9  # times, with each answer of a saturated server; below 1 it grows again by as much
LONGEST_REST = 1.0  # seconds; half of that while some are overdue
WAITED_FOR = 8  # beside these, whatever the server has to do: what other programs wait for
SLOW = 0.05  # seconds: a server that answers sooner is not saturated
SLOWER = 3.0  # times as long as at best
RELIEVED = 2 / 3  # of what is slow: the mean at which a saturated server is not saturated any more
WEIGHT = 0.1  # of one answer in the mean
COUNTED = 5.0  # times what is slow: an answer that takes longer counts as that, so that no single one is a load
FORGETS = 1.00005  # by how much the best time grows with each answer: the way to the server may have become longer
EVENTS_WAITING = 20_000  # beyond this the oldest are dropped


class InformWindow:
    """How many informative writes may be under way, by how long the server takes to answer: additive increase,
    multiplicative decrease; below one both are multiplicative, so that a single good moment of a busy server opens it
    no further than a bad one closes it.
    """

    def __init__(self, within: InformWithin) -> None:
        self._within = within
        self._size = float(MOST)
        self._best, self._mean = math.inf, 0.0
        self.is_saturated = False  # whether the server takes much longer than it would if it had nothing else to do

    @property
    def most_late(self) -> float:
        """Seconds after which an informative write is overdue."""
        return self._within.saturated if self.is_saturated else self._within.idle

    @property
    def size(self) -> int:
        """How many may be under way."""
        return max(1, int(self._size))

    def answered(self, seconds: float) -> None:
        """The server took so long for a write, from when it could have been sent."""
        self._best = min(self._best * FORGETS, seconds)
        slow = max(SLOW, SLOWER * self._best)
        self._mean += WEIGHT * (min(seconds, COUNTED * slow) - self._mean)
        self.is_saturated = self._mean > (RELIEVED * slow if self.is_saturated else slow)
        if self.is_saturated:
            self._size = max(FEWEST, self._size * SHRINKS)
        else:
            self._size = min(MOST, self._size + 1 / self._size if self._size >= 1 else self._size / SHRINKS)

    def rest(self, seconds: float, age: float) -> float:
        """Seconds until another may follow one that took so long, where the oldest that waits is so old."""
        if self._size >= 1:
            return 0.0
        rest = min(LONGEST_REST, seconds * (1 / self._size - 1))
        return rest / 2 if age > self.most_late else rest


Note = PatchStatus | EmitEvent
Slot = tuple[object, ...]
"""What a later note takes the place of an earlier one in: a status of an object, or its events of one reason."""


class WaitingNote(Struct):
    note: Note
    since: float  # when the first of those came in whose place it has taken


class WaitingNotes:
    """Informative writes that name no version: of each object and status the latest, in the order in which the first
    came. New reasons of pods have a line of their own. Events come after all others; too many of them, and those that
    are overdue, are dropped.
    """

    def __init__(self, most_late: float, dropped: Callable[[], None], merged: Callable[[], None]) -> None:
        """Events that are older than `most_late` seconds are dropped."""
        self._most_late, self._dropped, self._merged = most_late, dropped, merged
        self._waited_for: dict[Slot, WaitingNote] = {}
        self._statuses: dict[Slot, WaitingNote] = {}
        self._events: dict[Slot, WaitingNote] = {}

    def __len__(self) -> int:
        return len(self._waited_for) + len(self._statuses) + len(self._events)

    @property
    def since(self) -> float:
        """Since when the oldest status waits that nobody waits for; infinity when none does."""
        return _oldest(self._statuses)

    @property
    def waited_for_since(self) -> float:
        """Since when the oldest waits that other programs wait for; infinity when none does."""
        return _oldest(self._waited_for)

    @property
    def has_waited_for(self) -> bool:
        """Whether there is any that other programs wait for."""
        return bool(self._waited_for)

    def put(self, note: Note, now: float, *, is_saturated: bool) -> None:
        """Of an object's events only the last is kept while the server is saturated; otherwise one of each reason."""
        if isinstance(note, EmitEvent):
            which = () if is_saturated else (note.reason, note.action)
            self._put_event((note.target.uid, *which), note, now)
            return
        slot = note.target.key, type(note.change)
        known = self._waited_for.get(slot) or self._statuses.get(slot)
        if known is None:
            known = WaitingNote(note, now)
        else:
            known.note = _in_place_of(known.note, note)
            self._merged()
        if isinstance(note.change, PodCondition) and note.change.new_reason:
            self._statuses.pop(slot, None)
            self._waited_for[slot] = known
        elif slot not in self._waited_for:
            self._statuses[slot] = known

    def _put_event(self, slot: Slot, event: EmitEvent, now: float) -> None:
        if self._events.pop(slot, None) is not None:
            self._merged()
        self._events[slot] = WaitingNote(event, now)
        if len(self._events) > EVENTS_WAITING:
            self._drop_oldest_event()

    def can_wait(self, now: float, *, is_backlogged: bool) -> bool:
        """Whether there is nothing to begin with now. While decisive writes wait for a connection (`is_backlogged`)
        events wait too, but no longer than half of the time after which they are dropped.
        """
        if self._statuses:
            return False
        oldest = next(iter(self._events.values()), None)
        return oldest is None or (is_backlogged and now - oldest.since < self._most_late / 2)

    def take_waited_for(self, busy: Container[Key]) -> Note | None:
        """The next that other programs wait for, as `take`."""
        return _take(self._waited_for, busy)

    def take(self, busy: Container[Key], now: float) -> Note | None:
        """The next of the others that is not about an object with a write under way: two writes to one object keep
        their order.
        """
        if (status := _take(self._statuses, busy)) is not None:
            return status
        while self._events:
            slot, waiting = next(iter(self._events.items()))
            if now - waiting.since <= self._most_late:
                del self._events[slot]
                return waiting.note
            self._drop_oldest_event()
        return None

    def outdate(self, pod: Target) -> None:
        """The pod waits no more: what was to be said of that is not true. Another of its name may wait by now."""
        slot = pod.key, PodCondition
        for line in (self._waited_for, self._statuses):
            if slot in line and line[slot].note.target.uid == pod.uid:
                del line[slot]

    def clear(self) -> None:
        for line in (self._waited_for, self._statuses, self._events):
            line.clear()

    def _drop_oldest_event(self) -> None:
        del self._events[next(iter(self._events))]
        self._dropped()


def _oldest(line: dict[Slot, WaitingNote]) -> float:
    return next(iter(line.values())).since if line else math.inf


def _take(line: dict[Slot, WaitingNote], busy: Container[Key]) -> Note | None:
    for slot, waiting in line.items():
        if waiting.note.target.key not in busy:
            del line[slot]
            return waiting.note
    return None


def _in_place_of(earlier: Note, later: Note) -> Note:
    """The later note; where it leaves the time of a condition as it stands, that is the time the earlier one sets."""
    if isinstance(earlier, PatchStatus) and isinstance(later, PatchStatus) and earlier.target == later.target:
        before, after = earlier.change, later.change
        if isinstance(before, PodCondition) and isinstance(after, PodCondition) and after.at is None:
            return structs.replace(later, change=structs.replace(after, at=before.at))
    return later
