"""Node lifecycle: the pods of a node that is gone are removed, as the pod garbage collector would."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.model.effects import Effect
from headgate.model.events import Event, Gone, Observed
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.pod import Pod
from headgate.world.endings import remove


class NodeLifecycle:
    """A pod bound to a node that never existed is left alone: its node may still come."""

    reads = (Kind.NODE, Kind.POD)

    def __init__(self) -> None:
        self._nodes: dict[str, bool] = {}  # every name ever seen, and whether it exists
        self._pods: dict[str, dict[str, Pod]] = {}  # by node, then by uid
        self._node_of: dict[str, str] = {}  # by pod uid

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        touched: dict[str, None] = {}
        for event in batch:
            match event:
                case Observed(Node() as node):
                    self._nodes[node.name] = True
                case Observed(Pod() as pod) if pod.node:
                    touched[self._note(pod)] = None
                case Gone(key, uid):
                    touched[self._leave(key, uid)] = None
        return [effect for node in touched if self._nodes.get(node) is False for effect in self._clear(node, now)]

    def _note(self, pod: Pod) -> str:
        self._pods.setdefault(pod.node, {})[pod.uid] = pod
        self._node_of[pod.uid] = pod.node
        return pod.node

    def _leave(self, key: Key, uid: str) -> str:
        """The node's name when a node left; a pod that left concerns nobody."""
        if key.kind is Kind.NODE:
            if key.name in self._nodes:
                self._nodes[key.name] = False
            return key.name
        node = self._node_of.pop(uid, "")
        self._pods.get(node, {}).pop(uid, None)
        return ""

    def _clear(self, node: str, now: float) -> list[Effect]:
        pods = self._pods.pop(node, {})
        return [effect for pod in pods.values() for effect in remove(pod, now, reason="NodeLost")]
