"""What nodes, namespaces, priority classes and disruption budgets leave unsaid."""

from __future__ import annotations

from headgate.apiserver.defaults_amounts import with_canonical_amounts
from headgate.apiserver.messages import Json

NAME_LABEL = "kubernetes.io/metadata.name"
_KUBERNETES = "kubernetes"
_UNKNOWN_SYSTEM = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage"),
    *("containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
)
_NODE_STATUS: Json = {
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "nodeInfo": dict.fromkeys(_UNKNOWN_SYSTEM, ""),
}
_NO_DISRUPTIONS: Json = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}


def default_node(node: Json) -> Json:
    """Allocatable is the whole capacity unless it is said."""
    status = with_canonical_amounts(_NODE_STATUS | (node.get("status") or {}), ("capacity", "allocatable"))
    if status.get("capacity") and status.get("allocatable") is None:
        status = {**status, "allocatable": status["capacity"]}
    return {**node, "spec": node.get("spec") or {}, "status": status}


def default_namespace(namespace: Json) -> Json:
    """Every namespace carries its name as a label, so that selectors can find it, and the finalizer of its content."""
    metadata, spec = namespace["metadata"], namespace.get("spec") or {}
    labels = {**(metadata.get("labels") or {}), NAME_LABEL: metadata.get("name")}
    finalizers = spec.get("finalizers") or []
    if _KUBERNETES not in finalizers:
        finalizers = [*finalizers, _KUBERNETES]
    return {**namespace, "metadata": {**metadata, "labels": labels}, "spec": {**spec, "finalizers": finalizers}}


def update_namespace(new: Json, old: Json) -> Json:
    """As at creation, but the finalizers of the content are not the client's to change."""
    return default_namespace({**new, "spec": old.get("spec") or {}, "status": old.get("status") or {}})


def new_namespace(namespace: Json) -> Json:
    return {**default_namespace(namespace), "status": {"phase": "Active"}}


def default_priority_class(priority_class: Json) -> Json:
    return {
        **priority_class,
        "value": priority_class.get("value") or 0,
        "preemptionPolicy": priority_class.get("preemptionPolicy") or "PreemptLowerPriority",
    }


def new_budget(budget: Json) -> Json:
    """Until somebody counts, nothing may be disrupted."""
    return {**budget, "status": _NO_DISRUPTIONS}


def default_config_map(config_map: Json) -> Json:
    return config_map if config_map.get("data") is not None else {**config_map, "data": {}}
