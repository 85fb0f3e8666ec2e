"""Where the pod's images are already: ImageLocality."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.model.pod import Pod
from headgate.placement.columns import Amounts, Columns
from headgate.placement.scores import TOP_SCORE
from headgate.placement.table import NodeTable

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
