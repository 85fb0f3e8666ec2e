"""Workloads from the wire: our own, and the policies they share with the PodGroups of Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.api.conditions import ConditionEntry, conditions_of
from headgate.api.errors import InvalidField
from headgate.api.wire import Buffer, Int32, Metadata, Wire
from headgate.model.groups import Gang, PodGroup, PreemptionMode, Workload
from headgate.model.keys import Kind


class BasicPolicy(Wire, frozen=True):
    """Its presence is all it says."""


class GangPolicy(Wire, frozen=True):
    min_count: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    preemption_mode: PreemptionMode | None = None


class Policy(Wire, frozen=True):
    basic: BasicPolicy | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(Wire, frozen=True):
    key: Annotated[str, Meta(min_length=1)]


class SchedulingConstraints(Wire, frozen=True):
    topology: Annotated[list[TopologyConstraint], Meta(max_length=1)] | None = None


class PodGroupEntry(Wire, frozen=True):
    name: Annotated[str, Meta(min_length=1)]
    policy: Policy
    scheduling_constraints: SchedulingConstraints | None = None


class WorkloadSpec(Wire, frozen=True):
    pod_groups: list[PodGroupEntry]
    priority_class_name: str | None = None
    preemption_priority_class_name: str | None = None


class WorkloadStatus(Wire, frozen=True):
    priority: Int32 | None = None
    preemption_priority: Int32 | None = None
    conditions: list[ConditionEntry] | None = None


class WorkloadObject(Wire, frozen=True):
    metadata: Metadata
    spec: WorkloadSpec
    status: WorkloadStatus = WorkloadStatus()


_decoder = msgspec.json.Decoder(WorkloadObject)


def decode_workload(raw: Buffer) -> Workload:
    wire = _decoder.decode(raw)
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    return Workload(
        key=metadata.key(Kind.WORKLOAD),
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.created,
        groups=_groups(spec.pod_groups),
        priority_class=spec.priority_class_name or "",
        preemption_priority_class=spec.preemption_priority_class_name or "",
        priority=status.priority,
        preemption_priority=status.preemption_priority,
        conditions=conditions_of(status.conditions),
        deleted=metadata.deleted,
    )


def gang_of(policy: Policy, path: str) -> GangPolicy | None:
    """The gang a policy asks for; None for the basic policy. A policy is exactly one of the two."""
    if (policy.gang is None) == (policy.basic is None):
        raise InvalidField(path, "expected either gang or basic")
    return policy.gang


def topology_of(constraints: SchedulingConstraints | None) -> str:
    """The node label of which a group's pods must find one value; empty when nothing is asked."""
    topology = constraints.topology if constraints else None
    return topology[0].key if topology else ""


def _groups(entries: Sequence[PodGroupEntry]) -> tuple[PodGroup, ...]:
    names = [entry.name for entry in entries]
    for index, name in enumerate(names):
        if name in names[:index]:
            expected = f"expected a name no other group has, found {name!r}"
            raise InvalidField(f"$.spec.podGroups[{index}].name", expected)
    return tuple(_group(entry, f"$.spec.podGroups[{index}]") for index, entry in enumerate(entries))


def _group(entry: PodGroupEntry, path: str) -> PodGroup:
    policy = gang_of(entry.policy, f"{path}.policy")
    gang = Gang(policy.min_count, policy.preemption_mode or PreemptionMode.POD) if policy else None
    return PodGroup(entry.name, gang, topology_of(entry.scheduling_constraints))
