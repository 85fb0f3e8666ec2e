"""Field errors in a real API server's words, and the paths they name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct


class Complaint(StrEnum):
    """The type of a field error; the value is how a real server begins its text."""

    REQUIRED = "Required value"
    INVALID = "Invalid value"
    DUPLICATE = "Duplicate value"
    FORBIDDEN = "Forbidden"
    NOT_SUPPORTED = "Unsupported value"
    TOO_LONG = "Too long"
    TOO_MANY = "Too many"


class FieldError(Struct, frozen=True):
    """One error of one field. `value` is shown unless the type is Required, Forbidden or Too long.

    `wrong_type`: the value is not of the type a custom resource's schema declares.
    """

    path: str
    complaint: Complaint
    detail: str = ""
    value: Any = None
    wrong_type: bool = False


OMITTED: Final = UNSET
"""As the value of an error, keeps the value out of its text."""

_WITHOUT_VALUE = frozenset({Complaint.REQUIRED, Complaint.FORBIDDEN, Complaint.TOO_LONG})

IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
NOT_POSITIVE = "must be greater than zero"


def render(error: FieldError) -> str:
    """The error as users read it: path, type, value where it helps, detail."""
    return f"{error.path}: {render_body(error)}"


def render_body(error: FieldError) -> str:
    """The same without the path, as the causes of a Status show it."""
    parts = [error.complaint.value]
    if error.complaint not in _WITHOUT_VALUE and error.value is not OMITTED:
        parts.append(render_value(error.value))
    if error.detail:
        parts.append(error.detail)
    return ": ".join(parts)


def render_value(value: Any) -> str:
    """Strings quoted, numbers and booleans bare, all else as compact JSON with sorted keys."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, float):
        return f"{value:g}"
    return msgspec.json.encode(value, order="deterministic").decode()


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def go_printed(value: Any) -> str:
    """A value as Go prints it with %v."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{go_printed(part)}' for name, part in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_printed, value))}]"
    return str(value).lower() if isinstance(value, bool) else "<nil>" if value is None else str(value)


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(path, Complaint.REQUIRED, detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(path, Complaint.INVALID, detail, value)


def wrong_type(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(path, Complaint.INVALID, detail, value, wrong_type=True)


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError(path, Complaint.DUPLICATE, "", value)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, Complaint.FORBIDDEN, detail)


def not_supported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    detail = "supported values: " + ", ".join(quote(name) for name in supported)
    return FieldError(path, Complaint.NOT_SUPPORTED, detail, value)


def too_long(path: str, limit: int) -> FieldError:
    return FieldError(path, Complaint.TOO_LONG, f"may not be more than {limit} {'byte' if limit == 1 else 'bytes'}")


def too_many(path: str, count: int, limit: int) -> FieldError:
    return FieldError(path, Complaint.TOO_MANY, f"must have at most {limit} {'item' if limit == 1 else 'items'}", count)


def at_least_zero(path: str, value: int | None) -> list[FieldError]:
    return [invalid(path, value, NEGATIVE)] if value is not None and value < 0 else []


def unchanged(path: str, new: Any, old: Any) -> list[FieldError]:
    """An error if an immutable field changes."""
    return [] if same(new, old) else [invalid(path, new, IMMUTABLE)]


def invalid_each(path: str, value: Any, texts: Sequence[str]) -> list[FieldError]:
    """One Invalid error for each text a rule of the shared grammar returned."""
    return [invalid(path, value, text) for text in texts] if texts else []


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal to a server that does not distinguish absent, null and empty."""
    if one is other or one == other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(one.get(key), other.get(key)) for key in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return _is_empty(one) and _is_empty(other)


def _is_empty(value: Any) -> bool:
    """Whether the value is null, an empty string or an empty collection; zero and false are not."""
    if isinstance(value, dict):
        return all(_is_empty(part) for part in value.values())
    return value is None or value in ("", [])
