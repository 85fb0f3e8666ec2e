"""Built-in controllers, which act on changes once they are stored.

The garbage collector deletes or orphans dependents, the namespace controller empties terminating namespaces, the
definition controller serves custom resources and finalizes deleted definitions, the role aggregation controller fills
ClusterRoles with the rules of those they select.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from headgate.apiserver.handlers import FOREGROUND, ORPHAN, DeleteOptions, Deleter, Preconditions
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import timestamp
from headgate.apiserver.registry import Registry, RequestInfo
from headgate.apiserver.selectors import object_selector
from headgate.apiserver.status import StatusError, details_of, forbidden
from headgate.apiserver.storage import Change, Collection, Store, store_or_remove
from headgate.apiserver.strategy import ResourceType

GARBAGE_COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"

ObjectKey = tuple[Collection, str, str]
"""Collection, namespace and name of an object."""


class GarbageCollector:
    """Deletes objects whose owners are gone, in the foreground or background, and orphans dependents on request."""

    def __init__(self, store: Store, registry: Registry, deleter: Deleter) -> None:
        self._store, self._registry, self._deleter = store, registry, deleter
        self._keys: dict[str, ObjectKey] = {}  # by uid
        self._dependents: dict[str, dict[ObjectKey, None]] = {}  # by the owner's uid, in order of arrival
        self._to_delete: deque[ObjectKey] = deque()
        self._deleting: deque[ObjectKey] = deque()

    def reconcile(self, changes: Sequence[Change], now: float) -> None:
        """Observes the changes, then processes the owners and dependents they affect."""
        for change in changes:
            self._observe(change)
        if self._deleting or self._to_delete:
            self._sync(now)

    def _observe(self, change: Change) -> None:
        metadata = change.after.value["metadata"]
        before = change.before.value["metadata"] if change.before is not None else {}
        if change.type == "ADDED":
            self._keys[metadata["uid"]] = _key_of(change)
        elif change.type == "DELETED":
            self._observe_removal(_key_of(change), metadata["uid"], before)
            return
        owners, owned = metadata.get("ownerReferences"), before.get("ownerReferences")
        if owners is not owned and owners != owned:
            self._observe_owners(_key_of(change), owners or (), before)
        if metadata.get("deletionTimestamp") is not None and metadata.get("finalizers"):
            self._deleting.append(_key_of(change))

    def _sync(self, now: float) -> None:
        for _ in range(len(self._deleting)):
            self._process_deleting(self._deleting.popleft())
        for _ in range(len(self._to_delete)):
            self._attempt_to_delete(self._to_delete.popleft(), now)

    def _observe_owners(self, key: ObjectKey, owners: Sequence[Json], before: Json) -> None:
        self._forget_owners(key, before)
        for owner in owners:
            self._dependents.setdefault(owner["uid"], {})[key] = None
        self._to_delete.append(key)

    def _observe_removal(self, key: ObjectKey, uid: str, before: Json) -> None:
        self._keys.pop(uid, None)
        self._forget_owners(key, before)
        self._to_delete.extend(self._dependents.pop(uid, ()))

    def _forget_owners(self, key: ObjectKey, metadata: Json) -> None:
        for owner in metadata.get("ownerReferences") or ():
            if (of_owner := self._dependents.get(owner["uid"])) is not None:
                of_owner.pop(key, None)
                if not of_owner:
                    del self._dependents[owner["uid"]]
            if (owner_key := self._keys.get(owner["uid"])) is not None and self._finalizers(owner_key):
                self._deleting.append(owner_key)

    def _process_deleting(self, key: ObjectKey) -> None:
        """Removes the orphan or foreground finalizer of an owner once its dependents allow it."""
        finalizers = self._finalizers(key)
        if ORPHAN in finalizers:
            self._orphan_dependents(key)
            self._drop_finalizer(key, ORPHAN)
        elif FOREGROUND in finalizers:
            dependents = self._dependents.get(_metadata_of(key)["uid"], {})
            if any(self._blocks(dependent, key) for dependent in dependents):
                self._to_delete.extend(dependents)
            else:
                self._drop_finalizer(key, FOREGROUND)

    def _orphan_dependents(self, key: ObjectKey) -> None:
        uid = _metadata_of(key)["uid"]
        for dependent in list(self._dependents.get(uid, ())):
            self._drop_owners(dependent, [uid])

    def _blocks(self, dependent: ObjectKey, owner: ObjectKey) -> bool:
        uid = _metadata_of(owner)["uid"]
        references = _metadata_of(dependent).get("ownerReferences") or ()
        return any(one["uid"] == uid and one.get("blockOwnerDeletion") for one in references)

    def _attempt_to_delete(self, key: ObjectKey, now: float) -> None:
        """Deletes a dependent whose owners are all absent or waiting for it; otherwise drops references to those that
        are.
        """
        references = _metadata_of(key).get("ownerReferences") or ()
        absent = [owner["uid"] for owner in references if self._is_absent(owner, key[1])]
        deleting = [owner["uid"] for owner in references if self._waits_for_dependents(owner["uid"])]
        if not absent and not deleting:
            return
        if len(absent) + len(deleting) < len(references):
            self._drop_owners(key, absent + deleting)
        else:
            self._delete(key, "Foreground" if deleting and self._has_dependents(key) else "", now)

    def _is_absent(self, owner: Json, namespace: str) -> bool:
        """Whether no object has this uid in a namespace the reference can mean. Owners of kinds that are not served
        count as present.
        """
        owner_key = self._keys.get(owner["uid"])
        if owner_key is not None:
            return owner_key[1] not in ("", namespace)
        return self._registry.of_kind(owner["apiVersion"], owner["kind"]) is not None

    def _waits_for_dependents(self, uid: str) -> bool:
        owner_key = self._keys.get(uid)
        return owner_key is not None and FOREGROUND in self._finalizers(owner_key)

    def _has_dependents(self, key: ObjectKey) -> bool:
        return bool(self._dependents.get(_metadata_of(key)["uid"]))

    def _finalizers(self, key: ObjectKey) -> list[str]:
        """The finalizers of an object that is being deleted; none of any other."""
        metadata = _metadata_of(key)
        return metadata.get("finalizers") or [] if metadata.get("deletionTimestamp") is not None else []

    def _drop_finalizer(self, key: ObjectKey, name: str) -> None:
        self._edit(key, "finalizers", [other for other in self._finalizers(key) if other != name])

    def _drop_owners(self, key: ObjectKey, uids: list[str]) -> None:
        references = _metadata_of(key).get("ownerReferences") or ()
        self._edit(key, "ownerReferences", [owner for owner in references if owner["uid"] not in uids])

    def _edit(self, key: ObjectKey, field: str, items: list[object]) -> None:
        found = key[0].get(key[1], key[2])
        if found is None:
            return
        value = found.value
        metadata = {name: part for name, part in value["metadata"].items() if name != field}
        if items:
            metadata[field] = items
        store_or_remove(self._store, *key, {**value, "metadata": metadata})

    def _delete(self, key: ObjectKey, policy: str, now: float) -> None:
        collection, namespace, name = key
        served = self._registry.versions(collection.group, collection.plural)
        metadata = _metadata_of(key)
        if not served or (metadata.get("deletionTimestamp") is not None and not policy):
            return
        options = DeleteOptions(propagation_policy=policy, preconditions=Preconditions(metadata["uid"]))
        self._deleter.collect(RequestInfo(served[0], namespace, name, GARBAGE_COLLECTOR, now), options)


def _key_of(change: Change) -> ObjectKey:
    return change.collection, change.namespace, change.name


def _metadata_of(key: ObjectKey) -> Json:
    """The object's metadata now; empty if it is gone."""
    found = key[0].get(key[1], key[2])
    return found.value["metadata"] if found is not None else {}


