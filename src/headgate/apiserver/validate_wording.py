"""A wrong JSON type in the words of a real server, which names its own language's structs and types."""

from __future__ import annotations

import re
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_GOT = re.compile(r"got `(\w+)`")
_SEEN = {"str": "string", "int": "number", "float": "number"}
_KNOWN = {str: "string", bool: "bool", int: "int64", float: "float64", Any: "interface {}"}
_STRUCTS = {
    "Metadata": "ObjectMeta",
    "Selector": "LabelSelector",
    "NodeTerm": "NodeSelectorTerm",
    "NodeTerms": "NodeSelector",
    "PodTerm": "PodAffinityTerm",
    "WeightedPodTerm": "WeightedPodAffinityTerm",
    "PreferredNodeTerm": "PreferredSchedulingTerm",
    "SpreadConstraint": "TopologySpreadConstraint",
    "Resources": "ResourceRequirements",
    "Port": "ContainerPort",
    "Named": "PodSchedulingGate",
    "Template": "PodTemplateSpec",
    "Lifetime": "NamespaceSpec",
    "DisruptionBudget": "PodDisruptionBudget",
    "BudgetSpec": "PodDisruptionBudgetSpec",
}


def wrong_type(value: Any, shape: type[Struct], trouble: str) -> str:
    """The sentence for what `msgspec` found wrong when it read the value as the shape."""
    what, _, place = trouble.partition(" - at `$")
    steps = _STEP.findall(place.rstrip("`"))
    owner, kind, path = shape, Any, []
    for name, _index in steps:
        if name:
            kind = _field_type(owner, name)
            path.append(name)
        else:
            kind = _part_type(kind)
        if isinstance(kind, type) and issubclass(kind, Struct) and (name, _index) != steps[-1]:
            owner = kind
    found = _SEEN.get(seen[1], seen[1]) if (seen := _GOT.search(what)) else f"number {_value_at(value, steps)}"
    field = ".".join((_name(owner), *path))
    return f"json: cannot unmarshal {found} into Go struct field {field} of type {_type_name(kind)}"


@lru_cache(maxsize=256)
def _field_types(shape: type[Struct]) -> dict[str, Any]:
    hints = get_type_hints(shape, include_extras=True)
    return {field.encode_name: _unwrapped(hints[field.name]) for field in msgspec.structs.fields(shape)}


def _field_type(shape: type[Struct], name: str) -> Any:
    return _field_types(shape).get(name, Any)


def _unwrapped(kind: Any) -> Any:
    """The type without `None`; of several, the first."""
    if get_origin(kind) in (Union, UnionType):
        return next(part for part in get_args(kind) if part is not type(None))
    return kind


def _part_type(kind: Any) -> Any:
    """Of the items of a list or the values of a map."""
    arguments = get_args(kind)
    return _unwrapped(arguments[-1]) if arguments else Any


def _name(shape: type[Struct]) -> str:
    return _STRUCTS.get(shape.__name__, shape.__name__)


def _type_name(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Annotated:
        return "int32"
    if origin is list:
        return f"[]{_type_name(_part_type(kind))}"
    if origin is dict:
        return f"map[string]{_type_name(_part_type(kind))}"
    if isinstance(kind, type) and issubclass(kind, Struct):
        return f"v1.{_name(kind)}"
    return _KNOWN.get(kind, "interface {}")


def _value_at(value: Any, steps: list[tuple[str, str]]) -> Any:
    for name, index in steps:
        value = value[name] if name else value[int(index)]
    return value
