"""What a placement rule looks like: it refuses with a reason, or it scores. It never acts."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headgate.model.happenings import Happening
from headgate.model.node import Node
from headgate.model.pod import PodShape
from headgate.placement.changes import Rows
from headgate.placement.table import Amounts, NodeTable

Mask = NDArray[np.bool_]


class NodeFilter(Protocol):
    """Keeps pods off nodes for what the node itself is. Verdicts are kept per `demand` and node."""

    @property
    def name(self) -> str: ...

    @property
    def wake_on(self) -> frozenset[Happening]:
        """Happenings that could change a refusal; nothing else retries the pod."""

    def demand(self, shape: PodShape) -> Hashable | None:
        """The part of the shape this rule reads; None when it lets every node pass."""

    def refusal(self, shape: PodShape, node: Node) -> str | None:
        """Why not here; None when the node will do."""


class LoadFilter(Protocol):
    """Keeps pods off nodes for what already runs there; works on many rows at once."""

    @property
    def name(self) -> str: ...

    @property
    def wake_on(self) -> frozenset[Happening]: ...

    def refusals(self, shape: PodShape, nodes: NodeTable, rows: Rows) -> Iterator[tuple[str, Mask]]:
        """Every reason there can be, with the rows it holds for; a row with none will do."""


class Score(Protocol):
    """Prefers some of the nodes that will do."""

    @property
    def name(self) -> str: ...

    def scores(self, shape: PodShape, nodes: NodeTable, rows: Rows) -> Amounts:
        """0 to 100 for each row."""
