"""The `scale` subresource: the replicas of a workload, read and written as a Scale of `autoscaling/v1`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from headgate.apiserver.field_errors import invalid as invalid_field
from headgate.apiserver.handlers.decoding import decode_object, decode_patch
from headgate.apiserver.handlers.writing import Writer, get_existing, refuse_other_name
from headgate.apiserver.messages import Json, Request
from headgate.apiserver.registry import Registry, RequestInfo, ServedResource
from headgate.apiserver.status import ApiError, bad_request, invalid, method_not_allowed
from headgate.apiserver.strategy import ResourceType, ScalePaths

SCALE = "scale"
API_VERSION, KIND = "autoscaling/v1", "Scale"
_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def answer_scale(request: Request, info: RequestInfo, writer: Writer, registry: Registry) -> Json:
    """The Scale of the object, after the change the request asks for."""
    paths = info.served.type.scale
    assert paths is not None, "a resource without a scale"
    stored = info.served.shown(get_existing(info).value)
    if request.method == "GET":
        return scale_of(stored, paths)
    as_scale = _served_scale(info.served)
    match request.method:
        case "PUT":
            asked = decode_object(request.body, as_scale, registry)
        case "PATCH":
            asked = decode_patch(request.body, request.content_type, as_scale)(scale_of(stored, paths))
        case _:
            raise method_not_allowed()
    return scale_of(writer.replace(info, _scaled(info, stored, asked, paths)), paths)


def scale_of(value: Json, paths: ScalePaths) -> Json:
    """The Scale of an object."""
    metadata, replicas = value["metadata"], _found(value, paths.replicas)
    if replicas is None:
        if not paths.replicas_default:
            text = f'the spec replicas field "{paths.replicas}" does not exist'
            raise ApiError(500, "InternalError", f"Internal error occurred: {text}")
        replicas = paths.replicas_default
    status: Json = {"replicas": _found(value, paths.status_replicas) or 0}
    if selector := _selector(_found(value, paths.selector) if paths.selector else None):
        status["selector"] = selector
    return {
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": {name: metadata[name] for name in _KEPT if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _scaled(info: RequestInfo, stored: Json, scale: Json, paths: ScalePaths) -> Json:
    """The object with the replicas of its new Scale; refuses one that is invalid or meant for another object."""
    metadata, replicas = scale["metadata"], (scale.get("spec") or {}).get("replicas", 0)
    refuse_other_name(info, metadata)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request("spec.replicas: expected a whole number")
    if replicas < 0:
        wrong = invalid_field("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(KIND, "autoscaling", info.name, [wrong])
    wanted = {name: metadata[name] for name in ("uid", "resourceVersion") if metadata.get(name)}
    changed = _with(stored, _names(paths.replicas), replicas)
    return {**changed, "metadata": {**stored["metadata"], **wanted}}


def _served_scale(served: ServedResource) -> ServedResource:
    resource = ResourceType("autoscaling", "v1", served.type.plural, KIND, True, served.type.rules)
    return structs.replace(served, type=resource, api_version=API_VERSION, custom=False)


def _names(path: str) -> list[str]:
    return path.strip(".").split(".")


def _found(value: Any, path: str) -> Any:
    for name in _names(path):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _with(value: Json, names: Sequence[str], part: Any) -> Json:
    first, *rest = names
    below = value.get(first)
    return {**value, first: _with(below if isinstance(below, dict) else {}, rest, part) if rest else part}


_OPERATORS = {"In": "in", "NotIn": "notin"}


def _selector(selector: Any) -> str:
    """A selector as text: of labels, of requirements, or text already."""
    if not isinstance(selector, dict):
        return selector if isinstance(selector, str) else ""
    labels = selector.get("matchLabels") if "matchLabels" in selector or "matchExpressions" in selector else selector
    parts = {key: f"{key}={value}" for key, value in (labels or {}).items()}
    for each in selector.get("matchExpressions") or ():
        key, operator, values = each.get("key"), each.get("operator"), ",".join(sorted(each.get("values") or ()))
        negated = "!" if operator == "DoesNotExist" else ""
        parts[key] = f"{key} {_OPERATORS[operator]} ({values})" if operator in _OPERATORS else f"{negated}{key}"
    return ",".join(text for _, text in sorted(parts.items()))
