"""Which JSON types a kind's fields have. A wrong one is refused before any rule looks at the object.

Null stands for absent everywhere, and fields that no rule reads are not listed.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from headgate.apiserver.messages import Json
from headgate.apiserver.status import ApiError
from headgate.apiserver.validate_wording import wrong_type

Shape = TypeVar("Shape", bound="Shaped")
Amounts = dict[str, str | int | float] | None
Labels = dict[str, str] | None
Int32 = Annotated[int, Meta(ge=-(2**31), lt=2**31)]


class Shaped(Struct, rename="camel", frozen=True, gc=False, omit_defaults=True):
    """Part of an object as the rules read it."""


class OwnerReference(Shaped, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class Metadata(Shaped, frozen=True):
    name: str | None = None
    namespace: str | None = None
    generate_name: str | None = None
    uid: str | None = None
    labels: Labels = None
    annotations: Labels = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None


class AnyObject(Shaped, frozen=True):
    """What every kind has."""

    metadata: Metadata | None = None


class Requirement(Shaped, frozen=True):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class Selector(Shaped, frozen=True):
    match_labels: Labels = None
    match_expressions: list[Requirement] | None = None


class NodeTerm(Shaped, frozen=True):
    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeTerms(Shaped, frozen=True):
    node_selector_terms: list[NodeTerm] | None = None


class PreferredNodeTerm(Shaped, frozen=True):
    weight: Int32 | None = None
    preference: NodeTerm | None = None


class NodeAffinity(Shaped, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeTerms | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredNodeTerm] | None = None


class PodTerm(Shaped, frozen=True):
    label_selector: Selector | None = None
    namespace_selector: Selector | None = None
    namespaces: list[str] | None = None
    topology_key: str | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodTerm(Shaped, frozen=True):
    weight: Int32 | None = None
    pod_affinity_term: PodTerm | None = None


class PodAffinity(Shaped, frozen=True):
    required_during_scheduling_ignored_during_execution: list[PodTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodTerm] | None = None


class Affinity(Shaped, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Shaped, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class SpreadConstraint(Shaped, frozen=True):
    max_skew: Int32 | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    min_domains: Int32 | None = None
    label_selector: Selector | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class Resources(Shaped, frozen=True):
    requests: Amounts = None
    limits: Amounts = None


class Port(Shaped, frozen=True):
    name: str | None = None
    container_port: Int32 | None = None
    host_port: Int32 | None = None
    host_ip: str | None = field(default=None, name="hostIP")
    protocol: str | None = None


class Container(Shaped, frozen=True):
    name: str | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    restart_policy: str | None = None
    resources: Resources | None = None
    ports: list[Port] | None = None


class Named(Shaped, frozen=True):
    name: str | None = None


class PodSpec(Shaped, frozen=True):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    ephemeral_containers: list[Container] | None = None
    resources: Resources | None = None
    overhead: Amounts = None
    restart_policy: str | None = None
    dns_policy: str | None = None
    scheduler_name: str | None = None
    node_name: str | None = None
    node_selector: Labels = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None
    scheduling_gates: list[Named] | None = None
    priority: Int32 | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None
    host_network: bool | None = None
    service_account_name: str | None = None
    hostname: str | None = None
    subdomain: str | None = None


class Condition(Shaped, frozen=True):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    observed_generation: int | None = None


class PodStatus(Shaped, frozen=True):
    phase: str | None = None
    conditions: list[Condition] | None = None
    nominated_node_name: str | None = None
    qos_class: str | None = None


class Pod(Shaped, frozen=True):
    metadata: Metadata | None = None
    spec: PodSpec | None = None


class PodInStatus(Shaped, frozen=True):
    """A pod as a write to its status carries it; nothing else of it is read."""

    status: PodStatus | None = None


class Template(Shaped, frozen=True):
    metadata: Metadata | None = None
    spec: PodSpec | None = None


class JobSpec(Shaped, frozen=True):
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    backoff_limit: Int32 | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: Int32 | None = None
    completion_mode: str | None = None
    pod_replacement_policy: str | None = None
    suspend: bool | None = None
    manual_selector: bool | None = None
    managed_by: str | None = None
    pod_failure_policy: Json | None = None
    selector: Selector | None = None
    template: Template | None = None


class Job(Shaped, frozen=True):
    metadata: Metadata | None = None
    spec: JobSpec | None = None


class JobStatus(Shaped, frozen=True):
    active: Int32 | None = None
    ready: Int32 | None = None
    succeeded: Int32 | None = None
    failed: Int32 | None = None
    terminating: Int32 | None = None
    start_time: str | None = None
    completion_time: str | None = None
    conditions: list[Condition] | None = None


class JobInStatus(Shaped, frozen=True):
    status: JobStatus | None = None


class Taint(Shaped, frozen=True):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpec(Shaped, frozen=True):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None
    provider_id: str | None = field(default=None, name="providerID")
    pod_cidrs: list[str] | None = field(default=None, name="podCIDRs")


class NodeStatus(Shaped, frozen=True):
    capacity: Amounts = None
    allocatable: Amounts = None
    conditions: list[Condition] | None = None


class Node(Shaped, frozen=True):
    metadata: Metadata | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Lifetime(Shaped, frozen=True):
    phase: str | None = None
    finalizers: list[str] | None = None


class Namespace(Shaped, frozen=True):
    metadata: Metadata | None = None
    spec: Lifetime | None = None
    status: Lifetime | None = None


class PriorityClass(Shaped, frozen=True):
    metadata: Metadata | None = None
    value: Int32 | None = None
    global_default: bool | None = None
    description: str | None = None
    preemption_policy: str | None = None


class BudgetSpec(Shaped, frozen=True):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: Selector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatus(Shaped, frozen=True):
    disruptions_allowed: Int32 | None = None
    current_healthy: Int32 | None = None
    desired_healthy: Int32 | None = None
    expected_pods: Int32 | None = None


class DisruptionBudget(Shaped, frozen=True):
    metadata: Metadata | None = None
    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


class LeaseSpec(Shaped, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    lease_transitions: Int32 | None = None
    renew_time: str | None = None
    acquire_time: str | None = None


class Lease(Shaped, frozen=True):
    metadata: Metadata | None = None
    spec: LeaseSpec | None = None


class ConfigMap(Shaped, frozen=True):
    metadata: Metadata | None = None
    data: Labels = None
    binary_data: Labels = None
    immutable: bool | None = None


def demand_shape(value: Json, shape: type[Shape]) -> Shape:
    """The object read as this shape; refused with the field's path when a field has another JSON type."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as trouble:
        raise bad_request(value, wrong_type(value, shape, str(trouble))) from None


def bad_request(value: Json, trouble: str) -> ApiError:
    """The refusal of an object that cannot even be read."""
    kind, version = value.get("kind") or "", (value.get("apiVersion") or "").rpartition("/")[2]
    return ApiError(400, "BadRequest", f'{kind} in version "{version}" cannot be handled as a {kind}: {trouble}')
