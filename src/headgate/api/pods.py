"""Decodes Pods: requests, placement rules, group membership, checkpoints, and the form in which jobs read them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec
from msgspec import Raw

from headgate.api.amounts import WireContainer, WirePodNeeds, effective_requests, host_ports, images
from headgate.api.claims import (
    WirePodResourceClaim,
    WirePodResourceClaimStatus,
    device_claims_named,
    volume_claims_named,
)
from headgate.api.nodes import (
    NO_AFFINITY,
    AffinityDemands,
    affinity_demands,
    spread_demands,
    spreads,
    tolerations_in,
)
from headgate.api.owners import controller, is_of_daemon_set
from headgate.api.wire import (
    Buffer,
    Int32,
    Int64,
    InvalidDuration,
    InvalidField,
    InvalidTime,
    Wire,
    WireConditionStatus,
    WireMetadata,
    parse_duration,
    parse_time,
    time_at,
)
from headgate.model.claims import ClaimName
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import MANAGED
from headgate.model.node import PeerDemands
from headgate.model.pod import GroupKey, HeldPod, Phase, Pod, PodShape, ScheduledCondition, eviction_mark
from headgate.model.volcano import RESERVED_AT

WORKLOAD = "scheduling.headgate.dev/workload"
POD_GROUP = "scheduling.headgate.dev/pod-group"
REPLICA = "scheduling.headgate.dev/pod-group-replica-key"
GROUP_NAME = "scheduling.k8s.io/group-name"  # Volcano's too, and the one it looks at first
VOLCANO_GROUP_NAME = "scheduling.volcano.sh/group-name"
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
KUEUE_ONE_BY_ONE = ("kueue.x-k8s.io/pod-group-serving", "kueue.x-k8s.io/pod-group-fast-admission")

_COUNT = re.compile(r"[0-9]{1,9}")
_NOTHING: Mapping[str, str] = {}


class WireWorkloadReference(Wire, frozen=True):
    name: str
    pod_group: str
    pod_group_replica_key: str = ""


class WireSchedulingGroup(Wire, frozen=True):
    pod_group_name: str | None = None


def group_and_total(
    metadata: WireMetadata, reference: WireWorkloadReference | None, scheduling: WireSchedulingGroup | None
) -> tuple[GroupKey | None, int]:
    """The pod's group, and how many pods that has where the pods themselves say so (else 0).

    Of several ways to name a group the first counts: our labels, spec.workloadRef, spec.schedulingGroup,
    Volcano's annotations, Kueue's label or annotation. Kueue's counts only with a total of at least one pod, and
    not of pods that serve or of groups with fast admission, such as a driver that creates its executors: these come
    one after another, and the first starts without the others.
    """
    labels, annotations = metadata.labels or _NOTHING, metadata.annotations or _NOTHING
    space = metadata.namespace
    if workload := labels.get(WORKLOAD):
        return GroupKey(Key(Kind.WORKLOAD, space, workload), labels.get(POD_GROUP, ""), labels.get(REPLICA, "")), 0
    if reference is not None:
        key = Key(Kind.WORKLOAD, space, reference.name)
        return GroupKey(key, reference.pod_group, reference.pod_group_replica_key), 0
    if scheduling is not None and scheduling.pod_group_name:
        return GroupKey(Key(Kind.POD_GROUP, space, scheduling.pod_group_name)), 0
    if volcano := annotations.get(GROUP_NAME) or annotations.get(VOLCANO_GROUP_NAME):
        return GroupKey(Key(Kind.VOLCANO_POD_GROUP, space, volcano)), 0
    total = annotations.get(KUEUE_TOTAL)
    if total and not any(annotations.get(each) == "true" for each in KUEUE_ONE_BY_ONE):
        return _group_of_kueue(space, labels.get(KUEUE_GROUP) or annotations.get(KUEUE_GROUP), total)
    return None, 0


def _group_of_kueue(namespace: str, name: str | None, total: str) -> tuple[GroupKey | None, int]:
    count = int(total) if _COUNT.fullmatch(total) else 0
    return (GroupKey(Key(Kind.KUEUE_WORKLOAD, namespace, name)), count) if name and count else (None, 0)


DEFAULT_GRACE = 30  # seconds
NO_DEMANDS = PeerDemands()
_PHASES = {"": Phase.PENDING} | {phase.value: phase for phase in Phase}


class WireSchedulingGate(Wire, frozen=True):
    name: str


class WirePodSpec(WirePodNeeds, frozen=True):
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Raw = Raw()
    topology_spread_constraints: Raw = Raw()
    volumes: Raw = Raw()
    resource_claims: list[WirePodResourceClaim] | None = None
    host_network: bool = False
    tolerations: Raw = Raw()
    scheduler_name: str = ""
    scheduling_gates: list[WireSchedulingGate] | None = None
    priority: Int32 | None = None
    preemption_policy: str | None = None
    termination_grace_period_seconds: Int64 | None = None
    workload_ref: WireWorkloadReference | None = None
    scheduling_group: WireSchedulingGroup | None = None


class WirePodStatus(Wire, frozen=True):
    phase: str = ""
    conditions: list[WireConditionStatus] | None = None
    nominated_node_name: str = ""
    start_time: str | None = None
    resource_claim_statuses: list[WirePodResourceClaimStatus] | None = None


class WirePod(Wire, frozen=True):
    metadata: WireMetadata
    spec: WirePodSpec
    status: WirePodStatus = WirePodStatus()


_decoder = msgspec.json.Decoder(WirePod)


def decode_pod(raw: Buffer) -> Pod:
    wire = _decoder.decode(raw)
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    annotations = metadata.annotations or {}
    group, group_total = group_and_total(metadata, spec.workload_ref, spec.scheduling_group)
    mark = _mark(status.conditions) if status.conditions else None
    return Pod(
        key=metadata.key(Kind.POD),
        uid=metadata.uid,
        version=metadata.resource_version,
        labels=metadata.labels or {},
        annotations=annotations,
        shape=_shape(spec, metadata, status),
        created=metadata.created,
        scheduler_name=spec.scheduler_name,
        priority=spec.priority or 0,
        preempts=spec.preemption_policy != "Never",
        gates=tuple([gate.name for gate in spec.scheduling_gates]) if spec.scheduling_gates else (),
        node=spec.node_name,
        phase=_phase(status.phase),
        deleted=metadata.deleted,
        grace=_grace(metadata, spec),
        owner=controller(metadata) if metadata.owner_references else None,
        scheduled=_scheduled(status.conditions) if status.conditions else None,
        preempted=mark is not None,
        mark=eviction_mark(mark) if mark else None,
        nominated=status.nominated_node_name,
        started=time_at("$.status.startTime", status.start_time),
        group=group,
        group_total=group_total,
        checkpointed=time_if_any(annotations[CHECKPOINTED_AT]) if CHECKPOINTED_AT in annotations else None,
        checkpoint_every=checkpoint_every(annotations[CHECKPOINT_EVERY]) if CHECKPOINT_EVERY in annotations else None,
        held=held_pod(raw) if metadata.labels and MANAGED in metadata.labels else None,
        reserved_at=time_if_any(annotations[RESERVED_AT]) if RESERVED_AT in annotations else None,
        of_daemon_set=is_of_daemon_set(metadata) if metadata.owner_references else False,
        containers=_names(spec.containers) if spec.node_name else (),
    )


def _names(containers: Sequence[WireContainer]) -> tuple[str, ...]:
    if len(containers) == 1:  # as most have
        return (containers[0].name,)
    return tuple([container.name for container in containers])


def _shape(spec: WirePodSpec, metadata: WireMetadata, status: WirePodStatus) -> PodShape:
    """The pod's shape. Not the node it names: once that is set, the pod is bound and nothing is left to decide."""
    requests, scored = effective_requests(spec)
    affinity = affinity_demands(bytes(spec.affinity), metadata.namespace) if spec.affinity else NO_AFFINITY
    return _interned(
        PodShape(
            requests=requests,
            scored_requests=scored,
            node_selector=tuple(sorted(spec.node_selector.items())) if spec.node_selector else (),
            required_terms=affinity.required_terms,
            preferred_terms=affinity.preferred_terms,
            tolerations=tolerations_in(bytes(spec.tolerations)) if spec.tolerations else (),
            ports=host_ports(spec.containers, spec.init_containers or (), spec.host_network),
            images=images((*spec.init_containers, *spec.containers) if spec.init_containers else spec.containers),
            peers=_peers(spec, affinity, metadata) if spec.affinity or spec.topology_spread_constraints else None,
            claims=_claims(spec, metadata, status) if spec.volumes or spec.resource_claims else (),
        )
    )


