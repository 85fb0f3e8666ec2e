"""Workload records: each workload as observed and as decided, with its in-flight write.

A write names the version it was made from, and is assumed to take effect until an answer or an observation contradicts
it; `engine.in_flight` says what these mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import assert_never

from msgspec import structs

from headgate.engine.in_flight import InFlightWrites, WritePolicy, WriteResult
from headgate.engine.quota.queue_usage import CountedWorkload
from headgate.lifecycle.workload.conditions import FINISHED, with_status
from headgate.lifecycle.workload.next_step import Change, Removal
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
from headgate.model.events import WriteError
from headgate.model.keys import Key, Target
from headgate.model.queues import Admission, QueuedWorkload
from headgate.queueing.backoff import Backoff
from headgate.quota.ledger import Reservation
from headgate.quota.pending_workload import WorkloadRequests

Written = PatchStatus | PatchSpec | Delete
LazyEvent = Callable[[], EmitEvent]
"""An event that goes with a write: put into words when it is emitted, for most never are."""

PATIENCE = 60.0  # seconds an accepted write may stay unobserved

Placed = tuple[QueuedWorkload, Admission | None, bool]
"""A workload as it was when the quota cache was last updated with it, the quota it held, and whether it was open."""


class WorkloadRecord:
    """One workload: as observed, the write in flight, what is decided and not sent, and what the quota cache has of it.

    `seen` is the workload as last observed, `so_far` with the write in flight applied, `now` with all that is decided.
    """

    __slots__ = (
        "base",
        "counted",
        "events",
        "is_finished",
        "local",
        "now",
        "placed",
        "requests",
        "reservation",
        "rested",
        "seen",
        "sent",
        "sent_events",
        "so_far",
        "stuck",
        "wanted",
    )

    def __init__(self, seen: QueuedWorkload) -> None:
        self.seen = seen
        self.is_finished = seen.is_true(FINISHED)
        self.sent: Change | None = None  # in flight
        self.sent_events: tuple[LazyEvent, ...] = ()
        self.base = ""  # the version it was made from
        self.wanted: Change | None = None  # decided, to be sent next
        self.events: tuple[LazyEvent, ...] = ()  # that go with it
        self.stuck = ""  # the version for which the server refused our write
        self.so_far = seen
        self.now = seen
        self.rested: QueuedWorkload | None = None  # the workload about which there was nothing more to decide
        self.placed: Placed | None = None
        self.local: Key | None = None  # the LocalQueue it is counted for
        self.counted: CountedWorkload | None = None  # in the usage of its queues
        self.reservation: Reservation | None = None  # on the ledger
        self.requests: WorkloadRequests | None = None  # while it waits for quota

    @property
    def is_open(self) -> bool:
        """More can be decided about it.

        A workload is closed while the server refuses our writes to this version, and while a version newer than the
        one the write in flight was made from is observed: it cannot be told yet which of the two came first.
        """
        version = self.seen.version
        return self.stuck != version and (self.sent is None or version == self.base)

    @property
    def held(self) -> Admission | None:
        """The quota it holds: assumed or observed.

        A release counts when it is observed, not when it is sent: the reservation in flight may still take effect.
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
        """The observed workload is in a newer version and equals what the write in flight makes of it.

        Where nothing else has changed, what was decided about the assumed workload holds for the observed one.
        """
        change = self.sent
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
        """Applies what was sent and what is decided to the workload as observed."""
        sent, wanted = self.sent, self.wanted
        self.so_far = self.seen if sent is None else _applied(self.seen, sent)
        self.now = self.so_far if wanted is None else _applied(self.so_far, wanted)

    def want(self, change: Change | None, events: tuple[LazyEvent, ...]) -> None:
        """This is sent next; None: nothing."""
        self.wanted, self.events = change, events
        self.now = self.so_far if change is None else _applied(self.so_far, change)

    def send(self, change: Change) -> Written:
        """The write of what was decided, which is in flight from now on."""
        self.sent, self.wanted = change, None
        self.sent_events, self.events = self.events, ()
        self.base = self.seen.version
        self.so_far = self.now
        return _write(self.seen, change)

    def settle(self) -> None:
        """Nothing is in flight any more, and nothing but what is observed and decided is assumed."""
        self.sent, self.sent_events = None, ()
        self.foresee()

    def take_events(self) -> tuple[LazyEvent, ...]:
        events, self.sent_events = self.sent_events, ()
        return events


