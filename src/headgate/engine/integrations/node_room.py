"""How much room nodes really have: what is allocatable, less what the pods on them ask for, also those that leave."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import Enum, auto

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from headgate.lifecycle.debt import is_leaving
from headgate.model.happenings import Happening
from headgate.model.keys import Key
from headgate.model.node import Node
from headgate.model.pod import Pod, PodShape
from headgate.placement.columns import Amounts, Columns
from headgate.placement.filters import NODE_FILTERS, NodeAffinity
from headgate.placement.table import FIRST_ROWS, ONE_POD, NodeTable
from headgate.placement.verdicts import Verdicts

Wanted = Mapping[PodShape, int]
"""So many pods of each shape, in this order."""


class Seats(Enum):
    """What nodes say to pods that want to start."""

    THERE = auto()  # they have room for all
    SOON = auto()  # they will, once the pods that leave are gone
    NONE = auto()  # not even then
    UNKNOWN = auto()  # there are no nodes of that sort to be seen


class _Ready:
    """Nothing starts on a node that does not report."""

    name = "NodeReady"
    wake_on: frozenset[Happening] = frozenset()

    def demand(self, shape: PodShape) -> str:
        return self.name

    def refusal(self, shape: PodShape, node: Node) -> str | None:
        return None if node.ready else "node(s) were not ready"


class _Leaving:
    """How much of each node is taken by pods that were asked to leave and owe their room."""

    def __init__(self) -> None:
        self.taken = Columns(FIRST_ROWS)

    def count(self, pod: Pod, row: int, sign: int) -> None:
        if is_leaving(pod):
            self.taken.add(row, (*pod.shape.requests.items, *ONE_POD), sign)

    def clear(self, row: int) -> None:
        self.taken.clear(row)

    def grow(self, rows: int) -> None:
        self.taken.grow(rows)


class NodeRoom:
    """Nodes and what is on them, kept pod by pod. Pods are seated in thought only, where they fit tightest."""

    def __init__(self) -> None:
        self._table = NodeTable()
        self._leaving = _Leaving()
        self._table.follow(self._leaving)
        self._filters = [Verdicts(rule, self._table) for rule in (*NODE_FILTERS, _Ready())]
        self._sorts = Verdicts(NodeAffinity(), self._table)
        self._order = _Order(self._table)
        self._begun: dict[Hashable, _Free] = {}  # with all that comes before seated, until something changes
        self._begun_at = (-1, -1)

    def put_node(self, node: Node) -> bool:
        """Whether that could mean more room."""
        known = self._table.get(node.name)
        if known is not None and _means_the_same(known, node):
            return False
        self._table.put(node)
        return True

    def drop_node(self, key: Key, uid: str) -> None:
        known = self._table.get(key.name)
        if known is not None and known.uid == uid:
            self._table.drop(key.name)

    def put_pod(self, pod: Pod) -> bool:
        """Whether that left room somewhere."""
        if not pod.holds_room:
            return self._table.release(pod.key)
        return Happening.ROOM_FREED in self._table.charge(pod, pod.node)

    def is_another(self, key: Key, uid: str) -> bool:
        """Whether a pod of that name is on a node, and not this one."""
        charge = self._table.charge_of(key)
        return charge is not None and charge[1].uid != uid

    def drop_pod(self, key: Key) -> bool:
        return self._table.release(key)

    def seats(self, wanted: Wanted, before: Wanted, sorts: list[Mapping[str, str]]) -> Seats:
        """Whether the wanted pods could all run beside those that come before them and have no node yet.

        `sorts` are the labels of the sorts of nodes that are meant.
        """
        if not all(self._has_any(labels) for labels in sorts):
            return Seats.UNKNOWN
        if self._seats_all(wanted, self._free_after(before, None)):
            return Seats.THERE
        once_gone = self._free_after(before, self._leaving.taken)
        return Seats.SOON if self._seats_all(wanted, once_gone) else Seats.NONE

    def _has_any(self, labels: Mapping[str, str]) -> bool:
        shape = PodShape(node_selector=tuple(sorted(labels.items())))
        passing = self._sorts.passes(shape, slice(None))
        return bool(self._table.alive.any() if passing is None else (self._table.alive & passing).any())

    def _free_after(self, before: Wanted, given_back: Columns | None) -> _Free:
        """What is free when all that comes before has its seats; worked out once for all who ask in between."""
        version = self._table.node_changes.end, self._table.load_changes.end
        if version != self._begun_at:
            self._begun, self._begun_at = {}, version
        asked = (given_back is None, tuple(before.items()))
        free = self._begun.get(asked)
        if free is None:
            free = self._begun[asked] = _Free(self._table, given_back)
            for shape, count in before.items():
                rows = self._rows_for(shape)
                free.claim(shape, count - free.seat(shape, count, rows), rows)
        return free.copy()

    def _seats_all(self, wanted: Wanted, free: _Free) -> bool:
        return all(free.seat(shape, count, self._rows_for(shape)) == count for shape, count in wanted.items())

    def _rows_for(self, shape: PodShape) -> NDArray[np.intp]:
        fit = self._table.alive
        for verdicts in self._filters:
            passing = verdicts.passes(shape, slice(None))
            fit = fit if passing is None else fit & passing
        order = self._order.rows()
        return order[fit[order]]


class _Order:
    """All rows in an order that is the same in every process."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._rows = np.zeros(0, dtype=np.intp)
        self._as_of = -1

    def rows(self) -> NDArray[np.intp]:
        if self._as_of != self._table.node_changes.end:
            self._rows = np.argsort(self._table.draws, kind="stable")
            self._as_of = self._table.node_changes.end
        return self._rows


