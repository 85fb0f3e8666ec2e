"""Where a pod cannot run for the storage and devices its claims are bound to. Names and reasons are kube-scheduler's.

These rules read what the claims demand (`PodShape.bound_to`), not the claims; whoever places a pod fills that in.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from headgate.model.claims import ZoneDemand
from headgate.model.happenings import Happening
from headgate.model.node import Node
from headgate.model.pod import Pod, PodShape
from headgate.placement.plugins import Foresight, Mask, NodeFilter
from headgate.placement.table import NodeTable
from headgate.placement.verdicts import Verdicts

ON_PLACES = frozenset({Happening.NODE_ADDED, Happening.NODE_CHANGED, Happening.CLAIMS_CHANGED})
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
PLACE_LABELS = (OLD_ZONE, OLD_REGION, ZONE, REGION)
_NEW_NAME = {OLD_ZONE: ZONE, OLD_REGION: REGION}


class Seldom:
    """A rule about nodes that few pods have to do with, asked like one about neighbours: so others are spared it."""

    def __init__(self, rule: NodeFilter, nodes: NodeTable) -> None:
        self.name, self.wake_on = rule.name, rule.wake_on
        self._rule, self._nodes = rule, nodes
        self._curable = Happening.ROOM_FREED in rule.wake_on  # what a leaving pod changes, an evicted one does
        self._verdicts = Verdicts(rule, nodes)

    def concerns(self, pod: Pod) -> bool:
        return self._rule.demand(pod.shape) is not None

    def demands(self, pod: Pod) -> Iterator[tuple[str, Mask]]:
        return self._verdicts.demands(pod.shape, slice(0, len(self._nodes.nodes)))

    def admits(self, pod: Pod, row: int) -> bool:
        passes = self._verdicts.passes(pod.shape, row)
        return passes is None or bool(passes)

    def hopeless(self, pod: Pod) -> Mask | bool:
        return not self._curable

    def foresee(self, pod: Pod) -> Foresight | None:
        return None


class VolumeRestrictions:
    """A claim that one pod alone may use is not in use."""

    name = "VolumeRestrictions"
    wake_on = frozenset({Happening.ROOM_FREED, Happening.CLAIMS_CHANGED})

    def demand(self, shape: PodShape) -> Hashable | None:
        return True if shape.bound_to is not None and shape.bound_to.taken else None

    def refusal(self, shape: PodShape, node: Node) -> str | None:
        return (
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
            "already in-use by another pod"
        )


class VolumeBinding:
    """Every bound volume can be reached from the node."""

    name = "VolumeBinding"
    wake_on = ON_PLACES

    def demand(self, shape: PodShape) -> Hashable | None:
        return shape.bound_to.volumes or None if shape.bound_to is not None else None

    def refusal(self, shape: PodShape, node: Node) -> str | None:
        for terms in shape.bound_to.volumes if shape.bound_to is not None else ():
            if not any(term.matches("", node.labels) for term in terms):  # volumes know labels, not names
                return "node(s) didn't match PersistentVolume's node affinity"
        return None


class VolumeZone:
    """A node in a zone or region is in those of every volume; a node that is in none will do."""

    name = "VolumeZone"
    wake_on = ON_PLACES

    def demand(self, shape: PodShape) -> Hashable | None:
        return shape.bound_to.zones or None if shape.bound_to is not None else None

    def refusal(self, shape: PodShape, node: Node) -> str | None:
        if not any(label in node.labels for label in PLACE_LABELS):
            return None
        demands = shape.bound_to.zones if shape.bound_to is not None else ()
        if all(_is_in(demand, node.labels) for demand in demands):
            return None
        return "node(s) had no available volume zone"


def _is_in(demand: ZoneDemand, labels: Mapping[str, str]) -> bool:
    """A volume may still have the old name of a label that the node only has by its new name."""
    there = labels.get(demand.label, labels.get(_NEW_NAME.get(demand.label, demand.label)))
    return there in demand.values


class DynamicResources:
    """All devices allocated to the pod's claims can be reached from the node."""

    name = "DynamicResources"
    wake_on = ON_PLACES

    def demand(self, shape: PodShape) -> Hashable | None:
        return shape.bound_to.devices or None if shape.bound_to is not None else None

    def refusal(self, shape: PodShape, node: Node) -> str | None:
        for terms in shape.bound_to.devices if shape.bound_to is not None else ():
            if not any(term.matches(node.name, node.labels) for term in terms):
                return "resourceclaim not available on the node"
        return None
