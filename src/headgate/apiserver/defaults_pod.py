"""What a pod leaves unsaid, and the status it begins with."""

from __future__ import annotations

from headgate.apiserver.defaults_absent import without_empty_lists
from headgate.apiserver.defaults_amounts import canonical_amounts, with_canonical_amounts
from headgate.apiserver.defaults_containers import (
    default_container,
    each_container,
    host_ports_from_ports,
    requests_from_limits,
)
from headgate.apiserver.defaults_known import POD_SPEC, known
from headgate.apiserver.defaults_pod_level import with_pod_requests
from headgate.apiserver.defaults_selectors import with_label_keys
from headgate.apiserver.messages import Json
from headgate.apiserver.pod_totals import Nanos
from headgate.model.quantity import parse_quantity

_SPEC_DEFAULTS: Json = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_GATED: Json = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_CONTAINER_LISTS = ("containers", "initContainers")
_QUALITY_RESOURCES = ("cpu", "memory")


def default_pod(pod: Json) -> Json:
    """The pod as it is stored; applied to its own result it changes nothing."""
    spec = default_pod_spec(pod.get("spec") or {})
    for name in _CONTAINER_LISTS:
        if spec.get(name):
            spec[name] = each_container(spec[name], requests_from_limits)
            if spec.get("hostNetwork"):
                spec[name] = each_container(spec[name], host_ports_from_ports)
    if spec.get("resources"):
        spec = with_pod_requests(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    return {**pod, "spec": spec}


def new_pod(pod: Json) -> Json:
    """A pod as it is created: completed, with its first status whatever the client says."""
    whole = default_pod(pod)
    spec = with_label_keys(whole["spec"], pod["metadata"].get("labels") or {})
    return {**whole, "spec": spec, "status": _first_status(spec, pod["metadata"].get("creationTimestamp"))}


def default_pod_spec(spec: Json) -> Json:
    """A new spec with what pods and pod templates share."""
    spec = known(without_empty_lists(spec), POD_SPEC)
    whole = {**spec, **{name: value for name, value in _SPEC_DEFAULTS.items() if not spec.get(name)}}
    if spec.get("terminationGracePeriodSeconds") is None:
        whole["terminationGracePeriodSeconds"] = 30
    if spec.get("securityContext") is None:
        whole["securityContext"] = {}
    for name in _CONTAINER_LISTS:
        if spec.get(name):
            whole[name] = each_container(spec[name], default_container)
    if spec.get("overhead"):
        whole["overhead"] = canonical_amounts(spec["overhead"])
    if spec.get("resources"):
        whole["resources"] = with_canonical_amounts(spec["resources"], ("limits", "requests"))
    return whole


def _first_status(spec: Json, now: str | None) -> Json:
    """Pending, with its quality of service; gated pods say so in their PodScheduled condition."""
    status: Json = {"phase": "Pending", "qosClass": quality_of_service(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [{**_GATED, "lastTransitionTime": now}]
    return status


def quality_of_service(spec: Json) -> str:
    """BestEffort asks for nothing; Guaranteed limits all cpu and memory to what it asks for; Burstable is between."""
    asking = (
        [spec]
        if spec.get("resources") is not None
        else [part for name in _CONTAINER_LISTS for part in spec.get(name) or ()]
    )
    requests, limits, limited = Nanos(), Nanos(), True
    for part in asking:
        resources = part.get("resources") or {}
        limited = _added(limits, resources.get("limits") or {}) == len(_QUALITY_RESOURCES) and limited
        _added(requests, resources.get("requests") or {})
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if limited and requests == limits else "Burstable"


def _added(total: Nanos, amounts: Json) -> int:
    """Adds what is more than nothing of the resources that count; returns of how many there was any."""
    found = 0
    for name in _QUALITY_RESOURCES:
        if name in amounts and (nanos := parse_quantity(amounts[name]).nanos) > 0:
            total[name] = total.get(name, 0) + nanos
            found += 1
    return found
