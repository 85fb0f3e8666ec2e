"""What was asked about is stored, seen and asked about again: what was read then need not be read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from headgate.api.admission import read_once
from headgate.api.queue_workload_statuses import Standing, with_standing
from headgate.api.queue_workloads import queued_workload_in, standing_in
from headgate.model.admission import Json, P, R
from headgate.model.keys import Kind
from headgate.model.objects import Object
from headgate.model.queues import PodSet, QueuedWorkload

LIMIT = 20_000
"""Objects that are remembered, and parts of objects; when there are more, all are forgotten."""

_Reading = tuple[Json, Object]
_NOTHING: Json = {}


class Rereading:
    """Reads objects of one server, which stores what it was allowed to with nothing changed but the version.

    It must share with stored objects what it passes on of them, and never change it in place.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._readings: dict[str, tuple[_Reading, ...]] = {}  # the last two by uid: it may not have been stored
        self._made: dict[tuple[int, object], tuple[Any, Any]] = {}  # with the part it was made of, by its identity
        self._standings: dict[tuple[int, int], tuple[Json, tuple[PodSet, ...], Standing]] = {}  # likewise, of two parts

    def read(self, kind: Kind, value: Json) -> Object | None:
        """As `read_once` does."""
        readings = self._readings.get((value.get("metadata") or _NOTHING).get("uid") or "", ())
        for before, found in readings:
            if before is value:
                return found
        for reading in readings:
            again = self._read_again(value, *reading)
            if again is not None:
                return self._remember(value, again, reading)
        fresh = _read_anew(kind, value)
        return None if fresh is None else self._remember(value, fresh, *readings[:1])

    def _read_again(self, value: Json, before: Json, found: Object) -> Object | None:
        """What was read before in the version it has now and, where that is read alone, with the status it has now.

        None where more differs. Of what is not metadata, only the very same counts as equal.
        """
        metadata = value.get("metadata")
        if not metadata or not _differ_in_version(before.get("metadata"), metadata):
            return None
        version = metadata.get("resourceVersion") or ""
        if not isinstance(found, QueuedWorkload):
            return structs.replace(found, version=version) if _have_same_parts(before, value) else None
        if value.get("spec") is not before.get("spec"):
            return None
        if value.get("status", value) is before.get("status", before):
            return structs.replace(found, version=version)
        standing = self._standing(value, found.pod_sets)
        return None if standing is None else with_standing(found, version, standing)

    def _standing(self, value: Json, pod_sets: tuple[PodSet, ...]) -> Standing | None:
        """What its status says: work alike has the very same one."""
        status = value.get("status")
        known = self._standings.get((id(status), id(pod_sets))) if status is not None else None
        if known is not None:
            return known[2]
        standing = standing_in(value, pod_sets)
        if standing is not None and status is not None:
            if len(self._standings) >= self._limit:
                self._standings.clear()
            self._standings[id(status), id(pod_sets)] = (status, pod_sets, standing)
        return standing

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


def _differ_in_version(one: Json | None, other: Json) -> bool:
    """These metadata do, if at all, and in nothing else."""
    return one is other or (one is not None and {**one, "resourceVersion": other.get("resourceVersion")} == other)


def _have_same_parts(one: Json, other: Json) -> bool:
    """Beside metadata."""
    differing = [name for name, part in one.items() if part is not other.get(name, one)]
    return len(one) == len(other) and differing in ([], ["metadata"])
