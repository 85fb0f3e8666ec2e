"""Which of the nodes that will do is best. Names and formulas are kube-scheduler's.

Some scores judge each node by itself, by what it would have left; others compare the nodes that will do, by what pods
and nodes would rather have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.model.node import Node, TaintEffect
from headgate.model.pod import Pod, PodShape
from headgate.model.resources import CPU, MEMORY
from headgate.model.settings import ScoringStrategy
from headgate.placement.filters import tolerated
from headgate.placement.plugins import Each, Rows
from headgate.placement.table import Amounts, Columns, NodeTable, padded, times

NATIVE_RESOURCES = (CPU, MEMORY, "ephemeral-storage")
BALANCED_RESOURCES = (CPU, MEMORY)
TOP_SCORE = 100
Judge = Callable[[Each, Each], Each]
"""0 to 100 for what would be taken of what there is."""

KEPT_DEMANDS = 1024
Worth = Callable[[PodShape, Node], int]


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


class Kept(NamedTuple):
    worths: Amounts
    cursor: int
    some: bool


NOTHING_KEPT = Kept(np.zeros(0, dtype=np.int64), -1, False)


class NodeScores:
    """A number for each node and demand, computed once and again when the node changes."""

    def __init__(self, nodes: NodeTable, worth: Worth) -> None:
        self._nodes = nodes
        self._worth = worth
        self._kept: dict[Hashable, Kept] = {}

    def of(self, shape: PodShape, demand: Hashable) -> Amounts:
        return self._current(shape, demand).worths

    def any(self, shape: PodShape, demand: Hashable) -> bool:
        """Whether any node is worth anything."""
        return self._current(shape, demand).some

    def _current(self, shape: PodShape, demand: Hashable) -> Kept:
        kept = self._kept.get(demand, NOTHING_KEPT)
        if kept.cursor != self._nodes.node_changes.end:
            worths = self._refreshed(kept.worths, kept.cursor, shape)
            kept = self._kept[demand] = Kept(worths, self._nodes.node_changes.end, bool(worths.any()))
            if len(self._kept) > KEPT_DEMANDS:
                del self._kept[next(iter(self._kept))]
        return kept

    def _refreshed(self, worths: Amounts, cursor: int, shape: PodShape) -> Amounts:
        worths = padded(worths, len(self._nodes.nodes))
        for row in self._nodes.rows_changed_since(cursor):
            node = self._nodes.nodes[row]
            worths[row] = 0 if node is None else self._worth(shape, node)
        return worths


class PreferredNodeAffinity:
    """The summed weights of the preferred terms a node meets, scaled by the best."""

    name = "NodeAffinity"

    def __init__(self, nodes: NodeTable) -> None:
        self._worths = NodeScores(nodes, _preference)

    def compares(self, pod: Pod) -> bool:
        return bool(pod.shape.preferred_terms)

    def scores(self, pod: Pod, fit: NDArray[np.intp]) -> Amounts | None:
        raw = self._worths.of(pod.shape, pod.shape.preferred_terms)[fit]
        return _scaled(raw)


def _preference(shape: PodShape, node: Node) -> int:
    terms = shape.preferred_terms
    return sum(each.weight for each in terms if each.term.matches(node.name, node.labels))


class PreferredTaints:
    """Fewer soft taints the pod does not tolerate is better."""

    name = "TaintToleration"

    def __init__(self, nodes: NodeTable) -> None:
        self._worths = NodeScores(nodes, _soft_taints)

    def compares(self, pod: Pod) -> bool:
        return self._worths.any(pod.shape, pod.shape.tolerations)

    def scores(self, pod: Pod, fit: NDArray[np.intp]) -> Amounts | None:
        scaled = _scaled(self._worths.of(pod.shape, pod.shape.tolerations)[fit])
        return None if scaled is None else TOP_SCORE - scaled


def _soft_taints(shape: PodShape, node: Node) -> int:
    soft = [taint for taint in node.taints if taint.effect is TaintEffect.PREFER_NO_SCHEDULE]
    return sum(not tolerated(taint, shape) for taint in soft)


def _scaled(raw: Amounts) -> Amounts | None:
    """Whole percent of the highest; None when all are nothing."""
    high = int(raw.max(initial=0))
    return None if high == 0 else TOP_SCORE * raw // high


MIB = 1 << 20
FLOOR = 23 * MIB  # less than this is fetched in no time
CEILING = 1000 * MIB  # for each container


class ImageLocality:
    """More bytes of the pod's images present is better, the more so the more nodes have them too."""

    name = "ImageLocality"

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._sizes = Columns(0)
        self._cursor = -1

    def compares(self, pod: Pod) -> bool:
        self._refresh()
        known = self._sizes.names()
        return any(image in known for image in pod.shape.images)

    def scores(self, pod: Pod, fit: NDArray[np.intp]) -> Amounts | None:
        present = np.zeros(len(fit), dtype=np.int64)
        for image in pod.shape.images:
            sizes = self._sizes[image]
            spread = np.count_nonzero(sizes) / len(self._nodes)
            present += (sizes[fit] * spread).astype(np.int64)
        ceiling = CEILING * len(pod.shape.images)
        points: Amounts = TOP_SCORE * (np.clip(present, FLOOR, ceiling) - FLOOR) // (ceiling - FLOOR)
        return points

    def _refresh(self) -> None:
        nodes = self._nodes
        if self._cursor == nodes.node_changes.end:
            return
        self._sizes.grow(len(nodes.nodes))
        for row in nodes.rows_changed_since(self._cursor):
            node = nodes.nodes[row]
            self._sizes.put(row, node.images.items() if node is not None else ())
        self._cursor = nodes.node_changes.end
