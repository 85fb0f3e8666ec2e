"""What a watcher sees: the changes of a collection, through its selectors."""

from __future__ import annotations

from msgspec import Struct

from headgate.apiserver.messages import Json
from headgate.apiserver.registry import ServedResource
from headgate.apiserver.selectors import Match
from headgate.apiserver.storage import Change, Revision, Store, versioned

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class WatchEvent(Struct, frozen=True, gc=False):
    """One line of a watch; the object is shared by all watchers of the same change and must not be changed."""

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


class View(Struct, frozen=True):
    """Which objects are looked at: of this resource, in this namespace (empty: all), those that match."""

    served: ServedResource
    namespace: str
    match: Match | None

    def shows(self, value: Json) -> bool:
        return self.match is None or self.match(value)

    def shown(self, revision: Revision) -> Revision:
        """The object as the version that is watched serves it."""
        if revision.value["apiVersion"] == self.served.api_version:  # as it is with nearly all
            return revision
        return Revision(revision.version, self.served.shown(revision.value))


class Watch:
    """A place in the history of its collection; `drain` goes on from there.

    `since` None begins with every object that exists now as ADDED; `marks_end` adds a bookmark that says so.
    """

    def __init__(self, store: Store, view: View, since: int | None, *, bookmarks: bool, marks_end: bool) -> None:
        self._store, self._view, self._bookmarks = store, view, bookmarks
        self.collection = view.served.collection
        self._seen = store.version if since is None else since
        self._told = self._seen
        self._initial = [] if since is not None else self._present()
        if marks_end:
            self._initial.append(self._bookmark({"annotations": {INITIAL_EVENTS_END: "true"}}))
        self.collection.changes_after(self._seen)  # refuses at once what is too old

    def drain(self) -> list[WatchEvent]:
        """What is new since the last call; raises ApiError 410 when the history does not reach back that far.

        A watch that asked for bookmarks gets one when time has passed but there is nothing to tell.
        """
        events, self._initial = self._initial, []
        changes = self.collection.changes_after(self._seen)
        events += [event for change in changes if (event := self._event(change)) is not None]
        self._seen = self._store.version
        if not events and self._bookmarks and self._told < self._seen:
            events = [self._bookmark({})]
        if events:
            self._told = events[-1].version
        return events

    def _present(self) -> list[WatchEvent]:
        view = self._view
        return [
            WatchEvent("ADDED", revision.version, view.shown(revision))
            for _, _, revision in view.served.collection.items(view.namespace)
            if view.shows(revision.value)
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
        return WatchEvent(kind, change.after.version, view.shown(_last_seen(change, shown)))

    def _bookmark(self, metadata: Json) -> WatchEvent:
        served, version = self._view.served, self._store.version
        mark = {"kind": served.type.kind, "apiVersion": served.api_version}
        value = {**mark, "metadata": {"resourceVersion": str(version), **metadata}}
        return WatchEvent("BOOKMARK", version, Revision(version, value))


def _last_seen(change: Change, shown: bool) -> Revision:
    """An object that stops matching is last shown as it was, at the version of the change."""
    if shown or change.type == "DELETED" or change.before is None:
        return change.after
    return Revision(change.after.version, versioned(change.before.value, change.after.version))
