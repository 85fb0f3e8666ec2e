"""Typed values: what two values of a shape have to do with each other: difference, merge, one without some fields.

A shape says how values of a type are merged, for built-in kinds from their table, for custom resources from their
schema. A map or a list is atomic (one value) or granular: then each field or item has owners of its own. Items of a
granular list are told apart by their keys, or by their values if it is a set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from functools import cached_property
from typing import Any

from msgspec import Struct

from headgate.apiserver.caches import FIELD_SHAPES, memoized
from headgate.apiserver.field_errors import go_printed, quote
from headgate.apiserver.kubernetes_types import FieldType, fields_of, is_atomic, is_struct
from headgate.apiserver.managedfields.paths import Path, Paths, field, is_member, keyed, of_value, shown
from headgate.apiserver.messages import Json

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


class _Missing:
    """A value that is not there; null is one that is."""


MISSING = _Missing()


class InvalidValue(ValueError):
    """A value is not of its shape."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{shown(path)}: {problem}")


class Comparison(Struct):
    """The fields in which a value differs from an older one."""

    added: set[Path]
    modified: set[Path]
    removed: set[Path]

    @property
    def changed(self) -> set[Path]:
        return self.added | self.modified


def element_of(item: Any, shape: Shape) -> str:
    """The element of the path to an item of a granular list."""
    if not shape.keys:
        if isinstance(item, dict | list) or item is None:
            raise ValueError("associative list without keys has an element that's a map type")
        return of_value(item)
    if not isinstance(item, dict):
        wrong = "a null element" if item is None else "non-map elements"
        raise ValueError(f"associative list with keys may not have {wrong}")
    items = shape.element
    found = {}
    for name in shape.keys:
        value = item.get(name, items.below(name).default if items is not None else None)
        if value is not None:
            found[name] = value
    if not found:
        names = " ".join(map(quote, shape.keys))
        text = f"associative list with keys has an element that omits all key fields [{names}]"
        raise ValueError(f"{text} (and doesn't have default values for any key fields)")
    return keyed(found)


def validate(value: Any, shape: Shape, path: Path = ()) -> None:
    """Refuses a value that is not of its shape, with undeclared fields or with items of equal keys."""
    shape = shape.of(value)
    if value is None:
        return
    match shape.form:
        case Form.MAP:
            _validate_map(value, shape, path)
        case Form.LIST:
            _validate_list(value, shape, path)
        case _:
            _validate_scalar(value, shape.scalar, path)


def _validate_map(value: Any, shape: Shape, path: Path) -> None:
    if not isinstance(value, dict):
        raise InvalidValue(path, f"expected map, got {_go_value(value)}")
    for name, part in value.items():
        here = (*path, field(name))
        below = shape.fields.get(name) or shape.element
        if below is None:
            raise InvalidValue(here, "field not declared in schema")
        validate(part, below, here)


def _validate_list(value: Any, shape: Shape, path: Path) -> None:
    if not isinstance(value, list):
        raise InvalidValue(path, f"expected list, got {_go_value(value)}")
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if not shape.atomic:
            try:
                element = element_of(item, shape)
            except ValueError as error:
                raise InvalidValue(path, f"element {index}: {error}") from None
            if element in seen:
                raise InvalidValue(path, f"duplicate entries for key {shown((element,))}")
            seen.add(element)
        if shape.element is not None:
            validate(item, shape.element, (*path, element))


_SCALAR_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "numeric": (int, float),
    "untyped": (str, bool, int, float),
}


def _validate_scalar(value: Any, kind: str, path: Path) -> None:
    if isinstance(value, _SCALAR_TYPES[kind]) and (kind != "numeric" or not isinstance(value, bool)):
        return
    match kind:
        case "numeric":
            raise InvalidValue(path, f"expected numeric (int or float), got {_go_type(value)}")
        case "string":
            raise InvalidValue(path, f"expected string, got &value.valueUnstructured{{Value:{_go_value(value)[2:-1]}}}")
    raise InvalidValue(path, f"expected {'any scalar' if kind == 'untyped' else kind}, got {_go_value(value)}")


def _go_type(value: Any) -> str:
    names = {bool: "bool", str: "string", int: "int64", float: "float64", list: "[]interface {}"}
    return names.get(type(value), "map[string]interface {}")


def _go_value(value: Any) -> str:
    """A value as Go prints it."""
    return f"&{{{go_printed(value)}}}"


def field_set(value: Any, shape: Shape) -> Paths:
    """The leaves of a value, and every item of a granular list."""
    return frozenset(_field_set(value, shape, ()))


def _field_set(value: Any, shape: Shape, path: Path) -> Iterator[Path]:
    shape = shape.of(value)
    if shape.form is Form.SCALAR or shape.atomic:
        yield path
    elif shape.form is Form.LIST:
        for item in value or ():
            here = (*path, element_of(item, shape))
            yield here
            yield from _field_set(item, _element(shape), here)
    else:
        for name, part in (value or {}).items():
            here = (*path, field(name))
            if part is None or part == {} or name not in shape.fields:
                yield here
            yield from _field_set(part, shape.below(name), here)


def _element(shape: Shape) -> Shape:
    assert shape.element is not None, "a list without a shape for its items"
    return shape.element


def compare(old: Any, new: Any, shape: Shape) -> Comparison:
    """The difference of two values. What is added whole is added with everything below it."""
    found = Comparison(set(), set(), set())
    _compare(old, new, shape, (), found)
    return found


def _compare(old: Any, new: Any, shape: Shape, path: Path, found: Comparison) -> None:
    if old == new:
        return
    before, after = shape.of(old), shape.of(new)
    if new is MISSING:
        is_leaf = _compare_as(old, new, before, path, found)
    else:
        if old is not MISSING and before is not after:
            _compare_as(old, new, before, path, found)
        is_leaf = _compare_as(old, new, after, path, found)
    if not is_leaf and old is MISSING:
        found.added.add(path)
    elif not is_leaf and new is MISSING:
        found.removed.add(path)