class WorkloadRecords:
    """The records of all workloads, and their in-flight writes: at most one per workload, assumed to take effect."""

    def __init__(self, backoff: Backoff) -> None:
        self._records: dict[Key, WorkloadRecord] = {}
        self.get = self._records.get  # asked for at every turn
        self._writes = InFlightWrites[Key, Written](WritePolicy(backoff, PATIENCE))
        self._busy: dict[Key, None] = {}  # something is to be sent
        self._resent: list[Written] = []  # writes that may not have arrived and are sent again
        self._forgotten: dict[Key, None] = {}  # what was decided did not take effect

    def __iter__(self) -> Iterator[Key]:
        return iter(self._records)

    def seen(self) -> Iterator[QueuedWorkload]:
        """All of them, as last observed."""
        return (record.seen for record in self._records.values())

    def observe(self, workload: QueuedWorkload) -> tuple[LazyEvent, ...]:
        """Takes the workload as observed; returns the events of the write that is confirmed by it."""
        key = workload.key
        record = self._records.get(key)
        if record is None or record.seen.uid != workload.uid:
            self._writes.forget(key)
            self._records[key] = WorkloadRecord(workload)
            return ()
        record.seen, record.is_finished = workload, workload.is_true(FINISHED)
        if record.sent is None:
            record.foresee()
            if record.wanted is not None:
                self._forget(record)  # decided on what is no longer so
        elif record.shows_what_was_sent():
            events = record.take_events()
            self._writes.confirm(key)
            record.settle()
            return events
        else:
            self._conclude(record, self._writes.observe(key, workload.version))
        return ()

    def lose(self, key: Key, uid: str) -> WorkloadRecord | None:
        """The workload is gone; None when another one has taken its place."""
        record = self._records.get(key)
        if record is None or record.seen.uid != uid:
            return None
        self._busy.pop(key, None)
        self._forgotten.pop(key, None)
        self._writes.forget(key)
        return self._records.pop(key)

    def want(self, key: Key, change: Change, *events: LazyEvent) -> None:
        """This is decided, on top of what was. A later decision takes the place of one not yet sent."""
        record = self._records[key]
        record.want(change, record.events + events)
        self._busy[key] = None

    def take_back(self, key: Key) -> None:
        """What was decided and not yet sent is not sent."""
        self._records[key].want(None, ())
        self._busy.pop(key, None)

    def take_forgotten(self) -> list[Key]:
        """Workloads about which something decided did not take effect since the last call."""
        if not self._forgotten:
            return []
        forgotten, self._forgotten = self._forgotten, {}
        return list(forgotten)

    def flush_due(self, now: float) -> None:
        """Writes that were accepted or conflicted and not followed by a newer version in time are forgotten.

        Those that may not have arrived are sent again by the next `send`.
        """
        for key, write, result in self._writes.due(now):
            if result is WriteResult.PENDING:
                self._resent.append(write)
            else:
                self._conclude(self._records[key], result)

    def send(self, now: float) -> Iterator[Written]:
        """The writes that can be sent now: to workloads that have none in flight."""
        self.flush_due(now)
        resent, self._resent = self._resent, []
        for write in resent:
            if write.target.key in self._writes:
                yield write
        for key in list(self._busy) if self._busy else ():
            record = self._records[key]
            if record.sent is None:
                del self._busy[key]
                if record.wanted is not None and _shows(record.seen, record.wanted):
                    record.want(None, ())  # it is so already: a write would make no version to be observed
                elif record.wanted is not None:
                    yield self._writes.send(key, record.send(record.wanted), record.base)

    def answer(self, written: Written, trouble: WriteError | None, now: float) -> tuple[LazyEvent, ...]:
        """Takes the server's answer; returns the events of a write that was accepted."""
        key = written.target.key
        record = self._records.get(key)
        if record is None:
            return ()
        result = self._writes.answer(key, written, trouble, record.seen.version, now)
        if result is None:
            return ()
        events = record.take_events() if trouble is None else ()
        if result is WriteResult.REFUSED:
            record.stuck = record.base
        self._conclude(record, result)
        return events

    def next_deadline(self) -> float | None:
        return self._writes.next_deadline()

    def _conclude(self, record: WorkloadRecord, result: WriteResult | None) -> None:
        """What is observed is the truth, unless the write is still in flight."""
        if result is WriteResult.PENDING or result is None:
            record.foresee()
            return
        as_planned = result is WriteResult.CONFIRMED and record.wanted is None
        record.settle()
        if not as_planned:
            self._forget(record)

    def _forget(self, record: WorkloadRecord) -> None:
        self.take_back(record.seen.key)
        self._forgotten[record.seen.key] = None


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
