"""Built-in controllers, which act on changes once they are stored.

The garbage collector deletes or orphans dependents, the namespace controller empties terminating namespaces, the
definition controller serves custom resources and finalizes deleted definitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from headgate.apiserver.handlers import FOREGROUND, ORPHAN, DeleteOptions, Deleter, Preconditions
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import timestamp
from headgate.apiserver.registry import Registry, RequestInfo
from headgate.apiserver.status import ApiError, StatusError, details_of, forbidden
from headgate.apiserver.storage import Change, Collection, Store, store_or_remove
from headgate.apiserver.strategy import ResourceType

GARBAGE_COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"

ObjectKey = tuple[Collection, str, str]
"""Collection, namespace and name of an object."""


class GarbageCollector:
    """Follows the lives of all objects, and deletes or releases what has lost its owners."""

    def __init__(self, store: Store, registry: Registry, deleter: Deleter) -> None:
        self._store, self._registry, self._deleter = store, registry, deleter
        self._living: dict[str, ObjectKey] = {}  # by uid
        self._dependents: dict[str, dict[ObjectKey, None]] = {}  # by the owner's uid, in order of arrival
        self._suspects: deque[ObjectKey] = deque()
        self._leaving: deque[ObjectKey] = deque()

    def follow(self, changes: Sequence[Change], now: float) -> None:
        """Take note of the changes, and look once at everything that gave cause."""
        for change in changes:
            self._absorb(change)
        if self._leaving or self._suspects:
            self._work(now)

    def _absorb(self, change: Change) -> None:
        metadata = change.after.value["metadata"]
        before = change.before.value["metadata"] if change.before is not None else {}
        if change.type == "DELETED":
            self._absorb_end(_key(change), metadata["uid"], before)
            return
        if change.type == "ADDED":
            self._living[metadata["uid"]] = _key(change)
        owners, owned = metadata.get("ownerReferences"), before.get("ownerReferences")
        if owners is not owned and owners != owned:
            self._absorb_owners(_key(change), owners or (), before)
        if metadata.get("deletionTimestamp") is not None and metadata.get("finalizers"):
            self._leaving.append(_key(change))

    def _work(self, now: float) -> None:
        for _ in range(len(self._leaving)):
            self._release(self._leaving.popleft())
        for _ in range(len(self._suspects)):
            self._judge(self._suspects.popleft(), now)

    def _absorb_owners(self, place: ObjectKey, owners: Sequence[Json], before: Json) -> None:
        self._forget_owners(place, before)
        for owner in owners:
            self._dependents.setdefault(owner["uid"], {})[place] = None
        self._suspects.append(place)

    def _absorb_end(self, place: ObjectKey, uid: str, before: Json) -> None:
        self._living.pop(uid, None)
        self._forget_owners(place, before)
        self._suspects.extend(self._dependents.pop(uid, ()))

    def _forget_owners(self, place: ObjectKey, metadata: Json) -> None:
        for owner in metadata.get("ownerReferences") or ():
            if (of_owner := self._dependents.get(owner["uid"])) is not None:
                of_owner.pop(place, None)
                if not of_owner:
                    del self._dependents[owner["uid"]]
            if (holder := self._living.get(owner["uid"])) is not None and self._finalizers(holder):
                self._leaving.append(holder)

    def _release(self, place: ObjectKey) -> None:
        """Take its own finalizers off an owner whose dependents no longer hold it."""
        finalizers = self._finalizers(place)
        if ORPHAN in finalizers:
            self._orphan_dependents(place)
            self._drop_finalizer(place, ORPHAN)
        elif FOREGROUND in finalizers:
            dependents = self._dependents.get(_metadata_of(place)["uid"], {})
            if any(self._blocks(dependent, place) for dependent in dependents):
                self._suspects.extend(dependents)
            else:
                self._drop_finalizer(place, FOREGROUND)

    def _orphan_dependents(self, place: ObjectKey) -> None:
        uid = _metadata_of(place)["uid"]
        for dependent in list(self._dependents.get(uid, ())):
            self._drop_owners(dependent, [uid])

    def _blocks(self, dependent: ObjectKey, owner: ObjectKey) -> bool:
        uid = _metadata_of(owner)["uid"]
        references = _metadata_of(dependent).get("ownerReferences") or ()
        return any(one["uid"] == uid and one.get("blockOwnerDeletion") for one in references)

    def _judge(self, place: ObjectKey, now: float) -> None:
        """Delete a dependent without owners; of one that has some left, only drop the references to the lost."""
        references = _metadata_of(place).get("ownerReferences") or ()
        lost = [owner["uid"] for owner in references if self._is_lost(owner, place[1])]
        leaving = [owner["uid"] for owner in references if self._waits_for_dependents(owner["uid"])]
        if not lost and not leaving:
            return
        if len(lost) + len(leaving) < len(references):
            self._drop_owners(place, lost + leaving)
        else:
            self._delete(place, "Foreground" if leaving and self._has_dependents(place) else "", now)

    def _is_lost(self, owner: Json, namespace: str) -> bool:
        """No such object: none with this uid, or not in this namespace. Of kinds not served, nothing is known."""
        holder = self._living.get(owner["uid"])
        if holder is not None:
            return holder[1] not in ("", namespace)
        return self._registry.of_kind(owner["apiVersion"], owner["kind"]) is not None

    def _waits_for_dependents(self, uid: str) -> bool:
        holder = self._living.get(uid)
        return holder is not None and FOREGROUND in self._finalizers(holder)

    def _has_dependents(self, place: ObjectKey) -> bool:
        return bool(self._dependents.get(_metadata_of(place)["uid"]))

    def _finalizers(self, place: ObjectKey) -> list[str]:
        """The finalizers an object that is being deleted waits for."""
        metadata = _metadata_of(place)
        return metadata.get("finalizers") or [] if metadata.get("deletionTimestamp") is not None else []

    def _drop_finalizer(self, place: ObjectKey, name: str) -> None:
        self._edit(place, "finalizers", [other for other in self._finalizers(place) if other != name])

    def _drop_owners(self, place: ObjectKey, uids: list[str]) -> None:
        references = _metadata_of(place).get("ownerReferences") or ()
        self._edit(place, "ownerReferences", [owner for owner in references if owner["uid"] not in uids])

    def _edit(self, place: ObjectKey, field: str, items: list[object]) -> None:
        found = place[0].get(place[1], place[2])
        if found is None:
            return
        value = found.value
        metadata = {name: part for name, part in value["metadata"].items() if name != field}
        if items:
            metadata[field] = items
        store_or_remove(self._store, *place, {**value, "metadata": metadata})

    def _delete(self, place: ObjectKey, policy: str, now: float) -> None:
        collection, namespace, name = place
        served = self._registry.versions(collection.group, collection.plural)
        metadata = _metadata_of(place)
        if not served or (metadata.get("deletionTimestamp") is not None and not policy):
            return
        options = DeleteOptions(propagation_policy=policy, preconditions=Preconditions(metadata["uid"]))
        try:
            self._deleter.delete(RequestInfo(served[0], namespace, name, GARBAGE_COLLECTOR, now), options)
        except ApiError:
            return  # an admission plugin keeps it; a later change of it or its owners asks again


def _key(change: Change) -> ObjectKey:
    return change.collection, change.namespace, change.name


def _metadata_of(place: ObjectKey) -> Json:
    """The object's metadata now; nothing when it has gone since it was noted."""
    found = place[0].get(place[1], place[2])
    return found.value["metadata"] if found is not None else {}


