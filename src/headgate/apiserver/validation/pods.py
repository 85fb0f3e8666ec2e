"""Pods: the rules on containers, on a spec, on a new pod, on its updates and on its status."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from headgate.apiserver.field_errors import (
    FieldError,
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
    dns_label_errors,
    label_errors,
    metadata_errors,
    metadata_update_errors,
    qualified_name_errors,
)
from headgate.apiserver.validation.resources import container_resources_errors, pod_level_errors, pod_resources_errors
from headgate.apiserver.validation.scheduling import (
    affinity_errors,
    gate_errors,
    new_gate_errors,
    spread_errors,
    toleration_errors,
)
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
    """The rules on a pod at any time."""
    spec = pod.spec or PodSpec()
    errors = metadata_errors_of(pod)
    errors += pod_spec_errors("spec", spec)
    return errors + image_whitespace_errors("spec", spec)


def metadata_errors_of(pod: Pod) -> list[FieldError]:
    return metadata_errors(pod.metadata or ObjectMeta(), dns_subdomain_errors, namespaced=True)


def pod_spec_errors(path: str, spec: PodSpec) -> list[FieldError]:
    """The rules that pods and pod templates share."""
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
            errors += invalid_each(f"{path}.{field}", name, dns_subdomain_errors(name))
    for field, name in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        if name:
            errors += invalid_each(f"{path}.{field}", name, dns_label_errors(name))
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
            errors += invalid_each(f"status.conditions[{index}].Type", kind, qualified_name_errors(kind))
    nominated = status.nominated_node_name
    if nominated and nominated != before.get("nominatedNodeName"):
        errors += invalid_each("status.nominatedNodeName", nominated, dns_subdomain_errors(nominated))
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
    """Whitespace around images is refused in pods, not in templates."""
    lists = (("containers", spec.containers), ("initContainers", spec.init_containers))
    return [
        invalid(f"{path}.{name}[{index}].image", container.image, "must not have leading or trailing whitespace")
        for name, containers in lists
        for index, container in enumerate(containers or ())
        if container.image and container.image != container.image.strip()
    ]


def _list_errors(path: str, containers: Sequence[Container], names: set[str]) -> list[FieldError]:
    """Errors of the containers; adds their names to those that are taken."""
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
        errors += invalid_each(f"{path}.name", container.name, dns_label_errors(container.name))
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
            errors += invalid_each(f"{here}.name", port.name, wrong)
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
    """Host ports must not conflict between these containers."""
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
    """On the host network, a hostPort must equal its containerPort; a template may omit it."""
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


UPDATABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_CHANGEABLE = ("activeDeadlineSeconds", "schedulingGates", "tolerations")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_AFFINITY = "spec.affinity.nodeAffinity"


def pod_update_errors(new: Json, old: Json) -> list[FieldError]:
    pod = typed(new, Pod)
    errors = metadata_update_errors(new["metadata"], old["metadata"], pod.metadata or ObjectMeta())
    spec, before = new["spec"], old["spec"]
    if spec is before or spec == before:
        return errors + (metadata_errors_of(pod) if errors else [])
    changed = [name for name in {**before, **spec} if not _equal(spec.get(name), before.get(name))]
    if not errors and changed == ["schedulingGates"]:
        return _gate_change_errors(pod.spec or PodSpec(), before)
    return errors + pod_errors(pod) + _spec_update_errors(spec, before, pod.spec or PodSpec())


def _equal(new: Any, old: Any) -> bool:
    return new is old or bool(new == old)


def _gate_change_errors(spec: PodSpec, old: Json) -> list[FieldError]:
    """The rules on gates alone, for an update of nothing else, which is the most frequent one."""
    path, gates = "spec.schedulingGates", spec.scheduling_gates or ()
    before = typed({"schedulingGates": old.get("schedulingGates")}, PodSpec).scheduling_gates or ()
    return gate_errors(path, gates) + new_gate_errors(path, gates, before)


def _spec_update_errors(new: Json, old: Json, spec: PodSpec) -> list[FieldError]:
    """Errors of an update of the spec; `spec` is the new one, typed."""
    errors = _container_update_errors(new, old)
    if errors and errors[-1].detail == _NO_NEW_CONTAINERS:
        return errors
    deadline_errors = _deadline_update_errors(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    if deadline_errors:
        return errors + deadline_errors
    errors += _toleration_update_errors(new.get("tolerations") or [], old.get("tolerations") or [])
    gates = typed({"schedulingGates": old.get("schedulingGates")}, PodSpec).scheduling_gates or ()
    errors += new_gate_errors("spec.schedulingGates", spec.scheduling_gates or (), gates)
    if gates:
        errors += _node_choice_errors(new, old)
    if not same(_munged(new, old, gated=bool(gates)), old):
        errors.append(forbidden("spec", f"pod updates may not change fields other than {','.join(UPDATABLE)}"))
    return errors


_NO_NEW_CONTAINERS = "pod updates may not add or remove containers"


def _container_update_errors(new: Json, old: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("containers", "initContainers"):
        containers = new.get(name) or []
        errors += [
            required(f"spec.{name}[{index}].image") for index, one in enumerate(containers) if not one.get("image")
        ]
        if len(containers) != len(old.get(name) or []):
            return [*errors, forbidden(f"spec.{name}", _NO_NEW_CONTAINERS)]
    return errors


def _deadline_update_errors(new: int | None, old: int | None) -> list[FieldError]:
    """A deadline may be set once and then only be reduced."""
    path = "spec.activeDeadlineSeconds"
    if new is None:
        kept = old is None
        return [] if kept else [invalid(path, None, "must not update from a positive integer to nil value")]
    if not 0 <= new <= LARGEST_DEADLINE:
        return [invalid(path, new, f"must be between 0 and {LARGEST_DEADLINE}, inclusive")]
    if old is not None and old < new:
        return [invalid(path, new, "must be less than or equal to previous value")]
    return []


def _toleration_update_errors(new: Sequence[Json], old: Sequence[Json]) -> list[FieldError]:
    if new == old:
        return []
    kept = [_without_seconds(toleration) for toleration in new]
    if all(any(same(_without_seconds(one), other) for other in kept) for one in old):
        return []
    return [forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _without_seconds(toleration: Json) -> Json:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _node_choice_errors(new: Json, old: Json) -> list[FieldError]:
    """The node selector and affinity of a gated pod may only become narrower."""
    errors: list[FieldError] = []
    selector = new.get("nodeSelector") or {}
    if any(selector.get(name) != value for name, value in (old.get("nodeSelector") or {}).items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(invalid("spec.nodeSelector", selector, detail))
    return errors + _narrowing_errors(_node_terms(new), _node_terms(old))


def _node_affinity(spec: Json) -> Json:
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}


def _node_terms(spec: Json) -> list[Json]:
    return (_node_affinity(spec).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []


def _narrowing_errors(new: list[Json], old: list[Json]) -> list[FieldError]:
    path = f"{_AFFINITY}.{_REQUIRED}.nodeSelectorTerms"
    if old and len(old) != len(new):
        return [invalid(path, new, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")]
    return [
        invalid(f"{path}[{index}]", term, "only additions are allowed (no mutations or deletions)")
        for index, (term, before) in enumerate(zip(new, old, strict=False))
        if not _only_adds(term, before)
    ]


def _only_adds(new: Json, old: Json) -> bool:
    """Whether the new term only adds requirements. An empty term matches nothing, so adding to it would widen the
    choice.
    """
    parts = ("matchExpressions", "matchFields")
    if not any(old.get(part) for part in parts):
        return not any(new.get(part) for part in parts)
    return all(same((new.get(part) or [])[: len(old.get(part) or [])], old.get(part) or []) for part in parts)


def _munged(new: Json, old: Json, *, gated: bool) -> Json:
    """The new spec with every mutable field reset; what still differs is immutable."""
    munged = {name: part for name, part in new.items() if name not in _CHANGEABLE}
    munged |= {name: old[name] for name in _CHANGEABLE if name in old}
    for name in ("containers", "initContainers"):
        if new.get(name) is not old.get(name):
            pairs = zip(new.get(name) or [], old.get(name) or [], strict=True)
            munged[name] = [{**container, "image": before.get("image")} for container, before in pairs]
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    if gated and any(new.get(name) != old.get(name) for name in ("nodeSelector", "affinity")):
        munged["nodeSelector"] = old.get("nodeSelector")
        munged["affinity"] = {**(new.get("affinity") or {}), "nodeAffinity": _node_affinity(old)}
    return munged
