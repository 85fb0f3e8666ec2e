"""Whom to spare first, and which way of making room is best. A policy is a value: orders and criteria.

Two are enough. For a plain pod among plain pods nobody should be able to tell us from kube-scheduler. Where gangs or
checkpoints come in, kube-scheduler's criteria would weigh a pod that saved its work a second ago like one that
computed for a week, so there the loss decides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from msgspec import Struct

from headgate.placement.columns import Amounts
from headgate.preemption.candidates import Candidates
from headgate.preemption.loads import Units
from headgate.preemption.solver.problem import NOBODY
from headgate.preemption.units import ALONE

SUM_OFFSET = 1 << 31  # makes all priorities positive, so that fewer victims are better also below zero


class Outcomes:
    """Several ways to make room, judged at once: who leaves in which of them.

    `marked` are victims' pods beyond a budget as counted when all candidates were to leave, `violations` are counted
    anew for those who do leave, and `displaced` is what victims that come back would cost others.
    """

    def __init__(self, among: Candidates, units: Units, ways: Units, marked: Amounts, violations: Amounts) -> None:
        self.among = among
        self.units = units
        self.ways = ways  # for each of the units, in which way it leaves
        self.marked = marked
        self.violations = violations
        self.displaced = np.zeros(len(marked), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.marked)

    def victims(self, way: int) -> Units:
        victims: Units = self.units[self.ways == way]
        return victims

    def total(self, of_each: Amounts) -> Amounts:
        """The sum over each way's victims."""
        sums = np.zeros(len(self), dtype=np.int64)
        np.add.at(sums, self.ways, of_each)
        return sums

    @cached_property
    def highest(self) -> Amounts:
        top = np.full(len(self), NOBODY, dtype=np.int64)
        np.maximum.at(top, self.ways, self.among.priority[self.units])
        return top


def only(among: Candidates, victims: Units, marked: int = 0, violations: int = 0, displaced: int = 0) -> Outcomes:
    """One way by itself."""
    one = Outcomes(among, victims, np.zeros(len(victims), dtype=np.intp), np.array([marked]), np.array([violations]))
    one.displaced[0] = displaced
    return one


Criterion = Callable[[Outcomes], Amounts]


def highest_priority(outcomes: Outcomes) -> Amounts:
    return outcomes.highest


def marked_violations(outcomes: Outcomes) -> Amounts:
    """As kube-scheduler counts: reprieving one pod gives nothing back to its budget."""
    return outcomes.marked


def violations(outcomes: Outcomes) -> Amounts:
    """Pods that leave beyond a budget, of those that do leave."""
    return outcomes.violations


def sum_of_priorities(outcomes: Outcomes) -> Amounts:
    among, units = outcomes.among, outcomes.units
    return outcomes.total((among.priority[units] + SUM_OFFSET) * among.size[units])


def victims(outcomes: Outcomes) -> Amounts:
    """How many pods leave."""
    return outcomes.total(outcomes.among.size[outcomes.units])


def earliest_start(outcomes: Outcomes) -> Amounts:
    """When the first of the most important victims started, negated: of two, the one that started later is better."""
    among, units, ways = outcomes.among, outcomes.units, outcomes.ways
    top = among.priority[units] == outcomes.highest[ways]
    times = np.full(len(outcomes), among.now)
    np.minimum.at(times, ways[top], among.started[units[top]])
    negated: Amounts = -np.rint(times * 1_000_000).astype(np.int64)
    return negated


def work_lost(outcomes: Outcomes) -> Amounts:
    return outcomes.total(outcomes.among.lost[outcomes.units]) + outcomes.displaced


def gangs_broken(outcomes: Outcomes) -> Amounts:
    """Gangs evicted whole, and gangs left with fewer pods than they need."""
    among, units, ways = outcomes.among, outcomes.units, outcomes.ways
    broken = outcomes.total(among.whole[units].astype(np.int64))
    single = (among.gang[units] != ALONE) & ~among.whole[units]
    if not single.any():
        return broken
    gangs = len(among.spare)
    codes, lost = np.unique(ways[single] * gangs + among.gang[units[single]], return_counts=True)
    spare = among.spare[codes % gangs]
    np.add.at(broken, codes // gangs, (spare >= 0) & (lost > spare))
    return broken


Order = Callable[[Candidates, Units], Units]


def by_importance(among: Candidates, units: Units) -> Units:
    """The published order, most important first: priority, gangs before pods, more pods, earlier start.

    Among pods by themselves this is kube-scheduler's. A gang preempted pod by pod counts as a gang here.
    """
    keys = (
        among.draws[units],
        among.started[units],
        -among.size[units],
        among.gang[units] == ALONE,
        -among.priority[units],
    )
    return units[np.lexsort(keys)]


def by_gangs_and_loss(among: Candidates, units: Units) -> Units:
    """As published, but of units alike the one that would lose more work stays."""
    keys = (
        among.draws[units],
        among.started[units],
        -among.lost[units],
        -among.size[units],
        among.gang[units] == ALONE,
        -among.priority[units],
    )
    return units[np.lexsort(keys)]


def by_loss(among: Candidates, units: Units) -> Units:
    """Within a priority, whoever would lose most work stays, gang or not."""
    return units[np.lexsort((among.draws[units], -among.lost[units], -among.priority[units]))]


class VictimPolicy(Struct, frozen=True):
    """`orders` are tried one after the other when units are spared; the best outcome by the criteria is kept."""

    name: str
    criteria: tuple[tuple[str, Criterion], ...]
    orders: tuple[Order, ...] = (by_importance,)
    weighs_work: bool = False  # looks for cheap victims, and at what they would displace

    def judge(self, outcomes: Outcomes) -> list[Amounts]:
        """For each criterion what it says of each way: smaller is better, the first difference decides."""
        return [criterion(outcomes) for _, criterion in self.criteria]

    def judge_one(self, outcome: Outcomes) -> tuple[int, ...]:
        return tuple(int(said[0]) for said in self.judge(outcome))


KUBERNETES = VictimPolicy(
    "Kubernetes",
    (
        ("budget violations", marked_violations),
        ("highest priority", highest_priority),
        ("sum of priorities", sum_of_priorities),
        ("victims", victims),
        ("earliest start", earliest_start),
    ),
)
"""kube-scheduler's choice, criterion by criterion."""

LEAST_LOSS = VictimPolicy(
    "LeastLoss",
    (
        ("highest priority", highest_priority),
        ("budget violations", violations),
        ("gangs broken", gangs_broken),
        ("work lost", work_lost),
        ("victims", victims),
    ),
    orders=(by_gangs_and_loss, by_loss, by_importance),
    weighs_work=True,
)
"""The priority that has to give way comes first, so that preemptions do not cascade; then what is really lost.

The published order is among those tried, so the outcome is never worse than that order's by these criteria.
"""


def policy_for(single: bool, among: Candidates, units: Units) -> VictimPolicy:
    """KUBERNETES for a pod among pods by themselves that say nothing of checkpoints, LEAST_LOSS for everyone else.

    One gang or one checkpoint among the candidates is enough: kube-scheduler has no answer to what it is worth.
    """
    return KUBERNETES if single and bool(among.plain[units].all()) else LEAST_LOSS
