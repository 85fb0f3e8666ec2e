"""Writes that were decided and not seen yet. Until then nothing else is decided about the object."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from headgate.model.effects import Create, Effect, EmitEvent, EventType, WakeAt, Write
from headgate.model.events import Outcome, Trouble
from headgate.model.keys import Key

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 60.0  # seconds
UNSEEN_AFTER = 30.0  # seconds after which an accepted write that was never observed is no longer waited for


class Pending(Struct):
    job: Key  # for whose sake it was decided
    version: str  # of the object as the write was decided on; empty for one that did not exist
    writes: list[Write]
    number: int


class Writes:
    """Each object has at most one decision under way.

    Accepted, it is taken for true until the object is observed in another version. Refused, it is not repeated while
    the object stays as it is. Whatever goes wrong, the object is looked at again later, and decided about anew.
    """

    def __init__(self) -> None:
        self._pending: dict[Key, Pending] = {}
        self._tries: dict[Key, int] = {}
        self._due: dict[bool, list[tuple[float, int, Key]]] = {False: [], True: []}  # True: mere safety nets
        self._number = 0

    def is_pending(self, key: Key) -> bool:
        return key in self._pending

    def passing(self, job: Key, effects: Iterable[Effect], versions: Mapping[Key, str]) -> Iterator[Effect]:
        """Those of the effects for that work that may go out now; what is told of a write goes out with it."""
        mine: dict[Key, Pending] = {}
        last_passed = True
        for effect in effects:
            if isinstance(effect, EmitEvent):
                if last_passed or effect.type is EventType.WARNING:
                    yield effect
                continue
            assert not isinstance(effect, WakeAt), "work sets no timers"
            last_passed = self._takes(effect, Pending(job, versions.get(_key_of(effect), ""), [effect], 0), mine)
            if last_passed:
                yield effect

    def _takes(self, write: Write, decided: Pending, mine: dict[Key, Pending]) -> bool:
        """Several writes about one object go out together unless a later one depends on the version."""
        key = _key_of(write)
        if key in mine:
            if isinstance(write, Create) or write.target.version:
                return False
            mine[key].writes.append(write)
            return True
        if key in self._pending:
            return False
        self._number += 1
        decided.number = self._number
        self._pending[key] = mine[key] = decided
        return True

    def observed(self, key: Key, version: str) -> None:
        pending = self._pending.get(key)
        if pending is not None and pending.version != version:
            del self._pending[key]
            self._tries.pop(key, None)

    def gone(self, key: Key) -> None:
        pending = self._pending.get(key)
        if pending is not None and pending.version:
            del self._pending[key]
        self._tries.pop(key, None)

    def answered(self, outcome: Outcome, now: float) -> Key | None:
        """The work for whose sake this was written, if it was one of these and is still waited for."""
        key = _key_of(outcome.effect)
        pending = self._pending.get(key)
        if pending is None or outcome.effect not in pending.writes:
            return None
        if outcome.trouble is None:
            self._look(now + UNSEEN_AFTER, key, pending, idle=True)
        elif outcome.trouble is Trouble.GONE:
            del self._pending[key]
        else:
            tries = self._tries[key] = self._tries.get(key, 0) + 1
            rest = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** (tries - 1))
            hopeless = outcome.trouble is Trouble.REFUSED
            self._look(now + (LONGEST_BACKOFF if hopeless else rest), key, pending, idle=hopeless)
        return pending.job

    def due(self, now: float) -> Iterator[Key]:
        """The work to be decided about anew."""
        for line in self._due.values():
            while line and line[0][0] <= now:
                look = heapq.heappop(line)
                if self._matters(look):
                    yield self._pending.pop(look[2]).job

    def next_looks(self) -> Iterator[tuple[float, bool]]:
        """When to look again, and whether that is only a safety net."""
        for idle, line in self._due.items():
            while line and not self._matters(line[0]):
                heapq.heappop(line)
            if line:
                yield line[0][0], idle

    def _matters(self, look: tuple[float, int, Key]) -> bool:
        pending = self._pending.get(look[2])
        return pending is not None and pending.number == look[1]

    def _look(self, at: float, key: Key, pending: Pending, *, idle: bool) -> None:
        heapq.heappush(self._due[idle], (at, pending.number, key))


def _key_of(write: Write) -> Key:
    return write.key if isinstance(write, Create) else write.target.key
