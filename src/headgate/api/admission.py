"""AdmissionReviews: what an API server asks a webhook, and the answer it understands."""

from __future__ import annotations

import base64
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import Any, assert_never

import msgspec

from headgate.api.decode import MOST_SAID, InvalidObject, at_any_depth, decode, decode_list
from headgate.api.kinds import RESOURCES, collection_path, object_path
from headgate.api.wire import Buffer, Wire
from headgate.model.admission import Admit, Json, Question, Refuse, Said, Verdict, Wanted
from headgate.model.keys import Key, Kind
from headgate.model.objects import Object

API_VERSION = "admission.k8s.io/v1"

Step = dict[str, Any]
"""Of a JSON patch."""

_KINDS: Mapping[tuple[str, str], Kind] = {
    (resource.group, resource.plural): resource.kind for resource in RESOURCES.values()
}


class InvalidReview(ValueError):
    """Not an AdmissionReview."""


class AskedResource(Wire, frozen=True):
    resource: str
    group: str = ""


class AdmissionRequest(Wire, frozen=True):
    uid: str
    resource: AskedResource
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    namespace: str = ""


class AdmissionReview(Wire, frozen=True):
    request: AdmissionRequest


_reviews = msgspec.json.Decoder(AdmissionReview)

Read = Callable[[Kind, Json], Object | None]
"""The object as we read it; None where we cannot."""


def read_once(kind: Kind, value: Json) -> Object | None:
    """A new object may have no name yet."""
    metadata = value.get("metadata") or {}
    named = {**value, "metadata": {"name": "", **metadata} if isinstance(metadata, dict) else metadata}
    return next(_readable(kind, (msgspec.json.encode(named),)), None)


def why_unreadable(kind: Kind, value: Json) -> str:
    """What keeps the object from being read, by the field; empty if nothing does."""
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


def answer(review: Buffer, judge: Callable[[Question], Said]) -> Generator[Wanted, tuple[Object, ...], Json]:
    """The answer to an AdmissionReview, by this judge, who is to be sent what it wants to know. Raises InvalidReview.

    Where an object cannot be read, the server's own validation says best what is missing.
    """
    request = _request(review)
    place = (request.resource.group, request.resource.resource)
    question = Question(request.namespace, request.object or {}, request.old_object, reader_of(place))
    said = judge(question)
    verdict = said if isinstance(said, Verdict) else (yield from said)
    return answer_of(request.uid, question.new, verdict)


def refusal(review: Buffer, error: str) -> Json:
    """The answer to an AdmissionReview about an object that our own code could not deal with."""
    request = _request(review)
    message = f"this object could not be judged, so it is not stored: {error[:MOST_SAID]}"
    return answer_of(request.uid, request.object or {}, Refuse(message))


def path_to(wanted: Wanted) -> str:
    """Where an API server has what a judge wants to know."""
    if isinstance(wanted, Key):
        return object_path(wanted)
    return collection_path(RESOURCES[wanted])


def found_at(wanted: Wanted, body: bytes) -> tuple[Object, ...]:
    """What the server said there is; what cannot be read is as if it were not there."""
    if isinstance(wanted, Key):
        return tuple(_readable(wanted.kind, (body,)))
    return tuple(_readable(wanted, (bytes(item) for item in decode_list(body).items)))


def answer_of(uid: str, asked: Json, verdict: Verdict) -> Json:
    """The answer to the review with this uid about the object `asked`."""
    response: dict[str, Any] = {"uid": uid, "allowed": isinstance(verdict, Admit)}
    match verdict:
        case Admit(None):
            pass
        case Admit(changed):
            if steps := list(steps_between(asked, changed or {})):
                response |= {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(steps)).decode()}
        case Refuse(message):
            response["status"] = {"code": 403, "reason": "Forbidden", "message": message}
        case _:
            assert_never(verdict)
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}


def steps_between(old: Json, new: Json, path: str = "") -> Iterator[Step]:
    """The JSON patch that makes one of the other. Lists are replaced as a whole."""
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


def _request(review: Buffer) -> AdmissionRequest:
    try:
        return at_any_depth(_reviews.decode, review).request
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidReview(f"expected an AdmissionReview: {error}") from None


def reader_of(place: tuple[str, str], read: Read = read_once) -> Callable[[Json], Object | None]:
    """How an object of the resource with this group and plural is read."""
    kind = _KINDS.get(place)
    return _unread if kind is None else partial(read, kind)


def _unread(_value: Json) -> Object | None:
    return None
