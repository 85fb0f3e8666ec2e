"""Room that is promised: pods that wait for a node nominated to them, seen by the pods that come after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.placement.filters import ON_ROOM
from headgate.placement.plugins import MANY, Each, Foresight, Mask, Rows
from headgate.placement.table import LARGEST_SUM, ONE_POD, PODS, Amounts, Columns, NodeTable

REASON = "node(s) had capacity reserved for nominated pods of higher or equal priority"


class NominationLevel(Struct):
    """What is promised to pods of one priority, by row."""

    amounts: Columns
    pods: int = 0


class Nominations:
    """Reserves the capacity a nominated pod waits for against pods that are not more important.

    Not counted is what would count twice or against itself: a pod's own nomination; that of a pod charged to a node,
    be it only in a trial, for it has its capacity there; and while a group is placed as one, those of all its members
    (`set_aside`), which stand to the group as its own nomination stands to a pod. A member that is placed by itself
    respects the nominations of the others like anybody's.
    """

    name = "NominatedPods"
    wake_on = ON_ROOM

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self.pods: dict[Key, Pod] = {}  # that wait, and have a nomination
        self._aside: set[Key] = set()
        self._counted: dict[Key, Pod] = {}
        self._on: dict[str, dict[Key, Pod]] = {}  # those counted, by node
        self._levels: dict[int, NominationLevel] = {}  # those counted, by priority
        self._cursor = -1
        self.changes = 0  # grows with every promise made, taken back or changed
        nodes.follow(self)

    def __bool__(self) -> bool:
        return bool(self._counted)

    def __contains__(self, pod: Key) -> bool:
        """Whether a waiting pod is nominated to a node, or was decided to be."""
        return pod in self.pods

    def put(self, pod: Pod) -> bool:
        """The waiting pod has this nomination, or none; True when that may free a promise made to it before."""
        known = self.pods.get(pod.key)
        if known is None and not pod.nominated:
            return False
        if known is not None and _promises_the_same(known, pod):
            return False
        freed = self.drop(pod.key)
        if pod.nominated:
            self.changes += 1
            self.pods[pod.key] = pod
            self._settle(pod.key)
        return freed

    def drop(self, key: Key) -> bool:
        """The pod waits no longer; True when that frees a promise."""
        if key not in self.pods:
            return False
        if key in self._counted:
            self._discount(key)
        del self.pods[key]
        self.changes += 1
        return True

    @contextmanager
    def set_aside(self, pods: Iterable[Pod]) -> Iterator[None]:
        """For as long as the block lasts, the nominations of these pods keep nobody off."""
        aside = [pod.key for pod in pods if pod.key in self.pods and pod.key not in self._aside] if self.pods else []
        self._aside.update(aside)
        self._settle(*aside)
        try:
            yield
        finally:
            self._aside.difference_update(aside)
            self._settle(*aside)

    def lower_on(self, nodes: Iterable[str], priority: int) -> list[Pod]:
        """The pods of lower priority nominated to these nodes: node by node in the given order, by key."""
        found: list[Pod] = []
        for name in dict.fromkeys(nodes) if self._on else ():
            here = self._on.get(name, {}).values()
            found += sorted((pod for pod in here if pod.priority < priority), key=lambda pod: pod.key)
        return found

    # as a rule of placement

    def concerns(self, pod: Pod) -> bool:
        if not self._levels:
            return False
        before = sum(level.pods for priority, level in self._levels.items() if priority >= pod.priority)
        return before > (self._own(pod) is not None)

    def demands(self, pod: Pod) -> Iterator[tuple[str, Mask]]:
        free: Mask = np.ones(len(self._nodes.nodes), dtype=np.bool_)
        rows, more = self.capacity_beside(pod)
        free[rows] = more > 0
        yield REASON, free

    def admits(self, pod: Pod, row: int) -> bool:
        self._refresh()
        if not self.promised(pod, PODS, row):
            return True
        return bool(self._more(pod, row) > 0) and not self._port_promised(pod, row)

    def hopeless(self, pod: Pod) -> Mask | bool:
        return False

    def foresee(self, pod: Pod) -> Foresight | None:
        """Pods like this one do not use what was nominated before they came."""
        most: Amounts = np.full(len(self._nodes.nodes), MANY)
        rows, more = self.capacity_beside(pod)
        most[rows] = more
        return Foresight(most)

    def capacity_beside(self, pod: Pod) -> tuple[NDArray[np.intp], Amounts]:
        """The rows with promises this pod must respect, and how many pods like it each can take beside them."""
        self._refresh()
        rows = np.flatnonzero(self.promised(pod, PODS, slice(0, len(self._nodes.nodes))))
        more: Amounts = self._more(pod, rows)
        if pod.shape.ports:
            more = more * np.array([not self._port_promised(pod, row) for row in rows.tolist()], dtype=np.int64)
        return rows, more

    # as the table's census

    def count(self, pod: Pod, row: int, sign: int) -> None:
        if self.pods and pod.key in self.pods:
            self._settle(pod.key)

    def clear(self, row: int) -> None:
        """The node is gone, which `node_changes` tells as well."""

    def grow(self, rows: int) -> None:
        for level in self._levels.values():
            level.amounts.grow(rows)

    def _own(self, pod: Pod) -> Pod | None:
        """The pod's own nomination, where it is among those that pods like it must respect."""
        own = self._counted.get(pod.key)
        return own if own is not None and own.uid == pod.uid and own.priority >= pod.priority else None

    def _more(self, pod: Pod, rows: Rows) -> Each:
        """How many pods like this one fit beside what is promised, for what the pod asks for; none: 0 or less."""
        more = self._free(pod, PODS, rows)
        for resource, amount in pod.shape.requests.items:
            if amount:
                more = np.minimum(more, self._free(pod, resource, rows) // amount)
        return more

    def _free(self, pod: Pod, resource: str, rows: Rows) -> Each:
        there, taken = self._nodes.allocatable.at(resource, rows), self._nodes.requested.at(resource, rows)
        return there - taken - self.promised(pod, resource, rows)

    def promised(self, pod: Pod, resource: str, rows: Rows) -> Each:
        """How much of each row is promised to pods at least as important as this one, its own promise aside."""
        promised: Each = self._nodes.draws[rows] * 0
        for priority, level in self._levels.items():
            if priority >= pod.priority:
                promised = np.minimum(promised + level.amounts.at(resource, rows), LARGEST_SUM)
        own = self._own(pod)
        at = self._nodes.row_of(own.nominated) if own is not None else None
        if own is not None and at is not None:
            here = np.arange(len(self._nodes.nodes))[rows] == at
            promised = promised - here * (1 if resource == PODS else own.shape.requests[resource])
        return promised

    def _port_promised(self, pod: Pod, row: int) -> bool:
        here = self._on.get(self._nodes.name_at(row), {}).values()
        others = [other for other in here if other.priority >= pod.priority and other.uid != pod.uid]
        taken = [port for other in others for port in other.shape.ports]
        return any(port.clashes_with(other) for port in pod.shape.ports for other in taken)

    # which of them count

    def _settle(self, *keys: Key) -> None:
        for key in keys:
            counts = key in self.pods and key not in self._aside and self._nodes.charge_of(key) is None
            if counts and key not in self._counted:
                self._count(self.pods[key])
            elif not counts and key in self._counted:
                self._discount(key)

    def _count(self, pod: Pod) -> None:
        level = self._levels.setdefault(pod.priority, NominationLevel(Columns(len(self._nodes.nodes))))
        level.pods += 1
        self._counted[pod.key] = pod
        self._on.setdefault(pod.nominated, {})[pod.key] = pod
        self._add(pod, self._nodes.row_of(pod.nominated), 1)

    def _discount(self, key: Key) -> None:
        pod = self._counted.pop(key)
        del self._on[pod.nominated][key]
        if not self._on[pod.nominated]:
            del self._on[pod.nominated]
        self._add(pod, self._nodes.row_of(pod.nominated), -1)
        self._levels[pod.priority].pods -= 1
        if not self._levels[pod.priority].pods:
            del self._levels[pod.priority]

    def _add(self, pod: Pod, row: int | None, sign: int) -> None:
        if row is not None:
            self._levels[pod.priority].amounts.add(row, (*pod.shape.requests.items, ONE_POD), sign)

    def _refresh(self) -> None:
        """Take in which node is at which row now: what is promised there is added up anew."""
        if self._cursor == self._nodes.node_changes.end:
            return
        for row in self._nodes.rows_changed_since(self._cursor) if self._levels else ():
            for level in self._levels.values():
                level.amounts.clear(row)
            node = self._nodes.nodes[row]
            for pod in self._on.get(node.name, {}).values() if node is not None else ():
                self._add(pod, row, 1)
        self._cursor = self._nodes.node_changes.end


def _promises_the_same(known: Pod, pod: Pod) -> bool:
    same_nomination = known.uid == pod.uid and known.nominated == pod.nominated
    return same_nomination and known.priority == pod.priority and known.shape == pod.shape
