"""Pods from the wire."""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec import Raw

from headgate.api.affinities import NO_AFFINITY, AffinityDemands, TolerationEntry, affinity_demands, tolerations
from headgate.api.amounts import PodNeeds, effective_requests
from headgate.api.checkpoints import CHECKPOINT_EVERY, CHECKPOINTED_AT, checkpoint_every, checkpointed_at
from headgate.api.claims import DeviceClaimEntry, DeviceClaimStatus, device_claims_named, volume_claims_named
from headgate.api.containers import host_ports, images
from headgate.api.errors import InvalidField
from headgate.api.held_pods import held_pod
from headgate.api.memberships import SchedulingGroup, WorkloadReference, group_and_total
from headgate.api.owners import controller
from headgate.api.peers import spread_demands, spreads
from headgate.api.wire import Buffer, Condition, Int32, Int64, Metadata, Wire, time_at
from headgate.model.claims import ClaimName
from headgate.model.keys import Kind
from headgate.model.kueue_names import MANAGED
from headgate.model.marks import pods_together
from headgate.model.peers import PeerDemands
from headgate.model.pod import Phase, Pod, PodShape, ScheduledCondition

DEFAULT_GRACE = 30  # seconds
NO_DEMANDS = PeerDemands()
_PHASES = {"": Phase.PENDING} | {phase.value: phase for phase in Phase}


class Gate(Wire, frozen=True):
    name: str


class PodSpec(PodNeeds, frozen=True):
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Raw = Raw()
    topology_spread_constraints: Raw = Raw()
    volumes: Raw = Raw()
    resource_claims: list[DeviceClaimEntry] | None = None
    host_network: bool = False
    tolerations: list[TolerationEntry] | None = None
    scheduler_name: str = ""
    scheduling_gates: list[Gate] | None = None
    priority: Int32 | None = None
    preemption_policy: str | None = None
    termination_grace_period_seconds: Int64 | None = None
    workload_ref: WorkloadReference | None = None
    scheduling_group: SchedulingGroup | None = None


class PodStatus(Wire, frozen=True):
    phase: str = ""
    conditions: list[Condition] | None = None
    nominated_node_name: str = ""
    start_time: str | None = None
    resource_claim_statuses: list[DeviceClaimStatus] | None = None


class PodObject(Wire, frozen=True):
    metadata: Metadata
    spec: PodSpec
    status: PodStatus = PodStatus()


_decoder = msgspec.json.Decoder(PodObject)


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
        leaves_with=pods_together(mark) if mark else 0,
        nominated=status.nominated_node_name,
        started=time_at("$.status.startTime", status.start_time),
        group=group,
        group_total=group_total,
        checkpointed=checkpointed_at(annotations[CHECKPOINTED_AT]) if CHECKPOINTED_AT in annotations else None,
        checkpoint_every=checkpoint_every(annotations[CHECKPOINT_EVERY]) if CHECKPOINT_EVERY in annotations else None,
        held=held_pod(raw) if metadata.labels and MANAGED in metadata.labels else None,
    )


def _shape(spec: PodSpec, metadata: Metadata, status: PodStatus) -> PodShape:
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
            tolerations=tolerations(spec.tolerations) if spec.tolerations else (),
            ports=host_ports(spec.containers, spec.init_containers or (), spec.host_network),
            images=images((*spec.init_containers, *spec.containers) if spec.init_containers else spec.containers),
            peers=_peers(spec, affinity, metadata) if spec.affinity or spec.topology_spread_constraints else None,
            claims=_claims(spec, metadata, status) if spec.volumes or spec.resource_claims else (),
        )
    )


def _peers(spec: PodSpec, affinity: AffinityDemands, metadata: Metadata) -> PeerDemands | None:
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


def _claims(spec: PodSpec, metadata: Metadata, status: PodStatus) -> tuple[ClaimName, ...]:
    """Every claim the pod names, to storage and to devices."""
    volumes = volume_claims_named(bytes(spec.volumes), metadata.name) if spec.volumes else ()
    if not spec.resource_claims:
        return volumes
    return (*volumes, *device_claims_named(spec.resource_claims, status.resource_claim_statuses or ()))


@lru_cache(maxsize=16_384)
def _interned(shape: PodShape) -> PodShape:
    """One value for all equal shapes: a template's pods share theirs."""
    return shape


def _phase(text: str) -> Phase:
    phase = _PHASES.get(text)
    if phase is None:
        raise InvalidField("$.status.phase", f"expected one of {', '.join(Phase)}, found {text!r}")
    return phase


def _grace(metadata: Metadata, spec: PodSpec) -> int:
    if metadata.deletion_grace_period_seconds is not None:
        return metadata.deletion_grace_period_seconds
    grace = spec.termination_grace_period_seconds
    return DEFAULT_GRACE if grace is None else grace


def _mark(conditions: list[Condition]) -> str | None:
    """What the mark of a pod that a scheduler asks to leave says; None without the mark."""
    for condition in conditions:
        if condition.type == "DisruptionTarget":
            marked = condition.status == "True" and condition.reason == "PreemptionByScheduler"
            return condition.message if marked else None
    return None


def _scheduled(conditions: list[Condition]) -> ScheduledCondition | None:
    for condition in conditions:
        if condition.type == "PodScheduled":
            return ScheduledCondition(condition.status, condition.reason, condition.message)
    return None
