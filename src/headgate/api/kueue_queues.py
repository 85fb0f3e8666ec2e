"""Decodes the kinds of Kueue that describe queues, cohorts, flavors, admission checks and workload priorities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import structs

from headgate.api.amounts import amount_at, billionths_at, resources_at
from headgate.api.nodes import WireTaint, WireToleration, tolerations
from headgate.api.wire import (
    Amounts,
    Buffer,
    Int32,
    Int64,
    InvalidField,
    Wire,
    WireConditions,
    WireFinalizedMetadata,
    WireMetadata,
    conditions_of,
    time_at,
)
from headgate.model.keys import Kind
from headgate.model.node import Taint
from headgate.model.queues import (
    WHOLE_WEIGHT,
    AdmissionCheck,
    BorrowWithinCohort,
    CheckParameters,
    ClusterQueue,
    Cohort,
    FlavorDebt,
    FlavorPreference,
    FlavorQuotas,
    FlavorSearch,
    Fungibility,
    LocalQueue,
    QueueingStrategy,
    QueuePreemption,
    Quota,
    Reclaim,
    RequiredCheck,
    ResourceFlavor,
    ResourceGroup,
    StopPolicy,
    WithinQueue,
    WorkloadPriorityClass,
)
from headgate.model.resources import Resources
from headgate.model.selectors import InvalidSelector, Requirement, label_selector

Amount = str | int | float


class WireResourceQuota(Wire, frozen=True):
    name: str
    nominal_quota: Amount
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


class WireFlavorQuotas(Wire, frozen=True):
    name: str
    resources: list[WireResourceQuota]


class WireResourceGroup(Wire, frozen=True):
    covered_resources: list[str]
    flavors: list[WireFlavorQuotas]


def groups_of(entries: Sequence[WireResourceGroup] | None) -> tuple[ResourceGroup, ...]:
    """What `$.spec.resourceGroups` says, in order."""
    return tuple(_group(entry, f"$.spec.resourceGroups[{index}]") for index, entry in enumerate(entries or ()))


def _group(entry: WireResourceGroup, path: str) -> ResourceGroup:
    flavors = tuple(_flavor(flavor, f"{path}.flavors[{index}]") for index, flavor in enumerate(entry.flavors))
    return ResourceGroup(tuple(entry.covered_resources), flavors)


def _flavor(entry: WireFlavorQuotas, path: str) -> FlavorQuotas:
    quotas = [(quota.name, _quota(quota, f"{path}.resources[{i}]")) for i, quota in enumerate(entry.resources)]
    return FlavorQuotas(entry.name, tuple(quotas))


def _quota(entry: WireResourceQuota, path: str) -> Quota:
    return Quota(
        nominal=amount_at(f"{path}.nominalQuota", entry.name, entry.nominal_quota),
        borrowing_limit=_limit(f"{path}.borrowingLimit", entry.name, entry.borrowing_limit),
        lending_limit=_limit(f"{path}.lendingLimit", entry.name, entry.lending_limit),
    )


def _limit(path: str, name: str, amount: Amount | None) -> int | None:
    return None if amount is None else amount_at(path, name, amount)


USAGE_BASED = "UsageBasedAdmissionFairSharing"
_CONSUMPTION = "$.status.fairSharing.admissionFairSharingStatus"


class WireFairSharing(Wire, frozen=True):
    weight: str | int | float | None = None


class WireFlavorFungibility(Wire, frozen=True):
    when_can_borrow: FlavorSearch = FlavorSearch.MAY_STOP_SEARCH
    when_can_preempt: FlavorSearch = FlavorSearch.TRY_NEXT_FLAVOR
    preference: FlavorPreference | None = None


class WireBorrowWithinCohort(Wire, frozen=True):
    policy: BorrowWithinCohort = BorrowWithinCohort.NEVER
    max_priority_threshold: Int32 | None = None


class WireQueuePreemption(Wire, frozen=True):
    within_cluster_queue: WithinQueue = WithinQueue.NEVER
    reclaim_within_cohort: Reclaim = Reclaim.NEVER
    borrow_within_cohort: WireBorrowWithinCohort | None = None


class WireRequiredCheck(Wire, frozen=True):
    name: str
    on_flavors: list[str] | None = None


class WireChecksStrategy(Wire, frozen=True):
    admission_checks: list[WireRequiredCheck] | None = None


class WireAdmissionScope(Wire, frozen=True):
    admission_mode: str = ""


class WireClusterQueueSpec(Wire, frozen=True):
    resource_groups: list[WireResourceGroup] | None = None
    cohort_name: str = ""
    queueing_strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    namespace_selector: dict[str, Any] | None = None
    flavor_fungibility: WireFlavorFungibility | None = None
    preemption: WireQueuePreemption | None = None
    admission_checks_strategy: WireChecksStrategy | None = None
    stop_policy: StopPolicy | None = None
    fair_sharing: WireFairSharing | None = None
    admission_scope: WireAdmissionScope | None = None
    concurrent_admission_policy: dict[str, Any] | None = None


class WireOwedResource(Wire, frozen=True):
    name: str
    total: str | int | float = 0


class WireOwedFlavor(Wire, frozen=True):
    name: str
    resources: list[WireOwedResource] | None = None


class WireClusterQueueStatus(WireConditions, frozen=True):
    flavors_debt: list[WireOwedFlavor] | None = None


class WireClusterQueue(Wire, frozen=True):
    metadata: WireFinalizedMetadata
    spec: WireClusterQueueSpec = WireClusterQueueSpec()
    status: WireClusterQueueStatus = WireClusterQueueStatus()


class WireLocalQueueSpec(Wire, frozen=True):
    cluster_queue: str = ""
    stop_policy: StopPolicy | None = None
    fair_sharing: WireFairSharing | None = None


class WireConsumption(Wire, frozen=True):
    consumed_resources: Amounts | None = None
    last_update: str | None = None


class WireLocalFairSharing(Wire, frozen=True):
    admission_fair_sharing_status: WireConsumption | None = None


class WireLocalQueueStatus(WireConditions, frozen=True):
    fair_sharing: WireLocalFairSharing | None = None


class WireLocalQueue(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireLocalQueueSpec = WireLocalQueueSpec()
    status: WireLocalQueueStatus = WireLocalQueueStatus()


class WireCohortSpec(Wire, frozen=True):
    parent_name: str = ""
    resource_groups: list[WireResourceGroup] | None = None
    fair_sharing: WireFairSharing | None = None


class WireShare(Wire, frozen=True):
    weighted_share: Int64 = 0


class WireCohortStatus(Wire, frozen=True):
    fair_sharing: WireShare | None = None


class WireCohort(Wire, frozen=True):
    metadata: WireMetadata
    spec: WireCohortSpec = WireCohortSpec()
    status: WireCohortStatus = WireCohortStatus()


_cluster_queues = msgspec.json.Decoder(WireClusterQueue)
_local_queues = msgspec.json.Decoder(WireLocalQueue)
_cohorts = msgspec.json.Decoder(WireCohort)


def decode_cluster_queue(raw: Buffer) -> ClusterQueue:
    wire = _cluster_queues.decode(raw)
    metadata, spec = wire.metadata, wire.spec
    return ClusterQueue(
        key=metadata.key(Kind.CLUSTER_QUEUE),
        uid=metadata.uid,
        version=metadata.resource_version,
        groups=groups_of(spec.resource_groups),
        cohort=spec.cohort_name,
        strategy=spec.queueing_strategy,
        namespaces=None if spec.namespace_selector is None else _requirements(spec.namespace_selector),
        fungibility=_fungibility(spec.flavor_fungibility or WireFlavorFungibility()),
        preemption=_preemption(spec.preemption or WireQueuePreemption()),
        checks=_required_checks(spec.admission_checks_strategy),
        stop_policy=spec.stop_policy or StopPolicy.NONE,
        fair_weight=_weight(spec.fair_sharing),
        concurrent_admission=spec.concurrent_admission_policy is not None,
        usage_based=spec.admission_scope is not None and spec.admission_scope.admission_mode == USAGE_BASED,
        conditions=conditions_of(wire.status.conditions),
        finalizers=tuple(metadata.finalizers or ()),
        generation=metadata.generation,
        deleted=metadata.deleted,
        debt=_debt(wire.status),
    )


def with_cluster_queue_status(queue: ClusterQueue, version: str, status: Any) -> ClusterQueue:
    """The same queue in this version and with this status, as it is stored; raises as `msgspec.convert` does."""
    wire = msgspec.convert(status, WireClusterQueueStatus)
    return structs.replace(queue, version=version, conditions=conditions_of(wire.conditions), debt=_debt(wire))


def _debt(status: WireClusterQueueStatus) -> tuple[FlavorDebt, ...]:
    return tuple(_owed(index, entry) for index, entry in enumerate(status.flavors_debt or ()))


def _owed(index: int, entry: WireOwedFlavor) -> FlavorDebt:
    path = f"$.status.flavorsDebt[{index}].resources"
    return FlavorDebt(entry.name, resources_at(path, {each.name: each.total for each in entry.resources or ()}))


def decode_local_queue(raw: Buffer) -> LocalQueue:
    wire = _local_queues.decode(raw)
    metadata, spec = wire.metadata, wire.spec
    consumed, consumed_at = _consumption(wire.status)
    return LocalQueue(
        key=metadata.key(Kind.LOCAL_QUEUE),
        uid=metadata.uid,
        version=metadata.resource_version,
        cluster_queue=spec.cluster_queue,
        stop_policy=spec.stop_policy or StopPolicy.NONE,
        fair_weight=_weight(spec.fair_sharing),
        conditions=conditions_of(wire.status.conditions),
        consumed=consumed,
        consumed_at=consumed_at,
        generation=metadata.generation,
        deleted=metadata.deleted,
        labels=metadata.labels or {},
    )


def with_local_queue_status(queue: LocalQueue, version: str, status: Any) -> LocalQueue:
    """As `with_cluster_queue_status`."""
    wire = msgspec.convert(status, WireLocalQueueStatus)
    conditions, (consumed, at) = conditions_of(wire.conditions), _consumption(wire)
    return structs.replace(queue, version=version, conditions=conditions, consumed=consumed, consumed_at=at)


def _consumption(status: WireLocalQueueStatus) -> tuple[Resources, float | None]:
    """What was used, and as of when."""
    used = status.fair_sharing.admission_fair_sharing_status if status.fair_sharing is not None else None
    if used is None:
        return Resources(), None
    consumed = billionths_at(f"{_CONSUMPTION}.consumedResources", used.consumed_resources)
    return consumed, time_at(f"{_CONSUMPTION}.lastUpdate", used.last_update)


def decode_cohort(raw: Buffer) -> Cohort:
    wire = _cohorts.decode(raw)
    metadata, spec, share = wire.metadata, wire.spec, wire.status.fair_sharing
    return Cohort(
        key=metadata.key(Kind.COHORT),
        uid=metadata.uid,
        version=metadata.resource_version,
        parent=spec.parent_name,
        groups=groups_of(spec.resource_groups),
        fair_weight=_weight(spec.fair_sharing),
        generation=metadata.generation,
        deleted=metadata.deleted,
        shown_share=None if share is None else share.weighted_share,
    )


def _requirements(selector: dict[str, Any]) -> tuple[Requirement, ...]:
    try:
        return label_selector(selector)
    except InvalidSelector as error:
        raise InvalidField("$.spec.namespaceSelector", str(error)) from None


def _fungibility(entry: WireFlavorFungibility) -> Fungibility:
    preference = entry.preference or FlavorPreference.BORROWING_OVER_PREEMPTION
    return Fungibility(entry.when_can_borrow, entry.when_can_preempt, preference)


def _preemption(entry: WireQueuePreemption) -> QueuePreemption:
    borrow = entry.borrow_within_cohort or WireBorrowWithinCohort()
    return QueuePreemption(
        entry.within_cluster_queue, entry.reclaim_within_cohort, borrow.policy, borrow.max_priority_threshold
    )


def _required_checks(entry: WireChecksStrategy | None) -> tuple[RequiredCheck, ...]:
    entries: Sequence[WireRequiredCheck] = (entry.admission_checks if entry else None) or ()
    return tuple(RequiredCheck(each.name, tuple(each.on_flavors or ())) for each in entries)


def _weight(entry: WireFairSharing | None) -> int:
    """In thousandths, a part of one counting as a whole one: the smallest weight is not none."""
    if entry is None or entry.weight is None:
        return WHOLE_WEIGHT
    return amount_at("$.spec.fairSharing.weight", "cpu", entry.weight)


class WireResourceFlavorSpec(Wire, frozen=True):
    node_labels: dict[str, str] | None = None
    node_taints: list[WireTaint] | None = None
    tolerations: list[WireToleration] | None = None
    topology_name: str = ""


class WireResourceFlavor(Wire, frozen=True):
    metadata: WireFinalizedMetadata
    spec: WireResourceFlavorSpec = WireResourceFlavorSpec()


class WireWorkloadPriorityClass(Wire, frozen=True):
    metadata: WireMetadata
    value: Int32


class WireParameters(Wire, frozen=True):
    api_group: str
    kind: str
    name: str


class WireAdmissionCheckSpec(Wire, frozen=True):
    controller_name: str
    parameters: WireParameters | None = None


class WireAdmissionCheck(Wire, frozen=True):
    metadata: WireFinalizedMetadata
    spec: WireAdmissionCheckSpec
    status: WireConditions = WireConditions()


_flavors = msgspec.json.Decoder(WireResourceFlavor)
_classes = msgspec.json.Decoder(WireWorkloadPriorityClass)
_checks = msgspec.json.Decoder(WireAdmissionCheck)


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
