"""Values something is already known of: stored ones are never changed in place, and revisions share what stays."""

from __future__ import annotations

from typing import Any

LIMIT = 20_000
"""How many values a memory keeps at least; it keeps at most twice as many."""


class KnownValues:
    """Remembers the very values it was given, not their equals. It keeps them, so no other can take their identity."""

    __slots__ = ("_earlier", "_limit", "_values")

    def __init__(self, limit: int = LIMIT) -> None:
        self._values: dict[int, Any] = {}
        self._earlier: dict[int, Any] = {}
        self._limit = limit

    def __contains__(self, value: Any) -> bool:
        return id(value) in self._values or id(value) in self._earlier

    def __len__(self) -> int:
        return len(self._values) + len(self._earlier)

    def add(self, value: Any) -> None:
        if len(self._values) >= self._limit:
            self._values, self._earlier = {}, self._values
        self._values[id(value)] = value