def _compare_as(old: Any, new: Any, shape: Shape, path: Path, found: Comparison) -> bool:
    """Compares two values of one form; whether they are a leaf."""
    if shape.form is Form.SCALAR or shape.atomic or not (_content(old, shape) or _content(new, shape)):
        _compare_leaf(old, new, path, found)
        return True
    if shape.form is Form.LIST:
        _compare_lists(_content(old, shape), _content(new, shape), shape, path, found)
        return False
    left, right = _present(old, shape), _present(new, shape)
    for name in left | right:
        here = (*path, field(name))
        _compare(left.get(name, MISSING), right.get(name, MISSING), shape.below(name), here, found)
    return False


def _content(value: Any, shape: Shape) -> Any:
    """The fields or items of a value; nothing if it is none or of another form."""
    wanted = list if shape.form is Form.LIST else dict
    if wanted is dict and isinstance(value, dict):
        return value or shape.empty
    return value if isinstance(value, wanted) else ()


def _present(value: Any, shape: Shape) -> Json:
    """The fields of a map, with those its type always has."""
    return {**shape.empty, **value} if isinstance(value, dict) else {}


def _compare_leaf(old: Any, new: Any, path: Path, found: Comparison) -> None:
    if old is MISSING:
        found.added.add(path)
    elif new is MISSING:
        found.removed.add(path)
    elif old != new:
        found.modified.add(path)


def _compare_lists(old: Any, new: Any, shape: Shape, path: Path, found: Comparison) -> None:
    """Items of equal keys are one field as long as there are several of them."""
    left, right = _by_element(old, shape), _by_element(new, shape)
    for element in left | right:
        here = (*path, element)
        before, after = left.get(element, []), right.get(element, [])
        if len(before) > 1 and len(after) > 1:
            if before != after:
                found.modified.add(here)
            continue
        if len(before) > 1:
            found.removed.add(here)
            before = []
        elif len(after) > 1:
            found.added.add(here)
            after = []
        if before or after:
            one, other = (values[0] if values else MISSING for values in (before, after))
            _compare(one, other, _element(shape), here, found)


def _by_element(items: Any, shape: Shape) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(element_of(item, shape), []).append(item)
    return found


def merged(live: Any, config: Any, shape: Shape) -> Any:
    """The live value with everything the configuration says. Nothing is removed."""
    if config is MISSING or live is MISSING:
        return live if config is MISSING else config
    shape = shape.of(config)
    if shape.form is Form.MAP and not shape.atomic and isinstance(live, dict) and isinstance(config, dict):
        names = [*live, *(name for name in config if name not in live)]
        return {n: merged(live.get(n, MISSING), config.get(n, MISSING), shape.below(n)) for n in names}
    if shape.form is Form.LIST and not shape.atomic and isinstance(live, list) and isinstance(config, list):
        return _merged_lists(live, config, shape)
    return config


def _merged_lists(live: list[Any], config: list[Any], shape: Shape) -> list[Any]:
    """Items in the order of the configuration; those only the live list has stay where they are among them."""
    known, wanted = _by_element(live, shape), {element_of(item, shape): item for item in config}
    left, right = [element_of(item, shape) for item in live], list(wanted)
    shared = [element for element in right if element in known]
    result, at, done = [], 0, set[str]()
    for index, element in enumerate(left):
        if element not in wanted:
            result.append(live[index])
            continue
        if element in done or (shared and element != shared[0] and at < len(right) and right[at] != element):
            continue
        while at < len(right) and element not in done:
            taken = right[at]
            before = known.get(taken, [])
            result.append(merged(before[0] if len(before) == 1 else MISSING, wanted[taken], _element(shape)))
            done.add(taken)
            at += 1
            if shared and shared[0] == taken:
                shared.pop(0)
    for taken in right[at:]:
        before = known.get(taken, [])
        result.append(merged(before[0] if len(before) == 1 else MISSING, wanted[taken], _element(shape)))
    return result


def without(value: Any, shape: Shape, removed: Json) -> Any:
    """The value without the fields and items of a set, given as `fieldsV1`; MISSING if nothing is left of it."""
    shape = shape.of(value)
    if shape.form is Form.SCALAR:
        return value
    if shape.form is Form.LIST:
        return MISSING if shape.atomic or not isinstance(value, list) else _items_without(value, shape, removed)
    if shape.atomic or not isinstance(value, dict):
        return MISSING
    kept = {}
    for name, part in value.items():
        node = removed.get(field(name))
        if node is None:
            kept[name] = part
        elif not is_member(node):
            kept[name] = _or_null(without(part, shape.below(name), node))
    return kept or MISSING


def _items_without(items: list[Any], shape: Shape, removed: Json) -> Any:
    kept = []
    for item in items:
        node = removed.get(element_of(item, shape))
        if node is None:
            kept.append(item)
        elif not is_member(node):
            kept.append(_or_null(without(item, _element(shape), node)))
    return kept or MISSING


def _or_null(value: Any) -> Any:
    return None if value is MISSING else value


def with_named_fields(paths: Paths, shape: Shape) -> Paths:
    """The set with every declared field above its members, which sets of leaves leave out."""
    found = set(paths)
    for path in paths:
        here: Shape | None = shape
        for level, element in enumerate(path[:-1], 1):
            if here is None:
                break
            if element.startswith("f:"):
                name = element[2:]
                if name in here.fields:
                    found.add(path[:level])
                here = here.fields.get(name) or here.element
            else:
                here = here.element
    return frozenset(found)
