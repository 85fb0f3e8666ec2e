"""Values as rules see them: fields under names CEL can spell, numbers as what the schema calls them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from headgate.apiserver.cel_reads import EVERYTHING, Reads
from headgate.apiserver.defaults_schema import EMBEDDED
from headgate.apiserver.known_values import Remembered
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


def compile_view(schema: Json, reads: Reads = EVERYTHING, *, root: bool = False) -> View:
    """How a rule that reads this much sees values of this schema; of whole objects' metadata it sees the name only.

    The parts of whole objects outlive many changes beside them: they are looked at once and seen encoded.
    """
    if reads.nothing:
        return _that_it_is_there
    match schema.get("type"):
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return _map(compile_view(schema["additionalProperties"]))
        case "object" if schema.get("properties") or root or schema.get(EMBEDDED):
            return _object(schema, reads, root=root)
        case "array" if isinstance(schema.get("items"), dict):
            return _list(schema["items"], reads)
        case "number":
            return lambda value: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
        case _:
            return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def _that_it_is_there(value: Any) -> Any:
    """The emptiest value of the same type, as far as there is one."""
    return type(value)() if isinstance(value, dict | list | str) else value


def _object(schema: Json, reads: Reads, *, root: bool) -> View:
    """Fields the schema does not declare cannot be seen."""
    fields: Json = dict(schema.get("properties") or {})
    if root or schema.get(EMBEDDED):
        fields = {"apiVersion": {}, "kind": {}, **fields, "metadata": _VISIBLE_METADATA}
    if reads.size or reads.items:
        reads = EVERYTHING
    known = [
        (name, spelled, compile_view(part, EVERYTHING if reads.whole else reads.fields[spelled]))
        for name, part in fields.items()
        if (spelled := escaped(name)) is not None and (reads.whole or spelled in reads.fields)
    ]
    plain = [(name, spelled) for name, spelled, view in known if view is _as_it_is]
    known = [(name, spelled, _once(view) if root else view) for name, spelled, view in known if view is not _as_it_is]

    def see(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        seen = {spelled: value[name] for name, spelled in plain if name in value}
        for name, spelled, view in known:
            if name in value:
                seen[spelled] = view(value[name])
        return seen

    return see


def _once(view: View) -> View:
    seen = Remembered[Raw]()

    def see(value: Any) -> Any:
        known = seen.of(value)
        if known is None:
            known = Raw(msgspec.json.encode(view(value)))
            seen.put(value, known)
        return known

    return see


def _map(view: View) -> View:
    if view is _as_it_is:
        return view
    return lambda value: {name: view(part) for name, part in value.items()} if isinstance(value, dict) else value


def _list(items: Json, reads: Reads) -> View:
    view = compile_view(items, EVERYTHING if reads.whole or reads.fields else reads.items or Reads())
    if view is _as_it_is:
        return view
    return lambda value: [view(item) for item in value] if isinstance(value, list) else value
