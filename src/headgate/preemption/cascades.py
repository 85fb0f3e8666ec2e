"""What a victim costs others when its controller recreates it: it may preempt in its turn."""

from __future__ import annotations

import numpy as np
from msgspec import structs

from headgate.model.pod import PodShape
from headgate.placement.packing import allowed_rows, asked_of
from headgate.placement.placer import Placer
from headgate.placement.table import Amounts
from headgate.preemption.budgets import Budgets, Coverage
from headgate.preemption.candidates import Candidates, Units
from headgate.preemption.lockstep import every_node, slack_by_row
from headgate.preemption.policies import LEAST_LOSS, VictimPolicy, only, work_lost
from headgate.preemption.steps import Solution

MOST_CLASSES = 8  # of recreated pods that are looked at; all others count as if they fitted somewhere
NO_BUDGETS = Budgets()

EquivalenceClass = tuple[PodShape, int]
"""The shape of a recreated pod, and its priority."""


class Cascades:
    """Estimates one step ahead, each recreated pod by itself and by capacity alone.

    A victim is recreated if it has a controller; it preempts if its standing lets it, no node fits it, and pods of
    lower priority could be evicted for it.
    """

    def __init__(self, placer: Placer, among: Candidates) -> None:
        self._rules = placer.rules.rows
        self._among = among
        self._lowest = int(among.priority.min(initial=np.iinfo(np.int64).max))

    def estimate(self) -> Amounts:
        """What each candidate would displace if its own capacity went to the preemptor and all else stayed as it is.

        This tells a search which candidates to avoid; `considered` judges what it found.
        """
        among, displaces = self._among, np.zeros(self._among.count, dtype=np.int64)
        members = self._recreated(among.lines)
        losses = {alike: self._loss_beside_all(alike) for alike in self._most_common(members)}
        for alike, loss in losses.items():
            if loss:
                np.add.at(displaces, [among.unit_at(line) for line in members[alike]], loss)
        return displaces

    def considered(self, solution: Solution, policy: VictimPolicy) -> Solution:
        """The same solution, judged with what its victims would displace."""
        of = solution.outcome
        displaces = self._displaced(solution)
        if not any(displaces) and not of.displaced[0]:
            return solution
        outcome = only(of.among, of.units, int(of.marked[0]), int(of.violations[0]), sum(displaces))
        return structs.replace(solution, outcome=outcome, judged=policy.judge_one(outcome), displaces=displaces)

    def _displaced(self, solution: Solution) -> tuple[int, ...]:
        """For each of the victims."""
        units = solution.outcome.units
        members = self._recreated(self._among.lines_of_all(units))
        displaced = dict.fromkeys(units.tolist(), 0)
        for alike in self._most_common(members):
            loss = self._loss_after(alike, solution)
            for line in members[alike]:
                displaced[self._among.unit_at(line)] += loss
        return tuple(displaced.values())

    def _recreated(self, lines: Units) -> dict[EquivalenceClass, list[int]]:
        """The lines of pods that would be recreated and could preempt somebody."""
        running = self._among.running
        some = lines[running.returning[lines] > self._lowest]
        shared: dict[tuple[int, int], list[int]] = {}  # pods alike share their shape, which is looked at once
        for line, priority in zip(some.tolist(), running.returning[some].tolist(), strict=True):
            shared.setdefault((id(running.pod_at(line).shape), priority), []).append(line)
        members: dict[EquivalenceClass, list[int]] = {}
        for (_, priority), alike in shared.items():
            members.setdefault((running.pod_at(alike[0]).shape, priority), []).extend(alike)
        return members

    def _most_common(self, members: dict[EquivalenceClass, list[int]]) -> list[EquivalenceClass]:
        """Of equally common classes those come first whose pods' draws do: lines tell of the past, draws do not."""
        draws = self._among.running.draws
        ranks = {alike: (-len(lines), int(draws[lines].min())) for alike, lines in members.items()}
        return sorted(members, key=lambda alike: ranks[alike])[:MOST_CLASSES]

    def _loss_beside_all(self, alike: EquivalenceClass) -> int:
        shape, priority = alike
        left = Candidates(self._among.running, priority, self._among.now)
        return self._loss(left, slack_by_row(left, shape, {}), shape)

    def _loss_after(self, alike: EquivalenceClass, solution: Solution) -> int:
        """What one such pod would displace once the preemptor is placed and its victims are gone."""
        shape, priority = alike
        gone = self._among.lines_of_all(solution.outcome.units)
        left = Candidates(self._among.running, priority, self._among.now, gone=gone)
        return self._loss(left, self._slack(shape, solution), shape)

    def _loss(self, left: Candidates, slack: dict[str, Amounts], shape: PodShape) -> int:
        ways = every_node(left, slack, allowed_rows(self._rules, shape), LEAST_LOSS, Coverage(left, NO_BUDGETS))
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
