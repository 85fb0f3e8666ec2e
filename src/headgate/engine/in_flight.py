"""In-flight writes: sent, and not yet known to have taken effect. At most one for each slot.

A slot is what must not be written twice at a time: an object, or one aspect of it, such as a pod's nomination beside
its condition. A write is assumed to have taken effect until an answer or an observation contradicts it. A write that
names the version it was made from (its base) takes effect on that version or not at all, so once it was answered,
whatever is observed in another version is later than the write.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from enum import Enum, auto
from typing import Any, Generic, TypeVar

from msgspec import Struct

from headgate.engine.deadlines import Deadlines
from headgate.model.events import WriteError
from headgate.queueing.backoff import Backoff

S = TypeVar("S", bound=Hashable)
W = TypeVar("W")  # a write, or what tells one from others and holds it

RETRIABLE = frozenset({WriteError.UNAVAILABLE, WriteError.UNKNOWN})
"""The server could not be asked, or its answer was lost: the same write may still take effect."""


class WritePolicy(Struct, frozen=True):
    """What is special about the writes of one kind."""

    backoff: Backoff
    patience: float | None = None  # seconds an accepted write may stay unobserved, math.inf: any time; None: none
    resends: bool = True  # whether a write that may not have arrived is sent again as it is, or decided anew
    refusal_rest: float | None = None  # seconds after which a refused write is decided anew; None: refusal settles it
    settles_unanswered: bool = False  # whether a newer version settles a write that is not answered yet
    idle_nets: bool = False  # whether `patience` and `refusal_rest` are safety nets, kept apart as idle deadlines


class WriteState(Enum):
    SENT = auto()  # not answered yet
    RETRYING = auto()  # it may not have arrived; waits for its back-off
    ACCEPTED = auto()  # the server said yes; waits for the observation
    CONFLICTED = auto()  # the object had changed; waits for the newer version
    REFUSED = auto()  # the server said no; rests until the object changes


class WriteResult(Enum):
    """What an answer, an observation or a deadline means for a write."""

    PENDING = auto()  # it is still in flight
    CONFIRMED = auto()  # it took effect
    FORGOTTEN = auto()  # nothing is assumed any more: decide anew on what is observed
    REFUSED = auto()  # the server will never accept it for this version of the object


_SENT, _ACCEPTED = WriteState.SENT, WriteState.ACCEPTED  # found sooner than members of enums
_PENDING, _CONFIRMED = WriteResult.PENDING, WriteResult.CONFIRMED


class InFlightWrite(Struct, Generic[W]):
    write: W
    base: str  # the version it was made from; empty where it is made from none
    state: WriteState = WriteState.SENT
    joined: tuple[W, ...] = ()  # further writes of the same decision
    is_seen: bool = False  # it was observed before it was answered
    deadlines: Deadlines[Any] | None = None  # where it has one

    @property
    def writes(self) -> tuple[W, ...]:
        return (self.write, *self.joined)


class InFlightWrites(Generic[S, W]):
    def __init__(self, policy: WritePolicy) -> None:
        self._policy = policy
        self._writes: dict[S, InFlightWrite[W]] = {}
        self._failures: dict[S, tuple[int, str]] = {}  # in a row, of writes made from one version
        self._unanswered: dict[S, None] = {}
        self.deadlines = Deadlines[S]()  # when to call `due`
        self.idle_deadlines = Deadlines[S]()  # those of them that are safety nets only
        self._nets = self.idle_deadlines if policy.idle_nets else self.deadlines

    def __contains__(self, slot: S) -> bool:
        return slot in self._writes

    def __len__(self) -> int:
        return len(self._writes)

    @property
    def unanswered(self) -> int:
        """How many writes the server has not answered yet."""
        return len(self._unanswered)

    def get(self, slot: S) -> InFlightWrite[W] | None:
        return self._writes.get(slot)

    def send(self, slot: S, write: W, base: str = "") -> W:
        """The write is in flight from now on, in place of an earlier one."""
        if slot in self._writes:
            self._drop_deadline(self._writes[slot], slot)
        self._writes[slot] = InFlightWrite(write, base)
        self._unanswered[slot] = None
        return write

    def join(self, slot: S, write: W) -> W:
        """The write is in flight beside the one of the same decision that was sent before it."""
        flight = self._writes[slot]
        flight.joined = (*flight.joined, write)
        return write

    def leave(self, slot: S, write: W) -> None:
        """The write does not matter any more; those beside it stay in flight."""
        flight = self._writes[slot]
        others = tuple(each for each in flight.writes if each != write)
        if others:
            flight.write, flight.joined = others[0], others[1:]
        else:
            self.forget(slot)

    def answer(self, slot: S, write: W, trouble: WriteError | None, observed: str, now: float) -> WriteResult | None:
        """What the server's answer means, given the version observed last; None when the write is not in flight."""
        flight = self._writes.get(slot)
        if flight is None or (flight.write is not write and flight.write != write and write not in flight.joined):
            return None
        policy, moved = self._policy, observed != flight.base
        if trouble is None:
            if policy.patience is None or moved or flight.is_seen:
                return self._settle(slot, _CONFIRMED)
            if flight.state is _SENT:
                flight.state = _ACCEPTED
                self._unanswered.pop(slot, None)
                self._set_deadline(flight, slot, now + policy.patience, self._nets)
            return _PENDING
        if trouble is WriteError.GONE or (trouble is WriteError.REFUSED and policy.refusal_rest is None):
            return self._settle(slot, WriteResult.REFUSED)
        if moved:
            return self._settle(slot, WriteResult.FORGOTTEN)
        if trouble is WriteError.REFUSED and policy.refusal_rest is not None:
            self._count_failure(slot, flight.base)
            self._unanswered.pop(slot, None)
            flight.state = WriteState.REFUSED
            self._set_deadline(flight, slot, now + policy.refusal_rest, self._nets)
        else:
            self._back_off(slot, WriteState.RETRYING if trouble in RETRIABLE else WriteState.CONFLICTED, now)
        return WriteResult.PENDING

    def retry(self, slot: S, write: W, now: float) -> None:
        """The caller decides that this write, whatever its answer, is sent again as it is after its back-off.

        A write that takes the place of another one starts with the shortest back-off.
        """
        flight = self._writes.get(slot)
        if flight is None or flight.write != write:
            self.forget(slot)
            self.send(slot, write)
        self._back_off(slot, WriteState.RETRYING, now)

    def observe(self, slot: S, version: str) -> WriteResult | None:
        """What it means that the object is observed in this version; None when nothing is in flight.

        While a write is not answered, a newer version may be older or later than the write: it stays in flight, unless
        the policy has writes that are decided anew on whatever is newer.
        """
        flight = self._writes.get(slot)
        if flight is None:
            return None
        if version == flight.base:
            return WriteResult.PENDING
        self._failures.pop(slot, None)
        match flight.state:
            case WriteState.SENT if not self._policy.settles_unanswered:
                return WriteResult.PENDING
            case WriteState.SENT | WriteState.ACCEPTED:
                return self._settle(slot, WriteResult.CONFIRMED)
            case WriteState.RETRYING | WriteState.CONFLICTED | WriteState.REFUSED:
                return self._settle(slot, WriteResult.FORGOTTEN)

    def confirm(self, slot: S) -> None:
        """The observed object shows what was written, whatever the answer will be."""
        if slot in self._writes:
            self._settle(slot, _CONFIRMED)

    def see(self, slot: S) -> None:
        """The observed object shows what was written. Until the server has accepted it the write stays in flight:
        what is observed may be older."""
        flight = self._writes[slot]
        flight.is_seen = True
        if flight.state is WriteState.ACCEPTED:
            self._settle(slot, WriteResult.CONFIRMED)

    def forget(self, slot: S) -> None:
        """The object is gone, or the write no longer matters."""
        if slot in self._writes:
            self._settle(slot, WriteResult.CONFIRMED)
        elif self._failures:
            self._failures.pop(slot, None)

    def due(self, now: float) -> Iterator[tuple[S, W, WriteResult]]:
        """Writes whose deadline has come: PENDING ones are sent again as they are, FORGOTTEN ones decided anew."""
        for slot in (*self.deadlines.due(now), *self.idle_deadlines.due(now)):
            flight = self._writes[slot]
            flight.deadlines = None
            if flight.state is WriteState.RETRYING and self._policy.resends:
                flight.state = WriteState.SENT
                self._unanswered[slot] = None
                yield slot, flight.write, WriteResult.PENDING
            else:
                del self._writes[slot]
                yield slot, flight.write, WriteResult.FORGOTTEN

    def _set_deadline(self, flight: InFlightWrite[W], slot: S, at: float, deadlines: Deadlines[S]) -> None:
        self._drop_deadline(flight, slot)
        if at < math.inf:
            flight.deadlines = deadlines
            deadlines.set(slot, at)

    def _drop_deadline(self, flight: InFlightWrite[W], slot: S) -> None:
        if flight.deadlines is not None:
            flight.deadlines.drop(slot)
            flight.deadlines = None

    def _back_off(self, slot: S, state: WriteState, now: float) -> None:
        flight = self._writes[slot]
        flight.state = state
        self._unanswered.pop(slot, None)
        failures = self._count_failure(slot, flight.base)
        self._set_deadline(flight, slot, now + self._policy.backoff.after(failures), self.deadlines)

    def _count_failure(self, slot: S, base: str) -> int:
        failures, version = self._failures.get(slot, (0, base))
        failures = failures + 1 if version == base else 1
        self._failures[slot] = failures, base
        return failures

    def _settle(self, slot: S, verdict: WriteResult) -> WriteResult:
        flight = self._writes.pop(slot)
        if flight.deadlines is not None:
            flight.deadlines.drop(slot)
        self._unanswered.pop(slot, None)
        if self._failures and verdict is not WriteResult.FORGOTTEN:
            self._failures.pop(slot, None)
        return verdict


class InformPermits:
    """Permits for informative writes, which the shell gives as the server has capacity for them.

    What waits for one is kept by whom it concerns, so what is sent is always the latest.
    """

    def __init__(self) -> None:
        self.left: float = math.inf  # until a shell says otherwise

    def give(self, writes: int) -> None:
        self.left = writes if self.left == math.inf else self.left + writes

    def take(self) -> None:
        self.left -= 1


class AwaitedPermits(Struct, frozen=True):
    """How many informative writes wait for a permit, and since when the oldest does."""

    writes: int
    since: float

    @classmethod
    def of_all(cls, *awaited: AwaitedPermits | None) -> AwaitedPermits | None:
        """Together; None where nothing waits."""
        found = [one for one in awaited if one is not None]
        return cls(sum(one.writes for one in found), min(one.since for one in found)) if found else None
