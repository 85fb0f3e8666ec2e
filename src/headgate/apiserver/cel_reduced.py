"""Values with little more left than what rules read of them: of many objects, few differ in that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from headgate.apiserver.cel_reads import EVERYTHING, Reads
from headgate.apiserver.cel_view import escaped, visible_fields
from headgate.apiserver.messages import Json

Reduction = Callable[[Any], bytes]
"""The text of what is left of a value."""


class _Nothing(Struct):
    """An object of which nothing is read but that it is there."""


def compile_reduction(schema: Json, reads: Reads, *, root: bool = False) -> Reduction:
    """Takes what is read from values of this schema; what is of another type is left as it is."""
    kind = _type(schema, reads, root=root)
    return msgspec.json.encode if kind is Any else _taken(kind)


def _taken(kind: Any) -> Reduction:
    holder = msgspec.defstruct("Holder", [("value", kind)], array_like=True, gc=False)  # keeps what it knows of a type

    def reduced(value: Any) -> bytes:
        try:
            return msgspec.json.encode(msgspec.convert((value,), holder).value)  # type: ignore[attr-defined]
        except msgspec.ValidationError:
            return msgspec.json.encode(value)

    return reduced


def fields_read(fields: Json, reads: Reads) -> dict[str, Reads]:
    """What is read of each of these fields, those of which nothing is left out."""
    return {name: reads.fields[spelled] for name in fields if (spelled := escaped(name)) in reads.fields}


def _type(schema: Json, reads: Reads, *, root: bool = False) -> Any:
    match schema.get("type"):
        case "object" if reads.nothing:
            return _Nothing | None
        case "object" if not (reads.whole or reads.size or reads.items or _is_map(schema)):
            return _object(visible_fields(schema, root=root), reads)
        case "array" if isinstance(schema.get("items"), dict) and not reads.whole:
            items = _type(schema["items"], EVERYTHING if reads.fields else reads.items or Reads())
            return list[items] | None  # type: ignore[valid-type]
    return Any


def _is_map(schema: Json) -> bool:
    return isinstance(schema.get("additionalProperties"), dict)


def _object(fields: Json, reads: Reads) -> Any:
    if not fields:
        return Any
    read = fields_read(fields, reads)
    names = {f"field_{index}": name for index, name in enumerate(read)}
    kinds = [(field, _type(fields[name], read[name]) | UnsetType, UNSET) for field, name in names.items()]
    return msgspec.defstruct("Reduced", kinds, rename=names, gc=False) | None
