"""A cache of decoded objects: those that webhooks reviewed are stored, watched and reviewed again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import countOf, is_
from typing import Any, TypeVar

from msgspec import MsgspecError, Struct, structs
from msgspec.json import Encoder

from headgate.api.admission import read_once
from headgate.api.kueue_queues import with_cluster_queue_status, with_local_queue_status
from headgate.api.kueue_workloads import metadata_in, spec_in, status_in, workload_of
from headgate.api.wire import InvalidField
from headgate.model.admission import Json, P, R
from headgate.model.keys import Kind
from headgate.model.objects import Object
from headgate.model.queues import ClusterQueue, LocalQueue, QueuedWorkload

LIMIT = 20_000
"""The most objects, and parts of objects, in the cache; when there are more, it is cleared."""

B = TypeVar("B", bound=Hashable)
_WORKLOAD = Kind.KUEUE_WORKLOAD  # found sooner than members of enums
_WithStatus = QueuedWorkload | ClusterQueue | LocalQueue
_WITH_STATUS = (QueuedWorkload, ClusterQueue, LocalQueue)
"""Kinds whose status, which changes most often, is decoded separately."""
_UNREADABLE = (KeyError, MsgspecError, InvalidField)
"""Raised for a malformed part; `decode` then names the field."""
_ENCODER = Encoder()
"""Objects are compared as they are on the wire, where `true` is not 1."""
_NOTHING: Json = {}
"""Stands for an absent part; one object, so that identity works as a key."""


class _Known(Struct, frozen=True, gc=False):
    """The last two decoded versions of an object: the reviewed one may not have been stored."""

    value: Json
    found: Object
    earlier: Json
    was: Object


class _Made(Struct, frozen=True, gc=False):
    """A memoized result with the parts it depends on, kept alive so that their ids are not reused."""

    of: object
    made: Any


class Rereading:
    """Reads objects of one server, which stores what it was allowed to with nothing changed but the version.

    It must share with stored objects what it passes on of them, and never change it in place.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._known: dict[str, _Known] = {}  # by uid
        self._made: dict[tuple[Any, ...], _Made] = {}  # by what makes it, and the identity of what of

    def read(self, kind: Kind, value: Json) -> Object | None:
        """As `read_once` does."""
        try:
            uid = value["metadata"].get("uid") or ""
            known = self._known.get(uid)
        except (KeyError, AttributeError, TypeError):
            return read_once(kind, value)
        if known is None:
            return self._read_first(kind, value, uid) if isinstance(uid, str) else read_once(kind, value)
        if known.value is value:
            return known.found
        if known.earlier is value:
            return known.was
        found = self._read_again(value, known.value, known.found) or self._read_anew(kind, value)
        if found is not None:
            self._known[uid] = _Known(value, found, known.value, known.found)
        return found

    def _read_first(self, kind: Kind, value: Json, uid: str) -> Object | None:
        found = self._read_anew(kind, value)
        if found is not None:
            if len(self._known) >= self._limit:
                self._known.clear()
            self._known[uid] = _Known(value, found, value, found)
        return found

    def _read_again(self, value: Json, before: Json, found: Object) -> Object | None:
        """What was read before in the version it has now and, where that is read alone, with the status it has now.

        None where more differs. Of what is not metadata, only the very same counts as equal.
        """
        was, metadata = before.get("metadata"), value.get("metadata")
        if not was or not metadata:
            return None
        version = metadata.get("resourceVersion", "")
        if not isinstance(version, str):
            return None
        if was is not metadata and not _differs_in_version_only(metadata, version, was):
            return None
        if not isinstance(found, _WITH_STATUS):
            return structs.replace(found, version=version) if _have_same_parts(before, value) else None
        if value.get("spec") is not before.get("spec"):
            return None
        return self._with_status(found, version, value.get("status", _NOTHING))

    def _with_status(self, found: _WithStatus, version: str, status: Any) -> Object | None:
        """In this version and with this status; None where that cannot be read. That of much work is the very same."""
        try:
            if isinstance(found, QueuedWorkload):
                decoded = self._once_beside(status_in, status, found.pod_sets)
                return structs.replace(found, version=version, status=decoded)
            if isinstance(found, ClusterQueue):
                return with_cluster_queue_status(found, version, status)
            return with_local_queue_status(found, version, status)
        except _UNREADABLE:
            return None

    def _read_anew(self, kind: Kind, value: Json) -> Object | None:
        by_parts = self._read_by_parts(value) if kind is _WORKLOAD else None
        return read_once(kind, value) if by_parts is None else by_parts

    def _read_by_parts(self, value: Json) -> QueuedWorkload | None:
        """Workloads that share a spec or status share its decoded form."""
        try:
            metadata = metadata_in(value)
            pod_sets, asked = self._once_beside(spec_in, value["spec"], metadata.namespace)
            status = self._once_beside(status_in, value.get("status", _NOTHING), pod_sets)
            return workload_of(metadata, pod_sets, asked, status)
        except _UNREADABLE:
            return None

    def memoize(self, make: Callable[[P], R], of: P, /, *parts: object) -> R:
        """What is made of something that depends on these parts of stored objects; by the very same ones, once."""
        key = (make, *map(id, parts))
        known = self._made.get(key)
        made: R = known.made if known is not None else self._keep(key, parts, make(of))
        return made

    def _once_beside(self, make: Callable[[P, B], R], part: P, beside: B) -> R:
        """What is made of a part that is to be understood with something beside it; of the very same part, once."""
        known = self._made.get((id(part), make, beside))
        made: R = known.made if known is not None else self._keep((id(part), make, beside), part, make(part, beside))
        return made

    def _keep(self, key: tuple[Any, ...], of: object, made: R) -> R:
        if len(self._made) >= self._limit:
            self._made.clear()
        self._made[key] = _Made(of, made)
        return made


def _differs_in_version_only(metadata: Json, version: str, was: Json) -> bool:
    """On the wire. Versions of one object share what has not changed, so most often nothing is encoded for it."""
    if was.keys() == metadata.keys():
        differing = countOf(map(is_, was.values(), metadata.values()), False)
        if differing == (was.get("resourceVersion") is not metadata.get("resourceVersion")):
            return True
    return _ENCODER.encode({**was, "resourceVersion": version}) == _ENCODER.encode(metadata)


def _have_same_parts(one: Json, other: Json) -> bool:
    """Beside metadata."""
    differing = [name for name, part in one.items() if part is not other.get(name, one)]
    return len(one) == len(other) and differing in ([], ["metadata"])
