"""The controllers and kubelets of `world` on a cluster that is asked over HTTPS, on a clock."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from itertools import count

from msgspec import Raw

from headgate.live.access import Access
from headgate.live.client import Client
from headgate.live.logs import Log, Outages
from headgate.live.loop import EventQueue, Observation, Timers, WallClock
from headgate.live.performer import Performer
from headgate.live.reflector import Reflector, ReflectorDependencies
from headgate.model.effects import EmitEvent, WakeAt, Write
from headgate.model.events import Gone, Observed, Outcome, TimerFired, Unreadable, WriteError
from headgate.model.keys import Kind
from headgate.simulator.cluster import ControllerRunner
from headgate.simulator.observing import ObjectChange, kinds_of
from headgate.world import Controller

Learn = Callable[[Outcome], None]


class Uncounted:
    """Nobody counts what controllers write."""

    def performed(self, write: Write, trouble: WriteError | None, seconds: float) -> None:
        pass

    def event_dropped(self) -> None:
        pass

    def note_merged(self) -> None:
        pass


class WorldLoop:
    """Runs controllers as the simulator does, each with its own events. Pods are told before their owners, so that a
    Job counts no pod twice when it is first seen.
    """

    def __init__(self, access: Access, controllers: Sequence[Controller], clock: WallClock, log: Log) -> None:
        self._client = Client(access, time.monotonic, time.time, asyncio.sleep)
        self._runners = [ControllerRunner(controller) for controller in controllers]
        self._kinds = tuple(dict.fromkeys((Kind.POD, *(kind for each in controllers for kind in each.reads))))
        self._clock, self._log = clock, log
        self._events = EventQueue(self._kinds)
        self._timers = Timers(clock, self._events.tell, clock.speed)
        self._alarms: dict[str, tuple[Callable[[], None], bool]] = {}  # what timers call, and whether they are idle
        self._numbers = count()
        self._performer = Performer(self._client, self._events.tell, Uncounted(), asyncio.sleep, time.monotonic)
        self._learning: dict[int, Learn] = {}  # who learns of a write, by the identity of its effect
        self.batches = 0  # of events, so far

    @property
    def is_waiting(self) -> bool:
        """Whether it will act again even if nobody else does."""
        return bool(self._learning) or any(not idle for _, idle in self._alarms.values())

    async def run(self) -> None:
        """Goes on until cancelled."""
        outages = Outages(self._log)
        dependencies = ReflectorDependencies(self._client, outages, self._log, asyncio.sleep, random.random, _unnoticed)
        try:
            async with asyncio.TaskGroup() as group:
                for kind in self._kinds:
                    group.create_task(Reflector(kind, dependencies, self._observe, self._events.listed).run())
                group.create_task(self._performer.run())
                group.create_task(self._act())
        finally:
            self._timers.clear()
            self._client.close()

    def _observe(self, event: Observation, _raw: Raw) -> None:
        self._events.observe(event)

    async def _act(self) -> None:
        while True:
            changes: list[ObjectChange] = []
            for event in await self._events.next():
                match event:
                    case Observed() | Gone():
                        changes.append(event)
                    case Unreadable(key, uid):
                        changes.append(Gone(key, uid))
                    case TimerFired(timer):
                        self._alarms.pop(timer)[0]()
                    case Outcome(effect):
                        self._learning.pop(id(effect))(event)
            self.batches += 1
            self._distribute(changes)
            now = self._clock()
            for runner in self._runners:
                runner.run(self._write, now, self._wake)

    def _distribute(self, changes: Sequence[ObjectChange]) -> None:
        if not changes:
            return
        kinds = kinds_of(changes)
        for runner in self._runners:
            runner.observe(changes, kinds)

    def _write(self, effect: Write, now: float, learn: Learn) -> None:
        if not isinstance(effect, EmitEvent):  # of which nobody learns anything
            self._learning[id(effect)] = learn  # the effect lives until its outcome is told
        self._performer.submit(effect)

    def _wake(self, at: float, event: Callable[[], None], idle: bool = False) -> None:
        timer = str(next(self._numbers))
        self._alarms[timer] = (event, idle)
        self._timers.set(WakeAt(at, timer, idle))


def _unnoticed(_kind: Kind) -> None:
    """A watch that was opened again is nothing to tell."""
