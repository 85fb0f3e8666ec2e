"""Resource flavors, workload priority classes and admission checks of kueue.x-k8s.io from the wire."""

from __future__ import annotations

import msgspec

from headgate.api.affinities import TolerationEntry, tolerations
from headgate.api.conditions import Conditions, conditions_of
from headgate.api.nodes import TaintEntry
from headgate.api.wire import Buffer, FinalizedMetadata, Int32, Metadata, Wire
from headgate.model.keys import Kind
from headgate.model.node import Taint
from headgate.model.queues import AdmissionCheck, CheckParameters, ResourceFlavor, WorkloadPriorityClass


class FlavorSpec(Wire, frozen=True):
    node_labels: dict[str, str] | None = None
    node_taints: list[TaintEntry] | None = None
    tolerations: list[TolerationEntry] | None = None
    topology_name: str = ""


class FlavorObject(Wire, frozen=True):
    metadata: FinalizedMetadata
    spec: FlavorSpec = FlavorSpec()


class PriorityClassObject(Wire, frozen=True):
    metadata: Metadata
    value: Int32


class ParametersEntry(Wire, frozen=True):
    api_group: str
    kind: str
    name: str


class CheckSpec(Wire, frozen=True):
    controller_name: str
    parameters: ParametersEntry | None = None


class CheckObject(Wire, frozen=True):
    metadata: FinalizedMetadata
    spec: CheckSpec
    status: Conditions = Conditions()


_flavors = msgspec.json.Decoder(FlavorObject)
_classes = msgspec.json.Decoder(PriorityClassObject)
_checks = msgspec.json.Decoder(CheckObject)


def decode_resource_flavor(raw: Buffer) -> ResourceFlavor:
    wire = _flavors.decode(raw)
    metadata, spec = wire.metadata, wire.spec
    return ResourceFlavor(
        key=metadata.key(Kind.RESOURCE_FLAVOR),
        uid=metadata.uid,
        version=metadata.resource_version,
        node_labels=spec.node_labels or {},
        node_taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in spec.node_taints or ()),
        tolerations=tolerations(spec.tolerations),
        topology=spec.topology_name,
        finalizers=tuple(metadata.finalizers or ()),
        deleted=metadata.deleted,
    )


def decode_workload_priority_class(raw: Buffer) -> WorkloadPriorityClass:
    wire = _classes.decode(raw)
    metadata = wire.metadata
    key = metadata.key(Kind.WORKLOAD_PRIORITY_CLASS)
    return WorkloadPriorityClass(key, metadata.uid, metadata.resource_version, wire.value)


def decode_admission_check(raw: Buffer) -> AdmissionCheck:
    wire = _checks.decode(raw)
    metadata, parameters = wire.metadata, wire.spec.parameters
    return AdmissionCheck(
        key=metadata.key(Kind.ADMISSION_CHECK),
        uid=metadata.uid,
        version=metadata.resource_version,
        controller=wire.spec.controller_name,
        parameters=CheckParameters(parameters.api_group, parameters.kind, parameters.name) if parameters else None,
        conditions=conditions_of(wire.status.conditions),
        finalizers=tuple(metadata.finalizers or ()),
        generation=metadata.generation,
        deleted=metadata.deleted,
    )
