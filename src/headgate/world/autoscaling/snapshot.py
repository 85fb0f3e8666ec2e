"""The cluster as an autoscaler knows and simulates it: nodes with pods, upcoming nodes, nodes that might be added.

What it knows are nodes and pods as the API server shows them, and the instances it has ordered. Whether a pod fits is
decided by the filters of kube-scheduler, as both autoscalers do. Volumes are not considered.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from headgate.model.effects import Create, Delete, Effect
from headgate.model.events import Event, Gone, Observed, Outcome, WriteError
from headgate.model.keys import Key, Kind, Target
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
from headgate.world.autoscaling.cloud_provider import CloudProvider, Instance, NodeGroup, named, registration_timer

NodeOf = Callable[[Pod], str]
"""The node whose capacity a pod takes in a snapshot; an empty string for none."""

MIRROR = "kubernetes.io/config.mirror"
UNSCHEDULABLE = "Unschedulable"
REACTION_TIME = 60.0  # seconds: what the Cluster Autoscaler promises for large clusters; Karpenter needs less


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


def _without_plans(pod: Pod) -> Pod:
    """The pod without its nomination, which no autoscaler follows when it looks for a node."""
    return replace(pod, nominated="") if pod.nominated else pod


class ClusterState:
    """Nodes and pods as observed, with upcoming nodes in the snapshot as if they were ready.

    Nodes that are not ready are left out of the snapshot; of a group, they count as upcoming.
    """

    def __init__(self, groups: Sequence[NodeGroup], node_of: NodeOf) -> None:
        self.cloud = CloudProvider(groups)
        self.snapshot = SchedulingSnapshot(node_of)
        self.waiting: dict[str, Pod] = {}  # by uid: pods on no node
        self.nodes: dict[str, Node] = {}
        self.changed = True  # since it was last reset

    def observe(self, event: Event, now: float) -> Instance | None:
        """Takes in the event; returns the instance whose node the API server refused, if that is what it says."""
        match event:
            case Observed(Pod() as pod):
                self._observe_pod(pod)
            case Observed(Node() as node):
                self._observe_node(node, now)
            case Gone(key, uid) if key.kind is Kind.NODE:
                self._lose_node(key.name, uid, now)
            case Gone(key, uid):
                self.waiting.pop(uid, None)
                self.snapshot.drop_pod(key)
                self.changed = True
            case Outcome(Create(key), WriteError()):
                return self._refused(key.name, now)
        return None

    def order(self, group: NodeGroup, pods: Sequence[Sequence[Pod]], now: float) -> list[Effect]:
        """Orders one instance for each entry of pods; they are upcoming from here on."""
        scale_up = self.cloud.order(group, pods, now)
        for instance in scale_up.instances:
            self.snapshot.put_node(instance.placeholder)
        return [registration_timer(scale_up)]

    def give_up(self, now: float) -> list[Instance]:
        """Removes instances that did not register in time, and returns them."""
        late = self.cloud.give_up(now)
        for instance in late:
            self.snapshot.drop_node(instance.name)
            self.changed = True
        return late

    def is_empty(self, instance: Instance) -> bool:
        """Whether its node runs nothing but pods that are bound to this very node."""
        return all(stays_with_node(pod) for pod in self.snapshot.pods_on(instance.name))

    def terminate(self, instance: Instance) -> Delete:
        return Delete(Target(self.nodes[instance.name].key, instance.uid))

    def _observe_pod(self, pod: Pod) -> None:
        if pod.node or pod.phase in ENDED:
            self.waiting.pop(pod.uid, None)
        else:
            self.waiting[pod.uid] = pod
        self.snapshot.put_pod(pod)
        self.changed = True

    def _observe_node(self, node: Node, now: float) -> None:
        self.cloud.observe(node, now)
        self.nodes[node.name] = node
        if node.ready:
            self.snapshot.put_node(node)
        elif (instance := self.cloud.get(node.name)) is not None:
            self.snapshot.put_node(instance.placeholder)
        else:
            self.snapshot.drop_node(node.name)
        self.changed = True

    def _lose_node(self, name: str, uid: str, now: float) -> None:
        known = self.nodes.get(name)
        if known is not None and known.uid == uid:
            del self.nodes[name]
            self.cloud.lose(name, uid, now)
            self.snapshot.drop_node(name)
            self.changed = True

    def _refused(self, name: str, now: float) -> Instance | None:
        instance = self.cloud.get(name)
        if instance is None or not instance.upcoming:
            return None
        self.cloud.remove(instance, now)
        if name not in self.nodes:
            self.snapshot.drop_node(name)
        self.changed = True
        return instance


def stays_with_node(pod: Pod) -> bool:
    """Pods that run on every node, or on this one only: no reason to add a node or to keep one."""
    return pod.of_daemon_set or MIRROR in pod.annotations
