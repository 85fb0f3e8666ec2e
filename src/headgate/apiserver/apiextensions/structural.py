"""Structural schemas: every field has a type where it is declared, so objects can be pruned and defaulted.

Rules (`x-kubernetes-validations`) must be well formed, name fields that exist and compile. Unlike a real server, that a
rule reads only declared fields is not checked (it fails when it is evaluated), nor is its estimated cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import field

from headgate.apiserver.apiextensions.validation import compile_validation
from headgate.apiserver.cel import VALIDATIONS, CompilationError, InvalidPath, compile_expression, field_path
from headgate.apiserver.field_errors import FieldError, forbidden, invalid, not_supported, required
from headgate.apiserver.patterns import InvalidPattern, compile_pattern
from headgate.apiserver.validation import ApiType


class RuleProps(ApiType, frozen=True):
    """One rule of `x-kubernetes-validations`."""

    rule: str | None = None
    message: str | None = None
    message_expression: str | None = None
    reason: str | None = None
    field_path: str | None = None
    optional_old_self: bool | None = None


class SchemaProps(ApiType, frozen=True):
    """One node of an OpenAPI v3 schema."""

    type: str | None = None
    format: str | None = None
    nullable: bool | None = None
    properties: dict[str, SchemaProps] | None = None
    additional_properties: bool | SchemaProps | None = None
    items: SchemaProps | None = None
    required: list[str] | None = None
    enum: list[Any] | None = None
    default: Any = None
    pattern: str | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    exclusive_minimum: bool | None = None
    exclusive_maximum: bool | None = None
    multiple_of: int | float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    unique_items: bool | None = None
    reference: str | None = field(default=None, name="$ref")
    all_of: list[SchemaProps] | None = None
    any_of: list[SchemaProps] | None = None
    one_of: list[SchemaProps] | None = None
    negated: SchemaProps | None = field(default=None, name="not")
    preserves: bool | None = field(default=None, name="x-kubernetes-preserve-unknown-fields")
    embedded: bool | None = field(default=None, name="x-kubernetes-embedded-resource")
    int_or_string: bool | None = field(default=None, name="x-kubernetes-int-or-string")
    list_type: str | None = field(default=None, name="x-kubernetes-list-type")
    list_map_keys: list[str] | None = field(default=None, name="x-kubernetes-list-map-keys")
    validations: list[RuleProps] | None = field(default=None, name="x-kubernetes-validations")


_LIST_TYPES = ("atomic", "set", "map")
_EMPTY_TYPE = {
    "root": "must not be empty at the root",
    "items": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def structural_errors(path: str, schema: SchemaProps) -> list[FieldError]:
    errors: list[FieldError] = []
    if schema.type is not None and schema.type != "object":
        errors.append(invalid(f"{path}.type", schema.type, "must be object at the root"))
    if schema.additional_properties is not None:
        errors.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
    for here, node, level in _nodes(path, schema, "root"):
        errors += _node_errors(here, node, level)
    return errors or rule_errors(path, schema)  # rules of a broken schema are not looked at


def _nodes(path: str, schema: SchemaProps, level: str) -> Iterator[tuple[str, SchemaProps, str]]:
    """Every node of the schema that declares fields, the root first, with its path and level."""
    yield path, schema, level
    for name, part in (schema.properties or {}).items():
        yield from _nodes(f"{path}.properties[{name}]", part, "field")
    if isinstance(schema.additional_properties, SchemaProps):
        yield from _nodes(f"{path}.additionalProperties", schema.additional_properties, "field")
    if schema.items is not None:
        yield from _nodes(f"{path}.items", schema.items, "items")


def _node_errors(path: str, node: SchemaProps, level: str) -> list[FieldError]:
    errors = _type_errors(path, node, level)
    if node.type == "array" and node.items is None:
        errors.append(required(f"{path}.items", "must be specified"))
    if node.unique_items:
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{path}.uniqueItems", detail))
    if node.reference:
        errors.append(forbidden(f"{path}.$ref", "$ref is not supported"))
    errors += _pattern_errors(path, node)
    errors += _list_errors(path, node)
    errors += rule_format_errors(path, node)
    for here, part in _value_validations(path, node):
        errors += _nested_errors(here, part, plain=bool(node.int_or_string))
    return errors + _default_errors(path, node)


def _type_errors(path: str, node: SchemaProps, level: str) -> list[FieldError]:
    if node.embedded and node.type != "object":
        wrong, detail = f"{path}.type", "must be object if x-kubernetes-embedded-resource is true"
        return [invalid(wrong, node.type, detail) if node.type else required(wrong, detail)]
    if not node.type and not node.int_or_string and not node.preserves:
        return [required(f"{path}.type", _EMPTY_TYPE[level])]
    if node.int_or_string and node.preserves:
        wrong = f"{path}.x-kubernetes-preserve-unknown-fields"
        return [invalid(wrong, True, "must be false if x-kubernetes-int-or-string is true")]
    return []


def _pattern_errors(path: str, node: SchemaProps) -> list[FieldError]:
    if not node.pattern:
        return []
    try:
        compile_pattern(node.pattern)
    except InvalidPattern as error:
        detail = f"must be a valid regular expression, but isn't: {error}"
        return [invalid(f"{path}.pattern", node.pattern, detail)]
    return []


def _list_errors(path: str, node: SchemaProps) -> list[FieldError]:
    kind, keys = node.list_type, node.list_map_keys or []
    if kind is None:
        missing = required(f"{path}.x-kubernetes-list-type", "must be map if x-kubernetes-list-map-keys is non-empty")
        return [missing] if keys else []
    errors: list[FieldError] = []
    if node.type != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        errors.append(invalid(f"{path}.type", node.type, detail) if node.type else required(f"{path}.type", detail))
    if kind not in _LIST_TYPES:
        errors.append(not_supported(f"{path}.x-kubernetes-list-type", kind, _LIST_TYPES))
    return errors + (_map_errors(path, node, keys) if kind == "map" else [])


def _map_errors(path: str, node: SchemaProps, keys: list[str]) -> list[FieldError]:
    where = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        return [required(where, "must not be empty if x-kubernetes-list-type is map")]
    if node.items is None:
        return [required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")]
    if node.items.type != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        return [invalid(f"{path}.items.type", node.items.type or "", detail)]
    known = node.items.properties or {}
    if any(key not in known for key in keys):
        return [invalid(where, keys, "entries must all be names of item properties")]
    detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
    return [
        required(f"{path}.items.properties[{key}].default", detail)
        for key in keys
        if known[key].default is None and key not in (node.items.required or ())
    ]


def _value_validations(path: str, node: SchemaProps) -> Iterator[tuple[str, SchemaProps]]:
    for name, parts in (("allOf", node.all_of), ("anyOf", node.any_of), ("oneOf", node.one_of)):
        for index, part in enumerate(parts or ()):
            yield f"{path}.{name}[{index}]", part
    if node.negated is not None:
        yield f"{path}.not", node.negated


def _nested_errors(path: str, part: SchemaProps, *, plain: bool) -> list[FieldError]:
    """Errors of a schema under allOf, anyOf, oneOf or not, which may restrict values but declare nothing (`plain`:
    except types).
    """
    errors: list[FieldError] = []
    declared = (
        ("type", part.type if not plain else None),
        ("default", part.default),
        ("nullable", part.nullable),
        ("additionalProperties", part.additional_properties),
    )
    for name, value in declared:
        if value:
            errors.append(forbidden(f"{path}.{name}", "must be empty to be structural"))
    for name, below in (part.properties or {}).items():
        errors += _nested_errors(f"{path}.properties[{name}]", below, plain=False)
    if part.items is not None:
        errors += _nested_errors(f"{path}.items", part.items, plain=False)
    for here, below in _value_validations(path, part):
        errors += _nested_errors(here, below, plain=plain)
    return errors


def _default_errors(path: str, node: SchemaProps) -> list[FieldError]:
    """A default must be valid by the schema itself."""
    if node.default is None:
        return []
    errors: list[FieldError] = []
    compile_validation(msgspec.to_builtins(node))(node.default, f"{path}.default", errors)
    return errors


_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


class _GoValidationRule(msgspec.Struct, rename="pascal", frozen=True):
    """A rule as a real server's errors print it."""

    rule: str
    message: str
    message_expression: str
    reason: str | None
    field_path: str
    optional_old_self: bool | None


