"""The connections to worker clusters: each with a client, reflectors, a queue of writes and a backoff of its own.

Nothing of one cluster is waited for by another, nor by the loop that decides. What is observed on a cluster is told as
`RemoteEvent`s; that it is connected, once all of it was listed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar, assert_never

from msgspec import Raw, Struct

from headgate.api.requests import Call
from headgate.api.wire import format_time
from headgate.live.access import Access
from headgate.live.client import Client
from headgate.live.connection import Disconnected, HttpResponse, NeverSent, Stream
from headgate.live.kubeconfig import InsecureKubeconfig, InvalidKubeconfig, worker_access
from headgate.live.kubeconfig_source import FileSource, Kubeconfig, KubeconfigSource, NoKubeconfig, SecretSource
from headgate.live.performer import DRAIN_SECONDS, Performer
from headgate.live.reflector import Known, Reflector, ReflectorDependencies
from headgate.model.effects import Connect, Disconnect, FleetEffect, RemoteWrite, Write
from headgate.model.events import (
    FleetEvent,
    Gone,
    Observed,
    Outcome,
    RemoteConnection,
    RemoteEvent,
    RemoteState,
    Unreadable,
    WriteError,
    WritePermits,
)
from headgate.model.keys import Kind
from headgate.model.kueue_names import MULTIKUEUE_ORIGIN
from headgate.model.settings import MultiKueueSettings

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 320.0  # seconds between two attempts to connect, doubling: Kueue's
LONGEST_REASON = 512  # characters
QUIET_SECONDS = 15.0  # without an answer, after which the server is asked whether it is there
HEARTBEAT_TIMEOUT = 30.0  # seconds it may take to say so
HEARTBEAT = Call("GET", "/version", {}, "", b"")
DEMANDED = frozenset({Kind.KUEUE_WORKLOAD})
"""Without this kind a cluster is no worker."""

T = TypeVar("T")


class WorkerObserver(Protocol):
    """Is told of requests and writes to worker clusters, for metrics."""

    def requested(self, cluster: str, outcome: str, seconds: float) -> None: ...

    def wrote(self, cluster: str, write: Write, trouble: WriteError | None) -> None: ...

    def forgotten(self, cluster: str) -> None: ...


def unrecorded(_event: Observed | Gone, _raw: Raw, _cluster: str) -> None:
    """The recorder of a process that records nothing."""


class WorkerDependencies(Struct, frozen=True):
    """What the connections of a process share. Kubeconfigs are read from Secrets in `namespace` of the home cluster."""

    home: ReflectorDependencies
    namespace: str
    settings: MultiKueueSettings
    observer: WorkerObserver
    clock: Callable[[], float]
    wall: Callable[[], float]
    note: Callable[[Observed | Gone, Raw, str], None] = unrecorded  # takes what is observed, and on which cluster


class ClusterConnections:
    """Performs what is decided about worker clusters, in tasks of a group; `start` it before anything is performed."""

    def __init__(
        self, dependencies: WorkerDependencies, kinds: tuple[Kind, ...], tell: Callable[[FleetEvent], None]
    ) -> None:
        self._dependencies, self._kinds, self._tell = dependencies, kinds, tell
        self._group: asyncio.TaskGroup
        self._connections: dict[str, tuple[WorkerConnection, asyncio.Task[None]]] = {}

    def start(self, group: asyncio.TaskGroup) -> None:
        self._group = group

    def perform(self, effect: FleetEffect) -> None:
        """Returns at once."""
        match effect:
            case Connect(cluster):
                if (found := self._connections.get(cluster)) is not None:
                    found[0].use(effect)
                else:
                    made = WorkerConnection(effect, self._dependencies, self._kinds, self._tell)
                    self._connections[cluster] = (made, self._group.create_task(made.run()))
            case Disconnect(cluster):
                self._disconnect(cluster)
            case RemoteWrite(cluster, write):
                self._write(cluster, write)
            case _:
                assert_never(effect)

    def _disconnect(self, cluster: str) -> None:
        connection, task = self._connections.pop(cluster, (None, None))
        if connection is not None and task is not None:
            connection.close()
            task.cancel()
            self._dependencies.observer.forgotten(cluster)

    def _write(self, cluster: str, write: Write) -> None:
        if (found := self._connections.get(cluster)) is not None:
            found[0].submit(write)
        else:
            self._tell(RemoteEvent(cluster, Outcome(write, WriteError.UNAVAILABLE, f"{cluster} is not connected")))

    async def drain(self) -> bool:
        """Start nothing more and wait for what is under way; whether all of it was answered in time."""
        drained = await asyncio.gather(*(connection.drain() for connection, _ in self._connections.values()))
        return all(drained)

    def close(self) -> None:
        for cluster in list(self._connections):
            self._disconnect(cluster)


class WorkerConnection:
    """One worker cluster for as long as it is to be used: a session after the other, with pauses where one fails."""

    def __init__(
        self,
        source: Connect,
        dependencies: WorkerDependencies,
        kinds: tuple[Kind, ...],
        tell: Callable[[FleetEvent], None],
    ) -> None:
        self._cluster, self._source, self._dependencies, self._kinds = source.cluster, source, dependencies, kinds
        self._tell_all, self._closed = tell, False
        self._known: dict[Kind, Known] = {kind: {} for kind in kinds}
        self._kubeconfig: Kubeconfig | None = None
        self._changed, self._moved = asyncio.Event(), asyncio.Event()  # the kubeconfig did; the place where it is
        self._client = SessionClient(self._cluster, dependencies)
        self._performer = Performer(
            self._client,
            self._answered,
            _Writes(self._cluster, dependencies.observer),
            dependencies.home.sleep,
            dependencies.clock,
        )
        self._attempts = 0  # in a row that failed
        self._said = ("", "")  # the state and reason that were logged last

    def use(self, source: Connect) -> None:
        """Begins anew with the kubeconfig that is there, also if it is the same: all that is known is told again.

        The writes about an object stay in their order.
        """
        self._source, self._kubeconfig = source, None
        self._moved.set()
        self._changed.set()

    def submit(self, write: Write) -> None:
        self._performer.submit(write)

    async def drain(self) -> bool:
        return await self._performer.drain(DRAIN_SECONDS)

    def close(self) -> None:
        """Nothing more is told."""
        self._closed = True

    async def run(self) -> None:
        """Goes on until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._performer.run())
            group.create_task(self._for_ever(self._follow))
            group.create_task(self._for_ever(self._attempt))

    async def _for_ever(self, work: Callable[[], Awaitable[None]]) -> None:
        """A mistake of ours about one cluster ends neither the process nor the connections to others."""
        while True:
            try:
                await work()
            except Exception as error:
                await self._pause(f"{type(error).__name__}: {error}")

    async def _follow(self) -> None:
        self._moved.clear()
        await self._until(self._moved, _place(self._source, self._dependencies).follow(self._take_kubeconfig))

    def _take_kubeconfig(self, kubeconfig: Kubeconfig) -> None:
        if kubeconfig != self._kubeconfig:
            self._kubeconfig = kubeconfig
            self._attempts = 0
            self._changed.set()

    async def _attempt(self) -> None:
        """Until the connection is lost and the pause after that is over, or there is another kubeconfig."""
        self._changed.clear()
        if self._kubeconfig is None:
            await self._changed.wait()
            return
        dependencies = self._dependencies
        try:
            access = self._access(self._kubeconfig)
            client = Client(access, dependencies.clock, dependencies.wall, dependencies.home.sleep)
        except InvalidKubeconfig as error:
            reason = "InsecureKubeConfig" if isinstance(error, InsecureKubeconfig) else "BadKubeConfig"
            self._say(RemoteState.REFUSED, reason, str(error))
            await self._changed.wait()
            return
        why = await self._until(self._changed, self._session(client))
        if why is not None:
            await self._until(self._changed, self._pause(why))

    def _access(self, kubeconfig: Kubeconfig) -> Access:
        """Raises InvalidKubeconfig."""
        if isinstance(kubeconfig, NoKubeconfig):
            raise InvalidKubeconfig("", "", kubeconfig.why)
        return worker_access(kubeconfig, str(_place(self._source, self._dependencies)))

    async def _session(self, client: Client) -> str:
        """Why it ended. Objects that were known are told again, so that nothing depends on what was told before."""
        try:
            await client.resolve()
        except NeverSent as trouble:
            return str(trouble)
        session, unlisted = Session(), dict.fromkeys(self._kinds)
        for known in self._known.values():
            known.update({key: (uid, "") for key, (uid, _) in known.items()})

        def listed(kind: Kind) -> None:
            if unlisted:
                unlisted.pop(kind, None)
                if not unlisted:
                    self._attempts = 0
                    self._say(RemoteState.CONNECTED, "Active", "Connected")

        around = self._reflector_dependencies(session)
        reflectors = [Reflector(kind, around, self._observed, listed, self._known[kind]) for kind in self._kinds]
        self._client.begin(client)
        tasks = [asyncio.ensure_future(reflector.run()) for reflector in reflectors]
        tasks.append(asyncio.ensure_future(self._client.beat(session)))
        try:
            return await session.end(tasks)
        finally:
            self._client.end()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _reflector_dependencies(self, session: Session) -> ReflectorDependencies:
        home, origin = self._dependencies.home, self._dependencies.settings.origin
        return ReflectorDependencies(
            self._client,
            session,
            home.log,
            home.sleep,
            home.random,
            lambda _kind: None,
            selector=f"{MULTIKUEUE_ORIGIN}={origin}",
            demanded=DEMANDED,
        )

    async def _pause(self, why: str) -> None:
        seconds = min(FIRST_PAUSE * 2.0 ** min(self._attempts, 10), LONGEST_PAUSE)
        self._attempts += 1
        next_at = format_time(self._dependencies.wall() + seconds)
        attempts = "1 failed attempt" if self._attempts == 1 else f"{self._attempts} failed attempts"
        said = f"{why[:LONGEST_REASON]}; {attempts}, the next one is at {next_at}"
        self._say(RemoteState.LOST, "ClientConnectionFailed", said)
        await self._dependencies.home.sleep(seconds)

    async def _until(self, event: asyncio.Event, work: Coroutine[None, None, T]) -> T | None:
        """What the work returns; None if the event comes before."""
        doing, coming = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait((doing, coming), return_when=asyncio.FIRST_COMPLETED)
            return None if coming.done() else doing.result()
        finally:
            doing.cancel()
            coming.cancel()
            await asyncio.gather(doing, coming, return_exceptions=True)

    def _observed(self, event: Observed | Gone | Unreadable, raw: Raw) -> None:
        if not isinstance(event, Unreadable) and not self._closed:
            self._dependencies.note(event, raw, self._cluster)
        self._tell(RemoteEvent(self._cluster, event))

    def _answered(self, outcome: Outcome | WritePermits) -> None:
        if isinstance(outcome, Outcome):
            self._tell(RemoteEvent(self._cluster, outcome))

    def _say(self, state: RemoteState, reason: str, message: str) -> None:
        """Logged when it is news, and not at every attempt."""
        if self._closed:
            return
        if (state, reason) != self._said or state is RemoteState.REFUSED:
            log, self._said = self._dependencies.home.log, (state, reason)
            if state is RemoteState.CONNECTED:
                log.info("worker cluster connected", cluster=self._cluster, server=self._client.server)
            else:
                log.warning("worker cluster not connected", cluster=self._cluster, reason=reason, error=message)
        self._tell(RemoteConnection(self._cluster, state, reason, message))

    def _tell(self, event: FleetEvent) -> None:
        if not self._closed:
            self._tell_all(event)


