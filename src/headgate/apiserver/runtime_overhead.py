"""The RuntimeClass admission plugin: new pods get the overhead of the class they name."""

from __future__ import annotations

from headgate.apiserver.admission import Catalog, Operation
from headgate.apiserver.field_errors import same
from headgate.apiserver.messages import Json
from headgate.apiserver.status import forbidden

_CLASSES = "runtimeclasses.node.k8s.io"
_DIFFERS = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_UNFOUNDED = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeOverhead:
    """Refuses a pod whose class is not there, and an overhead other than that of its class."""

    resources = frozenset({("", "pods")})
    keeps_complete = True

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        new = operation.new
        if new is None or not _is_new_pod(operation):
            return new
        spec, overhead = new.get("spec") or {}, _overhead(operation, catalog)
        if overhead and not same(spec.get("overhead") or overhead, overhead):
            raise forbidden(operation.resource, operation.name, _DIFFERS)
        return {**new, "spec": {**spec, "overhead": overhead}} if overhead and not spec.get("overhead") else new

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        spec = (operation.new or {}).get("spec") or {}
        if _is_new_pod(operation) and spec.get("overhead") and not _overhead(operation, catalog):
            raise forbidden(operation.resource, operation.name, _UNFOUNDED)


def _is_new_pod(operation: Operation) -> bool:
    resource = operation.resource
    return (resource.group, resource.plural, operation.subresource, operation.verb) == ("", "pods", "", "CREATE")


def _overhead(operation: Operation, catalog: Catalog) -> Json:
    name = ((operation.new or {}).get("spec") or {}).get("runtimeClassName")
    if not name:
        return {}
    found = catalog.get(_CLASSES, "", name)
    if found is None:
        raise forbidden(operation.resource, operation.name, f'pod rejected: RuntimeClass "{name}" not found')
    fixed: Json = (found.get("overhead") or {}).get("podFixed") or {}
    return fixed
