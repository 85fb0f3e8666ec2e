"""AdmissionReviews: decodes the request of an API server and encodes the response, defaults as a JSON patch."""

from __future__ import annotations

import base64
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import Any, assert_never

import msgspec

from headgate.api.decode import MOST_SAID, InvalidObject, at_any_depth, decode, decode_list
from headgate.api.kinds import RESOURCES, collection_path, object_path
from headgate.api.wire import Buffer, Wire
from headgate.model.admission import (
    AdmissionAllowed,
    AdmissionDenied,
    AdmissionRequest,
    AdmissionResponse,
    HandlerResult,
    Json,
    Lookup,
)
from headgate.model.keys import Key, Kind
from headgate.model.objects import Object

API_VERSION = "admission.k8s.io/v1"
LARGEST_NESTED = 512 * 1024  # bytes of a review of which parts that are nested too deep are left out

Step = dict[str, Any]
"""Of a JSON patch."""

_KINDS: Mapping[tuple[str, str], Kind] = {
    (resource.group, resource.plural): resource.kind for resource in RESOURCES.values()
}


class InvalidReview(ValueError):
    """Not an AdmissionReview."""


class WireGroupResource(Wire, frozen=True):
    resource: str
    group: str = ""


class WireAdmissionRequest(Wire, frozen=True):
    uid: str
    resource: WireGroupResource
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    namespace: str = ""


class WireAdmissionReview(Wire, frozen=True):
    request: WireAdmissionRequest


_reviews = msgspec.json.Decoder(WireAdmissionReview)

Read = Callable[[Kind, Json], Object | None]
"""The object as we read it; None where we cannot."""


def read_once(kind: Kind, value: Json) -> Object | None:
    """A new object may have no name yet."""
    metadata = value.get("metadata") or {}
    named = {**value, "metadata": {"name": "", **metadata} if isinstance(metadata, dict) else metadata}
    return next(_readable(kind, (msgspec.json.encode(named),)), None)


def why_unreadable(kind: Kind, value: Json) -> str:
    """Why the object cannot be decoded, with the field; empty if it can."""
    try:
        decode(kind, msgspec.json.encode(value))
    except InvalidObject as error:
        return f"{error.path}: {error.expected}"
    return ""


def _readable(kind: Kind, raws: Iterator[bytes] | tuple[bytes, ...]) -> Iterator[Object]:
    for raw in raws:
        try:
            yield decode(kind, raw)
        except InvalidObject:
            continue


def answer(
    review: Buffer, handler: Callable[[AdmissionRequest], HandlerResult]
) -> Generator[Lookup, tuple[Object, ...], Json]:
    """The answer to an AdmissionReview by this handler, which is sent what it looks up. Raises InvalidReview.

    An object that cannot be decoded is left to the server's own validation.
    """
    asked = _request(review)
    resource = (asked.resource.group, asked.resource.resource)
    request = AdmissionRequest(asked.namespace, asked.object or {}, asked.old_object, reader_of(resource))
    result = handler(request)
    response = result if isinstance(result, AdmissionResponse) else (yield from result)
    return review_response(asked.uid, request.new, response)


def refusal(review: Buffer, error: str) -> Json:
    """The answer to an AdmissionReview whose handler raised."""
    request = _request(review)
    message = f"this object could not be judged, so it is not stored: {error[:MOST_SAID]}"
    return review_response(request.uid, request.object or {}, AdmissionDenied(message))


def lookup_path(wanted: Lookup) -> str:
    """The path of the API server that serves this lookup."""
    if isinstance(wanted, Key):
        return object_path(wanted)
    return collection_path(RESOURCES[wanted])


def lookup_result(wanted: Lookup, body: bytes) -> tuple[Object, ...]:
    """The objects in the server's answer to this lookup; those that cannot be decoded are left out."""
    if isinstance(wanted, Key):
        return tuple(_readable(wanted.kind, (body,)))
    return tuple(_readable(wanted, (bytes(item) for item in decode_list(body).items)))


def review_response(uid: str, asked: Json, decided: AdmissionResponse) -> Json:
    """The answer to the review with this uid about the object `asked`."""
    response: dict[str, Any] = {"uid": uid, "allowed": isinstance(decided, AdmissionAllowed)}
    match decided:
        case AdmissionAllowed(None):
            pass
        case AdmissionAllowed(changed):
            if steps := list(steps_between(asked, changed or {})):
                response |= {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(steps)).decode()}
        case AdmissionDenied(message):
            response["status"] = {"code": 403, "reason": "Forbidden", "message": message}
        case _:
            assert_never(decided)
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}


def steps_between(old: Json, new: Json, path: str = "") -> Iterator[Step]:
    """The JSON patch from old to new. Lists are replaced as a whole."""
    for name in [name for name in old if name not in new]:
        yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
    for name, value in new.items():
        here = f"{path}/{_escaped(name)}"
        if name not in old:
            yield {"op": "add", "path": here, "value": value}
        elif isinstance(value, dict) and isinstance(old[name], dict):
            yield from steps_between(old[name], value, here)
        elif not _same(value, old[name]):
            yield {"op": "replace", "path": here, "value": value}


def _same(one: Any, other: Any) -> bool:
    """Equal in JSON, where true is not 1."""
    return bool(one == other) and msgspec.json.encode(one) == msgspec.json.encode(other)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _request(review: Buffer) -> WireAdmissionRequest:
    """What is nested too deep costs time to leave out, so a large review that has any is none."""
    try:
        if len(review) > LARGEST_NESTED:
            return _reviews.decode(review).request
        return at_any_depth(_reviews.decode, review).request
    except RecursionError:
        raise InvalidReview("expected an AdmissionReview that is not nested so deep") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidReview(f"expected an AdmissionReview: {error}") from None


def reader_of(place: tuple[str, str], read: Read = read_once) -> Callable[[Json], Object | None]:
    """How an object of the resource with this group and plural is read."""
    kind = _KINDS.get(place)
    return _unread if kind is None else partial(read, kind)


def _unread(_value: Json) -> Object | None:
    return None
