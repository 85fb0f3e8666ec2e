"""Room that is promised: pods that wait for a node nominated to them, seen by the pods that come after."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.placement.filters import ON_ROOM
from headgate.placement.plugins import Mask
from headgate.placement.table import PODS, NodeTable

REASON = "node(s) had room promised to pods of higher or equal priority"


class Nominations:
    """Keeps pods off room that a pod at least as important waits for. A pod's own nomination does not count."""

    name = "NominatedPods"
    wake_on = ON_ROOM

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._pods: dict[Key, Pod] = {}

    def __bool__(self) -> bool:
        return bool(self._pods)

    def put(self, pod: Pod) -> None:
        """The waiting pod has this nomination, or none."""
        if pod.nominated:
            self._pods[pod.key] = pod
        else:
            self._pods.pop(pod.key, None)

    def drop(self, key: Key) -> bool:
        """The pod waits no longer; True when that frees a promise."""
        return self._pods.pop(key, None) is not None

    def concerns(self, pod: Pod) -> bool:
        return any(self._before(pod))

    def demands(self, pod: Pod) -> Iterator[tuple[str, Mask]]:
        free: Mask = np.ones(len(self._nodes.nodes), dtype=np.bool_)
        promised: dict[str, list[Pod]] = {}
        for other in self._before(pod):
            promised.setdefault(other.nominated, []).append(other)
        for name, others in promised.items():
            row = self._nodes.row_of(name)
            if row is not None:
                free[row] = self._room_beside(pod, others, row)
        yield REASON, free

    def hopeless(self, pod: Pod) -> Mask | bool:
        return False

    def _before(self, pod: Pod) -> Iterator[Pod]:
        for other in self._pods.values():
            if other.priority >= pod.priority and other.uid != pod.uid:
                yield other

    def _room_beside(self, pod: Pod, others: list[Pod], row: int) -> bool:
        """Whether the pod and all of the others fit the row together, for what the pod asks for."""
        if self._nodes.requested[PODS][row] + 1 + len(others) > self._nodes.allocatable[PODS][row]:
            return False
        for resource, amount in pod.shape.requests.items:
            promised = sum(other.shape.requests[resource] for other in others)
            if self._nodes.requested[resource][row] + promised + amount > self._nodes.allocatable[resource][row]:
                return False
        taken = [port for other in others for port in other.shape.ports]
        return not any(port.clashes_with(other) for port in pod.shape.ports for other in taken)
