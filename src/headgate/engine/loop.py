"""The one loop's one turn: absorb what is now true, decide, check, hand back what is to be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.engine.distributions import Distribution, Labels
from headgate.engine.extension_points import Watch, unwatched
from headgate.engine.integrations.plane import IntegrationsPlane
from headgate.engine.journal import Journal
from headgate.engine.planes import Plane
from headgate.engine.quota.plane import QuotaPlane
from headgate.engine.scheduling import PodScheduling
from headgate.gates.pre_enqueue import PRE_ENQUEUE, PreEnqueue
from headgate.model.effects import Effect
from headgate.model.events import Event, Gone, Observed
from headgate.model.keys import Kind
from headgate.model.settings import Role, Settings
from headgate.preemption.solver.problem import Certifier


class Engine:
    """Every decision and nothing else: events in, effects out.

    The first batch must hold the whole cluster; afterwards a step costs in proportion to what changed.
    """

    def __init__(
        self,
        settings: Settings,
        pre_enqueue: tuple[PreEnqueue, ...] = PRE_ENQUEUE,
        certifier: Certifier | None = None,
        watch: Watch = unwatched,
    ) -> None:
        self.journal = Journal()
        self._planes: list[Plane] = []
        if Role.QUOTA in settings.roles:
            self._planes.append(QuotaPlane(settings, self.journal, watch))
        if Role.INTEGRATIONS in settings.roles:
            self._planes.append(IntegrationsPlane(settings, self.journal))
        if Role.SCHEDULER in settings.roles:
            self._planes.append(PodScheduling(settings, pre_enqueue, self.journal, certifier, watch))
        self._readers = {kind: [plane for plane in self._planes if kind in plane.reads] for kind in Kind}

    @property
    def reads(self) -> tuple[Kind, ...]:
        """The kinds that must be observed, in the order they are best listed: nodes before the pods on them."""
        return tuple(dict.fromkeys(kind for plane in self._planes for kind in plane.reads))

    def step(self, batch: Sequence[Event], now: float) -> list[Effect]:
        """What happened to an object is told to the planes that read its kind, all else to all of them."""
        effects: list[Effect] = []
        planes, readers = self._planes, self._readers
        for event in batch:
            if isinstance(event, Observed):
                told = readers[event.object.key.kind]
            else:
                told = readers[event.key.kind] if isinstance(event, Gone) else planes
            for plane in told:
                news = plane.absorb(event, now)
                if news:
                    effects.extend(news)
        for plane in planes:
            effects.extend(plane.decide(now))
        for plane in planes:
            plane.check()
        return effects

    def gauges(self) -> Mapping[tuple[str, Labels], int | float | Distribution]:
        """What can be counted or measured now, by metric name and labels; names that end in _total only grow."""
        return {(name, labels): value for plane in self._planes for name, labels, value in plane.numbers()}
