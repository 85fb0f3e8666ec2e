"""Which resources are served, by path and by kind, and which of them a request is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from headgate.apiserver.caches import REQUEST_PATHS, Cache
from headgate.apiserver.messages import Json, UserDetails
from headgate.apiserver.status import no_such_path
from headgate.apiserver.storage import Collection, Store
from headgate.apiserver.strategy import ResourceType
from headgate.apiserver.webhook_calls import WebhookAnswers

NAMESPACE_SUBRESOURCES = ("status", "finalize")


class ResourcePath(Struct, frozen=True, gc=False):
    """A parsed request path; parts it does not have are empty."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> ResourcePath:
    """Parses `/api/v1/…` or `/apis/group/version/…`; refuses anything else as not found."""
    root, *parts = path.strip("/").split("/")
    if root == "apis" and len(parts) > 1:
        return _resource(parts[0], parts[1], parts[2:])
    if root == "api" and parts:
        return _resource("", parts[0], parts[1:])
    raise no_such_path()


def _resource(group: str, version: str, parts: list[str]) -> ResourcePath:
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces" and (group or parts[2] not in NAMESPACE_SUBRESOURCES):
        namespace, parts = parts[1], parts[2:]
    if not 1 <= len(parts) <= 3 or "" in parts:
        raise no_such_path()
    return ResourcePath(group, version, namespace, *parts)


class ServedResource(Struct, frozen=True, gc=False, eq=False):
    """A resource in one version, with the collection all its versions share. Redefining it makes a new one."""

    type: ResourceType
    api_version: str
    collection: Collection
    custom: bool  # defined by a CustomResourceDefinition

    def shown(self, value: Json) -> Json:
        """The object in this API version."""
        return value if value["apiVersion"] == self.api_version else {**value, "apiVersion": self.api_version}

    def listed(self, value: Json) -> Json:
        """The object as an item of a list; items of built-in kinds omit apiVersion and kind."""
        if self.custom:
            return self.shown(value)
        return {name: part for name, part in value.items() if name not in ("apiVersion", "kind")}


class RequestInfo(Struct, frozen=True, gc=False):
    """A request resolved: resource, namespace, name and subresource, user and time. `name` is empty for a creation."""

    served: ServedResource
    namespace: str
    name: str
    user: str
    now: float
    subresource: str = ""
    dry_run: bool = False
    warnings: list[str] = []  # of the response
    manager: str = ""  # who is to own the fields that are written
    groups: tuple[str, ...] = ()  # of the user; empty: those that follow from the name
    answers: WebhookAnswers | None = None  # of webhooks over HTTPS; None: none is called
    details: UserDetails | None = None  # of the user
    of_collection: bool = False  # the request is about a whole collection, and names no object


class Registry:
    """The resources served now, built-in and custom."""

    def __init__(self, store: Store, types: Sequence[ResourceType]) -> None:
        self._store = store
        self._by_path: dict[tuple[str, str, str], ServedResource] = {}
        self._by_kind: dict[tuple[str, str], ServedResource] = {}
        self._types: tuple[ResourceType, ...] | None = None  # until something else is served
        self._paths: Cache[str, tuple[ServedResource, ResourcePath]] = Cache(REQUEST_PATHS)
        self._built_in = frozenset(_api_version(resource) for resource in types)
        for resource in types:
            self._add(resource, custom=False)

    def define(self, types: Iterable[ResourceType]) -> None:
        """Serves custom resources. As on a real server, one in a built-in group and version is unreachable."""
        for resource in types:
            if _api_version(resource) not in self._built_in:
                self._add(resource, custom=True)

    def withdraw(self, group: str, plural: str) -> None:
        """Stops serving all versions of this custom resource."""
        for served in self.versions(group, plural):
            if served.custom:
                self._forget()
                del self._by_path[group, served.type.version, plural]
                self._by_kind.pop((served.api_version, served.type.kind), None)

    def _add(self, resource: ResourceType, *, custom: bool) -> None:
        self._forget()
        api_version = _api_version(resource)
        served = ServedResource(resource, api_version, self._store.collection(resource.group, resource.plural), custom)
        self._by_path[resource.group, resource.version, resource.plural] = served
        self._by_kind[api_version, resource.kind] = served

    def _forget(self) -> None:
        self._types = None
        self._paths.clear()

    def at(self, path: str) -> tuple[ServedResource, ResourcePath]:
        """The resource at this path and the parsed path; refuses a path that names no resource or does not fit its
        scope.
        """
        known = self._paths.get(path)
        if known is None:
            target = parse_path(path)
            known = (self._fitting(target), target)
            self._paths.put(path, known)
        return known

    def _fitting(self, target: ResourcePath) -> ServedResource:
        served = self._by_path.get((target.group, target.version, target.plural))
        if served is None or (target.namespace and not served.type.namespaced):
            raise no_such_path()
        if served.type.namespaced and target.name and not target.namespace:
            raise no_such_path()
        return served

    def of_kind(self, api_version: str, kind: str) -> ServedResource | None:
        return self._by_kind.get((api_version, kind))

    def types(self) -> tuple[ResourceType, ...]:
        """Built-in types in their order, then custom ones by definition, the storage version first.

        The tuple is identical as long as nothing changes.
        """
        if self._types is None:
            self._types = tuple(served.type for served in self._by_path.values())
        return self._types

    def versions(self, group: str, plural: str) -> list[ServedResource]:
        return [found for key, found in self._by_path.items() if (key[0], key[2]) == (group, plural)]

    def preferred(self) -> list[ServedResource]:
        """Every resource once, in its preferred version, by group and name."""
        first: dict[tuple[str, str], ServedResource] = {}
        for (group, _, plural), served in self._by_path.items():
            first.setdefault((group, plural), served)
        return [first[key] for key in sorted(first)]


def _api_version(resource: ResourceType) -> str:
    return f"{resource.group}/{resource.version}" if resource.group else resource.version
