"""Which kinds a cluster serves: those it is born with and those its CustomResourceDefinitions add."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from headgate.apiserver import RESOURCE_TYPES, ApiServer, Request, ResourceType

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFAULT_NAMESPACE = "default"


class Served(Struct, frozen=True):
    api_version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def everywhere(self) -> str:
        """The path of all its objects in all namespaces."""
        return f"{self._root}/{self.plural}"

    def path(self, namespace: str) -> str:
        """The path of its objects in the namespace, the default one where none is given."""
        if not self.namespaced:
            return self.everywhere
        return f"{self._root}/namespaces/{namespace or DEFAULT_NAMESPACE}/{self.plural}"

    @property
    def _root(self) -> str:
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"


def _builtin(known: ResourceType) -> Served:
    api_version = f"{known.group}/{known.version}" if known.group else known.version
    return Served(api_version, known.kind, known.plural, known.namespaced)


_BUILTIN = tuple(_builtin(known) for known in RESOURCE_TYPES)
_BY_NAME = {(known.api_version, known.kind): known for known in _BUILTIN}


def served_kind(server: ApiServer, api_version: str, kind: str) -> Served | None:
    builtin = _BY_NAME.get((api_version, kind))
    if builtin is not None:
        return builtin
    matches = (known for known in _custom(server) if (known.api_version, known.kind) == (api_version, kind))
    return next(matches, None)


def served_kinds(server: ApiServer) -> list[Served]:
    return [*_BUILTIN, *_custom(server)]


def _custom(server: ApiServer) -> Iterator[Served]:
    """Every defined kind once, in its first served version."""
    for definition in server.handle(Request("GET", DEFINITIONS), 0.0).value["items"]:
        spec = definition["spec"]
        version = next((known["name"] for known in spec["versions"] if known.get("served")), None)
        if version is not None:
            names = spec["names"]
            yield Served(f"{spec['group']}/{version}", names["kind"], names["plural"], spec["scope"] == "Namespaced")
