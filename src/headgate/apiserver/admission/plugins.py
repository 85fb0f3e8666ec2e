"""Built-in admission plugins: LimitRanger, TaintNodesByCondition, Priority, DefaultTolerationSeconds, RuntimeClass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from headgate.apiserver.admission.chain import Catalog, Operation, Plugin
from headgate.apiserver.admission.policies import PolicyAdmission
from headgate.apiserver.defaulting import Nanos, nanos_of, pod_total
from headgate.apiserver.field_errors import same
from headgate.apiserver.messages import Json
from headgate.apiserver.status import forbidden
from headgate.model.quantity import NANOS, Quantity

_CONTAINERS = {"containers": "container", "initContainers": "init container"}
LIMIT_RANGER_ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanger:
    """Applies limit ranges to new pods: defaults requests and limits of containers, refuses what is out of bounds."""

    resources = frozenset({("", "pods")})
    keeps_complete = False

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        new = operation.new
        if new is None:
            return None
        for limit_range in _ranges(operation, catalog):
            new = _with_limit_defaults(new, [one for one in _limits(limit_range) if one.get("type") == "Container"])
        return new

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        for limit_range in _ranges(operation, catalog):
            wrong = [error for limit in _limits(limit_range) for error in _limit_violations(operation.new or {}, limit)]
            if wrong:
                why = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
                raise forbidden(operation.resource, operation.name, why)


def _ranges(operation: Operation, catalog: Catalog) -> Sequence[Json]:
    resource = operation.resource
    concerned = (resource.group, resource.plural, operation.subresource, operation.verb) == ("", "pods", "", "CREATE")
    if not concerned:
        return ()
    found = catalog.list("limitranges")
    return [one for one in found if one["metadata"]["namespace"] == operation.namespace]


def _limits(limit_range: Json) -> Sequence[Json]:
    limits: Sequence[Json] = (limit_range.get("spec") or {}).get("limits") or ()
    return limits


def _with_limit_defaults(pod: Json, limits: Sequence[Json]) -> Json:
    """The pod with default requests and limits; the identical pod where none is missing."""
    spec, told = pod.get("spec") or {}, list[str]()
    changed = {
        field: [_with_container_defaults(one, limits, called, told) for one in spec[field]]
        for field, called in _CONTAINERS.items()
        if spec.get(field)
    }
    if not told:
        return pod
    metadata = pod["metadata"]
    annotations = {
        **(metadata.get("annotations") or {}),
        LIMIT_RANGER_ANNOTATION: f"LimitRanger plugin set: {'; '.join(told)}",
    }
    return {**pod, "metadata": {**metadata, "annotations": annotations}, "spec": {**spec, **changed}}


def _with_container_defaults(container: Json, limits: Sequence[Json], called: str, told: list[str]) -> Json:
    resources = container.get("resources") or {}
    filled: Json = {}
    for field, default, word in (("requests", "defaultRequest", "request"), ("limits", "default", "limit")):
        has = resources.get(field) or {}
        more = {name: amount for one in limits for name, amount in (one.get(default) or {}).items() if name not in has}
        if more:
            filled[field] = {**has, **more}
            told.append(f"{', '.join(sorted(more))} {word} for {called} {container.get('name')}")
    return {**container, "resources": {**resources, **filled}} if filled else container


def _limit_violations(pod: Json, limit: Json) -> Iterator[str]:
    spec, type_ = pod.get("spec") or {}, limit.get("type")
    if type_ == "Container":
        for field in _CONTAINERS:
            for container in spec.get(field) or ():
                yield from _bound_violations(
                    limit, _container_nanos(container, "requests"), _container_nanos(container, "limits")
                )
    elif type_ == "Pod":
        yield from _bound_violations(limit, _pod_nanos(spec, "requests"), _pod_nanos(spec, "limits"))


def _bound_violations(limit: Json, requests: Nanos, limits: Nanos) -> Iterator[str]:
    for name, least in nanos_of(limit.get("min") or {}).items():
        usage = f"minimum {name} usage per {limit['type']} is {Quantity(least)}"
        if name not in requests:
            yield f"{usage}.  No request is specified"
        elif requests[name] < least:
            yield f"{usage}, but request is {Quantity(requests[name])}"
        elif limits.get(name, least) < least:
            yield f"{usage}, but limit is {Quantity(limits[name])}"
    for name, most in nanos_of(limit.get("max") or {}).items():
        usage = f"maximum {name} usage per {limit['type']} is {Quantity(most)}"
        if name not in limits:
            yield f"{usage}.  No limit is specified"
        elif limits[name] > most:
            yield f"{usage}, but limit is {Quantity(limits[name])}"
        elif requests.get(name, 0) > most:
            yield f"{usage}, but request is {Quantity(requests[name])}"
    for name, ratio in nanos_of(limit.get("maxLimitRequestRatio") or {}).items():
        yield from _ratio_violations(
            f"{name} max limit to request ratio per {limit['type']} is {Quantity(ratio)}",
            ratio,
            (requests.get(name, 0), limits.get(name, 0)),
        )


def _ratio_violations(ratio_is: str, ratio: int, asked: tuple[int, int]) -> Iterator[str]:
    request, limit = asked
    if not request:
        yield f"{ratio_is}, but no request is specified or request is 0"
    elif not limit:
        yield f"{ratio_is}, but no limit is specified or limit is 0"
    elif limit * NANOS > ratio * request:
        yield f"{ratio_is}, but provided ratio is {limit / request:f}"


def _container_nanos(container: Json, field: str) -> Nanos:
    return nanos_of((container.get("resources") or {}).get(field) or {})


def _pod_nanos(spec: Json, field: str) -> Nanos:
    init = [
        (_container_nanos(one, field), one.get("restartPolicy") == "Always") for one in spec.get("initContainers") or ()
    ]
    summed = pod_total([_container_nanos(one, field) for one in spec.get("containers") or ()], init)
    return {**summed, **_container_nanos(spec, field)}


_PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"


class _ResolvedPriority(Struct, frozen=True, gc=False):
    """The priority and preemption policy a pod gets from its class, or without one."""

    name: str = ""
    priority: int = 0
    policy: str | None = "PreemptLowerPriority"


class Priority:
    """Resolves `priorityClassName` of new pods, keeps what updates leave out, allows one global default."""

    resources = frozenset({("", "pods"), ("scheduling.k8s.io", "priorityclasses")})
    keeps_complete = True

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        new, old = operation.new, operation.old
        if new is None or not _is_of(operation, "", "pods"):
            return new
        if operation.verb == "UPDATE" and old is not None:
            return _with_kept_priority(new, old)
        return _with_priority(operation, new, catalog) if operation.verb == "CREATE" else new

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        new = operation.new
        if new is None or not new.get("globalDefault"):
            return
        if _is_of(operation, "scheduling.k8s.io", "priorityclasses"):
            _refuse_second_default(operation, catalog)


def _is_of(operation: Operation, group: str, plural: str) -> bool:
    resource = operation.resource
    return (resource.group, resource.plural, operation.subresource) == (group, plural, "")


def _with_kept_priority(new: Json, old: Json) -> Json:
    """The updated pod with the priority and preemption policy it has, where the update leaves them out."""
    before, spec = old.get("spec") or {}, new.get("spec") or {}
    if spec is before:
        return new
    left_out = {
        name: before[name]
        for name in ("priority", "preemptionPolicy")
        if spec.get(name) is None and before.get(name) is not None
    }
    return {**new, "spec": {**spec, **left_out}} if left_out else new


def _with_priority(operation: Operation, new: Json, catalog: Catalog) -> Json:
    spec = new.get("spec") or {}
    standing = _resolved_priority(operation, spec.get("priorityClassName") or "", catalog)
    given, policy = spec.get("priority"), spec.get("preemptionPolicy")
    if given is not None and given != standing.priority:
        raise forbidden(
            operation.resource,
            operation.name,
            f"the integer value of priority ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {standing.priority} from the given PriorityClass name",
        )
    if standing.policy is not None and policy is not None and policy != standing.policy:
        raise forbidden(
            operation.resource,
            operation.name,
            f"the string value of PreemptionPolicy ({policy}) must not be provided in pod spec; "
            f"priority admission controller computed {standing.policy} from the given PriorityClass name",
        )
    return {**new, "spec": {**spec, **_priority_fields(standing)}}


def _priority_fields(standing: _ResolvedPriority) -> Json:
    fields: Json = {"priority": standing.priority}
    if standing.name:
        fields["priorityClassName"] = standing.name
    if standing.policy is not None:
        fields["preemptionPolicy"] = standing.policy
    return fields


def _resolved_priority(operation: Operation, name: str, catalog: Catalog) -> _ResolvedPriority:
    found = catalog.get(_PRIORITY_CLASSES, "", name) if name else _default_class(catalog)
    if found is not None:
        return _ResolvedPriority(found["metadata"]["name"], found.get("value") or 0, found.get("preemptionPolicy"))
    if name:
        raise forbidden(operation.resource, operation.name, f"no PriorityClass with name {name} was found")
    return _ResolvedPriority()


def _default_class(catalog: Catalog) -> Json | None:
    """The global default class; of several, the one with the lowest value."""
    marked = [one for one in catalog.list(_PRIORITY_CLASSES) if one.get("globalDefault")]
    return min(marked, key=lambda one: one.get("value") or 0, default=None)


def _refuse_second_default(operation: Operation, catalog: Catalog) -> None:
    present = _default_class(catalog)
    if present is None:
        return
    name = present["metadata"]["name"]
    if operation.verb == "CREATE" or name != operation.name:
        raise forbidden(
            operation.resource,
            operation.name,
            f"PriorityClass {name} is already marked as default. Only one default can exist",
        )


_RUNTIME_CLASSES = "runtimeclasses.node.k8s.io"
_OVERHEAD_DIFFERS = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_OVERHEAD_UNDEFINED = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClassOverhead:
    """The RuntimeClass plugin: sets a new pod's overhead from its class and refuses any other."""

    resources = frozenset({("", "pods")})
    keeps_complete = True

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        new = operation.new
        if new is None or not _is_new_pod(operation):
            return new
        spec, overhead = new.get("spec") or {}, _overhead(operation, catalog)
        if overhead and not same(spec.get("overhead") or overhead, overhead):
            raise forbidden(operation.resource, operation.name, _OVERHEAD_DIFFERS)
        return {**new, "spec": {**spec, "overhead": overhead}} if overhead and not spec.get("overhead") else new

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        spec = (operation.new or {}).get("spec") or {}
        if _is_new_pod(operation) and spec.get("overhead") and not _overhead(operation, catalog):
            raise forbidden(operation.resource, operation.name, _OVERHEAD_UNDEFINED)


