"""Defaults of pods, pod templates, containers and pod-level resources, and the first status of a new pod."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import is_

from headgate.apiserver.defaulting.fields import (
    CONTAINER,
    POD_SPEC,
    cached_quantity,
    canonical_quantities,
    with_canonical_quantities,
    without_empty,
    without_empty_lists,
    without_unknown,
)
from headgate.apiserver.messages import Json
from headgate.model.quantity import Quantity

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
    """The pod with its spec defaulted; idempotent."""
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
    """A new pod: defaulted, with the initial status whatever the client sent."""
    whole = default_pod(pod)
    spec = with_label_keys(whole["spec"], pod["metadata"].get("labels") or {})
    return {**whole, "spec": spec, "status": _first_status(spec, pod["metadata"].get("creationTimestamp"))}


def default_pod_template(template: Json) -> Json:
    """The template with its pod's spec defaulted, and without empty fields of its metadata."""
    given = template.get("metadata")
    metadata = {"metadata": without_empty(given)} if given else {}
    return {**template, **metadata, "spec": default_pod_spec(template.get("spec") or {})}


def default_pod_spec(spec: Json) -> Json:
    """The defaults that pods and pod templates share."""
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
    """The initial status: Pending, with its QoS class and, if gated, the PodScheduled condition."""
    status: Json = {"phase": "Pending", "qosClass": _qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [{**_GATED_CONDITION, "lastTransitionTime": now}]
    return status


def _qos_class(spec: Json) -> str:
    """BestEffort without requests and limits, Guaranteed if all cpu and memory limits equal the requests, else
    Burstable.
    """
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
    """Adds the positive amounts of cpu and memory to the total; returns how many there were."""
    found = 0
    for name in _QOS_RESOURCES:
        if name in amounts and (nanos := cached_quantity(amounts[name]).nanos) > 0:
            total[name] = total.get(name, 0) + nanos
            found += 1
    return found


_CONTAINER_DEFAULTS: Json = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}


def each_container(containers: list[Json], rewrite: Callable[[Json], Json]) -> list[Json]:
    """The containers rewritten; the identical list if nothing changes."""
    rewritten = [rewrite(container) for container in containers]
    return containers if all(map(is_, rewritten, containers)) else rewritten


def default_container(container: Json) -> Json:
    """The defaults that containers of pods and pod templates share; the identical container if none is missing."""
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
    """Always for the tag `latest` or no tag, else IfNotPresent."""
    tag = image.rpartition("/")[2].partition(":")[2]
    return "IfNotPresent" if "@" in image or (tag and tag != "latest") else "Always"


def requests_from_limits(container: Json) -> Json:
    """Requests default to limits; in pods only, not in templates."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if limits.keys() <= requests.keys():
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def host_ports_from_ports(container: Json) -> Json:
    """On the host network, hostPort defaults to containerPort; in pods only."""
    if not container.get("ports"):
        return container
    ports = [{**port, "hostPort": port.get("hostPort") or port.get("containerPort")} for port in container["ports"]]
    return {**container, "ports": ports}


_TERM_LISTS = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")


def with_label_keys(spec: Json, labels: Mapping[str, str]) -> Json:
    """The spec with `matchLabelKeys` and `mismatchLabelKeys` merged into selectors, for a pod with these labels."""
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
    required, preferred = _TERM_LISTS
    changed: Json = {}
    if affinity.get(required):
        changed[required] = [_with_label_expressions(term, labels) for term in affinity[required]]
    if affinity.get(preferred):
        changed[preferred] = [
            {**weighted, "podAffinityTerm": _with_label_expressions(weighted.get("podAffinityTerm") or {}, labels)}
            for weighted in affinity[preferred]
        ]
    return changed


def _with_label_expressions(term: Json, labels: Mapping[str, str]) -> Json:
    """The term with the expressions its label keys stand for appended, each once."""
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


Nanos = dict[str, int]
"""Amounts by resource name, in billionths."""


def nanos_of(amounts: Mapping[str, str | int | float]) -> Nanos:
    return {name: cached_quantity(str(amount)).nanos for name, amount in amounts.items()}


def pod_total(containers: Iterable[Nanos], init_containers: Iterable[tuple[Nanos, bool]]) -> Nanos:
    """The most a pod's containers use at once: all containers with all sidecars, or an init container with the sidecars
    before it.

    Init containers come with whether they are sidecars.
    """
    running = _sum(containers)
    most, sidecars = running, Nanos()
    for asked, is_sidecar in init_containers:
        if is_sidecar:
            sidecars = _sum((sidecars, asked))
            most = _largest(most, sidecars)
        else:
            most = _largest(most, _sum((sidecars, asked)))
    return _largest(most, _sum((running, sidecars)))


def _sum(parts: Iterable[Nanos]) -> Nanos:
    sums: Nanos = {}
    for part in parts:
        for name, nanos in part.items():
            sums[name] = sums.get(name, 0) + nanos
    return sums


def _largest(one: Nanos, other: Nanos) -> Nanos:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


_HUGE_PAGES = "hugepages-"
_AGGREGATED = ("cpu", "memory")


def with_pod_requests(spec: Json) -> Json:
    """The spec with pod-level requests defaulted from the containers' requests and else from pod-level limits."""
    resources = spec["resources"]
    if not resources.get("limits"):
        return spec
    limits = _amounts(spec, "limits", huge=True) | resources["limits"]
    requests = limits | _amounts(spec, "requests", huge=False) | (resources.get("requests") or {})
    if requests == resources.get("requests") and limits == resources["limits"]:
        return spec
    return {**spec, "resources": {**resources, "limits": limits, "requests": requests}}


def _amounts(spec: Json, field: str, *, huge: bool) -> Json:
    """The containers' total requests or limits, of huge pages or of cpu and memory."""
    nanos = pod_total(
        [_nanos(container, field) for container in spec.get("containers") or ()],
        [(_nanos(one, field), one.get("restartPolicy") == "Always") for one in spec.get("initContainers") or ()],
    )
    notations = {name: cached_quantity(str(amount)).notation for name, amount in reversed(list(_each(spec, field)))}
    wanted = [name for name in nanos if (name.startswith(_HUGE_PAGES) if huge else name in _AGGREGATED)]
    return {name: str(Quantity(nanos[name], notations[name])) for name in wanted}


def _each(spec: Json, field: str) -> Iterator[tuple[str, str | int | float]]:
    for part in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        yield from ((part.get("resources") or {}).get(field) or {}).items()


def _nanos(container: Json, field: str) -> Nanos:
    return nanos_of((container.get("resources") or {}).get(field) or {})
