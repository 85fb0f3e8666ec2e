"""Values as CEL sees them: fields under escaped names, numbers by their type; and values reduced to what rules read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from headgate.apiserver.caches import REDUCED_FIELDS, Cache
from headgate.apiserver.cel.reads import EVERYTHING, Reads, note_reads
from headgate.apiserver.messages import Json

EMBEDDED = "x-kubernetes-embedded-resource"

View = Callable[[Any], Any]

_RESERVED = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void"
    "|while"
).fullmatch
_ESCAPED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_TO_ESCAPE = re.compile(r"__|[-./]")
_SPEAKABLE = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*").fullmatch
_VISIBLE_METADATA: Json = {"type": "object", "properties": {"name": {}, "generateName": {}}}


def escaped(name: str) -> str | None:
    """The field's escaped name in CEL; None if it cannot be named there."""
    if not _SPEAKABLE(name):
        return None
    return f"__{name}__" if _RESERVED(name) else _TO_ESCAPE.sub(lambda found: _ESCAPED[found.group()], name)


def visible_fields(schema: Json, *, root: bool = False) -> Json:
    """The fields rules can read: declared ones, and of root or embedded objects also apiVersion, kind and metadata's
    name.
    """
    fields: Json = schema.get("properties") or {}
    if root or schema.get(EMBEDDED):
        return {"apiVersion": {}, "kind": {}, **fields, "metadata": _VISIBLE_METADATA}
    return fields


def compile_view(schema: Json, reads: Reads = EVERYTHING, *, root: bool = False) -> View:
    """Converts values of this schema to what rules see of them: what is read, more if that cannot be told."""
    match schema.get("type"):
        case "object" if _is_map(schema):
            return _map(compile_view(schema["additionalProperties"]))
        case "object" if schema.get("properties") or root or schema.get(EMBEDDED):
            fields = visible_fields(schema, root=root)
            is_known = not (reads.whole or reads.size or reads.items)
            return _object(fields, fields_read(fields, reads) if is_known else dict.fromkeys(fields, EVERYTHING))
        case "array" if isinstance(schema.get("items"), dict):
            return _list(compile_view(schema["items"], _item_reads(reads)))
        case "number":
            return lambda value: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
        case _:
            return _as_it_is


def _item_reads(reads: Reads) -> Reads:
    return EVERYTHING if reads.whole or reads.fields else reads.items or Reads()


def _as_it_is(value: Any) -> Any:
    return value


def _object(fields: Json, read: Mapping[str, Reads]) -> View:
    known = [
        (name, spelled, compile_view(fields[name], of_field))
        for name, of_field in read.items()
        if (spelled := escaped(name)) is not None
    ]

    def see(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {spelled: view(value[name]) for name, spelled, view in known if name in value}

    return see


def _map(view: View) -> View:
    if view is _as_it_is:
        return view
    return lambda value: {name: view(part) for name, part in value.items()} if isinstance(value, dict) else value


def _list(view: View) -> View:
    if view is _as_it_is:
        return view
    return lambda value: [view(item) for item in value] if isinstance(value, list) else value


Reduction = Callable[[Any], bytes]
"""Encodes what is read of a value as JSON."""


class _Presence(Struct):
    """An object of which only its presence is read."""


def compile_reduction(schema: Json, reads: Reads) -> Reduction:
    """Reduces values of this schema to what is read of them; values of another type are encoded whole."""
    kind = _reduced_type(schema, reads)
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
    """What is read of each of these fields, without those of which nothing is."""
    return {name: reads.fields[spelled] for name in fields if (spelled := escaped(name)) in reads.fields}


def _reduced_type(schema: Json, reads: Reads) -> Any:
    match schema.get("type"):
        case "object" if reads.nothing:
            return _Presence | None
        case "object" if not (reads.whole or reads.size or reads.items or _is_map(schema)):
            return _reduced_object(visible_fields(schema), reads)
        case "array" if isinstance(schema.get("items"), dict) and not reads.whole:
            items = _reduced_type(schema["items"], _item_reads(reads))
            return list[items] | None  # type: ignore[valid-type]
    return Any


def _is_map(schema: Json) -> bool:
    return isinstance(schema.get("additionalProperties"), dict)


def _reduced_object(fields: Json, reads: Reads) -> Any:
    if not fields:
        return Any
    read = fields_read(fields, reads)
    names = {f"field_{index}": name for index, name in enumerate(read)}
    kinds = [(field, _reduced_type(fields[name], read[name]) | UnsetType, UNSET) for field, name in names.items()]
    return msgspec.defstruct("Reduced", kinds, rename=names, gc=False) | None


VALIDATIONS = "x-kubernetes-validations"

ReducedObject = tuple[bytes | None, ...]
"""Each field that is read, reduced to JSON; None for an absent one."""


class _ReducedField:
    """One top-level field that is read. Revisions share its values, so each value is reduced once."""

    def __init__(self, reduced: Reduction) -> None:
        self._reduced = reduced
        self.known: Cache[int, tuple[Any, bytes]] = Cache(REDUCED_FIELDS)

    def reduce(self, value: Any) -> tuple[Any, bytes]:
        """Reduces a value that is not `known`."""
        reduced = (value, self._reduced(value))
        self.known.put(id(value), reduced)
        return reduced


class ObjectView:
    """What the rules of a schema read of whole objects: objects with equal reductions satisfy the same rules."""

    def __init__(self, schema: Json) -> None:
        reads = Reads()
        _note_schema_reads(schema, reads)
        self._is_known = not (reads.whole or reads.size or reads.items)
        fields = visible_fields(schema, root=True)
        read = fields_read(fields, reads)
        self._parts = [
            (name, _ReducedField(compile_reduction(fields[name], of_field))) for name, of_field in read.items()
        ]

    def lies_in(self, names: frozenset[str]) -> bool:
        """Whether nothing is read but fields of these names."""
        return self._is_known and names.issuperset(name for name, _ in self._parts)

    def of(self, value: Any) -> ReducedObject | None:
        """The object reduced to what is read; empty for None, and None if it is unknown what is read."""
        if value is None:
            return ()
        if not self._is_known or type(value) is not dict:
            return None
        found: list[bytes | None] = []
        for name, part in self._parts:
            if name in value:
                field = value[name]
                found.append((part.known.get(id(field)) or part.reduce(field))[1])
            else:
                found.append(None)
        return tuple(found)


def has_rules(schema: Any) -> bool:
    """Whether the schema has a rule, here or below."""
    if not isinstance(schema, dict):
        return False
    below = (*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties"))
    return bool(schema.get(VALIDATIONS)) or any(map(has_rules, below))


def _note_schema_reads(schema: Json, reads: Reads) -> None:
    """Adds what the rules of a schema and of all schemas below it read, of new values and of old ones."""
    for rule in schema.get(VALIDATIONS) or ():
        note_reads(rule["rule"], {"self": reads, "oldSelf": reads})
    for name, part in (schema.get("properties") or {}).items():
        if has_rules(part):
            _note_schema_reads(part, _field_reads(name, reads))
    if has_rules(schema.get("items")):
        of_items = reads.each_item()
        for key in schema.get("x-kubernetes-list-map-keys") or ():
            _field_reads(key, of_items).whole = True  # by it an item is found among the old ones
        _note_schema_reads(schema["items"], of_items)
    if has_rules(schema.get("additionalProperties")):
        reads.whole = True


def _field_reads(name: str, reads: Reads) -> Reads:
    spelled = escaped(name)
    if spelled is None:
        reads.whole = True
        return Reads()
    return reads.field(spelled)
