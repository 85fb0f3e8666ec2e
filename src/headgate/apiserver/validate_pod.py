"""Pods: the rules on a spec, on a new pod, and on what is reported about one."""

from __future__ import annotations

from headgate.apiserver.field_errors import (
    FieldError,
    complaints,
    forbidden,
    invalid,
    not_supported,
    required,
    unchanged,
)
from headgate.apiserver.messages import Json
from headgate.apiserver.validate_affinity import affinity_errors
from headgate.apiserver.validate_amounts import container_resources_errors, pod_resources_errors
from headgate.apiserver.validate_containers import (
    all_container_errors,
    ephemeral_errors,
    host_network_errors,
    image_whitespace_errors,
)
from headgate.apiserver.validate_metadata import label_errors, metadata_errors
from headgate.apiserver.validate_names import dns_label_errors, qualified_name_errors
from headgate.apiserver.validate_pod_level import pod_level_errors
from headgate.apiserver.validate_scheduling import gate_errors, spread_errors, toleration_errors
from headgate.apiserver.validate_shapes import (
    Metadata,
    Pod,
    PodInStatus,
    PodSpec,
    PodStatus,
    Resources,
    demand_shape,
)
from headgate.model.names import dns_subdomain_errors

LARGEST_DEADLINE = 2**31 - 1
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_OWN_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})


def new_pod_errors(new: Json) -> list[FieldError]:
    pod = demand_shape(new, Pod)
    spec = pod.spec or PodSpec()
    errors = pod_errors(pod)
    errors += ephemeral_errors("spec", spec)
    if spec.node_name and spec.scheduling_gates:
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors


def pod_errors(pod: Pod) -> list[FieldError]:
    """What holds for a pod at any time."""
    spec = pod.spec or PodSpec()
    errors = metadata_errors_of(pod)
    errors += pod_spec_errors("spec", spec)
    return errors + image_whitespace_errors("spec", spec)


def metadata_errors_of(pod: Pod) -> list[FieldError]:
    return metadata_errors(pod.metadata or Metadata(), dns_subdomain_errors, namespaced=True)


def pod_spec_errors(path: str, spec: PodSpec) -> list[FieldError]:
    """What holds for pods and templates alike."""
    errors = all_container_errors(path, spec)
    errors += host_network_errors(path, spec)
    errors += _choice_errors(f"{path}.restartPolicy", spec.restart_policy, _RESTART_POLICIES)
    errors += _choice_errors(f"{path}.dnsPolicy", spec.dns_policy, _DNS_POLICIES)
    errors += _scheduling_errors(path, spec)
    errors += _name_errors(path, spec)
    errors += _number_errors(path, spec)
    return errors + _amounts_errors(path, spec)


def _choice_errors(path: str, choice: str | None, choices: tuple[str, ...]) -> list[FieldError]:
    if not choice:
        return [required(path)]
    return [] if choice in choices else [not_supported(path, choice, choices)]


def _scheduling_errors(path: str, spec: PodSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.node_selector:
        errors += label_errors(f"{path}.nodeSelector", spec.node_selector)
    if spec.affinity is not None:
        errors += affinity_errors(f"{path}.affinity", spec.affinity)
    if spec.scheduling_gates:
        errors += gate_errors(f"{path}.schedulingGates", spec.scheduling_gates)
    if spec.topology_spread_constraints:
        errors += spread_errors(f"{path}.topologySpreadConstraints", spec.topology_spread_constraints)
    if spec.tolerations:
        errors += toleration_errors(f"{path}.tolerations", spec.tolerations)
    return errors


def _name_errors(path: str, spec: PodSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    subdomains = (
        ("serviceAccountName", spec.service_account_name),
        ("nodeName", spec.node_name),
        ("priorityClassName", spec.priority_class_name),
    )
    for field, name in subdomains:
        if name:
            errors += complaints(f"{path}.{field}", name, dns_subdomain_errors(name))
    for field, name in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        if name:
            errors += complaints(f"{path}.{field}", name, dns_label_errors(name))
    return errors


def _number_errors(path: str, spec: PodSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= LARGEST_DEADLINE:
        detail = f"must be between 1 and {LARGEST_DEADLINE}, inclusive"
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    if spec.preemption_policy is not None:
        errors += _choice_errors(f"{path}.preemptionPolicy", spec.preemption_policy, PREEMPTION_POLICIES)
    return errors


def _amounts_errors(path: str, spec: PodSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.overhead:
        errors += container_resources_errors(f"{path}.overhead", Resources(limits=spec.overhead))
    if spec.resources is not None:
        errors += pod_resources_errors(f"{path}.resources", spec.resources)
        errors += pod_level_errors(f"{path}.resources", spec, spec.resources)
    return errors


def pod_status_errors(new: Json, old: Json) -> list[FieldError]:
    status = demand_shape(new, PodInStatus).status or PodStatus()
    before = old.get("status") or {}
    errors: list[FieldError] = []
    for index, condition in enumerate(status.conditions or ()):
        if condition.type not in _OWN_CONDITIONS:
            kind = condition.type or ""
            errors += complaints(f"status.conditions[{index}].Type", kind, qualified_name_errors(kind))
    nominated = status.nominated_node_name
    if nominated and nominated != before.get("nominatedNodeName"):
        errors += complaints("status.nominatedNodeName", nominated, dns_subdomain_errors(nominated))
        if (old.get("spec") or {}).get("nodeName"):
            detail = "may not be set on pods that are already bound to a node"
            errors.append(forbidden("status.nominatedNodeName", detail))
    return errors + unchanged("status.qosClass", status.qos_class, before.get("qosClass"))
