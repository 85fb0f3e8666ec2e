"""Families of objects that come and go: one of every kind that is read, tied together by names nobody else uses."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterator
from functools import partial
from random import Random
from types import FunctionType, MethodType
from typing import Any

import numpy as np
from hostile_objects import MAKERS, USUAL, well_formed

from headgate.api.decode import InvalidObject, decode
from headgate.engine.loop import Engine
from headgate.gates.pre_enqueue import PRE_ENQUEUE
from headgate.model.effects import Connect, Disconnect, Effect, EmitEvent, FleetEffect, RemoteWrite, WakeAt
from headgate.model.events import (
    Event,
    FleetEvent,
    Gone,
    Observed,
    Outcome,
    RemoteConnection,
    RemoteEvent,
    RemoteState,
    TimerFired,
)
from headgate.model.keys import Kind
from headgate.model.settings import FRAMEWORKS, QuotaSettings, Role, Settings

START = 1_767_225_600.0 + 3600
TOGETHER = 5  # families that are there at a time
STEPS = 4  # of a family's life
LONG = 700.0  # seconds after which every back-off, hold and safety net is over
KEPT_WORDS = frozenset({"Pod", "Job", "StatefulSet", "ReplicaSet", "Service", "PriorityClass", "WorkloadPriorityClass"})


def family(number: int, dice: Random) -> list[Observed]:
    """One or more objects of every kind; names, namespaces, labels and requests are this family's own."""
    names = [(kind, name) for kind in MAKERS for name in USUAL.get(kind, ("a", "b"))]
    made = []
    for kind, name in names:
        value = _own(well_formed(kind, dice, name), number)
        for container in value.get("spec", {}).get("containers", ()) if kind is Kind.POD else ():
            container["resources"] = {"requests": {"cpu": f"{100 + number}m"}}
        value["metadata"]["uid"] = f"{kind}-{name}-{number}"
        value["metadata"]["resourceVersion"] = str(number + 1)
        try:
            made.append(Observed(decode(kind, json.dumps(value).encode())))
        except InvalidObject:
            continue  # made of parts that do not go together; others of its kind do
    return made


def _own(value: Any, number: int) -> Any:
    """The same with every name its own: words of one family are not those of another."""
    if isinstance(value, dict):
        return {name: value[name] if name in FIXED else _own(value[name], number) for name in value}
    if isinstance(value, list):
        return [_own(part, number) for part in value]
    if isinstance(value, str) and value in OWN_WORDS:
        return f"{value}-{number}"
    return value


FIXED = frozenset({"apiVersion", "kind", "schedulerName", "phase", "status", "operator", "effect", "type", "reason"})
OWN_WORDS = (
    frozenset(
        {
            "default",
            "a",
            "b",
            "c",
            "gang",
            "cq",
            "lq",
            "n-0",
            "n-1",
            "flavor",
            "high",
            "low",
            "cohort",
            "zone",
            "x",
            "y",
        }
        | {name for names in USUAL.values() for name in names}
    )
    - KEPT_WORDS
)


def an_engine() -> Engine:
    return Engine(Settings(roles=frozenset(Role), quota=QuotaSettings(frameworks=FRAMEWORKS)), PRE_ENQUEUE)


class Life:
    """An engine in front of which families come and go; every write is accepted."""

    def __init__(self, seed: int) -> None:
        self.engine = an_engine()
        self._dice = Random(seed)
        self._now = START
        self._number = 0
        self._order = {kind: place for place, kind in enumerate(self.engine.reads)}

    def pass_by(self, families: int) -> None:
        """So many families come, live for a while and go; then all that waits for time is over."""
        for _ in range(0, families, TOGETHER):
            come = [one for _ in range(TOGETHER) for one in self._next()]
            come.sort(key=lambda one: self._order[one.object.key.kind])
            self._run(come)
            self._run([Gone(one.object.key, one.object.uid) for one in reversed(come)])
            self._now += LONG
            self._run([TimerFired("scheduling"), TimerFired("quota"), TimerFired("integrations"), TimerFired("fleet")])

    def _next(self) -> list[Observed]:
        self._number += 1
        return [one for one in family(self._number, self._dice) if one.object.key.kind in self._order]

    def _run(self, batch: list[Any]) -> None:
        for _ in range(STEPS):
            effects = self.engine.step(batch, self._now)
            self.engine.journal.take()
            self._now += 1.0
            batch = [event for one in effects for event in self._answers(one)]

    def _answers(self, effect: Effect | FleetEffect) -> Iterator[Event | FleetEvent]:
        match effect:
            case WakeAt(at=at, timer=timer):
                if at <= self._now:
                    yield TimerFired(timer)
            case Connect(cluster=cluster):
                yield RemoteConnection(cluster, RemoteState.CONNECTED)
            case RemoteWrite(cluster=cluster, write=write):
                yield RemoteEvent(cluster, Outcome(write))
            case EmitEvent() | Disconnect():
                pass
            case _:
                yield Outcome(effect)


def sizes(root: object) -> Counter[str]:
    """The lengths of all containers that can be reached, summed by the way to them."""
    found: Counter[str] = Counter()
    seen: dict[int, object] = {}
    line: deque[tuple[str, object]] = deque([("engine", root)])
    while line:
        path, thing = line.popleft()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing
        if isinstance(thing, dict | list | set | frozenset | deque | np.ndarray) and path.count(".") > 0:
            found[path] += len(thing)
        line.extend(_parts(path, thing))
    return found


def _parts(path: str, thing: object) -> Iterator[tuple[str, object]]:
    if isinstance(thing, dict):
        for key, value in thing.items():
            yield f"{path}.key", key
            yield f"{path}[]", value
    elif isinstance(thing, list | tuple | set | frozenset | deque):
        for part in thing:
            yield f"{path}[]", part
    elif isinstance(thing, MethodType):
        yield path, thing.__self__
    elif isinstance(thing, partial):
        yield from ((f"{path}()", part) for part in (thing.func, *thing.args, *thing.keywords.values()))
    elif isinstance(thing, FunctionType):
        yield from ((f"{path}()", cell.cell_contents) for cell in thing.__closure__ or () if cell.cell_contents)
    elif type(thing).__module__.startswith("headgate"):
        names = dict.fromkeys(name for cls in type(thing).__mro__ for name in getattr(cls, "__slots__", ()))
        names |= dict.fromkeys(getattr(thing, "__dict__", ()))
        names |= dict.fromkeys(getattr(type(thing), "__struct_fields__", ()))
        yield from ((f"{path}.{name}", getattr(thing, name)) for name in names if hasattr(thing, name))


def grown(before: Counter[str], after: Counter[str]) -> dict[str, tuple[int, int]]:
    return {path: (before[path], size) for path, size in after.items() if size > before[path]}
