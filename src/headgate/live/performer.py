"""Performs writes: concurrently, in order for each object, each answered by an Outcome.

Decisive writes go first, and at once. Informative ones (`live.informing`) have connections of their own, as many as the
server has capacity for: those that name no version wait here, where a later one takes the place of an earlier; for the
others the engine is given permits.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Protocol

from headgate.api.requests import Call, calls_for, trouble_of
from headgate.engine.in_flight import AwaitedPermits
from headgate.engine.metrics import Labels
from headgate.live.connection import AnswerLost, HttpResponse, NeverSent
from headgate.live.informing import WAITED_FOR, InformWindow, WaitingNotes
from headgate.model.effects import Bind, Create, Delete, EmitEvent, Evict, PatchStatus, Write
from headgate.model.events import Outcome, WriteError, WritePermits
from headgate.model.keys import Key
from headgate.model.settings import InformWithin

WITHIN = InformWithin()
CONCURRENCY = 64  # decisive writes under way
BACKLOG_PAUSE = 0.1  # seconds that the next step waits for the decisive writes of the last ones, at most
TRIES = 5  # of one request, where asking again is safe
FIRST_RETRY = 0.1  # seconds, doubling
DRAIN_SECONDS = 10.0
STEP_REST = 0.05  # seconds between two steps of the engine while the server is saturated
LONGEST_REASON = 512  # characters
REPORTER = "headgate"
ENDS_WAITING = (Bind, Evict, Delete)
"""Writes after which it is not true any more that a pod waits."""


class Asks(Protocol):
    """The part of a client that performing needs."""

    async def perform(self, call: Call) -> HttpResponse: ...


class WriteObserver(Protocol):
    """Is called for every write, for metrics."""

    def performed(self, write: Write, trouble: WriteError | None, seconds: float) -> None: ...

    def event_dropped(self) -> None: ...

    def note_merged(self) -> None:
        """An informative write took the place of an earlier one that was not sent yet."""


class InformLine(IntEnum):
    """Informative writes are of two lines, each with its own bound of those under way."""

    WAITED_FOR = 0  # by other programs, such as autoscalers
    OTHERS = 1


class Performer:
    """A queue of writes; the engine bounds it by at most one in-flight write for each object."""

    def __init__(
        self,
        client: Asks,
        tell: Callable[[Outcome | WritePermits], None],
        observer: WriteObserver,
        sleep: Callable[[float], Awaitable[None]],
        clock: Callable[[], float],
        *,
        within: InformWithin = WITHIN,
    ) -> None:
        self._client, self._tell, self._observer, self._sleep, self._clock = client, tell, observer, sleep, clock
        self._ready: deque[tuple[Write, float]] = deque()  # decisive, and since when
        self._permitted: deque[Write] = deque()  # informative, with a permit
        self._notes = WaitingNotes(within.saturated, observer.event_dropped, observer.note_merged)
        self._window = InformWindow(within)
        self._awaited: AwaitedPermits | None = None  # since when by the clock
        self._given = 0  # permits that no step has taken yet
        self._behind: dict[Key, list[Write]] = {}  # by object that has a write ready or under way
        self._informing = [0 for _ in InformLine]  # writes under way, or at rest after one
        self._group: asyncio.TaskGroup | None = None  # while it runs
        self._under_way = 0
        self._parked: deque[asyncio.Future[None]] = deque()
        self._has_capacity = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._stopping = False

    def submit(self, write: Write) -> None:
        """Returns at once; the outcome is told later. Kubernetes events get no outcome, nor does what is replaced."""
        if self._stopping:
            return
        if isinstance(write, EmitEvent) or (isinstance(write, PatchStatus) and write.informs and not write.permitted):
            self._notes.put(write, self._clock(), is_saturated=self._window.is_saturated)
            self._inform(is_stepping=True)
        elif (line := self._behind.get(key := object_of(write))) is not None:
            line.append(write)
        else:
            self._behind[key] = []
            self._line_up(write)

    def await_permits(self, awaited: AwaitedPermits | None, now: float) -> None:
        """After a step, which has taken all permits there were: the engine has informative writes that wait for more,
        or none; `now` is the time by its clock.
        """
        self._given = 0
        if awaited is not None:
            awaited = AwaitedPermits(awaited.writes, self._clock() - (now - awaited.since))
        self._awaited = awaited
        self._inform()

    async def rest_of_a_step(self) -> None:
        """Until the next step may begin: when no more decisive writes wait than may be under way, after BACKLOG_PAUSE
        at the latest, and after a rest while the server is saturated.

        What is decided before that could not be sent any sooner; a step with many events costs little more than one
        with few, and deciding takes less of the CPU that the server may need.
        """
        if len(self._ready) > CONCURRENCY:
            self._has_capacity.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BACKLOG_PAUSE):
                    await self._has_capacity.wait()
        elif self._window.is_saturated:
            await self._sleep(STEP_REST)

    def gauges(self) -> dict[tuple[str, Labels], int | float]:
        """How much waits to be told, since when, and how much of it may be under way."""
        waiting = len(self._notes) + (self._awaited.writes if self._awaited is not None else 0)
        waited_for = self._notes.waited_for_since
        return {
            ("headgate_informative_writes_waiting", ()): waiting,
            ("headgate_informative_writes_age_seconds", ()): max(self._age, self._seconds_since(waited_for)),
            ("headgate_informative_writes_window", ()): self._window.size,
        }

    async def run(self) -> None:
        """Performs until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            for _ in range(CONCURRENCY):
                self._group.create_task(self._worker())
            self._inform()

    async def drain(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Start nothing more and wait for what is under way; whether all of it was answered in time."""
        self._stopping = True
        for waiting in (self._ready, self._permitted, self._notes, self._behind):
            waiting.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._quiet.wait()
        except TimeoutError:
            return False
        return True

    async def _worker(self) -> None:
        while True:
            while not self._ready:
                await self._park()
            write, since = self._ready.popleft()
            if len(self._ready) == CONCURRENCY:
                self._has_capacity.set()
            await self._perform(write, since)

    async def _perform(self, write: Write, since: float) -> None:
        self._under_way += 1
        self._quiet.clear()
        began = self._clock()
        try:
            trouble, message = await self._ask_for(write)
            self._observer.performed(write, trouble, self._clock() - began)
            if isinstance(write, ENDS_WAITING) and trouble is None:
                self._notes.outdate(write.target)
            if not isinstance(write, EmitEvent):
                self._tell(Outcome(write, trouble, message))
        finally:
            self._under_way -= 1
            if self._under_way == 0:
                self._quiet.set()
        self._window.answered(self._clock() - since)
        self._finish(write)
        self._inform()

    async def _perform_informative(self, write: Write, line: InformLine) -> None:
        """What nobody waits for is followed by a rest while the server is saturated."""
        began = self._clock()
        await self._perform(write, began)
        rest = self._window.rest(self._clock() - began, self._age) if line is InformLine.OTHERS else 0.0
        if rest > 0:
            await self._sleep(rest)
        self._informing[line] -= 1
        self._inform()

    def _finish(self, write: Write) -> None:
        """What waits behind the write is next."""
        if not isinstance(write, EmitEvent):
            if line := self._behind.get(key := object_of(write)):
                self._line_up(line.pop(0))
            else:
                self._behind.pop(key, None)

    def _line_up(self, write: Write) -> None:
        if isinstance(write, PatchStatus) and write.permitted:
            self._permitted.append(write)
            self._inform()
        else:
            self._ready.append((write, self._clock()))
            if self._parked:
                self._parked.popleft().set_result(None)

    async def _park(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._parked.append(turn)
        await turn

    # informative writes

    @property
    def _age(self) -> float:
        """Seconds that the oldest informative write waits, events aside and what other programs wait for."""
        awaited = self._awaited.since if self._awaited is not None else math.inf
        return self._seconds_since(min(self._notes.since, awaited))

    def _seconds_since(self, at: float) -> float:
        return max(0.0, self._clock() - at) if at < math.inf else 0.0

    def _inform(self, *, is_stepping: bool = False) -> None:
        """Begins the informative writes that there is capacity for."""
        while self._group is not None and not self._stopping:
            line = InformLine.WAITED_FOR
            note: Write | None = None
            if self._notes.has_waited_for and self._informing[line] < WAITED_FOR:
                note = self._notes.take_waited_for(self._behind)
            if note is None:
                line = InformLine.OTHERS
                note = self._permitted.popleft() if self._permitted else self._take_note(is_stepping)
            if note is None:
                return
            if not isinstance(note, EmitEvent):
                self._behind.setdefault(object_of(note), [])
            self._informing[line] += 1
            self._group.create_task(self._perform_informative(note, line))

    def _take_note(self, is_stepping: bool) -> Write | None:
        """The next note, or None after permits for what the engine keeps: whichever waits longer.

        During a step no permits are given: what the engine says at its end is newer.
        """
        if self._awaited is None and self._notes.can_wait(self._clock(), is_backlogged=bool(self._ready)):
            return None
        left = self._window.size - self._informing[InformLine.OTHERS] - self._given
        if left <= 0:
            return None
        if self._awaited is not None and self._awaited.since <= self._notes.since:
            if not is_stepping:
                self._given = min(left, self._awaited.writes)
                self._tell(WritePermits(self._given))
                self._awaited = None
            return None
        return self._notes.take(self._behind, self._clock())

    async def _ask_for(self, write: Write) -> tuple[WriteError | None, str]:
        """Its requests in order, up to the first that fails. After a first success "nothing was done" would not be
        true.
        """
        try:
            calls = calls_for(write, REPORTER)
        except Exception as error:  # what cannot be put into words is refused, and no reason to stop the others
            return WriteError.REFUSED, f"it cannot be written: {type(error).__name__}: {error}"[:LONGEST_REASON]
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
        for tries in range(1, TRIES + 1):
            try:
                answer = await self._client.perform(call)
            except NeverSent as lost:
                trouble, message = WriteError.UNAVAILABLE, str(lost)
            except AnswerLost as lost:
                return WriteError.UNKNOWN, str(lost)
            else:
                if (found := trouble_of(answer.status, answer.body)) is None:
                    return None, ""
                trouble, message = found
            if trouble is not WriteError.UNAVAILABLE or self._stopping or tries == TRIES:
                break
            await self._sleep(pause)
            pause *= 2
        return trouble, message


def object_of(write: Write) -> Key:
    return write.key if isinstance(write, Create) else write.target.key
