"""JSON patch (RFC 6902) that copies only the way to what it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from headgate.apiserver.status import bad_request

Edit = Callable[[Any, str], Any]
"""What becomes of a container when something is done to its child of this name."""


class PatchFailed(Exception):
    """An operation does not fit the document: a path that is not there, a test that does not hold."""


class Step(Struct, frozen=True, rename={"source": "from"}):
    """One operation. Which members it needs depends on `op`."""

    op: str
    path: str
    source: str | UnsetType = UNSET
    value: Any = UNSET


_decoder = msgspec.json.Decoder(list[Step])


def decode_json_patch(body: bytes) -> list[Step]:
    """The operations of a patch document; a document that is none is a bad request."""
    try:
        steps = _decoder.decode(body)
    except msgspec.DecodeError as trouble:
        raise bad_request(f"error decoding patch: {trouble}") from None
    for number, step in enumerate(steps):
        _check(number, step)
    return steps


def _check(number: int, step: Step) -> None:
    if step.op in ("add", "replace", "test") and step.value is UNSET:
        raise bad_request(f"error decoding patch: operation {number} ({step.op}) needs a value")
    if step.op in ("move", "copy") and step.source is UNSET:
        raise bad_request(f"error decoding patch: operation {number} ({step.op}) needs a from")


def apply_json_patch(document: Any, steps: list[Step]) -> Any:
    """The patched document, all operations or none; raises PatchFailed."""
    for step in steps:
        document = _apply(document, step)
    return document


def _apply(document: Any, step: Step) -> Any:
    path = _pointer(step.path)
    match step.op:
        case "add":
            return _edited(document, path, _adding(step.value))
        case "remove":
            return _edited(document, path, _removing)
        case "replace":
            return _edited(document, path, _replacing(step.value))
        case "test":
            return _tested(document, path, step)
        case "copy":
            return _edited(document, path, _adding(_found(document, _source(step))))
        case "move":
            return _moved(document, _source(step), path)
    raise PatchFailed(f"{step.op!r} is no operation")


def _source(step: Step) -> list[str]:
    return _pointer(step.source if isinstance(step.source, str) else "")


def _tested(document: Any, path: list[str], step: Step) -> Any:
    if not same_json(_found(document, path), step.value):
        raise PatchFailed(f"testing value {step.path} failed: test failed")
    return document


def _moved(document: Any, source: list[str], path: list[str]) -> Any:
    if path[: len(source)] == source and len(path) > len(source):
        raise PatchFailed("a value cannot be moved into itself")
    value = _found(document, source)
    if path == source:
        return document
    return _edited(_edited(document, source, _removing), path, _adding(value))


def _pointer(text: str) -> list[str]:
    if not text:
        return []
    if not text.startswith("/"):
        raise PatchFailed(f"{text!r} is no JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _found(document: Any, path: list[str]) -> Any:
    for part in path:
        document = _child(document, part)
    return document


def _child(container: Any, part: str) -> Any:
    if isinstance(container, dict):
        if part in container:
            return container[part]
        raise PatchFailed(f"there is no member {part!r}")
    if isinstance(container, list):
        return container[_index(part, len(container) - 1)]
    raise PatchFailed(f"{part!r} is looked for in a value that has no members")


def _index(part: str, last: int) -> int:
    if not part.isascii() or not part.isdigit() or (len(part) > 1 and part[0] == "0") or int(part) > last:
        raise PatchFailed(f"{part!r} is no index of a list whose last is {last}")
    return int(part)


def _edited(document: Any, path: list[str], edit: Edit) -> Any:
    """The document with its last container edited; containers on the way are copied, all else is shared."""
    if not path:
        return edit({"": document}, "").get("")
    if len(path) == 1:
        return edit(document, path[0])
    child = _edited(_child(document, path[0]), path[1:], edit)
    return _replacing(child)(document, path[0])


def _adding(value: Any) -> Edit:
    def add(container: Any, part: str) -> Any:
        if isinstance(container, dict):
            return {**container, part: value}
        if isinstance(container, list):
            at = len(container) if part == "-" else _index(part, len(container))
            return [*container[:at], value, *container[at:]]
        raise PatchFailed(f"{part!r} cannot be added to a value that has no members")

    return add


def _replacing(value: Any) -> Edit:
    def replace(container: Any, part: str) -> Any:
        _child(container, part)
        if isinstance(container, dict):
            return {**container, part: value}
        at = int(part)
        return [*container[:at], value, *container[at + 1 :]]

    return replace


def _removing(container: Any, part: str) -> Any:
    _child(container, part)
    if isinstance(container, dict):
        return {name: value for name, value in container.items() if name != part}
    at = int(part)
    return [*container[:at], *container[at + 1 :]]


def same_json(one: Any, other: Any) -> bool:
    """Equal as JSON: numbers by value, but true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)
