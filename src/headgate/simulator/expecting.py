"""Whether an object is as a scenario expects it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


def mismatch(expected: Any, found: Any, path: str = "") -> str | None:
    """Where and how they differ; None when all that is expected is there.

    A mapping may hold more than is expected, and so may a list after its expected elements. Null, an empty list
    and an empty mapping expect that there is nothing.
    """
    if expected is None or expected in ([], {}):
        return None if found in (None, [], {}) else _differs(path, expected, found)
    match expected, found:
        case Mapping(), Mapping():
            differences = (mismatch(value, found.get(name), _join(path, name)) for name, value in expected.items())
        case list(), list() if len(found) >= len(expected):
            pairs = enumerate(zip(expected, found, strict=False))
            differences = (mismatch(value, there, f"{path}[{index}]") for index, (value, there) in pairs)
        case _:
            return None if _equal(expected, found) else _differs(path, expected, found)
    return next((difference for difference in differences if difference is not None), None)


def _equal(expected: Any, found: Any) -> bool:
    return bool(expected == found) and isinstance(expected, bool) == isinstance(found, bool)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _differs(path: str, expected: Any, found: Any) -> str:
    shown = "nothing" if found is None else _shown(found)
    return f"{path or 'the object'}: expected {_shown(expected)}, found {shown}"


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()
