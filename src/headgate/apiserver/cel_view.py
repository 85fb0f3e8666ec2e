"""Values as rules see them: fields under names CEL can spell, numbers as what the schema calls them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from headgate.apiserver.defaults_schema import EMBEDDED
from headgate.apiserver.messages import Json

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
    """The field's name in a rule; None for one that no rule can name."""
    if not _SPEAKABLE(name):
        return None
    return f"__{name}__" if _RESERVED(name) else _TO_ESCAPE.sub(lambda found: _ESCAPED[found.group()], name)


def visible_fields(schema: Json, *, root: bool = False) -> Json:
    """Fields the schema does not declare cannot be seen; of whole objects' metadata only the name can."""
    fields: Json = schema.get("properties") or {}
    if root or schema.get(EMBEDDED):
        return {"apiVersion": {}, "kind": {}, **fields, "metadata": _VISIBLE_METADATA}
    return fields


def compile_view(schema: Json, *, root: bool = False) -> View:
    """How rules see values of this schema."""
    match schema.get("type"):
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return _map(compile_view(schema["additionalProperties"]))
        case "object" if schema.get("properties") or root or schema.get(EMBEDDED):
            return _object(visible_fields(schema, root=root))
        case "array" if isinstance(schema.get("items"), dict):
            return _list(compile_view(schema["items"]))
        case "number":
            return lambda value: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
        case _:
            return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def _object(fields: Json) -> View:
    known = [
        (name, spelled, compile_view(part)) for name, part in fields.items() if (spelled := escaped(name)) is not None
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
