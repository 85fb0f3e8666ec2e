"""Validation by a structural schema, compiled once to small checks, with a real server's texts and paths."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from operator import itemgetter
from typing import Any

import msgspec

from headgate.apiserver.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    quote,
    render_value,
    required,
    too_long,
    too_many,
    wrong_type,
)
from headgate.apiserver.messages import Json
from headgate.apiserver.patterns import compile_pattern
from headgate.model.names import dns_label_errors, dns_subdomain_errors

Check = Callable[[Any, str, list[FieldError]], None]
"""Appends what is wrong with the value at this path."""

_NIL_PATH = "<nil>"  # the path a real server shows for errors about combined schemas
_INTEGER_RANGES = {"int32": 2**31, "int64": 2**63}
_TYPE_NAMES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}

_USUAL_TYPES: dict[str, type] = {name: kind for kind, name in _TYPE_NAMES.items() if name != "null"}


def compile_validation(schema: Json) -> Check:
    """All checks of a schema, in the order in which a real server reports errors."""
    parts = (
        _composition(schema),
        _strings(schema),
        _numbers(schema),
        _arrays(schema),
        _enumeration(schema),
        _objects(schema),
    )
    checks = tuple(check for part in parts for check in part)
    fits, expected, nullable = _fits(schema), schema.get("type") or "", bool(schema.get("nullable"))
    usual = _USUAL_TYPES.get(expected)

    def check_value(value: Any, path: str, errors: list[FieldError]) -> None:
        if value is None and (nullable or not expected):
            return
        if type(value) is not usual and not fits(value):
            found = _TYPE_NAMES[type(value)]
            errors.append(wrong_type(path, found, f"{path} in body must be of type {expected}: {quote(found)}"))
            return
        for check in checks:
            check(value, path, errors)

    return check_value


def _fits(schema: Json) -> Callable[[Any], bool]:
    match schema.get("type"):
        case "string":
            return lambda value: isinstance(value, str)
        case "boolean":
            return lambda value: isinstance(value, bool)
        case "integer":
            return _is_integer
        case "number":
            return lambda value: isinstance(value, int | float) and not isinstance(value, bool)
        case "array":
            return lambda value: isinstance(value, list)
        case "object":
            return lambda value: isinstance(value, dict)
        case _:
            return lambda _: True


def _is_integer(value: Any) -> bool:
    """Whether the value is a number without a fraction, however it is written."""
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return whole and not isinstance(value, bool)


def _strings(schema: Json) -> list[Check]:
    checks: list[Check] = []
    if "maxLength" in schema:
        checks.append(_max_length(schema["maxLength"]))
    if "minLength" in schema:
        checks.append(_shortest(schema["minLength"]))
    if schema.get("pattern"):
        checks.append(_pattern(schema["pattern"]))
    if schema.get("format") in FORMATS and schema.get("type") in (None, "string"):
        checks.append(_format(schema["format"]))
    return checks


def _max_length(limit: int) -> Check:
    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if isinstance(value, str) and len(value) > limit:
            errors.append(too_long(path, limit))

    return check


def _shortest(limit: int) -> Check:
    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if isinstance(value, str) and len(value) < limit:
            errors.append(invalid(path, value, f"{path} in body should be at least {limit} chars long"))

    return check


def _pattern(pattern: str) -> Check:
    matches = compile_pattern(pattern).matches

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if isinstance(value, str) and not matches(value):
            errors.append(invalid(path, value, f"{path} in body should match '{pattern}'"))

    return check


def _format(name: str) -> Check:
    holds = FORMATS[name]

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if isinstance(value, str) and not holds(value):
            errors.append(wrong_type(path, value, f"{path} in body must be of type {name}: {quote(value)}"))

    return check


def _numbers(schema: Json) -> list[Check]:
    checks: list[Check] = []
    bound = _INTEGER_RANGES.get(schema.get("format") or "int64")
    if schema.get("type") == "integer" and bound is not None:
        checks.append(_range(bound, schema.get("format") or ""))
    if "maximum" in schema:
        limit, exclusive = schema["maximum"], bool(schema.get("exclusiveMaximum"))
        words = f"should be less than {'' if exclusive else 'or equal to '}{render_value(limit)}"
        checks.append(_bound(lambda value: value < limit or (value == limit and not exclusive), words))
    if "minimum" in schema:
        least, strict = schema["minimum"], bool(schema.get("exclusiveMinimum"))
        words = f"should be greater than {'' if strict else 'or equal to '}{render_value(least)}"
        checks.append(_bound(lambda value: value > least or (value == least and not strict), words))
    if "multipleOf" in schema:
        factor = schema["multipleOf"]
        checks.append(_bound(lambda value: value % factor == 0, f"should be a multiple of {render_value(factor)}"))
    return checks


def _bound(holds: Callable[[Any], bool], words: str) -> Check:
    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool) and not holds(value):
            errors.append(invalid(path, value, f"{path} in body {words}"))

    return check


def _range(bound: int, name: str) -> Check:
    which = f"with format {name}" if name else "(default format)"

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if not -bound <= value < bound:
            errors.append(invalid(_NIL_PATH, "", f"Checked value must be of type integer {which} in {path}"))

    return check


def _arrays(schema: Json) -> list[Check]:
    checks: list[Check] = []
    if isinstance(schema.get("items"), dict):
        checks.append(_items(compile_validation(schema["items"])))
    if "maxItems" in schema:
        checks.append(_most_items(schema["maxItems"]))
    if "minItems" in schema:
        checks.append(_least(list, schema["minItems"], "items"))
    return checks + compile_list_type(schema)


def _items(check_item: Check) -> Check:
    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if isinstance(value, list):
            for index, item in enumerate(value):
                check_item(item, f"{path}[{index}]", errors)

    return check


def _most_items(limit: int) -> Check:
    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if isinstance(value, list) and len(value) > limit:
            errors.append(too_many(path, len(value), limit))

    return check


def _least(kind: type[list[Any]] | type[dict[str, Any]], limit: int, what: str) -> Check:
    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if isinstance(value, kind) and len(value) < limit:
            errors.append(invalid(path, len(value), f"{path} in body should have at least {limit} {what}"))

    return check


def _enumeration(schema: Json) -> list[Check]:
    if not schema.get("enum"):
        return []
    allowed: list[Any] = schema["enum"]
    shown = [value if isinstance(value, str) else render_value(value) for value in allowed]

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if not any(value == one and type(value) is type(one) for one in allowed):
            errors.append(not_supported(path, value, shown))

    return [check]


def _objects(schema: Json) -> list[Check]:
    checks: list[Check] = []
    if "minProperties" in schema:
        checks.append(_least(dict, schema["minProperties"], "properties"))
    if "maxProperties" in schema:
        checks.append(_most_properties(schema["maxProperties"]))
    properties = {name: compile_validation(part) for name, part in (schema.get("properties") or {}).items()}
    others = schema.get("additionalProperties")
    check_other = compile_validation(others) if isinstance(others, dict) else None
    if properties or check_other is not None:
        checks.append(_properties(properties, check_other))
    if schema.get("required"):
        checks.append(_required(schema["required"]))
    return checks


def _most_properties(limit: int) -> Check:
    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if isinstance(value, dict) and len(value) > limit:
            errors.append(too_many(path, len(value), limit))

    return check


def _properties(properties: dict[str, Check], check_other: Check | None) -> Check:
    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if not isinstance(value, dict):
            return
        for name, part in value.items():
            check_part = properties.get(name, check_other)
            if check_part is not None:
                check_part(part, f"{path}.{name}" if path else name, errors)

    return check


def _required(names: Sequence[str]) -> Check:
    needed = frozenset(names)

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if isinstance(value, dict) and not needed <= value.keys():
            errors.extend(required(f"{path}.{name}" if path else name) for name in names if name not in value)

    return check


def _composition(schema: Json) -> list[Check]:
    checks: list[Check] = []
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    if schema.get("anyOf") or int_or_string:
        alternatives = schema.get("anyOf") or [{"type": "integer"}, {"type": "string"}]
        checks.append(_any_of([compile_validation(part) for part in alternatives]))
    if schema.get("oneOf"):
        checks.append(_one_of([compile_validation(part) for part in schema["oneOf"]]))
    if schema.get("allOf"):
        checks.append(_all_of([compile_validation(part) for part in schema["allOf"]]))
    if schema.get("not"):
        checks.append(_not(compile_validation(schema["not"])))
    return checks


def _outcomes(checks: Sequence[Check], value: Any, path: str) -> list[list[FieldError]]:
    """The errors of each alternative."""
    outcomes: list[list[FieldError]] = []
    for check in checks:
        found: list[FieldError] = []
        check(value, path, found)
        outcomes.append(found)
    return outcomes


def _nearest(outcomes: Sequence[list[FieldError]]) -> list[FieldError]:
    """The errors of the alternative with the fewest."""
    return sorted(outcomes, key=len)[0]


def _combined(path: str, words: str) -> FieldError:
    return invalid(_NIL_PATH, "", f"{quote(path)} must {words}")


def _any_of(alternatives: Sequence[Check]) -> Check:
    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        outcomes = _outcomes(alternatives, value, path)
        if all(outcomes):
            errors.append(_combined(path, "validate at least one schema (anyOf)"))
            errors.extend(_nearest(outcomes))

    return check


def _one_of(alternatives: Sequence[Check]) -> Check:
    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        outcomes = _outcomes(alternatives, value, path)
        valid = outcomes.count([])
        if valid == 1:
            return
        found = f"Found {valid} valid alternatives" if valid else "Found none valid"
        errors.append(_combined(path, f"validate one and only one schema (oneOf). {found}"))
        errors.extend(_nearest(outcomes))

    return check


def _all_of(parts: Sequence[Check]) -> Check:
    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        outcomes = _outcomes(parts, value, path)
        if not any(outcomes):
            return
        errors.extend(error for outcome in outcomes for error in outcome)
        errors.append(_combined(path, f"validate all the schemas (allOf){'. None validated' if all(outcomes) else ''}"))

    return check


def _not(refused: Check) -> Check:
    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if not _outcomes([refused], value, path)[0]:
            errors.append(_combined(path, "not validate the schema (not)"))

    return check


def compile_list_type(schema: Json) -> list[Callable[[Any, str, list[FieldError]], None]]:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return [_distinct(_itself)]
        case "map":
            keys: Sequence[str] = schema.get("x-kubernetes-list-map-keys") or ()
            names = itemgetter(*keys) if keys else None
            return [_distinct(lambda item: {key: item[key] for key in keys if key in item} if item else {}, names)]
        case _:
            return []


def _distinct(
    identity: Callable[[Any], Any], names: Callable[[Any], Any] | None = None
) -> Callable[[Any, str, list[FieldError]], None]:
    """Reports each duplicate once, at its second occurrence. `names` gets the keys of an item of a map."""

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if not isinstance(value, list) or (names is not None and _are_distinct(value, names)):
            return
        times: dict[bytes, int] = {}
        for index, item in enumerate(value):
            if identity is not _itself and item is not None and not isinstance(item, dict):
                errors.append(invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map"))
                return
            key = identity(item)
            text = msgspec.json.encode(key, order="sorted")
            times[text] = times.get(text, 0) + 1
            if times[text] == 2:
                errors.append(duplicate(f"{path}[{index}]", key))

    return check


def _are_distinct(items: list[Any], names: Callable[[Any], Any]) -> bool:
    """Whether all items are objects with different keys; False if that takes a closer look."""
    try:
        return len(set(map(names, items))) == len(items)
    except (KeyError, TypeError):  # no object, or without a name, or with one that is no plain value
        return False


def _itself(item: Any) -> Any:
    return item


_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)").fullmatch
_FRACTION = re.compile(r"\.\d+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d").fullmatch
_DURATION = re.compile(r"[-+]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w)([0-9.]+(ns|us|µs|ms|s|m|h))*)").fullmatch
_UUID = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}").fullmatch
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+").fullmatch
_URI = re.compile(r"(/|[A-Za-z][A-Za-z0-9+.-]*:).*").fullmatch


def _accepts(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Whether the text can be parsed."""

    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _date_time(text: str) -> object:
    if not _DATE_TIME(text):
        raise ValueError(text)
    return datetime.fromisoformat(_FRACTION.sub("", text).upper())


def _date(text: str) -> object:
    if not _DATE(text):
        raise ValueError(text)
    return date.fromisoformat(text)


def _byte(text: str) -> object:
    return base64.b64decode(text, validate=True)


def _cidr(text: str) -> object:
    if "/" not in text:
        raise ValueError(text)
    return ipaddress.ip_network(text, strict=False)


FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date-time": _accepts(_date_time),
    "datetime": _accepts(_date_time),
    "date": _accepts(_date),
    "duration": lambda text: _DURATION(text) is not None,
    "byte": _accepts(_byte),
    "ipv4": _accepts(ipaddress.IPv4Address),
    "ipv6": _accepts(ipaddress.IPv6Address),
    "cidr": _accepts(_cidr),
    "uuid": lambda text: _UUID(text) is not None,
    "email": lambda text: _EMAIL(text) is not None,
    "uri": lambda text: _URI(text) is not None,
    "k8s-short-name": lambda text: not dns_label_errors(text),
    "k8s-long-name": lambda text: not dns_subdomain_errors(text),
}
