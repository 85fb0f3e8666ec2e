"""The cloud provider: node groups, the instances ordered for them, and the nodes that register after the delay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from headgate.model.effects import Create, Effect, WakeAt
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.pod import Pod
from headgate.world.nodes import HOSTNAME, complete_node

NODE_GROUP = "headgate.dev/node-group"
"""The label of a node with the name of its group."""
MAX_NODE_PROVISION_TIME = 900.0  # seconds after which an instance that has not registered is given up
REGISTER = "register"
"""The timer of instances that register, or are given up."""


class NodeGroup(Struct, frozen=True):
    """Equal nodes that can be ordered: `template` is such a node, `manifest` creates it; neither has a name."""

    name: str
    max: int
    template: Node
    manifest: Mapping[str, Any]
    min: int = 0
    delay: float = 60.0  # seconds from the order to a Ready node


class Instance(Struct, eq=False):
    """A node of a group, from its order to its removal."""

    name: str
    group: NodeGroup
    ordered: float | None = None  # None: it was not ordered, but there
    pods: tuple[Pod, ...] = ()  # for which it was ordered, as they were then
    registering: bool = False  # its Node is being created
    uid: str = ""  # of its Node, once that is observed
    registered: float | None = None
    removed: float | None = None

    @property
    def upcoming(self) -> bool:
        """Ordered and not registered yet."""
        return self.registered is None and self.removed is None

    @property
    def due(self) -> float:
        """When it registers, or is given up."""
        return (self.ordered or 0.0) + min(self.group.delay, MAX_NODE_PROVISION_TIME)

    @property
    def placeholder(self) -> Node:
        """The upcoming node as autoscalers simulate it: ready and empty."""
        return named(self.group.template, self.name)


class ScaleUp(Struct, frozen=True):
    """One order: instances of one group at one time."""

    at: float
    group: NodeGroup
    instances: tuple[Instance, ...]


class CloudProvider:
    """Orders are accepted at once; the nodes register after the delay of their group.

    What it knows is the state of the cloud, not of the cluster: an autoscaler that restarts would ask it again.
    """

    def __init__(self, groups: Sequence[NodeGroup]) -> None:
        self.groups = tuple(groups)
        self.instances: list[Instance] = []  # all there ever were, in the order they became known
        self.scale_ups: list[ScaleUp] = []
        self._present: dict[str, Instance] = {}  # by name, until removed
        self._sizes = {group.name: 0 for group in groups}
        self._numbers = {group.name: 0 for group in groups}  # of the next instance
        self._other_nodes: dict[str, None] = {}  # by name: those of no group

    def size(self, group: NodeGroup) -> int:
        """Instances of the group, upcoming ones included."""
        return self._sizes[group.name]

    def may_order(self, group: NodeGroup) -> int:
        return max(0, group.max - self.size(group))

    def get(self, name: str) -> Instance | None:
        """The instance of that name, if it was not removed."""
        return self._present.get(name)

    def present(self) -> list[Instance]:
        return list(self._present.values())

    def upcoming(self) -> Iterator[Instance]:
        return (instance for instance in self._present.values() if instance.upcoming)

    def order(self, group: NodeGroup, pods: Sequence[Sequence[Pod]], now: float) -> ScaleUp:
        """Orders one instance for each entry; an entry has the pods that its instance is ordered for."""
        made = tuple(self._add(Instance(self._name(group), group, now, tuple(each))) for each in pods)
        self.scale_ups.append(ScaleUp(now, group, made))
        return self.scale_ups[-1]

    def register(self, now: float) -> list[Create]:
        """Creates the nodes that are due."""
        due = [each for each in self.upcoming() if each.due <= now and each.group.delay <= MAX_NODE_PROVISION_TIME]
        return [_create(instance) for instance in due if not instance.registering]

    def give_up(self, now: float) -> list[Instance]:
        """Removes the instances that did not register in time, and returns them."""
        late = [each for each in self.upcoming() if each.due <= now and each.group.delay > MAX_NODE_PROVISION_TIME]
        for instance in late:
            self.remove(instance, now)
        return late

    def observe(self, node: Node, now: float) -> None:
        """The node registers its instance. A node with the label of a group that nobody ordered belongs to it too."""
        instance = self._present.get(node.name)
        if instance is None:
            group = next((each for each in self.groups if each.name == node.labels.get(NODE_GROUP)), None)
            if group is None:
                self._other_nodes[node.name] = None
                return
            instance = self._add(Instance(node.name, group))
        if instance.registered is None:
            instance.uid, instance.registered = node.uid, now

    def lose(self, name: str, uid: str, now: float) -> None:
        """The node is gone, and its instance with it."""
        self._other_nodes.pop(name, None)
        instance = self._present.get(name)
        if instance is not None and instance.uid == uid:
            self.remove(instance, now)

    def remove(self, instance: Instance, now: float) -> None:
        del self._present[instance.name]
        instance.removed = now
        self._sizes[instance.group.name] -= 1

    def _add(self, instance: Instance) -> Instance:
        self.instances.append(instance)
        self._present[instance.name] = instance
        self._sizes[instance.group.name] += 1
        return instance

    def _name(self, group: NodeGroup) -> str:
        while True:
            name = f"{group.name}-{self._numbers[group.name]}"
            self._numbers[group.name] += 1
            if name not in self._present and name not in self._other_nodes:
                return name


def registration_timer(scale_up: ScaleUp) -> Effect:
    return WakeAt(scale_up.instances[0].due, REGISTER)


def _create(instance: Instance) -> Create:
    instance.registering = True
    manifest = instance.group.manifest
    whole = complete_node({**manifest, "metadata": {**manifest["metadata"], "name": instance.name}})
    return Create(Key(Kind.NODE, "", instance.name), Raw(msgspec.json.encode(whole)))


def named(template: Node, name: str) -> Node:
    """The node that registers under that name."""
    key = replace(template.key, name=name)
    return replace(template, key=key, uid=name, labels={**template.labels, HOSTNAME: name})
