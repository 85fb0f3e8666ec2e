"""Decodes Volcano's Queues and PodGroups, and encodes their status."""

from __future__ import annotations

from typing import Annotated, Any, assert_never

import msgspec
from msgspec import Meta

from headgate.api.amounts import amount_texts, resources_at
from headgate.api.wire import (
    Amounts,
    Buffer,
    Int32,
    InvalidField,
    Wire,
    WireCondition,
    WireMetadata,
    condition_entries,
    conditions_of,
)
from headgate.model.effects import PodGroupStatus, VolcanoQueueStatus, VolcanoStatus
from headgate.model.keys import Kind
from headgate.model.pod import Gang, PodGroup, PreemptionMode, Workload
from headgate.model.resources import Resources
from headgate.model.volcano import (
    DEFAULT_QUEUE,
    ROOT,
    DequeueStrategy,
    PodGroupPhase,
    QueueCounts,
    QueueState,
    VolcanoGroup,
    VolcanoQueue,
)

Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class WireGuarantee(Wire, frozen=True):
    resource: Amounts | None = None


class WireQueueSpec(Wire, frozen=True):
    weight: Int32 = 1
    capability: Amounts | None = None
    guarantee: WireGuarantee | None = None
    deserved: Amounts | None = None
    parent: str = ""
    reclaimable: bool | None = None
    priority: Int32 = 0
    dequeue_strategy: str = ""


class WireQueueReservation(Wire, frozen=True):
    resource: Amounts | None = None


class WireQueueStatus(Wire, frozen=True):
    state: str = ""
    pending: Int32 = 0
    inqueue: Int32 = 0
    running: Int32 = 0
    unknown: Int32 = 0
    completed: Int32 = 0
    allocated: Amounts | None = None
    reservation: WireQueueReservation | None = None


class WireQueue(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireQueueSpec = WireQueueSpec()
    status: WireQueueStatus = WireQueueStatus()


class WireVolcanoPodGroupSpec(Wire, frozen=True):
    min_member: Count = 0
    queue: str = ""
    priority_class_name: str = ""
    min_resources: Amounts | None = None
    sub_group_policy: list[Any] | None = None
    network_topology: dict[str, Any] | None = None


class WirePodGroupStatus(Wire, frozen=True):
    phase: str = ""
    conditions: list[WireCondition] | None = None
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0


class WireVolcanoPodGroup(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireVolcanoPodGroupSpec = WireVolcanoPodGroupSpec()
    status: WirePodGroupStatus = WirePodGroupStatus()


_queues = msgspec.json.Decoder(WireQueue)
_pod_groups = msgspec.json.Decoder(WireVolcanoPodGroup)
_STATES = {state.value: state for state in QueueState}
_PHASES = {phase.value: phase for phase in PodGroupPhase}
_STRATEGIES = {"": DequeueStrategy.TRAVERSE} | {strategy.value: strategy for strategy in DequeueStrategy}


MOST_RESOURCES = 256  # that a queue limits: every queue has an account of each


def _limits(path: str, amounts: Amounts | None) -> Resources:
    if amounts is not None and len(amounts) > MOST_RESOURCES:
        raise InvalidField(path, f"expected at most {MOST_RESOURCES} resources, found {len(amounts)}")
    return resources_at(path, amounts)


def decode_volcano_queue(raw: Buffer) -> VolcanoQueue:
    wire = _queues.decode(raw)
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    if spec.dequeue_strategy not in _STRATEGIES:
        raise InvalidField("$.spec.dequeueStrategy", f"expected fifo or traverse, found {spec.dequeue_strategy!r}")
    reservation = status.reservation.resource if status.reservation else None
    return VolcanoQueue(
        key=metadata.key(Kind.VOLCANO_QUEUE),
        uid=metadata.uid,
        version=metadata.resource_version,
        parent="" if metadata.name == ROOT else spec.parent or ROOT,
        capability=_limits("$.spec.capability", spec.capability),
        guarantee=_limits("$.spec.guarantee.resource", spec.guarantee.resource if spec.guarantee else None),
        deserved=_limits("$.spec.deserved", spec.deserved),
        priority=spec.priority,
        reclaimable=spec.reclaimable is not False,
        weight=spec.weight,
        dequeue=_STRATEGIES[spec.dequeue_strategy],
        state=_STATES.get(status.state),
        counts=QueueCounts(status.pending, status.inqueue, status.running, status.unknown, status.completed),
        allocated=resources_at("$.status.allocated", status.allocated),
        reserved=resources_at("$.status.reservation.resource", reservation),
        deleted=metadata.deleted,
    )


def decode_volcano_pod_group(raw: Buffer) -> Workload:
    """A PodGroup of Volcano; its gangs are preempted as a whole."""
    wire = _pod_groups.decode(raw)
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    gang = Gang(spec.min_member, PreemptionMode.POD_GROUP) if spec.min_member else None
    return Workload(
        key=metadata.key(Kind.VOLCANO_POD_GROUP),
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.created,
        groups=(PodGroup("", gang),),
        priority_class=spec.priority_class_name,
        conditions=conditions_of(status.conditions),
        deleted=metadata.deleted,
        volcano=VolcanoGroup(
            queue=spec.queue or DEFAULT_QUEUE,
            min_resources=resources_at("$.spec.minResources", spec.min_resources),
            phase=_PHASES.get(status.phase),
            running=status.running,
            succeeded=status.succeeded,
            failed=status.failed,
            unsupported=_unsupported(spec),
        ),
    )


def _unsupported(spec: WireVolcanoPodGroupSpec) -> str:
    if spec.sub_group_policy:
        return "spec.subGroupPolicy"
    hard = (spec.network_topology or {}).get("mode", "hard") == "hard"  # as Volcano defaults it
    return "spec.networkTopology" if spec.network_topology and hard else ""


def volcano_status_of(change: VolcanoStatus) -> dict[str, Any]:
    """The fields of `status` to set; None removes a field."""
    match change:
        case VolcanoQueueStatus(state, counts, allocated, reserved):
            reservation = {"resource": amount_texts(reserved)} if reserved.items else None
            return {
                "state": state.value,
                **msgspec.structs.asdict(counts),
                "allocated": amount_texts(allocated),
                "reservation": reservation,
            }
        case PodGroupStatus(phase, conditions, running, succeeded, failed):
            return {
                "phase": phase.value,
                "conditions": condition_entries(conditions),
                "running": running or None,
                "succeeded": succeeded or None,
                "failed": failed or None,
            }
        case _:
            assert_never(change)
