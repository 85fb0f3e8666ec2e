"""A log served over HTTP to the whole live stack, on a clock that follows the log."""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from live.scripted_server import Exchange, scripted
from simulated import Line

from headgate.api.kinds import RESOURCES, collection_path
from headgate.engine.journal import Entry
from headgate.engine.quarantine import Quarantine, Seen
from headgate.gates.pre_enqueue import PRE_ENQUEUE
from headgate.live import term
from headgate.live.client import Client
from headgate.live.logs import Log, LogLevel, Outages, text_line
from headgate.live.loop import EventQueue
from headgate.live.metrics import Metrics
from headgate.live.recorder import Recorder
from headgate.live.reflector import ReflectorDependencies
from headgate.live.term import LeaderTerm, TermDependencies
from headgate.model.effects import EmitEvent
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, WritePermits
from headgate.model.settings import Settings

KINDS = {collection_path(resource): kind.value for kind, resource in RESOURCES.items()}
Arrival = tuple[str, ...]
"""An event in a few words: enough to tell whether it has arrived."""


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class ClockedLoop(asyncio.SelectorEventLoop):
    """Its timers go off by the log's clock; sockets take the time they take."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.time = clock
        self._clock_resolution = 1e-6  # adding to the epoch leaves dust: a timer this near is due


class LogServer:
    """Lists what the first line shows, tells the watches the rest as it is put to it, says yes to every write."""

    def __init__(self, first: Line) -> None:
        self._objects: dict[str, list[dict]] = defaultdict(list)  # all of these by kind
        self._told: dict[str, list[dict]] = defaultdict(list)
        self._watches: dict[str, list[Exchange]] = defaultdict(list)
        for event in first["events"]:
            self._objects[event["kind"]].append(event["object"])
        self._listed = str(max(_version(thing) for things in self._objects.values() for thing in things))

    def tell(self, line: Line) -> None:
        for event in line["events"]:
            if "kind" in event:
                news = {"type": "DELETED" if event["type"] == "Gone" else "MODIFIED", "object": event["object"]}
                self._told[event["kind"]].append(news)
                for watch in self._watches[event["kind"]]:
                    watch.line(news)

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.method != "GET":
            exchange.reply(201)
        elif "watch" in exchange.query:
            self._watch(exchange, KINDS[exchange.path])
        else:
            items = self._objects[KINDS[exchange.path]]
            exchange.reply(200, {"metadata": {"resourceVersion": self._listed}, "items": items})

    def _watch(self, exchange: Exchange, kind: str) -> None:
        exchange.begin_stream()
        for news in self._told[kind]:
            if _version(news["object"]) > int(exchange.query["resourceVersion"]):
                exchange.line(news)
        self._watches[kind].append(exchange)


class PacedEventQueue(EventQueue):
    """The feed, which hands a batch over once everything has arrived that the log has in it."""

    def __init__(self, kinds, lines: Sequence[Line], clock: Clock, server: LogServer, stop: asyncio.Event) -> None:
        super().__init__(kinds)
        self._lines, self._clock, self._server, self._stop = iter(lines), clock, server, stop
        self._arrived: Counter[Arrival] = Counter()
        self._came = asyncio.Event()
        self._first = True

    def observe(self, event: Observed | Gone) -> None:
        super().observe(event)
        self._arrive(event)

    def tell(self, event: TimerFired | Outcome | WritePermits) -> None:
        super().tell(event)
        if not isinstance(event, WritePermits):  # how busy the server is, is not in the log
            self._arrive(event)

    async def next(self) -> list[Event]:
        line = next(self._lines, None)
        if line is None:
            self._stop.set()
            return await asyncio.Future()  # there is no more
        self._clock.now = line["at"]
        if not self._first:
            self._server.tell(line)
        self._first = False
        expected = Counter(map(_expected, line["events"]))
        while not expected <= self._arrived:
            self._came.clear()
            await self._came.wait()
        assert self._arrived == expected, "nothing comes that is not in the log"
        self._arrived.clear()
        return await super().next()

    def _arrive(self, event: Event) -> None:
        self._arrived[_arrival(event)] += 1
        self._came.set()


class KeepingTerm(LeaderTerm):
    """Keeps its whole journal, in the order in which it was decided."""

    def __init__(self, dependencies: TermDependencies) -> None:
        super().__init__(dependencies)
        self.story: list[Entry] = []

    def after_step(self, batch: Sequence[Seen], entries: Sequence[Entry]) -> None:
        self.story.extend(entries)
        super().after_step(batch, entries)


def lived(lines: Sequence[Line], settings: Settings) -> tuple[list[Entry], list[Line]]:
    """The journal, and what `--record` wrote down on the way."""
    clock = Clock(lines[0]["at"])
    with asyncio.Runner(loop_factory=lambda: ClockedLoop(clock)) as runner:
        return runner.run(_live(lines, settings, clock))


async def _live(lines: Sequence[Line], settings: Settings, clock: Clock) -> tuple[list[Entry], list[Line]]:
    server, record, stop = LogServer(lines[0]), io.BytesIO(), asyncio.Event()
    log = Log(io.StringIO(), text_line, LogLevel.ERROR, clock)
    async with scripted(server) as listening:
        client = Client(listening.access(), clock, clock, _no_pause)
        around = ReflectorDependencies(client, Outages(log), log, _no_pause, lambda: 0.5, lambda kind: None)
        recorder, clocks = Recorder(record), (clock, clock)
        dependencies = TermDependencies(
            settings, PRE_ENQUEUE, around, Metrics(""), log, recorder, *clocks, Quarantine()
        )
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(term, "EventQueue", lambda kinds: PacedEventQueue(kinds, lines, clock, server, stop))
            deciding = KeepingTerm(dependencies)
        await deciding.run(stop)
        client.close()
    return deciding.story, [json.loads(line) for line in record.getvalue().splitlines()]


async def _no_pause(_seconds: float) -> None:
    await asyncio.sleep(0)


def _version(thing: Mapping[str, Any]) -> int:
    return int(thing["metadata"]["resourceVersion"])


def _expected(told: Mapping[str, Any]) -> Arrival:
    match told["type"]:
        case "Observed" | "Gone":
            metadata = told["object"]["metadata"]
            version = metadata["resourceVersion"] if told["type"] == "Observed" else ""
            return told["type"], told["kind"], metadata["uid"], version
        case "TimerFired":
            return told["type"], told["timer"]
        case _:
            return told["type"], told["effect"], told["object"]


def _arrival(event: Event) -> Arrival:
    match event:
        case Observed(found):
            return "Observed", found.key.kind.value, found.uid, found.version
        case Gone(key, uid):
            return "Gone", key.kind.value, uid, ""
        case TimerFired(timer):
            return "TimerFired", timer
        case Outcome(effect):
            assert not isinstance(effect, EmitEvent), "nobody waits for the answer to an event"
            return "Outcome", type(effect).__name__, str(effect.target.key)