def _peers(spec: WirePodSpec, affinity: AffinityDemands, metadata: WireMetadata) -> PeerDemands | None:
    """All that is demanded of other pods; None when that is nothing."""
    constraints, labels = spec.topology_spread_constraints, metadata.labels or {}
    spread = spread_demands(bytes(constraints)) if constraints else ()
    demands = PeerDemands(
        affinity=affinity.affinity,
        anti_affinity=affinity.anti_affinity,
        preferences=affinity.preferences,
        hard_spread=spreads(spread, True, labels),
        soft_spread=spreads(spread, False, labels),
    )
    return None if demands == NO_DEMANDS else demands


def _claims(spec: WirePodSpec, metadata: WireMetadata, status: WirePodStatus) -> tuple[ClaimName, ...]:
    """Every claim the pod names, to storage and to devices."""
    volumes = volume_claims_named(bytes(spec.volumes), metadata.name) if spec.volumes else ()
    if not spec.resource_claims:
        return volumes
    return (*volumes, *device_claims_named(spec.resource_claims, status.resource_claim_statuses or ()))


@lru_cache(maxsize=16_384)  # not for speed: equal shapes become identical, and thousands of pods keep one
def _interned(shape: PodShape) -> PodShape:
    """One value for all equal shapes: a template's pods share theirs."""
    return shape


