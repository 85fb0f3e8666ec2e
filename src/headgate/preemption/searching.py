"""One search for one preemptor: what comes of each domain, and which is best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

import numpy as np
from msgspec import Struct, structs

from headgate.model.groups import GroupKey
from headgate.model.keys import Key
from headgate.model.pod import Pod
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
from headgate.preemption.solver.certifying import CertificationRequest, certified
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

RECONSIDERED = 4  # of the best ways, how many are judged by what their victims would displace, too


class Preemptor(Struct, frozen=True):
    """A pod, or a group of which so many are needed, that no room was found for.

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
        self._bystanders = Bystanders(placer.rules.neighbours, self._pods)

    @cached_property
    def _coverage(self) -> Coverage:
        return Coverage(self._among, self._budgets)

    def nominated(self) -> Found | None:
        """Who must leave for the placements that are nominated already, if they can still be had."""
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
        policy, special = self._policy(), self._special_rows()
        slack = slack_by_row(self._among, pod.shape, nominated_capacity(self._placer, self._pods))
        allowed = allowed_beside(self._placer, pod) & ~special
        ways = every_node(self._among, slack, allowed, policy, self._coverage)
        quick = list(self._best_nodes(ways)) if ways is not None else []
        rows = np.flatnonzero(special & self._placer.curable(pod)) if special.any() else ()
        found, could = self._tried([node_domain(self._nodes, self._pods, int(row)) for row in rows], policy)
        could += ways.nodes if ways is not None else 0
        return self._chosen(policy, _foremost([*quick, *found]), could) if could else None

    def _special_rows(self) -> Flags:
        """Where somebody who may be asked to leave is more to the pod than a bystander."""
        special: Flags = np.zeros(len(self._nodes.nodes), dtype=np.bool_)
        if self._plain:
            return special
        running, has = self._among.running, self._bystanders.has
        if not all(has(running.pod_at(line)) for line in self._among.going.tolist()):
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
        policy = self._policy()
        found, could = self._tried(domains, policy)
        return self._chosen(policy, found, could) if found else None

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

    def _policy(self) -> VictimPolicy:
        """Who could be asked to leave decides it."""
        single = self._preemptor.single
        reach = self._placer.curable(self._pods[0]) if single else self._nodes.alive
        return policy_for(single, self._among, np.flatnonzero(self._among.on_rows(reach)))

    def _world(self, domain: SearchDomain) -> AbstractContextManager[World]:
        rules = self._placer.rules
        if not self._plain:
            return tried_out(self._placer, self._among, self._bystanders, domain)
        return nullcontext(PlainWorld(rules.rows, self._among, domain, nominated_capacity(self._placer, self._pods)))

    def _chosen(self, policy: VictimPolicy, foremost: Sequence[Solution], could: int) -> Found:
        """The best, once what its victims would displace is taken into account and a certifier was asked."""
        certificate = NOT_COMPARED
        if policy.weighs_work:
            foremost = self._reconsidered(policy, foremost)
        if policy.weighs_work and self._plain and self._certifier is not None:
            question = CertificationRequest(self._placer, self._among, self._budgets, foremost[0])
            better, certificate = certified(self._certifier, question, policy)
            foremost = self._reconsidered(policy, [better, *foremost])
        victims = self._among.units(foremost[0].outcome.units)
        choice = Choice(policy, foremost[0], foremost, could, certificate)
        return Found(foremost[0].placements, victims, receipt(self._preemptor.key, victims, choice))

    def _reconsidered(self, policy: VictimPolicy, solutions: Sequence[Solution]) -> list[Solution]:
        cascades = Cascades(self._placer, self._among)
        return sorted((cascades.considered(each, policy) for each in solutions), key=lambda each: each.rank)


def _foremost(solutions: Sequence[Solution]) -> list[Solution]:
    """The best few that differ in domain or worth, the best first."""
    different = {(each.rank, each.domain.name): each for each in reversed(solutions)}
    return sorted(different.values(), key=lambda each: each.rank)[:RECONSIDERED]
