"""What makes a schema structural: every field has a type where it is declared, so it can be pruned and defaulted."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from headgate.apiserver.field_errors import FieldError, forbidden, invalid, not_supported, required
from headgate.apiserver.validate_crd_rules import rule_errors, rule_form_errors
from headgate.apiserver.validate_crd_shapes import SchemaProps
from headgate.apiserver.validate_schema import compile_pattern, compile_validation

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
    """Every place where fields are declared, the root first."""
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
    errors += rule_form_errors(path, node)
    for here, part in _junctors(path, node):
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
    except re.error as trouble:
        detail = f"must be a valid regular expression, but isn't: {trouble}"
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


def _junctors(path: str, node: SchemaProps) -> Iterator[tuple[str, SchemaProps]]:
    for name, parts in (("allOf", node.all_of), ("anyOf", node.any_of), ("oneOf", node.one_of)):
        for index, part in enumerate(parts or ()):
            yield f"{path}.{name}[{index}]", part
    if node.negated is not None:
        yield f"{path}.not", node.negated


def _nested_errors(path: str, part: SchemaProps, *, plain: bool) -> list[FieldError]:
    """Combined schemas check values; what they declare must be declared outside of them (`plain`: types may be too)."""
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
    for here, below in _junctors(path, part):
        errors += _nested_errors(here, below, plain=plain)
    return errors


def _default_errors(path: str, node: SchemaProps) -> list[FieldError]:
    """A default must be what the schema itself accepts."""
    if node.default is None:
        return []
    errors: list[FieldError] = []
    compile_validation(msgspec.to_builtins(node))(node.default, f"{path}.default", errors)
    return errors
