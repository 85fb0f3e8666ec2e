"""A second opinion on the victims: the question is put in exact terms to a certifier, who may know a better answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from headgate.model.keys import Key
from headgate.model.pod import PodShape
from headgate.placement.placer import Placer
from headgate.placement.plain import allowed_rows, asked_of, nominated_capacity
from headgate.preemption.budgets import Budgets
from headgate.preemption.candidates import Candidates
from headgate.preemption.loads import Units
from headgate.preemption.policies import VictimPolicy, by_importance, only
from headgate.preemption.receipts import NOT_COMPARED
from headgate.preemption.solver.problem import Budget, Candidate, Certifier, Problem, ProblemDemand, ProblemGang
from headgate.preemption.solver.problem import Placements as RowPlacements
from headgate.preemption.steps import Solution
from headgate.preemption.units import ALONE, Flags

MOST_CANDIDATES = 200


def certified(certifier: Certifier, question: CertificationRequest, policy: VictimPolicy) -> tuple[Solution, str]:
    """The best solution, or a better one of the same domain where the certifier has it; and what it says of that."""
    best = question.best
    if len(question.units) > MOST_CANDIDATES:
        return best, NOT_COMPARED
    answer = certifier.improve(question.problem(), question.chosen())
    if answer.placements is None:
        return best, str(answer)
    better = question.solution(answer.victims, answer.placements, policy)
    return (better, str(answer)) if better.judged < best.judged else (best, NOT_COMPARED)


class CertificationRequest:
    """Translates between a solution and the exact problem: rows and units there are numbered from zero."""

    def __init__(self, placer: Placer, among: Candidates, budgets: Budgets, best: Solution) -> None:
        self._among = among
        self._budgets = budgets
        self.best = best
        self._nodes = placer.rules.rows.nodes
        self._promised = nominated_capacity(placer, best.domain.pods)
        shapes = [pod.shape for pod in best.domain.pods]
        self._names = list(asked_of(shapes))
        self._wanted: dict[PodShape, list[int]] = {}
        for index, shape in enumerate(shapes):
            self._wanted.setdefault(shape, []).append(index)
        self._allowed = {shape: self._usable(allowed_rows(placer.rules.rows, shape)) for shape in self._wanted}
        anywhere = np.logical_or.reduce(list(self._allowed.values()))
        self._rows = np.flatnonzero(anywhere).tolist()
        self.units: list[int] = np.flatnonzero(among.on_rows(anywhere)).tolist()

    def problem(self) -> Problem:
        place = {row: index for index, row in enumerate(self._rows)}
        return Problem(
            free=tuple(self._free()),
            candidates=tuple(self._candidate(unit, place) for unit in self.units),
            wanted=tuple(
                ProblemDemand(
                    self._amounts(shape), len(pods), tuple(place[row] for row in np.flatnonzero(allowed).tolist())
                )
                for (shape, pods), allowed in zip(self._wanted.items(), self._allowed.values(), strict=True)
            ),
            needed=self.best.domain.needed,
            budgets=tuple(self._exact_budgets()),
            gangs=tuple(self._gangs()),
        )

    def chosen(self) -> list[int]:
        place = {unit: index for index, unit in enumerate(self.units)}
        return sorted(place[unit] for unit in self.best.outcome.units.tolist())

    def solution(self, victims: Sequence[int], placements: RowPlacements, policy: VictimPolicy) -> Solution:
        units: Units = np.array([self.units[index] for index in victims], dtype=np.intp)
        pods = [self._among.pods_of(int(unit)) for unit in by_importance(self._among, units)]
        outcome = only(self._among, units, violations=sum(self._budgets.violations(pods)))
        taken = [
            (pod, self._rows[row])
            for waiting, rows in zip(self._wanted.values(), placements, strict=True)
            for pod, row in zip(waiting, rows, strict=False)
        ]
        return Solution(self.best.domain, tuple(sorted(taken)), outcome, policy.judge_one(outcome))

    def _usable(self, allowed: Flags) -> Flags:
        settled = self.best.domain.placements
        if settled is not None:
            here = np.zeros_like(allowed)
            here[[row for _, row in settled]] = True
            return allowed & here
        return allowed

    def _free(self) -> Iterator[tuple[int, ...]]:
        after = self._among.after_deletions()
        columns = []
        for name in self._names:
            taken = after.requested(name) + self._promised.get(name, 0)
            columns.append((self._nodes.allocatable[name] - taken)[self._rows].tolist())
        return zip(*columns, strict=True)

    def _candidate(self, unit: int, place: dict[int, int]) -> Candidate:
        freed: dict[int, list[PodShape]] = {}
        for line in self._among.lines_of(unit):
            row = int(self._among.running.rows[line])
            if row in place:
                freed.setdefault(place[row], []).append(self._among.running.pod_at(line).shape)
        return Candidate(
            priority=int(self._among.priority[unit]),
            work=int(self._among.lost[unit]),
            pods=int(self._among.size[unit]),
            freed=tuple((row, self._amounts(*shapes)) for row, shapes in sorted(freed.items())),
        )

    def _amounts(self, *shapes: PodShape) -> tuple[int, ...]:
        asked = asked_of(shapes)
        return tuple(asked.get(name, 0) for name in self._names)

    def _exact_budgets(self) -> Iterator[Budget]:
        counted: dict[Key, Counter[int]] = {}
        allowed: dict[Key, int] = {}
        for index, unit in enumerate(self.units):
            for pod in self._among.pods_of(unit):
                for budget in self._budgets.matching(pod):
                    counted.setdefault(budget.key, Counter())[index] += 1
                    allowed[budget.key] = budget.disruptions_allowed
        for key, pods in counted.items():
            yield Budget(tuple(sorted(pods.items())), allowed[key])

    def _gangs(self) -> Iterator[ProblemGang]:
        """Gangs that leave whole can spare nobody; a gang that has too few already cannot be broken again."""
        members: dict[int, Counter[int]] = {}
        among = self._among
        for index, unit in enumerate(self.units):
            if among.gang[unit] != ALONE:
                members.setdefault(int(among.gang[unit]), Counter())[index] += int(among.size[unit])
        for gang, pods in sorted(members.items()):
            whole = bool(among.whole[self.units[next(iter(pods))]])
            if whole or among.spare[gang] >= 0:
                yield ProblemGang(tuple(sorted(pods.items())), 0 if whole else int(among.spare[gang]))
