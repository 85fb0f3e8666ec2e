"""Request bodies: objects and patches, what they must agree on with the path, and fields no schema declares.

Such fields are refused, told as warnings or ignored, as the query of the request asks. A real server warns by default.
So does this one of custom resources, whose schemas it consults anyway. It looks through built-in kinds only if the
request asks for it, because who does not ask does not read the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any

import msgspec

from headgate.apiserver.caches import DECODED_FIELDS, memoized
from headgate.apiserver.field_errors import forbidden, not_supported, quote, required, too_long
from headgate.apiserver.field_errors import invalid as invalid_field
from headgate.apiserver.handlers.protobuf import InvalidProtobuf, decode_protobuf
from headgate.apiserver.kubernetes_types import type_of
from headgate.apiserver.messages import Json
from headgate.apiserver.patches import (
    MOST_OPERATIONS,
    PatchFailed,
    PatchOperation,
    SharedMerges,
    apply_json_patch,
    apply_merge_patch,
    apply_strategic_patch,
    decode_json_patch,
)
from headgate.apiserver.registry import Registry, RequestInfo, ServedResource
from headgate.apiserver.status import StatusError, bad_request, invalid, too_large, unsupported_media

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"  # built-in kinds only
APPLY = "application/apply-patch+yaml"

SHOWN_CHARACTERS = 30
"""How many characters of an unreadable body an error shows."""

STRING_FIELDS = ("name", "generateName", "namespace", "uid", "resourceVersion")
"""Metadata fields the server reads before validation, which must be strings."""
_TEXT_OR_NOTHING = frozenset({str, type(None)})

SCHEME = "pkg/runtime/scheme.go:111"
"""How a real server's errors name the scheme: a place in its sources."""

Patch = Callable[[Json], Json]
"""Returns the patched object."""

METADATA, SPEC, STATUS = b'"metadata"', b'},"spec":', b'},"status":'
"""How the fields of an encoded object begin; `spec` and `status` after an object."""

_PATCHES: Mapping[tuple[str, bool], Callable[[Json, Json], Any]] = {
    (MERGE, True): SharedMerges().applied,
    (MERGE, False): apply_merge_patch,
}
"""How merge patches are applied, by media type and whether the resource is custom."""

INVALID_UTF8 = re.compile("[\udc80-\udcff]")
"""The surrogates Python decodes invalid bytes to."""

_object = msgspec.json.Decoder(dict[str, Any]).decode

_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def valid_utf8(body: bytes) -> bytes:
    """The body as UTF-8; like a real server, replaces each invalid byte by U+FFFD."""
    return INVALID_UTF8.sub("\ufffd", body.decode(errors="surrogateescape")).encode()


def as_json(body: bytes) -> bytes:
    """The object in a protobuf body, as JSON."""
    try:
        return msgspec.json.encode(decode_protobuf(body))
    except InvalidProtobuf as error:
        raise bad_request(str(error)) from None


def decode_object(body: bytes, served: ServedResource, registry: Registry) -> Json:
    """The object in a body, of the kind that is served there, with metadata that is an object."""
    try:
        value = _decoded(body, served)
    except msgspec.DecodeError as error:
        raise _unrecognized(served, str(error), body) from None
    value = _of_kind(value, served, registry, body)
    return with_metadata(value)


def _decoded(body: bytes, served: ServedResource) -> Json:
    """The object in a body. Equal specs and statuses of custom resources are identical, so that results cached by
    identity apply.
    """
    if not served.custom:
        return _object(body)
    try:
        return _with_shared_parts(body)
    except msgspec.DecodeError:
        return _object(body)  # not split at a field, or malformed: then the error names its place in the body


def _with_shared_parts(body: bytes) -> Json:
    """The body split before `status` and `spec`, each part decoded once. Raises DecodeError if the split parts are not
    JSON.
    """
    head, has_status, status = body.partition(STATUS)
    head, has_spec, spec = (head + b"}}" if has_status else head).partition(SPEC)
    head = head + b"}}" if has_spec else head
    value = _shared(head) if head.find(METADATA) < 0 else _object(head)  # `in` takes bytes for a number first
    if has_spec:
        value = {**value, **_shared_spec(spec)}
    return {**value, **_shared_status(status)} if has_status else value


