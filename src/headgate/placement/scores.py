"""Which of the nodes that will do is best, each judged by itself. Names and formulas are kube-scheduler's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from headgate.model.pod import PodShape
from headgate.model.resources import CPU, MEMORY
from headgate.model.settings import ScoringStrategy
from headgate.placement.columns import times
from headgate.placement.plugins import Each, Rows
from headgate.placement.table import NodeTable

NATIVE_RESOURCES = (CPU, MEMORY, "ephemeral-storage")
BALANCED_RESOURCES = (CPU, MEMORY)
TOP_SCORE = 100
Judge = Callable[[Each, Each], Each]
"""0 to 100 for what would be taken of what there is."""


class ResourceScore:
    """The weighted mean over resources of how well the use of each is liked; what a node lacks is left out."""

    name = "NodeResourcesFit"

    def __init__(self, strategy: ScoringStrategy) -> None:
        self._resources = strategy.resources
        self._judge = JUDGES[strategy.type](strategy)
        self._zero_drops_out = strategy.type == "RequestedToCapacityRatio"

    def scores(self, shape: PodShape, nodes: NodeTable, rows: Rows, already: Each) -> Each:
        total: Each = _nothing(nodes, rows)
        weights: Each = total
        for resource, weight in self._resources:
            if resource not in NATIVE_RESOURCES and not shape.requests.asks_for(resource):
                continue
            capacity = nodes.allocatable.at(resource, rows)
            taken = nodes.scored.at(resource, rows) + times(shape.scored_requests[resource], already + 1)
            points = self._judge(taken, capacity) * (capacity > 0)
            total = total + points * weight
            weights = weights + weight * ((points > 0) if self._zero_drops_out else (capacity > 0))
        rounding = weights // 2 if self._zero_drops_out else 0
        return (total + rounding) // (weights + (weights == 0))


def least_allocated(_: ScoringStrategy) -> Judge:
    """The free share in whole percent; nothing when more is taken than there is."""
    return lambda taken, capacity: _percent((capacity - taken) * (taken <= capacity), capacity)


def most_allocated(_: ScoringStrategy) -> Judge:
    """The used share in whole percent, at most all of it."""
    return lambda taken, capacity: _percent(_at_most(capacity, taken), capacity)


def requested_to_capacity_ratio(strategy: ScoringStrategy) -> Judge:
    """The points the operator's curve gives to the used share."""
    points = np.array([_on_curve(strategy.shape, percent) for percent in range(101)], dtype=np.int64)

    def judge(taken: Each, capacity: Each) -> Each:
        return points[_percent(_at_most(capacity, taken), capacity)]

    return judge


def _on_curve(curve: tuple[tuple[int, int], ...], percent: int) -> int:
    """Straight lines between the curve's points, level outside them; its 0 to 10 becomes 0 to 100."""
    before = curve[0]
    for use, score in curve:
        if percent <= use:
            rise, run = (score - before[1]) * 10 * (percent - before[0]), use - before[0]
            return score * 10 if not run else before[1] * 10 + int(rise / run)
        before = (use, score)
    return before[1] * 10


JUDGES: Mapping[str, Callable[[ScoringStrategy], Judge]] = {
    "LeastAllocated": least_allocated,
    "MostAllocated": most_allocated,
    "RequestedToCapacityRatio": requested_to_capacity_ratio,
}


class BalancedAllocation:
    """How much nearer the pod brings the shares of cpu and memory to each other: 50 to 100, 75 for no change."""

    name = "NodeResourcesBalancedAllocation"

    def scores(self, shape: PodShape, nodes: NodeTable, rows: Rows, already: Each) -> Each:
        if not (shape.requests.asks_for(CPU) or shape.requests.asks_for(MEMORY)):
            return _nothing(nodes, rows)
        gained = _gained_on_one if type(rows) is int else _gained
        return TOP_SCORE // 2 + (TOP_SCORE // 2 + gained(shape, nodes, rows, already)) // 2


def _gained(shape: PodShape, nodes: NodeTable, rows: Rows, already: Each) -> Each:
    """How much better the balance is with the pod; a node that lacks one of the two is in balance."""
    cpu_with, cpu_without, has_cpu = _shares(CPU, shape, nodes, rows, already)
    memory_with, memory_without, has_memory = _shares(MEMORY, shape, nodes, rows, already)
    both = has_cpu & has_memory
    return _balances(cpu_with, memory_with, both) - _balances(cpu_without, memory_without, both)


def _shares(resource: str, shape: PodShape, nodes: NodeTable, rows: Rows, already: Each) -> tuple[Each, Each, Each]:
    """How much is used with the pod and without it, each at most 1, and whether the node has the resource at all."""
    capacity, amount = nodes.allocatable.at(resource, rows), shape.requests[resource]
    there, used = capacity > 0, nodes.requested.at(resource, rows) + times(amount, already)
    whole = capacity + (capacity == 0)
    return np.minimum((used + amount) / whole, 1), np.minimum(used / whole, 1), there


def _balances(cpu: Each, memory: Each, both: Each) -> Each:
    """100 where cpu and memory are used to the same share."""
    return ((1 - abs((cpu - memory) / 2) * both) * TOP_SCORE).astype(np.int64)


def _gained_on_one(shape: PodShape, nodes: NodeTable, row: int, already: int) -> int:
    """As `_gained`, step by step, with plain numbers: most of the time it is a single row that changed."""
    cpu, memory = nodes.allocatable.at(CPU, row), nodes.allocatable.at(MEMORY, row)
    if cpu <= 0 or memory <= 0:
        return 0
    more_cpu, more_memory = shape.requests[CPU], shape.requests[MEMORY]
    used_cpu = nodes.requested.at(CPU, row) + more_cpu * already
    used_memory = nodes.requested.at(MEMORY, row) + more_memory * already
    with_pod = _balance((used_cpu + more_cpu) / cpu, (used_memory + more_memory) / memory)
    return with_pod - _balance(used_cpu / cpu, used_memory / memory)


def _balance(cpu: float, memory: float) -> int:
    apart = (cpu if cpu < 1 else 1.0) - (memory if memory < 1 else 1.0)
    return int((1 - abs(apart / 2)) * TOP_SCORE)


def _nothing(nodes: NodeTable, rows: Rows) -> Each:
    """Zero for each row; for one row a plain number, as `Columns.at` has it."""
    return 0 if type(rows) is int else nodes.draws[rows] * 0


def _at_most(limit: Each, amount: Each) -> Each:
    return amount - (amount - limit) * (amount > limit)


def _percent(part: Each, whole: Each) -> Each:
    """Whole percent; 0 of nothing."""
    return part * TOP_SCORE // (whole + (whole == 0))
