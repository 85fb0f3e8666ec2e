"""All nodes as arrays, one row a node, and which pod takes how much of which row."""

from __future__ import annotations

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from headgate.model.keys import Key
from headgate.model.node import Node
from headgate.model.pod import PodShape
from headgate.model.resources import Resources
from headgate.placement.changes import ChangeLog

Amounts = NDArray[np.int64]
PODS = "pods"
FIRST_ROWS = 64


class Columns:
    """Exact amounts by resource name and row; a resource nobody named yet is zero everywhere."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._columns: dict[str, Amounts] = {}

    def __getitem__(self, resource: str) -> Amounts:
        column = self._columns.get(resource)
        if column is None:
            column = self._columns[resource] = np.zeros(self._rows, dtype=np.int64)
        return column

    def grow(self, rows: int) -> None:
        for resource, column in self._columns.items():
            self._columns[resource] = np.concatenate([column, np.zeros(rows - self._rows, dtype=np.int64)])
        self._rows = rows

    def add(self, row: int, amounts: Resources, sign: int) -> None:
        for resource, amount in amounts.items:
            self[resource][row] += sign * amount

    def put(self, row: int, amounts: Resources) -> None:
        self.clear(row)
        self.add(row, amounts, 1)

    def clear(self, row: int) -> None:
        for column in self._columns.values():
            column[row] = 0


class NodeTable:
    """Nodes and the pods charged to them. What a pod was charged is what its release gives back, exactly."""

    def __init__(self) -> None:
        self.nodes: list[Node | None] = [None] * FIRST_ROWS
        self.alive: NDArray[np.bool_] = np.zeros(FIRST_ROWS, dtype=np.bool_)
        self.name_hashes: NDArray[np.uint64] = np.zeros(FIRST_ROWS, dtype=np.uint64)
        self.allocatable = Columns(FIRST_ROWS)
        self.requested = Columns(FIRST_ROWS)
        self.scored = Columns(FIRST_ROWS)  # requests as scoring sees them
        self.node_changes = ChangeLog()  # rows whose node itself changed
        self.load_changes = ChangeLog()  # rows whose node or load changed
        self._rows: dict[str, int] = {}
        self._free = list(range(FIRST_ROWS - 1, -1, -1))
        self._charges: dict[Key, tuple[str, PodShape]] = {}
        self._pods_on: dict[str, dict[Key, PodShape]] = {}  # also for nodes not known yet

    def __len__(self) -> int:
        return len(self._rows)

    def name_at(self, row: int) -> str:
        node = self.nodes[row]
        assert node is not None, f"row {row} is empty"
        return node.name

    def get(self, name: str) -> Node | None:
        row = self._rows.get(name)
        return None if row is None else self.nodes[row]

    def put(self, node: Node) -> None:
        """The node is there and looks like this."""
        row = self._rows.get(node.name)
        if row is None:
            row = self._take_row(node.name)
            self._charge_all(row, node.name)
        self.nodes[row] = node
        self.allocatable.put(row, node.allocatable)
        self._mark(row)

    def drop(self, name: str) -> None:
        """The node is gone; pods charged to it stay on record in case it returns."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        self.nodes[row] = None
        self.alive[row] = False
        for columns in (self.allocatable, self.requested, self.scored):
            columns.clear(row)
        self._free.append(row)
        self._mark(row)

    def charge(self, pod: Key, node: str, shape: PodShape) -> bool:
        """The pod takes its requests on that node, and on no other; True when it had taken something else before."""
        if self._charges.get(pod) == (node, shape):
            return False
        moved = self.release(pod)
        self._charges[pod] = (node, shape)
        self._pods_on.setdefault(node, {})[pod] = shape
        self._apply(node, shape, 1)
        return moved

    def release(self, pod: Key) -> bool:
        """Give back what the pod was charged; False when it was charged nothing."""
        charge = self._charges.pop(pod, None)
        if charge is None:
            return False
        node, shape = charge
        del self._pods_on[node][pod]
        if not self._pods_on[node]:
            del self._pods_on[node]
        self._apply(node, shape, -1)
        return True

    def shortage(self, name: str, shape: PodShape) -> str | None:
        """Which of the resources the shape asks for is charged beyond what the node has."""
        row = self._rows[name]
        for resource, _ in shape.requests.items:
            charged, there = int(self.requested[resource][row]), int(self.allocatable[resource][row])
            if charged > there:
                return f"{resource}: {charged} charged, {there} there"
        return None

    def _apply(self, node: str, shape: PodShape, sign: int) -> None:
        row = self._rows.get(node)
        if row is None:
            return
        self.requested.add(row, shape.requests, sign)
        self.requested[PODS][row] += sign
        self.scored.add(row, shape.scored_requests, sign)
        self.load_changes.append(row)

    def _charge_all(self, row: int, name: str) -> None:
        for shape in self._pods_on.get(name, {}).values():
            self._apply(name, shape, 1)

    def _take_row(self, name: str) -> int:
        if not self._free:
            self._grow()
        row = self._rows[name] = self._free.pop()
        self.alive[row] = True
        self.name_hashes[row] = _spread(name)
        return row

    def _grow(self) -> None:
        old = len(self.nodes)
        new = old * 2
        self.nodes.extend([None] * old)
        self.alive = np.concatenate([self.alive, np.zeros(old, dtype=np.bool_)])
        self.name_hashes = np.concatenate([self.name_hashes, np.zeros(old, dtype=np.uint64)])
        for columns in (self.allocatable, self.requested, self.scored):
            columns.grow(new)
        self._free.extend(range(new - 1, old - 1, -1))

    def _mark(self, row: int) -> None:
        self.node_changes.append(row)
        self.load_changes.append(row)


def _spread(name: str) -> int:
    """64 bits of the name, the same in every process."""
    raw = name.encode()
    return crc32(raw) << 32 | crc32(raw, 0x5EED)
