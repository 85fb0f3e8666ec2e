"""The chain of admission plugins that every write passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from headgate.apiserver.messages import Json
from headgate.apiserver.registry import Served
from headgate.apiserver.rules import Admission, Operation
from headgate.apiserver.store import Collection, Store


class Errand(Struct, frozen=True, gc=False):
    """A write on its way: to which object, for whom, when. `name` is empty for a creation."""

    served: Served
    namespace: str
    name: str
    user: str
    now: float
    subresource: str = ""
    dry_run: bool = False


class Admitted(NamedTuple):
    """An object after admission; one that is not complete is to be prepared again."""

    value: Json | None
    complete: bool


class StoredCatalog:
    """The store as admission plugins see it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._collections: dict[str, Collection] = {}
        self._lists: dict[str, tuple[int, list[Json]]] = {}  # with the version they are of; asked for at every write

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        found = self._collection(resource).get(namespace, name)
        return None if found is None else found.value

    def list(self, resource: str) -> Sequence[Json]:
        collection, (version, values) = self._collection(resource), self._lists.get(resource, (-1, []))
        if version != collection.version:
            values = [revision.value for _, _, revision in collection.items()]
            self._lists[resource] = (collection.version, values)
        return values

    def _collection(self, resource: str) -> Collection:
        known = self._collections.get(resource)
        if known is None:
            plural, _, group = resource.partition(".")
            known = self._collections[resource] = self._store.collection(group, plural)
        return known


class Chain:
    """Asks each plugin in turn, first to change, later to judge."""

    def __init__(self, store: Store, plugins: Sequence[Admission]) -> None:
        self._catalog, self._plugins = StoredCatalog(store), tuple(plugins)
        self._by_resource: dict[tuple[str, str], tuple[Admission, ...]] = {}

    def mutate(self, verb: str, errand: Errand, new: Json | None, old: Json | None) -> Admitted:
        """What the plugins made of the object; the very same object if none changed it."""
        complete, operation = True, _operation(verb, errand, new, old)
        for plugin in self._concerned(errand):
            changed = plugin.mutate(operation, self._catalog)
            if changed is not operation.new:
                complete = complete and plugin.keeps_complete
                operation = _operation(verb, errand, changed, old)
        return Admitted(operation.new, complete)

    def validate(self, verb: str, errand: Errand, new: Json | None, old: Json | None) -> None:
        plugins = self._concerned(errand)
        if plugins:
            operation = _operation(verb, errand, new, old)
            for plugin in plugins:
                plugin.validate(operation, self._catalog)

    def _concerned(self, errand: Errand) -> tuple[Admission, ...]:
        resource = (errand.served.type.group, errand.served.type.plural)
        known = self._by_resource.get(resource)
        if known is None:
            known = tuple(each for each in self._plugins if each.resources is None or resource in each.resources)
            self._by_resource[resource] = known
        return known


def _operation(verb: str, errand: Errand, new: Json | None, old: Json | None) -> Operation:
    name = errand.name or (new or {}).get("metadata", {}).get("name") or ""
    return Operation(verb, errand.served.type, errand.subresource, errand.namespace, name, new, old, errand.user)
