"""Writes to jobs and their Workloads: while one is in flight, nothing else is decided about the object.

A write is settled as soon as its object is observed in another version, whoever changed it: then the job is reconciled
anew. A refused write is not repeated while the object stays as it is. Several writes of one decision may be in flight
for one object, as long as none after the first names a version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headgate.engine.in_flight import InFlightWrites, WritePolicy, WriteResult
from headgate.model.effects import Create, Effect, EmitEvent, EventType, WakeAt, Write
from headgate.model.events import Outcome, WriteError
from headgate.model.keys import Key
from headgate.queueing.backoff import Backoff

LONGEST_BACKOFF = 60.0  # seconds
UNSEEN_AFTER = 30.0  # seconds after which an accepted write that was never observed is no longer waited for
POLICY = WritePolicy(
    backoff=Backoff(1.0, LONGEST_BACKOFF),
    patience=UNSEEN_AFTER,
    resends=False,
    refusal_rest=LONGEST_BACKOFF,
    settles_unanswered=True,
    idle_nets=True,
)


class JobWrites:
    """In-flight writes by object, and the job for which each was decided."""

    def __init__(self) -> None:
        self.in_flight = InFlightWrites[Key, Write](POLICY)
        self._retried: dict[Key, dict[Key, None]] = {}  # objects whose writes failed, by job, while that is there
        self.pending: dict[Key, Key] = {}  # the job, by object with a write in flight
        self._events: dict[Key, list[tuple[Write, EmitEvent]]] = {}  # of unanswered writes, by object

    def passing(self, job: Key, effects: Iterable[Effect], versions: Mapping[Key, str]) -> Iterator[Effect]:
        """Those of the effects for that job that may be sent now; the event of a write comes after it."""
        mine: set[Key] = set()
        passed = True
        for effect in effects:
            if isinstance(effect, EmitEvent):
                if passed or effect.type is EventType.WARNING:
                    yield effect
                continue
            assert not isinstance(effect, WakeAt), "jobs set no timers"
            key = _object_of(effect)
            if key in mine:
                passed = not isinstance(effect, Create) and not effect.target.version
                if passed:
                    self.in_flight.join(key, effect)
            else:
                passed = key not in self.pending
                if passed:
                    self.in_flight.send(key, effect, versions.get(key, ""))
                    self.pending[key] = job
                    mine.add(key)
            if passed:
                yield effect

    def hold(self, write: Write, event: EmitEvent) -> None:
        """The event says what the write does, so it is sent when the write has succeeded."""
        self._events.setdefault(_object_of(write), []).append((write, event))

    def take_events(self, outcome: Outcome) -> list[EmitEvent]:
        """The events of the write that this answers; none if it failed."""
        key = _object_of(outcome.effect)
        held = self._events.pop(key, None)
        if held is None:
            return []
        if others := [each for each in held if each[0] != outcome.effect]:
            self._events[key] = others
        return [event for write, event in held if write == outcome.effect and outcome.trouble is None]

    def observe(self, key: Key, version: str) -> None:
        """The object of a write in flight is observed in this version."""
        if self.in_flight.observe(key, version) is not WriteResult.PENDING:
            self._settled(key)

    def gone(self, key: Key) -> None:
        """The object is gone; the creation of another of its name stays in flight."""
        flight = self.in_flight.get(key)
        if flight is None:
            self._events.pop(key, None)
        elif flight.base:
            self.in_flight.forget(key)
            self._settled(key)

    def answer(self, outcome: Outcome, now: float) -> Key | None:
        """The job for which this was written, if it was one of these and is still in flight.

        An object that is gone is waited for to be observed as gone: until then the same would be decided again.
        """
        effect = outcome.effect
        key = _object_of(effect)
        flight, job = self.in_flight.get(key), self.pending.get(key)
        if flight is None or job is None:
            return None
        if outcome.trouble is WriteError.GONE and (effect == flight.write or effect in flight.joined):
            self.in_flight.retry(key, flight.write, now)
            return job
        result = self.in_flight.answer(key, effect, outcome.trouble, flight.base, now)
        if result is None:
            return None
        if result is not WriteResult.PENDING:
            self._settled(key)
        return job

    def due(self, now: float) -> Iterator[Key]:
        """The jobs to be reconciled anew."""
        for key, _, _ in self.in_flight.due(now):
            job = self.pending.pop(key)
            self._retried.setdefault(job, {})[key] = None
            yield job

    def forget(self, job: Key) -> None:
        """The job is gone: nobody repeats its writes that failed."""
        for key in self._retried.pop(job, ()):
            if key not in self.pending:
                self.in_flight.forget(key)

    def _settled(self, key: Key) -> None:
        job = self.pending.pop(key)
        failed = self._retried.get(job)
        if failed is not None:
            failed.pop(key, None)
            if not failed:
                del self._retried[job]


def _object_of(write: Write) -> Key:
    return write.key if isinstance(write, Create) else write.target.key
