"""One search for one preemptor: the victims in each domain, and which domain is best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

import numpy as np
from msgspec import Struct, structs

from headgate.model.keys import Key
from headgate.model.pod import GroupKey, Pod
from headgate.placement.placer import Placer
from headgate.placement.plain import nominated_capacity
from headgate.preemption.budgets import Budgets
from headgate.preemption.candidates import Candidates
from headgate.preemption.cascades import Cascades
from headgate.preemption.coverage import Coverage
from headgate.preemption.lockstep import Ways, every_node, slack_by_row
from headgate.preemption.plain import PlainWorld, allowed_beside
from headgate.preemption.policies import VictimPolicy, policy_for
from headgate.preemption.receipts import NOT_COMPARED, Choice, Receipt, receipt
from headgate.preemption.solver.certifying import CertificationRequest, SecondOpinion
from headgate.preemption.solver.problem import Certifier
from headgate.preemption.steps import Solution, solve
from headgate.preemption.tried import Bystanders, tried_out
from headgate.preemption.units import Flags, Unit
from headgate.preemption.worlds import (
    Placements,
    SearchDomain,
    World,
    group_domains,
    node_domain,
    node_domains,
    placements_domain,
    rows_of,
)

RECONSIDERED = 4  # of the best sets of victims, how many are judged by what they would displace, too


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
