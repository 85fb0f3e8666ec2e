"""All nodes as arrays, one row a node, and which pod takes how much of which row.

Amounts are columns, one array a name, so that a rule reads one resource of all nodes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key
from headgate.model.node import HostPort, Node
from headgate.model.pod import Pod, PodShape

Amounts = NDArray[np.int64]
LARGEST_SUM = 2**60  # what a cell says of a larger sum; a few such cells can be added up in 64 bits
EXACT_IN_MILLIONS = LARGEST_SUM >> 20  # a million times this much is no larger sum
FEW_COLUMNS = 64  # names up to which nobody looks for columns of zeros

PODS = "pods"
ONE_POD = (PODS, 1)
FIRST_ROWS = 64


class Columns:
    """Exact amounts; a name nobody gave an amount yet is zero everywhere.

    A sum beyond LARGEST_SUM shows as LARGEST_SUM. The exact one is kept beside, so that taking away what was added
    leaves what was there before.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._columns: dict[str, Amounts] = {}
        self._beyond: dict[tuple[str, int], int] = {}  # the exact sums of cells that cannot hold theirs
        self._cells: dict[str, memoryview] = {}  # the same amounts, in which to change a single one is faster
        self._sweep_at = FEW_COLUMNS

    def __getitem__(self, name: str) -> Amounts:
        """The amounts of all rows, to be read only."""
        column = self._columns.get(name)
        if column is None:
            column = np.zeros(self._rows, dtype=np.int64)
            column.flags.writeable = False
        return column

    def at(self, name: str, rows: Any) -> Any:
        """The amounts of these rows; of one row a plain number, with which arithmetic is several times faster."""
        if type(rows) is int:
            try:
                return self._cells[name][rows]
            except KeyError:
                return 0
        return self[name][rows]

    def names(self) -> Iterable[str]:
        return self._columns.keys()

    def grow(self, rows: int) -> None:
        for name, column in self._columns.items():
            self.adopt(name, padded(column, rows))
        self._rows = rows

    def add(self, row: int, amounts: Iterable[tuple[str, int]], sign: int) -> None:
        known, beyond = self._cells, self._beyond
        for name, amount in amounts:
            try:
                cells = known[name]
            except KeyError:
                cells = self.open(name).data
            there = cells[row] + sign * amount
            if beyond or there >= LARGEST_SUM:
                self._put_exactly(name, row, beyond.get((name, row), cells[row]) + sign * amount)
            else:
                cells[row] = there

    def exceeded(self, row: int, amounts: Iterable[tuple[str, int]], most: Columns) -> str | None:
        """The first of these names of which the row has more here than there."""
        here, there = self._cells, most._cells
        for name, _ in amounts:
            if name in here and here[name][row] > (there[name][row] if name in there else 0):
                return name
        return None

    def beyond(self) -> set[int]:
        """The rows with a sum that its cell cannot hold."""
        return {row for _, row in self._beyond}

    def put(self, row: int, amounts: Iterable[tuple[str, int]]) -> None:
        self.clear(row)
        self.add(row, amounts, 1)

    def clear(self, row: int) -> None:
        for column in self._columns.values():
            column[row] = 0
        if self._beyond:
            self._beyond = {at: amount for at, amount in self._beyond.items() if at[1] != row}

    def _put_exactly(self, name: str, row: int, amount: int) -> None:
        self._cells[name][row] = min(amount, LARGEST_SUM)
        if amount >= LARGEST_SUM:
            self._beyond[name, row] = amount
        else:
            self._beyond.pop((name, row), None)

    def open(self, name: str) -> Amounts:
        """The amounts of all rows, to be changed. Users choose the names, so columns that are all zero are dropped."""
        if name in self._columns:
            return self._columns[name]
        if len(self._columns) >= self._sweep_at:
            for empty in [each for each, column in self._columns.items() if not column.any()]:
                del self._columns[empty], self._cells[empty]
            self._sweep_at = max(FEW_COLUMNS, 2 * len(self._columns))
        self.adopt(name, np.zeros(self._rows, dtype=np.int64))
        return self._columns[name]

    def adopt(self, name: str, column: Amounts) -> None:
        """These are the amounts of all rows from now on; the array is not copied."""
        self._columns[name], self._cells[name] = column, column.data


def padded(column: Amounts, rows: int) -> Amounts:
    """The same amounts, with zeros for the rows that are new."""
    if len(column) >= rows:
        return column
    return np.concatenate([column, np.zeros(rows - len(column), dtype=np.int64)])


def times(amount: Any, count: Any) -> Any:
    """So many times the amount, at most about LARGEST_SUM. Either may be an array; the amount is one of a request."""
    if type(amount) is not int:
        return amount * np.minimum(count, LARGEST_SUM // np.maximum(amount, 1))
    if amount <= EXACT_IN_MILLIONS:
        return amount * count
    most = LARGEST_SUM // amount
    return amount * (min(count, most) if type(count) is int else np.minimum(count, most))


KEPT_CHANGES = 1 << 16


class ChangeLog:
    """An endless list of changed rows of which the newest part is kept; readers hold a cursor into it."""

    def __init__(self) -> None:
        self.end = 0  # where the next change will stand
        self._rows: list[int] = []

    def append(self, row: int) -> None:
        self.end += 1
        rows = self._rows
        rows.append(row)
        if len(rows) > KEPT_CHANGES:
            del rows[: KEPT_CHANGES // 2]

    def since(self, cursor: int) -> list[int] | None:
        """The rows changed from `cursor` on, in order; None when that is too long ago to tell."""
        first = self.end - len(self._rows)
        return None if cursor < first else self._rows[cursor - first :]


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
        if known is not None:
            if known[0] == node and _counts_alike(known[1], pod):
                self._keep(pod, node)
                return ()
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
        key = pod.key
        self._charges[key] = (node, pod)
        self._pods_on.setdefault(node, {})[key] = pod

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
        shape = pod.shape
        self.requested.add(row, (*shape.requests.items, ONE_POD), sign)
        self.scored.add(row, shape.scored_requests.items, sign)
        for port in shape.ports:
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
