"""The one loop's one turn: absorb what is now true, decide, check, hand back what is to be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.engine.extension_points import Watch, unwatched
from headgate.engine.journal import Journal
from headgate.engine.scheduling import PodScheduling
from headgate.gates.pre_enqueue import PRE_ENQUEUE, PreEnqueue
from headgate.model.effects import Effect
from headgate.model.events import Event
from headgate.model.keys import Kind
from headgate.model.settings import Settings
from headgate.preemption.problem import Certifier

Labels = tuple[tuple[str, str], ...]


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
        self._scheduling = PodScheduling(settings, pre_enqueue, self.journal, certifier, watch)

    @property
    def reads(self) -> tuple[Kind, ...]:
        """The kinds that must be observed, in the order they are best listed: nodes before the pods on them."""
        return self._scheduling.reads

    def step(self, batch: Sequence[Event], now: float) -> list[Effect]:
        effects: list[Effect] = []
        for event in batch:
            effects.extend(self._scheduling.absorb(event, now))
        effects.extend(self._scheduling.decide(now))
        self._scheduling.check()
        return effects

    def gauges(self) -> Mapping[tuple[str, Labels], float]:
        """What can be counted or measured now, by metric name and labels; names that end in _total only grow."""
        return {(name, labels): float(value) for name, labels, value in self._scheduling.numbers()}
