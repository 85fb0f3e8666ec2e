"""Discovery: which groups, versions and resources are served, in the aggregated form and in the older one.

`discovery` answers with the document at a path that names no resource, such as `/apis` or `/version`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headgate.apiserver.messages import Json, Response
from headgate.apiserver.strategy import ResourceType

AGGREGATED = "APIGroupDiscoveryList"
AGGREGATED_TYPE = f"application/json;g=apidiscovery.k8s.io;v=v2;as={AGGREGATED}"
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
WITHOUT_DELETECOLLECTION = frozenset({("", "namespaces")})
CHANGED, MADE = ("get", "patch", "update"), ("create",)
MAJOR, MINOR = "1", "36"
VERSION: Json = {
    "major": MAJOR,
    "minor": MINOR,
    "gitVersion": f"v{MAJOR}.{MINOR}.0+headgate",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}


class _Subresource:
    """What is served below an object: its name, its own kind (group, version, kind), and the verbs."""

    def __init__(self, name: str, kind: tuple[str, str, str], verbs: Sequence[str]) -> None:
        self.name, self.kind, self.verbs = name, kind, verbs


_SPECIAL = {
    ("", "pods"): (
        _Subresource("binding", ("", "", "Binding"), MADE),
        _Subresource("eviction", ("policy", "v1", "Eviction"), MADE),
    ),
    ("", "serviceaccounts"): (_Subresource("token", ("authentication.k8s.io", "v1", "TokenRequest"), MADE),),
}
_SCALE = _Subresource("scale", ("autoscaling", "v1", "Scale"), CHANGED)


def discovery(path: str, accept: str, types: Sequence[ResourceType]) -> Response | None:
    """What is at this path for a client that accepts these media types; None where nothing is."""
    found = _document(path, _prefers_aggregated(accept), types)
    if found is None:
        return None
    return (
        Response(200, found, content_type=AGGREGATED_TYPE) if found.get("kind") == AGGREGATED else Response(200, found)
    )


def _document(path: str, aggregated: bool, types: Sequence[ResourceType]) -> Json | None:
    parts, groups = [part for part in path.split("/") if part], _by_group(types)
    match parts:
        case ["version"]:
            return VERSION
        case ["api"]:
            core = {"": groups[""]}
            return _aggregated(core) if aggregated else _core_versions(groups[""])
        case ["apis"]:
            others = {name: versions for name, versions in groups.items() if name}
            return _aggregated(others) if aggregated else _groups(others)
        case ["api", version] if version in groups[""]:
            return _resources("", version, groups[""][version])
        case ["apis", group] if group in groups and group:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])}
        case ["apis", group, version] if group and version in groups.get(group, ()):
            return _resources(group, version, groups[group][version])
    return None


def _prefers_aggregated(accept: str) -> bool:
    """Whether the client prefers one document with everything."""
    first = accept.partition(",")[0]
    return f"as={AGGREGATED}" in first and "v=v2beta1" not in first


_Versions = Mapping[str, list[ResourceType]]


def _by_group(types: Iterable[ResourceType]) -> dict[str, dict[str, list[ResourceType]]]:
    """Resources by group and version, in the order of the types; resources by name."""
    groups: dict[str, dict[str, list[ResourceType]]] = {}
    for resource in types:
        groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    for versions in groups.values():
        for resources in versions.values():
            resources.sort(key=lambda resource: resource.plural)
    return groups


def _core_versions(versions: _Versions) -> Json:
    return {"kind": "APIVersions", "versions": list(versions), "serverAddressByClientCIDRs": []}


def _groups(groups: Mapping[str, _Versions]) -> Json:
    found = [_group(name, versions) for name, versions in groups.items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def _group(name: str, versions: _Versions) -> Json:
    served = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": served, "preferredVersion": served[0]}


def _resources(group: str, version: str, resources: Iterable[ResourceType]) -> Json:
    """The older form: a list for each version of a group, subresources among the resources."""
    listed: list[Json] = []
    for resource in resources:
        scope = {"namespaced": resource.namespaced}
        listed.append(
            {
                "name": resource.plural,
                "singularName": singular(resource),
                **scope,
                "kind": resource.kind,
                "verbs": _verbs(resource),
                **_names(resource),
            }
        )
        for each in _subresources(resource):
            of, at, kind = each.kind
            place = {"group": of, "version": at} if of else {}
            name = f"{resource.plural}/{each.name}"
            listed.append({"name": name, "singularName": "", **scope, **place, "kind": kind, "verbs": list(each.verbs)})
    named = {"groupVersion": f"{group}/{version}" if group else version}
    versioned = {"apiVersion": "v1"} if group else {}
    return {"kind": "APIResourceList", **versioned, **named, "resources": listed}


def _aggregated(groups: Mapping[str, _Versions]) -> Json:
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [
                {"version": version, "resources": [_aggregated_resource(each) for each in of], "freshness": "Current"}
                for version, of in versions.items()
            ],
        }
        for name, versions in groups.items()
    ]
    return {"kind": AGGREGATED, "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_resource(resource: ResourceType) -> Json:
    subresources = [
        {"subresource": each.name, "responseKind": _kind(*each.kind), "verbs": list(each.verbs)}
        for each in _subresources(resource)
    ]
    below = {"subresources": subresources} if subresources else {}
    return {
        "resource": resource.plural,
        "responseKind": _kind(*_own_kind(resource)),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": singular(resource),
        "verbs": _verbs(resource),
        **_names(resource),
        **below,
    }


def singular(resource: ResourceType) -> str:
    return resource.singular or resource.kind.lower()


def _kind(group: str, version: str, kind: str) -> Json:
    return {"group": group, "version": version, "kind": kind}


def _own_kind(resource: ResourceType) -> tuple[str, str, str]:
    """A built-in resource names no group and version of its own; clients read those above it."""
    return (resource.group, resource.version, resource.kind) if resource.schema is not None else ("", "", resource.kind)


def _subresources(resource: ResourceType) -> tuple[_Subresource, ...]:
    special = _SPECIAL.get((resource.group, resource.plural), ())
    scale = (_SCALE,) if resource.scale is not None else ()
    status = (_Subresource("status", _own_kind(resource), CHANGED),) if resource.has_status else ()
    return (*special, *scale, *status)


def _verbs(resource: ResourceType) -> list[str]:
    missing = {"deletecollection"} if (resource.group, resource.plural) in WITHOUT_DELETECOLLECTION else set()
    return [verb for verb in VERBS if verb not in missing]


def _names(resource: ResourceType) -> Json:
    short = {"shortNames": list(resource.short_names)} if resource.short_names else {}
    return {**short, **({"categories": list(resource.categories)} if resource.categories else {})}
