"""PodGroups from the wire, of Kubernetes and of Volcano: workloads that describe one group, which has no name."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headgate.api.errors import InvalidField
from headgate.api.wire import Buffer, Int32, Metadata, Wire
from headgate.api.workloads import Policy, SchedulingConstraints, gang_of, topology_of
from headgate.model.groups import Gang, PodGroup, PreemptionMode, Workload
from headgate.model.keys import Kind

_MODES = {
    "single": PreemptionMode.POD,
    "all": PreemptionMode.POD_GROUP,
    "Pod": PreemptionMode.POD,
    "PodGroup": PreemptionMode.POD_GROUP,
}


class PodGroupSpec(Wire, frozen=True):
    scheduling_policy: Policy
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: str | dict[str, Any] | None = None  # v1beta1: {single: {}} or {all: {}}; v1alpha2: a word
    priority_class_name: str = ""
    priority: Int32 | None = None
    preemption_policy: str | None = None


class PodGroupObject(Wire, frozen=True):
    metadata: Metadata
    spec: PodGroupSpec


class VolcanoSpec(Wire, frozen=True):
    min_member: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    priority_class_name: str = ""


class VolcanoObject(Wire, frozen=True):
    metadata: Metadata
    spec: VolcanoSpec = VolcanoSpec()


_pod_groups = msgspec.json.Decoder(PodGroupObject)
_volcano_pod_groups = msgspec.json.Decoder(VolcanoObject)


def decode_pod_group(raw: Buffer) -> Workload:
    """A PodGroup of scheduling.k8s.io, in the form of v1beta1 or of v1alpha2."""
    wire = _pod_groups.decode(raw)
    metadata, spec = wire.metadata, wire.spec
    policy = spec.preemption_policy
    return Workload(
        key=metadata.key(Kind.POD_GROUP),
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.created,
        groups=(PodGroup("", _gang(spec), topology_of(spec.scheduling_constraints)),),
        priority_class=spec.priority_class_name,
        priority=spec.priority,
        preempts=None if policy is None else policy != "Never",
        deleted=metadata.deleted,
    )


def decode_volcano_pod_group(raw: Buffer) -> Workload:
    """A PodGroup of Volcano, whose gangs leave as they came: whole."""
    wire = _volcano_pod_groups.decode(raw)
    metadata, least = wire.metadata, wire.spec.min_member
    return Workload(
        key=metadata.key(Kind.VOLCANO_POD_GROUP),
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.created,
        groups=(PodGroup("", Gang(least, PreemptionMode.POD_GROUP) if least else None),),
        priority_class=wire.spec.priority_class_name,
        deleted=metadata.deleted,
    )


def _gang(spec: PodGroupSpec) -> Gang | None:
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
