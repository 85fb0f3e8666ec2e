"""List and watch: pages of one consistent list, and the changes of a collection through selectors."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from bisect import bisect_right
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from headgate.apiserver.field_errors import forbidden, not_supported
from headgate.apiserver.messages import Json
from headgate.apiserver.registry import ServedResource
from headgate.apiserver.selectors import Match
from headgate.apiserver.status import ApiError, StatusError, bad_request, expired, invalid
from headgate.apiserver.storage import Change, Placed, Revision, Store, versioned

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class WatchEvent(Struct, frozen=True, gc=False):
    """One event of a watch. The object is shared by all watchers and must not be changed."""

    type: str  # ADDED, MODIFIED, DELETED or BOOKMARK
    version: int
    shown: Revision

    @property
    def value(self) -> Json:
        return self.shown.value

    @property
    def raw(self) -> bytes:
        """The object as JSON."""
        return self.shown.raw


class ListScope(Struct, frozen=True):
    """What a list or watch covers: a resource, a namespace (empty: all) and a selector."""

    served: ServedResource
    namespace: str
    match: Match | None

    def matches(self, value: Json) -> bool:
        return self.match is None or self.match(value)

    def shown(self, revision: Revision) -> Revision:
        """The revision in the API version that is watched."""
        if revision.value["apiVersion"] == self.served.api_version:  # as it is with nearly all
            return revision
        return Revision(revision.version, self.served.shown(revision.value))


class Watch:
    """A position in a collection's history; `drain` continues from there.

    Without `since`, it begins with an ADDED event for each existing object; `marks_end` appends the initial-events-end
    bookmark.
    """

    def __init__(self, store: Store, view: ListScope, since: int | None, *, bookmarks: bool, marks_end: bool) -> None:
        self._store, self._view, self._bookmarks = store, view, bookmarks
        self.collection = view.served.collection
        self.resource = view.served.type
        self._seen = store.version if since is None else since
        self._reported = self._seen
        self._initial = [] if since is not None else self._initial_events()
        if marks_end:
            self._initial.append(self._bookmark({"annotations": {INITIAL_EVENTS_END: "true"}}))
        self.collection.changes_after(self._seen)  # refuses at once what is too old

    def drain(self) -> list[WatchEvent]:
        """The events since the last call; raises ApiError 410 if the history no longer reaches back that far.

        If there are none but the version has advanced, a watch that asked for bookmarks gets one.
        """
        events, self._initial = self._initial, []
        changes = self.collection.changes_after(self._seen)
        events += [event for change in changes if (event := self._event(change)) is not None]
        self._seen = self._store.version
        if not events and self._bookmarks and self._reported < self._seen:
            events = [self._bookmark({})]
        if events:
            self._reported = events[-1].version
        return events

    def _initial_events(self) -> list[WatchEvent]:
        view = self._view
        return [
            WatchEvent("ADDED", revision.version, view.shown(revision))
            for _, _, revision in view.served.collection.items(view.namespace)
            if view.matches(revision.value)
        ]

    def _event(self, change: Change) -> WatchEvent | None:
        view = self._view
        if view.namespace and change.namespace != view.namespace:
            return None
        if view.match is None:
            return WatchEvent(change.type, change.after.version, view.shown(change.after))
        shown = change.type != "DELETED" and view.match(change.after.value)
        was_shown = change.before is not None and view.match(change.before.value)
        if not shown and not was_shown:
            return None
        kind = "DELETED" if not shown else "MODIFIED" if was_shown else "ADDED"
        return WatchEvent(kind, change.after.version, view.shown(_final_state(change, shown)))

    def _bookmark(self, metadata: Json) -> WatchEvent:
        served, version = self._view.served, self._store.version
        mark = {"kind": served.type.kind, "apiVersion": served.api_version}
        value = {**mark, "metadata": {"resourceVersion": str(version), **metadata}}
        return WatchEvent("BOOKMARK", version, Revision(version, value))


def _final_state(change: Change, shown: bool) -> Revision:
    """The object of a DELETED event; for one that stopped matching, its previous state at the change's version."""
    if shown or change.type == "DELETED" or change.before is None:
        return change.after
    return Revision(change.after.version, versioned(change.before.value, change.after.version))


