"""A schema compiled to a msgspec type: whether a value is complete and valid is answered by one conversion.

The answer may err on one side only: a value that passes is complete and valid; one that does not pass may still be, and
is then looked at field by field.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headgate.apiserver.apiextensions.defaulting import PRESERVE, compile_defaults, compile_pruning
from headgate.apiserver.apiextensions.validation import (
    FORMATS,
    Check,
    compile_list_type,
    compile_validation,
)
from headgate.apiserver.caches import VALID_STRINGS, memoized
from headgate.apiserver.field_errors import FieldError
from headgate.apiserver.messages import Json
from headgate.apiserver.patterns import compile_pattern

Test = Callable[[Any], bool]

_NOT_CHECKED = frozenset(
    {
        *("default", "description", "example", "externalDocs", "nullable", "title", "type"),
        *("x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-validations"),
    }
)
"""Schema keys that do not restrict values, or are checked elsewhere."""
_SUPPORTED: Mapping[str, frozenset[str]] = {
    "string": frozenset({"maxLength", "minLength", "pattern", "format", "enum"}),
    "integer": frozenset({"format", "minimum", "maximum"}),
    "boolean": frozenset(),
    "array": frozenset({"items", "maxItems", "minItems", "x-kubernetes-list-type"}),
    "object": frozenset({"properties", "required", "additionalProperties", PRESERVE}),
    "": frozenset({"anyOf", "x-kubernetes-int-or-string", "pattern", "maxLength", "minLength"}),
}
_INTEGER_OR_STRING = ([{"type": "integer"}, {"type": "string"}], None)
_INTEGER_RANGES = {"int32": 2**31, "int64": 2**63, "": 2**63}


class _Checked:
    """A type whose values are checked by a function. Subclasses are made from schemas; `passed` stands for any valid
    value.
    """

    __slots__ = ()
    holds: Test
    passed: _Checked


def compile_fast_path(schema: Json) -> Test:
    """Whether a value is complete and valid: True is certain, False is not."""
    kind = _type(schema)
    if kind in (str, dict[str, Any]):
        return str.__instancecheck__ if kind is str else dict.__instancecheck__
    return _test_of(kind)


def _test_of(kind: Any) -> Test:
    """Whether a value converts to the msgspec type. A struct around it lets msgspec analyse it once."""
    holder = msgspec.defstruct("Holder", [("value", kind)], array_like=True, gc=False)

    def passes(value: Any) -> bool:
        try:
            msgspec.convert((value,), holder, dec_hook=_convert_checked)
        except msgspec.ValidationError:
            return False
        return True

    return passes


def _convert_checked(kind: type[_Checked], value: Any) -> Any:
    if not kind.holds(value):
        raise ValueError("see what is wrong with it")
    return kind.passed


def _checked_by(holds: Test) -> Any:
    kind = type("Tested", (_Checked,), {"__slots__": (), "holds": staticmethod(holds)})
    kind.passed = kind()  # type: ignore[attr-defined]
    return kind


def _type(schema: Json) -> Any:
    plain = _msgspec_type(schema) if _is_supported(schema) else None
    kind = _checked_by(_field_by_field(schema)) if plain is None else plain
    return kind | None if schema.get("nullable") else kind


def _is_supported(schema: Json) -> bool:
    known = _SUPPORTED.get(schema.get("type") or "", frozenset())
    return all(key in known or key in _NOT_CHECKED for key in schema)


def _msgspec_type(schema: Json) -> Any:
    """The type whose values are exactly those the schema accepts; None if there is none."""
    match schema.get("type") or "":
        case "string":
            return _string(schema)
        case "integer":
            return _integer(schema)
        case "boolean":
            return bool
        case "array":
            return _array(schema)
        case "object":
            return _object(schema)
        case "":
            return _untyped(schema)
    return None


def _field_by_field(schema: Json) -> Test:
    """A check by defaulting, pruning and validation."""
    default, prune, check = compile_defaults(schema), compile_pruning(schema), compile_validation(schema)

    def holds(value: Any) -> bool:
        if value is None:  # counts as absent
            return False
        if (default is not None and default(value) is not value) or (prune is not None and prune(value) is not value):
            return False
        errors: list[FieldError] = []
        check(value, "", errors)
        return not errors

    return holds


def _string(schema: Json) -> Any:
    if "enum" in schema:
        texts = schema["enum"]
        plain = (
            texts
            and all(isinstance(text, str) for text in texts)
            and not _limits(schema)
            and schema.keys().isdisjoint(("format", "pattern"))
        )
        return Literal[tuple(texts)] if plain else None
    if schema.get("format") in FORMATS:
        plain = not _limits(schema) and not schema.get("pattern")
        return _checked_by(_each_text_once(FORMATS[schema["format"]])) if plain else None
    if schema.get("pattern"):
        return _checked_by(_each_text_once(_text_test(schema)))
    return _limited_text(schema)


def _limits(schema: Json) -> Json:
    limits = {"max_length": schema.get("maxLength"), "min_length": schema.get("minLength")}
    return {name: limit for name, limit in limits.items() if limit is not None}


def _limited_text(schema: Json) -> Any:
    limits = _limits(schema)
    return Annotated[str, Meta(**limits)] if limits else str


def _text_test(schema: Json) -> Test:
    """Whether a text has the length and the pattern of the schema."""
    has_length, pattern = _test_of(_limited_text(schema)), schema.get("pattern")
    if not pattern:
        return has_length
    matches = compile_pattern(pattern).matches
    return lambda value: has_length(value) and matches(value)


def _each_text_once(test: Test) -> Test:
    """The check, cached by text."""

    @memoized(VALID_STRINGS)
    def holds(value: Any) -> bool:
        return isinstance(value, str) and test(value)

    return holds


def _integer(schema: Json) -> Any:
    bound = _INTEGER_RANGES.get(schema.get("format") or "", 2**63)
    least, most = schema.get("minimum", -bound), schema.get("maximum", bound - 1)
    if not (isinstance(least, int) and isinstance(most, int)):
        return None
    return Annotated[int, Meta(ge=max(least, -bound), le=min(most, bound - 1))]


def _array(schema: Json) -> Any:
    items = schema.get("items")
    item = _type(items) if isinstance(items, dict) else Any
    if apart := compile_list_type(schema):
        return _checked_by(_unique_items(schema, item, apart))
    length = {"max_length": schema.get("maxItems"), "min_length": schema.get("minItems")}
    limits = {name: limit for name, limit in length.items() if limit is not None}
    return Annotated[list[item], Meta(**limits)] if limits else list[item]  # type: ignore[valid-type]


def _unique_items(schema: Json, item_type: Any, checks: Sequence[Check]) -> Test:
    """Lists of type `set` or `map` with valid items and no duplicates."""
    least, most = schema.get("minItems", 0), schema.get("maxItems", sys.maxsize)
    passes = _test_of(list[item_type])

    def holds(value: Any) -> bool:
        if type(value) is not list or not least <= len(value) <= most or not passes(value):
            return False
        errors: list[FieldError] = []
        for check in checks:
            check(value, "", errors)
        return not errors

    return holds


def _object(schema: Json) -> Any:
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    keeps_others = bool(schema.get(PRESERVE)) or others is True
    if isinstance(others, dict):
        return None if properties or schema.get("required") or keeps_others else dict[str, _type(others)]  # type: ignore[misc]
    if not properties:
        return dict[str, Any] if keeps_others and not schema.get("required") else None
    return _with_fields(properties, frozenset(schema.get("required") or ()), keeps_others)


def _with_fields(properties: Mapping[str, Json], required: frozenset[str], keeps_others: bool) -> Any:
    """A struct type with the properties; required ones and those with a default must be present."""
    if not required <= properties.keys():
        return None
    names = {f"field_{index}": name for index, name in enumerate(properties)}
    fields: list[Any] = []
    for field, name in names.items():
        kind, needed = _type(properties[name]), name in required or "default" in properties[name]
        fields.append((field, kind) if needed else (field, kind, None))
    return msgspec.defstruct(
        "Fields", fields, rename=names, kw_only=True, forbid_unknown_fields=not keeps_others, gc=False
    )


def _untyped(schema: Json) -> Any:
    """An int-or-string, or a schema without restrictions, which accepts all but null and objects to be pruned."""
    if schema.keys() <= _NOT_CHECKED:
        return _checked_by(lambda value: value is not None and not isinstance(value, dict))
    if not schema.get("x-kubernetes-int-or-string") or schema.get("anyOf") not in _INTEGER_OR_STRING:
        return None
    is_integer, is_text = _test_of(_integer({})), _each_text_once(_text_test(schema))
    return _checked_by(lambda value: is_text(value) if type(value) is str else type(value) is int and is_integer(value))
