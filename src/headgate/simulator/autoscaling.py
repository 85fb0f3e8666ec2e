"""The autoscaler of a cluster in a scenario: how it is read and checked, and what the journal says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from headgate.api.nodes import decode_node
from headgate.apiserver.admission.plugins import ADMISSION
from headgate.apiserver.kinds import INITIAL_OBJECTS
from headgate.apiserver.messages import Request
from headgate.apiserver.server import ApiServer
from headgate.engine.journal import Entry
from headgate.model.keys import Key, Kind
from headgate.simulator.manifests import Duration, Manifest, node_manifest
from headgate.world.autoscaling import (
    NODE_GROUP,
    Autoscaler,
    CloudProvider,
    ClusterAutoscaler,
    Instance,
    Karpenter,
    NodeGroup,
)
from headgate.world.nodes import complete_node

KARPENTER, CLUSTER_AUTOSCALER = "karpenter", "clusterAutoscaler"
KINDS: Mapping[str, Callable[[Sequence[NodeGroup]], Autoscaler]] = {
    KARPENTER: Karpenter,
    CLUSTER_AUTOSCALER: ClusterAutoscaler,
}
NODE_POOL = "karpenter.sh/nodepool"
"""Karpenter's own label on its nodes, by which pods opt out of them."""
SHOWN_PODS = 3


class InvalidAutoscaler(Exception):
    """Names the path in the autoscaler's entry, and what was expected there."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path, self.problem = path, problem


class TemplateEntry(Struct, frozen=True, forbid_unknown_fields=True):
    capacity: dict[str, str | int | float] = {}
    labels: dict[str, str] = {}
    taints: tuple[Manifest, ...] = ()


class GroupEntry(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    max: int
    node: TemplateEntry
    min: int = 0
    delay: Duration = Duration(60)


class AutoscalerEntry(Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    groups: tuple[GroupEntry, ...]


class AutoscalerPlan(Struct, frozen=True):
    """An autoscaler yet to be started, and the nodes that its groups have from the start."""

    kind: str
    groups: tuple[NodeGroup, ...]

    def start(self) -> Autoscaler:
        return KINDS[self.kind](self.groups)

    @property
    def nodes(self) -> list[Manifest]:
        return [_named(group.manifest, f"{group.name}-{n}") for group in self.groups for n in range(group.min)]


def autoscaler_plan(entry: AutoscalerEntry) -> AutoscalerPlan:
    """Raises InvalidAutoscaler."""
    if entry.kind not in KINDS:
        raise InvalidAutoscaler("kind", f'expected {" or ".join(KINDS)}, got "{entry.kind}"')
    if not entry.groups:
        raise InvalidAutoscaler("groups", "expected at least one node group, got none")
    groups: dict[str, NodeGroup] = {}
    for number, each in enumerate(entry.groups):
        path = f"groups[{number}]"
        if not each.name or each.name in groups:
            raise InvalidAutoscaler(f"{path}.name", f'expected a name of its own, got "{each.name}"')
        groups[each.name] = _group(path, each, entry.kind)
    return AutoscalerPlan(entry.kind, tuple(groups.values()))


def _group(path: str, entry: GroupEntry, kind: str) -> NodeGroup:
    if entry.min < 0:
        raise InvalidAutoscaler(f"{path}.min", f"expected at least 0, got {entry.min}")
    if entry.max < entry.min:
        raise InvalidAutoscaler(f"{path}.max", f"expected at least min ({entry.min}), got {entry.max}")
    own = {NODE_GROUP: entry.name} | ({NODE_POOL: entry.name} if kind == KARPENTER else {})
    manifest = node_manifest("", entry.node.capacity, {**entry.node.labels, **own}, entry.node.taints)
    whole = complete_node(_named(manifest, f"{entry.name}-0"))
    response = ApiServer(0, admission=ADMISSION, objects=INITIAL_OBJECTS).handle(
        Request("POST", "/api/v1/nodes", {}, msgspec.json.encode(whole)), 0.0
    )
    if response.code >= 400:
        message = response.value.get("message", "")
        raise InvalidAutoscaler(f"{path}.node", f"expected a node that an API server accepts: {message}")
    return NodeGroup(entry.name, entry.max, decode_node(response.body), manifest, entry.min, entry.delay)


def scaling_entries(cloud: CloudProvider) -> list[Entry]:
    """What was ordered and what was removed, in the form of the journal and in order of time."""
    entries = [_ordered(each, each.ordered) for each in cloud.instances if each.ordered is not None]
    entries += [_removed(each, each.removed) for each in cloud.instances if each.removed is not None]
    return sorted(entries, key=lambda entry: entry.at)


def _ordered(instance: Instance, at: float) -> Entry:
    pods, group = instance.pods, instance.group
    names = ", ".join(f"{pod.key.namespace}/{pod.key.name}" for pod in pods[:SHOWN_PODS])
    more = f" and {len(pods) - SHOWN_PODS} more" if len(pods) > SHOWN_PODS else ""
    message = f"ordered of node group {group.name} for {names}{more}"
    return Entry(at, _key(instance), "order", "TriggeredScaleUp", message, {"group": group.name, "pods": len(pods)})


def _removed(instance: Instance, at: float) -> Entry:
    why = "its node is gone" if instance.registered is not None else "no node registered in time"
    return Entry(at, _key(instance), "remove", "NodeRemoved", why, {"group": instance.group.name})


def _key(instance: Instance) -> Key:
    return Key(Kind.NODE, "", instance.name)


def _named(manifest: Manifest | Mapping[str, object], name: str) -> Manifest:
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict), "made by node_manifest"
    return {**manifest, "metadata": {**metadata, "name": name}}
