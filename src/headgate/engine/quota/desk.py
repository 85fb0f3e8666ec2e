"""What is written about workloads: one write at a time for each, taken for true until the cluster says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, assert_never

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
    QueuePriority,
)
from headgate.model.events import Trouble
from headgate.model.keys import Key, Target
from headgate.model.queue_changes import QueuedWorkloadStatus
from headgate.model.queues import QueuedWorkload
from headgate.queueing.waiting import Backoff

Written = PatchStatus | PatchSpec | Delete
PATIENCE = 60.0  # seconds until what was accepted should have been seen
NOT_DONE = frozenset({Trouble.UNAVAILABLE, Trouble.UNKNOWN})


class Placed(NamedTuple):
    """How a workload stood when the books were brought in line with it."""

    now: QueuedWorkload
    holding: QueuedWorkload | None
    is_open: bool

    def looks_like(self, other: Placed) -> bool:
        if self.is_open is not other.is_open or not self.now.looks_like(other.now):
            return False
        if self.holding is None or other.holding is None:
            return self.holding is other.holding
        return self.holding.looks_like(other.holding)


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
        self.sent: Written | None = None
        self.sent_change: Change | None = None
        self.sent_events: tuple[EmitEvent, ...] = ()
        self.base = ""
        self.answered = self.accepted = False
        self.due: float | None = None  # when it is sent again, or decided anew
        self.tries = 0  # of writing to the version last seen
        self.wanted: Change | None = None
        self.events: tuple[EmitEvent, ...] = ()  # that go with it
        self.stuck = ""  # the version nothing more can be done about
        self.so_far = seen  # the workload as it is once all that was sent has happened
        self.now = seen  # the workload as it is once all that was decided has happened
        self.rested: QueuedWorkload | None = None  # the workload about which there was nothing more to decide
        self.placed: Placed | None = None

    @property
    def is_stuck(self) -> bool:
        """The server will have none of our writes until the object changes."""
        return self.stuck == self.seen.version

    @property
    def is_in_doubt(self) -> bool:
        """Something newer is seen than what the write was made from, and it cannot be told yet which came first."""
        return self.sent is not None and not self.answered and self.seen.version != self.base

    @property
    def is_open(self) -> bool:
        """More can be decided about it."""
        return not self.is_stuck and not self.is_in_doubt

    @property
    def holding(self) -> QueuedWorkload | None:
        """The workload as one that holds quota: it was promised some, or is seen with some.

        One that gives it back holds it until that is seen: what is under way may still take hold.
        """
        if self.seen.is_true(FINISHED):
            return None
        if self.now.admission is not None:
            return self.now
        held = self.so_far.admission or self.seen.admission
        return None if held is None else structs.replace(self.now, admission=held)

    def is_at_rest(self) -> bool:
        """Nothing about it has changed since there was nothing more to decide."""
        return self.rested is not None and self.now.looks_like(self.rested)

    def see(self, workload: QueuedWorkload) -> None:
        if workload.version != self.seen.version:
            self.tries = 0
        self.seen = workload
        self.so_far = _applied(workload, self.sent_change)
        self.now = _applied(self.so_far, self.wanted)

    def want(self, change: Change | None, events: tuple[EmitEvent, ...]) -> None:
        """This is to be sent next, if anything."""
        self.wanted, self.events = change, events
        self.now = _applied(self.so_far, change)

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
        self.so_far = self.seen
        self.now = _applied(self.seen, self.wanted)

    def take_events(self) -> tuple[EmitEvent, ...]:
        events, self.sent_events = self.sent_events, ()
        return events


class Desk:
    """All workloads there are. Whoever's plans fall through is named in `forgotten`."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._sheets: dict[Key, Sheet] = {}
        self._busy: dict[Key, None] = {}  # something is to be sent
        self._resting: dict[Key, None] = {}  # something is to be sent again, or decided anew
        self.forgotten: dict[Key, None] = {}

    def get(self, key: Key) -> Sheet | None:
        return self._sheets.get(key)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._sheets)

    def seen(self) -> Iterator[QueuedWorkload]:
        """All of them, as last seen."""
        return (sheet.seen for sheet in self._sheets.values())

    def observe(self, workload: QueuedWorkload) -> Iterator[EmitEvent]:
        sheet = self._sheets.get(workload.key)
        if sheet is None or sheet.seen.uid != workload.uid:
            self._sheets[workload.key] = Sheet(workload)
            return
        before = sheet.sent_change
        sheet.see(workload)
        if sheet.sent is None:
            if sheet.wanted is not None:
                self._forget(sheet)  # decided on what is no longer so
        elif workload.version != sheet.base:
            if _shows(workload, before):
                yield from sheet.take_events()
                sheet.settle()
                self._resting.pop(workload.key, None)
            elif sheet.answered:
                self._believe(sheet)
            elif sheet.due is not None:
                self._retract(sheet)

    def lose(self, key: Key, uid: str) -> QueuedWorkload | None:
        """The workload is gone; None when another one has taken its place."""
        sheet = self._sheets.get(key)
        if sheet is None or sheet.seen.uid != uid:
            return None
        for lines in (self._busy, self._resting, self.forgotten):
            lines.pop(key, None)
        return self._sheets.pop(key).seen

    def want(self, key: Key, change: Change, *events: EmitEvent) -> None:
        """This is decided, on top of what was. A later decision takes the place of one not yet sent."""
        sheet = self._sheets[key]
        sheet.want(change, sheet.events + events)
        self._busy[key] = None

    def take_back(self, key: Key) -> None:
        """What was decided and not yet sent is not to be."""
        self._sheets[key].want(None, ())
        self._busy.pop(key, None)

    def give_up(self, now: float) -> None:
        """Refused as outdated, or accepted, and yet nothing newer came: it is decided anew on what is seen."""
        for key in [key for key in self._resting if self._is_due(key, now)]:
            if self._sheets[key].answered:
                self._retract(self._sheets[key])

    def send(self, now: float) -> Iterator[Written]:
        """What can be sent now: nothing of the same workload may be under way."""
        for key in [key for key in self._resting if self._is_due(key, now)]:
            del self._resting[key]
            sheet = self._sheets[key]
            sheet.due = None
            if sheet.sent is not None:
                yield sheet.sent
        for key in list(self._busy):
            sheet = self._sheets[key]
            if sheet.sent is None:
                del self._busy[key]
                if sheet.wanted is not None and _shows(sheet.seen, sheet.wanted):
                    sheet.want(None, ())  # it is so already: a write would make no version to be seen
                elif sheet.wanted is not None:
                    yield sheet.send(sheet.wanted)

    def answer(self, written: Written, trouble: Trouble | None, now: float) -> Iterator[EmitEvent]:
        """How a write went. Conflicts say that something newer is to be seen, which then counts if it comes."""
        sheet = self._sheets.get(written.target.key)
        if sheet is None or sheet.sent != written:
            return
        if trouble in NOT_DONE:
            self._try_again(sheet, now)
            return
        if trouble is None:
            sheet.accepted = True
            yield from sheet.take_events()
        sheet.answered = True
        if trouble in (Trouble.REFUSED, Trouble.GONE):
            sheet.stuck = sheet.base
            self._retract(sheet)
        elif sheet.seen.version != sheet.base:
            self._believe(sheet)
        elif trouble is Trouble.CONFLICT:
            self._rest(sheet, now)
        else:
            sheet.due = now + PATIENCE
            self._resting[sheet.seen.key] = None

    def next_deadline(self) -> float | None:
        times = [due for key in self._resting if (due := self._sheets[key].due) is not None]
        return min(times, default=None)

    def _is_due(self, key: Key, now: float) -> bool:
        due = self._sheets[key].due
        return due is None or due <= now

    def _try_again(self, sheet: Sheet, now: float) -> None:
        """If the object has moved on meanwhile, it was either not done, or done and seen: no use in asking again."""
        if sheet.seen.version != sheet.base:
            self._retract(sheet)
        else:
            self._rest(sheet, now)

    def _rest(self, sheet: Sheet, now: float) -> None:
        sheet.tries += 1
        sheet.due = now + self._backoff.after(sheet.tries)
        self._resting[sheet.seen.key] = None

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
        self.forgotten[sheet.seen.key] = None


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


def _applied(workload: QueuedWorkload, change: Change | None) -> QueuedWorkload:
    match change:
        case None | Removal():
            return workload
        case QueuedWorkloadStatus():
            return with_status(workload, change)
        case Activation(active):
            return structs.replace(workload, active=active)
        case QueuePriority(priority):
            return structs.replace(workload, priority=priority)
        case Finalizers(names):
            return structs.replace(workload, finalizers=names)
        case _:
            assert_never(change)


def _shows(workload: QueuedWorkload, change: Change | None) -> bool:
    """What was sent can be seen, and nothing else has changed that we write."""
    return not isinstance(change, Removal) and _applied(workload, change) == workload
