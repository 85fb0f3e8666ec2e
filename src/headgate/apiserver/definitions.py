"""CustomResourceDefinitions at work: a stored one serves its types, a deleted one takes its objects along."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate.apiserver.finishing import store_or_finish
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import timestamp
from headgate.apiserver.registry import Registry
from headgate.apiserver.rules import ResourceType
from headgate.apiserver.store import Change, Store

DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")

TypesOf = Callable[[Json], Sequence[ResourceType]]
"""The types a CustomResourceDefinition defines."""


class Definitions:
    """Keeps the registry in step with the stored definitions."""

    def __init__(self, store: Store, registry: Registry, types_of: TypesOf) -> None:
        self._store, self._registry, self._types_of = store, registry, types_of
        self._changed: list[Change] = []

    def absorb(self, change: Change) -> None:
        if (change.collection.group, change.collection.plural) == DEFINITIONS:
            self._changed.append(change)

    def work(self, now: float) -> None:
        changed, self._changed = self._changed, []
        for change in changed:
            match change.type:
                case "DELETED":
                    self._withdraw(change.after.value)
                case "MODIFIED":
                    self._serve(change.after.value)
                case _:
                    self._serve(change.after.value)
                    self._establish(change, now)

    def _serve(self, definition: Json) -> None:
        spec = definition["spec"]
        self._registry.withdraw(spec["group"], spec["names"]["plural"])
        self._registry.define(self._types_of(definition))

    def _withdraw(self, definition: Json) -> None:
        group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        if all(served.custom for served in self._registry.versions(group, plural)):
            collection = self._store.collection(group, plural)
            for namespace, name, revision in list(collection.items()):
                self._store.remove(collection, namespace, name, revision.value)
        self._registry.withdraw(group, plural)

    def _establish(self, change: Change, now: float) -> None:
        """Say in the status what has become true: the names are taken and the types are served."""
        found = change.collection.get("", change.name)
        if found is not None:
            value = {**found.value, "status": _established(found.value["spec"], now)}
            store_or_finish(self._store, change.collection, "", change.name, value)


def _established(spec: Json, now: float) -> Json:
    return {
        "acceptedNames": spec["names"],
        "storedVersions": [version["name"] for version in spec["versions"] if version.get("storage")],
        "conditions": [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
            _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
        ],
    }


def _condition(kind: str, reason: str, message: str, now: float) -> Json:
    since = timestamp(int(now))
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since}
