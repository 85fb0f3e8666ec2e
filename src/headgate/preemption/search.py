"""Which units must be evicted so that this pod or group fits? A plan with its reasons, or why there is none.

One search for one preemptor looks for the victims in each domain, and for the best domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

import numpy as np
from msgspec import Struct, structs

from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key
from headgate.model.pod import GroupKey, Pod
from headgate.placement.packing import is_plain, nominated_capacity
from headgate.placement.placer import Placer
from headgate.placement.table import NodeTable
from headgate.preemption.budgets import Budgets, Coverage
from headgate.preemption.candidates import BY_PRIORITY, Candidates, Reach
from headgate.preemption.cascades import Cascades
from headgate.preemption.lockstep import Ways, every_node, slack_by_row
from headgate.preemption.plain import PlainWorld, allowed_beside
from headgate.preemption.policies import VictimPolicy, policy_for
from headgate.preemption.receipts import NOT_COMPARED, Choice, Receipt, receipt
from headgate.preemption.solver.certifying import CertificationRequest, SecondOpinion
from headgate.preemption.solver.problem import Certifier
from headgate.preemption.steps import (
    Placements,
    SearchDomain,
    Solution,
    World,
    group_domains,
    node_domain,
    node_domains,
    placements_domain,
    rows_of,
    solve,
)
from headgate.preemption.tried import Bystanders, tried_out
from headgate.preemption.units import Flags, Running, Unit

ON_CANDIDATES = frozenset({ClusterEvent.CANDIDATES_CHANGED})
ON_NEIGHBOURS = frozenset({ClusterEvent.NEIGHBOURS_CHANGED})

RECONSIDERED = 4  # of the best sets of victims, how many are judged by what they would displace, too


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


class Preemptor(Struct, frozen=True):
    """A pod, or a group of which so many pods are needed, that no node fits.

    A plan is made for just as many of its pods; the surplus preempts nobody.
    """

    key: Key | GroupKey
    pods: tuple[Pod, ...]  # to be placed, in order
    needed: int
    priority: int
    topology: str = ""  # all placements on nodes with one value of this label

    @property
    def single(self) -> bool:
        return isinstance(self.key, Key)

    def needed_first(self) -> Preemptor:
        """With as many pods as are needed: those with a nominated node, then the oldest."""
        order = sorted(range(len(self.pods)), key=lambda index: (not self.pods[index].nominated, index))
        return structs.replace(self, pods=tuple(self.pods[index] for index in sorted(order[: max(1, self.needed)])))


class Found(Struct, frozen=True):
    placements: Placements
    victims: tuple[Unit, ...]
    receipt: Receipt


class Search:
    def __init__(
        self,
        placer: Placer,
        preemptor: Preemptor,
        among: Candidates,
        budgets: Budgets,
        *,
        plain: bool,
        certifier: Certifier | None = None,
    ) -> None:
        """`plain` pods are judged by arithmetic on rows, others by all rules on the table itself."""
        self._nodes = among.running.nodes
        self._placer = placer
        self._preemptor = preemptor
        self._among = among
        self._budgets = budgets
        self._certifier = certifier
        self._pods = tuple(structs.replace(pod, nominated="") for pod in preemptor.pods)
        self._plain = plain
        self._policy = policy_for(preemptor.single)
        self._bystanders = Bystanders(placer.rules.neighbours, self._pods)

    @cached_property
    def _coverage(self) -> Coverage:
        return Coverage(self._among, self._budgets)

    def nominated(self) -> Found | None:
        """The victims for the nominated nodes, if these can still be had."""
        domain = self._settled([(pod, pod.nominated) for pod in self._preemptor.pods if pod.nominated])
        return None if domain is None else self._best_of([domain])

    def anew(self) -> Found | None:
        """The best of all domains; for a pod most nodes are judged at once."""
        return self._every_node() if self._preemptor.single else self.step_by_step()

    def step_by_step(self) -> Found | None:
        """The best of all domains, tried one after the other."""
        preemptor = self._preemptor
        if preemptor.single:
            return self._best_of(node_domains(self._nodes, self._placer, self._pods))
        needed = max(1, preemptor.needed)
        return self._best_of(group_domains(self._nodes, self._placer, self._pods, needed, preemptor.topology))

    def holds(self, placements: Sequence[tuple[Pod, str]]) -> bool:
        domain = self._settled(placements)
        if domain is None:
            return False
        with self._world(domain) as world:
            return world.place(np.zeros(self._among.count, dtype=np.bool_)) is not None

    def _settled(self, placements: Sequence[tuple[Pod, str]]) -> SearchDomain | None:
        """A domain of these placements, if they are enough and their nodes are there."""
        rows = rows_of(self._nodes, self._pods, placements)
        if rows is None or len(rows) < max(1, self._preemptor.needed):
            return None
        return placements_domain(self._nodes, self._pods, rows, self._preemptor.single)

    def _every_node(self) -> Found | None:
        """Nodes where only amounts stand in the way are judged all at once, the others step by step."""
        (pod,) = self._pods
        policy, special = self._policy, self._special_rows()
        slack = slack_by_row(self._among, pod.shape, nominated_capacity(self._placer, self._pods))
        allowed = allowed_beside(self._placer, pod) & ~special
        ways = every_node(self._among, slack, allowed, policy, self._coverage)
        quick = list(self._best_nodes(ways)) if ways is not None else []
        rows = np.flatnonzero(special & self._placer.curable(pod)) if special.any() else ()
        found, could = self._tried([node_domain(self._nodes, self._pods, int(row)) for row in rows], policy)
        could += ways.nodes if ways is not None else 0
        return self._found(_foremost([*quick, *found]), could) if could else None

    def _special_rows(self) -> Flags:
        """Where a candidate is more to the pod than a bystander."""
        special: Flags = np.zeros(len(self._nodes.nodes), dtype=np.bool_)
        if self._plain:
            return special
        running, has = self._among.running, self._bystanders.has
        if not all(has(running.pod_at(line)) for line in self._among.terminating.tolist()):
            return ~special
        lines = [line for line in self._among.lines.tolist() if not has(running.pod_at(line))]
        special[running.rows[lines]] = True
        return special

    def _best_nodes(self, ways: Ways) -> Iterator[Solution]:
        """The best way on each of a few nodes."""
        seen: dict[int, None] = {}
        for way in ways.best_first().tolist():
            row = int(ways.rows[way])
            if row not in seen:
                seen[row] = None
                domain = node_domain(self._nodes, self._pods, row)
                yield Solution(domain, ((0, row),), ways.one(way), ways.judged_of(way))
            if len(seen) == RECONSIDERED:
                return

    def _best_of(self, domains: Iterable[SearchDomain]) -> Found | None:
        tried = list(domains)
        found, could = self._tried(tried, self._policy)
        if not found:
            return None
        if not self._policy.weighs_work:
            return self._found(found, could)
        found = self._beside_cascades(found, tried)
        if not self._plain or self._certifier is None:
            return self._found(found, could)
        return self._certified(self._certifier, found, tried, could)

    def _beside_cascades(self, found: Sequence[Solution], domains: list[SearchDomain]) -> list[Solution]:
        """The foremost, judged with what their victims displace; where the best does, also those that avoid it."""
        found = self._reconsidered(found)
        if not found[0].outcome.displaced[0]:
            return found
        self._among.displaces = self._cascades.estimate()
        others, _ = self._tried(domains, self._policy)
        return self._reconsidered([*found, *others])

    def _certified(
        self, certifier: Certifier, found: Sequence[Solution], domains: list[SearchDomain], could: int
    ) -> Found:
        opinion = self._second_opinion(certifier, found[0], domains)
        found = self._reconsidered([*opinion.better_than(found[0]), *found])
        if self._among.displaces.any() and not opinion.is_proven(found[0]):
            found = self._reconsidered([*opinion.without_cascades(found[0]), *found])
        return self._found(found, could, opinion.certificate(found[0]))

    def _tried(self, domains: Iterable[SearchDomain], policy: VictimPolicy) -> tuple[list[Solution], int]:
        """The foremost solutions, and in how many of the domains there were any."""
        found: list[Solution] = []
        could = 0
        for domain in domains:
            with self._world(domain) as world:
                solutions = list(solve(world, domain, self._among, policy, self._coverage))
            could += bool(solutions)
            found = _foremost([*found, *solutions])
        return found, could

    def _world(self, domain: SearchDomain) -> AbstractContextManager[World]:
        rules = self._placer.rules
        if not self._plain:
            return tried_out(self._placer, self._among, self._bystanders, domain)
        return nullcontext(PlainWorld(rules.rows, self._among, domain, nominated_capacity(self._placer, self._pods)))

    def _second_opinion(self, certifier: Certifier, best: Solution, domains: list[SearchDomain]) -> SecondOpinion:
        """On all domains together; where that is too large a question, on the best one by itself."""
        shapes = [pod.shape for pod in self._pods]
        request = CertificationRequest(self._placer, self._among, self._budgets, shapes, domains)
        if len(domains) > 1 and not request.fits_limits:
            request = CertificationRequest(self._placer, self._among, self._budgets, shapes, [best.domain])
            return SecondOpinion(certifier, request, self._policy, only_in=best.domain.name)
        nominated = best.domain.name if best.domain.placements is not None else ""
        return SecondOpinion(certifier, request, self._policy, only_in=nominated)

    def _found(self, foremost: Sequence[Solution], could: int, certificate: str = NOT_COMPARED) -> Found:
        victims = self._among.units(foremost[0].outcome.units)
        choice = Choice(self._policy, foremost[0], foremost, could, certificate)
        return Found(foremost[0].placements, victims, receipt(self._preemptor.key, victims, choice))

    @cached_property
    def _cascades(self) -> Cascades:
        return Cascades(self._placer, self._among)

    def _reconsidered(self, solutions: Sequence[Solution]) -> list[Solution]:
        judged = (self._cascades.considered(each, self._policy) for each in solutions)
        return sorted(judged, key=lambda each: each.rank)


def _foremost(solutions: Sequence[Solution]) -> list[Solution]:
    """The best few that differ in domain or worth, the best first."""
    different = {(each.rank, each.domain.name): each for each in reversed(solutions)}
    return sorted(different.values(), key=lambda each: each.rank)[:RECONSIDERED]
