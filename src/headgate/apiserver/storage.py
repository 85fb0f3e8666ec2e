"""Objects with one increasing resourceVersion, ordered collections and a bounded history for watchers.

Stored values are never changed in place: a write shares what it keeps with the revision before.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from headgate.apiserver.caches import Cache
from headgate.apiserver.messages import Json
from headgate.apiserver.status import expired

HISTORY = 50_000
"""How many changes of each collection are kept for watches and pages."""
FIRST_VERSION = 1


class Revision(Struct, gc=False):
    """An object at one resourceVersion. It is encoded once, when its bytes are first needed."""

    version: int
    value: Json
    encoded: bytes | None = None

    @property
    def raw(self) -> bytes:
        if self.encoded is None:
            self.encoded = msgspec.json.encode(self.value)
        return self.encoded


class Change(Struct, frozen=True, gc=False):
    """One change of a collection. `after` of a DELETED object is its last state, at the version of the deletion."""

    type: str  # ADDED, MODIFIED or DELETED
    collection: Collection
    namespace: str
    name: str
    after: Revision
    before: Revision | None


class SavedRevision(Struct, frozen=True):
    """An object as it was saved."""

    version: int
    raw: bytes

    def load(self) -> Revision:
        return Revision(self.version, msgspec.json.decode(self.raw), self.raw)


class SavedChange(Struct, frozen=True):
    """A change as it was saved; `type` is empty for an object that is just there."""

    type: str
    group: str
    plural: str
    namespace: str
    name: str
    after: SavedRevision
    before: SavedRevision | None = None


class SavedState(Struct, frozen=True):
    """All objects at a version, and the changes after `compacted_to` that led there, in order."""

    version: int = 0
    compacted_to: int = 0
    objects: Sequence[SavedChange] = ()
    changes: Sequence[SavedChange] = ()


class _NamespaceObjects:
    """The objects of one namespace by name; the names are sorted when they are asked for."""

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


_NO_OBJECTS = _NamespaceObjects()

Placed = tuple[str, str, Revision]
"""Namespace, name and revision of an object in a listing."""


class Collection:
    """All objects of one resource, in any API version, and their recent changes."""

    def __init__(self, group: str, plural: str, keep: int) -> None:
        self.group, self.plural = group, plural
        self._keep, self._most = keep, keep + keep // 4  # changes are forgotten many at a time
        self.version = 0  # of the last change
        self.is_reconciled = False  # whether any change of an object may call for action
        self.derived: list[Cache[Any, Any]] = []  # of what follows from its objects: cleared with every change
        self._by_namespace: dict[str, _NamespaceObjects] = {}
        self._namespaces: list[str] = []
        self._changes: list[Change] = []
        self._compacted_to = 0  # version of the last forgotten change

    def get(self, namespace: str, name: str) -> Revision | None:
        return self._by_namespace.get(namespace, _NO_OBJECTS).objects.get(name)

    def items(self, namespace: str = "") -> Iterator[Placed]:
        """Objects in order of namespace and name; an empty namespace means all."""
        for space in [namespace] if namespace else self._namespaces:
            objects = self._by_namespace.get(space)
            for name in objects.names if objects is not None else ():
                yield space, name, self._by_namespace[space].objects[name]

    def is_empty(self) -> bool:
        return not self._by_namespace

    def is_empty_in(self, namespace: str) -> bool:
        return namespace not in self._by_namespace

    def changes_after(self, version: int) -> list[Change]:
        """The changes after this version; refuses a version whose successors are compacted."""
        if version < self._compacted_to:
            raise expired(f"too old resource version: {version} ({self._compacted_to})")
        if self.version <= version:
            return []
        return self._changes[bisect_right(self._changes, version, key=_version) :]

    def items_at(self, version: int, namespace: str = "") -> list[Placed]:
        """The objects as of an earlier version: now, with every later change undone."""
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
        """Applies the change and adds it to the history."""
        if change.type == "MODIFIED":
            self._by_namespace[change.namespace].objects[change.name] = change.after
        elif change.type == "DELETED":
            self._remove(change.namespace, change.name)
        else:
            self._objects_of(change.namespace).add(change.name, change.after)
        changes = self._changes
        changes.append(change)
        self.version = change.after.version
        for cache in self.derived:
            cache.clear()
        if len(changes) > self._most:
            self._compact(len(changes) - self._keep)

    def restore(self, objects: Sequence[Change], changes: Sequence[Change], compacted_to: int) -> None:
        """Fills the empty collection with what was saved of it."""
        for found in objects:
            self._objects_of(found.namespace).add(found.name, found.after)
        self._changes, self._compacted_to = list(changes), compacted_to
        versions = [change.after.version for change in (*objects, *changes)]
        self.version = max(versions, default=0)

    def _objects_of(self, namespace: str) -> _NamespaceObjects:
        objects = self._by_namespace.get(namespace)
        if objects is None:
            objects = self._by_namespace[namespace] = _NamespaceObjects()
            insort(self._namespaces, namespace)
        return objects

    def _remove(self, namespace: str, name: str) -> None:
        objects = self._by_namespace[namespace]
        objects.remove(name)
        if not objects.objects:
            del self._by_namespace[namespace]
            self._namespaces.remove(namespace)

    def _compact(self, count: int) -> None:
        self._compacted_to = self._changes[count - 1].after.version
        del self._changes[:count]


def _version(change: Change) -> int:
    return change.after.version


class Store:
    """Every collection, the version counter, and the changes controllers have yet to reconcile: objects added, deleted
    or with other owners, and every change of a collection that `is_reconciled`.
    """

    def __init__(self, keep: int = HISTORY) -> None:
        self.version = FIRST_VERSION
        self._keep = keep
        self._collections: dict[tuple[str, str], Collection] = {}
        self.unreconciled: list[Change] = []
        self.unsaved: list[Change] | None = None  # for whoever saves changes; None: nobody does

    def restore(self, saved: SavedState) -> None:
        """Fills the empty store with what was saved; from now on changes are kept to be saved. To controllers all
        objects are new.
        """
        self.version, self.unsaved = max(FIRST_VERSION, saved.version), []
        objects: dict[Collection, list[Change]] = {}
        changes: dict[Collection, list[Change]] = {}
        for listed, into in ((saved.objects, objects), (saved.changes, changes)):
            for each in listed:
                collection = self.collection(each.group, each.plural)
                before = each.before.load() if each.before is not None else None
                change = Change(each.type or "ADDED", collection, each.namespace, each.name, each.after.load(), before)
                into.setdefault(collection, []).append(change)
        for collection in self.collections:
            found = objects.get(collection, [])
            collection.restore(found, changes.get(collection, ()), saved.compacted_to)
            self.unreconciled += found

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
        self.version += 1
        after = Revision(self.version, versioned(value, self.version))
        return self._record(
            Change("ADDED" if before is None else "MODIFIED", collection, namespace, name, after, before)
        )

    def remove(self, collection: Collection, namespace: str, name: str, value: Json) -> Json:
        """Removes the object; returns `value`, its last state, with the version of the removal.

        Watchers are told the state that was stored, as by a real storage, which never sees the last one.
        """
        before = collection.get(namespace, name)
        self.version += 1
        after = Revision(self.version, versioned(value if before is None else before.value, self.version))
        self._record(Change("DELETED", collection, namespace, name, after, before))
        return versioned(value, after.version)

    def take_unreconciled(self) -> list[Change]:
        """The changes to be reconciled since the last call."""
        unreconciled, self.unreconciled = self.unreconciled, []
        return unreconciled

    def _record(self, change: Change) -> Json:
        change.collection.record(change)
        if self.unsaved is not None:
            self.unsaved.append(change)
        if change.collection.is_reconciled or _is_lifecycle_change(change):
            self.unreconciled.append(change)
        return change.after.value


def _is_lifecycle_change(change: Change) -> bool:
    """Whether the object was added or removed, is being deleted, or may have other owners."""
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
    """Stores the object, or removes it if it is deleted and nothing holds it back."""
    if is_removable(collection, value):
        return store.remove(collection, namespace, name, value)
    return store.put(collection, namespace, name, value)


def is_removable(collection: Collection, value: Json) -> bool:
    """Whether the object is deleted, without finalizers and grace period."""
    metadata = value["metadata"]
    if metadata.get("deletionTimestamp") is None or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    return not (is_namespaces(collection) and value.get("spec", {}).get("finalizers"))
