"""Where a pod cannot run, and why. Names and reasons are kube-scheduler's."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from headgate.model.happenings import Happening
from headgate.model.node import Node, Taint, TaintEffect
from headgate.model.pod import PodShape
from headgate.placement.changes import Rows
from headgate.placement.plugins import LoadFilter, Mask, NodeFilter
from headgate.placement.table import PODS, NodeTable

ON_NODES = frozenset({Happening.NODE_ADDED, Happening.NODE_CHANGED})
CORDONED = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)


class NodeName:
    name = "NodeName"
    wake_on = frozenset({Happening.NODE_ADDED})

    def demand(self, shape: PodShape) -> Hashable | None:
        return shape.node_name or None

    def refusal(self, shape: PodShape, node: Node) -> str | None:
        return None if shape.node_name == node.name else "node(s) didn't match the requested node name"


class NodeUnschedulable:
    name = "NodeUnschedulable"
    wake_on = ON_NODES

    def demand(self, shape: PodShape) -> Hashable | None:
        return shape.tolerations

    def refusal(self, shape: PodShape, node: Node) -> str | None:
        if not node.unschedulable or tolerated(CORDONED, shape):
            return None
        return "node(s) were unschedulable"


class TaintToleration:
    name = "TaintToleration"
    wake_on = ON_NODES

    def demand(self, shape: PodShape) -> Hashable | None:
        return shape.tolerations

    def refusal(self, shape: PodShape, node: Node) -> str | None:
        for taint in node.taints:
            if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE and not tolerated(taint, shape):
                return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        return None


def tolerated(taint: Taint, shape: PodShape) -> bool:
    return any(toleration.tolerates(taint) for toleration in shape.tolerations)


class NodeAffinity:
    """The node selector holds, and one of the required terms if there are any."""

    name = "NodeAffinity"
    wake_on = ON_NODES

    def demand(self, shape: PodShape) -> Hashable | None:
        if not shape.node_selector and shape.required_terms is None:
            return None
        return shape.node_selector, shape.required_terms

    def refusal(self, shape: PodShape, node: Node) -> str | None:
        selected = all(node.labels.get(key) == value for key, value in shape.node_selector)
        if selected and _meets_one(shape, node):
            return None
        return "node(s) didn't match Pod's node affinity/selector"


def _meets_one(shape: PodShape, node: Node) -> bool:
    if shape.required_terms is None:
        return True
    return any(term.matches(node.name, node.labels) for term in shape.required_terms)


class NodeResourcesFit:
    """Everything the pod asks for is free, and one more pod may run."""

    name = "NodeResourcesFit"
    wake_on = frozenset(Happening)

    def refusals(self, shape: PodShape, nodes: NodeTable, rows: Rows) -> Iterator[tuple[str, Mask]]:
        yield "Too many pods", nodes.requested[PODS][rows] + 1 > nodes.allocatable[PODS][rows]
        for resource, amount in shape.requests.items:
            free = nodes.allocatable[resource][rows] - nodes.requested[resource][rows]
            yield f"Insufficient {resource}", free < amount


NODE_FILTERS: tuple[NodeFilter, ...] = (NodeName(), NodeUnschedulable(), TaintToleration(), NodeAffinity())
LOAD_FILTERS: tuple[LoadFilter, ...] = (NodeResourcesFit(),)
