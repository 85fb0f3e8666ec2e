"""Values something is already known of: stored ones are never changed in place, and revisions share what stays."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

LIMIT = 20_000
"""How many values a memory keeps at least; it keeps at most twice as many."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Memory(Generic[K, T]):
    """What was found out, by key; what was found out longest ago is forgotten together."""

    __slots__ = ("_earlier", "_found", "_limit")

    def __init__(self, limit: int = LIMIT) -> None:
        self._found: dict[K, T] = {}
        self._earlier: dict[K, T] = {}
        self._limit = limit

    def __len__(self) -> int:
        return len(self._found) + len(self._earlier)

    def __contains__(self, key: K) -> bool:
        return key in self._found or key in self._earlier

    def of(self, key: K) -> T | None:
        found = self._found.get(key)
        return self._earlier.get(key) if found is None else found

    def put(self, key: K, found: T) -> None:
        if len(self._found) >= self._limit:
            self._found, self._earlier = {}, self._found
        self._found[key] = found


class Remembered(Generic[T]):
    """What was found out of the very values it was given, not of their equals.

    It keeps the values, so no other can take their identity.
    """

    __slots__ = ("_known",)

    def __init__(self, limit: int = LIMIT) -> None:
        self._known: Memory[int, tuple[Any, T]] = Memory(limit)

    def of(self, value: Any) -> T | None:
        known = self._known.of(id(value))
        return None if known is None else known[1]

    def put(self, value: Any, found: T) -> None:
        self._known.put(id(value), (value, found))


class KnownValues(Memory[Any, Any]):
    """The very values it was given, one by one or several together."""

    __slots__ = ()

    def __contains__(self, value: Any) -> bool:
        return id(value) in self._found or id(value) in self._earlier

    def add(self, value: Any) -> None:
        self.put(id(value), value)

    def knows_together(self, values: tuple[Any, ...]) -> bool:
        return Memory.__contains__(self, tuple(map(id, values)))

    def add_together(self, values: tuple[Any, ...]) -> None:
        self.put(tuple(map(id, values)), values)
