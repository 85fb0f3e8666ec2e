"""A second opinion on the victims of a group: the question is put in exact terms to a certifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from headgate.model.keys import Key
from headgate.model.pod import PodShape
from headgate.placement.packing import allowed_rows, asked_of, nominated_capacity
from headgate.placement.placer import Placer
from headgate.placement.table import Amounts
from headgate.preemption.budgets import Budgets
from headgate.preemption.candidates import Candidates, Units
from headgate.preemption.policies import VictimPolicy, microseconds, only
from headgate.preemption.receipts import NOT_COMPARED, certificate
from headgate.preemption.solver.problem import Budget, Candidate, Certifier, Problem, ProblemDemand, ProblemGang
from headgate.preemption.solver.problem import Placements as RowPlacements
from headgate.preemption.steps import SearchDomain, Solution
from headgate.preemption.units import ALONE

MOST_CANDIDATES = 200


class SecondOpinion:
    """What a certifier knows of the best victims in these domains: better ones, and how good the best can be."""

    def __init__(
        self, certifier: Certifier, request: CertificationRequest, policy: VictimPolicy, only_in: str = ""
    ) -> None:
        """`only_in` names the one domain that is asked about, where there are others."""
        self._certifier = certifier
        self._request = request
        self._policy = policy
        self._only_in = only_in
        self._bound: tuple[int, ...] = ()

    def better_than(self, best: Solution) -> list[Solution]:
        """What the certifier proposes instead. Its bound leaves cascades out, and so no set costs less than it says."""
        return self._ask(best, self._request.lost, bounds=True)

    def without_cascades(self, best: Solution) -> list[Solution]:
        """What it proposes where each candidate costs what it is estimated to displace as well."""
        return self._ask(best, self._request.weight, bounds=False)

    def is_proven(self, best: Solution) -> bool:
        return not self._request.fits_limits or best.judged == self._bound

    def certificate(self, best: Solution) -> str:
        """Optimal only where no set of victims in any of the domains can cost less, cascades included."""
        if not self._bound or (self._only_in and best.domain.name != self._only_in):
            return NOT_COMPARED
        said = certificate(best.judged, self._bound)
        return f"{said}, within {self._only_in}" if self._only_in else said

    def _ask(self, best: Solution, work: Amounts, *, bounds: bool) -> list[Solution]:
        if not self._request.fits_limits:
            return []
        answer = self._certifier.improve(self._request.problem(work), self._request.chosen(best))
        if bounds:
            self._bound = answer.bound
        if answer.placements is None:
            return []
        return [self._request.solution(answer.victims, answer.placements, self._policy)]


class CertificationRequest:
    """Translates between solutions and the exact problem: rows and units there are numbered from zero.

    They are numbered by their draws, and budgets and gangs by their names: which one of equal sets a solver finds
    depends on the order of what it is told, and that must not depend on the past.
    """

    def __init__(
        self,
        placer: Placer,
        among: Candidates,
        budgets: Budgets,
        shapes: Sequence[PodShape],
        domains: list[SearchDomain],
    ) -> None:
        """`shapes` are those of the preemptor's pods, which all must be placed in one of the domains."""
        self._among = among
        self._budgets = budgets
        self._domains = domains
        self._nodes = placer.rules.rows.nodes
        self._promised = nominated_capacity(placer, domains[0].pods)
        self._names = list(asked_of(shapes))
        self._wanted: dict[PodShape, list[int]] = {}
        for index, shape in enumerate(shapes):
            self._wanted.setdefault(shape, []).append(index)
        usable = np.logical_or.reduce([domain.usable for domain in domains])
        self._allowed = {shape: allowed_rows(placer.rules.rows, shape) & usable for shape in self._wanted}
        anywhere = np.logical_or.reduce(list(self._allowed.values()))
        rows = np.flatnonzero(anywhere)
        self._rows = rows[np.argsort(self._nodes.draws[rows], kind="stable")].tolist()
        self._place = {row: index for index, row in enumerate(self._rows)}
        units = np.flatnonzero(among.on_rows(anywhere))
        self._units: list[int] = units[np.argsort(among.draws[units], kind="stable")].tolist()
        self.fits_limits = len(self._units) <= MOST_CANDIDATES
        self.lost, self.weight = among.lost, among.weight

    def problem(self, work: Amounts) -> Problem:
        """The question, where evicting each candidate costs so much work."""
        return Problem(
            free=tuple(self._free()),
            candidates=tuple(self._candidate(unit, int(work[unit])) for unit in self._units),
            wanted=tuple(
                ProblemDemand(
                    self._amounts(shape), len(pods), tuple(sorted(self._place[row] for row in np.flatnonzero(allowed)))
                )
                for (shape, pods), allowed in zip(self._wanted.items(), self._allowed.values(), strict=True)
            ),
            needed=self._domains[0].needed,
            budgets=tuple(self._exact_budgets()),
            gangs=tuple(self._gangs()),
            domains=tuple(self._rows_of(domain) for domain in self._domains) if len(self._domains) > 1 else (),
            now=int(microseconds(np.array(self._among.now))),
        )

    def chosen(self, best: Solution) -> list[int]:
        place = {unit: index for index, unit in enumerate(self._units)}
        return sorted(place[unit] for unit in best.outcome.units.tolist())

    def solution(self, victims: Sequence[int], placements: RowPlacements, policy: VictimPolicy) -> Solution:
        units: Units = np.array([self._units[index] for index in victims], dtype=np.intp)
        violations = self.problem(self.lost).cost(victims).violations
        outcome = only(self._among, units, violations=violations, displaced=int(self._among.displaces[units].sum()))
        taken = [
            (pod, self._rows[row])
            for waiting, rows in zip(self._wanted.values(), placements, strict=True)
            for pod, row in zip(waiting, rows, strict=False)
        ]
        domain = next(each for each in self._domains if all(each.usable[row] for _, row in taken))
        return Solution(domain, tuple(sorted(taken)), outcome, policy.judge_one(outcome))

    def _rows_of(self, domain: SearchDomain) -> tuple[int, ...]:
        return tuple(index for index, row in enumerate(self._rows) if domain.usable[row])

    def _free(self) -> Iterator[tuple[int, ...]]:
        after = self._among.after_deletions()
        columns = []
        for name in self._names:
            taken = after.requested(name) + self._promised.get(name, 0)
            columns.append((self._nodes.allocatable[name] - taken)[self._rows].tolist())
        return zip(*columns, strict=True)

    def _candidate(self, unit: int, work: int) -> Candidate:
        freed: dict[int, list[PodShape]] = {}
        for line in self._among.lines_of(unit):
            row = int(self._among.running.rows[line])
            if row in self._place:
                freed.setdefault(self._place[row], []).append(self._among.running.pod_at(line).shape)
        return Candidate(
            priority=int(self._among.priority[unit]),
            work=work,
            pods=int(self._among.size[unit]),
            freed=tuple((row, self._amounts(*shapes)) for row, shapes in sorted(freed.items())),
            started=int(microseconds(self._among.started[unit])),
        )

    def _amounts(self, *shapes: PodShape) -> tuple[int, ...]:
        asked = asked_of(shapes)
        return tuple(asked.get(name, 0) for name in self._names)

    def _exact_budgets(self) -> Iterator[Budget]:
        counted: dict[Key, Counter[int]] = {}
        allowed: dict[Key, int] = {}
        for index, unit in enumerate(self._units):
            for pod in self._among.pods_of(unit):
                for budget in self._budgets.matching(pod):
                    counted.setdefault(budget.key, Counter())[index] += 1
                    allowed[budget.key] = budget.disruptions_allowed
        for key, pods in sorted(counted.items()):
            yield Budget(tuple(sorted(pods.items())), allowed[key])

    def _gangs(self) -> Iterator[ProblemGang]:
        """Gangs preempted whole can spare nobody; a gang that has too few pods already cannot be broken again."""
        members: dict[int, Counter[int]] = {}
        among = self._among
        for index, unit in enumerate(self._units):
            if among.gang[unit] != ALONE:
                members.setdefault(int(among.gang[unit]), Counter())[index] += int(among.size[unit])
        for gang, pods in sorted(members.items(), key=lambda each: among.running.gang_list.key_of(each[0])):
            whole = bool(among.whole[self._units[next(iter(pods))]])
            if whole or among.spare[gang] >= 0:
                yield ProblemGang(tuple(sorted(pods.items())), 0 if whole else int(among.spare[gang]))
