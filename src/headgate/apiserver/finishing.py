"""When an object that is being deleted is really gone."""

from __future__ import annotations

from headgate.apiserver.messages import Json
from headgate.apiserver.storage import Collection, Store

PODS = ("", "pods")
NAMESPACES = ("", "namespaces")


def is_pods(collection: Collection) -> bool:
    return (collection.group, collection.plural) == PODS


def is_namespaces(collection: Collection) -> bool:
    return (collection.group, collection.plural) == NAMESPACES


def store_or_finish(store: Store, collection: Collection, namespace: str, name: str, value: Json) -> Json:
    """Store the object, or take it away if nothing holds a deletion back any more."""
    if is_finished(collection, value):
        return store.remove(collection, namespace, name, value)
    return store.put(collection, namespace, name, value)


def is_finished(collection: Collection, value: Json) -> bool:
    """Deleted, with no finalizers and no grace left."""
    metadata = value["metadata"]
    if metadata.get("deletionTimestamp") is None or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    return not (is_namespaces(collection) and value.get("spec", {}).get("finalizers"))