def rule_format_errors(path: str, node: SchemaProps) -> list[FieldError]:
    """What is wrong with the rules of one node before compilation."""
    errors: list[FieldError] = []
    for here, rule in _rules(path, node):
        errors += _text_errors(here, rule)
        if rule.message_expression and not rule.message_expression.strip():
            detail = "messageExpression must be non-empty if specified"
            errors.append(required(f"{here}.messageExpression", detail))
        if rule.reason is not None and rule.reason not in _REASONS:
            errors.append(not_supported(f"{here}.reason", rule.reason, _REASONS))
        if rule.field_path:
            errors += _path_errors(f"{here}.fieldPath", rule.field_path, node)
    return errors


def rule_errors(path: str, node: SchemaProps, unmatched: str = "") -> list[FieldError]:
    """Compilation errors of the rules of this node and all nodes below it.

    `unmatched` is the path of the nearest list above whose items cannot be correlated, empty if there is none.
    """
    errors = [error for here, rule in _rules(path, node) for error in _compile_errors(here, rule, unmatched)]
    for name, part in (node.properties or {}).items():
        errors += rule_errors(f"{path}.properties[{name}]", part, unmatched)
    if isinstance(node.additional_properties, SchemaProps):
        errors += rule_errors(f"{path}.additionalProperties", node.additional_properties, unmatched)
    if node.items is not None:
        errors += rule_errors(f"{path}.items", node.items, unmatched or (path if node.list_type != "map" else ""))
    return errors


