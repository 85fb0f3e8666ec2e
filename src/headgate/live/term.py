"""One term of deciding: a fresh engine reads the cluster, decides until told to stop, and finishes what it began."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import assert_never

from msgspec import Raw, Struct

from headgate.engine.journal import Entry
from headgate.engine.loop import Engine, Raised
from headgate.engine.quarantine import GuardedEngine, Quarantine, Seen
from headgate.engine.scheduler.plugins import Watch, unwatched
from headgate.gates.pre_enqueue import PreEnqueue
from headgate.live import driver
from headgate.live.feed import Feed, Sight
from headgate.live.logs import Log
from headgate.live.metrics import Metrics
from headgate.live.performer import Performer
from headgate.live.recorder import Recorder
from headgate.live.reflector import Reflector, Surroundings
from headgate.live.stopwatch import Stopwatch
from headgate.live.timers import Timers
from headgate.model.effects import (
    Bind,
    Create,
    Delete,
    Effect,
    EmitEvent,
    Evict,
    PatchSpec,
    PatchStatus,
    RemoveGate,
    WakeAt,
)
from headgate.model.events import Unreadable
from headgate.model.keys import Key
from headgate.model.settings import Settings
from headgate.preemption.solver.exact import Limits, certifier

STORY = 20  # entries told when an invariant is broken


class BrokenEngine(Exception):
    """An invariant did not hold: our mistake. Carries what was decided just before."""

    def __init__(self, broken: str, story: Sequence[Entry]) -> None:
        super().__init__(broken)
        self.story = tuple(story)


class Equipment(Struct, frozen=True):
    """What terms of one process share."""

    settings: Settings
    pre_enqueue: tuple[PreEnqueue, ...]
    surroundings: Surroundings
    metrics: Metrics
    log: Log
    recorder: Recorder | None
    clock: Callable[[], float]
    wall: Callable[[], float]
    quarantine: Quarantine

    def fresh(self, watch: Watch = unwatched) -> Engine:
        preemption = self.settings.preemption
        exact = certifier(Limits(seconds=preemption.certify_seconds)) if preemption.certify else None
        return Engine(self.settings, self.pre_enqueue, exact, watch)


class Term:
    """`run` it once. Cancelling it stops everything at once; setting `stop` lets writes under way finish."""

    def __init__(self, equipment: Equipment) -> None:
        self._equipment = equipment
        stopwatch = Stopwatch(equipment.metrics.asked, equipment.clock)
        fresh = partial(equipment.fresh, stopwatch)
        self._engine = GuardedEngine(fresh, equipment.quarantine, equipment.fresh)
        self._feed = Feed(self._engine.reads)
        around = equipment.surroundings
        tell, tally = self._feed.tell, equipment.metrics
        self._performer = Performer(around.client, tell, tally, around.sleep, equipment.clock)
        self._timers = Timers(equipment.wall, self._feed.tell)
        self._step_began = 0.0
        self.journal = self._engine.journal
        self.absorbed = False  # the whole cluster has been read and decided on once
        self._raised = asyncio.Event()  # the engine did, so this term is over

    async def run(self, stop: asyncio.Event) -> bool:
        """Whether another term must follow, because this one's engine raised. Its writes are answered by then."""
        self._equipment.metrics.leads(self._engine.gauges)
        try:
            async with asyncio.TaskGroup() as group:
                background = [group.create_task(work) for work in (*self._reflections(), self._performer.run())]
                deciding = group.create_task(self._decide())
                await self._end(stop)
                deciding.cancel()
                await self._drain()
                for task in background:
                    task.cancel()
        except* BrokenEngine as broken:
            raise broken.exceptions[0] from None
        finally:
            self._timers.clear()
            self._equipment.metrics.stands_by()
        return self._raised.is_set()

    async def _end(self, stop: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (stop, self._raised)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _reflections(self) -> list[Coroutine[None, None, None]]:
        around = self._equipment.surroundings
        return [Reflector(kind, around, self._observe, self._feed.listed).run() for kind in self._engine.reads]

    async def _decide(self) -> None:
        try:
            await driver.run(self._engine, self._feed, self._perform, self._equipment.wall, self)
        except AssertionError as broken:
            raise BrokenEngine(str(broken), self._engine.journal.take()[-STORY:]) from broken
        except Raised as raised:
            await self._quarantine(raised)
            self._raised.set()

    async def _quarantine(self, raised: Raised) -> None:
        """Finds whom to leave out. Between two trials the others have their turn, so that the lease is kept."""
        log, search = self._equipment.log, self._engine.find(raised, self._equipment.wall())
        log.error("a decision failed: looking for the object to blame", error=raised.why)
        try:
            while True:
                next(search)
                await asyncio.sleep(0)
        except StopIteration as done:
            blamed: tuple[Key, ...] = done.value
        except AssertionError as broken:
            raise BrokenEngine(f"{broken}: {raised.why}", self._engine.journal.take()[-STORY:]) from raised
        for key in blamed:
            log.error("quarantined until it changes", object=str(key), error=raised.why)
            log.entries(self._engine.story(key))
        if not blamed:
            log.error("no object is to blame: starting anew from what is observed", error=raised.why)

    async def _drain(self) -> None:
        if not await self._performer.drain():
            self._equipment.log.warning("stopping although some writes were not answered yet")

    def _observe(self, event: Sight, raw: Raw) -> None:
        if self._equipment.recorder is not None and not isinstance(event, Unreadable):
            self._equipment.recorder.note(event, raw)
        self._feed.observe(event)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case WakeAt():
                self._timers.set(effect)
            case Bind() | RemoveGate() | PatchStatus() | PatchSpec() | Create() | Delete() | Evict() | EmitEvent():
                self._performer.submit(effect)
            case _:
                assert_never(effect)

    # what the driver tells of every step

    def before_step(self, batch: Sequence[Seen], now: float) -> None:
        if self._equipment.recorder is not None:
            self._equipment.recorder.write([event for event in batch if not isinstance(event, Unreadable)], now)
        self._step_began = self._equipment.clock()

    def after_step(self, batch: Sequence[Seen], entries: Sequence[Entry]) -> None:
        self._equipment.metrics.stepped(len(batch), self._equipment.clock() - self._step_began, entries)
        self._equipment.log.entries(entries)
        self.absorbed = True
