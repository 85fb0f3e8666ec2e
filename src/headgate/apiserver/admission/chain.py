"""The admission chain: which plugins apply to a write, and one write's way through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct, structs

from headgate.apiserver.authorization import AccessAttributes, AccessDecision, Authorizer
from headgate.apiserver.caches import APPLICABLE_PLUGINS, LISTED_OBJECTS, Cache
from headgate.apiserver.messages import Groups, Json, UserDetails, groups_of
from headgate.apiserver.registry import Registry, RequestInfo, ServedResource
from headgate.apiserver.storage import Collection, Store
from headgate.apiserver.strategy import ResourceType
from headgate.apiserver.webhook_calls import WebhookAnswers


class Reinvocation:
    """Which webhooks see a write for a second time, because it was changed after they saw it.

    The plugins mutate once more if `wanted`; a webhook is called again only if its reinvocationPolicy is IfNeeded.
    """

    __slots__ = ("_due", "_eligible", "_last", "second", "wanted")

    def __init__(self) -> None:
        self.second = self.wanted = False
        self._eligible: set[str] = set()  # called, and not to be called again so far
        self._due: set[str] = set()
        self._last: Json | None = None  # the object as webhooks have left it

    def begin(self, new: Json | None) -> None:
        """Webhooks are about to be called with that object."""
        if self.second and new != self._last:
            self._require()

    def includes(self, webhook: str) -> bool:
        return not self.second or webhook in self._due

    def called(self, webhook: str, *, changed: bool, if_needed: bool) -> None:
        if changed:
            self.wanted = True
            self._require()
        if if_needed:
            self._eligible.add(webhook)

    def changed_in_process(self) -> None:
        """A handler has changed the object: what it adds no plugin looks at, but webhooks called before it may."""
        if self._eligible:
            self.wanted = True
            self._require()

    def end(self, new: Json | None) -> None:
        self._last = new

    def _require(self) -> None:
        self._due |= self._eligible
        self._eligible = set()


class Operation(Struct, frozen=True):
    """The attributes of one write, as admission plugins and webhooks see them."""

    verb: str  # CREATE, UPDATE or DELETE
    resource: ResourceType
    subresource: str
    namespace: str
    name: str
    new: Json | None
    old: Json | None
    user: str
    dry_run: bool = False
    groups: Groups = ()
    warnings: list[str] = []  # of the response; may be added to
    answers: WebhookAnswers | None = None  # of webhooks over HTTPS; None: none is called
    reinvocation: Reinvocation | None = None  # with answers
    fields: list[Json] | None = None  # the managedFields of the new object
    old_fields: list[Json] | None = None
    details: UserDetails | None = None  # of the user

    @property
    def user_groups(self) -> Groups:
        """The groups of the user, also where they follow from the name."""
        return self.groups or groups_of(self.user)


class Catalog(Protocol):
    """Stored objects by resource: the plural, or plural.group outside the core group. They must not be changed."""

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        """The object, or None; the namespace is empty for cluster-wide kinds."""

    def list(self, resource: str) -> Sequence[Json]:
        """All objects of the resource in all namespaces, by namespace and name; none for an unknown resource.

        The list is identical as long as no object of the resource changes.
        """

    def resource_of(self, api_version: str, kind: str) -> ResourceType | None:
        """The resource of a kind; None if it is not served."""

    def versions(self, resource: ResourceType) -> Sequence[str]:
        """All versions the resource is served in."""

    def decide(self, user: str, groups: Groups, wanted: AccessAttributes) -> AccessDecision:
        """What the server's authorizer says."""


class AdmissionPlugin(Protocol):
    """A step that may change or refuse a write, after decoding and before validation."""

    @property
    def resources(self) -> frozenset[tuple[str, str]] | None:
        """The groups and plurals the plugin handles; None for all."""

    @property
    def keeps_complete(self) -> bool:
        """Whether an object that was defaulted is still defaulted, and the same object, after `mutate`."""

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        """The object to continue with; raises ApiError to refuse the write."""

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        """Raises ApiError to refuse the object after all mutations."""


@runtime_checkable
class ConfiguredPlugin(Protocol):
    """A plugin that stored objects configure, as webhook configurations do."""

    @property
    def configured_by(self) -> tuple[str, ...]:
        """The resources of these objects, as a catalog names them. While none of them changes, `applicable` returns the
        same for one class of requests: a verb, a resource and subresource, a user and its groups.
        """

    def applicable(self, operation: Operation, catalog: Catalog) -> AdmissionPlugin | None:
        """The plugin that handles requests of this class; None if nothing is configured for it."""


_RequestClass = tuple[ServedResource, str, str, str, Groups, UserDetails | None]
"""Resource, verb, subresource and user of a request, with the user's groups and details."""

Plugin = AdmissionPlugin | ConfiguredPlugin


class _CachedList(Struct):
    """The objects of a collection, listed once per version of it."""

    collection: Collection
    version: int = -1
    values: Sequence[Json] = ()


