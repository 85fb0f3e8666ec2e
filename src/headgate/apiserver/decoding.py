"""Bodies of requests: objects, patches and what they must agree on with the path."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from headgate.apiserver.json_patch import PatchFailed, apply_json_patch, decode_json_patch
from headgate.apiserver.merge_patch import SharedMerges, apply_merge_patch
from headgate.apiserver.messages import Json
from headgate.apiserver.registry import Registry, Served
from headgate.apiserver.status import Refusal, bad_request, unsupported_media
from headgate.apiserver.strategic_patch import apply_strategic_patch

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"  # built-in kinds only

SHOWN = 30
"""How many characters of an unreadable body an error shows."""

TEXTS = ("name", "generateName", "namespace", "uid", "resourceVersion")
"""Metadata the server reads before the kind's own rules look at the object."""

SCHEME = "pkg/runtime/scheme.go:111"
"""What a real server calls the list of its kinds: the place in its sources."""

Transform = Callable[[Json], Json]
"""How the stored object becomes the one that is asked for."""

SHARED = 8_192
"""How many parts of custom objects are known by their text, and shared by all objects that say the same."""

_plain = msgspec.json.Decoder().decode
_object = msgspec.json.Decoder(dict[str, Any]).decode
_parts = msgspec.json.Decoder(dict[str, Raw]).decode
_shared = lru_cache(maxsize=SHARED)(_plain)
_shared_merges = SharedMerges()


def decode_object(body: bytes, served: Served, registry: Registry) -> Json:
    """The object in a body, of the kind that is served there, with metadata that is an object."""
    try:
        value = _decoded(body, served)
    except msgspec.DecodeError as trouble:
        raise _unrecognized(served, str(trouble), body) from None
    value = _of_kind(value, served, registry, body)
    return with_metadata(value)


def _decoded(body: bytes, served: Served) -> Json:
    """The object in a body. Of a custom kind, parts that read the same are the very same, metadata aside."""
    if not served.custom:
        return _object(body)
    try:
        return {
            name: _plain(text) if name == "metadata" else _shared(bytes(text)) for name, text in _parts(body).items()
        }
    except msgspec.DecodeError:
        return _object(body)  # says where in the whole the trouble is


def _unrecognized(served: Served, why: str, body: bytes) -> Refusal:
    shown = body[:SHOWN].decode(errors="replace")
    return bad_request(f"the object provided is unrecognized (must be of type {served.type.kind}): {why} ({shown})")


def _of_kind(value: Json, served: Served, registry: Registry, body: bytes) -> Json:
    kind, api_version = value.get("kind"), value.get("apiVersion")
    if kind == served.type.kind and api_version == served.api_version:
        return value
    if served.custom and not (kind and api_version):
        missing = "apiVersion" if kind else "Kind"
        raise _unrecognized(served, f"Object '{missing}' is missing", body)
    if api_version and api_version != served.api_version:
        raise _of_other_version(str(kind or served.type.kind), str(api_version), served, registry)
    if kind and kind != served.type.kind:
        text = f'{kind} in version "{served.type.version}" cannot be handled as a {served.type.kind}'
        raise bad_request(f"{text}: unknown conversion")
    return {**value, "kind": served.type.kind, "apiVersion": served.api_version}


def _of_other_version(kind: str, api_version: str, served: Served, registry: Registry) -> Refusal:
    if served.custom or registry.of_kind(api_version, kind) is not None:
        text = f"the API version in the data ({api_version}) does not match the expected API version"
        return bad_request(f"{text} ({served.api_version})")
    text = f'{kind} in version "{api_version.rpartition("/")[2]}" cannot be handled as a {served.type.kind}'
    return bad_request(f'{text}: no kind "{kind}" is registered for version "{api_version}" in scheme "{SCHEME}"')


def with_metadata(value: Json) -> Json:
    """The object with metadata; null and absent are empty, anything but an object is refused."""
    metadata = value.get("metadata")
    if metadata is None:
        return {**value, "metadata": {}}
    if not isinstance(metadata, dict):
        raise bad_request("metadata: expected an object")
    for name in TEXTS:
        text = metadata.get(name)
        if text is not None and not isinstance(text, str):
            raise bad_request(f"metadata.{name}: expected a string")
    return value


def decode_patch(body: bytes, content_type: str, served: Served) -> Transform:
    """The patch of a body as a change of the stored object."""
    media = _media_type(content_type)
    if media == MERGE:
        patch = _patch_object(body, served)
        merged = _shared_merges.applied if served.custom else apply_merge_patch
        return lambda value: _still_object(merged(value, patch), value)
    if media == JSON:
        steps = decode_json_patch(body)
        return lambda value: _still_object(_json_patched(value, steps), value)
    if media == STRATEGIC and not served.custom:
        change = _patch_object(body, served)
        return lambda value: _still_object(apply_strategic_patch(value, change), value)
    raise _unsupported(served)


@lru_cache
def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip()


def _unsupported(served: Served) -> Refusal:
    if not served.custom:
        return unsupported_media("415: Unsupported Media Type")
    text = "the body of the request was in an unknown format - accepted media types include:"
    return unsupported_media(f"{text} {JSON}, {MERGE}")


def _patch_object(body: bytes, served: Served) -> Json:
    try:
        return _decoded(body, served)
    except msgspec.DecodeError as trouble:
        raise bad_request(f"error decoding patch: {trouble}") from None


def _json_patched(value: Json, steps: list[Any]) -> Any:
    try:
        return apply_json_patch(value, steps)
    except PatchFailed:
        raise Refusal(422, "Invalid", "the server rejected our request due to an error in our request") from None


def _still_object(value: Any, original: Json) -> Json:
    if not isinstance(value, dict):
        raise bad_request("the patched document is no object")
    return value if value.get("metadata") is original["metadata"] else with_metadata(value)
