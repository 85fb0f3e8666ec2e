"""Free capacity of nodes for trial placements: allocatable less the requests of the pods there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key
from headgate.model.node import Node
from headgate.model.pod import Pod, PodShape
from headgate.placement.filters import NODE_FILTERS, Verdicts
from headgate.placement.table import ONE_POD, PODS, Amounts, NodeTable

Wanted = Mapping[PodShape, int]
"""So many pods of each shape, in this order."""
Rows = NDArray[np.intp]


class _Ready:
    """Nothing starts on a node that does not report."""

    name = "NodeReady"
    wake_on: frozenset[ClusterEvent] = frozenset()

    def demand(self, shape: PodShape) -> str:
        return self.name

    def refusal(self, shape: PodShape, node: Node) -> str | None:
        return None if node.ready else "node(s) were not ready"


class NodeCapacity:
    """Nodes and the pods on them, terminating ones included; kept pod by pod."""

    def __init__(self) -> None:
        self._table = NodeTable()
        self._filters = [Verdicts(rule, self._table) for rule in (*NODE_FILTERS, _Ready())]
        self._order: Rows = np.zeros(0, dtype=np.intp)  # all rows, in an order that is the same in every process
        self._ordered_at = -1

    @property
    def version(self) -> tuple[int, int]:
        """Another one whenever a node or what is on it changed."""
        return self._table.node_changes.end, self._table.load_changes.end

    def put_node(self, node: Node) -> None:
        known = self._table.get(node.name)
        if known is None or not _means_the_same(known, node):
            self._table.put(node)

    def drop_node(self, key: Key, uid: str) -> None:
        known = self._table.get(key.name)
        if known is not None and known.uid == uid:
            self._table.drop(key.name)

    def put_pod(self, pod: Pod) -> None:
        if pod.holds_room:
            self._table.charge(pod, pod.node)
        else:
            self._table.release(pod.key)

    def is_another(self, key: Key, uid: str) -> bool:
        """Whether a pod of that name is on a node, and not this one."""
        charge = self._table.charge_of(key)
        return charge is not None and charge[1].uid != uid

    def drop_pod(self, key: Key) -> None:
        self._table.release(key)

    def row_of(self, node: str) -> int | None:
        return self._table.row_of(node)

    def free(self, resources: Iterable[str]) -> FreeCapacity:
        """What each node has free now, of these resources and of places for pods."""
        names = dict.fromkeys((*resources, PODS))
        return FreeCapacity({name: self._table.allocatable[name] - self._table.requested[name] for name in names})

    def rows_for(self, shape: PodShape) -> Rows:
        """The nodes that pods of this shape may run on, whatever is free there."""
        fit = self._table.alive
        for verdicts in self._filters:
            passing = verdicts.passes(shape, slice(None))
            fit = fit if passing is None else fit & passing
        if self._ordered_at != self._table.node_changes.end:
            self._order = np.argsort(self._table.draws, kind="stable")
            self._ordered_at = self._table.node_changes.end
        return self._order[fit[self._order]]


class FreeCapacity:
    """Free amounts by resource and row, less those of trial placements."""

    def __init__(self, amounts: dict[str, Amounts]) -> None:
        self.amounts = amounts

    def copy(self) -> FreeCapacity:
        return FreeCapacity({name: free.copy() for name, free in self.amounts.items()})

    def place(self, shape: PodShape, count: int, rows: Rows) -> int:
        """Places as many of the pods as fit on these rows, the tightest rows first; returns how many."""
        asked = [(name, amount) for name, amount in (*shape.requests.items, ONE_POD) if amount]
        each = [self.amounts[name][rows] // amount for name, amount in asked]
        placed = _tightest_first(count, np.maximum(np.minimum.reduce(each), 0))
        for name, amount in asked:
            self.amounts[name][rows] -= placed * amount
        return int(placed.sum())


def _tightest_first(wanted: int, fits: Amounts) -> Amounts:
    """How many of the wanted each row takes, where the row that fits the fewest comes first."""
    some = np.flatnonzero(fits)
    if wanted >= fits[some].sum():
        return fits
    order = some[np.argsort(fits[some], kind="stable")]
    given = np.zeros_like(fits)
    given[order] = np.clip(wanted - (np.cumsum(fits[order]) - fits[order]), 0, fits[order])
    return given


def _means_the_same(old: Node, new: Node) -> bool:
    """Nothing changed that decides what fits on the node."""
    return structs.replace(old, version="", annotations={}, images={}) == structs.replace(
        new, version="", annotations={}, images={}
    )
