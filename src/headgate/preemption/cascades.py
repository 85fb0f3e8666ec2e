"""What a victim costs others when it comes back: it may preempt in its turn."""

from __future__ import annotations

from itertools import islice

import numpy as np
from msgspec import structs

from headgate.model.pod import PodShape
from headgate.placement.columns import Amounts
from headgate.placement.placer import Placer
from headgate.placement.plain import allowed_rows, asked_of
from headgate.preemption.budgets import Budgets
from headgate.preemption.candidates import Candidates
from headgate.preemption.coverage import Coverage
from headgate.preemption.lockstep import every_node
from headgate.preemption.policies import LEAST_LOSS, VictimPolicy, only, work_lost
from headgate.preemption.steps import Solution

MOST_KINDS = 8  # of victims whose return is imagined; any more count as if they found room
NO_BUDGETS = Budgets()

EquivalenceClass = tuple[PodShape, int]
"""The shape of a pod that comes back, and its priority."""


class Cascades:
    """Estimates one step ahead, each returning pod by itself and by room alone.

    A victim comes back if it has a controller; it preempts if its standing lets it, nothing is free for it, and pods
    of lower priority could make room.
    """

    def __init__(self, placer: Placer, among: Candidates) -> None:
        self._rules = placer.rules.rows
        self._among = among
        self._lowest = int(among.priority.min(initial=np.iinfo(np.int64).max))

    def considered(self, solution: Solution, policy: VictimPolicy) -> Solution:
        """The same solution, judged with what its victims would displace."""
        losses = self._losses(solution)
        if not any(losses.values()):
            return solution
        displaces = tuple(self._displaced(unit, losses) for unit in solution.outcome.units.tolist())
        of = solution.outcome
        outcome = only(of.among, of.units, int(of.marked[0]), int(of.violations[0]), sum(displaces))
        return structs.replace(solution, outcome=outcome, judged=policy.judge_one(outcome), displaces=displaces)

    def _losses(self, solution: Solution) -> dict[EquivalenceClass, int]:
        """What the return of one pod of each kind costs."""
        lines, running = self._among.lines_of_all(solution.outcome.units), self._among.running
        returning = lines[running.returning[lines] > self._lowest].tolist()
        kinds = dict.fromkeys((running.pod_at(line).shape, int(running.returning[line])) for line in returning)
        return {kin: self._loss_for(kin, solution) for kin in islice(kinds, MOST_KINDS)}

    def _displaced(self, unit: int, losses: dict[EquivalenceClass, int]) -> int:
        running = self._among.running
        kinds = ((running.pod_at(line).shape, int(running.returning[line])) for line in self._among.lines_of(unit))
        return sum(losses.get(kin, 0) for kin in kinds)

    def _loss_for(self, kin: EquivalenceClass, solution: Solution) -> int:
        """What making room for one such pod would cost, once the preemptor has its placements."""
        shape, priority = kin
        gone = self._among.lines_of_all(solution.outcome.units)
        left = Candidates(self._among.running, priority, self._among.now, gone=gone)
        slack = self._slack(shape, solution)
        allowed = allowed_rows(self._rules, shape)
        ways = every_node(left, slack, allowed, LEAST_LOSS, Coverage(left, NO_BUDGETS))
        return 0 if ways is None else int(work_lost(ways.outcomes)[ways.best_first()[0]])

    def _slack(self, shape: PodShape, solution: Solution) -> dict[str, Amounts]:
        """What each row has left beside one such pod and the preemptor, with its victims gone."""
        nodes, gone = self._rules.nodes, np.zeros(self._among.count, dtype=np.bool_)
        gone[solution.outcome.units] = True
        after = self._among.after(gone)
        slack = {
            name: nodes.allocatable[name] - after.requested(name) - amount for name, amount in asked_of([shape]).items()
        }
        for index, row in solution.placements:
            for name, amount in asked_of([solution.domain.pods[index].shape]).items():
                if name in slack:
                    slack[name][row] -= amount
        return slack
