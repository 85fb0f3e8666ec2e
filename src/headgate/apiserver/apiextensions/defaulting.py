"""Defaulting and pruning by a structural schema, compiled once to functions that share what they do not change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import is_
from typing import Any

from headgate.apiserver.cel import EMBEDDED
from headgate.apiserver.messages import Json

Rewrite = Callable[[Any], Any]
"""Returns a new value, or the identical one if nothing changes. None instead of a function: never changes anything."""

PRESERVE = "x-kubernetes-preserve-unknown-fields"
_OBJECT_FIELDS = ("apiVersion", "kind", "metadata")


def compile_defaults(schema: Json) -> Rewrite | None:
    """Adds missing properties that have a default, and drops or defaults nulls of properties that are not nullable."""
    properties, others, items = _parts(schema)
    if items is not None:
        return _each_item(compile_defaults(items))
    if not properties and others is None:
        return None
    given = {name: part["default"] for name, part in properties.items() if "default" in part}
    below = {name: compile_defaults(part) for name, part in properties.items()}
    of_others = compile_defaults(others) if others is not None else None
    without_nulls = _nulls_taken_out(properties, others)
    rewritten = _rewritten(below, of_others)

    def default(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        result = without_nulls(value) if None in value.values() else value
        if given and not given.keys() <= result.keys():
            result = {**result, **{name: part for name, part in given.items() if name not in result}}
        return rewritten(result)

    return default


def compile_pruning(schema: Json) -> Rewrite | None:
    """Drops undeclared properties, except where the schema preserves unknown fields."""
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
    keeps_others, known = keeps_all or others is not None, frozenset(below)
    rewritten = _rewritten(below, of_others)

    def prune(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if keeps_others or known.issuperset(value):
            return rewritten(value)
        return rewritten({name: part for name, part in value.items() if name in known})

    return prune


def dropped_fields(value: Any, pruned: Any, path: str = "") -> Iterator[str]:
    """The paths of fields, each after a dot, that are in the value and not in what it was pruned to."""
    if value is pruned:
        return
    if isinstance(value, dict):
        for name, part in value.items():
            if name in pruned:
                yield from dropped_fields(part, pruned[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"
    elif isinstance(value, list):
        for index, (item, kept) in enumerate(zip(value, pruned, strict=True)):
            yield from dropped_fields(item, kept, f"{path}[{index}]")


def _nulls_taken_out(properties: Mapping[str, Json], others: Json | None) -> Rewrite:
    nullable = frozenset(name for name, part in properties.items() if part.get("nullable"))
    others_nullable = others is None or bool(others.get("nullable"))

    def without_nulls(value: Json) -> Json:
        kept = {
            name: part
            for name, part in value.items()
            if part is not None or name in nullable or (name not in properties and others_nullable)
        }
        return value if len(kept) == len(value) else kept

    return without_nulls


def _rewritten(below: Mapping[str, Rewrite | None], of_others: Rewrite | None) -> Rewrite:
    """Rewrites each property of an object by the function for its name."""
    if of_others is None and not any(below.values()):
        return lambda value: value

    def rewrite_parts(value: Json) -> Json:
        changed: Json = {}
        for name, part in value.items():
            rewrite = below.get(name, of_others)
            if rewrite is not None and (rewritten := rewrite(part)) is not part:
                changed[name] = rewritten
        return {**value, **changed} if changed else value

    return rewrite_parts


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
        return value if all(map(is_, items, value)) else items

    return each
