"""All that surrounds the pods: nodes, namespaces, claims, owners, budgets, and the workloads that describe groups."""

from __future__ import annotations

from headgate.engine.scheduler.groups import GROUP_KINDS, Groups
from headgate.engine.scheduler.resolving import Resolver
from headgate.engine.scheduler.workload_status import WorkloadStatuses
from headgate.model.groups import Workload
from headgate.model.happenings import Happening
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.objects import DisruptionBudget, Namespace, Object, PriorityClass
from headgate.model.pod import Pod
from headgate.placement.neighbours import Neighbours
from headgate.preemption.budgets import Budgets


class ClusterCache:
    """Takes in what is now true of them, collects what that may mean to pods that wait, and names pods it describes."""

    def __init__(
        self, neighbours: Neighbours, groups: Groups, statuses: WorkloadStatuses, budgets: Budgets, resolver: Resolver
    ) -> None:
        self._nodes = neighbours.nodes
        self._neighbours = neighbours
        self._groups = groups
        self._statuses = statuses
        self._budgets = budgets
        self._resolver = resolver
        self._events: dict[Happening, None] = {}

    def note(self, *events: Happening) -> None:
        self._events.update(dict.fromkeys(events))

    def take_events(self) -> dict[Happening, None]:
        """What happened since the last call."""
        cluster_events, self._events = self._events, {}
        return cluster_events

    def observe(self, found: Object) -> list[Pod]:
        """The pods that must be looked at anew: their priority, or how their group starts and leaves, may differ."""
        match found:
            case Node():
                self._observe_node(found)
            case Namespace(key=key, labels=labels):
                if self._neighbours.relabel(key.name, labels):
                    self.note(Happening.NEIGHBOURS_CHANGED)
            case PriorityClass():
                return self._ranked_anew(self._groups.put_class(found))
            case Workload(key=key):
                self._statuses.touch(key)
                return self._groups.put(found)
            case DisruptionBudget():
                self._budgets.put(found)
            case _:
                self.note(*self._resolver.observe(found))
        return []

    def lose(self, key: Key, uid: str) -> list[Pod]:
        """The object is gone; the pods that must be looked at anew."""
        match key.kind:
            case Kind.NODE:
                self._lose_node(key.name, uid)
            case Kind.PRIORITY_CLASS:
                return self._ranked_anew(self._groups.drop_class(key.name, uid))
            case Kind.DISRUPTION_BUDGET:
                self._budgets.drop(key)
            case kind if kind in GROUP_KINDS:
                self._statuses.touch(key)
                return self._groups.drop(key, uid)
            case _:
                self.note(*self._resolver.lose(key, uid))
        return []

    def _ranked_anew(self, workloads: list[Key]) -> list[Pod]:
        for key in workloads:
            self._statuses.touch(key)
        return [pod for key in workloads for pod in self._groups.pods_of(key)]

    def _observe_node(self, node: Node) -> None:
        known = self._nodes.get(node.name)
        if known is not None and _same_for_scheduling(known, node):
            return
        self._nodes.put(node)
        self.note(Happening.NODE_ADDED if known is None else Happening.NODE_CHANGED)

    def _lose_node(self, name: str, uid: str) -> None:
        known = self._nodes.get(name)
        if known is not None and known.uid == uid:
            self._nodes.drop(name)
            self.note(Happening.NODE_CHANGED)


def _same_for_scheduling(old: Node, new: Node) -> bool:
    return (
        old.uid == new.uid
        and old.labels == new.labels
        and old.allocatable == new.allocatable
        and old.taints == new.taints
        and old.unschedulable == new.unschedulable
        and old.images == new.images
    )