_shared = memoized(DECODED_FIELDS)(_object)


@memoized(DECODED_FIELDS)
def _shared_spec(text: bytes) -> Json:
    return _object(b'{"spec":' + text)


@memoized(DECODED_FIELDS)
def _shared_status(text: bytes) -> Json:
    return _object(b'{"status":' + text)


def _unrecognized(served: ServedResource, why: str, body: bytes) -> StatusError:
    shown = body[:SHOWN_CHARACTERS].decode(errors="replace")
    return bad_request(f"the object provided is unrecognized (must be of type {served.type.kind}): {why} ({shown})")


def _of_kind(value: Json, served: ServedResource, registry: Registry, body: bytes) -> Json:
    kind, api_version = value.get("kind"), value.get("apiVersion")
    if kind == served.type.kind and api_version == served.api_version:
        return value
    if served.custom and not (kind and api_version):
        missing = "apiVersion" if kind else "Kind"
        raise _unrecognized(served, f"Object '{missing}' is missing in '{body.decode(errors='replace')}'", body)
    if api_version and api_version != served.api_version:
        raise _of_other_version(str(kind or served.type.kind), str(api_version), served, registry)
    if kind and kind != served.type.kind:
        text = f'{kind} in version "{served.type.version}" cannot be handled as a {served.type.kind}'
        raise bad_request(f"{text}: unknown conversion")
    return {**value, "kind": served.type.kind, "apiVersion": served.api_version}


def _of_other_version(kind: str, api_version: str, served: ServedResource, registry: Registry) -> StatusError:
    if served.custom or registry.of_kind(api_version, kind) is not None:
        text = f"the API version in the data ({api_version}) does not match the expected API version"
        return bad_request(f"{text} ({served.api_version})")
    text = f'{kind} in version "{api_version.rpartition("/")[2]}" cannot be handled as a {served.type.kind}'
    return bad_request(f'{text}: no kind "{kind}" is registered for version "{api_version}" in scheme "{SCHEME}"')


def with_metadata(value: Json) -> Json:
    """The object with metadata, empty if absent or null; refuses metadata of another type."""
    metadata = value.get("metadata")
    if metadata is None:
        return {**value, "metadata": {}}
    if not isinstance(metadata, dict):
        raise bad_request("metadata: expected an object")
    if not _TEXT_OR_NOTHING.issuperset(map(type, map(metadata.get, STRING_FIELDS))):
        name = next(name for name in STRING_FIELDS if type(metadata.get(name)) not in _TEXT_OR_NOTHING)
        raise bad_request(f"metadata.{name}: expected a string")
    return value


