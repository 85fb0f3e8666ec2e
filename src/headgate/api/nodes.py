"""Nodes from the wire."""

from __future__ import annotations

import msgspec

from headgate.api.amounts import resources_at
from headgate.api.wire import Amounts, Buffer, Int64, Wire, WireConditionStatus, WireMetadata, is_true
from headgate.model.keys import Kind
from headgate.model.node import Node, Taint, TaintEffect
from headgate.model.resources import LARGEST_REQUEST, Resources


class WireTaint(Wire, frozen=True):
    key: str
    effect: TaintEffect
    value: str = ""


class WireNodeSpec(Wire, frozen=True):
    unschedulable: bool = False
    taints: list[WireTaint] | None = None


class WireImage(Wire, frozen=True):
    names: list[str] | None = None
    size_bytes: Int64 = 0


class WireNodeStatus(Wire, frozen=True):
    allocatable: Amounts | None = None
    capacity: Amounts | None = None
    conditions: list[WireConditionStatus] | None = None
    images: list[WireImage] | None = None


class WireNode(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireNodeSpec = WireNodeSpec()
    status: WireNodeStatus = WireNodeStatus()


_decoder = msgspec.json.Decoder(WireNode)


def decode_node(raw: Buffer) -> Node:
    wire = _decoder.decode(raw)
    metadata = wire.metadata
    return Node(
        key=metadata.key(Kind.NODE),
        uid=metadata.uid,
        version=metadata.resource_version,
        labels=metadata.labels or {},
        annotations=metadata.annotations or {},
        allocatable=_allocatable(wire.status),
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in wire.spec.taints or ()),
        unschedulable=wire.spec.unschedulable,
        ready=is_true(wire.status.conditions, "Ready"),
        images={name: image.size_bytes for image in wire.status.images or () for name in image.names or ()},
    )


def _allocatable(status: WireNodeStatus) -> Resources:
    """What pods may use; a node that does not say offers its whole capacity."""
    if status.allocatable is not None:
        return _counted(resources_at("$.status.allocatable", status.allocatable))
    return _counted(resources_at("$.status.capacity", status.capacity))


def _counted(amounts: Resources) -> Resources:
    """No node has as much as the largest request, so that a request that was saturated fits nowhere."""
    return Resources.of({name: max(0, min(amount, LARGEST_REQUEST - 1)) for name, amount in amounts})
