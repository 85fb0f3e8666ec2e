"""Lists in order, page by page, each page from the same moment."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from bisect import bisect_right
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from headgate.apiserver.messages import Json
from headgate.apiserver.status import ApiError, StatusError, bad_request, expired
from headgate.apiserver.storage import Placed, Store
from headgate.apiserver.watch import View


class Continuation(Struct, frozen=True):
    """Where the next page begins: after this object, in the list as it was at this version."""

    rv: int
    namespace: str
    name: str

    def encode(self) -> str:
        return urlsafe_b64encode(msgspec.json.encode(self)).decode()


def decode_continuation(text: str) -> Continuation:
    try:
        return msgspec.json.decode(urlsafe_b64decode(text), type=Continuation)
    except (NotBase64, ValueError, msgspec.DecodeError):
        raise bad_request(f"continue key is not valid: {text}") from None


def list_objects(store: Store, view: View, query: Mapping[str, str]) -> Json:
    """The List object a request asks for."""
    limit = whole_number(query, "limit")
    version, placed = _snapshot(store, view, query)
    shown = [place for place in placed if view.shows(place[2].value)] if view.match is not None else list(placed)
    metadata: Json = {"resourceVersion": str(version)}
    if limit and len(shown) > limit:
        namespace, name, _ = shown[limit - 1]
        metadata["continue"] = Continuation(version, namespace, name).encode()
        if view.match is None:
            metadata["remainingItemCount"] = len(shown) - limit
        shown = shown[:limit]
    served = view.served
    items = [served.listed(revision.value) for _, _, revision in shown]
    return {"kind": f"{served.type.kind}List", "apiVersion": served.api_version, "metadata": metadata, "items": items}


def whole_number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "") or "0"
    if not (text.isascii() and text.isdigit()):
        raise bad_request(f"{name}: expected a whole number, found {text!r}")
    return int(text)


def known_version(store: Store, query: Mapping[str, str]) -> int:
    """The resourceVersion a request names; one that lies in the future is refused."""
    text = query.get("resourceVersion", "") or "0"
    if not (text.isascii() and text.isdigit()):
        raise bad_request(f"invalid resource version {text!r}: expected a whole number")
    if int(text) > store.version:
        message = f"Too large resource version: {text}, current: {store.version}"
        raise StatusError(504, "Timeout", message, {"retryAfterSeconds": 1})
    return int(text)


def _snapshot(store: Store, view: View, query: Mapping[str, str]) -> tuple[int, Iterable[Placed]]:
    collection = view.served.collection
    if token := query.get("continue", ""):
        return _rest(view, decode_continuation(token))
    asked = known_version(store, query)
    if query.get("resourceVersionMatch") == "Exact":
        return asked, collection.items_at(asked, view.namespace)
    return store.version, collection.items(view.namespace)


def _rest(view: View, start: Continuation) -> tuple[int, list[Placed]]:
    try:
        then = view.served.collection.items_at(start.rv, view.namespace)
    except ApiError:
        text = "The provided continue parameter is too old to display a consistent list result."
        raise expired(f"{text} You can start a new list without the continue parameter.") from None
    return start.rv, then[bisect_right(then, (start.namespace, start.name), key=lambda place: place[:2]) :]
