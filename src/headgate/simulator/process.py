"""Our process on one cluster: it sees, decides and performs, it may crash, lag and be cut off."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from headgate.apiserver import ApiServer
from headgate.engine.journal import Entry, Journal
from headgate.engine.loop import Engine, Raised
from headgate.engine.quarantine import GuardedEngine, Quarantine
from headgate.engine.scheduler.gangs import PLUGIN as GANGS
from headgate.gates.pre_enqueue import PRE_ENQUEUE, PreEnqueue
from headgate.model.effects import Bind, Create, Effect, Evict, PatchStatus, WakeAt, Write
from headgate.model.events import Event, Outcome, TimerFired, Trouble, Unreadable
from headgate.model.keys import Key, Kind
from headgate.model.pod import Pod
from headgate.model.settings import Point, Settings
from headgate.preemption.solver.exact import Limits, certifier
from headgate.simulator.clients import perform
from headgate.simulator.faults import Dice, Faults, SightFault, WriteFault
from headgate.simulator.invariants import (
    KNOWN_KINDS,
    ROOM_KINDS,
    FairPlay,
    RoomKept,
    WholeGangs,
    check_gates,
    check_nothing_lost,
)
from headgate.simulator.observing import Feed, Sight, View, coalesced, of_kinds

SetTimer = Callable[[WakeAt], None]
CHECKED = KNOWN_KINDS | ROOM_KINDS
"""The kinds of objects that invariants are about."""


class ProcessPlan(Struct, frozen=True):
    """What our process is started with, each time anew."""

    settings: Settings
    plugins: tuple[PreEnqueue, ...] = ()  # besides the built-in ones

    def engine(self) -> Engine:
        """Its solver counts steps and not time, so that one seed gives one history."""
        exact = certifier(Limits(seconds=None)) if self.settings.preemption.certify else None
        return Engine(self.settings, (*PRE_ENQUEUE, *self.plugins), exact)

    @property
    def with_gangs(self) -> frozenset[str]:
        """The schedulerNames that start gangs as gangs."""
        profiles = self.settings.profiles_in_full()
        return frozenset(each.scheduler_name for each in profiles if each.has_on(GANGS, Point.PRE_ENQUEUE))


class Process:
    """One life after another: a crash forgets everything, a start observes the cluster anew."""

    def __init__(self, server: ApiServer, feed: Feed, plan: ProcessPlan, faults: Faults, dice: Dice) -> None:
        self._server, self._feed, self._plan = server, feed, plan
        self._dice, self._restart_after = dice, faults.restart
        self.view = View(faults.stale)
        self.life = 0
        self.connected = True
        self.restarts_at: float | None = None
        self.story: list[Entry] = []
        self._engine: GuardedEngine | None = None
        self._quarantine = Quarantine()
        self._unreadable: dict[Key, Unreadable] = {}  # those it was told of
        self._fresh = False
        self._inbox: list[Event] = []
        self._busy_until = 0.0
        self._whole = WholeGangs()
        self.start()

    @property
    def journal(self) -> Journal | None:
        """What the present life has decided; none while it is down."""
        return self._engine.journal if self._engine is not None else None

    def start(self) -> None:
        self._engine, self._fresh = GuardedEngine(self._plan.engine, self._quarantine, self._plan.engine), True
        self._unreadable = {}
        self._room, self._fair = RoomKept(), FairPlay(self._plan.with_gangs)
        self._busy_until = 0.0
        self.restarts_at = None
        self.view.forget()

    def crash(self, now: float, seconds: float) -> None:
        """Dies now; what it was about to do is not done, and it does not know any more what it had quarantined."""
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

    def step(self, now: float, set_timer: SetTimer) -> bool:
        """One turn of the engine if there is anything to tell it; whether there was."""
        if self._engine is None or (self._fresh and not self.connected):
            return False
        sights = self._sights(now) if self.connected else []
        batch = [*self._inbox, *sights, *self._newly_unreadable()]
        if not batch and not self._fresh:
            return False
        self._inbox, self._fresh = [], False
        checked = of_kinds(sights, CHECKED)
        if checked:
            self._room.saw(checked)
            self._fair.known.saw(checked)
        try:
            effects = self._engine.step(batch, now)
        except Raised as raised:
            self._start_anew(self._engine, raised, now)
            return True
        entries = self._engine.journal.take()
        self.story.extend(entries)
        self._fair.check(effects, entries, self.journal)
        self._perform(effects, now, set_timer)
        return True

    def _newly_unreadable(self) -> list[Unreadable]:
        there = self._feed.unreadable if self.connected else self._unreadable
        if there == self._unreadable:
            return []
        known, self._unreadable = self._unreadable, dict(there)
        return [sight for key, sight in there.items() if known.get(key) != sight]

    def _start_anew(self, engine: GuardedEngine, raised: Raised, now: float) -> None:
        """As after a crash, but for what is quarantined. All that was sent has been answered."""
        self.story.extend(engine.journal.take())
        for _ in engine.find(raised, now):
            pass
        self._end(now, self._quarantine.rebuilding(now))

    def check_at_end(self, now: float) -> None:
        """What must hold when the run is over, of what our process has seen and had the time to finish."""
        if self._engine is None or not self.connected or self.view.next_at is not None:
            return
        served = frozenset(profile.scheduler_name for profile in self._plan.settings.profiles)
        check_nothing_lost(self._feed.objects.values(), served, self._engine.journal)
        if self._busy_until <= now:
            self._whole.check_settled(self._feed.objects.values(), self._engine.journal)

    def _sights(self, now: float) -> list[Sight]:
        if self._fresh:
            return self.view.relist(self._feed.objects)
        due = self.view.next_at
        if due is None or due > now:
            return []
        match self._dice.for_sight():
            case SightFault.DROPPED:
                return self.view.relist(self._feed.objects)
            case SightFault.COALESCED:
                return coalesced(self.view.release(now))
            case None:
                return self.view.release(now)

    def _perform(self, effects: list[Effect], now: float, set_timer: SetTimer) -> None:
        for effect in effects:
            if self._engine is None:  # it crashed on the way: the rest is not done
                return
            if isinstance(effect, WakeAt):
                self._busy_until = self._busy_until if effect.idle else max(self._busy_until, effect.at)
                set_timer(effect)
            else:
                self._write(effect, now)

    def _write(self, write: Write, now: float) -> None:
        """Only what is written about pods can break what must hold."""
        of_pod = not isinstance(write, Create) and write.target.key.kind is Kind.POD
        if of_pod:
            check_gates(write, self.journal)
        outcome = self._tried(write, now)
        if outcome is None:
            return
        if of_pod:
            self._room.heard(outcome)
            self._fair.known.heard(outcome)
        self._inbox.append(outcome)

    def _tried(self, write: Write, now: float) -> Outcome | None:
        """What our process gets to hear of it; nothing if it dies on the way."""
        if not self.connected:
            return Outcome(write, Trouble.UNAVAILABLE, "the cluster cannot be reached")
        match self._dice.for_write():
            case None:
                return self._send(write, now)
            case WriteFault.CRASH_BEFORE:
                self.crash(now, self._restart_after)
                return None
            case WriteFault.CRASH_AFTER:
                self._send(write, now)
                self.crash(now, self._restart_after)
                return None
            case WriteFault.LOST:
                self._send(write, now)
                return Outcome(write, Trouble.UNKNOWN, "the answer was lost")
            case WriteFault.CONFLICT:
                return Outcome(write, Trouble.CONFLICT, "the object has been modified")

    def _send(self, write: Write, now: float) -> Outcome:
        outcome = perform(write, self._server, now)
        if outcome.trouble is None and not isinstance(write, PatchStatus):
            self._took_hold(write)
        return outcome

    def _took_hold(self, write: Write) -> None:
        if isinstance(write, Bind):
            pod = self._feed.objects.get(write.target.key)
            if isinstance(pod, Pod):
                self._room.bound(write, pod, self.journal)
        elif isinstance(write, Evict):
            self._whole.evicted(write, self._feed.objects)
