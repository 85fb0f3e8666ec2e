"""CustomResourceDefinitions at work: a stored one serves its types, a deleted one waits until its objects are gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate.apiserver.deletion import DeleteOptions, Deleter
from headgate.apiserver.finishing import store_or_finish
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import timestamp
from headgate.apiserver.registry import Registry, RequestInfo
from headgate.apiserver.status import ApiError
from headgate.apiserver.storage import Change, Collection, Store
from headgate.apiserver.strategy import ResourceType

DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until the last of its objects is gone."""
USER = "system:apiserver"

TypesOf = Callable[[Json], Sequence[ResourceType]]
"""The types a CustomResourceDefinition defines."""


class Definitions:
    """Keeps the registry in step with the stored definitions, and empties what is no longer defined."""

    def __init__(self, store: Store, registry: Registry, deleter: Deleter, types_of: TypesOf) -> None:
        self._store, self._registry, self._deleter, self._types_of = store, registry, deleter, types_of
        self._collection = store.collection(*DEFINITIONS)
        self._collection.is_followed = True
        self._changed: list[Change] = []
        self._going: dict[Collection, str] = {}  # names of definitions by the objects they wait for
        self._to_empty: dict[Collection, None] = {}

    def follow(self, changes: Sequence[Change], now: float) -> None:
        """Take note of the changes, and act on them once."""
        for change in changes:
            if change.collection is self._collection:
                self._changed.append(change)
            elif self._going and change.collection in self._going:
                self._to_empty[change.collection] = None
        if self._changed or self._to_empty:
            self._work(now)

    def _work(self, now: float) -> None:
        changed, self._changed = self._changed, []
        for change in changed:
            self._define(change, now)
        collections, self._to_empty = list(self._to_empty), {}
        for collection in collections:
            self._empty(collection, now)

    def _define(self, change: Change, now: float) -> None:
        definition = change.after.value
        group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        self._registry.withdraw(group, plural)
        if change.type == "DELETED":
            self._going.pop(self._store.collection(group, plural), None)
            return
        self._registry.define(self._types_of(definition))
        if change.type == "ADDED":
            self._establish(change, now)
        elif _waits(definition):
            collection = self._store.collection(group, plural)
            self._going[collection], self._to_empty[collection] = change.name, None
            collection.is_followed = True

    def _empty(self, collection: Collection, now: float) -> None:
        """Ask every object to go; when none is left, let the definition go."""
        versions = self._registry.versions(collection.group, collection.plural)
        custom = all(served.custom for served in versions)  # else they are a built-in kind's
        for namespace, name, revision in list(collection.items()) if versions and custom else ():
            if revision.value["metadata"].get("deletionTimestamp") is None:
                self._delete(RequestInfo(versions[0], namespace, name, USER, now))
        definition = self._collection.get("", self._going.get(collection, ""))
        if definition is not None and (collection.is_empty() or not versions or not custom):
            finalizers = [name for name in definition.value["metadata"]["finalizers"] if name != CLEANUP]
            value = {**definition.value, "metadata": {**definition.value["metadata"], "finalizers": finalizers}}
            store_or_finish(self._store, self._collection, "", self._going[collection], value)

    def _delete(self, errand: RequestInfo) -> None:
        try:
            self._deleter.delete(errand, DeleteOptions(propagation_policy="Background"))
        except ApiError:
            return  # an admission plugin keeps it, so the definition stays as well

    def _establish(self, change: Change, now: float) -> None:
        """Say in the status what has become true: the names are taken and the types are served."""
        found = change.collection.get("", change.name)
        if found is not None:
            metadata = found.value["metadata"]
            finalizers = [*(metadata.get("finalizers") or ()), CLEANUP]
            status = _established(found.value["spec"], now)
            value = {**found.value, "metadata": {**metadata, "finalizers": finalizers}, "status": status}
            store_or_finish(self._store, change.collection, "", change.name, value)


def _waits(definition: Json) -> bool:
    metadata = definition["metadata"]
    return metadata.get("deletionTimestamp") is not None and CLEANUP in (metadata.get("finalizers") or ())


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
