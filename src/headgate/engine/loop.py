"""The one loop's one turn: absorb what is now true, decide, check, hand back what is to be done."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from headgate.engine.fleet.plane import FleetPlane
from headgate.engine.in_flight import AwaitedPermits
from headgate.engine.integrations.plane import IntegrationsPlane
from headgate.engine.journal import Journal
from headgate.engine.metrics import Distribution, Labels, PluginObserver, unwatched
from headgate.engine.planes import Plane
from headgate.engine.quota.plane import QuotaPlane
from headgate.engine.scheduler.plane import SchedulerPlane
from headgate.gates.pre_enqueue import PRE_ENQUEUE, PreEnqueue
from headgate.model.effects import Create, Effect, FleetEffect, Write
from headgate.model.events import (
    AnyEvent,
    FleetEvent,
    Gone,
    Observed,
    Outcome,
    RemoteConnection,
    RemoteEvent,
    TimerFired,
    WritePermits,
)
from headgate.model.keys import Key, Kind
from headgate.model.settings import Role, Settings
from headgate.preemption.solver.problem import Certifier

MOST_SAID = 512  # characters of an error that are passed on


class Raised(Exception):
    """A rule raised. `suspects` is whom the engine was busy with, `told` are all objects the step was told of.

    `cluster` is the worker cluster the suspect is on; None where it is at home.
    """

    def __init__(
        self, suspects: tuple[Key, ...], told: frozenset[Key], error: Exception, cluster: str | None = None
    ) -> None:
        super().__init__(str(error))
        self.suspects, self.told, self.error, self.cluster = suspects, told, error, cluster

    @property
    def why(self) -> str:
        """The error in one line of bounded length, and where it was raised."""
        frames = traceback.extract_tb(self.error.__traceback__)
        where = f" ({frames[-1].name} in {PurePath(frames[-1].filename).stem})" if frames else ""
        return f"{type(self.error).__name__}: {str(self.error)[:MOST_SAID]}{where}"


class Engine:
    """Every decision and nothing else: events in, effects out.

    The first batch must hold the whole cluster; afterwards a step costs in proportion to what changed.
    """

    def __init__(
        self,
        settings: Settings,
        pre_enqueue: tuple[PreEnqueue, ...] = PRE_ENQUEUE,
        certifier: Certifier | None = None,
        watch: PluginObserver = unwatched,
    ) -> None:
        self.journal = Journal()
        self._planes: list[Plane] = []
        self._informing: list[QuotaPlane | SchedulerPlane] = []  # those that wait for permits
        if Role.QUOTA in settings.roles:
            self._informing.append(QuotaPlane(settings, self.journal, watch))
            self._planes += self._informing
        if Role.INTEGRATIONS in settings.roles:
            self._planes.append(IntegrationsPlane(settings, self.journal))
        if Role.SCHEDULER in settings.roles:
            self._informing.append(SchedulerPlane(settings, pre_enqueue, self.journal, certifier, watch))
            self._planes.append(self._informing[-1])
        self._fleet = FleetPlane(settings, self.journal) if Role.FLEET in settings.roles else None
        if self._fleet is not None:
            self._planes.append(self._fleet)
        self._readers = {kind: [plane for plane in self._planes if kind in plane.reads] for kind in Kind}
        self._timers = {plane.timer: [plane] for plane in self._planes}

    @property
    def reads(self) -> tuple[Kind, ...]:
        """The kinds that must be observed, in the order they are best listed: nodes before the pods on them."""
        return tuple(dict.fromkeys(kind for plane in self._planes for kind in plane.reads))

    @property
    def remote_reads(self) -> tuple[Kind, ...]:
        """The kinds that must be observed on worker clusters, of objects with the label of our origin."""
        return () if self._fleet is None else self._fleet.remote_reads

    @property
    def awaited_permits(self) -> AwaitedPermits | None:
        """The informative writes that wait for `WritePermits`, after the last step."""
        return AwaitedPermits.of_all(*(plane.awaited_permits for plane in self._informing))

    def step(self, batch: Sequence[AnyEvent], now: float) -> list[Effect | FleetEffect]:
        """What concerns an object is told to the planes that read its kind; those that were told something decide.

        After an empty batch all of them decide: then it is time that has passed.
        Raises AssertionError for a broken invariant and Raised for anything else; neither leaves an engine of use.
        """
        effects: list[Effect | FleetEffect] = []
        awake: dict[Plane, None] = {}
        readers, lost = self._readers, False
        event: AnyEvent | None = None
        plane: Plane | None = None
        try:
            for event in batch:
                if isinstance(event, Observed):
                    told = readers[event.object.key.kind]
                elif isinstance(event, Outcome):
                    told = readers[_target(event.effect).kind]
                elif isinstance(event, Gone):
                    told = readers[event.key.kind]
                    lost = True
                elif isinstance(event, TimerFired):
                    told = self._timers.get(event.timer, [])
                else:
                    effects += self._absorb_other(event, awake, now)
                    continue
                for each in told:
                    awake[each] = None
                    effects += each.absorb(event, now)
            event = None
            planes = [plane for plane in self._planes if plane in awake] if batch else self._planes
            for plane in planes:
                effects += plane.decide(now)
            for plane in planes:
                plane.check()
            if lost:  # planes forget what they lose; here, what they still said about it
                self.journal.forget_fresh(_gone(batch))
        except AssertionError:
            raise
        except Exception as error:
            deciding = plane.deciding if plane is not None else None
            raise _raised(event, deciding, batch, error) from error
        return effects

    def _absorb_other(
        self, event: FleetEvent | WritePermits, awake: dict[Plane, None], now: float
    ) -> Iterable[Effect | FleetEffect]:
        """What concerns other clusters is told to the fleet plane alone."""
        if isinstance(event, WritePermits):
            self._permit(event.writes, awake)
            return ()
        if self._fleet is None:
            return ()
        awake[self._fleet] = None
        return self._fleet.absorb(event, now)

    def _permit(self, writes: int, awake: dict[Plane, None]) -> None:
        """Gives the permits to the plane that has waited longest for one."""
        waiting = {plane: found.since for plane in self._informing if (found := plane.awaited_permits) is not None}
        longest = min(waiting, key=lambda plane: waiting[plane], default=None)
        for plane in self._informing:
            plane.permits.give(writes if plane is longest else 0)
        if longest is not None:
            awake[longest] = None

    def gauges(self) -> Mapping[tuple[str, Labels], int | float | Distribution]:
        """What can be counted or measured now, by metric name and labels; names that end in _total only grow."""
        return {(name, labels): value for plane in self._planes for name, labels, value in plane.collect()}


def _raised(event: AnyEvent | None, deciding: Key | None, batch: Sequence[AnyEvent], error: Exception) -> Raised:
    """`event` is the one that was absorbed, None while it was decided."""
    told = frozenset(key for each in batch if (key := _subject(each)) is not None)
    if isinstance(event, RemoteEvent) and isinstance(event.event, Observed):
        return Raised((event.event.object.key,), told, error, event.cluster)
    suspect = deciding if event is None else _subject(event)
    return Raised(() if suspect is None else (suspect,), told, error)


def _gone(batch: Sequence[AnyEvent]) -> set[Key]:
    """The objects that are gone at the end of the batch: one of the same key may come again."""
    gone: set[Key] = set()
    for event in batch:
        if isinstance(event, Gone):
            gone.add(event.key)
        elif isinstance(event, Observed):
            gone.discard(event.object.key)
    return gone


def _subject(event: AnyEvent) -> Key | None:
    """The object that the event is about."""
    match event:
        case Observed():
            return event.object.key
        case Gone():
            return event.key
        case Outcome(effect=effect):
            return _target(effect)
        case TimerFired() | WritePermits() | RemoteEvent() | RemoteConnection():
            return None


def _target(write: Write) -> Key:
    return write.key if isinstance(write, Create) else write.target.key
