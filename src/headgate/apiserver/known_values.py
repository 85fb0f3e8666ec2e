"""What is already known of values: stored ones are never changed in place, and revisions share what stays.

What is known by the identity of a value is kept together with the value, so that no other can take its identity.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice
from typing import TypeVar

LIMIT = 20_000
"""How many values a memory keeps at least; it keeps at most twice as many."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Memory(dict[K, T]):
    """What was found out, by key; what was found out longest ago is forgotten together."""

    __slots__ = ("_limit",)

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__()
        self._limit = limit

    def put(self, key: K, found: T) -> None:
        if len(self) >= 2 * self._limit:
            for oldest in list(islice(self, self._limit)):
                del self[oldest]
        self.pop(key, None)  # it is the latest now
        self[key] = found
