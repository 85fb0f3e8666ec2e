"""Decodes Workloads of Kueue."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from headgate.api.amounts import resources_at
from headgate.api.owners import controller
from headgate.api.pod_sets import DEFAULT_NAME, WirePodSet, pod_sets_of
from headgate.api.wire import (
    Amounts,
    Buffer,
    Int32,
    Int64,
    InvalidField,
    Wire,
    WireCondition,
    WireFinalizedMetadata,
    WireMetadata,
    conditions_of,
    time_at,
)
from headgate.model.keys import Key, Kind, Target
from headgate.model.queues import (
    ADMISSION_GATED_BY,
    PRIORITY_BOOST,
    Admission,
    CheckState,
    CheckStatus,
    EvictionCount,
    GateStatus,
    PodSet,
    PodSetAssignment,
    PreemptionProposal,
    PriorityClassRef,
    QueuedWorkload,
    QueuedWorkloadStatus,
    RequeueState,
)
from headgate.model.resources import Resources


class WirePodSetAssignment(Wire, frozen=True):
    name: str = DEFAULT_NAME
    flavors: dict[str, str] | None = None
    resource_usage: Amounts | None = None
    count: Int32 | None = None


class WireAdmission(Wire, frozen=True):
    cluster_queue: str
    pod_set_assignments: list[WirePodSetAssignment]


class WireRequeueState(Wire, frozen=True):
    count: Int32 | None = None
    requeue_at: str | None = None


class WireReclaimablePod(Wire, frozen=True):
    name: str
    count: Int32


class WireCheckState(Wire, frozen=True):
    name: str
    state: CheckState
    message: str = ""
    last_transition_time: str | None = None
    requeue_after_seconds: Int32 | None = None
    retry_count: Int32 | None = None
    pod_set_updates: Raw = Raw()


class WirePodSetRequests(Wire, frozen=True):
    name: str
    resources: Amounts | None = None


class WireEvictionStats(Wire, frozen=True):
    reason: str
    underlying_cause: str
    count: Int32


class WireSchedulingStats(Wire, frozen=True):
    evictions: list[WireEvictionStats] | None = None


class WirePreemptionGateState(Wire, frozen=True):
    name: str
    state: str = ""
    position: str = ""
    last_transition_time: str | None = None


class WirePreemptionProposal(Wire, frozen=True):
    can_preempt: bool
    victims: Int64 = 0
    highest_priority: Int64 = 0
    priority_sum: Int64 = 0
    pods: Int64 = 0
    running_since: str | None = None


class WireKueueWorkloadStatus(Wire, frozen=True):
    conditions: list[WireCondition] | None = None
    admission: WireAdmission | None = None
    requeue_state: WireRequeueState | None = None
    reclaimable_pods: list[WireReclaimablePod] | None = None
    admission_checks: list[WireCheckState] | None = None
    resource_requests: list[WirePodSetRequests] | None = None
    accumulated_past_execution_time_seconds: Int64 | None = None
    scheduling_stats: WireSchedulingStats | None = None
    nominated_cluster_names: list[str] | None = None
    cluster_name: str | None = None
    preemption_gates: list[WirePreemptionGateState] | None = None
    preemption_proposal: WirePreemptionProposal | None = None


def decoded_status(wire: WireKueueWorkloadStatus, counts: Mapping[str, int]) -> QueuedWorkloadStatus:
    """The decoded status; absent parts, which most are, cost nothing."""
    stats = wire.scheduling_stats
    return QueuedWorkloadStatus(
        conditions=conditions_of(wire.conditions) if wire.conditions else (),
        admission=_admission(wire.admission, counts) if wire.admission is not None else None,
        requeue=_requeue(wire.requeue_state) if wire.requeue_state is not None else None,
        reclaimable=_reclaimable(wire.reclaimable_pods) if wire.reclaimable_pods else (),
        checks=_checks(wire.admission_checks) if wire.admission_checks else (),
        gate_statuses=_gate_statuses(wire.preemption_gates) if wire.preemption_gates else (),
        proposal=_proposal(wire.preemption_proposal) if wire.preemption_proposal is not None else None,
        resource_requests=_requests(wire.resource_requests) if wire.resource_requests else (),
        past_execution_seconds=wire.accumulated_past_execution_time_seconds or 0,
        evictions=_evictions(stats.evictions) if stats is not None and stats.evictions else (),
        nominated_clusters=tuple(wire.nominated_cluster_names) if wire.nominated_cluster_names else (),
        cluster=wire.cluster_name or "",
    )


def _admission(entry: WireAdmission, counts: Mapping[str, int]) -> Admission:
    """An assignment without a count is for all pods of its set."""
    path = "$.status.admission.podSetAssignments"
    assignments = [
        PodSetAssignment(
            name=each.name,
            flavors=tuple(sorted((each.flavors or {}).items())),
            usage=resources_at(f"{path}[{index}].resourceUsage", each.resource_usage),
            count=counts.get(each.name, 0) if each.count is None else each.count,
        )
        for index, each in enumerate(entry.pod_set_assignments)
    ]
    return Admission(entry.cluster_queue, tuple(assignments))


def _requeue(entry: WireRequeueState) -> RequeueState:
    return RequeueState(entry.count or 0, time_at("$.status.requeueState.requeueAt", entry.requeue_at))


def _reclaimable(entries: Sequence[WireReclaimablePod]) -> tuple[tuple[str, int], ...]:
    return tuple([(entry.name, entry.count) for entry in entries])


def _evictions(entries: Sequence[WireEvictionStats]) -> tuple[EvictionCount, ...]:
    return tuple([EvictionCount(each.reason, each.underlying_cause, each.count) for each in entries])


def _checks(entries: Sequence[WireCheckState]) -> tuple[CheckStatus, ...]:
    return tuple(
        CheckStatus(
            name=entry.name,
            state=entry.state,
            message=entry.message,
            at=_transition(f"$.status.admissionChecks[{index}]", entry.last_transition_time),
            requeue_after=entry.requeue_after_seconds,
            retries=entry.retry_count or 0,
            updates=bytes(entry.pod_set_updates),
        )
        for index, entry in enumerate(entries)
    )


def _gate_statuses(entries: Sequence[WirePreemptionGateState]) -> tuple[GateStatus, ...]:
    """A gate is open if either field says so: who opens it may know one of them, who closes it writes both."""
    return tuple(
        GateStatus(
            entry.name,
            "Open" in (entry.state, entry.position),
            _transition(f"$.status.preemptionGates[{index}]", entry.last_transition_time),
        )
        for index, entry in enumerate(entries)
    )


def _proposal(entry: WirePreemptionProposal) -> PreemptionProposal:
    return PreemptionProposal(
        entry.can_preempt,
        entry.victims,
        entry.highest_priority,
        entry.priority_sum,
        entry.pods,
        time_at("$.status.preemptionProposal.runningSince", entry.running_since) or 0.0,
    )


def _transition(path: str, text: str | None) -> float:
    return time_at(f"{path}.lastTransitionTime", text) or 0.0


def _requests(entries: Sequence[WirePodSetRequests]) -> tuple[tuple[str, Resources], ...]:
    path = "$.status.resourceRequests"
    return tuple(
        (entry.name, resources_at(f"{path}[{index}].resources", entry.resources)) for index, entry in enumerate(entries)
    )


REMEMBERED = 16_384
"""How many specs are kept decoded; the one not seen for longest goes first."""

_OWN_TOGETHER = {("v1", "Pod"): Kind.POD, ("apps/v1", "StatefulSet"): Kind.STATEFUL_SET}
_WORKLOAD = Kind.KUEUE_WORKLOAD  # found sooner than members of enums
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")


class WirePriorityClassRef(Wire, frozen=True):
    group: str
    kind: str
    name: str


class WirePreemptionGate(Wire, frozen=True):
    name: str


class WireKueueWorkloadSpec(Wire, frozen=True):
    pod_sets: list[WirePodSet]
    queue_name: str = ""
    priority_class_ref: WirePriorityClassRef | None = None
    priority: Int32 | None = None
    active: bool | None = None
    maximum_execution_time_seconds: Int32 | None = None
    preemption_gates: list[WirePreemptionGate] | None = None


class WireKueueWorkload(Wire, frozen=True):
    metadata: WireFinalizedMetadata
    spec: WireKueueWorkloadSpec
    status: WireKueueWorkloadStatus = WireKueueWorkloadStatus()


class WireKueueWorkloadParts(Wire, frozen=True):
    """The same, with parts that are decoded by themselves."""

    metadata: WireFinalizedMetadata
    spec: Raw
    status: Raw = Raw(b"{}")


class Requested(NamedTuple):
    """What its spec says, beside its pod sets."""

    queue: str
    priority: int
    priority_class: PriorityClassRef | None
    preemption_gates: tuple[str, ...]
    active: bool
    max_execution_seconds: int | None


_objects = msgspec.json.Decoder(WireKueueWorkload)
_parts = msgspec.json.Decoder(WireKueueWorkloadParts)
_specs = msgspec.json.Decoder(WireKueueWorkloadSpec)
_statuses = msgspec.json.Decoder(WireKueueWorkloadStatus)


def decode_queued_workload(raw: Buffer) -> QueuedWorkload:
    """Parts are decoded separately: most writes change the status, and a known spec is not decoded again."""
    try:
        wire = _parts.decode(raw)
        pod_sets, asked = _read_spec(bytes(wire.spec), wire.metadata.namespace)
        status = decoded_status(_statuses.decode(wire.status), dict(_counts(pod_sets)))
        return workload_of(wire.metadata, pod_sets, asked, status)
    except (msgspec.DecodeError, InvalidField):
        return _decoded_whole(raw)  # which names the field by its place in the object


def metadata_in(value: Mapping[str, Any]) -> WireFinalizedMetadata:
    """Those of a stored workload."""
    return msgspec.convert(value["metadata"], WireFinalizedMetadata)


def spec_in(spec: Any, namespace: str) -> tuple[tuple[PodSet, ...], Requested]:
    """What the spec of a stored workload says."""
    return _read_spec(msgspec.json.encode(spec), namespace)


def status_in(status: Any, pod_sets: tuple[PodSet, ...]) -> QueuedWorkloadStatus:
    """What the status of a stored workload with these pod sets says."""
    has_verbatim = isinstance(status, dict) and "admissionChecks" in status  # JSON, of which there is only in text
    wire = (
        _statuses.decode(msgspec.json.encode(status))
        if has_verbatim
        else msgspec.convert(status, WireKueueWorkloadStatus)
    )
    return decoded_status(wire, dict(_counts(pod_sets)))


def _counts(pod_sets: tuple[PodSet, ...]) -> tuple[tuple[str, int], ...]:
    return tuple([(each.name, each.count) for each in pod_sets])


def _decoded_whole(raw: Buffer) -> QueuedWorkload:
    wire = _objects.decode(raw)
    pod_sets = pod_sets_of(wire.spec.pod_sets, wire.metadata.namespace)
    status = decoded_status(wire.status, dict(_counts(pod_sets)))
    return workload_of(wire.metadata, pod_sets, _asked(wire.spec), status)


@lru_cache(maxsize=REMEMBERED)  # bench_decode takes 1.3 times as long without it
def _read_spec(raw: bytes, namespace: str) -> tuple[tuple[PodSet, ...], Requested]:
    spec = _specs.decode(raw)
    return pod_sets_of(spec.pod_sets, namespace), _asked(spec)


def _asked(spec: WireKueueWorkloadSpec) -> Requested:
    return Requested(
        queue=spec.queue_name,
        priority=spec.priority or 0,
        priority_class=_priority_class(spec.priority_class_ref),
        preemption_gates=tuple(gate.name for gate in spec.preemption_gates or ()),
        active=spec.active is not False,
        max_execution_seconds=spec.maximum_execution_time_seconds,
    )


def workload_of(
    metadata: WireFinalizedMetadata, pod_sets: tuple[PodSet, ...], asked: Requested, status: QueuedWorkloadStatus
) -> QueuedWorkload:
    """The workload from its parts."""
    annotations = metadata.annotations or {}
    owners: tuple[Target, ...] = ()
    owner = None
    if metadata.owner_references:
        owners = _together(metadata)
        owner = _owner(metadata, owners)
    return QueuedWorkload(
        key=metadata.key(_WORKLOAD),
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.created,
        pod_sets=pod_sets,
        queue=asked.queue,
        priority=asked.priority,
        priority_class=asked.priority_class,
        boost=_boost(annotations) if annotations else 0,
        gated_by=_gates_named(annotations.get(ADMISSION_GATED_BY, "")) if annotations else (),
        preemption_gates=asked.preemption_gates,
        active=asked.active,
        max_execution_seconds=asked.max_execution_seconds,
        generation=metadata.generation,
        labels=metadata.labels or {},
        annotations=annotations,
        finalizers=tuple(metadata.finalizers) if metadata.finalizers else (),
        owner=owner,
        deleted=metadata.deleted,
        owners=owners,
        owned_by_stranger=bool(metadata.owner_references) and owner is None,
        status=status,
    )


def _gates_named(text: str) -> tuple[str, ...]:
    """The controllers an admission-gated-by annotation names, in order; a blank one is none."""
    return tuple(name for part in text.split(",") if (name := part.strip())) if text else ()


def _boost(annotations: Mapping[str, str]) -> int:
    """A boost that is no number counts as 0; the webhook denies such annotations."""
    text = annotations.get(PRIORITY_BOOST, "")
    return int(text) if text and _WHOLE_NUMBER.fullmatch(text) else 0


def _priority_class(entry: WirePriorityClassRef | None) -> PriorityClassRef | None:
    return None if entry is None else PriorityClassRef(entry.group, entry.kind, entry.name)


def _owner(metadata: WireMetadata, pods: Sequence[Target]) -> Target | None:
    """The job of the workload, or its pod; of a pod group, the first pod."""
    for owner in metadata.owner_references or ():
        if owner.controller and (owner.api_version, owner.kind) == ("v1", "Pod"):
            return Target(Key(Kind.POD, metadata.namespace, owner.name), owner.uid)
    return controller(metadata) or next(iter(pods), None)


def _together(metadata: WireMetadata) -> tuple[Target, ...]:
    """The pods of a group, or the stateful set they are of, own its workload together."""
    return tuple(
        Target(Key(kind, metadata.namespace, owner.name), owner.uid)
        for owner in metadata.owner_references or ()
        if not owner.controller and (kind := _OWN_TOGETHER.get((owner.api_version, owner.kind)))
    )
