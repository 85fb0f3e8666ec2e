"""What was asked about is stored, seen and asked about again: what was read then need not be read again."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from headgate.api.admission import read_once
from headgate.api.queue_workloads import SharedParts
from headgate.model.admission import Json
from headgate.model.keys import Kind
from headgate.model.objects import Object

LIMIT = 20_000
"""Objects that are remembered; when there are more, all are forgotten."""

_Reading = tuple[Json, Object]


class Rereading:
    """Reads objects of one server, which stores what it was allowed to with nothing changed but the version.

    It must share with stored objects what it passes on of them, and never change it in place.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._workloads = SharedParts()
        self._readings: dict[str, tuple[_Reading, ...]] = {}  # the last two by uid: it may not have been stored

    def read(self, kind: Kind, value: Json) -> Object | None:
        """As `read_once` does."""
        metadata = value.get("metadata") or {}
        readings = self._readings.get(metadata.get("uid") or "", ())
        for before, found in readings:
            if before is value:
                return found
        for before, found in readings:
            if _differ_in_version(before, value):
                same = structs.replace(found, version=metadata.get("resourceVersion") or "")
                others = [reading for reading in readings if reading[0] is not before]
                self._remember(found.uid, ((value, same), *others))
                return same
        fresh = self._read_anew(kind, value)
        if fresh is not None:
            self._remember(fresh.uid, ((value, fresh), *readings[:1]))
        return fresh

    def _read_anew(self, kind: Kind, value: Json) -> Object | None:
        by_parts = self._workloads.read(value) if kind is Kind.KUEUE_WORKLOAD else None
        return read_once(kind, value) if by_parts is None else by_parts

    def _remember(self, uid: str, readings: tuple[_Reading, ...]) -> None:
        if len(self._readings) >= self._limit and uid not in self._readings:
            self._readings.clear()
        self._readings[uid] = readings


def _differ_in_version(one: Json, other: Json) -> bool:
    """In nothing else; of what is not metadata, only the very same counts as equal."""
    if one.keys() != other.keys():
        return False
    for name, part in one.items():
        if part is not other[name] and name != "metadata":
            return False
    return _are_of_one(one["metadata"], other["metadata"])


def _are_of_one(one: Any, other: Any) -> bool:
    """Metadata of the same object with the same content."""
    return one is other or bool({**one, "resourceVersion": ""} == {**other, "resourceVersion": ""})
