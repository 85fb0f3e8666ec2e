"""What is written about workloads: one write at a time for each, taken for true until the cluster says otherwise."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import assert_never

from msgspec import structs

from headgate.lifecycle.quota_conditions import FINISHED, with_status
from headgate.lifecycle.quota_next import Change, Removal
from headgate.model.effects import (
    Activation,
    Delete,
    EmitEvent,
    Finalizers,
    PatchSpec,
    PatchStatus,
    QueuedWorkloadStatus,
    QueuePriority,
)
from headgate.model.events import Trouble
from headgate.model.keys import Key, Target
from headgate.model.queues import Admission, QueuedWorkload
from headgate.queueing.backoff import Backoff

Written = PatchStatus | PatchSpec | Delete
Telling = Callable[[], EmitEvent]
"""An event that goes with a write: put into words when it is emitted, for most never are."""

PATIENCE = 60.0  # seconds until what was accepted should have been seen
NOT_DONE = frozenset({Trouble.UNAVAILABLE, Trouble.UNKNOWN})


Placed = tuple[QueuedWorkload, Admission | None, bool]
"""How a workload stood when the books were brought in line with it: as it is, what it holds, and whether it is open."""


class Sheet:
    """One workload: as last seen, what was sent and not yet seen, and what is to be sent after that.

    A write names the version it was made from. So whatever is seen of another version, once the write was answered,
    is later than the write: it is the truth, and nothing is assumed any more.
    """

    __slots__ = (
        "accepted",
        "answered",
        "base",
        "due",
        "events",
        "is_finished",
        "local",
        "now",
        "placed",
        "rested",
        "seen",
        "sent",
        "sent_change",
        "sent_events",
        "so_far",
        "stuck",
        "tries",
        "wanted",
    )

    def __init__(self, seen: QueuedWorkload) -> None:
        self.seen = seen
        self.is_finished = seen.is_true(FINISHED)
        self.sent: Written | None = None
        self.sent_change: Change | None = None
        self.sent_events: tuple[Telling, ...] = ()
        self.base = ""
        self.answered = self.accepted = False
        self.due: float | None = None  # when it is sent again, or decided anew
        self.tries = 0  # of writing to the version last seen
        self.wanted: Change | None = None
        self.events: tuple[Telling, ...] = ()  # that go with it
        self.stuck = ""  # the version nothing more can be done about
        self.so_far = seen  # the workload as it is once all that was sent has happened
        self.now = seen  # the workload as it is once all that was decided has happened
        self.rested: QueuedWorkload | None = None  # the workload about which there was nothing more to decide
        self.placed: Placed | None = None
        self.local: Key | None = None  # the local queue in whose books it is

    @property
    def is_open(self) -> bool:
        """More can be decided about it.

        Not while the server will have none of our writes, which it may when the object changes. And not while
        something newer is seen than what the write was made from, and it cannot be told yet which came first.
        """
        version = self.seen.version
        return self.stuck != version and (self.sent is None or self.answered or version == self.base)

    @property
    def held(self) -> Admission | None:
        """The quota it holds: it was promised some, or is seen with some.

        One that gives it back holds it until that is seen: what is under way may still take hold.
        """
        if self.is_finished:
            return None
        return self.now.admission or self.so_far.admission or self.seen.admission

    @property
    def is_at_rest(self) -> bool:
        """Nothing about it has changed since there was nothing more to decide."""
        now, rested = self.now, self.rested
        return now is rested or (rested is not None and now.looks_like(rested))

    def shows_what_was_sent(self) -> bool:
        """Where nothing else has changed, what was found out about the workload as foreseen is true of it."""
        change = self.sent_change
        if change is None or isinstance(change, Removal) or self.seen.version == self.base:
            return False
        if self.wanted is None and self.seen.looks_like(self.now):
            self._follow(self.seen)
            return True
        return _shows(self.seen, change)

    def _follow(self, same: QueuedWorkload) -> None:
        if self.rested is self.now:
            self.rested = same
        if self.placed is not None and self.placed[0] is self.now:
            self.placed = same, self.placed[1], self.placed[2]

    def foresee(self) -> None:
        """What was sent and what is wanted, on top of what is seen."""
        sent, wanted = self.sent_change, self.wanted
        self.so_far = self.seen if sent is None else _applied(self.seen, sent)
        self.now = self.so_far if wanted is None else _applied(self.so_far, wanted)

    def want(self, change: Change | None, events: tuple[Telling, ...]) -> None:
        """This is to be sent next, if anything."""
        self.wanted, self.events = change, events
        self.now = self.so_far if change is None else _applied(self.so_far, change)

    def send(self, change: Change) -> Written:
        """What was wanted is under way."""
        self.sent, self.sent_change, self.wanted = _write(self.seen, change), change, None
        self.sent_events, self.events = self.events, ()
        self.base = self.seen.version
        self.answered = self.accepted = False
        self.so_far = self.now
        return self.sent

    def settle(self) -> None:
        """What was sent is seen, or never will be."""
        self.sent = self.sent_change = self.due = None
        self.sent_events = ()
        self.answered = self.accepted = False
        self.foresee()

    def take_events(self) -> tuple[Telling, ...]:
        events, self.sent_events = self.sent_events, ()
        return events


class Desk:
    """All workloads there are."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._sheets: dict[Key, Sheet] = {}
        self.get = self._sheets.get  # asked for at every turn
        self._busy: dict[Key, None] = {}  # something is to be sent
        self._resting: dict[Key, None] = {}  # something is to be sent again, or decided anew
        self._dues: list[tuple[float, Key]] = []  # when, for those who still rest by then
        self._forgotten: dict[Key, None] = {}  # plans fell through

    def __iter__(self) -> Iterator[Key]:
        return iter(self._sheets)

    def seen(self) -> Iterator[QueuedWorkload]:
        """All of them, as last seen."""
        return (sheet.seen for sheet in self._sheets.values())

    def observe(self, workload: QueuedWorkload) -> tuple[Telling, ...]:
        sheet = self._sheets.get(workload.key)
        if sheet is None or sheet.seen.uid != workload.uid:
            self._sheets[workload.key] = Sheet(workload)
            return ()
        if workload.version != sheet.seen.version:
            sheet.tries = 0
        sheet.seen, sheet.is_finished = workload, workload.is_true(FINISHED)
        if sheet.sent is None:
            sheet.foresee()
            if sheet.wanted is not None:
                self._forget(sheet)  # decided on what is no longer so
        elif sheet.shows_what_was_sent():
            events = sheet.take_events()
            sheet.settle()
            self._resting.pop(workload.key, None)
            return events
        elif workload.version != sheet.base and sheet.answered:
            self._believe(sheet)
        elif workload.version != sheet.base and sheet.due is not None:
            self._retract(sheet)
        else:
            sheet.foresee()
        return ()

    def lose(self, key: Key, uid: str) -> Sheet | None:
        """The workload is gone; None when another one has taken its place."""
        sheet = self._sheets.get(key)
        if sheet is None or sheet.seen.uid != uid:
            return None
        for lines in (self._busy, self._resting, self._forgotten):
            lines.pop(key, None)
        return self._sheets.pop(key)

    def want(self, key: Key, change: Change, *events: Telling) -> None:
        """This is decided, on top of what was. A later decision takes the place of one not yet sent."""
        sheet = self._sheets[key]
        sheet.want(change, sheet.events + events)
        self._busy[key] = None

    def take_back(self, key: Key) -> None:
        """What was decided and not yet sent is not to be."""
        self._sheets[key].want(None, ())
        self._busy.pop(key, None)

    def take_forgotten(self) -> list[Key]:
        """Whose plans fell through since the last call."""
        if not self._forgotten:
            return []
        forgotten, self._forgotten = self._forgotten, {}
        return list(forgotten)

    def give_up(self, now: float) -> None:
        """Refused as outdated, or accepted, and yet nothing newer came: it is decided anew on what is seen."""
        for key in self._due(now):
            if self._sheets[key].answered:
                self._retract(self._sheets[key])

    def send(self, now: float) -> Iterator[Written]:
        """What can be sent now: nothing of the same workload may be under way."""
        for key in self._due(now):
            del self._resting[key]
            sheet = self._sheets[key]
            sheet.due = None
            if sheet.sent is not None:
                yield sheet.sent
        for key in list(self._busy) if self._busy else ():
            sheet = self._sheets[key]
            if sheet.sent is None:
                del self._busy[key]
                if sheet.wanted is not None and _shows(sheet.seen, sheet.wanted):
                    sheet.want(None, ())  # it is so already: a write would make no version to be seen
                elif sheet.wanted is not None:
                    yield sheet.send(sheet.wanted)

    def answer(self, written: Written, trouble: Trouble | None, now: float) -> tuple[Telling, ...]:
        """How a write went. Conflicts say that something newer is to be seen, which then counts if it comes."""
        sheet = self._sheets.get(written.target.key)
        if sheet is None or sheet.sent != written:
            return ()
        if trouble in NOT_DONE:
            self._try_again(sheet, now)
            return ()
        sheet.answered = True
        sheet.accepted = sheet.accepted or trouble is None
        events = sheet.take_events() if trouble is None else ()
        if trouble in (Trouble.REFUSED, Trouble.GONE):
            sheet.stuck = sheet.base
            self._retract(sheet)
        elif sheet.seen.version != sheet.base:
            self._believe(sheet)
        elif trouble is Trouble.CONFLICT:
            self._rest(sheet, now)
        else:
            self._rest_until(sheet, now + PATIENCE)
        return events

    def next_deadline(self) -> float | None:
        dues, resting, sheets = self._dues, self._resting, self._sheets
        while dues:
            at, key = dues[0]
            if key in resting and sheets[key].due == at:
                return at
            heapq.heappop(dues)
        return None

    def _due(self, now: float) -> list[Key]:
        """Those who have rested, in the order they began to."""
        if not self._dues or self._dues[0][0] > now:
            return []
        return [key for key in self._resting if (due := self._sheets[key].due) is not None and due <= now]

    def _rest_until(self, sheet: Sheet, at: float) -> None:
        sheet.due = at
        self._resting[sheet.seen.key] = None
        heapq.heappush(self._dues, (at, sheet.seen.key))

    def _try_again(self, sheet: Sheet, now: float) -> None:
        """If the object has moved on meanwhile, it was either not done, or done and seen: no use in asking again."""
        if sheet.seen.version != sheet.base:
            self._retract(sheet)
        else:
            self._rest(sheet, now)

    def _rest(self, sheet: Sheet, now: float) -> None:
        sheet.tries += 1
        self._rest_until(sheet, now + self._backoff.after(sheet.tries))

    def _believe(self, sheet: Sheet) -> None:
        """What is seen is the truth. If our write is part of it, only what was to follow is decided anew."""
        as_planned = sheet.accepted and sheet.wanted is None
        sheet.settle()
        self._resting.pop(sheet.seen.key, None)
        if not as_planned:
            self._forget(sheet)

    def _retract(self, sheet: Sheet) -> None:
        sheet.settle()
        self._resting.pop(sheet.seen.key, None)
        self._forget(sheet)

    def _forget(self, sheet: Sheet) -> None:
        self.take_back(sheet.seen.key)
        self._forgotten[sheet.seen.key] = None


def _write(seen: QueuedWorkload, change: Change) -> Written:
    exact = Target(seen.key, seen.uid, seen.version)
    match change:
        case QueuedWorkloadStatus():
            return PatchStatus(exact, change)
        case Activation() | QueuePriority() | Finalizers():
            return PatchSpec(exact, change)
        case Removal():
            return Delete(seen.target)
        case _:
            assert_never(change)


def _applied(workload: QueuedWorkload, change: Change) -> QueuedWorkload:
    match change:
        case QueuedWorkloadStatus():
            return with_status(workload, change)
        case Removal():
            return workload
        case Activation(active):
            return structs.replace(workload, active=active)
        case QueuePriority(priority):
            return structs.replace(workload, priority=priority)
        case Finalizers(names):
            return structs.replace(workload, finalizers=names)
        case _:
            assert_never(change)


def _shows(workload: QueuedWorkload, change: Change) -> bool:
    """What was sent can be seen, and nothing else has changed that we write."""
    if isinstance(change, QueuedWorkloadStatus):
        return change.conditions == workload.conditions and change == QueuedWorkloadStatus.of(workload)
    return not isinstance(change, Removal) and _applied(workload, change) == workload
