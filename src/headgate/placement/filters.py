"""Where a pod cannot run for what a node is or runs, and why. Names and reasons are kube-scheduler's.

What filters say of a node itself is a verdict, kept per demand and node and brought up to date for changed nodes only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import reduce
from operator import and_

import numpy as np

from headgate.model.cluster_events import ClusterEvent
from headgate.model.node import Node, Taint, TaintEffect
from headgate.model.pod import PodShape
from headgate.model.selectors import Operator
from headgate.placement.domains import Domains
from headgate.placement.plugins import Each, LabelFilter, LoadFilter, Mask, NodeFilter, Rows
from headgate.placement.table import PODS, Amounts, NodeTable, padded, port_name, times

ON_NODES = frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.NODE_CHANGED})
ON_ROOM = frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.NODE_CHANGED, ClusterEvent.ROOM_FREED})
CORDONED = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)

KEPT_DEMANDS = 1024
PASSES = 0


class NodeName:
    name = "NodeName"
    wake_on = frozenset({ClusterEvent.NODE_ADDED})

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
        taint = untolerated_taint(shape, node)
        return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}" if taint else None


def untolerated_taint(shape: PodShape, node: Node) -> Taint | None:
    """The first taint that keeps the pod off."""
    for taint in node.taints:
        if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE and not tolerated(taint, shape):
            return taint
    return None


def tolerated(taint: Taint, shape: PodShape) -> bool:
    return any(toleration.tolerates(taint) for toleration in shape.tolerations)


class NodeAffinity:
    """The node selector holds, and one of the required terms if there are any."""

    name = "NodeAffinity"
    wake_on = ON_NODES
    reason = "node(s) didn't match Pod's node affinity/selector"

    def demand(self, shape: PodShape) -> Hashable | None:
        if not shape.node_selector and shape.required_terms is None:
            return None
        return shape.node_selector, shape.required_terms

    def refusal(self, shape: PodShape, node: Node) -> str | None:
        return None if chosen_by_affinity(shape, node) else self.reason

    def needed(self, shape: PodShape) -> Iterator[tuple[str, tuple[str, ...]]]:
        """What the selector says; and the terms, where there is only one to choose from."""
        for key, value in shape.node_selector:
            yield key, (value,)
        only = shape.required_terms[0] if shape.required_terms and len(shape.required_terms) == 1 else None
        for part in only.expressions if only is not None else ():
            if part.operator is Operator.IN:
                yield part.key, part.values


def chosen_by_affinity(shape: PodShape, node: Node) -> bool:
    if not all(node.labels.get(key) == value for key, value in shape.node_selector):
        return False
    if shape.required_terms is None:
        return True
    return any(term.matches(node.name, node.labels) for term in shape.required_terms)


class NodePorts:
    """None of the host ports the pod asks for is taken; an address clashes with itself and with every address."""

    name = "NodePorts"
    wake_on = ON_ROOM

    def demands(self, shape: PodShape, nodes: NodeTable, rows: Rows, already: Each) -> Iterator[tuple[str, Each]]:
        if not shape.ports:
            return
        taken: Each = already
        for port in nodes.taken_ports():
            if any(port.clashes_with(wanted) for wanted in shape.ports):
                taken = taken + nodes.ports.at(port_name(port), rows)
        yield "node(s) didn't have free ports for the requested pod ports", nodes.alive[rows] & (taken == 0)

    def hopeless(self, shape: PodShape, nodes: NodeTable) -> Mask | bool:
        return False


class NodeResourcesFit:
    """Everything the pod asks for is free, and one more pod may run."""

    name = "NodeResourcesFit"
    wake_on = ON_ROOM

    def demands(self, shape: PodShape, nodes: NodeTable, rows: Rows, already: Each) -> Iterator[tuple[str, Each]]:
        yield "Too many pods", nodes.requested.at(PODS, rows) + already < nodes.allocatable.at(PODS, rows)
        for resource, amount in shape.requests.items:
            taken = nodes.requested.at(resource, rows) + times(amount, already + 1)
            yield f"Insufficient {resource}", (taken <= nodes.allocatable.at(resource, rows)) | (amount == 0)

    def hopeless(self, shape: PodShape, nodes: NodeTable) -> Mask | bool:
        """The whole node would be too small."""
        small: Mask = nodes.allocatable[PODS] < 1
        for resource, amount in shape.requests.items:
            small = small | (nodes.allocatable[resource] < amount)
        return small


NODE_FILTERS: tuple[NodeFilter, ...] = (NodeName(), NodeUnschedulable(), TaintToleration(), NodeAffinity())
LOAD_FILTERS: tuple[LoadFilter, ...] = (NodePorts(), NodeResourcesFit())


class Verdict:
    """One filter's answer to one demand: a reason code for each row, 0 where the node passes."""

    def __init__(self) -> None:
        self.codes: Amounts = np.zeros(0, dtype=np.int64)
        self.reasons: list[str] = [""]  # by code
        self.everywhere = False  # every node passes
        self.cursor = -1

    def code_of(self, reason: str | None) -> int:
        if reason is None:
            return PASSES
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason)


class Verdicts:
    def __init__(self, rule: NodeFilter, nodes: NodeTable) -> None:
        self.rule = rule
        self._nodes = nodes
        self._labels = Domains(nodes)
        self._by_demand: dict[Hashable, Verdict] = {}

    def passes(self, shape: PodShape, rows: Rows) -> Each | None:
        """Where the filter lets the pod pass; None for everywhere."""
        verdict = self._current(shape)
        return None if verdict is None or verdict.everywhere else verdict.codes[rows] == PASSES

    def demands(self, shape: PodShape, rows: Rows) -> Iterator[tuple[str, Mask]]:
        """Each reason there is for a refusal, and where it does not apply."""
        verdict = self._current(shape)
        if verdict is None:
            return
        for code, reason in enumerate(verdict.reasons[1:], start=1):
            yield reason, verdict.codes[rows] != code

    def _current(self, shape: PodShape) -> Verdict | None:
        demand = self.rule.demand(shape)
        if demand is None:
            return None
        verdict = self._by_demand.get(demand)
        if verdict is None:
            verdict = self._by_demand[demand] = Verdict()
            self._forget_oldest()
        if verdict.cursor != self._nodes.node_changes.end:
            self._refresh(verdict, shape)
        return verdict

    def _refresh(self, verdict: Verdict, shape: PodShape) -> None:
        verdict.codes = padded(verdict.codes, len(self._nodes.nodes))
        for row in self._worth_asking(verdict, shape):
            node = self._nodes.nodes[row]
            verdict.codes[row] = PASSES if node is None else verdict.code_of(self.rule.refusal(shape, node))
        verdict.cursor = self._nodes.node_changes.end
        verdict.everywhere = not verdict.codes.any()

    def _worth_asking(self, verdict: Verdict, shape: PodShape) -> Iterable[int]:
        """The rows that changed; of a demand never heard before those with the labels, all others being refused."""
        if verdict.cursor >= 0 or not isinstance(self.rule, LabelFilter):
            return self._nodes.rows_changed_since(verdict.cursor)
        having = [self._labels.of(key).having(values) for key, values in self.rule.needed(shape)]
        asked: Mask = reduce(and_, having, self._nodes.alive)
        verdict.codes = (self._nodes.alive & ~asked) * verdict.code_of(self.rule.reason)
        rows: list[int] = np.flatnonzero(asked).tolist()
        return rows

    def _forget_oldest(self) -> None:
        if len(self._by_demand) > KEPT_DEMANDS:
            del self._by_demand[next(iter(self._by_demand))]
