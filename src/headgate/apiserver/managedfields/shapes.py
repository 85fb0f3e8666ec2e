"""Shapes: how values of a type are merged, for built-in kinds from their table, for custom resources from their schema.

A map or a list is atomic (one value) or granular: then each field or item has owners of its own. Items of a granular
list are told apart by their keys, or by their values if it is a set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import cached_property
from typing import Any

from headgate.apiserver.caches import FIELD_SHAPES, memoized
from headgate.apiserver.kubernetes_types import FieldType, fields_of, is_atomic, is_struct
from headgate.apiserver.messages import Json


class Form(Enum):
    MAP = auto()
    LIST = auto()
    SCALAR = auto()
    ANY = auto()  # whatever the value is: maps are granular, lists atomic


class Shape:
    """How a value is merged. Fields below are looked up when they are needed: types refer to themselves."""

    def __init__(
        self,
        form: Form,
        *,
        atomic: bool = False,
        keys: tuple[str, ...] = (),
        fields: Callable[[], Mapping[str, Shape]] | None = None,
        element: Callable[[], Shape] | None = None,
        empty: Callable[[], Json] | None = None,
        scalar: str = "",
        default: Any = None,
    ) -> None:
        self.form, self.atomic, self.keys, self.scalar, self.default = form, atomic, keys, scalar, default
        self._fields, self._element, self._empty = fields, element, empty

    @cached_property
    def fields(self) -> Mapping[str, Shape]:
        """The declared fields of a map."""
        return {} if self._fields is None else self._fields()

    @cached_property
    def element(self) -> Shape | None:
        """The shape of items, or of fields that are not declared; None: all fields are declared."""
        return None if self._element is None else self._element()

    @cached_property
    def empty(self) -> Json:
        """What an object has even when nothing was written: structs, and fields that are never left out."""
        return {} if self._empty is None else self._empty()

    def below(self, name: str) -> Shape:
        """The shape of a field of a map."""
        return self.fields.get(name) or self.element or ANY

    def of(self, value: Any) -> Shape:
        """The shape for this value, which decides if any is allowed."""
        if self.form is not Form.ANY:
            return self
        if isinstance(value, list):
            return _ANY_LIST
        return _ANY_MAP if isinstance(value, dict) or value is None else _ANY_SCALAR


SCALARS: Mapping[str, str] = {
    "string": "string",
    "bytes": "string",
    "Time": "string",
    "MicroTime": "string",
    "Duration": "string",
    "bool": "boolean",
    "int32": "numeric",
    "int64": "numeric",
    "uint32": "numeric",
    "uint64": "numeric",
    "float64": "numeric",
    "Quantity": "untyped",
    "IntOrString": "untyped",
}
ANY = Shape(Form.ANY)
_ANY_LIST = Shape(Form.LIST, atomic=True, element=lambda: ANY)
_ANY_MAP = Shape(Form.MAP, element=lambda: ANY)
_ANY_SCALAR = Shape(Form.SCALAR, scalar="untyped")
_ATOMIC_MAP = Shape(Form.MAP, atomic=True, element=lambda: ANY)
_IDENTITY = {name: Shape(Form.SCALAR, scalar="string") for name in ("apiVersion", "kind")}


@memoized(FIELD_SHAPES)
def kind_shape(name: str) -> Shape:
    """The shape of objects of a built-in kind, by the name of its type."""
    own = _struct_shape(name, atomic=False)
    return Shape(Form.MAP, fields=lambda: {**_IDENTITY, **own.fields}, empty=lambda: own.empty)


@memoized(FIELD_SHAPES)
def _struct_shape(name: str, *, atomic: bool) -> Shape:
    return Shape(
        Form.MAP,
        atomic=atomic or is_atomic(name),
        fields=lambda: {field.name: _field_shape(field) for field in fields_of(name).values()},
        empty=lambda: {field.name: _zero(field) for field in fields_of(name).values() if _is_always_there(field)},
    )


def _is_always_there(field: FieldType) -> bool:
    return field.always or field.is_plain_struct


def _zero(field: FieldType) -> Any:
    if field.is_plain_struct:
        return {}
    if field.repeated or field.mapped or field.pointer:
        return None
    return {"numeric": 0, "boolean": False, "string": ""}.get(SCALARS[field.type]) if field.always else None


def _field_shape(field: FieldType) -> Shape:
    merging = field.merging
    if field.repeated:
        keyed = merging.keys or merging.set
        return Shape(Form.LIST, atomic=not keyed, keys=merging.keys, element=lambda: _type_shape(field, atomic=False))
    if field.mapped:
        return Shape(Form.MAP, atomic=merging.atomic, element=lambda: _type_shape(field, atomic=False))
    return _type_shape(field, atomic=merging.atomic)


def _type_shape(field: FieldType, *, atomic: bool) -> Shape:
    name = field.type
    if is_struct(name):
        return _struct_shape(name, atomic=atomic)
    if name in SCALARS:
        default = field.merging.default
        return Shape(Form.SCALAR, scalar=SCALARS[name], default=_zero(field) if default is None else default)
    return _ATOMIC_MAP if name == "RawExtension" else ANY


def resource_shape(schema: Json) -> Shape:
    """The shape of a custom resource, by its schema."""
    metadata = {"metadata": kind_shape("meta.v1.ObjectMeta"), **_IDENTITY}
    own = _schema_shape(schema, keeps=False)
    return Shape(Form.MAP, fields=lambda: {**own.fields, **metadata}, element=lambda: own.element or ANY)


_PRIMITIVES = {"string": "string", "boolean": "boolean", "integer": "numeric", "number": "numeric"}


def _schema_shape(schema: Json, *, keeps: bool) -> Shape:
    keeps = keeps or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    kind = schema.get("type")
    if kind in _PRIMITIVES:
        return Shape(Form.SCALAR, scalar=_PRIMITIVES[kind], default=schema.get("default"))
    if kind == "array":
        return _list_shape(schema, keeps=keeps)
    return _object_shape(schema, keeps=keeps) if kind == "object" else ANY


def _list_shape(schema: Json, *, keeps: bool) -> Shape:
    kind, items = schema.get("x-kubernetes-list-type", "atomic"), schema.get("items") or {}
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if kind == "map" else ()
    return Shape(Form.LIST, atomic=kind == "atomic", keys=keys, element=lambda: _schema_shape(items, keeps=keeps))


def _object_shape(schema: Json, *, keeps: bool) -> Shape:
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    any_other = others if others is not None else keeps or not properties
    undeclared = _schema_shape(others, keeps=keeps) if isinstance(others, dict) else ANY
    return Shape(
        Form.MAP,
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        fields=lambda: {name: _schema_shape(part, keeps=keeps) for name, part in properties.items()},
        element=(lambda: undeclared) if any_other is not False else None,
    )