class _Free:
    """What is free on each row as pods are seated, one array a resource, made when it is first asked for."""

    def __init__(self, table: NodeTable, given_back: Columns | None = None) -> None:
        self._table = table
        self._given_back = given_back
        self._free: dict[str, Amounts] = {}

    def copy(self) -> _Free:
        other = _Free(self._table, self._given_back)
        other._free = {name: free.copy() for name, free in self._free.items()}
        return other

    def seat(self, shape: PodShape, count: int, rows: NDArray[np.intp]) -> int:
        """Seats as many of the pods as these rows have room for, the fullest rows first; how many that were."""
        asked = (*shape.requests.items, *ONE_POD)
        room = self._room(asked, rows)
        seated = _tightest_first(count, room)
        for name, amount in asked:
            self._of(name)[rows] -= seated * amount
        return int(seated.sum())

    def claim(self, shape: PodShape, count: int, rows: NDArray[np.intp]) -> None:
        """What pods without a seat ask for is taken in pieces: they came first, and will get it as things move."""
        for name, amount in (*shape.requests.items, *ONE_POD) if count else ():
            free = self._of(name)
            free[rows] -= _tightest_first(count * amount, np.maximum(free[rows], 0))

    def _room(self, asked: tuple[tuple[str, int], ...], rows: NDArray[np.intp]) -> Amounts:
        """How many such pods each row has room for."""
        each = [self._of(name)[rows] // amount for name, amount in asked if amount]
        room: Amounts = np.maximum(np.minimum.reduce(each), 0)
        return room

    def _of(self, name: str) -> Amounts:
        free = self._free.get(name)
        if free is None:
            free = self._table.allocatable[name] - self._table.requested[name]
            if self._given_back is not None:
                free = free + self._given_back[name]
            self._free[name] = free
        return free


def _tightest_first(wanted: int, room: Amounts) -> Amounts:
    """How much of what is wanted each row gives, where the row with the least room is asked first."""
    some = np.flatnonzero(room)
    if wanted >= room[some].sum():
        return room
    order = some[np.argsort(room[some], kind="stable")]
    given = np.zeros_like(room)
    given[order] = np.clip(wanted - (np.cumsum(room[order]) - room[order]), 0, room[order])
    return given


def as_staying(pod: Pod) -> Pod:
    """The pod as one that nobody waits for."""
    return structs.replace(pod, deleted=None)


def _means_the_same(old: Node, new: Node) -> bool:
    """Nothing changed that decides what the node has room for."""
    return structs.replace(old, version="", annotations={}, images={}) == structs.replace(
        new, version="", annotations={}, images={}
    )
