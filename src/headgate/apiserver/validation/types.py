"""The JSON types of the fields of built-in kinds. A wrong one is refused before any rule looks at the object.

The classes are named as the Go structs are, because a real server names these in its errors. Null stands for absent
everywhere, and fields that no rule reads are not listed.
"""

from __future__ import annotations

import re
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct, field

from headgate.apiserver.messages import Json
from headgate.apiserver.status import ApiError

_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_GOT = re.compile(r"got `(\w+)`")
_JSON_TYPES = {"str": "string", "int": "number", "float": "number"}
_GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64", Any: "interface {}"}


def _type_mismatch(value: Any, shape: type[Struct], error: str) -> str:
    """A real server's text for the conversion error `msgspec` reported."""
    what, _, place = error.partition(" - at `$")
    steps = _STEP.findall(place.rstrip("`"))
    owner, kind, path = shape, Any, []
    for name, _index in steps:
        if name:
            kind = _field_types(owner).get(name, Any)
            path.append(name)
        else:
            kind = _part_type(kind)
        if isinstance(kind, type) and issubclass(kind, Struct) and (name, _index) != steps[-1]:
            owner = kind
    found = _JSON_TYPES.get(seen[1], seen[1]) if (seen := _GOT.search(what)) else f"number {_value_at(value, steps)}"
    field = ".".join((owner.__name__, *path))
    return f"json: cannot unmarshal {found} into Go struct field {field} of type {_type_name(kind)}"


def _field_types(shape: type[Struct]) -> dict[str, Any]:
    hints = get_type_hints(shape, include_extras=True)
    return {field.encode_name: _unwrapped(hints[field.name]) for field in msgspec.structs.fields(shape)}


def _unwrapped(kind: Any) -> Any:
    """The type without None; of a union, its first member."""
    if get_origin(kind) in (Union, UnionType):
        return next(part for part in get_args(kind) if part is not type(None))
    return kind


def _part_type(kind: Any) -> Any:
    """The type of a list's items or a map's values."""
    arguments = get_args(kind)
    return _unwrapped(arguments[-1]) if arguments else Any


