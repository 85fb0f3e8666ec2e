"""Every node as a domain of its own, all of them at once: the steps of `steps.solve` for one plain pod in lockstep.

A pod that needs only row rules has thousands of domains with a handful of candidates each. Here the first candidate
of every node is reprieved if it fits, then the second of every node, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headgate.model.pod import PodShape
from headgate.placement.packing import asked_of
from headgate.placement.plugins import Mask
from headgate.placement.table import Amounts
from headgate.preemption.budgets import Coverage
from headgate.preemption.candidates import Candidates, Shares, Units
from headgate.preemption.plain import not_reprieved
from headgate.preemption.policies import Order, Outcomes, VictimPolicy, by_importance, only
from headgate.preemption.units import Flags


class Ways:
    """All that was found: for each set of victims its node and how it is judged."""

    def __init__(self, outcomes: Outcomes, rows: NDArray[np.intp], judged: Sequence[Amounts]) -> None:
        self.outcomes = outcomes
        self.rows = rows
        self.judged = judged

    @property
    def nodes(self) -> int:
        """On how many nodes victims were found."""
        return len(np.unique(self.rows))

    def judged_of(self, way: int) -> tuple[int, ...]:
        return tuple(int(said[way]) for said in self.judged)

    def one(self, way: int) -> Outcomes:
        """This way by itself."""
        of = self.outcomes
        return only(of.among, of.victims(way), int(of.marked[way]), int(of.violations[way]))

    def best_first(self) -> NDArray[np.intp]:
        """Ties go to the node with the smaller draw, then to the order of reprieve that comes first."""
        draws = self.outcomes.among.running.nodes.draws[self.rows]
        best: NDArray[np.intp] = np.lexsort((draws, *reversed(self.judged)))
        return best


def slack_by_row(among: Candidates, shape: PodShape, promised: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """By name the pod asks for, what each row has left with the pod on it and the pods being deleted gone."""
    after, there = among.after_deletions(), among.running.nodes.allocatable
    return {
        name: there[name] - after.requested(name) - promised.get(name, 0) - amount
        for name, amount in asked_of([shape]).items()
    }


def every_node(
    among: Candidates, slack: Mapping[str, Amounts], allowed: Mask, policy: VictimPolicy, coverage: Coverage
) -> Ways | None:
    """Sets of victims for the pod, at least one for each node where there is any; None when nowhere."""
    without = _enough(slack, allowed)
    if without.any():
        return _no_victims(among, np.flatnonzero(without), policy)
    everything = among.shares
    gone = {name: left.copy() for name, left in slack.items()}
    for name, left in gone.items():
        np.add.at(left, everything.rows, everything.held(name))
    feasible = _enough(gone, allowed)
    if not feasible.any():
        return None
    rows, shares = np.flatnonzero(feasible), everything.picked(feasible[everything.rows])
    return Lockstep(among, shares, rows, {name: left[rows] for name, left in gone.items()}).ways(policy, coverage)


class Lockstep:
    """Nodes where evicting all candidates is enough, what these hold, and what is left once they are gone."""

    def __init__(self, among: Candidates, shares: Shares, rows: NDArray[np.intp], left: Mapping[str, Amounts]) -> None:
        self._among = among
        self._shares = shares
        self._rows = rows
        self._left = left
        self._places = np.zeros(int(rows.max()) + 1, dtype=np.intp)  # of each row among these
        self._places[rows] = np.arange(len(rows))

    def ways(self, policy: VictimPolicy, coverage: Coverage) -> Ways:
        """Each of the policy's orders on each of the nodes."""
        marks = self._marks(coverage)
        evicted = [self._not_reprieved(order, marks > 0) for order in policy.orders]
        shares = np.concatenate(evicted)
        turns = np.repeat(np.arange(len(evicted)), [len(each) for each in evicted])
        ways = self._places[self._shares.rows[shares]] + turns * len(self._rows)
        marked = np.zeros(len(self._rows) * len(evicted), dtype=np.int64)
        np.add.at(marked, ways, marks[shares])
        outcomes = Outcomes(self._among, self._shares.units[shares], ways, marked, np.zeros_like(marked))
        if marked.any():
            outcomes.violations += coverage.violations(outcomes.units, outcomes.ways, len(outcomes))
        return Ways(outcomes, np.tile(self._rows, len(evicted)), policy.judge(outcomes))

    def _not_reprieved(self, order: Order, beyond: Flags) -> NDArray[np.intp]:
        """Which of the shares are victims when each node reprieves what it can, those beyond a budget first."""
        place = np.zeros(self._among.count, dtype=np.intp)
        ordered = order(self._among, np.unique(self._shares.units))
        place[ordered] = np.arange(len(ordered))
        asked = np.lexsort((place[self._shares.units], ~beyond))
        return asked[not_reprieved(self._shares.picked(asked), self._rows, self._left)]

    def _marks(self, coverage: Coverage) -> Amounts:
        """For each share how many pods of its unit would violate a budget if all units on its row were evicted."""
        shares, marks = self._shares, np.zeros(len(self._shares.units), dtype=np.int64)
        concerned = np.flatnonzero(coverage.counted[shares.units])
        concerned = concerned[self._in_sets(shares.units[concerned], shares.rows[concerned])]
        marks[concerned] = coverage.beyond(shares.units[concerned], shares.rows[concerned])
        return marks

    def _in_sets(self, units: Units, sets: NDArray[np.intp]) -> NDArray[np.intp]:
        """Set by set, the most important unit first."""
        places = np.zeros(self._among.count, dtype=np.intp)
        ordered = by_importance(self._among, np.unique(units))
        places[ordered] = np.arange(len(ordered))
        order: NDArray[np.intp] = np.lexsort((places[units], sets))
        return order


def _no_victims(among: Candidates, rows: NDArray[np.intp], policy: VictimPolicy) -> Ways:
    nobody, none = np.zeros(0, dtype=np.intp), np.zeros(len(rows), dtype=np.int64)
    outcomes = Outcomes(among, nobody, nobody, none, none.copy())
    return Ways(outcomes, rows, policy.judge(outcomes))


def _enough(slack: Mapping[str, Amounts], allowed: Mask) -> Mask:
    enough = allowed
    for amounts in slack.values():
        enough = enough & (amounts >= 0)
    return enough
