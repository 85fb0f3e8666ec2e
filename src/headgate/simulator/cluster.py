"""One simulated cluster: a small Kubernetes, the rest of the world in it, and our process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from headgate.api.decode import READABLE
from headgate.api.rereading import Rereading
from headgate.apiserver.builtin import INITIAL_OBJECTS
from headgate.apiserver.server import ApiServer
from headgate.model.effects import WakeAt
from headgate.model.events import Event, Outcome, TimerFired
from headgate.model.keys import Kind
from headgate.simulator.acting import Hand
from headgate.simulator.census import Census
from headgate.simulator.faults import Dice, Faults
from headgate.simulator.features import admission_for
from headgate.simulator.installed import installed_objects, looking_at, our_webhooks
from headgate.simulator.invariants import BoundOnce
from headgate.simulator.observing import Feed, Sight, kinds_of, of_kinds
from headgate.simulator.performing import perform
from headgate.simulator.process import Process, ProcessPlan
from headgate.world.controller import Controller
from headgate.world.disruptions import DisruptionController
from headgate.world.jobs import JobController
from headgate.world.nodes import Kubelet, NodeLifecycle
from headgate.world.stateful_sets import StatefulSetController

WORLD = "system:kube-controller-manager"
"""As whom the rules of the world write."""


class Wake(Protocol):
    """Sets a timer: at that time, this happens; nobody waits for an idle one."""

    def __call__(self, at: float, event: Callable[[], None], idle: bool = False) -> None: ...


class Seat:
    """One rule of the world and what it has not heard yet."""

    def __init__(self, rule: Controller) -> None:
        self._rule, self._reads = rule, frozenset(rule.reads)
        self._inbox: list[Event] = []

    def learn(self, sights: Sequence[Sight], kinds: frozenset[Kind]) -> None:
        """All that it reads of the sights, which are of these kinds."""
        if kinds <= self._reads:
            self._inbox += sights
        elif not kinds.isdisjoint(self._reads):
            self._inbox += of_kinds(sights, self._reads)

    def ring(self, timer: str) -> None:
        self._inbox.append(TimerFired(timer))

    def act(self, server: ApiServer, now: float, wake: Wake) -> bool:
        """Lets the rule react to what is new; whether there was anything."""
        if not self._inbox:
            return False
        batch, self._inbox = self._inbox, []
        for effect in self._rule.react(batch, now):
            if isinstance(effect, WakeAt):
                wake(effect.at, partial(self.ring, effect.timer))
            else:
                self._hear(perform(effect, server, now, WORLD))
        return True

    def _hear(self, outcome: Outcome) -> None:
        if outcome.trouble is not None:  # that a write took hold is seen anyway
            self._inbox.append(outcome)


class Cluster:
    """`neighbours` are further rules of its world."""

    def __init__(
        self,
        name: str,
        seed: int,
        faults: Faults,
        dice: Dice,
        plan: ProcessPlan,
        *,
        neighbours: Sequence[Controller] = (),
    ) -> None:
        self.name = name
        reading = Rereading()  # what a webhook was asked about is what is seen next
        webhooks = our_webhooks(plan.settings.quota, looking_at(lambda: self.server), reading)
        self.server = ApiServer(
            seed,
            admission=(*admission_for(plan.settings.features), webhooks),
            objects=(*INITIAL_OBJECTS, *installed_objects()),
        )
        self.hand = Hand(self.server, {(known["kind"], known["metadata"]["name"]) for known in installed_objects()})
        self.census = Census()
        self._bound_once = BoundOnce()
        own: tuple[Controller, ...] = (
            JobController(),
            StatefulSetController(),
            NodeLifecycle(),
            DisruptionController(),
        )
        rules = (Kubelet(faults.stuck), *own, *neighbours)
        self._seats = [Seat(rule) for rule in rules]
        self._feed = Feed(self.server, READABLE, reading.read)
        self.process = Process(self.server, self._feed, plan, faults, dice)
        self.changed_at = 0.0
        self._looks_at: float | None = None
        self._cut_off_until = 0.0
        self._rises_in = -1

    def round(self, now: float, wake: Wake) -> bool:
        """Everyone hears what is new and acts on it once; whether anyone did."""
        self._hear(now)
        moved = self.process.step(now, lambda alarm: wake(alarm.at, self._ringing_us(alarm.timer), alarm.idle))
        self._hear(now)
        for seat in self._seats:
            moved |= seat.act(self.server, now, wake)
        self._plan(now, wake)
        return moved

    def crash(self, now: float, seconds: float, wake: Wake) -> None:
        self.process.crash(now, seconds)
        self._plan(now, wake)

    def disconnect(self, now: float, seconds: float, wake: Wake) -> None:
        self.process.connected = False
        self._cut_off_until = max(self._cut_off_until, now + seconds)
        until = self._cut_off_until
        wake(until, lambda: self._reconnect(until))

    def _reconnect(self, at: float) -> None:
        if at >= self._cut_off_until:
            self.process.connected = True

    def _hear(self, now: float) -> None:
        sights = self._feed.poll()
        if not sights:
            return
        self.changed_at = now
        kinds = kinds_of(sights)
        if Kind.POD in kinds:
            self._bound_once.check(sights, self.process.journal)
            self.census.count(sights, now)
        self.process.view.learn(sights, now)
        for seat in self._seats:
            seat.learn(sights, kinds)

    def _plan(self, now: float, wake: Wake) -> None:
        """Timers for what comes by itself: late sights, and the next life of a crashed process."""
        due = self.process.view.next_at
        if due is not None and due > now and due != self._looks_at:
            self._looks_at = due
            wake(due, lambda: None)
        life, rises = self.process.life, self.process.restarts_at
        if rises is not None and life != self._rises_in:
            self._rises_in = life
            wake(rises, lambda: self._rise(life))

    def _rise(self, life: int) -> None:
        if life == self.process.life:
            self.process.start()

    def _ringing_us(self, timer: str) -> Callable[[], None]:
        return partial(self.process.ring, self.process.life, timer)
