"""What a server says it serves: discovery of groups, versions and resources, and their schemas in OpenAPI v3.

`discovery` answers with the document at a path that names no resource, such as `/apis` or `/version`, in the aggregated
form and in the older one. `openapi` has what clients look up to validate, to patch and to explain: one document for
each group and version. Built-in kinds are described by the table of their fields, without prose; custom resources by
their own schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

import msgspec

from headgate.apiserver.kubernetes_types import FieldType, Merging, fields_of, is_atomic, type_of
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

ROOT = "/openapi/v3"
PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
STRATEGIC = "application/strategic-merge-patch+json"
PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")
GROUP_VERSION_KIND = "x-kubernetes-group-version-kind"
SCALARS: dict[str, Json] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "Time": {"type": "string", "format": "date-time"},
    "MicroTime": {"type": "string", "format": "date-time"},
    "Duration": {"type": "string"},
    "Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "RawExtension": {"type": "object"},
    "FieldsV1": {"type": "object"},
    "Any": {},
    "float64": {"type": "number", "format": "double"},
}
ATOMIC_MAP: Json = {"x-kubernetes-map-type": "atomic"}


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


def openapi(path: str, types: Sequence[ResourceType]) -> Response | None:
    """The index, or the document of one group and version; None at any other path."""
    if path.rstrip("/") == ROOT:
        places = dict.fromkeys(_place(resource) for resource in types)
        return Response(200, {"paths": {place: {"serverRelativeURL": _url(place, types)} for place in places}})
    place = path.removeprefix(f"{ROOT}/")
    served = _at(place, types) if place != path else []
    return Response(200, _group_document(served)) if served else None


def _place(resource: ResourceType) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _at(place: str, types: Iterable[ResourceType]) -> list[ResourceType]:
    return [resource for resource in types if _place(resource) == place]


def _url(place: str, types: Iterable[ResourceType]) -> str:
    """With a hash of the document: clients keep a document by its URL."""
    names = [[each.kind, each.schema] for each in _at(place, types)]
    digest = sha256(msgspec.json.encode(names)).hexdigest()[:32].upper()
    return f"{ROOT}/{place}?hash={digest}"


def _group_document(served: Sequence[ResourceType]) -> Json:
    schemas: Json = {}
    for resource in served:
        schemas[_schema_name(resource)] = {**_schema(resource, schemas), GROUP_VERSION_KIND: [_kind_entry(resource)]}
    paths: Json = {}
    for resource in served:
        paths |= _paths(resource)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": served[0].version},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _kind_entry(resource: ResourceType) -> Json:
    return {"group": resource.group, "kind": resource.kind, "version": resource.version}


def _schema_name(resource: ResourceType) -> str:
    message = type_of(_api_version(resource), resource.kind)
    if message and resource.schema is None:
        return message
    reversed_group = ".".join(reversed(resource.group.split("."))) or "core"
    return f"{reversed_group}.{resource.version}.{resource.kind}"


def _api_version(resource: ResourceType) -> str:
    return f"{resource.group}/{resource.version}" if resource.group else resource.version


def _schema(resource: ResourceType, schemas: Json) -> Json:
    identity = {"apiVersion": SCALARS["string"], "kind": SCALARS["string"]}
    if resource.schema is not None:
        own = resource.schema.get("properties") or {}
        metadata = _reference("meta.v1.ObjectMeta", schemas)
        return {**resource.schema, "properties": {**identity, "metadata": metadata, **own}}
    message = type_of(_api_version(resource), resource.kind)
    if message is None:
        return {"type": "object", GROUP_VERSION_KIND: [_kind_entry(resource)]}
    described = _message(message, schemas)
    return {**described, "properties": {**identity, **described["properties"]}}


def _message(message: str, schemas: Json) -> Json:
    properties = {name: _field(field, schemas) for name, field in fields_of(message).items()}
    return {"type": "object", "properties": properties, **(ATOMIC_MAP if is_atomic(message) else {})}


def _field(field: FieldType, schemas: Json) -> Json:
    plain = SCALARS[field.type] if field.type in SCALARS else _reference(field.type, schemas)
    if field.repeated:
        return {"type": "array", "items": plain, **_list_marks(field.merging)}
    if field.mapped:
        plain = {"type": "object", "additionalProperties": plain}
    default = {} if field.merging.default is None else {"default": field.merging.default}
    return {**plain, **default, **(ATOMIC_MAP if field.merging.atomic else {})}


def _list_marks(merging: Merging) -> Json:
    """How clients and server merge the list."""
    kind = "map" if merging.keys else "set" if merging.set else "atomic"
    marks: Json = {"x-kubernetes-list-type": kind}
    if merging.keys:
        marks["x-kubernetes-list-map-keys"] = list(merging.keys)
    if merging.merge is not None:
        marks["x-kubernetes-patch-strategy"] = "merge"
    if merging.merge:
        marks["x-kubernetes-patch-merge-key"] = merging.merge
    return marks


def _reference(message: str, schemas: Json) -> Json:
    if message not in schemas:
        schemas[message] = {}  # types refer to themselves
        schemas[message] = _message(message, schemas)
    return {"allOf": [{"$ref": f"#/components/schemas/{message}"}], "default": {}}


def _paths(resource: ResourceType) -> Json:
    """The patch of each resource: from it clients learn which patches and parameters are served."""
    space = "/namespaces/{namespace}" if resource.namespaced else ""
    patches = PATCHES if resource.schema is not None else (*PATCHES, STRATEGIC)
    patch = {
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in PARAMETERS],
        "requestBody": {"content": {media: {"schema": {"type": "object"}} for media in patches}},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        GROUP_VERSION_KIND: _kind_entry(resource),
    }
    return {f"/{_place(resource)}{space}/{resource.plural}/{{name}}": {"patch": patch}}
