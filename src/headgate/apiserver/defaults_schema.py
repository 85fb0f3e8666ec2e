"""Defaulting and pruning by a structural schema, compiled once to functions that share what they do not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.apiserver.messages import Json

Rewrite = Callable[[Any], Any]
"""A new value, or the very same one when nothing changes. None in place of one: nothing can change below here."""

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
_OBJECT_FIELDS = ("apiVersion", "kind", "metadata")


def compile_defaults(schema: Json) -> Rewrite | None:
    """Missing properties get their default; nulls that may not be become the default or go."""
    properties, others, items = _parts(schema)
    if items is not None:
        return _each_item(compile_defaults(items))
    if not properties and others is None:
        return None
    given = {name: part["default"] for name, part in properties.items() if "default" in part}
    nullable = frozenset(name for name, part in properties.items() if part.get("nullable"))
    below = {name: compile_defaults(part) for name, part in properties.items()}
    rewrites = {name: rewrite for name, rewrite in below.items() if rewrite is not None}
    of_others = compile_defaults(others) if others is not None else None
    others_nullable = others is None or bool(others.get("nullable"))

    def default(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        changed = dict(value)
        for name, part in value.items():
            if part is None and name not in nullable and (name in below or not others_nullable):
                del changed[name]
        for name, part in given.items():
            if name not in changed:
                changed[name] = part
        for name, rewrite in rewrites.items():
            if name in changed:
                changed[name] = rewrite(changed[name])
        if of_others is not None:
            changed.update({name: of_others(part) for name, part in changed.items() if name not in below})
        return value if _identical(changed, value) else changed

    return default


def compile_pruning(schema: Json) -> Rewrite | None:
    """Properties the schema does not know go, unless it says to preserve them."""
    properties, others, items = _parts(schema)
    if items is not None:
        return _each_item(compile_pruning(items))
    keeps_all = bool(schema.get(PRESERVE)) or schema.get("additionalProperties") is True
    if schema.get("type") not in (None, "object") or (keeps_all and not properties):
        return None
    below = {name: compile_pruning(part) for name, part in properties.items()}
    if schema.get(EMBEDDED):
        below = {**dict.fromkeys(_OBJECT_FIELDS), **below, "metadata": None}
    of_others = compile_pruning(others) if others is not None else None
    keeps_others = keeps_all or others is not None

    def prune(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        kept: Json = {}
        for name, part in value.items():
            if name in below:
                rewrite = below[name]
            elif keeps_others:
                rewrite = of_others
            else:
                continue
            kept[name] = part if rewrite is None else rewrite(part)
        return value if _identical(kept, value) else kept

    return prune


def _parts(schema: Json) -> tuple[dict[str, Json], Json | None, Json | None]:
    """The schemas of named properties, of other properties, and of items."""
    others, items = schema.get("additionalProperties"), schema.get("items")
    return (
        schema.get("properties") or {},
        others if isinstance(others, dict) else None,
        items if isinstance(items, dict) else None,
    )


def _each_item(rewrite: Rewrite | None) -> Rewrite | None:
    if rewrite is None:
        return None

    def each(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        items = [rewrite(item) for item in value]
        return value if all(map(_is, items, value)) else items

    return each


def _identical(one: Json, other: Json) -> bool:
    return len(one) == len(other) and all(name in other and part is other[name] for name, part in one.items())


def _is(one: Any, other: Any) -> bool:
    return one is other
