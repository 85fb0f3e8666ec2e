"""Services and the controllers of replicas from the wire, and who a pod's controller is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headgate.api.errors import InvalidField
from headgate.api.wire import Buffer, Metadata, OwnerReference, Wire
from headgate.model.keys import Key, Kind, Target
from headgate.model.owners import ReplicaOwner, Service
from headgate.model.requirements import Operator, Requirement
from headgate.model.selectors import InvalidSelector, label_selector

_OWNERS = {
    ("apps/v1", "ReplicaSet"): Kind.REPLICA_SET,
    ("apps/v1", "StatefulSet"): Kind.STATEFUL_SET,
    ("v1", "ReplicationController"): Kind.REPLICATION_CONTROLLER,
}


class LabelsSpec(Wire, frozen=True):
    """Services and ReplicationControllers select by labels alone."""

    selector: dict[str, str] | None = None


class LabelsObject(Wire, frozen=True):
    metadata: Metadata
    spec: LabelsSpec = LabelsSpec()


class SelectorSpec(Wire, frozen=True):
    selector: dict[str, Any] | None = None


class SelectorObject(Wire, frozen=True):
    metadata: Metadata
    spec: SelectorSpec = SelectorSpec()


_by_labels = msgspec.json.Decoder(LabelsObject)
_by_selector = msgspec.json.Decoder(SelectorObject)


def controller(metadata: Metadata) -> Target | None:
    """Whose pod this is, where that is of a kind we know."""
    for reference in metadata.owner_references or ():
        if reference.controller:
            kind = _kind_of(reference)
            return Target(Key(kind, metadata.namespace, reference.name), reference.uid) if kind else None
    return None


def decode_service(raw: Buffer) -> Service:
    wire = _by_labels.decode(raw)
    metadata = wire.metadata
    return Service(metadata.key(Kind.SERVICE), metadata.uid, metadata.resource_version, wire.spec.selector or {})


def decode_replication_controller(raw: Buffer) -> ReplicaOwner:
    wire = _by_labels.decode(raw)
    metadata, labels = wire.metadata, sorted((wire.spec.selector or {}).items())
    selector = tuple(Requirement(key, Operator.IN, (value,)) for key, value in labels)
    return ReplicaOwner(metadata.key(Kind.REPLICATION_CONTROLLER), metadata.uid, metadata.resource_version, selector)


def decode_replica_owner(kind: Kind) -> Callable[[Buffer], ReplicaOwner]:
    """The decoder for ReplicaSets or for StatefulSets, which look alike from here."""

    def decode(raw: Buffer) -> ReplicaOwner:
        wire = _by_selector.decode(raw)
        metadata, selector = wire.metadata, wire.spec.selector
        chosen = None if selector is None else _requirements(selector)
        return ReplicaOwner(metadata.key(kind), metadata.uid, metadata.resource_version, chosen)

    return decode


def _requirements(selector: dict[str, Any]) -> tuple[Requirement, ...]:
    try:
        return label_selector(selector)
    except InvalidSelector as error:
        raise InvalidField("$.spec.selector", str(error)) from None


def _kind_of(reference: OwnerReference) -> Kind | None:
    if reference.kind == "Job" and reference.api_version.startswith("batch/"):
        return Kind.JOB
    return _OWNERS.get((reference.api_version, reference.kind))
