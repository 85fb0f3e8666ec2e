"""The admission chain: which plugins apply to a write, and one write's way through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from headgate.apiserver.known_values import Memory
from headgate.apiserver.messages import Json
from headgate.apiserver.registry import RequestInfo, ServedResource
from headgate.apiserver.storage import Collection, Store
from headgate.apiserver.strategy import ResourceType


class Operation(Struct, frozen=True):
    """A write on its way through admission."""

    verb: str  # CREATE, UPDATE or DELETE
    resource: ResourceType
    subresource: str
    namespace: str
    name: str
    new: Json | None
    old: Json | None
    user: str
    dry_run: bool = False


class Catalog(Protocol):
    """Stored objects by resource: the plural, or plural.group outside the core group. They must not be changed."""

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        """The object, or None; the namespace is empty for cluster-wide kinds."""

    def list(self, resource: str) -> Sequence[Json]:
        """All objects of the resource in all namespaces, by namespace and name; none for an unknown resource.

        As long as nothing has changed, the very same list.
        """


class AdmissionPlugin(Protocol):
    """A step that may change or refuse a write, after decoding and before validation."""

    @property
    def resources(self) -> frozenset[tuple[str, str]] | None:
        """The groups and plurals it has a say about; None for all."""

    @property
    def keeps_complete(self) -> bool:
        """Whether an object that was complete still is when this has changed it, and still is the same object."""

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        """The object to go on with; raises ApiError to refuse."""

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        """Raises ApiError to refuse what the object has become."""


@runtime_checkable
class ConfiguredPlugin(Protocol):
    """AdmissionPlugin that stored objects configure: who has a say, about which sorts of writes."""

    @property
    def configured_by(self) -> tuple[str, ...]:
        """The resources of these objects, as a catalog calls them. As long as none has changed, nobody else has a say
        about a sort of write: a verb, a resource and subresource, a user.
        """

    def concerned(self, operation: Operation, catalog: Catalog) -> AdmissionPlugin | None:
        """Who has a say about writes of this one's sort; None for nobody."""


REQUEST_CLASSES = 4_096
"""For how many sorts of writes it is known at least who is concerned."""

Plugin = AdmissionPlugin | ConfiguredPlugin


class _CachedList(Struct):
    """A collection as admission plugins see it. It is asked for at every write and listed once for each version."""

    collection: Collection
    version: int = -1
    values: Sequence[Json] = ()


class StoreCatalog:
    """The store as admission plugins see it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shown: dict[str, _CachedList] = {}

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        found = self.collection(resource).get(namespace, name)
        return None if found is None else found.value

    def list(self, resource: str) -> Sequence[Json]:
        shown = self._of(resource)
        if shown.version != shown.collection.version:
            shown.values = [revision.value for _, _, revision in shown.collection.items()]
            shown.version = shown.collection.version
        return shown.values

    def collection(self, resource: str) -> Collection:
        return self._of(resource).collection

    def _of(self, resource: str) -> _CachedList:
        known = self._shown.get(resource)
        if known is None:
            plural, _, group = resource.partition(".")
            known = self._shown[resource] = _CachedList(self._store.collection(group, plural))
        return known


class WriteAdmission:
    """One write on its way past the plugins that are concerned, each in turn: first to change, later to judge."""

    __slots__ = ("_catalog", "_errand", "_old", "_operation", "_plugins", "_verb", "complete")

    def __init__(
        self,
        plugins: Sequence[AdmissionPlugin],
        catalog: StoreCatalog,
        verb: str,
        errand: RequestInfo,
        old: Json | None,
    ) -> None:
        self._plugins, self._catalog, self._verb, self._errand, self._old = plugins, catalog, verb, errand, old
        self._operation: Operation | None = None  # as it was last seen
        self.complete = True
        """Whether what was complete still is; else it is to be prepared again."""

    def mutate(self, new: Json | None) -> Json | None:
        """What the plugins made of the object; the very same object if none changed it."""
        operation = self._of(new)
        for plugin in self._plugins:
            changed = plugin.mutate(operation, self._catalog)
            if changed is not operation.new:
                self.complete = self.complete and plugin.keeps_complete
                operation = self._of(changed)
        return operation.new

    def validate(self, new: Json | None) -> None:
        operation = self._of(new)
        for plugin in self._plugins:
            plugin.validate(operation, self._catalog)

    def _of(self, new: Json | None) -> Operation:
        if self._operation is None or self._operation.new is not new:
            self._operation = _operation(self._verb, self._errand, new, self._old)
        return self._operation


class AdmissionChain:
    """All plugins, and who of them is concerned."""

    def __init__(self, store: Store, plugins: Sequence[Plugin]) -> None:
        self._catalog, self._plugins = StoreCatalog(store), tuple(plugins)
        by_objects = [each for each in plugins if isinstance(each, ConfiguredPlugin)]
        self._configurations = [self._catalog.collection(name) for each in by_objects for name in each.configured_by]
        self._configured = 0  # the sum of their versions, of which none ever falls
        self._by_sort: Memory[tuple[ServedResource, str, str, str], tuple[AdmissionPlugin, ...]] = Memory(
            REQUEST_CLASSES
        )

    def passage(self, verb: str, errand: RequestInfo, old: Json | None) -> WriteAdmission | None:
        """The way of a write of what was so before; None if it concerns nobody.

        Whom a sort of write concerns is found out once, as long as the configurations stay.
        """
        configured = 0
        for collection in self._configurations:
            configured += collection.version
        if configured != self._configured:
            self._configured = configured
            self._by_sort.clear()
        sort = (errand.served, verb, errand.subresource, errand.user)
        plugins = self._by_sort.get(sort)
        if plugins is None:
            plugins = self._concerned(_operation(verb, errand, None, None))
            self._by_sort.put(sort, plugins)
        return WriteAdmission(plugins, self._catalog, verb, errand, old) if plugins else None

    def _concerned(self, operation: Operation) -> tuple[AdmissionPlugin, ...]:
        found: list[AdmissionPlugin] = []
        for plugin in self._plugins:
            if isinstance(plugin, ConfiguredPlugin):
                concerned = plugin.concerned(operation, self._catalog)
                found += [] if concerned is None else [concerned]
            elif plugin.resources is None or (operation.resource.group, operation.resource.plural) in plugin.resources:
                found.append(plugin)
        return tuple(found)


def _operation(verb: str, errand: RequestInfo, new: Json | None, old: Json | None) -> Operation:
    name = errand.name or (new or {}).get("metadata", {}).get("name") or ""
    resource, user, dry_run = errand.served.type, errand.user, errand.dry_run
    return Operation(verb, resource, errand.subresource, errand.namespace, name, new, old, user, dry_run)