NAMESPACE_CONTROLLER = "system:serviceaccount:kube-system:namespace-controller"


class NamespaceController:
    """Deletes the content of terminating namespaces, and removes them when they are empty."""

    def __init__(self, store: Store, registry: Registry, deleter: Deleter) -> None:
        self._store, self._registry, self._deleter = store, registry, deleter
        self._collection = store.collection("", "namespaces")
        self._terminating: dict[str, None] = {}
        self._to_empty: dict[str, None] = {}
        self._to_check: dict[str, None] = {}

    def refuse_unless_active(self, info: RequestInfo, name: str) -> None:
        """Refuses a new object in a namespace that is absent or terminating."""
        if not info.served.type.namespaced:
            return
        found = self._collection.get("", info.namespace)
        if found is None:
            text = f'namespaces "{info.namespace}" not found'
            raise StatusError(404, "NotFound", text, details_of(info.namespace, "", "namespaces"))
        if found.value["metadata"].get("deletionTimestamp") is not None:
            raise _namespace_terminating(info, name)

    def reconcile(self, changes: Sequence[Change], now: float) -> None:
        """Observes the changes, then empties and finishes the namespaces they affect."""
        for change in changes:
            if change.collection is self._collection:
                self._observe_namespace(change)
            elif change.type == "DELETED" and change.namespace in self._terminating:
                self._to_check[change.namespace] = None
        if self._to_empty or self._to_check:
            self._sync(now)

    def _sync(self, now: float) -> None:
        for name in _taken(self._to_empty):
            self._delete_contents(name, now)
            self._to_check[name] = None
        for name in _taken(self._to_check):
            if all(collection.is_empty_in(name) for collection in self._store.collections):
                self._finish(name)

    def _observe_namespace(self, change: Change) -> None:
        if change.type == "DELETED":
            self._terminating.pop(change.name, None)
        elif (
            change.after.value["metadata"].get("deletionTimestamp") is not None and change.name not in self._terminating
        ):
            self._terminating[change.name] = self._to_empty[change.name] = None

    def _delete_contents(self, namespace: str, now: float) -> None:
        for served in self._registry.preferred():
            for _, name, _ in list(served.collection.items(namespace) if served.type.namespaced else ()):
                info = RequestInfo(served, namespace, name, NAMESPACE_CONTROLLER, now)
                self._deleter.collect(info, DeleteOptions(propagation_policy="Background"))

    def _finish(self, name: str) -> None:
        found = self._collection.get("", name)
        if found is not None and found.value["spec"].get("finalizers"):
            value = {**found.value, "spec": {**found.value["spec"], "finalizers": []}}
            store_or_remove(self._store, self._collection, "", name, value)