def _place(connect: Connect, dependencies: WorkerDependencies) -> KubeconfigSource:
    home = dependencies.home
    if connect.secret:
        return SecretSource(connect.secret, dependencies.namespace, home.client, home.sleep, home.random)
    return FileSource(connect.path, dependencies.settings.kubeconfig_directory, home.sleep)


class _Writes(Struct, frozen=True):
    """The writes to one cluster, as a `WriteObserver`."""

    cluster: str
    observer: WorkerObserver

    def performed(self, write: Write, trouble: WriteError | None, _seconds: float) -> None:
        self.observer.wrote(self.cluster, write, trouble)

    def event_dropped(self) -> None:
        """No Kubernetes events are written to worker clusters."""

    def note_merged(self) -> None:
        """Nor anything else that only informs."""


class Session:
    """Ends when reading fails."""

    def __init__(self) -> None:
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def end(self, reading: Sequence[asyncio.Future[None]]) -> str:
        """Why it ended: because reading failed, or because a reflector did, which must not end the process."""
        waited: list[asyncio.Future[Any]] = [self._lost, *reading]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if self._lost.done():
            return self._lost.result()
        errors = [error for task in reading if task.done() and (error := task.exception()) is not None]
        return f"{type(errors[0]).__name__}: {errors[0]}" if errors else "reading ended"

    # OutageObserver

    def failing(self, what: str, _who: str, why: str) -> None:
        if not self._lost.done():
            self._lost.set_result(f"{what}: {why}")

    def recovered(self, _who: str) -> None:
        """A session that has failed is over."""

    def dropped(self, _who: str) -> None:
        """A session that has failed is over."""


