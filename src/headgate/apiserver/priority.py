"""The Priority admission plugin: priority classes become numbers on pods, once, when they are created."""

from __future__ import annotations

from msgspec import Struct

from headgate.apiserver.admission import Catalog, Operation
from headgate.apiserver.messages import Json
from headgate.apiserver.status import forbidden

_CLASSES = "priorityclasses.scheduling.k8s.io"


class _Standing(Struct, frozen=True, gc=False):
    """What a pod gets from its class, or from there being none."""

    name: str = ""
    priority: int = 0
    policy: str | None = "PreemptLowerPriority"


class Priority:
    """Resolves `priorityClassName` of new pods, keeps what updates leave out, allows one global default."""

    resources = frozenset({("", "pods"), ("scheduling.k8s.io", "priorityclasses")})
    keeps_complete = True

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        new, old = operation.new, operation.old
        if new is None or not _concerns(operation, "", "pods"):
            return new
        if operation.verb == "UPDATE" and old is not None:
            return _kept(new, old)
        return _ranked(operation, new, catalog) if operation.verb == "CREATE" else new

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        new = operation.new
        if new is None or not new.get("globalDefault"):
            return
        if _concerns(operation, "scheduling.k8s.io", "priorityclasses"):
            _demand_only_default(operation, catalog)


def _concerns(operation: Operation, group: str, plural: str) -> bool:
    resource = operation.resource
    return (resource.group, resource.plural, operation.subresource) == (group, plural, "")


def _kept(new: Json, old: Json) -> Json:
    """An update that does not mention the priority means the one the pod has."""
    before, spec = old.get("spec") or {}, new.get("spec") or {}
    if spec is before:
        return new
    left_out = {
        name: before[name]
        for name in ("priority", "preemptionPolicy")
        if spec.get(name) is None and before.get(name) is not None
    }
    return {**new, "spec": {**spec, **left_out}} if left_out else new


def _ranked(operation: Operation, new: Json, catalog: Catalog) -> Json:
    spec = new.get("spec") or {}
    standing = _standing(operation, spec.get("priorityClassName") or "", catalog)
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
    return {**new, "spec": {**spec, **_fields(standing)}}


def _fields(standing: _Standing) -> Json:
    fields: Json = {"priority": standing.priority}
    if standing.name:
        fields["priorityClassName"] = standing.name
    if standing.policy is not None:
        fields["preemptionPolicy"] = standing.policy
    return fields


def _standing(operation: Operation, name: str, catalog: Catalog) -> _Standing:
    found = catalog.get(_CLASSES, "", name) if name else _default_class(catalog)
    if found is not None:
        return _Standing(found["metadata"]["name"], found.get("value") or 0, found.get("preemptionPolicy"))
    if name:
        raise forbidden(operation.resource, operation.name, f"no PriorityClass with name {name} was found")
    return _Standing()


def _default_class(catalog: Catalog) -> Json | None:
    """The lowest, should there ever be several."""
    marked = [one for one in catalog.list(_CLASSES) if one.get("globalDefault")]
    return min(marked, key=lambda one: one.get("value") or 0, default=None)


def _demand_only_default(operation: Operation, catalog: Catalog) -> None:
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
