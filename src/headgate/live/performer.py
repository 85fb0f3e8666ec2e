"""Performs writes: concurrently, in order for each object, each answered by an Outcome."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from headgate.api.requests import Call, calls_for, trouble_of
from headgate.live.connection import AnswerLost, HttpResponse, NeverSent
from headgate.model.effects import (
    ClusterQueueStatus,
    CohortStatus,
    Create,
    EmitEvent,
    LocalQueueStatus,
    PatchStatus,
    PodCondition,
    Write,
)
from headgate.model.events import Outcome, WriteError
from headgate.model.keys import Key

CONCURRENCY = 32  # writes under way
ACTS_PER_NOTE = 8  # other writes before the next that only tells how things stand
EVENT_CONCURRENCY = 4  # of them Kubernetes events, which may wait
EVENTS_WAITING = 20_000  # beyond this the oldest are dropped
TRIES = 5  # of one request, where asking again is safe
FIRST_RETRY = 0.1  # seconds, doubling
DRAIN_SECONDS = 10.0
LONGEST_REASON = 512  # characters
REPORTER = "headgate"
Note = PodCondition | ClusterQueueStatus | LocalQueueStatus | CohortStatus
"""Informational status changes, on which no decision depends: they yield to other writes."""


class Asks(Protocol):
    """The part of a client that performing needs."""

    async def perform(self, call: Call) -> HttpResponse: ...


class WriteObserver(Protocol):
    """Is called for every write, for metrics."""

    def performed(self, write: Write, trouble: WriteError | None, seconds: float) -> None: ...

    def event_dropped(self) -> None: ...


class Performer:
    """A queue of writes; the engine bounds it by at most one in-flight write for each object."""

    def __init__(
        self,
        client: Asks,
        tell: Callable[[Outcome], None],
        observer: WriteObserver,
        sleep: Callable[[float], Awaitable[None]],
        clock: Callable[[], float],
    ) -> None:
        self._client, self._tell, self._observer, self._sleep, self._clock = client, tell, observer, sleep, clock
        self._ready: deque[Write] = deque()
        self._notes: deque[Write] = deque()  # ready too, but whoever waits for a node or quota does not wait for these
        self._behind: dict[Key, deque[Write]] = {}  # by object that has a write ready or under way
        self._events: deque[EmitEvent] = deque()
        self._events_under_way = 0
        self._acts_in_a_row = 0
        self._under_way = 0
        self._parked: deque[asyncio.Future[None]] = deque()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._stopping = False

    def submit(self, write: Write) -> None:
        """Returns at once; the outcome is told later. Kubernetes events get no outcome."""
        if self._stopping:
            return
        if isinstance(write, EmitEvent):
            self._submit_event(write)
        elif (line := self._behind.get(object_of(write))) is not None:
            line.append(write)
            self._hurry(object_of(write), write)
        else:
            self._behind[object_of(write)] = deque()
            (self._notes if is_note(write) else self._ready).append(write)
            self._wake_worker()

    def _hurry(self, key: Key, behind: Write) -> None:
        """A note that something more urgent waits behind is as urgent."""
        if is_note(behind):
            return
        for note in [note for note in self._notes if object_of(note) == key]:
            self._notes.remove(note)
            self._ready.append(note)

    async def run(self) -> None:
        """Performs until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(CONCURRENCY):
                workers.create_task(self._worker())

    async def drain(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Start nothing more and wait for what is under way; whether all of it was answered in time."""
        self._stopping = True
        self._ready.clear()
        self._notes.clear()
        self._events.clear()
        self._behind.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._quiet.wait()
        except TimeoutError:
            return False
        return True

    def _submit_event(self, event: EmitEvent) -> None:
        self._events.append(event)
        if len(self._events) > EVENTS_WAITING:
            self._events.popleft()
            self._observer.event_dropped()
        self._wake_worker()

    async def _worker(self) -> None:
        while True:
            while (write := self._take()) is None:
                await self._park()
            self._begin(write)
            try:
                await self._carry_out(write)
            finally:
                self._finish(write)

    def _take(self) -> Write | None:
        """Acts, now and then a note, then events; None when only events wait and enough of them are under way."""
        if self._ready and (not self._notes or self._acts_in_a_row < ACTS_PER_NOTE):
            self._acts_in_a_row += 1
            return self._ready.popleft()
        if self._notes:
            self._acts_in_a_row = 0
            return self._notes.popleft()
        if self._events and self._events_under_way < EVENT_CONCURRENCY:
            return self._events.popleft()
        return None

    async def _park(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._parked.append(turn)
        await turn

    def _wake_worker(self) -> None:
        if self._parked:
            self._parked.popleft().set_result(None)

    def _begin(self, write: Write) -> None:
        self._under_way += 1
        self._events_under_way += isinstance(write, EmitEvent)
        self._quiet.clear()

    def _finish(self, write: Write) -> None:
        """This worker goes on with what waits behind the write, so no other need be woken."""
        self._under_way -= 1
        if self._under_way == 0:
            self._quiet.set()
        if isinstance(write, EmitEvent):
            self._events_under_way -= 1
        elif line := self._behind.get(object_of(write)):
            self._ready.append(line.popleft())
        else:
            self._behind.pop(object_of(write), None)

    async def _carry_out(self, write: Write) -> None:
        began = self._clock()
        trouble: WriteError | None
        try:
            calls = calls_for(write, REPORTER)
        except Exception as error:  # what cannot be put into words is refused, and no reason to stop the others
            trouble, message = (
                WriteError.REFUSED,
                f"it cannot be written: {type(error).__name__}: {error}"[:LONGEST_REASON],
            )
        else:
            trouble, message = await self._ask_all(calls)
        self._observer.performed(write, trouble, self._clock() - began)
        if not isinstance(write, EmitEvent):
            self._tell(Outcome(write, trouble, message))

    async def _ask_all(self, calls: tuple[Call, ...]) -> tuple[WriteError | None, str]:
        """In order, up to the first that fails. After a first success "nothing was done" would not be true."""
        for position, call in enumerate(calls):
            trouble, message = await self._ask(call)
            if trouble is WriteError.UNAVAILABLE and position > 0:
                return WriteError.UNKNOWN, message
            if trouble is not None:
                return trouble, message
        return None, ""

    async def _ask(self, call: Call) -> tuple[WriteError | None, str]:
        """Asks again only where the server certainly did nothing."""
        pause = FIRST_RETRY
        for _ in range(TRIES - 1):
            trouble, message = await self._ask_once(call)
            if trouble is not WriteError.UNAVAILABLE or self._stopping:
                return trouble, message
            await self._sleep(pause)
            pause *= 2
        return await self._ask_once(call)

    async def _ask_once(self, call: Call) -> tuple[WriteError | None, str]:
        try:
            answer = await self._client.perform(call)
        except NeverSent as trouble:
            return WriteError.UNAVAILABLE, str(trouble)
        except AnswerLost as trouble:
            return WriteError.UNKNOWN, str(trouble)
        return trouble_of(answer.status, answer.body) or (None, "")


def is_note(write: Write) -> bool:
    return isinstance(write, PatchStatus) and isinstance(write.change, Note)


def object_of(write: Write) -> Key:
    return write.key if isinstance(write, Create) else write.target.key
