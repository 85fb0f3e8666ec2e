"""The types of built-in kinds: their fields by name and by number in protobuf, and how each of them is merged.

`kubernetes-types.json` has the Go types of Kubernetes v1.36 (`tests/kubernetes/kubernetes_types.py` makes it). From it
come the unknown fields of an object, protobuf bodies, OpenAPI, strategic merge patches and server-side apply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

from headgate.apiserver.caches import TYPE_FIELDS, memoized
from headgate.apiserver.messages import Json

FILE = "kubernetes-types.json"
IDENTITY = ("apiVersion", "kind")


class Merging(Struct, frozen=True):
    """How a field is merged. A list without keys that is no set is atomic; a map or struct is so if it is marked."""

    keys: tuple[str, ...] = ()
    set: bool = False
    atomic: bool = False
    merge: str | None = None  # the key of strategic merge patches; empty: a set, None: replaced
    default: Any = None  # of a field that is a key


class FieldType(Struct, frozen=True):
    """A field: its name in JSON, and its type: a scalar or a struct, one or several."""

    number: int
    name: str
    type: str
    repeated: bool
    mapped: bool
    pointer: bool
    inline: bool
    always: bool  # written even when it is empty
    merging: Merging

    @property
    def is_plain_struct(self) -> bool:
        """Whether the field is a struct that an empty object has."""
        return is_struct(self.type) and not (self.repeated or self.mapped or self.pointer)


class _Table(Struct, frozen=True):
    kinds: Mapping[str, str]
    atomic: frozenset[str]
    types: Mapping[str, msgspec.Raw]


_TABLE = msgspec.json.decode((files("headgate.apiserver") / FILE).read_bytes(), type=_Table)
_OBJECTS = frozenset(_TABLE.kinds.values())
_PLAIN = Merging()


def type_of(api_version: str, kind: str) -> str | None:
    """The type of objects of the kind; None where there is none."""
    return _TABLE.kinds.get(f"{api_version} {kind}")


def type_of_options(kind: str) -> str | None:
    """The type of a kind that every version has, such as DeleteOptions."""
    return _TABLE.kinds.get(kind)


def is_struct(name: str) -> bool:
    return name in _TABLE.types


def is_atomic(name: str) -> bool:
    return name in _TABLE.atomic


@memoized(TYPE_FIELDS)
def numbered_fields(name: str) -> Mapping[int, FieldType]:
    """The fields of a type as protobuf has them, those of inlined structs in a field of their own."""
    listed = msgspec.json.decode(_TABLE.types[name], type=list[list[Any]])
    return {number: _field(number, *parts) for number, *parts in listed}


@memoized(TYPE_FIELDS)
def fields_of(name: str) -> Mapping[str, FieldType]:
    """The fields of a type as JSON has them."""
    found: dict[str, FieldType] = {}
    for field in numbered_fields(name).values():
        found |= fields_of(field.type) if field.inline else {field.name: field}
    return found


def _field(number: int, name: str, kind: str, merging: Json | None = None) -> FieldType:
    marks = kind[: len(kind) - len(kind.lstrip("!*[{~"))]
    return FieldType(
        number,
        name,
        kind[len(marks) :],
        repeated="[" in marks,
        mapped="{" in marks,
        pointer="*" in marks,
        inline="~" in marks,
        always="!" in marks,
        merging=_PLAIN if merging is None else msgspec.convert(merging, Merging),
    )


def unknown_fields(value: Json) -> list[str]:
    """The paths of fields that the kind of an object does not have; none of a kind that is not listed."""
    name = type_of(str(value.get("apiVersion")), str(value.get("kind")))
    return [] if name is None else list(_unknown(value, name, ""))


def known_part(value: Json) -> Json:
    """The object without fields its kind does not have; identical if there are none."""
    name = type_of(str(value.get("apiVersion")), str(value.get("kind")))
    return value if name is None or not unknown_fields(value) else _known(value, name)


def _known(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        return value
    fields, kept = fields_of(name), IDENTITY if name in _OBJECTS else ()
    return {
        part_name: _known_below(part, fields[part_name]) if part_name in fields else part
        for part_name, part in value.items()
        if part_name in fields or part_name in kept
    }


def _known_below(value: Any, field: FieldType) -> Any:
    if not is_struct(field.type):
        return value
    if field.mapped and isinstance(value, dict):
        return {key: _known(part, field.type) for key, part in value.items()}
    if field.repeated and isinstance(value, list):
        return [_known(part, field.type) for part in value]
    return _known(value, field.type)


def _unknown(value: Any, name: str, path: str) -> Iterator[str]:
    """Undeclared fields of a struct; what is of another shape than its type is the matter of validation."""
    if not isinstance(value, dict):
        return
    fields, is_object = fields_of(name), name in _OBJECTS
    for part_name, part in value.items():
        here = f"{path}.{part_name}" if path else part_name
        field = fields.get(part_name)
        if field is not None:
            yield from _unknown_below(part, field, here)
        elif not (is_object and part_name in IDENTITY):
            yield here


def _unknown_below(value: Any, field: FieldType, path: str) -> Iterator[str]:
    if not is_struct(field.type):
        return
    if field.mapped:
        for key, part in value.items() if isinstance(value, dict) else ():
            yield from _unknown(part, field.type, f"{path}.{key}")
    elif field.repeated:
        for index, part in enumerate(value if isinstance(value, list) else ()):
            yield from _unknown(part, field.type, f"{path}[{index}]")
    else:
        yield from _unknown(value, field.type, path)
