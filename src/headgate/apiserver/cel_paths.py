"""The `fieldPath` of a rule: which field below the value its complaints are about."""

from __future__ import annotations

import re

from headgate.apiserver.messages import Json

_STEP = re.compile(r"\.(?P<name>[^.\[\]']+)|\['(?P<quoted>(?:[^'\\]|\\.)*)'\]")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class InvalidPath(ValueError):
    """The path leads nowhere in the schema."""


def field_path(schema: Json, path: str) -> str:
    """The path as errors write it: `.a.b` and `['a'].b` are `a.b`, keys of maps are in brackets. Raises InvalidPath."""
    at, place, written = schema, 0, ""
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            raise InvalidPath(path)
        name = step["name"] if step["name"] is not None else _unescaped(step["quoted"])
        at, is_field = _below(at, name, path)
        written += (f".{name}" if written else name) if is_field else f"[{name}]"
        place = step.end()
    return written


def _below(schema: Json, name: str, path: str) -> tuple[Json, bool]:
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    if properties and name in properties:
        return properties[name], True
    if not properties and isinstance(others, dict):
        return others, False
    raise InvalidPath(path)


def _unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        if found.group(1) not in _ESCAPES:
            raise InvalidPath(text)
        return _ESCAPES[found.group(1)]

    return re.sub(r"\\(.)", plain, text)
