"""Nodes, namespaces, priority classes, disruption budgets, leases, config maps, secrets, limit ranges and runtime
classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from headgate.apiserver.defaulting import with_canonical_quantities
from headgate.apiserver.field_errors import (
    FieldError,
    at_least_zero,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
    same,
    unchanged,
)
from headgate.apiserver.messages import Json
from headgate.apiserver.validation.metadata import (
    STANDARD_FINALIZERS,
    dns_label_errors,
    metadata_errors,
    metadata_update_errors,
    qualified_name_errors,
)
from headgate.apiserver.validation.pods import PREEMPTION_POLICIES
from headgate.apiserver.validation.resources import (
    container_resource_name_errors,
    container_resources_errors,
    node_resources_errors,
    resource_name_errors,
)
from headgate.apiserver.validation.scheduling import selector_errors, taint_errors
from headgate.apiserver.validation.types import (
    ApiType,
    BudgetStatus,
    ConfigMap,
    LabelSelector,
    Lease,
    LeaseSpec,
    Namespace,
    NamespaceSpec,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PriorityClass,
    ResourceList,
    ResourceRequirements,
    Secret,
    typed,
)
from headgate.model.names import config_key_errors, dns_subdomain_errors
from headgate.model.quantity import NANOS, Quantity, parse_quantity

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_PERCENT = re.compile("([0-9]+)%").fullmatch
_NOT_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def node_errors(new: Json) -> list[FieldError]:
    node = typed(new, Node)
    errors = metadata_errors(node.metadata or ObjectMeta(), dns_subdomain_errors, namespaced=False)
    errors += taint_errors("metadata.taints", (node.spec or NodeSpec()).taints or ())
    return errors + _node_status_errors(node)


def _node_status_errors(node: Node) -> list[FieldError]:
    status = node.status or NodeStatus()
    errors = node_resources_errors("status.capacity", status.capacity)
    return errors + node_resources_errors("status.allocatable", status.allocatable)


def node_update_errors(new: Json, old: Json) -> list[FieldError]:
    node = typed(new, Node)
    errors = metadata_update_errors(new["metadata"], old["metadata"], node.metadata or ObjectMeta())
    spec, was = node.spec or NodeSpec(), old.get("spec") or {}
    errors += taint_errors("metadata.taints", spec.taints or ())
    if was.get("podCIDRs") and not same(spec.pod_cidrs, was["podCIDRs"]):
        errors.append(forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid'))
    if was.get("providerID") and spec.provider_id != was["providerID"]:
        errors.append(forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid'))
    return errors


def node_status_errors(new: Json, _old: Json) -> list[FieldError]:
    return _node_status_errors(typed(new, Node))


def namespace_errors(new: Json) -> list[FieldError]:
    namespace = typed(new, Namespace)
    errors = metadata_errors(namespace.metadata or ObjectMeta(), dns_label_errors, namespaced=False)
    for name in (namespace.spec or NamespaceSpec()).finalizers or ():
        errors += invalid_each("spec.finalizers", name, qualified_name_errors(name))
        if "/" not in name and name not in STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid("spec.finalizers", name, detail))
    return errors


def namespace_status_errors(new: Json, old: Json) -> list[FieldError]:
    phase = (typed(new, Namespace).status or NamespaceSpec()).phase or ""
    deleted = (old.get("metadata") or {}).get("deletionTimestamp")
    wanted, state = ("Terminating", "not empty") if deleted else ("Active", "empty")
    if phase == wanted:
        return []
    return [invalid("status.Phase", phase, f"may only be '{wanted}' if `deletionTimestamp` is {state}")]


def priority_class_errors(new: Json) -> list[FieldError]:
    one = typed(new, PriorityClass)
    metadata = one.metadata or ObjectMeta()
    errors = metadata_errors(metadata, dns_subdomain_errors, namespaced=False)
    name = metadata.name or ""
    if name.startswith("system-"):
        mismatch = _system_class_mismatch(name, one)
        if mismatch:
            reserved = "priority class names with 'system-' prefix are reserved for system use only. error: "
            errors.append(forbidden("metadata.name", reserved + mismatch))
    elif (one.value or 0) > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        errors.append(forbidden("value", detail))
    if one.preemption_policy not in (None, *PREEMPTION_POLICIES):
        errors.append(not_supported("preemptionPolicy", one.preemption_policy, PREEMPTION_POLICIES))
    return errors


def _system_class_mismatch(name: str, one: PriorityClass) -> str:
    """How the class differs from the built-in one of its name; empty if it does not."""
    if name not in SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    if one.value != SYSTEM_PRIORITIES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if one.global_default else ""


def priority_class_update_errors(new: Json, old: Json) -> list[FieldError]:
    one = typed(new, PriorityClass)
    errors = metadata_update_errors(new["metadata"], old["metadata"], one.metadata or ObjectMeta())
    if (one.value or 0) != (old.get("value") or 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    return errors + unchanged("preemptionPolicy", one.preemption_policy, old.get("preemptionPolicy"))


def budget_errors(new: Json) -> list[FieldError]:
    budget = typed(new, PodDisruptionBudget)
    errors = metadata_errors(budget.metadata or ObjectMeta(), dns_subdomain_errors, namespaced=True)
    return errors + _budget_spec_errors(budget.spec or PodDisruptionBudgetSpec())


def budget_update_errors(new: Json, old: Json) -> list[FieldError]:
    budget = typed(new, PodDisruptionBudget)
    errors = metadata_update_errors(new["metadata"], old["metadata"], budget.metadata or ObjectMeta())
    return errors + _budget_spec_errors(budget.spec or PodDisruptionBudgetSpec())


class _ShownBudget(Struct, frozen=True, rename="pascal"):
    """A budget as a real server prints it in this error."""

    min_available: int | str
    selector: LabelSelector | None
    max_unavailable: int | str
    unhealthy_pod_eviction_policy: str | None


def _budget_spec_errors(spec: PodDisruptionBudgetSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.min_available is not None and spec.max_unavailable is not None:
        shown = _ShownBudget(
            spec.min_available, spec.selector, spec.max_unavailable, spec.unhealthy_pod_eviction_policy
        )
        errors.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    errors += _int_or_percent_errors("spec.minAvailable", spec.min_available)
    errors += _int_or_percent_errors("spec.maxUnavailable", spec.max_unavailable)
    errors += selector_errors("spec.selector", spec.selector)
    policy = spec.unhealthy_pod_eviction_policy
    if policy is not None and policy not in _EVICTION_POLICIES:
        errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES))
    return errors


def _int_or_percent_errors(path: str, share: int | str | None) -> list[FieldError]:
    """Errors of a number of pods or a percentage of them."""
    if not isinstance(share, str):
        return at_least_zero(path, share)
    found = _PERCENT(share)
    if found is None:
        return [invalid(path, share, _NOT_PERCENT)]
    return [invalid(path, share, "must not be greater than 100%")] if int(found.group(1)) > 100 else []


def budget_status_errors(new: Json, _old: Json) -> list[FieldError]:
    status = typed(new, PodDisruptionBudget).status or BudgetStatus()
    counts = (
        ("disruptionsAllowed", status.disruptions_allowed),
        ("currentHealthy", status.current_healthy),
        ("desiredHealthy", status.desired_healthy),
        ("expectedPods", status.expected_pods),
    )
    return [error for name, count in counts for error in at_least_zero(f"status.{name}", count)]


def lease_errors(new: Json) -> list[FieldError]:
    lease = typed(new, Lease)
    errors = metadata_errors(lease.metadata or ObjectMeta(), dns_subdomain_errors, namespaced=True)
    return errors + _lease_spec_errors(lease.spec or LeaseSpec())


def lease_update_errors(new: Json, old: Json) -> list[FieldError]:
    lease = typed(new, Lease)
    errors = metadata_update_errors(new["metadata"], old["metadata"], lease.metadata or ObjectMeta())
    return errors + _lease_spec_errors(lease.spec or LeaseSpec())


def _lease_spec_errors(spec: LeaseSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.lease_duration_seconds is not None and spec.lease_duration_seconds <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", spec.lease_duration_seconds, "must be greater than 0"))
    return errors + at_least_zero("spec.leaseTransitions", spec.lease_transitions)


def config_map_errors(new: Json) -> list[FieldError]:
    config_map = typed(new, ConfigMap)
    return [
        *metadata_errors(config_map.metadata or ObjectMeta(), dns_subdomain_errors, namespaced=True),
        *_config_map_data_errors(config_map),
    ]


def config_map_update_errors(new: Json, old: Json) -> list[FieldError]:
    config_map = typed(new, ConfigMap)
    return [
        *metadata_update_errors(new["metadata"], old["metadata"], config_map.metadata or ObjectMeta()),
        *_changes_of_immutable(new, old, ("data", "binaryData")),
        *_config_map_data_errors(config_map),
    ]


def _config_map_data_errors(config_map: ConfigMap) -> list[FieldError]:
    data, binary = config_map.data or {}, config_map.binary_data or {}
    errors: list[FieldError] = []
    for key in sorted(data):
        errors += invalid_each(f"data[{key}]", key, config_key_errors(key))
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in sorted(binary):
        errors += invalid_each(f"binaryData[{key}]", key, config_key_errors(key))
    return errors


def secret_errors(new: Json) -> list[FieldError]:
    secret = typed(new, Secret)
    metadata = secret.metadata or ObjectMeta()
    return [*metadata_errors(metadata, dns_subdomain_errors, namespaced=True), *_secret_data_errors(secret)]


def secret_update_errors(new: Json, old: Json) -> list[FieldError]:
    secret = typed(new, Secret)
    return [
        *metadata_update_errors(new["metadata"], old["metadata"], secret.metadata or ObjectMeta()),
        *unchanged("type", new.get("type"), old.get("type")),
        *_changes_of_immutable(new, old, ("data",)),
        *_secret_data_errors(secret),
    ]


def _secret_data_errors(secret: Secret) -> list[FieldError]:
    data = secret.data or {}
    errors = [error for key in sorted(data) for error in invalid_each(f"data[{key}]", key, config_key_errors(key))]
    if secret.type == "kubernetes.io/service-account-token":
        annotations = (secret.metadata or ObjectMeta()).annotations or {}
        if not annotations.get(_OF_ACCOUNT):
            errors.append(required(f"metadata.annotations[{_OF_ACCOUNT}]"))
    needed = _NEEDED_IN_SECRETS.get(secret.type or "", ())
    if secret.type == "kubernetes.io/basic-auth" and not data.keys().isdisjoint(needed):
        return errors  # one of them is enough
    return errors + [required(f"data[{key}]") for key in needed if key not in data]


_OF_ACCOUNT = "kubernetes.io/service-account.name"
_NEEDED_IN_SECRETS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/basic-auth": ("username", "password"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _changes_of_immutable(new: Json, old: Json, names: tuple[str, ...]) -> list[FieldError]:
    """Errors if the data of a ConfigMap or Secret that says it is immutable change."""
    if not old.get("immutable"):
        return []
    detail = "field is immutable when `immutable` is set"
    errors = [] if new.get("immutable") else [forbidden("immutable", detail)]
    changed = [name for name in names if (new.get(name) or {}) != (old.get(name) or {})]  # "" is a value
    return errors + [forbidden(name, detail) for name in changed]


_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_AMOUNTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_ONE = Quantity(NANOS)


class Limit(ApiType, frozen=True):
    type: str | None = None
    max: ResourceList = None
    min: ResourceList = None
    default: ResourceList = None
    default_request: ResourceList = None
    max_limit_request_ratio: ResourceList = None


class LimitRangeSpec(ApiType, frozen=True):
    limits: list[Limit] | None = None


class LimitRange(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    spec: LimitRangeSpec | None = None


class Overhead(ApiType, frozen=True):
    pod_fixed: ResourceList = None


class RuntimeClass(ApiType, frozen=True):
    metadata: ObjectMeta | None = None
    handler: str | None = None
    overhead: Overhead | None = None


def default_limit_range(new: Json) -> Json:
    spec = new.get("spec") or {}
    return {**new, "spec": {**spec, "limits": [_default_limit(one) for one in spec.get("limits") or ()]}}


def _default_limit(limit: Json) -> Json:
    """The limit with its defaults for containers: default from max, defaultRequest from default and min."""
    limit = with_canonical_quantities(limit, _AMOUNTS)
    if limit.get("type") != "Container":
        return limit
    default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
    asked = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
    filled = {"default": default, "defaultRequest": asked}
    return {**limit, **{name: amounts for name, amounts in filled.items() if amounts}}


def default_runtime_class(new: Json) -> Json:
    overhead = new.get("overhead")
    return {**new, "overhead": with_canonical_quantities(overhead, ("podFixed",))} if overhead else new


def limit_range_errors(new: Json) -> list[FieldError]:
    found = typed(new, LimitRange)
    errors = metadata_errors(found.metadata or ObjectMeta(), dns_subdomain_errors, namespaced=True)
    return errors + _limits_errors(found)


def limit_range_update_errors(new: Json, old: Json) -> list[FieldError]:
    found = typed(new, LimitRange)
    return metadata_update_errors(new["metadata"], old["metadata"], found.metadata or ObjectMeta()) + _limits_errors(
        found
    )


def runtime_class_errors(new: Json) -> list[FieldError]:
    found = typed(new, RuntimeClass)
    errors = metadata_errors(found.metadata or ObjectMeta(), dns_subdomain_errors, namespaced=False)
    handler = found.handler or ""
    errors += invalid_each("handler", handler, dns_label_errors(handler)) if handler else [required("handler")]
    fixed = (
        ResourceRequirements(limits=found.overhead.pod_fixed) if found.overhead is not None else ResourceRequirements()
    )
    return errors + container_resources_errors("overhead", fixed)


def runtime_class_update_errors(new: Json, old: Json) -> list[FieldError]:
    metadata = typed(new, RuntimeClass).metadata or ObjectMeta()
    errors = metadata_update_errors(new["metadata"], old["metadata"], metadata)
    return errors + unchanged("handler", new.get("handler"), old.get("handler"))


def _limits_errors(found: LimitRange) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: list[str] = []
    for index, limit in enumerate((found.spec or LimitRangeSpec()).limits or ()):
        path, type_ = f"spec.limits[{index}]", limit.type or ""
        errors += _type_errors(f"{path}.type", type_)
        errors += [duplicate(f"{path}.type", type_)] if type_ in seen else []
        errors += [*_name_errors(path, limit), *_default_errors(path, limit), *_order_errors(path, limit)]
        seen.append(type_)
    return errors


def _type_errors(path: str, type_: str) -> list[FieldError]:
    wrong = invalid_each(path, type_, qualified_name_errors(type_))
    if not wrong and "/" not in type_ and type_ not in _TYPES:
        return [invalid(path, type_, "must be a standard limit type or fully qualified")]
    return wrong


def _name_errors(path: str, limit: Limit) -> Iterator[FieldError]:
    rule = container_resource_name_errors if limit.type in ("Pod", "Container") else resource_name_errors
    for field, amounts in _fields(limit).items():
        if limit.type != "Pod" or not field.startswith("default"):
            for name in amounts:
                yield from rule(f"{path}.{field}[{name}]", name)


def _default_errors(path: str, limit: Limit) -> Iterator[FieldError]:
    fields = _fields(limit)
    for field in ("default", "defaultRequest") if limit.type == "Pod" else ():
        if fields[field]:
            yield forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")


def _order_errors(path: str, limit: Limit) -> Iterator[FieldError]:
    """min, defaultRequest, default and max must be in ascending order."""
    named = {"min": "min", "defaultRequest": "default request", "default": "default", "max": "max"}
    fields = _fields(limit)
    pairs = (
        *(
            ("min", "max", "min"),
            ("min", "defaultRequest", "defaultRequest"),
            ("defaultRequest", "max", "defaultRequest"),
        ),
        *(
            ("defaultRequest", "default", "defaultRequest"),
            ("min", "default", "default"),
            ("default", "max", "default"),
        ),
    )
    for lower, upper, at in pairs:
        for name in sorted(fields[lower].keys() & fields[upper].keys()):
            low, high = fields[lower][name], fields[upper][name]
            if low > high:
                called = "default limit" if (lower, upper) == ("defaultRequest", "default") else named[upper]
                detail = f"{named[lower]} value {low} is greater than {called} value {high}"
                yield invalid(f"{path}.{at}[{name}]", str(_shown(lower, upper, low, high)), detail)
    for name, ratio in fields["maxLimitRequestRatio"].items():
        if ratio < _ONE:
            yield invalid(f"{path}.maxLimitRequestRatio[{name}]", str(ratio), f"ratio {ratio} is less than 1")


def _shown(lower: str, upper: str, low: Quantity, high: Quantity) -> Quantity:
    """The quantity a real server shows, which is not always the wrong one."""
    return high if (lower, upper) in (("min", "defaultRequest"), ("default", "max")) else low


def _fields(limit: Limit) -> Mapping[str, Mapping[str, Quantity]]:
    given = (limit.max, limit.min, limit.default, limit.default_request, limit.max_limit_request_ratio)
    return {
        field: {name: parse_quantity(str(amount)) for name, amount in (amounts or {}).items()}
        for field, amounts in zip(_AMOUNTS, given, strict=True)
    }
