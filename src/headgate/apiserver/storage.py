"""Objects with one increasing resourceVersion, ordered collections and a bounded history for watchers.

Stored values are never changed in place: a write shares what it keeps with the revision before.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from headgate.apiserver.messages import Json
from headgate.apiserver.status import expired

HISTORY = 50_000
"""How many changes of each collection can still be watched or paged from."""
FIRST_VERSION = 1


class Revision(Struct, gc=False):
    """An object as it was from one resourceVersion on; its bytes are made once, when first asked for."""

    version: int
    value: Json
    encoded: bytes | None = None

    @property
    def raw(self) -> bytes:
        if self.encoded is None:
            self.encoded = msgspec.json.encode(self.value)
        return self.encoded


class Change(Struct, frozen=True, gc=False):
    """One step of a collection. `after` of a DELETED object is its last state at the deletion's version."""

    type: str  # ADDED, MODIFIED or DELETED
    collection: Collection
    namespace: str
    name: str
    after: Revision
    before: Revision | None


class Shelf:
    """The objects of one namespace by name; in order of their names whenever that is asked for."""

    __slots__ = ("_names", "objects")

    def __init__(self) -> None:
        self.objects: dict[str, Revision] = {}
        self._names: list[str] | None = []  # None: to be sorted again

    @property
    def names(self) -> list[str]:
        if self._names is None:
            self._names = sorted(self.objects)
        return self._names

    def add(self, name: str, revision: Revision) -> None:
        self.objects[name], self._names = revision, None

    def remove(self, name: str) -> None:
        del self.objects[name]
        self._names = None


_NO_SHELF = Shelf()

Placed = tuple[str, str, Revision]
"""Namespace, name and revision of an object in a listing."""


class Collection:
    """All objects of one resource, whatever version they are served in, and their recent changes."""

    def __init__(self, group: str, plural: str, keep: int) -> None:
        self.group, self.plural = group, plural
        self._keep, self._most = keep, keep + keep // 4  # changes are forgotten many at a time
        self.version = 0  # of the last change
        self.is_followed = False  # whether any change of an object may call for action
        self._shelves: dict[str, Shelf] = {}
        self._namespaces: list[str] = []
        self._changes: list[Change] = []
        self._forgotten_to = 0  # version of the last forgotten change

    def get(self, namespace: str, name: str) -> Revision | None:
        return self._shelves.get(namespace, _NO_SHELF).objects.get(name)

    def items(self, namespace: str = "") -> Iterator[Placed]:
        """Objects in order of namespace and name; an empty namespace means all."""
        for space in [namespace] if namespace else self._namespaces:
            shelf = self._shelves.get(space)
            for name in shelf.names if shelf is not None else ():
                yield space, name, self._shelves[space].objects[name]

    def is_empty(self) -> bool:
        return not self._shelves

    def is_empty_in(self, namespace: str) -> bool:
        return namespace not in self._shelves

    def changes_after(self, version: int) -> list[Change]:
        """What happened after this version; refuses a version whose successors are forgotten."""
        if version < self._forgotten_to:
            raise expired(f"too old resource version: {version} ({self._forgotten_to})")
        if self.version <= version:
            return []
        return self._changes[bisect_right(self._changes, version, key=_version) :]

    def items_at(self, version: int, namespace: str = "") -> list[Placed]:
        """The objects as they were at an earlier version: now, with every later change taken back."""
        later = self.changes_after(version)
        if not later:
            return list(self.items(namespace))
        then: dict[tuple[str, str], Revision] = {(space, name): found for space, name, found in self.items()}
        for change in reversed(later):
            place = (change.namespace, change.name)
            if change.before is None:
                del then[place]
            else:
                then[place] = change.before
        return [(*place, then[place]) for place in sorted(then) if not namespace or place[0] == namespace]

    def record(self, change: Change) -> None:
        """Make the change so and remember it."""
        if change.type == "MODIFIED":
            self._shelves[change.namespace].objects[change.name] = change.after
        elif change.type == "DELETED":
            self._take_off(change.namespace, change.name)
        else:
            self._shelf(change.namespace).add(change.name, change.after)
        self._changes.append(change)
        self.version = change.after.version
        if len(self._changes) > self._most:
            self._forget(len(self._changes) - self._keep)

    def _shelf(self, namespace: str) -> Shelf:
        shelf = self._shelves.get(namespace)
        if shelf is None:
            shelf = self._shelves[namespace] = Shelf()
            insort(self._namespaces, namespace)
        return shelf

    def _take_off(self, namespace: str, name: str) -> None:
        shelf = self._shelves[namespace]
        shelf.remove(name)
        if not shelf.objects:
            del self._shelves[namespace]
            self._namespaces.remove(namespace)

    def _forget(self, count: int) -> None:
        self._forgotten_to = self._changes[count - 1].after.version
        del self._changes[:count]


