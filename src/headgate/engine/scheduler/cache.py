"""The cluster cache: the objects the scheduler plane decides by, as last observed, and their cluster events."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.engine.scheduler.groups import GROUP_KINDS, Groups
from headgate.engine.scheduler.resolving import READS, Resolver
from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.objects import DisruptionBudget, Namespace, Object, PriorityClass
from headgate.model.pod import GroupKey, Pod, Workload
from headgate.model.settings import Profile
from headgate.model.volcano import VolcanoQueue
from headgate.placement.neighbours import Neighbours
from headgate.placement.table import NodeTable
from headgate.placement.volumes import Attachments
from headgate.preemption.budgets import Budgets
from headgate.preemption.units import Running

CACHED_KINDS = (
    Kind.NAMESPACE,
    *GROUP_KINDS,
    Kind.VOLCANO_QUEUE,
    Kind.DISRUPTION_BUDGET,
    Kind.NODE,
    *READS,
    Kind.POD,
)


STARTING = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "karpenter.sh/unregistered",
    }
)
"""Taints of nodes that are being brought up."""


class ClusterCache:
    """Shared by all stages. Pods on nodes are held in `nodes`, which assumed bindings charge like observed ones."""

    def __init__(self, profiles: Iterable[Profile], seed: int) -> None:
        self.pods: dict[Key, Pod] = {}
        self.nodes = NodeTable(seed)
        self.neighbours = Neighbours(self.nodes)
        self.nominations = self.neighbours.nominations
        self.attachments = Attachments(self.nodes)
        self.resolver = Resolver(profiles, self.attachments)
        self.groups = Groups()
        self.budgets = Budgets()
        self.volcano_queues: dict[str, VolcanoQueue] = {}
        self.running = Running(self.nodes, self.groups.standing)
        self.touched_workloads: dict[Key, None] = {}  # their status may be outdated
        self.touched_pod_groups: dict[Key, None] = {}  # of Volcano; likewise
        self._events: dict[ClusterEvent, None] = {}

    def note(self, *events: ClusterEvent) -> None:
        """These cluster events happened."""
        for event in events:
            self._events[event] = None

    def take_events(self) -> dict[ClusterEvent, None]:
        """The cluster events since the last call, each once."""
        taken, self._events = self._events, {}
        return taken

    def node_is_coming(self) -> bool:
        """Whether a node is known that is not ready yet, as new ones are."""
        return any(each.key in STARTING for node in self.nodes.nodes if node is not None for each in node.taints)

    def touch_workload(self, key: Key) -> None:
        """The workload, one of its pods or the value of its priority classes has changed."""
        if key.kind is Kind.WORKLOAD:
            self.touched_workloads[key] = None
        elif key.kind is Kind.VOLCANO_POD_GROUP:
            self.touched_pod_groups[key] = None

    def observe(self, found: Object) -> list[Pod]:
        """Takes in an object that is not a pod; returns the pods whose priority or group is described differently."""
        match found:
            case Node():
                self._observe_node(found)
            case Namespace(key=key, labels=labels):
                if self.neighbours.relabel(key.name, labels):
                    self.note(ClusterEvent.NEIGHBOURS_CHANGED)
            case PriorityClass():
                return self._pods_of(self.groups.put_class(found))
            case Workload(key=key):
                self.touch_workload(key)
                return self.groups.put(found)
            case DisruptionBudget():
                self.budgets.put(found)
            case VolcanoQueue(key=key):
                self.volcano_queues[key.name] = found
            case _:
                self.note(*self.resolver.observe(found))
        return []

    def lose(self, key: Key, uid: str) -> list[Pod]:
        """Drops an object that is not a pod; returns the pods whose priority or group is described differently."""
        match key.kind:
            case Kind.NODE:
                self._lose_node(key.name, uid)
            case Kind.NAMESPACE:
                if self.neighbours.relabel(key.name, {}):
                    self.note(ClusterEvent.NEIGHBOURS_CHANGED)
            case Kind.PRIORITY_CLASS:
                return self._pods_of(self.groups.drop_class(key.name, uid))
            case Kind.DISRUPTION_BUDGET:
                self.budgets.drop(key)
            case Kind.VOLCANO_QUEUE:
                if key.name in self.volcano_queues and self.volcano_queues[key.name].uid == uid:
                    del self.volcano_queues[key.name]
            case kind if kind in GROUP_KINDS:
                self.touch_workload(key)
                return self.groups.drop(key, uid)
            case _:
                self.note(*self.resolver.lose(key, uid))
        return []

    def _pods_of(self, workloads: list[Key]) -> list[Pod]:
        for key in workloads:
            self.touch_workload(key)
        return [pod for key in workloads for pod in self.groups.pods_of(key)]

    def _observe_node(self, node: Node) -> None:
        known = self.nodes.get(node.name)
        if known is not None and _same_for_scheduling(known, node):
            return
        self.nodes.put(node)
        self.note(ClusterEvent.NODE_ADDED if known is None else ClusterEvent.NODE_CHANGED)

    def _lose_node(self, name: str, uid: str) -> None:
        known = self.nodes.get(name)
        if known is not None and known.uid == uid:
            self.nodes.drop(name)
            self.note(ClusterEvent.NODE_CHANGED)


class CacheView:
    """The cluster as plugins see it. Objects are immutable, and what is returned does not change afterwards."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    def nodes(self) -> tuple[Node, ...]:
        return tuple(node for node in self._cache.nodes.nodes if node is not None)

    def node(self, name: str) -> Node | None:
        return self._cache.nodes.get(name)

    def pods(self) -> tuple[Pod, ...]:
        return tuple(self._cache.pods.values())

    def pod(self, key: Key) -> Pod | None:
        return self._cache.pods.get(key)

    def node_of(self, pod: Key) -> str:
        charge = self._cache.nodes.charge_of(pod)
        return "" if charge is None else charge[0]

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        return tuple(self._cache.nodes.pods_on(node))

    def workload(self, key: Key) -> Workload | None:
        return self._cache.groups.workloads.get(key)

    def members(self, group: GroupKey) -> tuple[Pod, ...]:
        return tuple(pod for pod in self._cache.groups.pods_of(group.workload) if pod.group == group)


def _same_for_scheduling(old: Node, new: Node) -> bool:
    return (
        old.uid == new.uid
        and old.labels == new.labels
        and old.allocatable == new.allocatable
        and old.taints == new.taints
        and old.unschedulable == new.unschedulable
        and old.images == new.images
    )