def _taken(names: dict[str, None]) -> list[str]:
    taken = list(names)
    names.clear()
    return taken


def _namespace_terminating(info: RequestInfo, name: str) -> StatusError:
    where = info.namespace
    why = f"unable to create new content in namespace {where} because it is being terminated"
    refusal = forbidden(info.served.type, name, why)
    text = f"namespace {where} is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": text, "field": "metadata.namespace"}
    refusal.details["causes"] = [cause]
    return refusal


DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until its last object is gone."""
API_SERVER = "system:apiserver"

TypesOf = Callable[[Json], Sequence[ResourceType]]
"""The resource types a CustomResourceDefinition defines."""


class DefinitionController:
    """Serves the resource types of stored definitions, and deletes the objects of terminating ones."""

    def __init__(self, store: Store, registry: Registry, deleter: Deleter, types_of: TypesOf) -> None:
        self._store, self._registry, self._deleter, self._types_of = store, registry, deleter, types_of
        self._collection = store.collection(*DEFINITIONS)
        self._collection.is_reconciled = True
        self._changed: list[Change] = []
        self._terminating: dict[Collection, str] = {}  # names of definitions by the objects they wait for
        self._to_empty: dict[Collection, None] = {}

    def reconcile(self, changes: Sequence[Change], now: float) -> None:
        """Observes the changes, then acts on the definitions they affect."""
        for change in changes:
            if change.collection is self._collection:
                self._changed.append(change)
            elif self._terminating and change.collection in self._terminating:
                self._to_empty[change.collection] = None
        if self._changed or self._to_empty:
            self._sync(now)

    def _sync(self, now: float) -> None:
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
            self._terminating.pop(self._store.collection(group, plural), None)
            return
        self._registry.define(self._types_of(definition))
        if change.type == "ADDED" and not (definition.get("status") or {}).get("conditions"):
            self._establish(change, now)
        elif _is_finalizing(definition):
            collection = self._store.collection(group, plural)
            self._terminating[collection], self._to_empty[collection] = change.name, None
            collection.is_reconciled = True

    def _empty(self, collection: Collection, now: float) -> None:
        """Deletes every object of the collection, without admission; when none is left, removes the definition's
        finalizer.
        """
        versions = self._registry.versions(collection.group, collection.plural)
        custom = all(served.custom for served in versions)  # else they are a built-in kind's
        for namespace, name, revision in list(collection.items()) if versions and custom else ():
            if revision.value["metadata"].get("deletionTimestamp") is None:
                info = RequestInfo(versions[0], namespace, name, API_SERVER, now)
                self._deleter.remove(info, DeleteOptions(propagation_policy="Background"))
        definition = self._collection.get("", self._terminating.get(collection, ""))
        if definition is not None and (collection.is_empty() or not versions or not custom):
            finalizers = [name for name in definition.value["metadata"]["finalizers"] if name != CLEANUP]
            value = {**definition.value, "metadata": {**definition.value["metadata"], "finalizers": finalizers}}
            store_or_remove(self._store, self._collection, "", self._terminating[collection], value)

    def _establish(self, change: Change, now: float) -> None:
        """Writes the Established and NamesAccepted conditions and adds the cleanup finalizer."""
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


class RoleAggregationController:
    """Gives a ClusterRole with an aggregationRule the rules of all roles it selects, directly or through other such
    roles, each once; roles that select one another add nothing to each other.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._roles = store, store.collection("rbac.authorization.k8s.io", "clusterroles")
        self._roles.is_reconciled = True
        self._reconciled = 0  # the version of the roles that was last looked at

    def reconcile(self, _changes: Sequence[Change], _now: float) -> None:
        if self._roles.version == self._reconciled:
            return
        self._reconciled = self._roles.version
        roles = {name: revision.value for _, name, revision in self._roles.items()}
        for name, role in roles.items():
            if role.get("aggregationRule"):
                rules = _aggregated_rules(name, roles)
                if rules != (role.get("rules") or []):
                    store_or_remove(self._store, self._roles, "", name, {**role, "rules": rules or None})


def _aggregated_rules(name: str, roles: dict[str, Json]) -> list[Json]:
    rules: list[Json] = []
    seen, pending = {name}, [name]
    while pending:
        role = roles[pending.pop()]
        if not role.get("aggregationRule"):
            rules += [rule for rule in role.get("rules") or () if rule not in rules]
            continue
        found = [
            other for other in sorted(roles) if other not in seen and _selects(role["aggregationRule"], roles[other])
        ]
        seen.update(found)
        pending += reversed(found)
    return rules


def _selects(rule: Json, role: Json) -> bool:
    labels = role["metadata"].get("labels") or {}
    return any(object_selector(selector)(labels) for selector in rule.get("clusterRoleSelectors") or ())
