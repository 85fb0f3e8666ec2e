"""Decodes the kinds of Kueue that describe queues, cohorts, flavors, admission checks and workload priorities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import structs

from headgate.api.affinities import TolerationEntry, tolerations
from headgate.api.amounts import amount_at, billionths_at, resources_at
from headgate.api.errors import InvalidField
from headgate.api.nodes import TaintEntry
from headgate.api.wire import (
    Amounts,
    Buffer,
    Conditions,
    FinalizedMetadata,
    Int32,
    Metadata,
    Wire,
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


class QuotaEntry(Wire, frozen=True):
    name: str
    nominal_quota: Amount
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


class FlavorEntry(Wire, frozen=True):
    name: str
    resources: list[QuotaEntry]


class ResourceGroupEntry(Wire, frozen=True):
    covered_resources: list[str]
    flavors: list[FlavorEntry]


def groups_of(entries: Sequence[ResourceGroupEntry] | None) -> tuple[ResourceGroup, ...]:
    """What `$.spec.resourceGroups` says, in order."""
    return tuple(_group(entry, f"$.spec.resourceGroups[{index}]") for index, entry in enumerate(entries or ()))


def _group(entry: ResourceGroupEntry, path: str) -> ResourceGroup:
    flavors = tuple(_flavor(flavor, f"{path}.flavors[{index}]") for index, flavor in enumerate(entry.flavors))
    return ResourceGroup(tuple(entry.covered_resources), flavors)


def _flavor(entry: FlavorEntry, path: str) -> FlavorQuotas:
    quotas = [(quota.name, _quota(quota, f"{path}.resources[{i}]")) for i, quota in enumerate(entry.resources)]
    return FlavorQuotas(entry.name, tuple(quotas))


def _quota(entry: QuotaEntry, path: str) -> Quota:
    return Quota(
        nominal=amount_at(f"{path}.nominalQuota", entry.name, entry.nominal_quota),
        borrowing_limit=_limit(f"{path}.borrowingLimit", entry.name, entry.borrowing_limit),
        lending_limit=_limit(f"{path}.lendingLimit", entry.name, entry.lending_limit),
    )


def _limit(path: str, name: str, amount: Amount | None) -> int | None:
    return None if amount is None else amount_at(path, name, amount)


USAGE_BASED = "UsageBasedAdmissionFairSharing"
_CONSUMPTION = "$.status.fairSharing.admissionFairSharingStatus"


class FairSharing(Wire, frozen=True):
    weight: str | int | float | None = None


class FungibilityEntry(Wire, frozen=True):
    when_can_borrow: FlavorSearch = FlavorSearch.MAY_STOP_SEARCH
    when_can_preempt: FlavorSearch = FlavorSearch.TRY_NEXT_FLAVOR
    preference: FlavorPreference | None = None


class BorrowEntry(Wire, frozen=True):
    policy: BorrowWithinCohort = BorrowWithinCohort.NEVER
    max_priority_threshold: Int32 | None = None


class PreemptionEntry(Wire, frozen=True):
    within_cluster_queue: WithinQueue = WithinQueue.NEVER
    reclaim_within_cohort: Reclaim = Reclaim.NEVER
    borrow_within_cohort: BorrowEntry | None = None


class CheckEntry(Wire, frozen=True):
    name: str
    on_flavors: list[str] | None = None


class ChecksEntry(Wire, frozen=True):
    admission_checks: list[CheckEntry] | None = None


class AdmissionScope(Wire, frozen=True):
    admission_mode: str = ""


class ClusterQueueSpec(Wire, frozen=True):
    resource_groups: list[ResourceGroupEntry] | None = None
    cohort_name: str = ""
    queueing_strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    namespace_selector: dict[str, Any] | None = None
    flavor_fungibility: FungibilityEntry | None = None
    preemption: PreemptionEntry | None = None
    admission_checks_strategy: ChecksEntry | None = None
    stop_policy: StopPolicy | None = None
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None


class OwedResource(Wire, frozen=True):
    name: str
    total: str | int | float = 0


class OwedFlavor(Wire, frozen=True):
    name: str
    resources: list[OwedResource] | None = None


class ClusterQueueStatus(Conditions, frozen=True):
    flavors_debt: list[OwedFlavor] | None = None


class ClusterQueueObject(Wire, frozen=True):
    metadata: FinalizedMetadata
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


class LocalQueueSpec(Wire, frozen=True):
    cluster_queue: str = ""
    stop_policy: StopPolicy | None = None
    fair_sharing: FairSharing | None = None


class ConsumptionEntry(Wire, frozen=True):
    consumed_resources: Amounts | None = None
    last_update: str | None = None


class LocalFairSharing(Wire, frozen=True):
    admission_fair_sharing_status: ConsumptionEntry | None = None


class LocalQueueStatus(Conditions, frozen=True):
    fair_sharing: LocalFairSharing | None = None


class LocalQueueObject(Wire, frozen=True):
    metadata: Metadata
    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()


class CohortSpec(Wire, frozen=True):
    parent_name: str = ""
    resource_groups: list[ResourceGroupEntry] | None = None
    fair_sharing: FairSharing | None = None


class CohortObject(Wire, frozen=True):
    metadata: Metadata
    spec: CohortSpec = CohortSpec()


_cluster_queues = msgspec.json.Decoder(ClusterQueueObject)
_local_queues = msgspec.json.Decoder(LocalQueueObject)
_cohorts = msgspec.json.Decoder(CohortObject)


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
        fungibility=_fungibility(spec.flavor_fungibility or FungibilityEntry()),
        preemption=_preemption(spec.preemption or PreemptionEntry()),
        checks=_required_checks(spec.admission_checks_strategy),
        stop_policy=spec.stop_policy or StopPolicy.NONE,
        fair_weight=_weight(spec.fair_sharing),
        usage_based=spec.admission_scope is not None and spec.admission_scope.admission_mode == USAGE_BASED,
        conditions=conditions_of(wire.status.conditions),
        finalizers=tuple(metadata.finalizers or ()),
        generation=metadata.generation,
        deleted=metadata.deleted,
        debt=_debt(wire.status),
    )


def with_cluster_queue_status(queue: ClusterQueue, version: str, status: Any) -> ClusterQueue:
    """The same queue in this version and with this status, as it is stored; raises as `msgspec.convert` does."""
    wire = msgspec.convert(status, ClusterQueueStatus)
    return structs.replace(queue, version=version, conditions=conditions_of(wire.conditions), debt=_debt(wire))


def _debt(status: ClusterQueueStatus) -> tuple[FlavorDebt, ...]:
    return tuple(_owed(index, entry) for index, entry in enumerate(status.flavors_debt or ()))


def _owed(index: int, entry: OwedFlavor) -> FlavorDebt:
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
    wire = msgspec.convert(status, LocalQueueStatus)
    conditions, (consumed, at) = conditions_of(wire.conditions), _consumption(wire)
    return structs.replace(queue, version=version, conditions=conditions, consumed=consumed, consumed_at=at)


def _consumption(status: LocalQueueStatus) -> tuple[Resources, float | None]:
    """What was used, and as of when."""
    used = status.fair_sharing.admission_fair_sharing_status if status.fair_sharing is not None else None
    if used is None:
        return Resources(), None
    consumed = billionths_at(f"{_CONSUMPTION}.consumedResources", used.consumed_resources)
    return consumed, time_at(f"{_CONSUMPTION}.lastUpdate", used.last_update)


def decode_cohort(raw: Buffer) -> Cohort:
    wire = _cohorts.decode(raw)
    metadata, spec = wire.metadata, wire.spec
    return Cohort(
        key=metadata.key(Kind.COHORT),
        uid=metadata.uid,
        version=metadata.resource_version,
        parent=spec.parent_name,
        groups=groups_of(spec.resource_groups),
        fair_weight=_weight(spec.fair_sharing),
        generation=metadata.generation,
        deleted=metadata.deleted,
    )


def _requirements(selector: dict[str, Any]) -> tuple[Requirement, ...]:
    try:
        return label_selector(selector)
    except InvalidSelector as error:
        raise InvalidField("$.spec.namespaceSelector", str(error)) from None


def _fungibility(entry: FungibilityEntry) -> Fungibility:
    preference = entry.preference or FlavorPreference.BORROWING_OVER_PREEMPTION
    return Fungibility(entry.when_can_borrow, entry.when_can_preempt, preference)


def _preemption(entry: PreemptionEntry) -> QueuePreemption:
    borrow = entry.borrow_within_cohort or BorrowEntry()
    return QueuePreemption(
        entry.within_cluster_queue, entry.reclaim_within_cohort, borrow.policy, borrow.max_priority_threshold
    )


def _required_checks(entry: ChecksEntry | None) -> tuple[RequiredCheck, ...]:
    entries: Sequence[CheckEntry] = (entry.admission_checks if entry else None) or ()
    return tuple(RequiredCheck(each.name, tuple(each.on_flavors or ())) for each in entries)


def _weight(entry: FairSharing | None) -> int:
    """In thousandths, a part of one counting as a whole one: the smallest weight is not none."""
    if entry is None or entry.weight is None:
        return WHOLE_WEIGHT
    return amount_at("$.spec.fairSharing.weight", "cpu", entry.weight)


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
