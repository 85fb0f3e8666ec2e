"""What a placement rule looks like: it refuses with a reason, or it scores. It never acts.

A rule that looks at the load of nodes is written once for one row and for many: `rows` is an index, a slice or an
array, and arithmetic on what the columns give for it means the same for each. `already` is how many more pods of the
same shape are imagined on each row, so that a run of equal pods can be placed without asking anew for every one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from headgate.model.cluster_events import ClusterEvent
from headgate.model.node import Node
from headgate.model.pod import Pod, PodShape
from headgate.placement.table import Amounts, NodeTable

Mask = NDArray[np.bool_]
Rows = Any
"""One row's index, a slice of rows, or an array of row indexes."""
Each = Any
"""One number or truth value for one row, an array of them for many."""
MANY = 1 << 30
"""More pods than any row has capacity for."""
NO_DOMAINS: NDArray[np.intp] = np.zeros(0, dtype=np.intp)


class NamedPlugin(Protocol):
    @property
    def name(self) -> str: ...


class Refuser(NamedPlugin, Protocol):
    @property
    def wake_on(self) -> frozenset[ClusterEvent]:
        """Happenings that could change a refusal; nothing else retries the pod."""


class NodeFilter(Refuser, Protocol):
    """Keeps pods off nodes for what the node itself is, so nobody's leaving helps. Verdicts are kept per `demand`."""

    def demand(self, shape: PodShape) -> Hashable | None:
        """The part of the shape this rule reads; None when it lets every node pass."""

    def refusal(self, shape: PodShape, node: Node) -> str | None:
        """Why not here; None when the node will do."""


@runtime_checkable
class LabelFilter(NodeFilter, Protocol):
    """A node filter that refuses every node without certain labels, so that only the others need be asked about."""

    @property
    def reason(self) -> str:
        """Why not on a node without them."""

    def needed(self, shape: PodShape) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The keys a node must have, each with the values of which it must have one."""


class LoadFilter(Refuser, Protocol):
    """Keeps pods off nodes for what already runs on that very node."""

    def demands(self, shape: PodShape, nodes: NodeTable, rows: Rows, already: Each) -> Iterator[tuple[str, Each]]:
        """Everything that must hold: the reason given where it does not, and where it does."""

    def hopeless(self, shape: PodShape, nodes: NodeTable) -> Mask | bool:
        """The rows it would refuse even if every pod there left."""


class SkewLimit(Struct, frozen=True):
    """A domain may get one more while it is no more than `ahead` above the emptiest of those compared, or above 0."""

    ids: Amounts  # by row, the number of its domain
    counted: Mask  # by row, whether a pod there is counted
    totals: Amounts  # by domain number
    compared: NDArray[np.intp]  # numbers of domains
    ahead: int


class Foresight(Struct, frozen=True):
    """What a rule will say of such pods, if nobody else comes or goes meanwhile."""

    most: Amounts  # by row, how many of them it may get at all
    limits: tuple[SkewLimit, ...] = ()


class PeerFilter(Refuser, Protocol):
    """Keeps pods off nodes for what runs near them."""

    def concerns(self, pod: Pod) -> bool:
        """False when this rule lets the pod pass everywhere."""

    def demands(self, pod: Pod) -> Iterator[tuple[str, Mask]]:
        """As for LoadFilter, for every row of the table."""

    def admits(self, pod: Pod, row: int) -> bool:
        """Whether everything it demands holds on this one row."""

    def hopeless(self, pod: Pod) -> Mask | bool:
        """As for LoadFilter: what no eviction would cure."""

    def foresee(self, pod: Pod) -> Foresight | None:
        """What it will demand for pods exactly like this one as they come one by one; None: ask it each time."""


class RowScore(NamedPlugin, Protocol):
    """Prefers nodes for what they are and run, each judged by itself."""

    def scores(self, shape: PodShape, nodes: NodeTable, rows: Rows, already: Each) -> Each:
        """0 to 100 for each row."""


class FieldScore(NamedPlugin, Protocol):
    """Prefers nodes by comparison with the other nodes that will do."""

    def compares(self, pod: Pod) -> bool:
        """False when all nodes are alike to it."""

    def scores(self, pod: Pod, fit: NDArray[np.intp]) -> Amounts | None:
        """0 to 100 for each of the rows that will do; None when all are alike to it."""
