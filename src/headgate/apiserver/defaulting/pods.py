"""Defaults of pods, pod templates and containers, and the first status of a new pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_

from headgate.apiserver.defaulting.fields import (
    CONTAINER,
    POD_SPEC,
    canonical_quantities,
    with_canonical_quantities,
    without_empty_lists,
    without_unknown,
)
from headgate.apiserver.defaulting.pod_resources import Nanos, with_pod_requests
from headgate.apiserver.messages import Json
from headgate.model.quantity import parse_quantity

_SPEC_DEFAULTS: Json = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_GATED_CONDITION: Json = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_CONTAINER_LISTS = ("containers", "initContainers")
_QOS_RESOURCES = ("cpu", "memory")


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
    spec = without_unknown(without_empty_lists(spec), POD_SPEC)
    whole = {**spec, **{name: value for name, value in _SPEC_DEFAULTS.items() if not spec.get(name)}}
    if spec.get("terminationGracePeriodSeconds") is None:
        whole["terminationGracePeriodSeconds"] = 30
    if spec.get("securityContext") is None:
        whole["securityContext"] = {}
    for name in _CONTAINER_LISTS:
        if spec.get(name):
            whole[name] = each_container(spec[name], default_container)
    if spec.get("overhead"):
        whole["overhead"] = canonical_quantities(spec["overhead"])
    if spec.get("resources"):
        whole["resources"] = with_canonical_quantities(spec["resources"], ("limits", "requests"))
    return whole


def _first_status(spec: Json, now: str | None) -> Json:
    """Pending, with its quality of service; gated pods say so in their PodScheduled condition."""
    status: Json = {"phase": "Pending", "qosClass": _qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [{**_GATED_CONDITION, "lastTransitionTime": now}]
    return status


def _qos_class(spec: Json) -> str:
    """BestEffort asks for nothing; Guaranteed limits all cpu and memory to what it asks for; Burstable is between."""
    asking = (
        [spec]
        if spec.get("resources") is not None
        else [part for name in _CONTAINER_LISTS for part in spec.get(name) or ()]
    )
    requests, limits, limited = Nanos(), Nanos(), True
    for part in asking:
        resources = part.get("resources") or {}
        limited = _added(limits, resources.get("limits") or {}) == len(_QOS_RESOURCES) and limited
        _added(requests, resources.get("requests") or {})
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if limited and requests == limits else "Burstable"


def _added(total: Nanos, amounts: Json) -> int:
    """Adds what is more than nothing of the resources that count; returns of how many there was any."""
    found = 0
    for name in _QOS_RESOURCES:
        if name in amounts and (nanos := parse_quantity(amounts[name]).nanos) > 0:
            total[name] = total.get(name, 0) + nanos
            found += 1
    return found


_CONTAINER_DEFAULTS: Json = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}


def each_container(containers: list[Json], rewrite: Callable[[Json], Json]) -> list[Json]:
    """All of them rewritten; the very same list when nothing changes."""
    rewritten = [rewrite(container) for container in containers]
    return containers if all(map(is_, rewritten, containers)) else rewritten


def default_container(container: Json) -> Json:
    """What pods and pod templates share; the very same container when nothing is missing."""
    whole = without_unknown(container, CONTAINER)
    missing = {name: value for name, value in _CONTAINER_DEFAULTS.items() if not container.get(name)}
    if not container.get("imagePullPolicy"):
        missing["imagePullPolicy"] = _pull_policy(container.get("image") or "")
    given = container.get("resources")
    resources = with_canonical_quantities(given or {}, ("limits", "requests"))
    if resources is not given and (resources or given is None):
        missing["resources"] = resources
    if not all(port.get("protocol") for port in container.get("ports") or ()):
        missing["ports"] = [{**port, "protocol": port.get("protocol") or "TCP"} for port in container["ports"]]
    return {**whole, **missing} if missing else whole


def _pull_policy(image: str) -> str:
    """An image without a tag or a digest is the latest, and the latest is always pulled."""
    tag = image.rpartition("/")[2].partition(":")[2]
    return "IfNotPresent" if "@" in image or (tag and tag != "latest") else "Always"


def requests_from_limits(container: Json) -> Json:
    """Where a limit is given without a request, the request is the limit; for pods only, never for templates."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if limits.keys() <= requests.keys():
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def host_ports_from_ports(container: Json) -> Json:
    """On the host's network a port of the container is the same port of the host; for pods only."""
    if not container.get("ports"):
        return container
    ports = [{**port, "hostPort": port.get("hostPort") or port.get("containerPort")} for port in container["ports"]]
    return {**container, "ports": ports}


_TERM_LISTS = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")


def with_label_keys(spec: Json, labels: Mapping[str, str]) -> Json:
    """The spec whose selectors say what `matchLabelKeys` and `mismatchLabelKeys` mean for a pod with these labels."""
    changed: Json = {}
    if spec.get("topologySpreadConstraints"):
        constraints = spec["topologySpreadConstraints"]
        changed["topologySpreadConstraints"] = [
            _with_label_expressions(constraint, labels) for constraint in constraints
        ]
    if spec.get("affinity"):
        changed["affinity"] = _affinity(spec["affinity"], labels)
    return {**spec, **changed} if changed else spec


def _affinity(affinity: Json, labels: Mapping[str, str]) -> Json:
    changed = dict(affinity)
    for kind in ("podAffinity", "podAntiAffinity"):
        if affinity.get(kind):
            changed[kind] = {**affinity[kind], **_affinity_terms(affinity[kind], labels)}
    return changed


def _affinity_terms(affinity: Json, labels: Mapping[str, str]) -> Json:
    demanded, wished = _TERM_LISTS
    changed: Json = {}
    if affinity.get(demanded):
        changed[demanded] = [_with_label_expressions(term, labels) for term in affinity[demanded]]
    if affinity.get(wished):
        changed[wished] = [
            {**wish, "podAffinityTerm": _with_label_expressions(wish.get("podAffinityTerm") or {}, labels)}
            for wish in affinity[wished]
        ]
    return changed


def _with_label_expressions(term: Json, labels: Mapping[str, str]) -> Json:
    """Expressions are added behind those there are, and only once."""
    selector = term.get("labelSelector")
    if selector is None:
        return term
    present = selector.get("matchExpressions") or []
    wanted = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(name) or ()
        if key in labels
    ]
    added = [expression for expression in wanted if expression not in present]
    return {**term, "labelSelector": {**selector, "matchExpressions": [*present, *added]}} if added else term
