"""The loop of a leader term on a small Kubernetes that takes its time, in virtual time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from headgate.api.install_manifests import queue_definitions
from headgate.api.requests import Call
from headgate.apiserver import INITIAL_OBJECTS, ApiServer, Request
from headgate.engine.loop import Engine
from headgate.live.connection import HttpResponse
from headgate.live.loop import EventQueue, Timers, run_steps
from headgate.live.performer import Performer
from headgate.model.effects import WakeAt
from headgate.model.events import WritePermits
from headgate.model.settings import InformWithin, Role, Settings
from headgate.simulator.observing import Feed

LAG = 0.02  # seconds until a change is observed


class PassingTime(selectors.SelectSelector):
    """Waits for nothing: what would be waited is added to the time."""

    now = 1_000_000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everybody waits, and nothing will happen"
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Time passes only when nobody has anything to do, and then at once."""

    def __init__(self) -> None:
        self._passing = PassingTime()
        super().__init__(self._passing)

    def time(self) -> float:
        return self._passing.now


def in_virtual_time(work: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())


async def passed(seconds: float) -> None:
    """So much virtual time has passed."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    handle = loop.call_later(seconds, over.set_result, None)
    try:
        await over
    finally:
        handle.cancel()


class SlowServer:
    """Works on so many requests at a time, each for so long; the others wait in line."""

    def __init__(self, seconds: float, at_once: int) -> None:
        self.api = ApiServer(objects=(*INITIAL_OBJECTS, *queue_definitions()))
        self._seconds, self._places = seconds, asyncio.Semaphore(at_once)
        self.changed: Callable[[], None] = lambda: None
        self.conflicts = self.written = 0

    async def keep_busy(self, seconds: float) -> None:
        """Ask for nothing of interest, again and again for so long."""
        until = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until:
            async with self._places:
                await passed(self._seconds)

    async def perform(self, call: Call) -> HttpResponse:
        async with self._places:
            await passed(self._seconds)
        self.written += 1
        response = self.api.handle(
            Request(call.method, call.path, call.query, call.body, call.content_type), asyncio.get_running_loop().time()
        )
        self.conflicts += response.code == 409
        self.changed()
        return HttpResponse(response.code, b"", response.body)

    async def ask(self, method: str, path: str, value: object, kind: str = "application/json") -> None:
        answer = await self.perform(Call(method, path, {}, kind, msgspec.json.encode(value)))
        assert answer.status < 300, answer.body


class LoadedTerm:
    """An engine with its writes and timers. What changes on the server is observed a little later."""

    def __init__(self, server: SlowServer, within: InformWithin) -> None:
        self._loop = asyncio.get_running_loop()
        self.engine = Engine(Settings(roles=frozenset({Role.QUOTA, Role.SCHEDULER}), inform_within=within))
        self._api = server.api
        self.feed = Feed(server.api, self.engine.reads)
        self._events = EventQueue(self.engine.reads)
        self.performer = Performer(server, self._events.tell, self, passed, self._loop.time, within=within)
        self._timers = Timers(self._loop.time, self._events.tell)
        self._events.tell(WritePermits(0))
        self._now = 0.0
        self.merged = self.dropped = 0
        server.changed = lambda: self._loop.call_later(LAG, self._observe) and None
        self._observe()
        for kind in self.engine.reads:
            self._events.listed(kind)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.performer.run())
            rest = self.performer.rest_of_a_step
            group.create_task(run_steps(self.engine, self._events, self._perform, self._loop.time, self, rest=rest))

    def status_of(self, path: str) -> dict[str, Any]:
        return self._api.handle(Request("GET", path, {}), self._loop.time()).value["status"]

    def _observe(self) -> None:
        for change in self.feed.poll():
            self._events.observe(change)

    def _perform(self, effect: Any) -> None:
        if isinstance(effect, WakeAt):
            self._timers.set(effect)
        else:
            self.performer.submit(effect)

    # StepObserver and WriteObserver

    def before_step(self, _batch: object, now: float) -> None:
        self._now = now

    def after_step(self, _batch: object, _entries: object) -> None:
        self.performer.await_permits(self.engine.awaited_permits, self._now)

    def performed(self, *_told: object) -> None: ...

    def event_dropped(self) -> None:
        self.dropped += 1

    def note_merged(self) -> None:
        self.merged += 1
