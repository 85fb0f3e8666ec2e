"""Nodes, namespaces, priority classes, disruption budgets, leases and config maps."""

from __future__ import annotations

import re

from msgspec import Struct

from headgate.apiserver.field_errors import (
    FieldError,
    at_least_zero,
    complaints,
    forbidden,
    invalid,
    not_supported,
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
from headgate.apiserver.validation.resources import node_resources_errors
from headgate.apiserver.validation.scheduling import selector_errors, taint_errors
from headgate.apiserver.validation.types import (
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
    typed,
)
from headgate.model.names import dns_subdomain_errors

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
        errors += complaints("spec.finalizers", name, qualified_name_errors(name))
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
        trouble = _system_class_mismatch(name, one)
        if trouble:
            reserved = "priority class names with 'system-' prefix are reserved for system use only. error: "
            errors.append(forbidden("metadata.name", reserved + trouble))
    elif (one.value or 0) > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        errors.append(forbidden("value", detail))
    if one.preemption_policy not in (None, *PREEMPTION_POLICIES):
        errors.append(not_supported("preemptionPolicy", one.preemption_policy, PREEMPTION_POLICIES))
    return errors


def _system_class_mismatch(name: str, one: PriorityClass) -> str:
    """Why this is not one of the classes a cluster is born with; empty when it is."""
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
    """A budget as a real server shows it in this one error."""

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
    """A number of pods, or a percentage of them."""
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


def config_map_update_errors(new: Json, old: Json) -> list[FieldError]:
    config_map = typed(new, ConfigMap)
    errors = metadata_update_errors(new["metadata"], old["metadata"], config_map.metadata or ObjectMeta())
    if not old.get("immutable"):
        return errors
    detail = "field is immutable when `immutable` is set"
    if not config_map.immutable:
        errors.append(forbidden("immutable", detail))
    changed = [name for name in ("data", "binaryData") if not same(new.get(name), old.get(name))]
    return errors + [forbidden(name, detail) for name in changed]