def decode_configuration(body: bytes) -> Json:
    """The configuration in the body of an apply."""
    try:
        config = _object(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(config.get("metadata", {}), dict):
        raise bad_request("metadata: expected an object")
    return config


def decode_patch(body: bytes, content_type: str, served: ServedResource) -> Patch:
    """The patch in a body."""
    apply = _PATCHES.get((content_type, served.custom))  # as most say it
    if apply is None:
        media = content_type.partition(";")[0].strip()
        if media == JSON:
            return partial(_apply, _json_patched, _few_operations(decode_json_patch(body)))
        apply = _PATCHES.get((media, served.custom))
        if media == STRATEGIC and not served.custom:
            apply = partial(apply_strategic_patch, kind=type_of(served.api_version, served.type.kind))
        if apply is None:
            raise _unsupported(served)
    try:
        return partial(_apply, apply, _decoded(body, served))
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None


def _unsupported(served: ServedResource) -> StatusError:
    if not served.custom:
        return unsupported_media("415: Unsupported Media Type")
    text = "the body of the request was in an unknown format - accepted media types include:"
    return unsupported_media(f"{text} {JSON}, {MERGE}, {APPLY}")


def _few_operations(steps: list[PatchOperation]) -> list[PatchOperation]:
    if len(steps) > MOST_OPERATIONS:
        raise too_large(f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(steps)}")
    return steps


def _json_patched(value: Json, steps: list[Any]) -> Any:
    try:
        return apply_json_patch(value, steps)
    except PatchFailed:
        raise StatusError(422, "Invalid", "the server rejected our request due to an error in our request") from None


def _apply(apply: Callable[[Json, Any], Any], patch: Any, original: Json) -> Json:
    value = apply(original, patch)
    if not isinstance(value, dict):
        raise bad_request("the patched document is no object")
    return value if value.get("metadata") is original["metadata"] else with_metadata(value)


class FieldValidation(StrEnum):
    """What becomes of a request that has unknown fields."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


LONGEST_MANAGER = 128  # bytes
_ACCEPTED = ("", *sorted(FieldValidation))


def field_validation(method: str, query: Mapping[str, str]) -> FieldValidation | None:
    """What the request asks for, if it does."""
    asked = query.get("fieldValidation") if query else None
    if not asked:
        return None
    if asked not in _ACCEPTED:
        wrong = not_supported("fieldValidation", asked, _ACCEPTED)
        raise invalid(_OPTIONS.get(method, "CreateOptions"), "meta.k8s.io", "", [wrong])
    return FieldValidation(asked)


def field_manager(method: str, query: Mapping[str, str], user_agent: str) -> str:
    """Who is to own the fields that a request writes: as the query says, or the client by its name."""
    asked = query.get("fieldManager", "") if query else ""
    if asked:
        _refuse_manager(method, asked)
        return asked
    return _cut("".join(letter for letter in user_agent.partition("/")[0] if letter.isprintable())) or "unknown"


def _cut(name: str) -> str:
    return name.encode()[:LONGEST_MANAGER].decode(errors="ignore")


def _refuse_manager(method: str, name: str) -> None:
    errors = []
    if len(name.encode()) > LONGEST_MANAGER:
        errors.append(too_long("fieldManager", LONGEST_MANAGER))
    at = 0
    for letter in name:
        if not letter.isprintable():
            shown = f"invalid character U+{ord(letter):04X} (at position {at})"
            errors.append(invalid_field("fieldManager", name, shown))
        at += len(letter.encode())
    if errors:
        raise invalid(_OPTIONS.get(method, "CreateOptions"), "meta.k8s.io", "", errors)


def forced(query: Mapping[str, str], *, applies: bool) -> bool:
    """Whether an apply takes what others own; refuses to force any other patch, and an apply without a manager."""
    force, errors = query.get("force", ""), []
    if applies and not query.get("fieldManager"):
        errors.append(required("fieldManager", "is required for apply patch"))
    if force and not applies:
        errors.append(forbidden("force", "may not be specified for non-apply patch"))
    if errors:
        raise invalid("PatchOptions", "meta.k8s.io", "", errors)
    return force.lower() in ("true", "1", "t")


def validate_fields(
    info: RequestInfo, value: Json, validation: FieldValidation | None, *, is_patched: bool = False
) -> None:
    """Refuses an object with unknown fields, or notes a warning for each."""
    looks_through = info.served.custom if validation is None else validation is not FieldValidation.IGNORE
    unknown = info.served.type.rules.unknown_fields(value) if looks_through else ()
    if not unknown:
        return
    if validation is not FieldValidation.STRICT:
        info.warnings.extend(_sentences(unknown))
        return
    why = f"strict decoding error: {', '.join(_sentences(unknown))}"
    if is_patched:
        raise invalid("", "", "", [invalid_field("patch", msgspec.json.encode(value).decode(), why)])
    kind, version = info.served.type.kind, info.served.type.version
    raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def _sentences(unknown: Sequence[str]) -> list[str]:
    """One for each unknown field, as a server words it."""
    return [f"unknown field {quote(path)}" for path in unknown]
