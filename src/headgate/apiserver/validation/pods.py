"""Pods: the rules on containers, on a spec, on a new pod and on its status."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headgate.apiserver.field_errors import (
    FieldError,
    complaints,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    unchanged,
)
from headgate.apiserver.messages import Json
from headgate.apiserver.validation.metadata import (
    dns_label_errors,
    label_errors,
    metadata_errors,
    qualified_name_errors,
)
from headgate.apiserver.validation.resources import container_resources_errors, pod_level_errors, pod_resources_errors
from headgate.apiserver.validation.scheduling import affinity_errors, gate_errors, spread_errors, toleration_errors
from headgate.apiserver.validation.types import (
    Container,
    ContainerPort,
    ObjectMeta,
    Pod,
    PodInStatus,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    typed,
)
from headgate.model.names import dns_subdomain_errors

LARGEST_DEADLINE = 2**31 - 1
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_POD_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_OWN_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})


def new_pod_errors(new: Json) -> list[FieldError]:
    pod = typed(new, Pod)
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
    return metadata_errors(pod.metadata or ObjectMeta(), dns_subdomain_errors, namespaced=True)


def pod_spec_errors(path: str, spec: PodSpec) -> list[FieldError]:
    """What holds for pods and templates alike."""
    errors = all_container_errors(path, spec)
    errors += host_network_errors(path, spec)
    errors += _choice_errors(f"{path}.restartPolicy", spec.restart_policy, _POD_RESTART_POLICIES)
    errors += _choice_errors(f"{path}.dnsPolicy", spec.dns_policy, _DNS_POLICIES)
    errors += _scheduling_errors(path, spec)
    errors += _name_errors(path, spec)
    errors += _deadline_and_policy_errors(path, spec)
    return errors + _resources_errors(path, spec)


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


def _deadline_and_policy_errors(path: str, spec: PodSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= LARGEST_DEADLINE:
        detail = f"must be between 1 and {LARGEST_DEADLINE}, inclusive"
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    if spec.preemption_policy is not None:
        errors += _choice_errors(f"{path}.preemptionPolicy", spec.preemption_policy, PREEMPTION_POLICIES)
    return errors


def _resources_errors(path: str, spec: PodSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.overhead:
        errors += container_resources_errors(f"{path}.overhead", ResourceRequirements(limits=spec.overhead))
    if spec.resources is not None:
        errors += pod_resources_errors(f"{path}.resources", spec.resources)
        errors += pod_level_errors(f"{path}.resources", spec, spec.resources)
    return errors


def pod_status_errors(new: Json, old: Json) -> list[FieldError]:
    status = typed(new, PodInStatus).status or PodStatus()
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


_PORT_NAME = re.compile("[-a-z0-9]+").fullmatch
_LETTER = re.compile("[a-z]").search
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_CONTAINER_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_PORT_RANGE = "must be between 1 and 65535, inclusive"
_LAST_PORT = 65535
_NOT_CONTAINER_PORT = "must match `containerPort` when `hostNetwork` is true"


def all_container_errors(path: str, spec: PodSpec) -> list[FieldError]:
    containers, init_containers = spec.containers or (), spec.init_containers or ()
    if not containers:
        return [required(f"{path}.containers")]
    names: set[str] = set()
    errors = _list_errors(f"{path}.containers", containers, names)
    errors += _host_port_errors(f"{path}.containers", containers)
    errors += _list_errors(f"{path}.initContainers", init_containers, names)
    for index, container in enumerate(init_containers):
        errors += _host_port_errors(f"{path}.initContainers[{index}]", [container])
    return errors


def image_whitespace_errors(path: str, spec: PodSpec) -> list[FieldError]:
    """For pods, not for templates."""
    lists = (("containers", spec.containers), ("initContainers", spec.init_containers))
    return [
        invalid(f"{path}.{name}[{index}].image", container.image, "must not have leading or trailing whitespace")
        for name, containers in lists
        for index, container in enumerate(containers or ())
        if container.image and container.image != container.image.strip()
    ]


def _list_errors(path: str, containers: Sequence[Container], names: set[str]) -> list[FieldError]:
    """Also adds the names to those seen so far, which must all differ."""
    errors: list[FieldError] = []
    for index, container in enumerate(containers):
        here, name = f"{path}[{index}]", container.name or ""
        errors += _container_errors(here, container)
        if name and name in names:
            errors.append(duplicate(f"{here}.name", name))
        names.add(name)
    return errors


def _container_errors(path: str, container: Container) -> list[FieldError]:
    errors: list[FieldError] = []
    if not container.name:
        errors.append(required(f"{path}.name"))
    else:
        errors += complaints(f"{path}.name", container.name, dns_label_errors(container.name))
    if not container.image:
        errors.append(required(f"{path}.image"))
    if container.ports:
        errors += _port_errors(f"{path}.ports", container.ports)
    if container.image_pull_policy and container.image_pull_policy not in _PULL_POLICIES:
        errors.append(not_supported(f"{path}.imagePullPolicy", container.image_pull_policy, _PULL_POLICIES))
    if container.restart_policy and container.restart_policy not in _CONTAINER_RESTART_POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", container.restart_policy, _CONTAINER_RESTART_POLICIES))
    if container.resources is not None:
        errors += container_resources_errors(f"{path}.resources", container.resources)
    return errors


def _port_errors(path: str, ports: Sequence[ContainerPort]) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        if port.name:
            wrong = port_name_errors(port.name)
            errors += complaints(f"{here}.name", port.name, wrong)
            if not wrong and port.name in names:
                errors.append(duplicate(f"{here}.name", port.name))
            names.add(port.name)
        errors += _port_number_errors(here, port)
        if port.protocol not in _PROTOCOLS:
            errors.append(not_supported(f"{here}.protocol", port.protocol or "", _PROTOCOLS))
    return errors


def port_name_errors(name: str) -> tuple[str, ...]:
    rules = (
        (len(name) <= 15, "must be no more than 15 bytes"),
        (_PORT_NAME(name), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (_LETTER(name), "must contain at least one letter (a-z)"),
        ("--" not in name, "must not contain consecutive hyphens"),
        (name.strip("-") == name, "must not begin or end with a hyphen"),
    )
    return tuple(wrong for kept, wrong in rules if not kept)


def _port_number_errors(path: str, port: ContainerPort) -> list[FieldError]:
    errors: list[FieldError] = []
    if not port.container_port:
        errors.append(required(f"{path}.containerPort"))
    elif not 0 < port.container_port <= _LAST_PORT:
        errors.append(invalid(f"{path}.containerPort", port.container_port, _PORT_RANGE))
    if port.host_port and not 0 < port.host_port <= _LAST_PORT:
        errors.append(invalid(f"{path}.hostPort", port.host_port, _PORT_RANGE))
    return errors


def _host_port_errors(path: str, containers: Sequence[Container]) -> list[FieldError]:
    """No two ports of these containers may take the same port of the host."""
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.ports or ()):
            place = f"{port.protocol}/{port.host_ip or ''}/{port.host_port}"
            if port.host_port and place in taken:
                errors.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", place))
            taken.add(place)
    return errors


def host_network_errors(path: str, spec: PodSpec) -> list[FieldError]:
    """On the host's network a container's port is the host's port; a template may leave the latter open."""
    if not spec.host_network:
        return []
    return [
        invalid(f"{path}.containers[{index}].ports[{number}].hostPort", port.host_port, _NOT_CONTAINER_PORT)
        for index, container in enumerate(spec.containers or ())
        for number, port in enumerate(container.ports or ())
        if port.host_port and port.host_port != port.container_port
    ]


def ephemeral_errors(path: str, spec: PodSpec) -> list[FieldError]:
    if not spec.ephemeral_containers:
        return []
    return [forbidden(f"{path}.ephemeralContainers", "cannot be set on create")]
