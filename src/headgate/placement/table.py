"""All nodes as arrays, one row a node, and which pod takes how much of which row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key
from headgate.model.node import HostPort, Node
from headgate.model.pod import Pod, PodShape
from headgate.placement.columns import FEW_COLUMNS, Amounts, ChangeLog, Columns, padded

PODS = "pods"
ONE_POD = ((PODS, 1),)
FIRST_ROWS = 64


class PodObserver(Protocol):
    """Follows which pods are on which rows."""

    def count(self, pod: Pod, row: int, sign: int) -> None: ...

    def clear(self, row: int) -> None: ...

    def grow(self, rows: int) -> None: ...


class NodeTable:
    """Nodes and the pods charged to them. What a pod was charged is what its release gives back, exactly."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self.nodes: list[Node | None] = [None] * FIRST_ROWS
        self.alive: NDArray[np.bool_] = np.zeros(FIRST_ROWS, dtype=np.bool_)
        self.draws: Amounts = np.zeros(
            FIRST_ROWS, dtype=np.int64
        )  # settles ties: of equally good rows the smallest wins
        self.allocatable = Columns(FIRST_ROWS)
        self.requested = Columns(FIRST_ROWS)
        self.scored = Columns(FIRST_ROWS)  # requests as scoring sees them
        self.ports = Columns(FIRST_ROWS)  # how many pods took each host port, by `port_name`
        self.node_changes = ChangeLog()  # rows whose node itself changed
        self.load_changes = ChangeLog()  # rows whose node or load changed
        self.extent = 0  # rows from here on have never had a node
        self._rows: dict[str, int] = {}
        self._free = list(range(FIRST_ROWS - 1, -1, -1))
        self._charges: dict[Key, tuple[str, Pod]] = {}
        self._pods_on: dict[str, dict[Key, Pod]] = {}  # also for nodes not known yet
        self._ports_seen: dict[HostPort, None] = {}
        self._sweep_ports_at = FEW_COLUMNS
        self._censuses: list[PodObserver] = []

    def __len__(self) -> int:
        return len(self._rows)

    def follow(self, census: PodObserver) -> None:
        """Tell the census of every pod that comes and goes, beginning with those already here."""
        self._censuses.append(census)
        for row, pod in self.placed():
            census.count(pod, row, 1)

    def placed(self) -> Iterator[tuple[int, Pod]]:
        """Every pod on a known node, with its row."""
        for name, row in self._rows.items():
            for pod in self._pods_on.get(name, {}).values():
                yield row, pod

    def rows_changed_since(self, cursor: int) -> Iterable[int]:
        """The rows whose node itself changed, each once; all rows for a reader who never looked, or too long ago."""
        changes = self.node_changes.since(cursor) if cursor >= 0 else None
        return range(len(self.nodes)) if changes is None else dict.fromkeys(changes)

    def taken_ports(self) -> Iterable[HostPort]:
        """Every host port that some pod takes or took somewhere."""
        return self._ports_seen

    def row_of(self, name: str) -> int | None:
        return self._rows.get(name)

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
        known = row is not None
        if row is None:
            row = self._take_row(node.name)
        self.nodes[row] = node
        self.allocatable.put(row, node.allocatable)
        if not known:
            for pod in self._pods_on.get(node.name, {}).values():
                self._apply(row, pod, 1)
        self._mark(row)

    def drop(self, name: str) -> None:
        """The node is gone; pods charged to it stay on record in case it returns."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        self.nodes[row] = None
        self.alive[row] = False
        for columns in (self.allocatable, self.requested, self.scored, self.ports):
            columns.clear(row)
        for census in self._censuses:
            census.clear(row)
        self._free.append(row)
        self._mark(row)

    def draw(self, name: str) -> int:
        """A number that settles ties: the same for the same seed in every process, whatever came first."""
        return _draw(self._seed, name)

    def charge(self, pod: Pod, node: str) -> tuple[ClusterEvent, ...]:
        """The pod takes its requests on that node, and on no other. Returns what that may mean to others."""
        known = self._charges.get(pod.key)
        if known is not None and known[0] == node and _counts_alike(known[1], pod):
            self._keep(pod, node)
            return ()
        if known is not None:
            self.release(pod.key)
        self._keep(pod, node)
        row = self._rows.get(node)
        if row is not None:
            self._apply(row, pod, 1)
            self.load_changes.append(row)
        if known is None or (known[0] == node and known[1].shape == pod.shape):
            return (ClusterEvent.NEIGHBOURS_CHANGED,)
        return ClusterEvent.ROOM_FREED, ClusterEvent.NEIGHBOURS_CHANGED

    def _keep(self, pod: Pod, node: str) -> None:
        """The pod on record is the one seen last: nobody counts its priority, group or marks, but they may differ."""
        self._charges[pod.key] = (node, pod)
        self._pods_on.setdefault(node, {})[pod.key] = pod

    def release(self, pod: Key) -> bool:
        """Give back what the pod was charged; False when it was charged nothing."""
        charge = self._charges.pop(pod, None)
        if charge is None:
            return False
        node, charged = charge
        del self._pods_on[node][pod]
        if not self._pods_on[node]:
            del self._pods_on[node]
        row = self._rows.get(node)
        if row is not None:
            self._apply(row, charged, -1)
            self.load_changes.append(row)
        return True

    def charge_of(self, pod: Key) -> tuple[str, Pod] | None:
        """The node the pod is charged to, and the pod as it was charged."""
        return self._charges.get(pod)

    def pods_on(self, node: str) -> Iterable[Pod]:
        """The pods charged to the node, in no promised order."""
        return self._pods_on.get(node, {}).values()

    def overfull(self) -> set[int]:
        """The rows that pods request so much of that no array can hold the sum."""
        return self.requested.beyond() | self.scored.beyond()

    def shortage(self, name: str, shape: PodShape) -> str | None:
        """Which of the resources the shape asks for is charged beyond what the node has."""
        row = self._rows[name]
        short = self.requested.exceeded(row, shape.requests.items, self.allocatable)
        if short is None:
            return None
        return f"{short}: {self.requested.at(short, row)} charged, {self.allocatable.at(short, row)} there"

    def _apply(self, row: int, pod: Pod, sign: int) -> None:
        self.requested.add(row, pod.shape.requests.items, sign)
        self.requested.add(row, ONE_POD, sign)
        self.scored.add(row, pod.shape.scored_requests.items, sign)
        for port in pod.shape.ports:
            self.ports.add(row, ((port_name(port), 1),), sign)
            self._ports_seen[port] = None
            if len(self._ports_seen) > self._sweep_ports_at:
                self._ports_seen = {port: None for port in self._ports_seen if self.ports[port_name(port)].any()}
                self._sweep_ports_at = max(FEW_COLUMNS, 2 * len(self._ports_seen))
        for census in self._censuses:
            census.count(pod, row, sign)

    def _take_row(self, name: str) -> int:
        if not self._free:
            self._grow()
        row = self._rows[name] = self._free.pop()
        self.extent = max(self.extent, row + 1)
        self.alive[row] = True
        self.draws[row] = self.draw(name)
        return row

    def _grow(self) -> None:
        old = len(self.nodes)
        new = old + old // 4
        self.nodes.extend([None] * (new - old))
        self.alive = np.concatenate([self.alive, np.zeros(new - old, dtype=np.bool_)])
        self.draws = padded(self.draws, new)
        for columns in (self.allocatable, self.requested, self.scored, self.ports):
            columns.grow(new)
        for census in self._censuses:
            census.grow(new)
        self._free.extend(range(new - 1, old - 1, -1))

    def _mark(self, row: int) -> None:
        self.node_changes.append(row)
        self.load_changes.append(row)


def _counts_alike(old: Pod, new: Pod) -> bool:
    """Nothing changed that anyone counts: what it takes, what others' selectors see, whether it is going."""
    if old is new:
        return True
    return old.shape == new.shape and old.labels == new.labels and (old.deleted is None) == (new.deleted is None)


def port_name(port: HostPort) -> str:
    return f"{port.protocol}/{port.port}/{port.ip}"


def _draw(seed: int, name: str) -> int:
    """A number for the name, the same in every process, whatever the order in which nodes become known."""
    raw = f"{seed}/{name}".encode()
    return crc32(raw) << 31 | crc32(raw, 0x5EED) >> 1
