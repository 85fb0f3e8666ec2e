"""The search in one domain, the same for pods and groups on both sides, and what it asks of the cluster (`World`).

All candidates are removed and the preemptor must fit; units whose eviction violates a budget are reprieved; the lowest
priority up to which evicting everything is enough is found; the preemptor is placed; all units that fit beside it are
reprieved, the most important first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct, structs

from headgate.model.pod import Pod
from headgate.placement.placer import Placer
from headgate.placement.table import Amounts, NodeTable
from headgate.preemption.budgets import Coverage
from headgate.preemption.candidates import Candidates, Units, as_flags
from headgate.preemption.policies import Outcomes, VictimPolicy, by_importance, only
from headgate.preemption.units import Flags

Placements = tuple[tuple[int, int], ...]
"""Which of the preemptor's pods, by its place in line, on which row."""


class SearchDomain(Struct, frozen=True):
    """A part of the cluster that could take the whole preemptor.

    `pods` are pinned to it by their own demands. With `placements` only the victims are left to choose.
    """

    name: str
    pods: tuple[Pod, ...]
    needed: int
    reach: Flags  # rows whose units may be preempted
    placements: Placements | None = None
    draw: int = 0  # settles ties between domains

    @property
    def usable(self) -> Flags:
        """The rows on which pods may be placed."""
        if self.placements is None:
            return self.reach
        rows: Flags = np.zeros_like(self.reach)
        rows[[row for _, row in self.placements]] = True
        return rows


class World(Protocol):
    """A cluster in which one domain is tried out; nothing of it is left behind."""

    def enough(self, gone: Flags) -> bool:
        """Whether the preemptor would fit without these units and all pods being deleted."""

    def place(self, gone: Flags) -> Placements | None:
        """Where it would be placed then; None when it would not fit."""

    def assume(self, gone: Flags, placements: Placements) -> None:
        """These units are gone and the preemptor is placed: units can be reprieved."""

    def doubtful(self, units: Units) -> Units:
        """Those of the units that must be tried one by one; all others are reprieved together."""

    def not_reprieved(self, units: Units) -> Units:
        """Reprieves units in this order; returns those that do not fit beside the placements and the reprieved."""


CLUSTER = "the cluster"
NOMINATED = "the nominated nodes"


def node_domain(nodes: NodeTable, pods: tuple[Pod, ...], row: int) -> SearchDomain:
    """One node for one pod: only units that run there may be preempted."""
    here: Flags = np.zeros(len(nodes.nodes), dtype=np.bool_)
    here[row] = True
    return SearchDomain(nodes.name_at(row), pods, 1, here, ((0, row),), int(nodes.draws[row]))


def node_domains(nodes: NodeTable, placer: Placer, pods: tuple[Pod, ...]) -> Iterator[SearchDomain]:
    """Every node that rejects the pod for something that evictions might cure."""
    for row in np.flatnonzero(placer.curable(pods[0])).tolist():
        yield node_domain(nodes, pods, row)


def group_domains(
    nodes: NodeTable, placer: Placer, pods: tuple[Pod, ...], needed: int, topology: str
) -> Iterator[SearchDomain]:
    """The whole cluster; for a group that must stay together one domain for each value of the label."""
    if not topology:
        yield SearchDomain(CLUSTER, pods, needed, nodes.alive)
        return
    ids = placer.domains.of(topology).ids
    values = {node.labels[topology]: row for row, node in enumerate(nodes.nodes) if node and topology in node.labels}
    for place, (value, row) in enumerate(sorted(values.items())):
        pinned = tuple(_pinned(pod, topology, value) for pod in pods)
        yield SearchDomain(f"{topology}={value}", pinned, needed, nodes.alive & (ids == ids[row]), None, place)


def placements_domain(nodes: NodeTable, pods: tuple[Pod, ...], placements: Placements, single: bool) -> SearchDomain:
    """Placements that are settled. A pod's victims are on its node; those of a group may be anywhere."""
    if single:
        return structs.replace(node_domain(nodes, pods, placements[0][1]), name=NOMINATED)
    return SearchDomain(NOMINATED, pods, len(placements), nodes.alive, placements)


def rows_of(nodes: NodeTable, pods: Sequence[Pod], placements: Sequence[tuple[Pod, str]]) -> Placements | None:
    """The placements by place in line and row; None when a node is not there any more."""
    places = {pod.key: index for index, pod in enumerate(pods)}
    rows = [(places[pod.key], nodes.row_of(name)) for pod, name in placements]
    known = tuple((index, row) for index, row in rows if row is not None)
    return known if len(known) == len(rows) else None


def _pinned(pod: Pod, label: str, value: str) -> Pod:
    """A pod that names another value itself asks for both, and so for what no node has."""
    selector = tuple(sorted({*pod.shape.node_selector, (label, value)}))
    return structs.replace(pod, shape=structs.replace(pod.shape, node_selector=selector))


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
