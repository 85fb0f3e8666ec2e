"""The fleet plane: workloads of this cluster that run on others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headgate.engine.journal import Journal
from headgate.engine.planes import Number
from headgate.model.effects import Effect, FleetEffect
from headgate.model.events import Event, FleetEvent
from headgate.model.keys import Key, Kind
from headgate.model.settings import Settings

TIMER = "fleet"


class FleetPlane:
    """Dispatches the Workloads of queues with a MultiKueue admission check to worker clusters."""

    reads: tuple[Kind, ...] = ()
    remote_reads: tuple[Kind, ...] = (Kind.KUEUE_WORKLOAD, Kind.JOB, Kind.POD, Kind.STATEFUL_SET)
    """The kinds to observe on worker clusters: of those objects that have the label of our origin."""
    timer = TIMER

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self._settings, self._journal = settings.multikueue, journal
        self.deciding: Key | None = None

    def absorb(self, event: Event | FleetEvent, now: float) -> Iterable[Effect | FleetEffect]:
        return ()

    def decide(self, now: float) -> Iterator[Effect | FleetEffect]:
        yield from ()

    def check(self) -> None:
        """Nothing is known yet that could be wrong."""

    def collect(self) -> Iterator[Number]:
        yield from ()