NAMESPACE_CONTROLLER = "system:serviceaccount:kube-system:namespace-controller"


class NamespaceController:
    """Empties namespaces that are being deleted and takes them away when nothing is left in them."""

    def __init__(self, store: Store, registry: Registry, deleter: Deleter) -> None:
        self._store, self._registry, self._deleter = store, registry, deleter
        self._collection = store.collection("", "namespaces")
        self._going: dict[str, None] = {}
        self._to_empty: dict[str, None] = {}
        self._to_check: dict[str, None] = {}

    def refuse_content(self, errand: RequestInfo, name: str) -> None:
        """A new object must go into a namespace that exists and stays."""
        if not errand.served.type.namespaced:
            return
        found = self._collection.get("", errand.namespace)
        if found is None:
            text = f'namespaces "{errand.namespace}" not found'
            raise StatusError(404, "NotFound", text, details_of(errand.namespace, "", "namespaces"))
        if found.value["metadata"].get("deletionTimestamp") is not None:
            raise _namespace_terminating(errand, name)

    def follow(self, changes: Sequence[Change], now: float) -> None:
        """Take note of the changes, and look once at everything that gave cause."""
        for change in changes:
            if change.collection is self._collection:
                self._absorb_namespace(change)
            elif change.type == "DELETED" and change.namespace in self._going:
                self._to_check[change.namespace] = None
        if self._to_empty or self._to_check:
            self._work(now)

    def _work(self, now: float) -> None:
        for name in _taken(self._to_empty):
            self._delete_contents(name, now)
            self._to_check[name] = None
        for name in _taken(self._to_check):
            if all(collection.is_empty_in(name) for collection in self._store.collections):
                self._finish(name)

    def _absorb_namespace(self, change: Change) -> None:
        if change.type == "DELETED":
            self._going.pop(change.name, None)
        elif change.after.value["metadata"].get("deletionTimestamp") is not None and change.name not in self._going:
            self._going[change.name] = self._to_empty[change.name] = None

    def _delete_contents(self, namespace: str, now: float) -> None:
        for served in self._registry.preferred():
            for _, name, _ in list(served.collection.items(namespace) if served.type.namespaced else ()):
                self._delete(RequestInfo(served, namespace, name, NAMESPACE_CONTROLLER, now))

    def _delete(self, errand: RequestInfo) -> None:
        try:
            self._deleter.delete(errand, DeleteOptions(propagation_policy="Background"))
        except ApiError:
            return  # an admission plugin keeps it, so the namespace stays as well

    def _finish(self, name: str) -> None:
        found = self._collection.get("", name)
        if found is not None and found.value["spec"].get("finalizers"):
            value = {**found.value, "spec": {**found.value["spec"], "finalizers": []}}
            store_or_remove(self._store, self._collection, "", name, value)


