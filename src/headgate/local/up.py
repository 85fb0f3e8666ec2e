"""`headgate up`: clusters on this machine, each with an API server, the rest of a cluster, and Headgate.

The rest of a cluster are the controllers and kubelets of `world`, which ask the API server over HTTPS, on a clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Protocol

from msgspec import Raw, Struct, structs

from headgate.apiserver.authorization import AuthorizationMode
from headgate.gates.pre_enqueue import PreEnqueue
from headgate.live.access import Access
from headgate.live.api_credentials import merged, write_private
from headgate.live.client import Client
from headgate.live.data_dir import CannotSave, InvalidDataDir
from headgate.live.http_server import CannotListen
from headgate.live.logs import Log, LogStream, Outages
from headgate.live.loop import EventQueue, Observation, Timers, WallClock
from headgate.live.performer import Performer
from headgate.live.reflector import Reflector, ReflectorDependencies
from headgate.live.service import RunPlan, serve
from headgate.live.start import DONE, FAILED, NEW_LOOP, WRONG_INPUT, stop_signal, with_names
from headgate.live.term import BrokenEngine
from headgate.local.servers import OWN_NAMESPACE, NoServer, StartedCluster, kube_apiserver, small_kubernetes
from headgate.local.summary import ClusterSummary, DecisionLog
from headgate.local.timeline import TimelinePlayer
from headgate.model.effects import EmitEvent, WakeAt, Write
from headgate.model.events import Gone, Observed, Outcome, TimerFired, Unreadable, WriteError
from headgate.model.keys import Kind
from headgate.model.settings import DEFAULT_SCHEDULER_NAME, Settings
from headgate.simulator.cluster import ControllerRunner, usual_controllers
from headgate.simulator.observing import ObjectChange, kinds_of
from headgate.simulator.scenario import ClusterPlan, InvalidScenario, Scenario
from headgate.world import Controller

SCHEDULERS = (DEFAULT_SCHEDULER_NAME, "default-scheduler")
"""Whose pods are scheduled unless a configuration says otherwise: there is no other scheduler."""
REDRAW_SECONDS = 0.5
QUIET_LOOKS = 8  # in a row at which nothing had happened, after which nothing more is expected
STOP_SECONDS = 1.0  # for writes under way

Plans = Mapping[str, ClusterPlan]
"""By the name of the cluster."""

Learn = Callable[[Outcome], None]


class UpPlan(Struct, frozen=True, kw_only=True):
    """What to start. The clusters, their objects and what happens to them are those of a scenario."""

    scenario: Scenario
    kubeconfig: Path
    speed: float = 1.0
    port: int = 0  # of the first cluster's API server
    assets: Path | None = None  # of a real kube-apiserver
    data_dir: Path | None = None  # with a folder for each cluster; None: nothing outlives the process
    authorization: AuthorizationMode = AuthorizationMode.ALWAYS_ALLOW  # of the small Kubernetes; a real one has RBAC
    ends_when_idle: bool = False
    plugins: tuple[PreEnqueue, ...] = ()


class UpView(LogStream, Protocol):
    """Where decisions are written, and what else is shown."""

    def ready(self, kubeconfig: Path, clusters: Sequence[str]) -> None:
        """All clusters can be asked."""

    def show(self, lines: Sequence[str]) -> None:
        """How things are by now."""

    def close(self) -> None: ...


def start_up(plan: UpPlan, view: UpView) -> int:
    """Runs until a signal, or until nothing more will happen where the plan says so; the exit code."""
    try:
        with asyncio.Runner(loop_factory=NEW_LOOP) as runner:
            runner.run(_until_signalled(plan, view))
    except BaseExceptionGroup as several:
        return _failed(several.exceptions[0], plan)
    except (InvalidScenario, InvalidDataDir, NoServer, CannotListen, CannotSave, BrokenEngine, OSError) as error:
        return _failed(error, plan)
    finally:
        view.close()
    return DONE


def _failed(error: BaseException, plan: UpPlan) -> int:
    match error:
        case InvalidScenario() | InvalidDataDir():
            sys.stderr.write(f"Error: {error}\n")
            return WRONG_INPUT
        case NoServer() | CannotListen() | CannotSave():
            sys.stderr.write(f"Error: {error}\n")
            return FAILED
        case BrokenEngine():
            sys.stderr.write(f"stopped: an invariant is broken: {error}\n")
            return FAILED
        case OSError():
            sys.stderr.write(f"Error: --kubeconfig: {plan.kubeconfig} cannot be written: {error.strerror}\n")
            return WRONG_INPUT
    raise error


async def _until_signalled(plan: UpPlan, view: UpView) -> None:
    stop = stop_signal(DecisionLog(view, "", time.time))
    await run_clusters(plan, view, stop)


class HeadgateProcess:
    """Headgate of one cluster, as `headgate run` runs it; it may crash, and starts again."""

    def __init__(self, plan: RunPlan, log: DecisionLog) -> None:
        self._plan, self._log = structs.replace(plan, reading=self), log
        self.is_deciding = False  # it has read the cluster, and has not crashed since
        self._running: asyncio.Task[None] | None = None
        self._down_seconds = 0.0
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Until it is stopped. Raises BrokenEngine."""
        while not self._stop.is_set():
            self._running = asyncio.ensure_future(serve(self._plan, self._log, self._stop))
            try:
                await asyncio.shield(self._running)
            except asyncio.CancelledError:
                if not self._running.cancelled():  # we are, and it is to go with us
                    self._running.cancel()
                    raise
                await asyncio.sleep(self._down_seconds / self._plan.clock.speed)

    def crash(self, seconds: float) -> None:
        """Ends it as a crash would, with writes under way; it is down for so long."""
        if self._running is not None and not self._running.done():
            self._down_seconds, self.is_deciding = seconds, False
            self._running.cancel()

    def read(self, kind: Kind, count: int) -> None:
        """Nobody looks on."""

    def done(self) -> None:
        """It has read the whole cluster."""
        self.is_deciding = True

    def stop(self) -> None:
        """Lets it finish what is under way."""
        self._stop.set()