class SessionClient:
    """The client of the current session; without one nothing is sent. Requests are counted and timed."""

    def __init__(self, cluster: str, dependencies: WorkerDependencies) -> None:
        self._cluster, self._observer, self._clock = cluster, dependencies.observer, dependencies.clock
        self._current: Client | None = None
        self._answered = 0  # requests of this session

    @property
    def server(self) -> str:
        return self._current.server if self._current is not None else ""

    def begin(self, client: Client) -> None:
        self._current = client

    def end(self) -> None:
        if self._current is not None:
            self._current.close()
            self._current = None

    async def perform(self, call: Call) -> HttpResponse:
        """Raises NeverSent or AnswerLost."""
        client, began = self._client(), self._clock()
        try:
            answer = await client.perform(call)
        except Disconnected:
            self._observer.requested(self._cluster, "failed", self._clock() - began)
            raise
        self._observer.requested(self._cluster, str(answer.status), self._clock() - began)
        self._answered += 1
        return answer

    async def beat(self, session: Session) -> None:
        """Ends the session when the server accepts requests and does not answer: a watch may be silent for minutes."""
        while True:
            answered = self._answered
            await asyncio.sleep(QUIET_SECONDS)
            if self._answered == answered:
                try:
                    await self._client().perform(HEARTBEAT, HEARTBEAT_TIMEOUT)
                except Disconnected as trouble:
                    session.failing("API server", "", str(trouble))
                    return

    @contextlib.asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream | HttpResponse]:
        async with self._client().stream(call) as opened:
            yield opened

    def _client(self) -> Client:
        if self._current is None:
            raise NeverSent(f"{self._cluster} is not connected")
        return self._current
