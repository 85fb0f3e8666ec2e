"""OpenAPI v3: what clients look up to validate, to patch and to explain. One document for each group and version.

Built-in kinds are described by the table of their fields, without prose; custom resources by their own schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec

from headgate.apiserver.kubernetes_types import FieldType, Merging, fields_of, is_atomic, type_of
from headgate.apiserver.messages import Json, Response
from headgate.apiserver.strategy import ResourceType

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


def openapi(path: str, types: Sequence[ResourceType]) -> Response | None:
    """The index, or the document of one group and version; None at any other path."""
    if path.rstrip("/") == ROOT:
        places = dict.fromkeys(_place(resource) for resource in types)
        return Response(200, {"paths": {place: {"serverRelativeURL": _url(place, types)} for place in places}})
    place = path.removeprefix(f"{ROOT}/")
    served = _at(place, types) if place != path else []
    return Response(200, _document(served)) if served else None


def _place(resource: ResourceType) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _at(place: str, types: Iterable[ResourceType]) -> list[ResourceType]:
    return [resource for resource in types if _place(resource) == place]


def _url(place: str, types: Iterable[ResourceType]) -> str:
    """With a hash of the document: clients keep a document by its URL."""
    names = [[each.kind, each.schema] for each in _at(place, types)]
    digest = sha256(msgspec.json.encode(names)).hexdigest()[:32].upper()
    return f"{ROOT}/{place}?hash={digest}"


def _document(served: Sequence[ResourceType]) -> Json:
    schemas: Json = {}
    for resource in served:
        schemas[_schema_name(resource)] = {**_schema(resource, schemas), GROUP_VERSION_KIND: [_kind(resource)]}
    paths: Json = {}
    for resource in served:
        paths |= _paths(resource)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": served[0].version},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _kind(resource: ResourceType) -> Json:
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
        return {"type": "object", GROUP_VERSION_KIND: [_kind(resource)]}
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
        GROUP_VERSION_KIND: _kind(resource),
    }
    return {f"/{_place(resource)}{space}/{resource.plural}/{{name}}": {"patch": patch}}
