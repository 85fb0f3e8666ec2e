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


class Shown(Struct):
    """A collection as admission plugins see it. It is asked for at every write and listed once for each version."""

    collection: Collection
    version: int = -1
    values: Sequence[Json] = ()


class StoredCatalog:
    """The store as admission plugins see it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shown: dict[str, Shown] = {}

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        found = self._of(resource).collection.get(namespace, name)
        return None if found is None else found.value

    def list(self, resource: str) -> Sequence[Json]:
        shown = self._shown.get(resource) or self._of(resource)
        if shown.version != shown.collection.version:
            shown.values = [revision.value for _, _, revision in shown.collection.items()]
            shown.version = shown.collection.version
        return shown.values

    def _of(self, resource: str) -> Shown:
        known = self._shown.get(resource)
        if known is None:
            plural, _, group = resource.partition(".")
            known = self._shown[resource] = Shown(self._store.collection(group, plural))
        return known


class Chain:
    """Asks each plugin in turn, first to change, later to judge."""

    def __init__(self, store: Store, plugins: Sequence[Admission]) -> None:
        self._catalog, self._plugins = StoredCatalog(store), tuple(plugins)
        self._by_collection: dict[Collection, tuple[Admission, ...]] = {}

    def mutate(self, verb: str, errand: Errand, new: Json | None, old: Json | None) -> Admitted:
        """What the plugins made of the object; the very same object if none changed it."""
        plugins = self._concerned(errand)
        if not plugins:
            return Admitted(new, True)
        complete, operation = True, _operation(verb, errand, new, old)
        for plugin in plugins:
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
        collection = errand.served.collection
        known = self._by_collection.get(collection)
        if known is None:
            resource = (collection.group, collection.plural)
            known = tuple(each for each in self._plugins if each.resources is None or resource in each.resources)
            self._by_collection[collection] = known
        return known


def _operation(verb: str, errand: Errand, new: Json | None, old: Json | None) -> Operation:
    name = errand.name or (new or {}).get("metadata", {}).get("name") or ""
    resource, user, dry_run = errand.served.type, errand.user, errand.dry_run
    return Operation(verb, resource, errand.subresource, errand.namespace, name, new, old, user, dry_run)