def _phase(text: str) -> Phase:
    phase = _PHASES.get(text)
    if phase is None:
        raise InvalidField("$.status.phase", f"expected one of {', '.join(Phase)}, found {text!r}")
    return phase


def _grace(metadata: WireMetadata, spec: WirePodSpec) -> int:
    if metadata.deletion_grace_period_seconds is not None:
        return metadata.deletion_grace_period_seconds
    grace = spec.termination_grace_period_seconds
    return DEFAULT_GRACE if grace is None else grace


def _mark(conditions: list[WireConditionStatus]) -> str | None:
    """The message of the DisruptionTarget condition for preemption; None without it."""
    for condition in conditions:
        if condition.type == "DisruptionTarget":
            marked = condition.status == "True" and condition.reason == "PreemptionByScheduler"
            return condition.message if marked else None
    return None


def _scheduled(conditions: list[WireConditionStatus]) -> ScheduledCondition | None:
    for condition in conditions:
        if condition.type == "PodScheduled":
            return ScheduledCondition(condition.status, condition.reason, condition.message)
    return None


CHECKPOINTED_AT = "headgate.dev/checkpointed-at"
CHECKPOINT_EVERY = "headgate.dev/checkpoint-every"


def time_if_any(text: str) -> float | None:
    """The time that an annotation holds (RFC 3339); None for text that is no time."""
    try:
        return parse_time(text)
    except InvalidTime:
        return None


def checkpoint_every(text: str) -> float | None:
    """The seconds after which the work is saved each time (`10m`); None for text that is no time span above 0."""
    try:
        seconds = parse_duration(text)
    except InvalidDuration:
        return None
    return seconds if seconds > 0 else None


class WireHeldPodMetadata(Wire, frozen=True):
    finalizers: list[str] | None = None


class WireHeldPodCondition(Wire, frozen=True):
    type: str
    status: str
    reason: str = ""
    last_transition_time: str | None = None


class WireHeldPodStatus(Wire, frozen=True):
    conditions: list[WireHeldPodCondition] | None = None


class WireHeldPod(Wire, frozen=True):
    metadata: WireHeldPodMetadata
    spec: Raw
    status: WireHeldPodStatus = WireHeldPodStatus()


class WireNamedClass(Wire, frozen=True):
    priority_class_name: str = ""


_held_decoder = msgspec.json.Decoder(WireHeldPod)
_classes = msgspec.json.Decoder(WireNamedClass)


def held_pod(raw: Buffer) -> HeldPod:
    wire = _held_decoder.decode(raw)
    conditions = wire.status.conditions or []
    return HeldPod(
        spec=wire.spec.copy(),  # a copy, or it would keep the whole message alive
        finalizers=tuple(wire.metadata.finalizers or ()),
        priority_class=_classes.decode(wire.spec).priority_class_name,
        ready=any(condition.type == "Ready" and condition.status == "True" for condition in conditions),
        failed_at=_failed_at(conditions),
    )


def _failed_at(conditions: list[WireHeldPodCondition]) -> float | None:
    for condition in conditions:
        if condition.type == "ContainersReady" and (condition.status, condition.reason) == ("False", "PodFailed"):
            return time_at("$.status.conditions", condition.last_transition_time)
    return None
