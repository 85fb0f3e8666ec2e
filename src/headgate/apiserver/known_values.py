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

    def of(self, key: K) -> T | None:
        found = self._found.get(key)
        return self._earlier.get(key) if found is None else found

    def put(self, key: K, found: T) -> None:
        if len(self._found) >= self._limit:
            self._found, self._earlier = {}, self._found
        self._found[key] = found


class Remembered(Memory[Any, Any], Generic[T]):
    """What was found out of the very values it was given, not of their equals.

    It keeps the values, so no other can take their identity.
    """

    __slots__ = ()

    def of(self, value: Any) -> T | None:
        known: tuple[Any, T] | None = self._found.get(id(value)) or self._earlier.get(id(value))
        return None if known is None else known[1]

    def put(self, value: Any, found: T) -> None:
        Memory.put(self, id(value), (value, found))
