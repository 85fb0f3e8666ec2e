"""The life of namespaces: nothing is created in one that is absent or going, and its contents go before it."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.apiserver.deletion import DeleteOptions, Deleter
from headgate.apiserver.finishing import store_or_finish
from headgate.apiserver.registry import Registry, RequestInfo
from headgate.apiserver.status import ApiError, StatusError, details_of, forbidden
from headgate.apiserver.storage import Change, Store

USER = "system:serviceaccount:kube-system:namespace-controller"


class Namespaces:
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
            raise _terminating(errand, name)

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
                self._delete(RequestInfo(served, namespace, name, USER, now))

    def _delete(self, errand: RequestInfo) -> None:
        try:
            self._deleter.delete(errand, DeleteOptions(propagation_policy="Background"))
        except ApiError:
            return  # an admission plugin keeps it, so the namespace stays as well

    def _finish(self, name: str) -> None:
        found = self._collection.get("", name)
        if found is not None and found.value["spec"].get("finalizers"):
            value = {**found.value, "spec": {**found.value["spec"], "finalizers": []}}
            store_or_finish(self._store, self._collection, "", name, value)


def _taken(names: dict[str, None]) -> list[str]:
    taken = list(names)
    names.clear()
    return taken


def _terminating(errand: RequestInfo, name: str) -> StatusError:
    where = errand.namespace
    why = f"unable to create new content in namespace {where} because it is being terminated"
    refusal = forbidden(errand.served.type, name, why)
    text = f"namespace {where} is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": text, "field": "metadata.namespace"}
    refusal.details["causes"] = [cause]
    return refusal
