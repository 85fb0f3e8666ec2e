"""Which of the nodes that will do is best, each judged by itself. Names and formulas are kube-scheduler's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from headgate.model.pod import PodShape
from headgate.model.settings import ScoringStrategy
from headgate.placement.plugins import Each, Rows
from headgate.placement.table import NodeTable

NATIVE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
BALANCED_RESOURCES = ("cpu", "memory")
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
            taken = nodes.scored.at(resource, rows) + shape.scored_requests[resource] * (already + 1)
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
    return lambda taken, capacity: _percent(taken - (taken - capacity) * (taken > capacity), capacity)


def requested_to_capacity_ratio(strategy: ScoringStrategy) -> Judge:
    """The points the operator's curve gives to the used share."""
    points = np.array([_on_curve(strategy.shape, percent) for percent in range(101)], dtype=np.int64)

    def judge(taken: Each, capacity: Each) -> Each:
        used = _percent(taken, capacity)
        return points[used - (used - 100) * (taken > capacity)]

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
        if not any(shape.requests.asks_for(resource) for resource in BALANCED_RESOURCES):
            return _nothing(nodes, rows)
        cpu_with, cpu_without, has_cpu = _shares("cpu", shape, nodes, rows, already)
        memory_with, memory_without, has_memory = _shares("memory", shape, nodes, rows, already)
        both = has_cpu & has_memory
        gained = _balance(cpu_with, memory_with, both) - _balance(cpu_without, memory_without, both)
        return TOP_SCORE // 2 + (TOP_SCORE // 2 + gained) // 2


def _shares(resource: str, shape: PodShape, nodes: NodeTable, rows: Rows, already: Each) -> tuple[Each, Each, Each]:
    """How much is used with the pod and without it, each at most 1, and whether the node has the resource at all."""
    capacity, amount = nodes.allocatable.at(resource, rows), shape.requests[resource]
    there, used = capacity > 0, nodes.requested.at(resource, rows) + amount * already
    whole = capacity + (capacity == 0)
    return _at_most_one((used + amount) / whole), _at_most_one(used / whole), there


def _balance(cpu: Each, memory: Each, both: Each) -> Each:
    """100 when cpu and memory are used to the same share; a node that lacks one of them is in balance."""
    return _whole((1 - abs((cpu - memory) / 2) * both) * TOP_SCORE)


def _at_most_one(shares: Each) -> Each:
    return np.minimum(shares, 1) if isinstance(shares, np.ndarray) else min(shares, 1.0)


def _nothing(nodes: NodeTable, rows: Rows) -> Each:
    """Zero for each row; for one row a plain number, as `Columns.at` has it."""
    return 0 if type(rows) is int else nodes.draws[rows] * 0


def _percent(part: Each, whole: Each) -> Each:
    """Whole percent; 0 of nothing."""
    return part * TOP_SCORE // (whole + (whole == 0))


def _whole(numbers: Each) -> Each:
    return numbers.astype(np.int64) if isinstance(numbers, np.ndarray) else int(numbers)
