"""Which units must be evicted so that this pod or group fits? A plan with its reasons, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from headgate.model.cluster_events import ClusterEvent
from headgate.model.pod import Pod
from headgate.placement.placer import Placer
from headgate.placement.plain import is_plain
from headgate.placement.table import NodeTable
from headgate.preemption.budgets import Budgets
from headgate.preemption.candidates import BY_PRIORITY, Candidates, Reach
from headgate.preemption.receipts import Receipt
from headgate.preemption.searching import Found, Preemptor, Search
from headgate.preemption.solver.problem import Certifier
from headgate.preemption.units import Running, Unit

__all__ = ["NoPlan", "Plan", "Preemption", "Preemptor"]

ON_CANDIDATES = frozenset({ClusterEvent.CANDIDATES_CHANGED})
ON_NEIGHBOURS = frozenset({ClusterEvent.NEIGHBOURS_CHANGED})


class Plan(Struct, frozen=True):
    """The victims, and the placements the preemptor has without them. Nothing has happened yet."""

    placements: tuple[tuple[Pod, str], ...]
    victims: tuple[Unit, ...]
    receipt: Receipt


class NoPlan(Struct, frozen=True):
    """Preemption would not help."""

    reason: str
    candidates: int  # how many units could have been preempted
    wake_on: frozenset[ClusterEvent] = frozenset()  # the events, besides freed capacity, that could change that


class Preemption:
    """Plans victims and placements. It only computes: evicting them and waiting is for others."""

    name = "DefaultPreemption"

    def __init__(
        self,
        nodes: NodeTable,
        running: Running,
        budgets: Budgets,
        certifier: Certifier | None = None,
        reaches: Callable[[Preemptor], tuple[Reach, ...]] = lambda _: (BY_PRIORITY,),
    ) -> None:
        """`reaches` are tried one after the other until there is a plan."""
        self._reaches = reaches
        self._nodes = nodes
        self._running = running
        self._budgets = budgets
        self._certifier = certifier

    def plan(self, preemptor: Preemptor, placer: Placer, now: float) -> Plan | NoPlan:
        """The best victims for as many of the preemptor's pods as are needed.

        Nodes nominated to it come first, so that a plan that is being carried out is not exchanged for another.
        """
        reaches, plain = self._reaches(preemptor), is_plain(placer, preemptor.pods)
        options = [Candidates(self._running, preemptor.priority, now, preemptor.key, reach=each) for each in reaches]
        reach, among = reaches[-1], options[-1]
        if not all(pod.preempts for pod in preemptor.pods):
            return NoPlan("preemption is not allowed by preemptionPolicy", among.count)
        searches = [
            Search(placer, preemptor, each, self._budgets, plain=plain, certifier=self._certifier) for each in options
        ]
        with placer.nominations.set_aside(preemptor.pods):
            found = _first(search.nominated() for search in searches) or _first(search.anew() for search in searches)
        if found is not None:
            return self._plan(preemptor, found)
        alike = plain and all(pod.shape == preemptor.pods[0].shape for pod in preemptor.pods)
        wake_on = ON_CANDIDATES if plain else ON_CANDIDATES | ON_NEIGHBOURS
        which = "of lower priority" if reach is BY_PRIORITY else "that may be evicted for it"
        return NoPlan(_hopeless(among, which, proven=preemptor.single or alike), among.count, wake_on)

    def holds(self, preemptor: Preemptor, placements: Sequence[tuple[Pod, str]], placer: Placer) -> bool:
        """Whether these placements will do once all pods being deleted are gone, without any further victim."""
        among = Candidates(self._running, preemptor.priority, 0.0, preemptor.key)
        with placer.nominations.set_aside(preemptor.pods):
            plain = is_plain(placer, preemptor.pods)
            return Search(placer, preemptor, among, self._budgets, plain=plain).holds(placements)

    def still_victims(self, preemptor: Preemptor, units: Iterable[Unit]) -> bool:
        """Whether those of them that still run are whole units that may be evicted for it as they stand now."""
        reach = self._reaches(preemptor)[-1]
        among = Candidates(self._running, preemptor.priority, 0.0, preemptor.key, reach=reach)
        return all(among.is_whole_unit(unit.pods) for unit in units)

    def _plan(self, preemptor: Preemptor, found: Found) -> Plan:
        placements = tuple((preemptor.pods[index], self._nodes.name_at(row)) for index, row in found.placements)
        return Plan(placements, found.victims, found.receipt)


def _first(found: Iterable[Found | None]) -> Found | None:
    return next((each for each in found if each is not None), None)


def _hopeless(among: Candidates, which: str, *, proven: bool) -> str:
    """That it does not fit is said only where that is certain: of unlike pods not all ways are tried."""
    if not among.count:
        return f"preemption would not help: there are no pods {which}"
    pods, units = len(among.lines), among.count
    lower = f"all {pods} pods ({units} units)" if pods > 1 else "the only pod"
    without = f"even without {lower} {which}"
    return f"preemption would not help: it does not fit {without}" if proven else f"no placement was found {without}"