class Continuation(Struct, frozen=True):
    """A continue token: the next page begins after this object, in the list at this version."""

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


def list_objects(store: Store, view: ListScope, query: Mapping[str, str]) -> Json:
    """The List a request asks for."""
    if query:
        refuse_list_options(query, watches=False)
    limit = whole_number(query, "limit")
    version, listed = _snapshot(store, view, query)
    shown = [place for place in listed if view.matches(place[2].value)] if view.match is not None else list(listed)
    metadata: Json = {"resourceVersion": str(version)}
    if limit and len(shown) > limit:
        namespace, name, _ = shown[limit - 1]
        metadata["continue"] = Continuation(version, namespace, name).encode()
        if view.match is None:
            metadata["remainingItemCount"] = len(shown) - limit
        shown = shown[:limit]
    served = view.served
    if served.custom:
        metadata.setdefault("continue", "")  # a real server writes these lists by other means
    items = [served.listed(revision.value) for _, _, revision in shown]
    return {"kind": f"{served.type.kind}List", "apiVersion": served.api_version, "metadata": metadata, "items": items}


_MATCHES = ("Exact", "NotOlderThan", "")


def refuse_list_options(query: Mapping[str, str], *, watches: bool) -> None:
    """Refuses ways to match a version that contradict the rest of the request."""
    match, version, errors = query.get("resourceVersionMatch", ""), query.get("resourceVersion", ""), []
    path, initial = "resourceVersionMatch", "sendInitialEvents" in query
    if watches and match and not initial:
        errors.append(
            forbidden(path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        )
    elif watches and initial and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(forbidden(path, detail))
    elif not watches and initial:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    elif match and not watches:
        if not version:
            errors.append(forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if query.get("continue"):
            errors.append(forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in _MATCHES:
            errors.append(not_supported(path, match, _MATCHES))
        if match == "Exact" and version == "0":
            detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(forbidden(path, detail))
    if errors:
        raise invalid("ListOptions", "meta.k8s.io", "", errors)


def whole_number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "") or "0"
    if not (text.isascii() and text.isdigit()):
        raise bad_request(f"{name}: expected a whole number, found {text!r}")
    return int(text)


def known_version(store: Store, query: Mapping[str, str]) -> int:
    """The resourceVersion of a request; refuses one in the future."""
    text = query.get("resourceVersion", "") or "0"
    if not (text.isascii() and text.isdigit()):
        raise bad_request(f"invalid resource version {text!r}: expected a whole number")
    if int(text) > store.version:
        message = f"Too large resource version: {text}, current: {store.version}"
        raise StatusError(504, "Timeout", message, {"retryAfterSeconds": 1})
    return int(text)


def _snapshot(store: Store, view: ListScope, query: Mapping[str, str]) -> tuple[int, Iterable[Placed]]:
    collection = view.served.collection
    if token := query.get("continue", ""):
        return _rest(view, decode_continuation(token))
    asked = known_version(store, query)
    if query.get("resourceVersionMatch") == "Exact":
        return asked, collection.items_at(asked, view.namespace)
    return store.version, collection.items(view.namespace)


def _rest(view: ListScope, start: Continuation) -> tuple[int, list[Placed]]:
    try:
        then = view.served.collection.items_at(start.rv, view.namespace)
    except ApiError:
        text = "The provided continue parameter is too old to display a consistent list result."
        raise expired(f"{text} You can start a new list without the continue parameter.") from None
    return start.rv, then[bisect_right(then, (start.namespace, start.name), key=lambda place: place[:2]) :]
