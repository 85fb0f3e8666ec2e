"""The search in one domain, the same for pods and groups on both sides.

All candidates are removed and the preemptor must fit; units whose eviction violates a budget are reprieved; the lowest
priority up to which evicting everything is enough is found; the preemptor is placed; all units that fit beside it are
reprieved, the most important first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from headgate.placement.columns import Amounts
from headgate.preemption.candidates import Candidates, as_flags
from headgate.preemption.coverage import Coverage
from headgate.preemption.loads import Units
from headgate.preemption.policies import Outcomes, VictimPolicy, by_importance, only
from headgate.preemption.units import Flags
from headgate.preemption.worlds import Placements, SearchDomain, World


class Solution(Struct, frozen=True):
    """What came of one domain: the placements, and the victims for them."""

    domain: SearchDomain
    placements: Placements
    outcome: Outcomes  # just one
    judged: tuple[int, ...]  # by the policy's criteria; smaller is better
    displaces: tuple[int, ...] = ()  # for each victim the work it is estimated to displace when it is recreated, if any

    @property
    def rank(self) -> tuple[tuple[int, ...], int]:
        return self.judged, self.domain.draw


class Split(Struct, frozen=True):
    """Which units would violate a budget if all candidates were evicted, and with how many pods."""

    violating: Units  # most important first
    pods: Amounts  # for every unit


def solve(
    world: World, domain: SearchDomain, among: Candidates, policy: VictimPolicy, coverage: Coverage
) -> Iterator[Solution]:
    """Every set of victims found in this domain; none when evicting all candidates is not enough."""
    pool = among.on_rows(domain.reach)
    everybody, placements = pool, world.place(pool)
    if placements is None:
        return
    split = split_by_budgets(among, pool, coverage)
    pool = _reprieve_violating(world, pool, placements, split)
    for gone in _pools(world, domain, among, pool, policy):
        found = placements if (gone == everybody).all() else _placements(world, gone, placements)
        for order in policy.orders:
            world.assume(gone, found)
            asked = order(among, world.doubtful(np.flatnonzero(gone)))
            victims = world.not_reprieved(_violating_first(asked, split))
            outcome = judged_outcome(among, victims, split, coverage)
            yield Solution(domain, found, outcome, policy.judge_one(outcome))


def _placements(world: World, gone: Flags, known: Placements) -> Placements:
    """Where the preemptor is placed with these gone.

    Placing pods one by one may fail beside units reprieved for a budget, though the placements they were reprieved
    beside still hold: then it is these.
    """
    found = world.place(gone)
    return known if found is None else found


def split_by_budgets(among: Candidates, pool: Flags, coverage: Coverage) -> Split:
    """As kube-scheduler does it: the most important use a budget up, and the others would violate it."""
    pods = np.zeros(among.count, dtype=np.int64)
    order = by_importance(among, np.flatnonzero(pool & coverage.counted))
    pods[order] = coverage.beyond(order, np.zeros(len(order), dtype=np.intp))
    return Split(order[pods[order] > 0], pods)


def judged_outcome(among: Candidates, victims: Units, split: Split, coverage: Coverage) -> Outcomes:
    """The victims, with violations counted for them alone: a reprieved unit gives back what it would have used up."""
    marked, displaced = int(split.pods[victims].sum()), int(among.displaces[victims].sum())
    violations = int(coverage.violations(victims, np.zeros(len(victims), dtype=np.intp), 1)[0]) if marked else 0
    return only(among, victims, marked, violations, displaced)


def _reprieve_violating(world: World, pool: Flags, placements: Placements, split: Split) -> Flags:
    if not len(split.violating):
        return pool
    world.assume(pool, placements)
    doubtful = as_flags(world.doubtful(split.violating), len(pool))
    evicted = world.not_reprieved(split.violating[doubtful[split.violating]])
    return (pool & ~as_flags(split.violating, len(pool))) | as_flags(evicted, len(pool))


def _violating_first(asked: Units, split: Split) -> Units:
    beyond = split.pods[asked] > 0
    return np.concatenate([asked[beyond], asked[~beyond]])


def _pools(world: World, domain: SearchDomain, among: Candidates, pool: Flags, policy: VictimPolicy) -> Iterator[Flags]:
    """The candidates of the lowest priority that is enough; where work is weighed, also the cheapest of those.

    With fixed placements neither needs a search: reprieving by priority and by loss finds them.
    """
    if domain.placements is not None:
        yield pool
        return
    enough = _least(world, pool, among.priority)
    yield enough
    if policy.weighs_work and enough.any():
        top = among.priority == among.priority[enough].max()
        cheap = _least(world, enough, np.where(top, among.weight, np.iinfo(np.int64).min))
        if (cheap != enough).any():
            yield cheap


def _least(world: World, pool: Flags, level: Amounts) -> Flags:
    """The units up to the lowest level that is enough, found by halving; nobody, where the preemptor fits anyway."""
    steps = np.unique(level[pool])
    low, high = -1, len(steps) - 1  # the highest is known to be enough; below the lowest there is nobody
    while low < high:
        middle = (low + high) // 2
        if world.enough(_up_to(pool, level, steps, middle)):
            high = middle
        else:
            low = middle + 1
    return _up_to(pool, level, steps, high)


def _up_to(pool: Flags, level: Amounts, steps: Amounts, at: int) -> Flags:
    return pool & (level <= steps[at]) if at >= 0 else np.zeros_like(pool)
