"""The cluster as an autoscaler simulates it: nodes with their pods, upcoming nodes, and nodes that might be added.

Whether a pod fits is decided by the filters of kube-scheduler, as both autoscalers do. Volumes are not considered.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from headgate.model.keys import Key
from headgate.model.node import Node
from headgate.model.pod import ENDED, Pod
from headgate.placement.affinity import InterPodAffinity
from headgate.placement.filters import LOAD_FILTERS, NODE_FILTERS, NodeAffinity, TaintToleration, Verdicts
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import Placement, Placer, Rules
from headgate.placement.ranking import RowRules
from headgate.placement.spreading import PodTopologySpread
from headgate.placement.table import NodeTable
from headgate.placement.trial import PlacementTrial
from headgate.world.nodes import HOSTNAME

NodeOf = Callable[[Pod], str]
"""The node whose capacity a pod takes in a snapshot; an empty string for none."""


class SchedulingSnapshot:
    """Nodes and the pods charged to them, kept in line with what is observed. What is tried in it is taken back."""

    def __init__(self, node_of: NodeOf) -> None:
        self._node_of = node_of
        self._nodes = NodeTable()
        neighbours = Neighbours(self._nodes)
        affinity, taints = Verdicts(NodeAffinity(), self._nodes), Verdicts(TaintToleration(), self._nodes)
        peers = (PodTopologySpread(neighbours, affinity, taints), InterPodAffinity(neighbours))
        filters = tuple(Verdicts(rule, self._nodes) for rule in NODE_FILTERS)
        self._placer = Placer(Rules(RowRules(self._nodes, filters, LOAD_FILTERS, ()), neighbours, peers))

    def put_node(self, node: Node) -> None:
        self._nodes.put(node)

    def drop_node(self, name: str) -> None:
        self._nodes.drop(name)

    def put_pod(self, pod: Pod) -> None:
        """Charges the pod to the node it takes capacity of, if any."""
        node = "" if pod.phase in ENDED else self._node_of(pod)
        if node:
            self._nodes.charge(pod, node)
        else:
            self._nodes.release(pod.key)

    def drop_pod(self, pod: Key) -> None:
        self._nodes.release(pod)

    def pods_on(self, node: str) -> list[Pod]:
        return list(self._nodes.pods_on(node))

    @contextmanager
    def simulation(self) -> Iterator[Simulation]:
        """Nodes and pods added to the simulation are gone with it."""
        added: list[str] = []
        try:
            with PlacementTrial(self._nodes) as trial:
                yield Simulation(self._nodes, self._placer, trial, added)
        finally:
            for name in added:
                self._nodes.drop(name)


class Simulation:
    """What if these pods came, and these nodes? Each pod is placed beside those placed before it."""

    def __init__(self, nodes: NodeTable, placer: Placer, trial: PlacementTrial, added: list[str]) -> None:
        self._nodes, self._placer, self._trial, self._added = nodes, placer, trial, added
        self._refused: set[Hashable] = set()  # equivalence classes without a node; more pods do not give them one

    def place(self, pod: Pod, hint: str = "") -> str:
        """The node that takes the pod from here on, the hinted one if it can; an empty string when none fits."""
        pod = _without_plans(pod)
        if hint and self.fits(pod, hint):
            self._trial.take(pod, hint)
            return hint
        equivalence = self._placer.equivalence_class(pod)
        if equivalence in self._refused:
            return ""
        found = self._placer.place(pod)
        if not isinstance(found, Placement):
            peers = pod.shape.peers
            if peers is None or not (peers.affinity or peers.hard_spread):  # those may be met by pods placed later
                self._refused.add(equivalence)
            return ""
        self._trial.take(pod, found.node)
        return found.node

    def fits(self, pod: Pod, node: str) -> bool:
        row = self._nodes.row_of(node)
        return row is not None and self._placer.fits(_without_plans(pod), row)

    def take(self, pod: Pod, node: str) -> None:
        self._trial.take(_without_plans(pod), node)

    def release(self, pod: Key) -> None:
        self._trial.leave(pod)

    def add_node(self, template: Node, name: str) -> str:
        """A node like the template, of that name, from here on. More nodes may take what was refused."""
        self._nodes.put(named(template, name))
        self._added.append(name)
        self._refused.clear()
        return name

    def remove_node(self, name: str) -> None:
        """Removes a node that was added, and the pods placed there."""
        for pod in list(self._nodes.pods_on(name)):
            self._trial.leave(pod.key)
        self._nodes.drop(name)
        self._added.remove(name)


class PackedNode(Struct, frozen=True):
    """A node that would be added, and the pods it would be added for."""

    name: str
    pods: tuple[Pod, ...]


def pack(simulation: Simulation, template: Node, pods: Sequence[Pod], most: int, prefix: str) -> list[PackedNode]:
    """First fit: each pod goes to the first added node that takes it, else to one more, of at most `most`.

    The nodes stay in the simulation. Pods that an empty node does not take are left out.
    """
    packed: list[tuple[str, list[Pod]]] = []
    first: dict[Hashable, int] = {}  # by pods that are alike, the first node that may take one more
    for pod in pods:
        alike: Hashable = pod.shape if pod.shape.peers is None else pod.uid
        at = first.get(alike, 0)
        while at < len(packed) and not simulation.fits(pod, packed[at][0]):
            at += 1
        first[alike] = at
        if at >= len(packed):
            name = f"{prefix}{at}"
            if at >= most or not _added_for(simulation, template, name, pod):
                first[alike] = most
                continue
            packed.append((name, []))
        simulation.take(pod, packed[at][0])
        packed[at][1].append(pod)
    return [PackedNode(name, tuple(there)) for name, there in packed]


def _added_for(simulation: Simulation, template: Node, name: str, pod: Pod) -> bool:
    """Adds the node, unless even empty it does not take the pod."""
    simulation.add_node(template, name)
    if simulation.fits(pod, name):
        return True
    simulation.remove_node(name)
    return False


def named(template: Node, name: str) -> Node:
    """The node that registers under that name."""
    key = replace(template.key, name=name)
    return replace(template, key=key, uid=name, labels={**template.labels, HOSTNAME: name})


def _without_plans(pod: Pod) -> Pod:
    """The pod without its nomination, which no autoscaler follows when it looks for a node."""
    return replace(pod, nominated="") if pod.nominated else pod
