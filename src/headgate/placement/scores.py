"""Which of the nodes that will do is best, each judged by itself. Names and formulas are kube-scheduler's."""

from __future__ import annotations

import numpy as np

from headgate.model.pod import PodShape
from headgate.placement.plugins import Each, Rows, RowScore
from headgate.placement.table import NodeTable

SCORED_RESOURCES = ("cpu", "memory")
TOP_SCORE = 100


class LeastAllocated:
    """The mean free share of cpu and memory after the pod, in whole percent; resources a node lacks are left out."""

    name = "NodeResourcesFit"

    def scores(self, shape: PodShape, nodes: NodeTable, rows: Rows, already: Each) -> Each:
        total: Each = 0
        counted: Each = 0
        for resource in SCORED_RESOURCES:
            capacity = nodes.allocatable[resource][rows]
            taken = nodes.scored[resource][rows] + shape.scored_requests[resource] * (already + 1)
            total = total + _percent(capacity - taken, capacity)
            counted = counted + (capacity > 0)
        return total // (counted + (counted == 0))


class BalancedAllocation:
    """How much nearer the pod brings the shares of cpu and memory to each other: 50 to 100, 75 for no change."""

    name = "NodeResourcesBalancedAllocation"

    def scores(self, shape: PodShape, nodes: NodeTable, rows: Rows, already: Each) -> Each:
        if not any(shape.requests[resource] for resource in SCORED_RESOURCES):
            return nodes.allocatable[SCORED_RESOURCES[0]][rows] * 0
        with_pod = _balance(shape, nodes, rows, already + 1)
        without_pod = _balance(shape, nodes, rows, already)
        return TOP_SCORE // 2 + (TOP_SCORE // 2 + with_pod - without_pod) // 2


def _balance(shape: PodShape, nodes: NodeTable, rows: Rows, pods: Each) -> Each:
    """100 when cpu and memory are used to the same share; a node that lacks one of them is in balance."""
    cpu, has_cpu = _share("cpu", shape, nodes, rows, pods)
    memory, has_memory = _share("memory", shape, nodes, rows, pods)
    apart = abs((cpu - memory) / 2) * has_cpu * has_memory
    return _whole((1 - apart) * TOP_SCORE)


def _share(resource: str, shape: PodShape, nodes: NodeTable, rows: Rows, pods: Each) -> tuple[Each, Each]:
    """The used share, at most 1, and whether the node has the resource at all."""
    capacity = nodes.allocatable[resource][rows]
    used = (nodes.requested[resource][rows] + shape.requests[resource] * pods) / (capacity + (capacity == 0))
    return used * (used <= 1) + (used > 1), capacity > 0


def _percent(part: Each, whole: Each) -> Each:
    """Whole percent; 0 for a part below nothing, and of nothing."""
    return (part * (part > 0)) * TOP_SCORE // (whole + (whole == 0))


def _whole(numbers: Each) -> Each:
    return numbers.astype(np.int64) if isinstance(numbers, np.ndarray) else int(numbers)


ROW_SCORES: tuple[RowScore, ...] = (LeastAllocated(), BalancedAllocation())
