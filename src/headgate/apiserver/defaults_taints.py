"""The TaintNodesByCondition admission plugin: a new node takes no pods before it is ready."""

from __future__ import annotations

from headgate.apiserver.admission import Catalog, Operation
from headgate.apiserver.messages import Json

_NOT_READY: Json = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNewNodes:
    """Taints new nodes as not ready.

    On a real cluster a controller takes the taint off when the node reports that it is ready; a node that is created
    ready is therefore left alone.
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
        """Nothing is refused here."""


def _is_ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
