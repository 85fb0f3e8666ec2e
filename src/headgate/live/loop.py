"""The loop of a leader term: events are batched, the engine steps, effects are performed, timers fire.

`EventQueue` gathers observations, outcomes and timers into batches; `run_steps` is the loop; `Timers` performs WakeAt.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from headgate.engine.journal import Entry, Journal
from headgate.engine.quarantine import Seen
from headgate.model.effects import Effect, FleetEffect, WakeAt
from headgate.model.events import FleetEvent, Gone, Observed, Outcome, RemoteEvent, TimerFired, Unreadable, WritePermits
from headgate.model.keys import Key, Kind

GC_THRESHOLDS = (50_000, 20, 100)
"""Most allocations become long-lived state, so frequent collections cost time and free nothing."""


class BatchSource(Protocol):
    async def next(self) -> list[Seen]: ...


class SteppingEngine(Protocol):
    """The part of the engine that the loop uses."""

    @property
    def journal(self) -> Journal: ...

    def step(self, batch: Sequence[Seen], now: float) -> list[Effect | FleetEffect]: ...


class StepObserver(Protocol):
    """Is called around every step: logs, metrics, the recorder."""

    def before_step(self, batch: Sequence[Seen], now: float) -> None: ...

    def after_step(self, batch: Sequence[Seen], entries: Sequence[Entry]) -> None: ...


async def run_steps(
    engine: SteppingEngine,
    queue: BatchSource,
    perform: Callable[[Effect | FleetEffect], None],
    now: Callable[[], float],
    observer: StepObserver,
    *,
    rest: Callable[[], Awaitable[None]],
) -> None:
    """Steps until cancelled, and rests between two steps; whatever the engine raises is raised."""
    await _step(engine, queue, perform, now, observer)
    _settle_memory()
    while True:
        await rest()
        await asyncio.sleep(0)  # one step may follow another at once, and the lease is renewed between them
        await _step(engine, queue, perform, now, observer)


async def _step(
    engine: SteppingEngine,
    queue: BatchSource,
    perform: Callable[[Effect | FleetEffect], None],
    now: Callable[[], float],
    observer: StepObserver,
) -> None:
    batch, at = await queue.next(), now()
    observer.before_step(batch, at)
    for effect in engine.step(batch, at):
        perform(effect)
    observer.after_step(batch, engine.journal.take())


def _settle_memory() -> None:
    """Freezes the initial state of the cluster, which lives as long as the process, out of garbage collection."""
    gc.set_threshold(*GC_THRESHOLDS)
    gc.unfreeze()
    gc.collect()
    gc.freeze()


Observation = Observed | Gone | Unreadable


class EventQueue:
    """Batches events for the engine. The first batch comes after every kind was listed, so it holds the whole cluster.

    Of several events about one object (key and UID) only the last is kept. The queue is bounded by the size of the
    cluster plus the in-flight effects.
    """

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._unlisted = dict.fromkeys(kinds)
        self._objects: dict[Kind, dict[tuple[Key, str], Observation]] = {kind: {} for kind in self._unlisted}
        self._remote: dict[tuple[str, Key, str], RemoteEvent] = {}  # by cluster and object
        self._others: list[TimerFired | Outcome | WritePermits | FleetEvent] = []
        self._news = asyncio.Event()

    def observe(self, event: Observation) -> None:
        place = _identity(event)
        waiting = self._objects[place[0].kind]
        waiting.pop(place, None)  # the later event takes the later place
        waiting[place] = event
        self._news.set()

    def tell(self, event: TimerFired | Outcome | WritePermits) -> None:
        self._others.append(event)
        self._news.set()

    def tell_remote(self, event: FleetEvent) -> None:
        """Takes what is told of a worker cluster."""
        if isinstance(event, RemoteEvent) and not isinstance(event.event, Outcome):
            place = (event.cluster, *_identity(event.event))
            self._remote.pop(place, None)
            self._remote[place] = event
        else:
            self._others.append(event)
        self._news.set()

    def forget_remote(self, cluster: str) -> None:
        """No batch has anything more of this worker cluster, until there is news of it."""
        self._remote = {place: event for place, event in self._remote.items() if place[0] != cluster}
        self._others = [event for event in self._others if getattr(event, "cluster", None) != cluster]

    def listed(self, kind: Kind) -> None:
        """All objects of this kind have been observed."""
        if kind in self._unlisted:
            del self._unlisted[kind]
            self._news.set()

    def take_outcomes(self) -> list[Outcome | FleetEvent]:
        """The answers that no batch will hold, because the last step is over."""
        outcomes = [event for event in self._others if not isinstance(event, TimerFired | WritePermits)]
        self._others.clear()
        return outcomes

    async def next(self) -> list[Seen]:
        """All pending events, as soon as there are any: observations kind by kind, those of worker clusters, then the
        others in the order they were told.
        """
        while self._unlisted or not self._news.is_set():
            self._news.clear()
            await self._news.wait()
        self._news.clear()
        batch: list[Seen] = []
        for waiting in self._objects.values():
            batch.extend(waiting.values())
            waiting.clear()
        batch.extend(self._remote.values())
        self._remote.clear()
        batch.extend(self._others)
        self._others.clear()
        return batch


def _identity(event: Observation) -> tuple[Key, str]:
    if isinstance(event, Observed):
        return event.object.key, event.object.uid
    return event.key, event.uid


class WallClock(Struct, frozen=True):
    """Seconds since the epoch; from `since` on they pass `speed` times as fast as they do."""

    since: float = 0.0
    speed: float = 1.0

    def __call__(self) -> float:
        now = time.time()
        return now if self.speed == 1 else self.since + (now - self.since) * self.speed


LONGEST_WAIT = 86_400.0  # seconds, after which a timer that is set for later is set anew: loops cannot wait for ever


class Timers:
    """Fires each (timer, time) once; setting the same again changes nothing. `speed` is that of the wall clock."""

    def __init__(self, wall: Callable[[], float], tell: Callable[[TimerFired], None], speed: float = 1.0) -> None:
        self._wall, self._tell, self._speed = wall, tell, speed
        self._set: dict[WakeAt, asyncio.TimerHandle] = {}

    def set(self, wake: WakeAt) -> None:
        if wake not in self._set:
            delay = min(LONGEST_WAIT, max(0.0, wake.at - self._wall()) / self._speed)
            self._set[wake] = asyncio.get_running_loop().call_later(delay, self._fire, wake)

    def clear(self) -> None:
        for handle in self._set.values():
            handle.cancel()
        self._set.clear()

    def _fire(self, wake: WakeAt) -> None:
        """The event loop's clock differs from the wall clock: a timer that is early by the latter is set again."""
        del self._set[wake]
        if self._wall() < wake.at:
            self.set(wake)
        else:
            self._tell(TimerFired(wake.timer))