def _version(change: Change) -> int:
    return change.after.version


class Store:
    """Every collection, the one version counter, and the changes that may call for action nobody has taken yet: those
    in the lives of objects, and all of collections that are followed.
    """

    def __init__(self, keep: int = HISTORY) -> None:
        self.version = FIRST_VERSION
        self._keep = keep
        self._collections: dict[tuple[str, str], Collection] = {}
        self.fresh: list[Change] = []

    def collection(self, group: str, plural: str) -> Collection:
        found = self._collections.get((group, plural))
        if found is None:
            found = self._collections[group, plural] = Collection(group, plural, self._keep)
        return found

    @property
    def collections(self) -> list[Collection]:
        return [self._collections[key] for key in sorted(self._collections)]

    def put(self, collection: Collection, namespace: str, name: str, value: Json) -> Json:
        """Create or replace the object; returns it with its resourceVersion."""
        before = collection.get(namespace, name)
        step = "ADDED" if before is None else "MODIFIED"
        return self._record(Change(step, collection, namespace, name, self._next(value), before))

    def remove(self, collection: Collection, namespace: str, name: str, value: Json) -> Json:
        """Take the object away; `value` is the last that is to be seen of it."""
        before = collection.get(namespace, name)
        return self._record(Change("DELETED", collection, namespace, name, self._next(value), before))

    def take_fresh(self) -> list[Change]:
        """The changes that may call for action since the last call."""
        fresh, self.fresh = self.fresh, []
        return fresh

    def _next(self, value: Json) -> Revision:
        self.version += 1
        return Revision(self.version, versioned(value, self.version))

    def _record(self, change: Change) -> Json:
        change.collection.record(change)
        if change.collection.is_followed or _is_of_life(change):
            self.fresh.append(change)
        return change.after.value


def _is_of_life(change: Change) -> bool:
    """Whether the object has come or gone, is going, or may have other owners."""
    if change.before is None or change.type == "DELETED":
        return True
    now, before = change.after.value["metadata"], change.before.value["metadata"]
    return "deletionTimestamp" in now or now.get("ownerReferences") is not before.get("ownerReferences")


def versioned(value: Json, version: int) -> Json:
    """The object with this resourceVersion; nothing else is copied."""
    return {**value, "metadata": {**value["metadata"], "resourceVersion": str(version)}}


PODS = ("", "pods")
NAMESPACES = ("", "namespaces")


def is_pods(collection: Collection) -> bool:
    return (collection.group, collection.plural) == PODS


def is_namespaces(collection: Collection) -> bool:
    return (collection.group, collection.plural) == NAMESPACES


def store_or_remove(store: Store, collection: Collection, namespace: str, name: str, value: Json) -> Json:
    """Store the object, or take it away if nothing holds a deletion back any more."""
    if _is_removable(collection, value):
        return store.remove(collection, namespace, name, value)
    return store.put(collection, namespace, name, value)


def _is_removable(collection: Collection, value: Json) -> bool:
    """Deleted, with no finalizers and no grace left."""
    metadata = value["metadata"]
    if metadata.get("deletionTimestamp") is None or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    return not (is_namespaces(collection) and value.get("spec", {}).get("finalizers"))