def _taken(names: dict[str, None]) -> list[str]:
    taken = list(names)
    names.clear()
    return taken


def _namespace_terminating(errand: RequestInfo, name: str) -> StatusError:
    where = errand.namespace
    why = f"unable to create new content in namespace {where} because it is being terminated"
    refusal = forbidden(errand.served.type, name, why)
    text = f"namespace {where} is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": text, "field": "metadata.namespace"}
    refusal.details["causes"] = [cause]
    return refusal


DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until the last of its objects is gone."""
API_SERVER = "system:apiserver"

TypesOf = Callable[[Json], Sequence[ResourceType]]
"""The types a CustomResourceDefinition defines."""


class DefinitionController:
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
        elif _is_finalizing(definition):
            collection = self._store.collection(group, plural)
            self._going[collection], self._to_empty[collection] = change.name, None
            collection.is_followed = True

    def _empty(self, collection: Collection, now: float) -> None:
        """Ask every object to go; when none is left, let the definition go."""
        versions = self._registry.versions(collection.group, collection.plural)
        custom = all(served.custom for served in versions)  # else they are a built-in kind's
        for namespace, name, revision in list(collection.items()) if versions and custom else ():
            if revision.value["metadata"].get("deletionTimestamp") is None:
                self._delete(RequestInfo(versions[0], namespace, name, API_SERVER, now))
        definition = self._collection.get("", self._going.get(collection, ""))
        if definition is not None and (collection.is_empty() or not versions or not custom):
            finalizers = [name for name in definition.value["metadata"]["finalizers"] if name != CLEANUP]
            value = {**definition.value, "metadata": {**definition.value["metadata"], "finalizers": finalizers}}
            store_or_remove(self._store, self._collection, "", self._going[collection], value)

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
            store_or_remove(self._store, change.collection, "", change.name, value)


def _is_finalizing(definition: Json) -> bool:
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
