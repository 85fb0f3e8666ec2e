"""A condition of an object whose whole list of conditions we write."""

from __future__ import annotations

from msgspec import Struct


class Condition(Struct, frozen=True, gc=False, cache_hash=True):
    type: str
    status: str
    reason: str
    message: str
    at: float  # when its status last changed
    generation: int | None = None  # of the object it was said of, where that is told
