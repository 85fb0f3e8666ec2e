"""The old object of one question was the new one of an earlier: what was read then need not be read again."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from headgate.api.admission import read_once
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
        self._readings: dict[str, tuple[_Reading, ...]] = {}  # the last two by uid: it may not have been stored

    def read(self, kind: Kind, value: Json) -> Object | None:
        """As `read_once` does."""
        metadata = value.get("metadata") or {}
        readings = self._readings.get(metadata.get("uid") or "", ())
        for before, found in readings:
            if _differ_in_version(before, value):
                return structs.replace(found, version=metadata.get("resourceVersion") or "")
        fresh = read_once(kind, value)
        if fresh is not None:
            self._remember(fresh.uid, ((value, fresh), *readings[:1]))
        return fresh

    def _remember(self, uid: str, readings: tuple[_Reading, ...]) -> None:
        if len(self._readings) >= self._limit:
            self._readings.clear()
        self._readings[uid] = readings


def _differ_in_version(one: Json, other: Json) -> bool:
    """In nothing else; of what is not metadata, only the very same counts as equal."""
    if one.keys() != other.keys():
        return False
    for name, part in one.items():
        if part is not other[name] and not (name == "metadata" and _are_of_one(part, other[name])):
            return False
    return True


def _are_of_one(one: Any, other: Any) -> bool:
    """Metadata of the same object with the same content."""
    return bool({**one, "resourceVersion": ""} == {**other, "resourceVersion": ""})
