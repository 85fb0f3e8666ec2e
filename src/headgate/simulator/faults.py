"""Faults of a run: at given writes, or by chance from the seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct

from headgate.api.wire import parse_duration


class WriteFault(StrEnum):
    """What can go wrong with one write of our process."""

    CRASH_BEFORE = "crash before"  # our process crashes, the write is not sent
    CRASH_AFTER = "crash after"  # our process crashes, the write has succeeded
    LOST = "lost"  # the write has succeeded, its response is lost
    CONFLICT = "conflict"  # the server answers 409


class ObservationFault(StrEnum):
    """What can go wrong with the observations of our process."""

    COALESCED = "coalesced"  # of several changes of an object only the last is observed
    DROPPED = "dropped"  # the watch breaks; all objects are listed again


class Faults(Struct, frozen=True, kw_only=True):
    """Probabilities are per write, or per batch of observations; `at` names writes by number, from 0."""

    at: Mapping[int, WriteFault] = {}
    crash: float = 0.0
    lost: float = 0.0
    conflict: float = 0.0
    coalesced: float = 0.0
    dropped: float = 0.0
    stale: float = 0.0  # seconds that observations lag, from the start
    restart: float = 1.0  # seconds until a new process starts after a crash
    stuck: frozenset[str] = frozenset()  # pods (namespace/name) that never stop once deleted


NO_FAULTS = Faults()


class FaultInjector:
    """Injects faults: planned ones, and random ones that depend on the seed alone."""

    def __init__(self, faults: Faults, seed: int) -> None:
        self.faults = faults
        self._random = random.Random(seed)
        chances = ((faults.crash, None), (faults.lost, WriteFault.LOST), (faults.conflict, WriteFault.CONFLICT))
        self._of_writes = [(chance, fault) for chance, fault in chances if chance > 0]
        self.writes = 0

    def for_write(self) -> WriteFault | None:
        number, self.writes = self.writes, self.writes + 1
        planned = self.faults.at.get(number)
        if planned is not None:
            return planned
        for chance, fault in self._of_writes:
            if self._happens(chance):
                return fault or self._random.choice((WriteFault.CRASH_BEFORE, WriteFault.CRASH_AFTER))
        return None

    def for_observations(self) -> ObservationFault | None:
        if self._happens(self.faults.dropped):
            return ObservationFault.DROPPED
        return ObservationFault.COALESCED if self._happens(self.faults.coalesced) else None

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._random.random() < chance


_CHANCES = ("crash", "lost", "conflict", "coalesced", "dropped")
_TIMES = ("stale", "restart")


def parse_faults(text: str) -> Faults:
    """Reads `crash=0.01,lost=0.05,stale=2s`; raises ValueError that says what was expected."""
    given: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name in _CHANCES:
            given[name] = _chance(name, value)
        elif name in _TIMES:
            given[name] = parse_duration(value)
        else:
            raise ValueError(f'expected one of {", ".join(_CHANCES + _TIMES)}, got "{name}"')
    return msgspec.convert(given, Faults)


def _chance(name: str, text: str) -> float:
    try:
        chance = float(text)
    except ValueError:
        chance = -1.0
    if not 0 <= chance < 1:
        raise ValueError(f'{name}: expected a probability from 0 to below 1, got "{text}"')
    return chance