class StoreCatalog:
    """The catalog admission plugins read the store through."""

    def __init__(self, store: Store, registry: Registry, authorizer: Authorizer) -> None:
        self._store, self._registry, self._authorizer = store, registry, authorizer
        self._lists: Cache[str, _CachedList] = Cache(LISTED_OBJECTS)

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        found = self.collection(resource).get(namespace, name)
        return None if found is None else found.value

    def list(self, resource: str) -> Sequence[Json]:
        listed = self._of(resource)
        if listed.version != listed.collection.version:
            listed.values = [revision.value for _, _, revision in listed.collection.items()]
            listed.version = listed.collection.version
        return listed.values

    def resource_of(self, api_version: str, kind: str) -> ResourceType | None:
        served = self._registry.of_kind(api_version, kind)
        return None if served is None else served.type

    def versions(self, resource: ResourceType) -> Sequence[str]:
        return [served.type.version for served in self._registry.versions(resource.group, resource.plural)]

    def decide(self, user: str, groups: Groups, wanted: AccessAttributes) -> AccessDecision:
        return self._authorizer.decide(user, groups, wanted)

    def collection(self, resource: str) -> Collection:
        return self._of(resource).collection

    def _of(self, resource: str) -> _CachedList:
        known = self._lists.get(resource)
        if known is None:
            plural, _, group = resource.partition(".")
            known = _CachedList(self._store.collection(group, plural))
            self._lists.put(resource, known)
        return known


class WriteAdmission(Struct):
    """One write's admission: the applicable plugins mutate it in turn and, after validation, validate it in turn."""

    plugins: Sequence[AdmissionPlugin]
    catalog: StoreCatalog
    verb: str
    info: RequestInfo
    old: Json | None
    reinvocation: Reinvocation | None  # where webhooks over HTTPS are called
    complete: bool = True  # whether what was complete still is; else it is to be prepared again
    fields: list[Json] | None = None
    old_fields: list[Json] | None = None
    seen: Operation | None = None  # as it was last seen

    def mutate(self, new: Json | None) -> Json | None:
        """The object after all mutations; the identical object if no plugin changed it."""
        new = self._mutated(new)
        if self.reinvocation is not None and self.reinvocation.wanted:
            self.reinvocation.second = True
            new = self._mutated(new)
        return new

    def _mutated(self, new: Json | None) -> Json | None:
        operation = self._of(new)
        for plugin in self.plugins:
            changed = plugin.mutate(operation, self.catalog)
            if changed is not operation.new:
                self.complete = self.complete and plugin.keeps_complete
                operation = self._of(changed)
        return operation.new

    def validate(self, new: Json | None) -> None:
        operation = self._of(new)
        for plugin in self.plugins:
            plugin.validate(operation, self.catalog)

    def _of(self, new: Json | None) -> Operation:
        seen = self.seen
        if seen is None or seen.new is not new:
            seen = _operation(self.verb, self.info, new, self.old)
            if self.reinvocation is not None:
                seen = self._with_answers(seen, self.reinvocation)
            self.seen = seen
        return seen

    def _with_answers(self, operation: Operation, rounds: Reinvocation) -> Operation:
        return structs.replace(
            operation,
            answers=self.info.answers,
            reinvocation=rounds,
            fields=self.fields,
            old_fields=self.old_fields,
        )


class AdmissionChain:
    """All plugins in order, and which of them apply to a request."""

    def __init__(self, store: Store, registry: Registry, authorizer: Authorizer, plugins: Sequence[Plugin]) -> None:
        self._catalog, self._plugins = StoreCatalog(store, registry, authorizer), tuple(plugins)
        self._applicable: Cache[_RequestClass, tuple[AdmissionPlugin, ...]] = Cache(APPLICABLE_PLUGINS)
        configurable = [plugin for plugin in plugins if isinstance(plugin, ConfiguredPlugin)]
        for name in dict.fromkeys(name for plugin in configurable for name in plugin.configured_by):
            self._catalog.collection(name).derived.append(self._applicable)

    def admission_of(self, verb: str, info: RequestInfo, old: Json | None) -> WriteAdmission | None:
        """The admission of a write that replaces `old`; None if no plugin applies."""
        request_class = (info.served, verb, info.subresource, info.user, info.groups, info.details)
        plugins = self._applicable.get(request_class)
        if plugins is None:
            plugins = self._applicable_to(_operation(verb, info, None, None))
            self._applicable.put(request_class, plugins)
        if not plugins:
            return None
        rounds = Reinvocation() if info.answers is not None else None
        return WriteAdmission(plugins, self._catalog, verb, info, old, rounds)

    def _applicable_to(self, operation: Operation) -> tuple[AdmissionPlugin, ...]:
        found: list[AdmissionPlugin] = []
        for plugin in self._plugins:
            if isinstance(plugin, ConfiguredPlugin):
                applicable = plugin.applicable(operation, self._catalog)
                found += [] if applicable is None else [applicable]
            elif plugin.resources is None or (operation.resource.group, operation.resource.plural) in plugin.resources:
                found.append(plugin)
        return tuple(found)


def _operation(verb: str, info: RequestInfo, new: Json | None, old: Json | None) -> Operation:
    name = "" if info.of_collection else info.name or (new or {}).get("metadata", {}).get("name") or ""
    made = Operation(
        verb,
        info.served.type,
        info.subresource,
        info.namespace,
        name,
        new,
        old,
        info.user,
        info.dry_run,
        info.groups,
        info.warnings,
    )
    return made if info.details is None else structs.replace(made, details=info.details)