def _rules(path: str, node: SchemaProps) -> Iterator[tuple[str, RuleProps]]:
    for index, rule in enumerate(node.validations or ()):
        yield f"{path}.{VALIDATIONS}[{index}]", rule


def _text_errors(here: str, rule: RuleProps) -> list[FieldError]:
    text, message = (rule.rule or "").strip(), rule.message or ""
    if not text:
        return [required(f"{here}.rule", "rule is not specified")]
    if message and not message.strip():
        return [invalid(f"{here}.message", message, "must be non-empty if specified")]
    if _has_breaks(message.strip()):
        return [invalid(f"{here}.message", message, "must not contain line breaks")]
    if _has_breaks(text) and not message:
        return [required(f"{here}.message", "message must be specified if rule contains line breaks")]
    return []


def _has_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _path_errors(here: str, path: str, node: SchemaProps) -> list[FieldError]:
    errors: list[FieldError] = []
    if not path.strip():
        errors.append(invalid(here, path, "must be non-empty if specified"))
    if _has_breaks(path):
        errors.append(invalid(here, path, "must not contain line breaks"))
    try:
        field_path(msgspec.to_builtins(node), path)
    except InvalidPath:
        errors.append(invalid(here, path, "must be a valid path"))
    return errors


def _compile_errors(here: str, rule: RuleProps, unmatched: str) -> Iterator[FieldError]:
    optional = bool(rule.optional_old_self)
    try:
        test = compile_expression(rule.rule or "", optional_old=optional)
    except CompilationError as problem:
        yield invalid(f"{here}.rule", _go_rule(rule), f"compilation failed: {problem}")
        return
    if not test.returns("BOOL"):
        yield invalid(f"{here}.rule", _go_rule(rule), "cel expression must evaluate to a bool")
    yield from _message_errors(here, rule)
    if test.uses_old and unmatched:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {unmatched}"
        yield invalid(f"{here}.rule", rule.rule, detail)
    if not test.uses_old and rule.optional_old_self is not None:
        detail = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{here}.optionalOldSelf", rule.optional_old_self, detail)


def _message_errors(here: str, rule: RuleProps) -> Iterator[FieldError]:
    if not rule.message_expression:
        return
    where = f"{here}.messageExpression"
    try:
        says = compile_expression(rule.message_expression, optional_old=bool(rule.optional_old_self))
    except CompilationError as problem:
        yield invalid(where, _go_rule(rule), f"messageExpression compilation failed: {problem}")
        return
    if not says.returns("STRING"):
        yield invalid(where, _go_rule(rule), "messageExpression must evaluate to a string")


def _go_rule(rule: RuleProps) -> _GoValidationRule:
    return _GoValidationRule(
        rule=rule.rule or "",
        message=rule.message or "",
        message_expression=rule.message_expression or "",
        reason=rule.reason,
        field_path=rule.field_path or "",
        optional_old_self=rule.optional_old_self,
    )
