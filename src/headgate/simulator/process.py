"""Our process on one cluster: observes, decides and performs; may crash, lag and be disconnected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from headgate.apiserver import ApiServer
from headgate.engine.journal import Entry, Journal
from headgate.engine.loop import Engine, Raised
from headgate.engine.quarantine import GuardedEngine, Quarantine
from headgate.engine.scheduler.gangs import PLUGIN as GANGS
from headgate.gates.pre_enqueue import PRE_ENQUEUE, PreEnqueue
from headgate.model.effects import (
    Bind,
    Connect,
    Create,
    Disconnect,
    Effect,
    Evict,
    FleetEffect,
    PatchStatus,
    RemoteWrite,
    WakeAt,
    Write,
)
from headgate.model.events import Event, FleetEvent, Outcome, RemoteEvent, TimerFired, Unreadable, WriteError
from headgate.model.keys import Key, Kind
from headgate.model.pod import Pod
from headgate.model.settings import Point, Role, Settings
from headgate.preemption.solver.exact import SolverLimits, certifier
from headgate.simulator.clients import perform
from headgate.simulator.faults import FaultInjector, WriteFault
from headgate.simulator.invariants import (
    CAPACITY_KINDS,
    KNOWN_KINDS,
    NodeCapacityInvariant,
    SchedulingInvariants,
    WholeGangPreemption,
    check_gates,
    check_nothing_lost,
)
from headgate.simulator.network import UNREACHABLE, Network, RemoteObjects, WorkerConnections
from headgate.simulator.observing import DelayedObservations, Feed, ObjectChange, of_kinds

SetTimer = Callable[[WakeAt], None]
Send = Callable[[Write, float], Outcome]
_POD = Kind.POD  # found sooner than members of enums
CHECKED = KNOWN_KINDS | CAPACITY_KINDS
"""The kinds of objects that invariants are about."""


class ProcessPlan(Struct, frozen=True):
    """What our process is started with, each time anew."""

    settings: Settings
    plugins: tuple[PreEnqueue, ...] = ()  # besides the built-in ones

    def engine(self) -> Engine:
        """Its solver counts steps and not time, so that one seed gives one history."""
        exact = certifier(SolverLimits(seconds=None)) if self.settings.preemption.certify else None
        return Engine(self.settings, (*PRE_ENQUEUE, *self.plugins), exact)

    @property
    def watched_remotely(self) -> RemoteObjects:
        return RemoteObjects(self.engine().remote_reads, self.settings.multikueue.origin)

    @property
    def served(self) -> frozenset[str]:
        """The schedulerNames whose pods it schedules."""
        settings = self.settings
        profiles = settings.profiles if Role.SCHEDULER in settings.roles else ()
        return frozenset(profile.scheduler_name for profile in profiles)

    @property
    def with_gangs(self) -> frozenset[str]:
        """The schedulerNames that start gangs as gangs."""
        profiles = self.settings.profiles_in_full()
        return frozenset(each.scheduler_name for each in profiles if each.has_on(GANGS, Point.PRE_ENQUEUE))


class ProcessPlace(Struct, frozen=True):
    """Where our process runs, and the cluster whose process it is."""

    network: Network
    place: str
    cluster: str


class Process:
    """A process that restarts after each crash with no state but the cluster's."""

    def __init__(
        self, server: ApiServer, feed: Feed, plan: ProcessPlan, injector: FaultInjector, access: ProcessPlace
    ) -> None:
        self._server, self._feed, self._plan = server, feed, plan
        self._injector, self._restart_after = injector, injector.faults.restart
        self.view = DelayedObservations(injector.faults.stale)
        self.life = 0
        self._access = access
        self._workers = WorkerConnections(access.network, access.place, plan.watched_remotely, injector)
        self.restarts_at: float | None = None
        self.journal_entries: list[Entry] = []
        self._engine: GuardedEngine | None = None
        self._quarantine = Quarantine()
        self._unreadable: dict[Key, Unreadable] = {}  # those it was told of
        self._fresh = False
        self._inbox: list[Event | FleetEvent] = []
        self._busy_until = 0.0
        self._whole = WholeGangPreemption()
        self.start()

    @property
    def journal(self) -> Journal | None:
        """The journal of the running process; None while it is down."""
        return self._engine.journal if self._engine is not None else None

    @property
    def next_at(self) -> float | None:
        """When the next delayed observation is due."""
        times = [at for at in (self.view.next_at, self._workers.next_at) if at is not None]
        return min(times, default=None)

    @property
    def _connected(self) -> bool:
        return self._access.network.reaches(self._access.place, self._access.cluster)

    def set_lag(self, seconds: float, now: float) -> None:
        """From now on all its observations lag by this time."""
        self.view.set_lag(seconds, now)
        self._workers.set_lag(seconds, now)

    def start(self) -> None:
        self._engine, self._fresh = GuardedEngine(self._plan.engine, self._quarantine, self._plan.engine), True
        self._unreadable = {}
        self._capacity, self._scheduling = NodeCapacityInvariant(), SchedulingInvariants(self._plan.with_gangs)
        self._busy_until = 0.0
        self.restarts_at = None
        self.view.forget()
        self._workers.forget()

    def crash(self, now: float, seconds: float) -> None:
        """Crashes: pending writes are not performed and the quarantine is forgotten."""
        self._quarantine = Quarantine()
        self._end(now, seconds)

    def _end(self, now: float, seconds: float) -> None:
        self._engine = None
        self.life += 1
        self._inbox = []
        self.restarts_at = now + seconds

    def ring(self, life: int, timer: str) -> None:
        if life == self.life:
            self._inbox.append(TimerFired(timer))

    def has_news(self, now: float) -> bool:
        """Whether there may be events for its engine, beside those of changes that it was not told of yet."""
        if self._engine is None:
            return False
        waiting = self._fresh or self._inbox or self._unreadable != self._feed.unreadable
        return bool(waiting) or self.view.is_due(now) or self._workers.has_news(now)

    def step(self, now: float, set_timer: SetTimer) -> bool:
        """Steps the engine if there are events for it; returns whether there were."""
        if self._engine is None or (self._fresh and not self._connected):
            return False
        changes = self._changes(now) if self._connected else []
        batch = [*self._inbox, *changes, *self._newly_unreadable(), *self._workers.events(now)]
        if not batch and not self._fresh:
            return False
        self._inbox, self._fresh = [], False
        checked = of_kinds(changes, CHECKED)
        if checked:
            self._capacity.observe(checked)
            self._scheduling.known.observe(checked)
        try:
            effects = self._engine.step(batch, now)
        except Raised as raised:
            self._restart_engine(self._engine, raised, now)
            return True
        entries = self._engine.journal.take()
        self.journal_entries.extend(entries)
        self._scheduling.check(effects, entries, self.journal)
        self._perform(effects, now, set_timer)
        return True

    def _newly_unreadable(self) -> list[Unreadable]:
        there = self._feed.unreadable if self._connected else self._unreadable
        if there == self._unreadable:
            return []
        known, self._unreadable = self._unreadable, dict(there)
        return [change for key, change in there.items() if known.get(key) != change]

    def _restart_engine(self, engine: GuardedEngine, raised: Raised, now: float) -> None:
        """Restarts as after a crash, but keeps the quarantine. All writes have been answered."""
        self.journal_entries.extend(engine.journal.take())
        for _ in engine.find(raised, now):
            pass
        self._end(now, self._quarantine.rebuilding(now))

    def check_at_end(self, now: float) -> None:
        """Checks what must hold at the end of a run, if our process has observed everything."""
        if self._engine is None or not self._connected or self.view.next_at is not None:
            return
        check_nothing_lost(self._feed.objects.values(), self._plan.served, self._engine.journal)
        if self._busy_until <= now:
            self._whole.check_settled(self._feed.objects.values(), self._engine.journal)

    def _changes(self, now: float) -> list[ObjectChange]:
        if self._fresh:
            return self.view.relist(self._feed.objects)
        return self.view.observe(self._feed.objects, now, self._injector)

    def _perform(self, effects: Sequence[Effect | FleetEffect], now: float, set_timer: SetTimer) -> None:
        for effect in effects:
            if self._engine is None:  # it crashed on the way: the rest is not done
                return
            if isinstance(effect, WakeAt):
                self._busy_until = self._busy_until if effect.idle else max(self._busy_until, effect.at)
                set_timer(effect)
            elif isinstance(effect, FleetEffect):
                self._perform_remotely(effect, now)
            else:
                self._write(effect, now)

    def _perform_remotely(self, effect: FleetEffect, now: float) -> None:
        match effect:
            case Connect():
                self._workers.connect(effect)
            case Disconnect(cluster):
                self._workers.disconnect(cluster)
            case RemoteWrite(cluster, write):
                self._write_remotely(cluster, write, now)

    def _write(self, write: Write, now: float) -> None:
        """Performs a write; invariants concern writes to pods only."""
        of_pod = not isinstance(write, Create) and write.target.key.kind is _POD
        if of_pod:
            check_gates(write, self.journal)
        outcome = self._tried(write, self._send, now) if self._connected else _unreachable(write)
        if outcome is None:
            return
        if of_pod:
            self._capacity.observe_outcome(outcome)
            self._scheduling.known.observe_outcome(outcome)
        self._inbox.append(outcome)

    def _write_remotely(self, cluster: str, write: Write, now: float) -> None:
        send = partial(self._workers.perform, cluster)
        outcome = self._tried(write, send, now) if self._workers.reaches(cluster) else _unreachable(write)
        if outcome is not None:
            self._inbox.append(RemoteEvent(cluster, outcome))

    def _tried(self, write: Write, send: Send, now: float) -> Outcome | None:
        """The outcome as our process observes it; None if it crashes."""
        match self._injector.for_write():
            case None:
                return send(write, now)
            case WriteFault.CRASH_BEFORE:
                self.crash(now, self._restart_after)
                return None
            case WriteFault.CRASH_AFTER:
                send(write, now)
                self.crash(now, self._restart_after)
                return None
            case WriteFault.LOST:
                send(write, now)
                return Outcome(write, WriteError.UNKNOWN, "the answer was lost")
            case WriteFault.CONFLICT:
                return Outcome(write, WriteError.CONFLICT, "the object has been modified")

    def _send(self, write: Write, now: float) -> Outcome:
        outcome = perform(write, self._server, now)
        if outcome.trouble is None and not isinstance(write, PatchStatus):
            self._check_effect(write)
        return outcome

    def _check_effect(self, write: Write) -> None:
        if isinstance(write, Bind):
            pod = self._feed.objects.get(write.target.key)
            if isinstance(pod, Pod):
                self._capacity.bound(write, pod, self.journal)
        elif isinstance(write, Evict):
            self._whole.evicted(write, self._feed.objects)


def _unreachable(write: Write) -> Outcome:
    return Outcome(write, WriteError.UNAVAILABLE, UNREACHABLE)
