"""Carrying out writes: in order for one object, side by side for many, again only where that is safe."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from virtual_clock import ImpatientClock

from headgate.api.requests import Call
from headgate.live.connection import AnswerLost, HttpResponse, NeverSent
from headgate.live.informing import EVENTS_WAITING, MOST
from headgate.live.performer import CONCURRENCY, TRIES, Performer
from headgate.model.effects import (
    Bind,
    ClusterQueueStatus,
    Delete,
    EmitEvent,
    EventType,
    Evict,
    LocalQueueStatus,
    PatchStatus,
    PodCondition,
    Write,
)
from headgate.model.events import Outcome, WriteError
from headgate.model.keys import Key, Kind, Target


def target(name: str) -> Target:
    return Target(Key(Kind.POD, "default", name), f"uid-{name}")


def bind(name: str, node: str = "n") -> Bind:
    return Bind(target(name), node)


def note(name: str) -> PatchStatus:
    return PatchStatus(target(name), PodCondition("PodScheduled", "False", "Unschedulable", "no room", 0.0))


def counts(name: str) -> PatchStatus:
    return PatchStatus(Target(Key(Kind.CLUSTER_QUEUE, "", name), f"uid-{name}"), ClusterQueueStatus((), 1, 2, 3))


def local_counts(name: str) -> PatchStatus:
    return PatchStatus(Target(Key(Kind.LOCAL_QUEUE, "default", name), f"uid-{name}"), LocalQueueStatus((), 1, 2, 3))


def event(name: str) -> EmitEvent:
    return EmitEvent(target(name), EventType.NORMAL, "Scheduled", "Binding", name, 0.0)


class Server:
    """The far end of a client: answers are given in the order they are listed, then everything succeeds."""

    def __init__(self, *answers: int | Exception) -> None:
        self._answers = list(answers)
        self.calls: list[Call] = []
        self.open = asyncio.Event()
        self.open.set()
        self.under_way = self.most_under_way = 0
        self.arrived = asyncio.Semaphore(0)

    async def perform(self, call: Call) -> HttpResponse:
        self.calls.append(call)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self.arrived.release()
        try:
            await self.open.wait()
        finally:
            self.under_way -= 1
        answer = self._answers.pop(0) if self._answers else 201
        if isinstance(answer, Exception):
            raise answer
        return HttpResponse(answer, b"", b'{"message": "as it happens"}')

    async def expect(self, calls: int) -> None:
        for _ in range(calls):
            await self.arrived.acquire()

    @property
    def bound(self) -> list[str]:
        return [call.path.split("/")[-2] for call in self.calls if call.path.endswith("/binding")]


class Watcher:
    """Hears outcomes and counts."""

    def __init__(self) -> None:
        self.outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
        self.counted: Counter[tuple[str, str]] = Counter()
        self.dropped = self.merged = 0
        self.seconds: list[float] = []

    def performed(self, write: Write, trouble: WriteError | None, seconds: float) -> None:
        self.counted[type(write).__name__, trouble or "accepted"] += 1
        self.seconds.append(seconds)

    def event_dropped(self) -> None:
        self.dropped += 1

    def note_merged(self) -> None:
        self.merged += 1

    async def next(self) -> Outcome:
        return await self.outcomes.get()


@asynccontextmanager
async def performing(server: Server, clock: ImpatientClock | None = None) -> AsyncIterator[tuple[Performer, Watcher]]:
    watcher, clock = Watcher(), clock or ImpatientClock()
    performer = Performer(server, watcher.outcomes.put_nowait, watcher, clock.sleep, clock)
    running = asyncio.create_task(performer.run())
    await asyncio.sleep(0)
    yield performer, watcher
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    "answers, asked, trouble",
    [
        pytest.param([], 1, None, id="accepted"),
        pytest.param([409], 1, WriteError.CONFLICT, id="a conflict is reported, not repeated"),
        pytest.param([404], 1, WriteError.GONE, id="an object that is gone"),
        pytest.param([403], 1, WriteError.REFUSED, id="a refusal"),
        pytest.param([500], 1, WriteError.UNKNOWN, id="an internal error may have done it, so it is not repeated"),
        pytest.param([AnswerLost("cut")], 1, WriteError.UNKNOWN, id="a lost answer is not repeated"),
        pytest.param([NeverSent("down"), 201], 2, None, id="what was never sent is sent again"),
        pytest.param([429, 503, 201], 3, None, id="a busy server is asked again"),
        pytest.param([NeverSent("down"), 409], 2, WriteError.CONFLICT, id="the last answer counts"),
        pytest.param(
            [NeverSent("down")] * 9, TRIES, WriteError.UNAVAILABLE, id="in the end it is reported as not done"
        ),
    ],
)
async def test_how_a_write_ends(answers, asked, trouble):
    server = Server(*answers)
    async with performing(server) as (performer, watcher):
        performer.submit(bind("a"))
        outcome = await watcher.next()
        assert (outcome.effect, outcome.trouble) == (bind("a"), trouble)
        assert len(server.calls) == asked
        assert watcher.counted == {("Bind", trouble or "accepted"): 1}


@pytest.mark.parametrize(
    "answers, asked, trouble",
    [
        pytest.param([], ["PATCH", "DELETE"], None, id="both requests"),
        pytest.param([409], ["PATCH"], WriteError.CONFLICT, id="the first that fails ends it"),
        pytest.param([200, 404], ["PATCH", "DELETE"], WriteError.GONE, id="the second one's trouble is the write's"),
        pytest.param(
            [200, *[NeverSent("down")] * TRIES],
            ["PATCH", *["DELETE"] * TRIES],
            WriteError.UNKNOWN,
            id="half done is not called not done",
        ),
    ],
)
async def test_a_write_of_two_requests(answers, asked, trouble):
    server = Server(*answers)
    async with performing(server) as (performer, watcher):
        performer.submit(Evict(target("a"), "Preempted", "for b", 0.0))
        assert (await watcher.next()).trouble == trouble
        assert [call.method for call in server.calls] == asked


async def test_pauses_between_tries_grow():
    clock = ImpatientClock()
    async with performing(Server(*[NeverSent("down")] * TRIES), clock) as (performer, watcher):
        performer.submit(bind("a"))
        await watcher.next()
    assert clock.pauses == [0.1, 0.2, 0.4, 0.8]
    assert watcher.seconds == [pytest.approx(1.5)], "all tries and pauses together are the time it took"


async def test_writes_to_one_object_follow_each_other_while_others_pass():
    server = Server()
    server.open.clear()
    async with performing(server) as (performer, watcher):
        for write in (bind("a", "n1"), Delete(target("a")), bind("b"), Delete(target("a"), 0)):
            performer.submit(write)
        await server.expect(2)
        assert [(call.method, call.path.split("/")[5:7]) for call in server.calls] == [
            ("POST", ["pods", "a"]),
            ("POST", ["pods", "b"]),
        ]
        server.open.set()
        done = [(await watcher.next()).effect for _ in range(4)]
        assert [write for write in done if write.target == target("a")] == [
            bind("a", "n1"),
            Delete(target("a")),
            Delete(target("a"), 0),
        ]


async def test_so_many_decisive_writes_at_a_time_and_no_more():
    server = Server()
    server.open.clear()
    async with performing(server) as (performer, watcher):
        for number in range(CONCURRENCY * 3):
            performer.submit(bind(f"p{number}"))
        await server.expect(CONCURRENCY)
        server.open.set()
        for _ in range(CONCURRENCY * 3):
            await watcher.next()
        assert server.most_under_way == CONCURRENCY
        assert server.bound == [f"p{number}" for number in range(CONCURRENCY * 3)]


async def test_informative_writes_take_no_place_of_a_decisive_one_and_events_get_no_outcome():
    server = Server()
    server.open.clear()
    async with performing(server) as (performer, watcher):
        for number in range(2 * MOST):
            performer.submit(event(f"e{number}"))
        await server.expect(MOST)
        assert server.under_way == MOST
        for number in range(CONCURRENCY):
            performer.submit(bind(f"p{number}"))
        await server.expect(CONCURRENCY)
        server.open.set()
        await server.expect(MOST)
        for _ in range(CONCURRENCY):
            assert isinstance((await watcher.next()).effect, Bind)
        assert watcher.outcomes.empty()


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(note, id="to pods that wait"),
        pytest.param(counts, id="of cluster queues that fill"),
        pytest.param(local_counts, id="of local queues that fill"),
        pytest.param(event, id="in events"),
    ],
)
async def test_pods_that_get_a_node_do_not_wait_for_what_is_told(told):
    server = Server()
    async with performing(server) as (performer, _):
        for number in range(500):
            performer.submit(told(f"g{number}"))
        for number in range(CONCURRENCY):
            performer.submit(bind(f"p{number}"))
        await server.expect(500 + CONCURRENCY)
    last_bind = max(at for at, call in enumerate(server.calls) if call.path.endswith("/binding"))
    assert last_bind < MOST + CONCURRENCY, "only what was under way already comes before"


async def test_what_a_binding_makes_untrue_is_not_told_any_more():
    server = Server()
    async with performing(server) as (performer, watcher):
        for number in range(100):
            performer.submit(note(f"g{number}"))
        performer.submit(bind("g99"))
        for _ in range(100):
            await watcher.next()
    about = [call.path.split("/")[-1] for call in server.calls if "/g99/" in call.path]
    assert about == ["binding"]


async def test_what_a_binding_that_fails_does_not_make_untrue_is_told_after_it():
    server = Server(*[200] * MOST, 409)
    server.open.clear()
    async with performing(server) as (performer, watcher):
        for number in range(MOST + 1):
            performer.submit(note(f"g{number}"))
        await server.expect(MOST)
        performer.submit(bind(f"g{MOST}"))
        await server.expect(1)
        server.open.set()
        for _ in range(MOST + 2):
            await watcher.next()
    about = [call.path.split("/")[-1] for call in server.calls if f"/g{MOST}/" in call.path]
    assert about == ["binding", "status"]


async def test_too_many_events_drop_the_oldest_and_are_counted():
    server = Server()
    server.open.clear()
    async with performing(server) as (performer, watcher):
        for number in range(MOST + EVENTS_WAITING + 3):
            performer.submit(event(f"e{number}"))
        assert watcher.dropped == 3
        await server.expect(MOST)
        server.open.set()
        await server.expect(1)
        assert f'"note":"e{MOST + 3}"'.encode() in server.calls[MOST].body


async def test_stopping_finishes_what_was_begun_and_begins_nothing_more():
    server = Server()
    server.open.clear()
    async with performing(server) as (performer, watcher):
        for number in range(CONCURRENCY + 5):
            performer.submit(bind(f"p{number}"))
        performer.submit(Delete(target("p0")))
        await server.expect(CONCURRENCY)
        draining = asyncio.create_task(performer.drain())
        await asyncio.sleep(0)
        performer.submit(bind("late"))
        server.open.set()
        assert await draining
        assert len(server.calls) == CONCURRENCY
        assert watcher.counted == {("Bind", "accepted"): CONCURRENCY}


async def test_stopping_does_not_wait_for_ever():
    server = Server()
    server.open.clear()
    async with performing(server) as (performer, _):
        performer.submit(bind("a"))
        await server.expect(1)
        assert not await performer.drain(0.01)


async def test_with_nothing_under_way_stopping_takes_no_time():
    async with performing(Server()) as (performer, _):
        assert await performer.drain(0)
