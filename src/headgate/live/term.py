"""One leader term: a fresh engine observes the whole cluster, decides until it is stopped, and its writes finish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import assert_never

from msgspec import Raw, Struct

from headgate.engine.journal import Entry
from headgate.engine.loop import Engine, Raised
from headgate.engine.metrics import PluginObserver, unwatched
from headgate.engine.quarantine import GuardedEngine, Quarantine, Seen, Subject
from headgate.gates.pre_enqueue import PreEnqueue
from headgate.live.announcements import Announcement, Announcements
from headgate.live.logs import Log, ReadProgress, Unwatched
from headgate.live.loop import EventQueue, Observation, Timers, run_steps
from headgate.live.metrics import Gauges, Metrics, seconds_of_attempts
from headgate.live.performer import Performer, object_of
from headgate.live.plugin_calls import Stopwatch
from headgate.live.recorder import Recorder
from headgate.live.reflector import Reflector, ReflectorDependencies
from headgate.live.worker_clusters import ClusterConnections, WorkerDependencies, unrecorded
from headgate.model.effects import (
    Bind,
    Connect,
    Create,
    Delete,
    Disconnect,
    Effect,
    EmitEvent,
    Evict,
    FleetEffect,
    PatchSpec,
    PatchStatus,
    RemoteWrite,
    RemoveGate,
    WakeAt,
)
from headgate.model.events import Observed, Outcome, RemoteEvent, Unreadable, WriteError, WritePermits
from headgate.model.settings import Settings
from headgate.preemption.solver.exact import SolverLimits, certifier

STORY = 20  # journal entries logged when an invariant is broken


class BrokenEngine(Exception):
    """An invariant did not hold. Carries the journal entries just before."""

    def __init__(self, broken: str, story: Sequence[Entry]) -> None:
        super().__init__(broken)
        self.story = tuple(story)


class TermDependencies(Struct, frozen=True):
    """What all terms of one process share."""

    settings: Settings
    pre_enqueue: tuple[PreEnqueue, ...]
    reflector: ReflectorDependencies
    metrics: Metrics
    log: Log
    recorder: Recorder | None
    clock: Callable[[], float]
    wall: Callable[[], float]
    quarantine: Quarantine
    reading: ReadProgress = Unwatched()
    namespace: str = "kube-system"  # our own, where the kubeconfigs of worker clusters are
    speed: float = 1.0  # of the wall clock

    def fresh(self, watch: PluginObserver = unwatched) -> Engine:
        preemption = self.settings.preemption
        exact = certifier(SolverLimits(seconds=preemption.certify_seconds)) if preemption.certify else None
        return Engine(self.settings, self.pre_enqueue, exact, watch)


class LeaderTerm:
    """One engine with its reflectors, writes and timers. `run` it once: setting `stop` lets in-flight writes finish,
    cancelling does not.
    """

    def __init__(self, dependencies: TermDependencies) -> None:
        self._dependencies = dependencies
        stopwatch = Stopwatch(dependencies.metrics.asked, dependencies.clock)
        fresh = partial(dependencies.fresh, stopwatch)
        self._engine = GuardedEngine(fresh, dependencies.quarantine, dependencies.fresh)
        self._events = EventQueue(self._engine.reads)
        client, sleep = dependencies.reflector.client, dependencies.reflector.sleep
        within = dependencies.settings.inform_within
        self._performer = Performer(
            client, self._events.tell, dependencies.metrics, sleep, dependencies.clock, within=within
        )
        self._events.tell(WritePermits(0))  # what only informs waits until the performer has capacity for it
        self._timers = Timers(dependencies.wall, self._events.tell, dependencies.speed)
        self._workers = ClusterConnections(self._around_workers(), self._engine.remote_reads, self._events.tell_remote)
        self._announcements = Announcements()
        self._effects: list[Effect] = []  # of the step
        self._step_began = self._now = 0.0
        self.journal = self._engine.journal
        self.absorbed = False  # the whole cluster has been read and decided on once
        self._raised = asyncio.Event()  # the engine did, so this term is over

    def _around_workers(self) -> WorkerDependencies:
        shared = self._dependencies
        settings = shared.settings.multikueue
        return WorkerDependencies(
            shared.reflector,
            shared.namespace,
            settings,
            shared.metrics.workers,
            shared.clock,
            shared.wall,
            shared.recorder.note if shared.recorder is not None else unrecorded,
        )

    async def run(self, stop: asyncio.Event) -> bool:
        """Whether another term must follow, because this one's engine raised. Its writes are answered by then."""
        self._dependencies.metrics.start_leading(self._gauges)
        try:
            async with asyncio.TaskGroup() as group:
                self._workers.start(group)
                background = [group.create_task(work) for work in (*self._reflections(), self._performer.run())]
                deciding = group.create_task(self._decide())
                await self._end(stop)
                deciding.cancel()
                await self._drain()
                self._workers.close()
                for task in background:
                    task.cancel()
        except* BrokenEngine as broken:
            raise broken.exceptions[0] from None
        finally:
            self._timers.clear()
            self._dependencies.metrics.stop_leading()
        return self._raised.is_set()

    def _gauges(self) -> Gauges:
        return {**self._engine.gauges(), **self._performer.gauges()}

    async def _end(self, stop: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (stop, self._raised)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _reflections(self) -> list[Coroutine[None, None, None]]:
        dependencies = self._dependencies.reflector
        return [Reflector(kind, dependencies, self._observe, self._events.listed).run() for kind in self._engine.reads]

    async def _decide(self) -> None:
        try:
            rest = self._performer.rest_of_a_step
            await run_steps(self._engine, self._events, self._perform, self._dependencies.wall, self, rest=rest)
        except AssertionError as broken:
            raise BrokenEngine(str(broken), self._engine.journal.take()[-STORY:]) from broken
        except Raised as raised:
            await self._quarantine(raised)
            self._raised.set()

    async def _quarantine(self, raised: Raised) -> None:
        """Finds the objects to quarantine. Other tasks run between two trials, so that the lease is renewed."""
        log, search = self._dependencies.log, self._engine.find(raised, self._dependencies.wall())
        log.error("the engine raised: searching for the object that caused it", error=raised.why)
        try:
            while True:
                next(search)
                await asyncio.sleep(0)
        except StopIteration as done:
            blamed: tuple[Subject, ...] = done.value
        except AssertionError as broken:
            raise BrokenEngine(f"{broken}: {raised.why}", self._engine.journal.take()[-STORY:]) from raised
        for key in blamed:
            log.error("quarantined until it changes", object=str(key), error=raised.why)
            log.entries(self._engine.story(key))
        if not blamed:
            log.error("no object found that caused it: restarting the engine", error=raised.why)

    async def _drain(self) -> None:
        if not all(await asyncio.gather(self._performer.drain(), self._workers.drain())):
            self._dependencies.log.warning("stopping with unanswered writes")
        self._tell_answered(self._events.take_outcomes(), self._dependencies.wall())

    def _observe(self, event: Observation, raw: Raw) -> None:
        if not self.absorbed:
            key = event.object.key if isinstance(event, Observed) else event.key
            self._dependencies.reading.read(key.kind, 1)
        if self._dependencies.recorder is not None and not isinstance(event, Unreadable):
            self._dependencies.recorder.note(event, raw)
        self._events.observe(event)

    def _perform(self, effect: Effect | FleetEffect) -> None:
        match effect:
            case Bind() | EmitEvent() | PatchStatus() | RemoveGate() | PatchSpec() | Create() | Delete() | Evict():
                self._effects.append(effect)
                self._performer.submit(effect)
            case WakeAt():
                self._timers.set(effect)
            case RemoteWrite():
                self._workers.perform(effect)
            case Connect() | Disconnect():
                self._events.forget_remote(effect.cluster)
                self._workers.perform(effect)
            case _:
                assert_never(effect)

    # StepObserver

    def before_step(self, batch: Sequence[Seen], now: float) -> None:
        if not self.absorbed:
            self._dependencies.reading.done()
        if self._dependencies.recorder is not None:
            told = [event for event in batch if not isinstance(event, Unreadable | WritePermits)]
            self._dependencies.recorder.write(told, now)
        self._now, self._step_began = now, self._dependencies.clock()

    def after_step(self, batch: Sequence[Seen], entries: Sequence[Entry]) -> None:
        metrics, seconds = self._dependencies.metrics, self._dependencies.clock() - self._step_began
        metrics.stepped(len(batch), seconds)
        self._performer.await_permits(self._engine.awaited_permits, self._now)
        self._tell_answered(batch, self._now)
        share, effects, self._effects = seconds_of_attempts(entries, seconds), self._effects, []
        at_once = self._announcements.hold(entries, effects, share)
        metrics.told(at_once, share)
        self._dependencies.log.entries(at_once)
        self.absorbed = True

    def _tell_answered(self, batch: Sequence[Seen], now: float) -> None:
        """Logs and counts what came true, and logs what did not; writes are counted by their outcome anyway."""
        log, entries = self._dependencies.log, list[Entry]()
        for event in batch:
            if isinstance(event, Outcome):
                self._warn_if_refused(event, {})
            elif isinstance(event, RemoteEvent) and isinstance(event.event, Outcome):
                self._warn_if_refused(event.event, {"cluster": event.cluster})
        for answered in self._announcements.answered(batch, now):
            if isinstance(answered, Announcement):
                self._dependencies.metrics.told((answered.entry,), answered.seconds)
                entries.append(answered.entry)
            else:
                entry, error = answered.entry, answered.message or answered.trouble
                log.warning(f"{entry.decision} failed", object=str(entry.key), reason=entry.reason, error=error)
        log.entries(entries)

    def _warn_if_refused(self, outcome: Outcome, where: Mapping[str, str]) -> None:
        if outcome.trouble is not WriteError.REFUSED:
            return
        what, key, error = type(outcome.effect).__name__, object_of(outcome.effect), outcome.message
        said = error or outcome.trouble
        self._dependencies.log.warning("the server refuses a write", **where, effect=what, object=str(key), error=said)