def _is_new_pod(operation: Operation) -> bool:
    resource = operation.resource
    return (resource.group, resource.plural, operation.subresource, operation.verb) == ("", "pods", "", "CREATE")


def _overhead(operation: Operation, catalog: Catalog) -> Json:
    name = ((operation.new or {}).get("spec") or {}).get("runtimeClassName")
    if not name:
        return {}
    found = catalog.get(_RUNTIME_CLASSES, "", name)
    if found is None:
        raise forbidden(operation.resource, operation.name, f'pod rejected: RuntimeClass "{name}" not found')
    fixed: Json = (found.get("overhead") or {}).get("podFixed") or {}
    return fixed


TOLERATION_SECONDS = 300
_TOLERATED_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds:
    """Pods tolerate the not-ready and unreachable taints for five minutes, unless they say otherwise."""

    resources = frozenset({("", "pods")})
    keeps_complete = True

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        new, resource = operation.new, operation.resource
        if new is None or (resource.group, resource.plural, operation.subresource) != ("", "pods", ""):
            return new
        spec = new.get("spec") or {}
        if operation.old is not None and spec is operation.old.get("spec"):
            return new
        tolerations = spec.get("tolerations") or []
        added = [
            given for taint, given in _TOLERATIONS.items() if not any(_tolerates(one, taint) for one in tolerations)
        ]
        return {**new, "spec": {**spec, "tolerations": [*tolerations, *added]}} if added else new

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        """Refuses nothing."""