def _type_name(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Annotated:
        return "int32"
    if origin is list:
        return f"[]{_type_name(_part_type(kind))}"
    if origin is dict:
        return f"map[string]{_type_name(_part_type(kind))}"
    if isinstance(kind, type) and issubclass(kind, Struct):
        return f"v1.{kind.__name__}"
    return _GO_TYPES.get(kind, "interface {}")


def _value_at(value: Any, steps: list[tuple[str, str]]) -> Any:
    for name, index in steps:
        value = value[name] if name else value[int(index)]
    return value


AnyType = TypeVar("AnyType", bound="ApiType")
ResourceList = dict[str, str | int | float] | None
Labels = dict[str, str] | None
Int32 = Annotated[int, Meta(ge=-(2**31), lt=2**31)]


class ApiType(Struct, rename="camel", frozen=True, gc=False, omit_defaults=True):
    """Part of an object, with the fields that validation reads."""


class OwnerReference(ApiType, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class ObjectMeta(ApiType, frozen=True):
    name: str | None = None
    namespace: str | None = None
    generate_name: str | None = None
    uid: str | None = None
    labels: Labels = None
    annotations: Labels = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None


class AnyObject(ApiType, frozen=True):
    """An object of any kind."""

    metadata: ObjectMeta | None = None


class Requirement(ApiType, frozen=True):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class LabelSelector(ApiType, frozen=True):
    match_labels: Labels = None
    match_expressions: list[Requirement] | None = None


class NodeSelectorTerm(ApiType, frozen=True):
    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(ApiType, frozen=True):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(ApiType, frozen=True):
    weight: Int32 | None = None
    preference: NodeSelectorTerm | None = None


class NodeAffinity(ApiType, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(ApiType, frozen=True):
    label_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    topology_key: str | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(ApiType, frozen=True):
    weight: Int32 | None = None
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(ApiType, frozen=True):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class Affinity(ApiType, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(ApiType, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class TopologySpreadConstraint(ApiType, frozen=True):
    max_skew: Int32 | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    min_domains: Int32 | None = None
    label_selector: LabelSelector | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class ResourceRequirements(ApiType, frozen=True):
    requests: ResourceList = None
    limits: ResourceList = None


class ContainerPort(ApiType, frozen=True):
    name: str | None = None
    container_port: Int32 | None = None
    host_port: Int32 | None = None
    host_ip: str | None = field(default=None, name="hostIP")
    protocol: str | None = None


class Container(ApiType, frozen=True):
    name: str | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    restart_policy: str | None = None
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None


class PodSchedulingGate(ApiType, frozen=True):
    name: str | None = None


class WorkloadReference(ApiType, frozen=True):
    name: str | None = None
    pod_group: str | None = None
    pod_group_replica_key: str | None = None


class PodSpec(ApiType, frozen=True):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    ephemeral_containers: list[Container] | None = None
    resources: ResourceRequirements | None = None
    overhead: ResourceList = None
    restart_policy: str | None = None
    dns_policy: str | None = None
    scheduler_name: str | None = None
    node_name: str | None = None
    node_selector: Labels = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    scheduling_gates: list[PodSchedulingGate] | None = None
    priority: Int32 | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None
    host_network: bool | None = None
    service_account_name: str | None = None
    hostname: str | None = None
    subdomain: str | None = None
    workload_ref: WorkloadReference | None = None


class Condition(ApiType, frozen=True):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    observed_generation: int | None = None


class PodStatus(ApiType, frozen=True):
    phase: str | None = None
    conditions: list[Condition] | None = None
    nominated_node_name: str | None = None
    qos_class: str | None = None


class Pod(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class PodInStatus(ApiType, frozen=True):
    """A pod in a write to its status, of which only the status is read."""

    status: PodStatus | None = None


class PodTemplateSpec(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class JobSpec(ApiType, frozen=True):
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
    selector: LabelSelector | None = None
    template: PodTemplateSpec | None = None


class Job(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None


class JobStatus(ApiType, frozen=True):
    active: Int32 | None = None
    ready: Int32 | None = None
    succeeded: Int32 | None = None
    failed: Int32 | None = None
    terminating: Int32 | None = None
    start_time: str | None = None
    completion_time: str | None = None
    conditions: list[Condition] | None = None


class JobInStatus(ApiType, frozen=True):
    status: JobStatus | None = None


class Taint(ApiType, frozen=True):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpec(ApiType, frozen=True):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None
    provider_id: str | None = field(default=None, name="providerID")
    pod_cidrs: list[str] | None = field(default=None, name="podCIDRs")


class NodeStatus(ApiType, frozen=True):
    capacity: ResourceList = None
    allocatable: ResourceList = None
    conditions: list[Condition] | None = None


class Node(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class NamespaceSpec(ApiType, frozen=True):
    phase: str | None = None
    finalizers: list[str] | None = None


class Namespace(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    spec: NamespaceSpec | None = None
    status: NamespaceSpec | None = None


class PriorityClass(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    value: Int32 | None = None
    global_default: bool | None = None
    description: str | None = None
    preemption_policy: str | None = None


class PodDisruptionBudgetSpec(ApiType, frozen=True):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatus(ApiType, frozen=True):
    disruptions_allowed: Int32 | None = None
    current_healthy: Int32 | None = None
    desired_healthy: Int32 | None = None
    expected_pods: Int32 | None = None


class PodDisruptionBudget(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    spec: PodDisruptionBudgetSpec | None = None
    status: BudgetStatus | None = None


class LeaseSpec(ApiType, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    lease_transitions: Int32 | None = None
    renew_time: str | None = None
    acquire_time: str | None = None


class Lease(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    spec: LeaseSpec | None = None


class ConfigMap(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    data: Labels = None
    binary_data: Labels = None
    immutable: bool | None = None


class Secret(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    data: Labels = None
    string_data: Labels = None
    type: str | None = None
    immutable: bool | None = None


def typed(value: Json, shape: type[AnyType]) -> AnyType:
    """The object as this type; refused with the field's path if a field has another JSON type."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise bad_request(value, _type_mismatch(value, shape, str(error))) from None


def bad_request(value: Json, error: str) -> ApiError:
    """The error for an object that cannot be decoded."""
    kind, version = value.get("kind") or "", (value.get("apiVersion") or "").rpartition("/")[2]
    return ApiError(400, "BadRequest", f'{kind} in version "{version}" cannot be handled as a {kind}: {error}')
