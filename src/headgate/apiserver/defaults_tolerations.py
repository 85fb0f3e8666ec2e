"""The DefaultTolerationSeconds admission plugin: pods stay five minutes on a node that became unreachable."""

from __future__ import annotations

from headgate.apiserver.admission import Catalog, Operation
from headgate.apiserver.messages import Json

GRACE_SECONDS = 300
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds:
    """Adds the two tolerations where a pod says nothing about these taints."""

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
        added = [_toleration(taint) for taint in _TAINTS if not any(_speaks_of(one, taint) for one in tolerations)]
        return {**new, "spec": {**spec, "tolerations": [*tolerations, *added]}} if added else new

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        """Nothing is refused here."""


def _speaks_of(toleration: Json, taint: str) -> bool:
    return toleration.get("key") in (None, "", taint) and toleration.get("effect") in (None, "", "NoExecute")


def _toleration(taint: str) -> Json:
    return {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": GRACE_SECONDS}
