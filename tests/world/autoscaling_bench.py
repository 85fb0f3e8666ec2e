"""An autoscaler alone in virtual time: nodes it creates are there at once, nodes it deletes are gone."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import msgspec
from builders import node, pod
from msgspec.structs import replace

from headgate.api.nodes import decode_node
from headgate.model.effects import Create, Delete, WakeAt
from headgate.model.events import Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.node import Node
from headgate.model.pod import Pod, ScheduledCondition
from headgate.simulator.manifests import node_manifest
from headgate.world.autoscaling import NODE_GROUP, NodeGroup

UNSCHEDULABLE = ScheduledCondition("False", "Unschedulable", "0/0 nodes are available")
GATED = ScheduledCondition("False", "SchedulingGated", "gated")
MIB = 1 << 20


def group(name: str = "big", cpu: int = 4000, memory: int = 8192, **fields: Any) -> NodeGroup:
    """A group of nodes with so many milli-CPU and MiB; labels and taints are those of its template."""
    labels = {NODE_GROUP: name, **fields.pop("labels", {})}
    template = node("", cpu, memory, labels=labels, taints=fields.pop("taints", ()))
    manifest = node_manifest("", {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}, labels, ())
    return NodeGroup(name, template=template, manifest=manifest, **{"max": 10, "delay": 60.0, **fields})


def unschedulable(name: str, cpu: int = 1000, created: float = 0.0, **fields: Any) -> Pod:
    return pod(name, cpu, **{"created": created, "scheduled": UNSCHEDULABLE, **fields})


class Bench:
    """Pods and nodes are observed at their time; `refusing` is whether the API server refuses new nodes."""

    def __init__(self, autoscaler: Any, *objects: Node | Pod, refusing: bool = False) -> None:
        self.autoscaler, self.refusing = autoscaler, refusing
        self.now = 0.0
        self.nodes: dict[str, Node] = {}
        self.removed: list[tuple[float, str]] = []
        self._timers: list[tuple[float, int, str]] = []
        self._count = 0
        self.see(*objects)

    def see(self, *objects: Node | Pod) -> None:
        self.react(*(Observed(found) for found in objects))

    def lose(self, *objects: Node | Pod) -> None:
        self.react(*(Gone(found.key, found.uid) for found in objects))

    def react(self, *events: Any) -> None:
        batch = list(events)
        while batch:
            effects = self.autoscaler.react(batch, self.now)
            batch = [event for effect in effects for event in self._perform(effect)]

    def run(self, until: float) -> Bench:
        """Fires every timer up to that time."""
        while self._timers and self._timers[0][0] <= until:
            self.now, _, timer = heappop(self._timers)
            self.react(TimerFired(timer))
        self.now = until
        return self

    @property
    def orders(self) -> list[tuple[float, str, int]]:
        """When, of which group and how many."""
        return [(each.at, each.group.name, len(each.instances)) for each in self.autoscaler.cloud.scale_ups]

    @property
    def idle(self) -> bool:
        """Whether no timer is set."""
        return not self._timers

    def _perform(self, effect: Any) -> list[Any]:
        match effect:
            case WakeAt(at, timer):
                self._count += 1
                heappush(self._timers, (max(at, self.now), self._count, timer))
            case Create() if self.refusing:
                return [Outcome(effect, WriteError.REFUSED, "no")]
            case Create(key, manifest):
                value = msgspec.json.decode(bytes(manifest))
                value["metadata"] |= {"uid": f"uid-{key.name}", "resourceVersion": "1"}
                self.nodes[key.name] = decode_node(msgspec.json.encode(value))
                return [Observed(self.nodes[key.name])]
            case Delete(target):
                self.removed.append((self.now, target.key.name))
                del self.nodes[target.key.name]
                return [Gone(target.key, target.uid)]
        return []


def on(node_name: str, waiting: Pod) -> Pod:
    return replace(waiting, node=node_name, scheduled=ScheduledCondition("True", "", ""), nominated="")
