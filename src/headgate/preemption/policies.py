"""In which order units are reprieved, and which set of victims is best. A policy is a value: orders and criteria.

There are two, and the preemptor alone decides which applies. A pod outside groups preempts as it would with
kube-scheduler, whoever else runs in the cluster. A group takes the victims that lose least.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from msgspec import Struct

from headgate.placement.table import Amounts
from headgate.preemption.candidates import Candidates, Units
from headgate.preemption.solver.problem import NOBODY, SUM_OFFSET
from headgate.preemption.units import ALONE, Times


class Outcomes:
    """Several sets of victims, judged at once.

    `marked` are victims' pods beyond a budget as counted when all candidates were to be evicted, `violations` are
    counted for the victims alone, and `displaced` is what victims would cost others when they are recreated.
    """

    def __init__(self, among: Candidates, units: Units, ways: Units, marked: Amounts, violations: Amounts) -> None:
        self.among = among
        self.units = units
        self.ways = ways  # for each of the units, of which set it is a victim
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
    """Pods evicted beyond a budget, counted for the victims alone; a pod counts once for each budget it exceeds."""
    return outcomes.violations


def sum_of_priorities(outcomes: Outcomes) -> Amounts:
    among, units = outcomes.among, outcomes.units
    return outcomes.total((among.priority[units] + SUM_OFFSET) * among.size[units])


def victims(outcomes: Outcomes) -> Amounts:
    """How many pods are evicted."""
    return outcomes.total(outcomes.among.size[outcomes.units])


def latest_start(outcomes: Outcomes) -> Amounts:
    """When the first of the most important victims started, negated: of two, the one that started later is better."""
    among, units, ways = outcomes.among, outcomes.units, outcomes.ways
    top = among.priority[units] == outcomes.highest[ways]
    times = np.full(len(outcomes), among.now)
    np.minimum.at(times, ways[top], among.started[units[top]])
    negated: Amounts = -microseconds(times)
    return negated


def microseconds(times: Times) -> Amounts:
    whole: Amounts = np.rint(times * 1_000_000).astype(np.int64)
    return whole


def work_lost(outcomes: Outcomes) -> Amounts:
    """In node-seconds, with what victims displace when they are recreated."""
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
    """As published, but of units alike the one that would cost more is kept."""
    keys = (
        among.draws[units],
        among.started[units],
        -among.weight[units],
        -among.size[units],
        among.gang[units] == ALONE,
        -among.priority[units],
    )
    return units[np.lexsort(keys)]


def by_loss(among: Candidates, units: Units) -> Units:
    """Within a priority the unit that would cost most is kept, gang or not."""
    return units[np.lexsort((among.draws[units], -among.weight[units], -among.priority[units]))]


class VictimPolicy(Struct, frozen=True):
    """`orders` are tried one after the other when units are reprieved; the best outcome by the criteria is kept."""

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
        ("latest start", latest_start),
    ),
)
"""kube-scheduler's choice, criterion by criterion. A gang that is preempted whole is one unit of all its pods."""

LEAST_LOSS = VictimPolicy(
    "LeastLoss",
    (
        ("budget violations", violations),
        ("highest priority", highest_priority),
        ("gangs broken", gangs_broken),
        ("work lost", work_lost),
        ("victims", victims),
        ("sum of priorities", sum_of_priorities),
        ("latest start", latest_start),
    ),
    orders=(by_gangs_and_loss, by_loss, by_importance),
    weighs_work=True,
)
"""As kube-scheduler's criteria, with what is really lost before what only counts pods.

The published order is among those tried, so the outcome is never worse than that order's by these criteria.
"""


def policy_for(single: bool) -> VictimPolicy:
    """KUBERNETES for a pod outside groups, LEAST_LOSS for a group."""
    return KUBERNETES if single else LEAST_LOSS
