"""Decodes Workloads of headgate.dev and the PodGroups of Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headgate.api.wire import Buffer, Int32, InvalidField, Wire, WireCondition, WireMetadata, conditions_of
from headgate.model.keys import Kind
from headgate.model.pod import Gang, PodGroup, PreemptionMode, Workload


class WireBasicPolicy(Wire, frozen=True):
    """Without fields."""


class WireGangPolicy(Wire, frozen=True):
    min_count: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    preemption_mode: PreemptionMode | None = None


class WireGroupPolicy(Wire, frozen=True):
    basic: WireBasicPolicy | None = None
    gang: WireGangPolicy | None = None


class WireTopologyConstraint(Wire, frozen=True):
    key: Annotated[str, Meta(min_length=1)]


class WireSchedulingConstraints(Wire, frozen=True):
    topology: Annotated[list[WireTopologyConstraint], Meta(max_length=1)] | None = None


class WireWorkloadPodGroup(Wire, frozen=True):
    name: Annotated[str, Meta(min_length=1)]
    policy: WireGroupPolicy
    scheduling_constraints: WireSchedulingConstraints | None = None


class WireWorkloadSpec(Wire, frozen=True):
    pod_groups: list[WireWorkloadPodGroup]
    priority_class_name: str | None = None
    preemption_priority_class_name: str | None = None


class WireWorkloadStatus(Wire, frozen=True):
    priority: Int32 | None = None
    preemption_priority: Int32 | None = None
    preemption_policy: str | None = None
    conditions: list[WireCondition] | None = None


class WireWorkload(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireWorkloadSpec
    status: WireWorkloadStatus = WireWorkloadStatus()


_decoder = msgspec.json.Decoder(WireWorkload)


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
        preempts=_preempts(status.preemption_policy),
        conditions=conditions_of(status.conditions),
        deleted=metadata.deleted,
    )


def _preempts(policy: str | None) -> bool | None:
    return None if policy is None else policy != "Never"


def gang_of(policy: WireGroupPolicy, path: str) -> WireGangPolicy | None:
    """The gang a policy asks for; None for the basic policy. A policy is exactly one of the two."""
    if (policy.gang is None) == (policy.basic is None):
        raise InvalidField(path, "expected either gang or basic")
    return policy.gang


def topology_of(constraints: WireSchedulingConstraints | None) -> str:
    """The node label of which a group's pods must find one value; empty when nothing is asked."""
    topology = constraints.topology if constraints else None
    return topology[0].key if topology else ""


def _groups(entries: Sequence[WireWorkloadPodGroup]) -> tuple[PodGroup, ...]:
    names = [entry.name for entry in entries]
    for index, name in enumerate(names):
        if name in names[:index]:
            expected = f"expected a name no other group has, found {name!r}"
            raise InvalidField(f"$.spec.podGroups[{index}].name", expected)
    return tuple(_group(entry, f"$.spec.podGroups[{index}]") for index, entry in enumerate(entries))


def _group(entry: WireWorkloadPodGroup, path: str) -> PodGroup:
    policy = gang_of(entry.policy, f"{path}.policy")
    gang = Gang(policy.min_count, policy.preemption_mode or PreemptionMode.POD) if policy else None
    return PodGroup(entry.name, gang, topology_of(entry.scheduling_constraints))


_MODES = {
    "single": PreemptionMode.POD,
    "all": PreemptionMode.POD_GROUP,
    "Pod": PreemptionMode.POD,
    "PodGroup": PreemptionMode.POD_GROUP,
}


class WirePodGroupSpec(Wire, frozen=True):
    scheduling_policy: WireGroupPolicy
    scheduling_constraints: WireSchedulingConstraints | None = None
    disruption_mode: str | dict[str, Any] | None = None  # v1beta1: {single: {}} or {all: {}}; v1alpha2: a word
    priority_class_name: str = ""
    priority: Int32 | None = None
    preemption_policy: str | None = None


class WirePodGroup(Wire, frozen=True):
    metadata: WireMetadata
    spec: WirePodGroupSpec


_pod_groups = msgspec.json.Decoder(WirePodGroup)


def decode_pod_group(raw: Buffer) -> Workload:
    """A PodGroup of scheduling.k8s.io, in the form of v1beta1 or of v1alpha2."""
    wire = _pod_groups.decode(raw)
    metadata, spec = wire.metadata, wire.spec
    return Workload(
        key=metadata.key(Kind.POD_GROUP),
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.created,
        groups=(PodGroup("", _gang(spec), topology_of(spec.scheduling_constraints)),),
        priority_class=spec.priority_class_name,
        priority=spec.priority,
        preempts=_preempts(spec.preemption_policy),
        deleted=metadata.deleted,
    )


def _gang(spec: WirePodGroupSpec) -> Gang | None:
    """A basic group that is disrupted as a whole is a gang that any one of its pods may start."""
    policy, mode = gang_of(spec.scheduling_policy, "$.spec.schedulingPolicy"), _mode(spec.disruption_mode)
    if policy is not None:
        return Gang(policy.min_count, mode)
    return Gang(1, mode) if mode is PreemptionMode.POD_GROUP else None


def _mode(said: str | dict[str, Any] | None) -> PreemptionMode:
    if said is None:
        return PreemptionMode.POD
    words = [said] if isinstance(said, str) else [word for word, chosen in said.items() if chosen is not None]
    if len(words) != 1 or words[0] not in _MODES:
        found = repr(said)
        raise InvalidField("$.spec.disruptionMode", f"expected single or all, or Pod or PodGroup, found {found}")
    return _MODES[words[0]]
