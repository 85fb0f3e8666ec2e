"""Paths of fields, sets of them, and the forms they have in `fieldsV1` and in messages.

An element of a path is text as in `fieldsV1`: `f:name` for a field, `k:{"name":"c"}` for an item of a list by its keys,
`v:"text"` for an item of a set. In `fieldsV1` a member with fields below it has the entry `.` beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from headgate.apiserver.field_errors import quote
from headgate.apiserver.messages import Json

Path = tuple[str, ...]
Paths = frozenset[Path]

SELF = "."
FIELD, KEYED, VALUE, INDEX = "f:", "k:", "v:", "i:"
NO_PATHS: Paths = frozenset()
MOST_LEVELS = 100


class InvalidFields(ValueError):
    """Not a set of fields."""


def field(name: str) -> str:
    return FIELD + name


def keyed(keys: Json) -> str:
    return KEYED + msgspec.json.encode(dict(sorted(keys.items()))).decode()


def of_value(value: Any) -> str:
    return VALUE + msgspec.json.encode(value).decode()


def is_member(node: Json) -> bool:
    """Whether a node of `fieldsV1` is itself in the set."""
    return not node or SELF in node


def encode_paths(paths: Iterable[Path]) -> Json:
    """The set as `fieldsV1`."""
    listed, root = sorted(paths), dict[str, Any]()
    ends = []
    for path in listed:
        node = root
        for element in path:
            node = node.setdefault(element, {})
        ends.append(node)
    for node in ends:
        if node:
            node[SELF] = {}
    return root


def decode_paths(fields: Any) -> Paths:
    """The set in `fieldsV1`. Raises InvalidFields."""
    return frozenset(_decoded(fields, (), 0))


def _decoded(node: Any, path: Path, level: int) -> Iterator[Path]:
    if not isinstance(node, dict) or level > MOST_LEVELS:
        raise InvalidFields("expected an object")
    for element, below in node.items():
        if element == SELF:
            continue
        here = (*path, _canonical(element))
        if not isinstance(below, dict):
            raise InvalidFields("expected an object")
        if is_member(below):
            yield here
        yield from _decoded(below, here, level + 1)


def _canonical(element: str) -> str:
    start, text = element[:2], element[2:]
    try:
        if start == KEYED:
            return keyed(msgspec.json.decode(text, type=dict[str, Any]))
        if start == VALUE:
            return of_value(msgspec.json.decode(text))
        if start == INDEX:
            return f"{INDEX}{int(text)}"
    except (msgspec.DecodeError, ValueError):
        raise InvalidFields(f"{element!r} is no element of a path") from None
    if start != FIELD:
        raise InvalidFields(f"{element!r} is no element of a path")
    return element


def in_order(paths: Iterable[Path]) -> list[Path]:
    """The paths as messages list them: those of one level before those below it."""
    by_parent = sorted(paths)
    return sorted(by_parent, key=lambda path: [(_RANKS[e[:2]], e) for e in path[:-1]] + [(-1, path[-1])])


_RANKS = {FIELD: 0, KEYED: 1, VALUE: 2, INDEX: 3}


def shown(path: Path) -> str:
    """The path as messages have it, such as `.spec.containers[name="c"].image`."""
    return "".join(map(_shown, path))


def _shown(element: str) -> str:
    start, text = element[:2], element[2:]
    if start == FIELD:
        return f".{text}"
    if start == KEYED:
        keys = msgspec.json.decode(text, type=dict[str, Any])
        return f"[{','.join(f'{name}={_scalar(value)}' for name, value in keys.items())}]"
    return f"[={_scalar(msgspec.json.decode(text))}]" if start == VALUE else f"[{text}]"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    return msgspec.json.encode(value).decode()


def outside(paths: Iterable[Path], excluded: Iterable[Path]) -> Paths:
    """The paths that neither are nor lie below an excluded one."""
    roots = tuple(excluded)
    return frozenset(path for path in paths if not any(path[: len(root)] == root for root in roots))
