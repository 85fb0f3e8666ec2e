"""What pods and nodes would rather have: scores that compare the nodes that will do. Formulas are kube-scheduler's."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.model.node import Node, TaintEffect
from headgate.model.pod import Pod, PodShape
from headgate.placement.columns import Amounts, Columns, padded
from headgate.placement.filters import tolerated
from headgate.placement.scores import TOP_SCORE
from headgate.placement.table import NodeTable

KEPT_DEMANDS = 1024
Worth = Callable[[PodShape, Node], int]


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
