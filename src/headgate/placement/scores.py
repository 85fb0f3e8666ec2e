"""Which of the nodes that will do is best. Names and formulas are kube-scheduler's."""

from __future__ import annotations

import numpy as np

from headgate.model.pod import PodShape
from headgate.placement.changes import Rows
from headgate.placement.plugins import Score
from headgate.placement.table import Amounts, NodeTable

SCORED_RESOURCES = ("cpu", "memory")
TOP_SCORE = 100


class LeastAllocated:
    """The mean free share of cpu and memory after the pod, in whole percent; resources a node lacks are left out."""

    name = "NodeResourcesFit"

    def scores(self, shape: PodShape, nodes: NodeTable, rows: Rows) -> Amounts:
        total = np.zeros(len(rows), dtype=np.int64)
        counted = np.zeros(len(rows), dtype=np.int64)
        for resource in SCORED_RESOURCES:
            capacity = nodes.allocatable[resource][rows]
            asked = nodes.scored[resource][rows] + shape.scored_requests[resource]
            total += _free_percent(capacity, asked)
            counted += capacity > 0
        mean: Amounts = total // np.maximum(counted, 1)
        return mean


def _free_percent(capacity: Amounts, asked: Amounts) -> Amounts:
    """Whole percent left of the capacity; 0 when more is asked than there is, or there is none."""
    free: Amounts = np.maximum(capacity - asked, 0) * TOP_SCORE
    percent: Amounts = free // np.maximum(capacity, 1)
    return percent


SCORES: tuple[Score, ...] = (LeastAllocated(),)