def _tolerates(toleration: Json, taint: str) -> bool:
    return toleration.get("key") in (None, "", taint) and toleration.get("effect") in (None, "", "NoExecute")


def _toleration(taint: str) -> Json:
    return {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}


_TOLERATIONS = {taint: _toleration(taint) for taint in _TOLERATED_TAINTS}  # shared by all pods that get them


_NOT_READY: Json = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNodesByCondition:
    """Taints new nodes as not ready.

    On a real cluster a controller removes the taint when the node reports that it is ready; a node that is created
    ready is therefore not tainted.
    """

    resources = frozenset({("", "nodes")})
    keeps_complete = True

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        new, resource = operation.new, operation.resource
        concerned = (resource.group, resource.plural, operation.verb) == ("", "nodes", "CREATE")
        if new is None or not concerned or _is_ready(new):
            return new
        spec = new.get("spec") or {}
        taints = spec.get("taints") or []
        if any(taint.get("key") == _NOT_READY["key"] for taint in taints):
            return new
        return {**new, "spec": {**spec, "taints": [*taints, _NOT_READY]}}

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        """Refuses nothing."""


def _is_ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


ADMISSION: tuple[Plugin, ...] = (
    LimitRanger(),
    TaintNodesByCondition(),
    Priority(),
    DefaultTolerationSeconds(),
    RuntimeClassOverhead(),
    PolicyAdmission(),
)
"""The built-in admission plugins, in order; webhooks come after them."""