class _RunningCluster(Struct, frozen=True):
    summary: ClusterSummary
    world: WorldLoop
    process: HeadgateProcess


async def run_clusters(plan: UpPlan, view: UpView, stop: asyncio.Event) -> None:
    """Returns after a clean stop. Raises InvalidScenario, InvalidDataDir, NoServer, CannotListen, CannotSave,
    BrokenEngine and OSError, in groups too.
    """
    clock = WallClock(time.time(), plan.speed)
    plans = {each.name: structs.replace(each, settings=_settings(each.settings)) for each in plan.scenario.clusters}
    async with contextlib.AsyncExitStack() as stack:
        started: dict[str, StartedCluster] = {}
        for name, each in plans.items():
            port = 0 if started else plan.port
            started[name] = await stack.enter_async_context(_server(plan, each, clock, port))
        write_private(plan.kubeconfig, merged([cluster.kubeconfig for cluster in started.values()]))
        await _Session(plan, view, clock, started, plans).run(stop)


@contextlib.asynccontextmanager
async def _server(plan: UpPlan, cluster: ClusterPlan, clock: WallClock, port: int) -> AsyncIterator[StartedCluster]:
    folder = None if plan.data_dir is None else plan.data_dir / cluster.name
    if plan.assets is None:
        async with small_kubernetes(
            cluster.name, cluster.settings, clock, folder, port, mode=plan.authorization
        ) as started:
            yield started
        return
    with tempfile.TemporaryDirectory(prefix="headgate-up-", ignore_cleanup_errors=True) as temporary:
        folder = folder or Path(temporary)
        async with kube_apiserver(cluster.name, cluster.settings, plan.assets, folder, port) as started:
            yield started


