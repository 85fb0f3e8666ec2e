"""Fields that a schema does not declare: refused, told as warnings or ignored, as the query of the request asks.

A real server warns by default. So does this one of custom resources, whose schemas it consults anyway. It looks through
built-in kinds only if the request asks for it, because who does not ask does not read the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from headgate.apiserver.field_errors import forbidden, not_supported, quote, required, too_long
from headgate.apiserver.field_errors import invalid as invalid_field
from headgate.apiserver.messages import Json
from headgate.apiserver.registry import RequestInfo
from headgate.apiserver.status import bad_request, invalid


class FieldValidation(StrEnum):
    """What becomes of a request that has unknown fields."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


LONGEST_MANAGER = 128  # bytes
_ACCEPTED = ("", *sorted(FieldValidation))
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def field_validation(method: str, query: Mapping[str, str]) -> FieldValidation | None:
    """What the request asks for, if it does."""
    asked = query.get("fieldValidation") if query else None
    if not asked:
        return None
    if asked not in _ACCEPTED:
        wrong = not_supported("fieldValidation", asked, _ACCEPTED)
        raise invalid(_OPTIONS.get(method, "CreateOptions"), "meta.k8s.io", "", [wrong])
    return FieldValidation(asked)


def field_manager(method: str, query: Mapping[str, str], user_agent: str) -> str:
    """Who is to own the fields that a request writes: as the query says, or the client by its name."""
    asked = query.get("fieldManager", "") if query else ""
    if asked:
        _refuse_manager(method, asked)
        return asked
    return _cut("".join(letter for letter in user_agent.partition("/")[0] if letter.isprintable())) or "unknown"


def _cut(name: str) -> str:
    return name.encode()[:LONGEST_MANAGER].decode(errors="ignore")


def _refuse_manager(method: str, name: str) -> None:
    errors = []
    if len(name.encode()) > LONGEST_MANAGER:
        errors.append(too_long("fieldManager", LONGEST_MANAGER))
    at = 0
    for letter in name:
        if not letter.isprintable():
            shown = f"invalid character U+{ord(letter):04X} (at position {at})"
            errors.append(invalid_field("fieldManager", name, shown))
        at += len(letter.encode())
    if errors:
        raise invalid(_OPTIONS.get(method, "CreateOptions"), "meta.k8s.io", "", errors)


def forced(query: Mapping[str, str], *, applies: bool) -> bool:
    """Whether an apply takes what others own; refuses to force any other patch, and an apply without a manager."""
    force, errors = query.get("force", ""), []
    if applies and not query.get("fieldManager"):
        errors.append(required("fieldManager", "is required for apply patch"))
    if force and not applies:
        errors.append(forbidden("force", "may not be specified for non-apply patch"))
    if errors:
        raise invalid("PatchOptions", "meta.k8s.io", "", errors)
    return force.lower() in ("true", "1", "t")


def validate_fields(
    info: RequestInfo, value: Json, validation: FieldValidation | None, *, is_patched: bool = False
) -> None:
    """Refuses an object with unknown fields, or notes a warning for each."""
    looks_through = info.served.custom if validation is None else validation is not FieldValidation.IGNORE
    unknown = info.served.type.rules.unknown_fields(value) if looks_through else ()
    if not unknown:
        return
    if validation is not FieldValidation.STRICT:
        info.warnings.extend(_sentences(unknown))
        return
    why = f"strict decoding error: {', '.join(_sentences(unknown))}"
    if is_patched:
        raise invalid("", "", "", [invalid_field("patch", msgspec.json.encode(value).decode(), why)])
    kind, version = info.served.type.kind, info.served.type.version
    raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def _sentences(unknown: Sequence[str]) -> list[str]:
    """One for each unknown field, as a server words it."""
    return [f"unknown field {quote(path)}" for path in unknown]
