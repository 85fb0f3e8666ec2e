"""What was asked about is stored, seen and asked about again: what was read then need not be read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from headgate.api.admission import read_once
from headgate.api.queue_workloads import queued_workload_in, with_status_in
from headgate.model.admission import Json, P, R
from headgate.model.keys import Kind
from headgate.model.objects import Object
from headgate.model.queues import QueuedWorkload

LIMIT = 20_000
"""Objects that are remembered, and parts of objects; when there are more, all are forgotten."""

_Reading = tuple[Json, Object]


class Rereading:
    """Reads objects of one server, which stores what it was allowed to with nothing changed but the version.

    It must share with stored objects what it passes on of them, and never change it in place.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._readings: dict[str, tuple[_Reading, ...]] = {}  # the last two by uid: it may not have been stored
        self._made: dict[tuple[int, object], tuple[Any, Any]] = {}  # with the part it was made of, by its identity

    def read(self, kind: Kind, value: Json) -> Object | None:
        """As `read_once` does."""
        metadata = value.get("metadata") or {}
        readings = self._readings.get(metadata.get("uid") or "", ())
        for before, found in readings:
            if before is value:
                return found
        for reading in readings:
            before, found = reading
            changed = _with_status(value, before, found)
            if changed is not None:
                return self._remember(value, changed, reading)
            if _differ_in_version(before, value):
                same = structs.replace(found, version=metadata.get("resourceVersion") or "")
                return self._remember(value, same, *[other for other in readings if other is not reading])
        fresh = _read_anew(kind, value)
        return None if fresh is None else self._remember(value, fresh, *readings[:1])

    def once(self, make: Callable[[P], R], part: P, /) -> R:
        """What is made of a part of a stored object; of the very same part it is made once."""
        known = self._made.get((id(part), make))
        if known is None:
            if len(self._made) >= self._limit:
                self._made.clear()
            known = self._made[id(part), make] = (part, make(part))
        made: R = known[1]
        return made

    def _remember(self, value: Json, found: Object, *others: _Reading) -> Object:
        if len(self._readings) >= self._limit and found.uid not in self._readings:
            self._readings.clear()
        self._readings[found.uid] = ((value, found), *others)
        return found


def _read_anew(kind: Kind, value: Json) -> Object | None:
    by_parts = queued_workload_in(value) if kind is Kind.KUEUE_WORKLOAD else None
    return read_once(kind, value) if by_parts is None else by_parts


def _with_status(value: Json, before: Json, found: Object) -> Object | None:
    """What was read before with the status it has now; None where more differs or a status is not read alone."""
    if not isinstance(found, QueuedWorkload):
        return None
    same = value.get("metadata") is before.get("metadata") and value.get("spec") is before.get("spec")
    return with_status_in(value, found) if same else None


def _differ_in_version(one: Json, other: Json) -> bool:
    """In nothing else; of what is not metadata, only the very same counts as equal."""
    differing = [name for name, part in one.items() if part is not other.get(name, one)]
    if len(one) != len(other) or differing not in ([], ["metadata"]):
        return False
    before, now = one.get("metadata"), other.get("metadata")
    if not before or not now:
        return False
    return before is now or bool({**before, "resourceVersion": now.get("resourceVersion")} == now)
