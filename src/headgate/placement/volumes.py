"""Where a pod cannot run for the storage and devices its claims are bound to. Names and reasons are kube-scheduler's.

These rules read what the claims demand (`PodShape.bound_to`), not the claims; whoever places a pod fills that in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from headgate.model.claims import Attachment, ZoneDemand
from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key
from headgate.model.node import Node
from headgate.model.pod import Pod, PodShape
from headgate.placement.filters import Verdicts
from headgate.placement.plugins import Foresight, Mask, NodeFilter
from headgate.placement.table import Amounts, Columns, NodeTable

ON_PLACES = frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.NODE_CHANGED, ClusterEvent.CLAIMS_CHANGED})
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
PLACE_LABELS = (OLD_ZONE, OLD_REGION, ZONE, REGION)
_NEW_NAME = {OLD_ZONE: ZONE, OLD_REGION: REGION}


class Seldom:
    """A rule about nodes that few pods have to do with, asked like one about neighbours: so others are spared it."""

    def __init__(self, rule: NodeFilter, nodes: NodeTable) -> None:
        self.name, self.wake_on = rule.name, rule.wake_on
        self._rule, self._nodes = rule, nodes
        self._curable = ClusterEvent.ROOM_FREED in rule.wake_on  # what a leaving pod changes, an evicted one does
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
    wake_on = frozenset({ClusterEvent.ROOM_FREED, ClusterEvent.CLAIMS_CHANGED})

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


T = TypeVar("T")


class Attachments:
    """Claims in use and volumes attached, row by row. A volume that several pods of a node use is attached once."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._uses: Counter[Key] = Counter()  # how many pods use each claim
        self._claims_on: dict[int, Counter[Key]] = {}  # by row
        self._volume_of: dict[Key, Attachment] = {}  # by claim
        self._rows_of: dict[Attachment, Counter[int]] = {}  # how many claims need it there
        self._attached = Columns(len(nodes.nodes))  # by driver
        self._limits: dict[str, Mapping[str, int]] = {}  # by node, then by driver
        self._limited = Columns(len(nodes.nodes))  # by driver: 1 where there is a limit
        self._most = Columns(len(nodes.nodes))  # by driver
        self._cursor = -1
        nodes.follow(self)

    def uses(self, claim: Key) -> bool:
        """Whether a pod on any node uses the claim."""
        return claim in self._uses

    def bind(self, claim: Key, volume: Attachment | None) -> None:
        """The claim stands for this volume, or for none that has to be attached."""
        if self._volume_of.get(claim) == volume:
            return
        rows = [row for row, claims in self._claims_on.items() if claim in claims] if claim in self._uses else []
        for row in rows:
            self._attach(claim, row, -1)
        if volume is None:
            del self._volume_of[claim]
        else:
            self._volume_of[claim] = volume
        for row in rows:
            self._attach(claim, row, 1)

    def limit(self, node: str, most: Mapping[str, int]) -> None:
        """The node can attach that many volumes of each of these drivers, and any number of others."""
        if most:
            self._limits[node] = most
        else:
            self._limits.pop(node, None)
        self._cursor = -1

    def is_limited(self, driver: str) -> bool:
        """Whether there may be a node that limits volumes of this driver."""
        self._refresh()
        return driver in self._limited.names()

    def attachable(self, volumes: tuple[Attachment, ...]) -> Mask:
        """Rows that can attach all of these that are not attached there already."""
        self._refresh()
        fits: Mask = np.ones(len(self._nodes.nodes), dtype=np.bool_)
        for driver in sorted({volume.driver for volume in volumes}):
            more = self._missing([volume for volume in volumes if volume.driver == driver])
            few = self._attached[driver] + more <= self._most[driver]
            fits &= few | (more == 0) | (self._limited[driver] == 0)
        return fits

    def _missing(self, volumes: list[Attachment]) -> Amounts:
        """How many of them each row does not have yet."""
        missing = np.full(len(self._nodes.nodes), len(volumes), dtype=np.int64)
        for volume in volumes:
            for row in self._rows_of.get(volume, ()):
                missing[row] -= 1
        return missing

    def _refresh(self) -> None:
        if self._cursor == self._nodes.node_changes.end:
            return
        for row in self._nodes.rows_changed_since(self._cursor):
            node = self._nodes.nodes[row]
            limits = self._limits.get(node.name, {}) if node is not None else {}
            self._most.put(row, limits.items())
            self._limited.put(row, dict.fromkeys(limits, 1).items())
        self._cursor = self._nodes.node_changes.end

    # as the table's census

    def count(self, pod: Pod, row: int, sign: int) -> None:
        for name in pod.shape.claims:
            self._use(Key(name.kind, pod.key.namespace, name.name), row, sign)

    def clear(self, row: int) -> None:
        for claim in list(self._claims_on.get(row, Counter()).elements()):
            self._use(claim, row, -1)

    def grow(self, rows: int) -> None:
        for columns in (self._attached, self._limited, self._most):
            columns.grow(rows)

    def _use(self, claim: Key, row: int, sign: int) -> None:
        here = self._claims_on.setdefault(row, Counter())
        if _turned(here, claim, sign):
            self._attach(claim, row, sign)
        _turned(self._uses, claim, sign)
        if not here:
            del self._claims_on[row]

    def _attach(self, claim: Key, row: int, sign: int) -> None:
        volume = self._volume_of.get(claim)
        if volume is None:
            return
        rows = self._rows_of.setdefault(volume, Counter())
        if _turned(rows, row, sign):
            self._attached.open(volume.driver)[row] += sign
        if not rows:
            del self._rows_of[volume]


def _turned(counts: Counter[T], key: T, sign: int) -> bool:
    """Count one up or down; True for the first and for the last."""
    before = counts[key]
    counts[key] = before + sign
    if not counts[key]:
        del counts[key]
    return 0 in (before, before + sign)


class NodeVolumeLimits:
    """The node can attach all of the pod's volumes."""

    name = "NodeVolumeLimits"
    wake_on = frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.ROOM_FREED, ClusterEvent.CLAIMS_CHANGED})

    def __init__(self, attachments: Attachments) -> None:
        self._attachments = attachments

    def concerns(self, pod: Pod) -> bool:
        return pod.shape.bound_to is not None and bool(pod.shape.bound_to.attachments)

    def demands(self, pod: Pod) -> Iterator[tuple[str, Mask]]:
        volumes = pod.shape.bound_to.attachments if pod.shape.bound_to is not None else ()
        yield "node(s) exceed max volume count", self._attachments.attachable(volumes)

    def admits(self, pod: Pod, row: int) -> bool:
        return all(met[row] for _, met in self.demands(pod))

    def hopeless(self, pod: Pod) -> Mask | bool:
        return False

    def foresee(self, pod: Pod) -> Foresight | None:
        return None
