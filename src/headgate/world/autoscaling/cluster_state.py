"""What an autoscaler knows: nodes and pods as the API server shows them, and the instances it has ordered."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.model.effects import Create, Delete, Effect
from headgate.model.events import Event, Gone, Observed, Outcome, WriteError
from headgate.model.keys import Kind, Target
from headgate.model.node import Node
from headgate.model.pod import ENDED, Pod
from headgate.world.autoscaling.cloud_provider import CloudProvider, Instance, NodeGroup, registration_timer
from headgate.world.autoscaling.snapshot import NodeOf, SchedulingSnapshot

MIRROR = "kubernetes.io/config.mirror"
UNSCHEDULABLE = "Unschedulable"
REACTION_TIME = 60.0  # seconds: what the Cluster Autoscaler promises for large clusters; Karpenter needs less


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