def _settings(settings: Settings) -> Settings:
    """With all schedulers, unless a configuration names profiles."""
    return with_names(settings, SCHEDULERS) if settings.profiles == Settings().profiles else settings


def _run(
    plan: UpPlan, cluster: ClusterPlan, started: StartedCluster, clock: WallClock, view: UpView
) -> _RunningCluster:
    log = DecisionLog(view, cluster.name if len(plan.scenario.clusters) > 1 else "", clock)
    summary = ClusterSummary()
    scaling = () if cluster.autoscaler is None else (cluster.autoscaler.start(),)
    world = WorldLoop(started.controllers, (*usual_controllers(), *scaling, summary), clock, log)
    run = RunPlan(
        started.headgate,
        cluster.settings,
        webhooks=started.webhooks,
        plugins=plan.plugins,
        namespace=OWN_NAMESPACE,
        clock=clock,
    )
    return _RunningCluster(summary, world, HeadgateProcess(run, log))


class _Session:
    """Everything that runs on the API servers, until it is stopped or over."""

    def __init__(
        self, plan: UpPlan, view: UpView, clock: WallClock, started: dict[str, StartedCluster], plans: Plans
    ) -> None:
        self._plan, self._view, self._clock, self._started = plan, view, clock, started
        self._running = {name: _run(plan, plans[name], cluster, clock, view) for name, cluster in started.items()}
        self._began = clock()  # the timeline
        self._player = TimelinePlayer(plan.scenario, started, clock, self._restart, self._tell)

    async def run(self, stop: asyncio.Event) -> None:
        running = self._running.values()
        async with asyncio.TaskGroup() as group:
            headgates = [group.create_task(each.process.run()) for each in running]
            saving = [group.create_task(each.keep()) for each in self._started.values()]
            others = [group.create_task(work) for work in (*(each.world.run() for each in running), self._show())]
            playing = group.create_task(self._play())
            try:
                await self._end(stop, playing)
            finally:
                playing.cancel()
                self._player.close()
                for cluster in running:
                    cluster.process.stop()
                await asyncio.wait(headgates, timeout=STOP_SECONDS)
                for task in (*headgates, *others, *saving):
                    task.cancel()
        self._view.show(list(self._lines()))

    async def _play(self) -> None:
        await self._player.create_objects()
        self._began = self._clock()
        self._view.ready(self._plan.kubeconfig, list(self._running))
        await self._player.play()

    async def _end(self, stop: asyncio.Event, playing: asyncio.Task[None]) -> None:
        """Returns when it is stopped, or when the scenario is at its end and that is what the plan waits for."""
        until, looks = self._plan.scenario.until, deque[int](maxlen=QUIET_LOOKS)
        while not stop.is_set():
            looks.append(-1 if self._is_waiting() else self._batches())
            quiet = len(looks) == QUIET_LOOKS and 0 <= looks[0] == looks[-1]
            over = quiet if until is None else self._clock() >= self._began + until
            if self._plan.ends_when_idle and playing.done() and over:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REDRAW_SECONDS):
                    await stop.wait()

    def _batches(self) -> int:
        return sum(each.world.batches for each in self._running.values())

    def _is_waiting(self) -> bool:
        return any(each.world.is_waiting or not each.process.is_deciding for each in self._running.values())

    async def _show(self) -> None:
        while True:
            self._view.show(list(self._lines()))
            await asyncio.sleep(REDRAW_SECONDS)

    def _lines(self) -> Iterator[str]:
        for name, cluster in self._running.items():
            where = f"{name}: " if len(self._running) > 1 else ""
            yield from (f"{where}{line}" for line in cluster.summary.lines())

    def _restart(self, name: str, seconds: float) -> None:
        for cluster in [self._running[name]] if name else self._running.values():
            cluster.process.crash(seconds)

    def _tell(self, cluster: str, line: str) -> None:
        DecisionLog(self._view, cluster if len(self._running) > 1 else "", self._clock).warning(line)


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
