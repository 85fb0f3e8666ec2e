"""Fields that a schema does not declare: refused, told as warnings or ignored, as the query of the request asks.

A real server warns by default. So does this one of custom resources, whose schemas it consults anyway. It looks through
built-in kinds only if the request asks for it, because who does not ask does not read the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from headgate.apiserver.field_errors import invalid as invalid_field
from headgate.apiserver.field_errors import not_supported, quote
from headgate.apiserver.handlers.decoding import Patch
from headgate.apiserver.messages import Json
from headgate.apiserver.registry import RequestInfo, ServedResource
from headgate.apiserver.status import bad_request, invalid


class FieldValidation(StrEnum):
    """What becomes of a request that has unknown fields."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


_ACCEPTED = ("", *sorted(FieldValidation))
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def field_validation(method: str, query: Mapping[str, str]) -> FieldValidation | None:
    """What the request asks for, if it does."""
    asked = query.get("fieldValidation", "") if query else ""
    if asked not in _ACCEPTED:
        wrong = not_supported("fieldValidation", asked, _ACCEPTED)
        raise invalid(_OPTIONS.get(method, "CreateOptions"), "meta.k8s.io", "", [wrong])
    return FieldValidation(asked) if asked else None


def validate_fields(info: RequestInfo, value: Json, validation: FieldValidation | None) -> None:
    """Refuses an object with unknown fields, or notes a warning for each."""
    unknown = _unknown_fields(info.served, value, validation)
    if not unknown:
        return
    if validation is FieldValidation.STRICT:
        kind, version = info.served.type.kind, info.served.type.version
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {_strict_error(unknown)}')
    info.warnings.extend(unknown)


def validated_patch(info: RequestInfo, patch: Patch, validation: FieldValidation | None) -> Patch:
    """The patch, which fails or notes warnings where the patched object has unknown fields."""

    def transform(original: Json) -> Json:
        value = patch(original)
        unknown = _unknown_fields(info.served, value, validation)
        if unknown and validation is FieldValidation.STRICT:
            patched = msgspec.json.encode(value).decode()
            raise invalid("", "", "", [invalid_field("patch", patched, _strict_error(unknown))])
        if unknown:
            info.warnings.extend(unknown)
        return value

    return transform


def _unknown_fields(served: ServedResource, value: Json, validation: FieldValidation | None) -> Sequence[str]:
    """A sentence for each unknown field, as a server words it."""
    if validation is FieldValidation.IGNORE or (validation is None and not served.custom):
        return ()
    unknown = served.type.rules.unknown_fields(value)
    return [f"unknown field {quote(path)}" for path in unknown] if unknown else ()


def _strict_error(unknown: Sequence[str]) -> str:
    return f"strict decoding error: {', '.join(unknown)}"
