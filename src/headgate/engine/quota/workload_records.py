"""Workload records: each workload as observed and as decided, with its in-flight write.

A write names the version it was made from, and is assumed to take effect until an answer or an observation contradicts
it; `engine.in_flight` says what these mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import assert_never

from msgspec import Struct, structs

from headgate.engine.deadlines import Deadlines
from headgate.engine.in_flight import AwaitedPermits, InFlightWrites, InformPermits, WritePolicy, WriteResult
from headgate.engine.quota.queue_usage import CountedWorkload
from headgate.lifecycle.workload.conditions import FINISHED, ConditionUpdate, shows, with_status
from headgate.lifecycle.workload.next_step import Change, Removal
from headgate.model.effects import Activation, Delete, EmitEvent, Finalizers, PatchSpec, PatchStatus, QueuePriority
from headgate.model.events import WriteError
from headgate.model.keys import Key, Target
from headgate.model.queues import Admission, PreemptionProposal, QueuedWorkload, QueuedWorkloadStatus
from headgate.queueing.backoff import Backoff
from headgate.quota.fair_sharing import Amounts
from headgate.quota.ledger import Reservation
from headgate.quota.pending_workload import WorkloadRequests

Written = PatchStatus | PatchSpec | Delete
LazyEvent = Callable[[], EmitEvent]
"""An event that goes with a write: put into words when it is emitted, for most never are."""

PATIENCE = 60.0  # seconds an accepted write may stay unobserved
MOST_PASSED_OVER = 200  # workloads in one step that have a refusal to show and cannot be written to now

_PENDING = WriteResult.PENDING  # found sooner than members of enums
CachedAs = tuple[QueuedWorkload, Admission | None, bool]
"""A workload as it was when the quota cache was last updated with it, the quota it held, and whether it was open."""


class Refusal(Struct, frozen=True, gc=False):
    """The reason and message of QuotaReserved=False; `also` are other conditions that go with it.

    `proposal` says of a workload with a closed preemption gate what preempting for it would cost.
    """

    reason: str
    message: str
    also: tuple[ConditionUpdate, ...] = ()
    proposal: PreemptionProposal | None = None


class WorkloadRecord(Struct, eq=False):
    """All that is known of one workload: as observed, the write in flight, what is decided, and what is held for it.

    `observed` is the workload as last observed, `assumed` with the write in flight applied, `decided` with all that is
    decided. `examined` and `cached` are what it was when lifecycle rules and the quota cache last had nothing to add.
    """

    key: Key
    observed: QueuedWorkload
    assumed: QueuedWorkload
    decided: QueuedWorkload
    is_finished: bool
    sent: Change | None = None  # in flight
    sent_refusal: Refusal | None = None  # what that tells, if that is all it does
    sent_events: tuple[LazyEvent, ...] = ()
    base: str = ""  # the version it was made from
    wanted: Change | None = None  # decided, to be sent next
    informs: bool = False  # whether that is all it does
    tells: Refusal | None = None  # what it tells, if that is all it does
    events: tuple[LazyEvent, ...] = ()  # that go with it
    refused_version: str = ""  # the version for which the server refused our write
    examined: QueuedWorkload | None = None  # the workload about which there was nothing more to decide
    cached: CachedAs | None = None
    local: Key | None = None  # the LocalQueue it is counted for
    counted: CountedWorkload | None = None  # in the usage of its queues
    reservation: Reservation | None = None  # on the ledger
    requests: WorkloadRequests | None = None  # while it waits for quota
    refusal: Refusal | None = None  # of quota, that is not written yet
    refused_since: float = 0.0  # since when there is one, whatever its text was
    preempted_for: str = ""  # the queue it must make way for, until it shows that it must
    entry_penalty: tuple[Key, Amounts] | None = None  # what its LocalQueue is charged in advance

    @classmethod
    def of(cls, observed: QueuedWorkload) -> WorkloadRecord:
        """Of a workload about which nothing is decided yet."""
        return cls(observed.key, observed, observed, observed, observed.is_true(FINISHED))

    def is_open(self) -> bool:
        """Whether more can be decided about it.

        A workload is closed while the server refuses our writes to this version, and while a version newer than the
        one the write in flight was made from is observed: it cannot be told yet which of the two came first.
        """
        version = self.observed.version
        return self.refused_version != version and (self.sent is None or version == self.base)

    def held(self) -> Admission | None:
        """The quota it holds: assumed or observed.

        A release counts when it is observed, not when it is sent: the reservation in flight may still take effect.
        """
        if self.is_finished:
            return None
        return self.decided.status.admission or self.assumed.status.admission or self.observed.status.admission

    def is_examined(self) -> bool:
        """Whether nothing about it has changed since there was nothing more to decide."""
        decided, examined = self.decided, self.examined
        return decided is examined or (examined is not None and decided.looks_like(examined))

    def shows_what_was_sent(self) -> bool:
        """The observed workload is in a newer version and equals what the write in flight makes of it.

        Where nothing else has changed, what was decided about the assumed workload holds for the observed one.
        """
        change = self.sent
        if change is None or type(change) is Removal or self.observed.version == self.base:
            return False
        if self.wanted is None and self.observed.looks_like(self.decided):
            self._follow(self.observed)
            return True
        return _shows(self.observed, change)

    def _follow(self, same: QueuedWorkload) -> None:
        if self.examined is self.decided:
            self.examined = same
        if self.cached is not None and self.cached[0] is self.decided:
            self.cached = same, self.cached[1], self.cached[2]

    def apply_writes(self) -> None:
        """Applies what was sent and what is decided to the workload as observed."""
        sent, wanted = self.sent, self.wanted
        self.assumed = self.observed if sent is None else _applied(self.observed, sent)
        self.decided = self.assumed if wanted is None else _applied(self.assumed, wanted)

    def want(
        self,
        change: Change | None,
        events: tuple[LazyEvent, ...],
        *,
        informs: bool = False,
        tells: Refusal | None = None,
    ) -> None:
        """This is sent next; None: nothing. With what decides something it decides, whatever else it tells."""
        self.tells = tells if self.wanted is None else None
        self.informs = informs and (self.wanted is None or self.informs)
        self.wanted, self.events = change, events
        self.decided = self.assumed if change is None else _applied(self.assumed, change)

    def send(self, change: Change) -> Written:
        """The write of what was decided, which is in flight from now on."""
        self.sent, self.wanted = change, None
        self.sent_refusal, self.tells = self.tells, None
        self.sent_events, self.events = self.events, ()
        self.base = self.observed.version
        self.assumed = self.decided
        return _write(self.observed, change, self.informs)

    def settle(self) -> None:
        """Nothing is in flight any more, and nothing but what is observed and decided is assumed."""
        self.sent, self.sent_refusal, self.sent_events = None, None, ()
        self.apply_writes()

    def take_events(self) -> tuple[LazyEvent, ...]:
        events, self.sent_events = self.sent_events, ()
        return events


class WorkloadRecords:
    """The records of all workloads, and their in-flight writes: at most one per workload, assumed to take effect."""

    def __init__(self, backoff: Backoff, permits: InformPermits) -> None:
        self._permits = permits
        self._records: dict[Key, WorkloadRecord] = {}
        self.get = self._records.get  # asked for at every turn
        self.writes = InFlightWrites[Key, Written](WritePolicy(backoff, PATIENCE))
        self.unsent: dict[Key, None] = {}  # something is to be sent
        self._unpermitted: dict[Key, float] = {}  # something is to be sent that only informs, and since when
        self.resent: list[Written] = []  # writes that may not have arrived and are sent again
        self.forgotten: dict[Key, None] = {}  # what was decided did not take effect
        self.deadlines = Deadlines[Key]()  # when to examine workloads though nothing happens to them
        self.refused: dict[Key, WorkloadRecord] = {}  # those with a refusal to be written, the oldest first
        self._signals: dict[Key, WorkloadRecord] = {}  # those of them that change what is said of preemption gates
        self.keeps_proposals = True  # False once the server dropped one, as the installed CRD does not have the field

    def __iter__(self) -> Iterator[Key]:
        return iter(self._records)

    def observed(self) -> Iterator[QueuedWorkload]:
        """All of them, as last observed."""
        return (record.observed for record in self._records.values())

    def add(self, workload: QueuedWorkload) -> None:
        """A workload that was not known, under a name nobody else has."""
        self._records[workload.key] = WorkloadRecord.of(workload)

    def observe(self, record: WorkloadRecord, workload: QueuedWorkload) -> tuple[LazyEvent, ...]:
        """Takes the workload as observed; returns the events of the write that is confirmed by it."""
        record.observed, record.is_finished = workload, workload.is_true(FINISHED)
        if record.sent is None:
            record.apply_writes()
            if record.wanted is not None:
                self._forget(record)  # decided on what is no longer so
        elif record.shows_what_was_sent() or self._drops_proposals(record):
            events = record.take_events()
            self.writes.confirm(record.key)
            record.settle()
            return events
        else:
            self._conclude(record, self.writes.observe(record.key, workload.version))
        return ()

    def _drops_proposals(self, record: WorkloadRecord) -> bool:
        """The observed workload is what was sent but for its proposal: then none is sent from now on."""
        sent, observed = record.sent, record.observed
        if not isinstance(sent, QueuedWorkloadStatus) or sent.proposal is None or observed.version == record.base:
            return False
        dropped = structs.replace(sent, proposal=None) == observed.status
        self.keeps_proposals = self.keeps_proposals and not dropped
        return dropped

    def lose(self, key: Key, uid: str) -> WorkloadRecord | None:
        """The workload is gone; None when another one has taken its place."""
        record = self._records.get(key)
        if record is None or record.observed.uid != uid:
            return None
        self.unsent.pop(key, None)
        self._unpermitted.pop(key, None)
        self.forgotten.pop(key, None)
        self.writes.forget(key)
        self.deadlines.drop(key)
        self.refused.pop(key, None)
        self._signals.pop(key, None)
        return self._records.pop(key)

    def want(
        self,
        record: WorkloadRecord,
        change: Change,
        *events: LazyEvent,
        informs: bool = False,
        tells: Refusal | None = None,
    ) -> None:
        """This is decided, on top of what was. A later decision takes the place of one not yet sent.

        A change that only tells a refusal is told again if it does not take effect.
        """
        record.want(change, record.events + events, informs=informs, tells=tells)
        if not (record.informs and record.key in self._unpermitted):
            self._unpermitted.pop(record.key, None)
            self.unsent[record.key] = None

    def take_back(self, record: WorkloadRecord) -> None:
        """What was decided and not yet sent is not sent."""
        record.want(None, ())
        self.unsent.pop(record.key, None)
        self._unpermitted.pop(record.key, None)

    def refuse(self, record: WorkloadRecord, refusal: Refusal, now: float) -> None:
        """The workload is to show this refusal, in place of one that is not written yet.

        When thousands wait, refusals change faster than anybody reads. Writing each change would slow down admission.
        """
        if record.refusal is None:
            record.refused_since = now
        record.refusal = refusal
        self.refused[record.key] = record
        if all(shows(record.decided, one) for one in refusal.also):
            self._signals.pop(record.key, None)
        else:
            self._signals[record.key] = record

    def drop_refusal(self, record: WorkloadRecord) -> None:
        """The workload has quota, or shows the refusal already."""
        if record.refusal is not None:
            record.refusal = None
            del self.refused[record.key]
            self._signals.pop(record.key, None)

    def take_refusals(self) -> Iterator[tuple[WorkloadRecord, Refusal, bool]]:
        """The refusals to write now, oldest first, and whether each only informs: some are waited for by somebody."""
        for record, refusal in self._take(self._signals):
            yield record, refusal, False
        left = self._permits.left
        if left > 0:
            for number, (record, refusal) in enumerate(self._take(self.refused), start=1):
                yield record, refusal, True
                if number >= left:
                    return

    def _take(self, waiting: dict[Key, WorkloadRecord]) -> Iterator[tuple[WorkloadRecord, Refusal]]:
        """Those that can be written. The others take their place at the end, so that they keep nobody from a permit."""
        closed = 0
        while closed < min(len(waiting), MOST_PASSED_OVER):
            record = next(iter(waiting.values()))
            refusal = record.refusal
            if refusal is not None and record.is_open():
                self.drop_refusal(record)
                yield record, refusal
            else:
                waiting[record.key] = waiting.pop(record.key)
                closed += 1

    @property
    def awaited_permits(self) -> AwaitedPermits | None:
        """What is to be told of workloads and waits for permits."""
        if self._permits.left > 0 or not (self.refused or self._unpermitted):
            return None
        refused = (next(iter(self.refused.values())).refused_since,) if self.refused else ()
        unpermitted = (next(iter(self._unpermitted.values())),) if self._unpermitted else ()
        return AwaitedPermits(len(self.refused) + len(self._unpermitted), min(*refused, *unpermitted, math.inf))

    def take_forgotten(self) -> list[Key]:
        """Workloads about which something decided did not take effect since the last call."""
        if not self.forgotten:
            return []
        forgotten, self.forgotten = self.forgotten, {}
        return list(forgotten)

    def flush_due(self, now: float) -> None:
        """Writes that were accepted or conflicted and not followed by a newer version in time are forgotten.

        Those that may not have arrived are sent again by the next `send`.
        """
        for key, write, result in self.writes.due(now):
            if result is WriteResult.PENDING:
                self.resent.append(write)
            else:
                self._conclude(self._records[key], result)

    @property
    def has_unsent(self) -> bool:
        """Whether `send` may have something to send."""
        return bool(self.unsent or self.resent or (self._unpermitted and self._permits.left > 0))

    def send(self, now: float) -> Iterator[Written]:
        """The writes that can be sent now: those that are due again, and to workloads that have none in flight."""
        resent, self.resent = self.resent, []
        for write in resent:
            if write.target.key in self.writes:
                yield write
        for key in list(self.unsent) if self.unsent else ():
            record = self._records[key]
            if record.sent is None:
                del self.unsent[key]
                if record.informs:
                    self._unpermitted[key] = now
                elif (sent := self._send(record)) is not None:
                    yield sent
        while self._unpermitted and self._permits.left > 0:
            key = next(iter(self._unpermitted))
            del self._unpermitted[key]
            if (sent := self._send(self._records[key])) is not None:
                self._permits.take()
                yield sent

    def _send(self, record: WorkloadRecord) -> Written | None:
        """The write of what was decided; None when it is so already, as no version would be there to be observed."""
        if record.wanted is None:
            return None
        if _shows(record.observed, record.wanted):
            record.want(None, ())
            return None
        return self.writes.send(record.key, record.send(record.wanted), record.base)

    def answer(self, written: Written, trouble: WriteError | None, now: float) -> tuple[LazyEvent, ...]:
        """Takes the server's answer; returns the events of a write that was accepted."""
        key = written.target.key
        record = self._records.get(key)
        if record is None:
            return ()
        result = self.writes.answer(key, written, trouble, record.observed.version, now)
        if result is None:
            return ()
        events = record.take_events() if trouble is None else ()
        if result is not _PENDING:  # as long as it is, all is assumed that was
            if result is WriteResult.REFUSED:
                record.refused_version = record.base
            self._conclude(record, result)
        return events

    def _conclude(self, record: WorkloadRecord, result: WriteResult | None) -> None:
        """What is observed is the truth, unless the write is still in flight."""
        if result is WriteResult.PENDING or result is None:
            record.apply_writes()
            return
        untold, is_all = record.sent_refusal, record.wanted is None
        record.settle()
        if result is WriteResult.FORGOTTEN and is_all and untold is not None:
            if record.refusal is None:
                self.refuse(record, untold, record.refused_since)
        elif result is not WriteResult.CONFIRMED or not is_all:
            self._forget(record)

    def _forget(self, record: WorkloadRecord) -> None:
        self.take_back(record)
        self.forgotten[record.key] = None


def _write(observed: QueuedWorkload, change: Change, permitted: bool) -> Written:
    exact = Target(observed.key, observed.uid, observed.version)
    match change:
        case QueuedWorkloadStatus():
            return PatchStatus(exact, change, permitted)
        case Activation() | QueuePriority() | Finalizers():
            return PatchSpec(exact, change)
        case Removal():
            return Delete(observed.target)
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
        return change == workload.status
    return not isinstance(change, Removal) and _applied(workload, change) == workload
