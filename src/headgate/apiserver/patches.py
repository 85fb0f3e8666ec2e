"""The three patch formats: JSON patch (RFC 6902), JSON merge patch (RFC 7386) and strategic merge patch.

None changes its arguments: what a patch leaves as it is, the result shares with the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from headgate.apiserver.caches import MERGE_RESULTS, MERGED_FIELDS, Cache
from headgate.apiserver.field_errors import go_printed
from headgate.apiserver.kubernetes_types import FieldType, fields_of, is_struct
from headgate.apiserver.messages import Json
from headgate.apiserver.status import StatusError, bad_request


class PatchFailed(Exception):
    """An operation cannot be applied: its path does not exist or its test fails."""


class PatchOperation(Struct, frozen=True, rename={"source": "from"}):
    """One operation of a JSON patch. Which members it needs depends on `op`."""

    op: str
    path: str
    source: str | UnsetType = UNSET
    value: Any = UNSET


_decoder = msgspec.json.Decoder(list[PatchOperation])


MOST_OPERATIONS = 10_000  # of a JSON patch
MOST_COPIED = 3 * 1024 * 1024  # bytes that all copies of a JSON patch make together


def decode_json_patch(body: bytes) -> list[PatchOperation]:
    """The operations of a patch; a malformed one is a bad request."""
    try:
        steps = _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    for number, step in enumerate(steps):
        _check(number, step)
    return steps


def _check(number: int, step: PatchOperation) -> None:
    if step.op in ("add", "replace", "test") and step.value is UNSET:
        raise bad_request(f"error decoding patch: operation {number} ({step.op}) needs a value")
    if step.op in ("move", "copy") and step.source is UNSET:
        raise bad_request(f"error decoding patch: operation {number} ({step.op}) needs a from")


def apply_json_patch(document: Any, steps: list[PatchOperation]) -> Any:
    """The patched document, all operations or none; raises PatchFailed."""
    patched = _PatchedDocument(document)
    for step in steps:
        patched.apply(step)
    return patched.document


class _PatchedDocument:
    """A document while a JSON patch is applied: its containers are copied before their first change, and only then.

    So the cost of a patch follows its length and the size of the document, not their product.
    """

    def __init__(self, document: Any) -> None:
        self._root = {"": document}
        self._own: dict[int, Any] = {id(self._root): self._root}  # containers that nobody else sees
        self._copied = 0

    @property
    def document(self) -> Any:
        return self._root.get("")

    def apply(self, step: PatchOperation) -> None:
        path = _pointer(step.path)
        match step.op:
            case "add":
                self._add(path, step.value)
            case "remove":
                self._remove(path)
            case "replace":
                container, part = self._container(path)
                _child(container, part)
                container[part if isinstance(container, dict) else int(part)] = step.value
            case "test":
                if not same_json(_found(self.document, path), step.value):
                    raise PatchFailed(f"testing value {step.path} failed: test failed")
            case "copy":
                self._add(path, self._copy(_found(self.document, _source(step))))
            case "move":
                self._move(_source(step), path)
            case _:
                raise PatchFailed(f"{step.op!r} is no operation")

    def _add(self, path: list[str], value: Any) -> None:
        container, part = self._container(path)
        if isinstance(container, dict):
            container[part] = value
        elif isinstance(container, list):
            container.insert(len(container) if part == "-" else _index(part, len(container)), value)
        else:
            raise PatchFailed(f"{part!r} cannot be added to a value that has no members")

    def _remove(self, path: list[str]) -> None:
        container, part = self._container(path)
        _child(container, part)
        del container[part if isinstance(container, dict) else int(part)]

    def _move(self, source: list[str], path: list[str]) -> None:
        if path[: len(source)] == source and len(path) > len(source):
            raise PatchFailed("a value cannot be moved into itself")
        value = _found(self.document, source)
        if path != source:
            self._remove(source)
            self._add(path, value)

    def _copy(self, value: Any) -> Any:
        """The value once more; raises PatchFailed where copies of copies would become too large."""
        try:
            text = msgspec.json.encode(value)
            self._copied += len(text)
            if self._copied > MOST_COPIED:
                raise PatchFailed(
                    f"Unable to complete the copy, the accumulated size increase of copy is {self._copied}, "
                    f"exceeding the limit {MOST_COPIED}"
                )
            return msgspec.json.decode(text)
        except RecursionError:
            raise PatchFailed("a value that is nested so deep cannot be copied") from None

    def _container(self, path: list[str]) -> tuple[Any, str]:
        """The container that the path ends in, which may be changed, and the name of the member there."""
        way = ["", *path]
        container: Any = self._root
        for part in way[:-1]:
            child = _child(container, part)
            if isinstance(child, dict | list) and id(child) not in self._own:
                child = child.copy()
                self._own[id(child)] = child
                container[part if isinstance(container, dict) else int(part)] = child
            container = child
        return container, way[-1]


def _source(step: PatchOperation) -> list[str]:
    return _pointer(step.source if isinstance(step.source, str) else "")


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
    if (
        not part.isascii()
        or not part.isdigit()
        or (len(part) > 1 and part[0] == "0")
        or len(part) > 9
        or int(part) > last
    ):
        raise PatchFailed(f"{part!r} is no index of a list whose last is {last}")
    return int(part)


def same_json(one: Any, other: Any) -> bool:
    """Equal as JSON: numbers by value, but true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)


_TEXT = frozenset({str})


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """The patched value; neither argument is changed. Identical to the target if nothing changes, and to the patch
    where the result equals it.
    """
    if not isinstance(patch, dict):
        return patch
    original: Json | None = target if isinstance(target, dict) else None
    result: Json = {} if original is None else original
    for name, change in patch.items():
        if change is None and name not in result:
            continue
        before = result.get(name)
        after = apply_merge_patch(before, change) if type(change) is dict else change
        if after is not None and (after == before if type(after) is str else after is before):
            continue
        if result is original:
            result = dict(result)
        if after is None:
            del result[name]
        else:
            result[name] = after
    return result if result is original or not _is_equal(patch, result) else patch


def _is_equal(patch: Json, result: Json) -> bool:
    """Whether patch and result have identical values under the same names in the same order."""
    if len(patch) != len(result) or list(patch) != list(result):
        return False
    return all(map(is_, patch.values(), result.values()))


def _is_precondition(change: Any, metadata: Any) -> bool:
    """Whether the patch of metadata only repeats strings that are there, as a precondition does."""
    if type(change) is not dict or type(metadata) is not dict:
        return False
    return _TEXT.issuperset(map(type, change.values())) and change.items() <= metadata.items()


class SharedMerges:
    """Patches of objects whose parts are shared by all that read the same: what one change makes of one part.

    What has become of different parts is shared again where it was put together from the same.
    """

    def __init__(self) -> None:
        self._merges: Cache[tuple[int, int], tuple[Any, Any, Any]] = Cache(MERGED_FIELDS)
        self._results: Cache[tuple[Any, ...], Json] = Cache(MERGE_RESULTS)

    def applied(self, target: Json, patch: Json) -> Json:
        """As a merge patch has it. Metadata are each object's own."""
        result = dict(target)
        for name, change in patch.items():
            if change is None:
                result.pop(name, None)
            elif name != "metadata":
                result[name] = self._merged(target.get(name), change)
            elif not _is_precondition(change, target.get(name)):
                result[name] = apply_merge_patch(target.get(name), change)
        return result

    def _merged(self, part: Any, change: Any) -> Any:
        key = (id(part), id(change))
        known = self._merges.get(key)
        if known is None:
            known = (part, change, self._shared(apply_merge_patch(part, change)))
            self._merges.put(key, known)
        return known[2]

    def _shared(self, made: Any) -> Any:
        if not isinstance(made, dict):
            return made
        key = (*made, *map(id, made.values()))
        known = self._results.get(key)
        if known is None:
            known = made
            self._results.put(key, made)
        return known


DIRECTIVE, KEEP_ONLY = "$patch", "$retainKeys"
ORDER, DELETE_VALUES = "$setElementOrder/", "$deleteFromPrimitiveList/"


def apply_strategic_patch(target: Json, patch: Json, kind: str | None) -> Json:
    """The patched value of this type; neither argument is changed. Without a type, lists are replaced."""
    match patch.get(DIRECTIVE):
        case "replace":
            return {name: _plain(part) for name, part in patch.items() if not name.startswith("$")}
        case "delete":
            return {}
        case None | "merge":
            return _merged(target, patch, kind)
        case other:
            raise StatusError(500, "", f"unknown patch type: {other} in map: {go_printed(patch)}")


def _merged(target: Json, patch: Json, kind: str | None) -> Json:
    result = _kept(target, patch)
    fields = fields_of(kind) if kind is not None and is_struct(kind) else {}
    for name, change in patch.items():
        if name.startswith(DELETE_VALUES):
            if not isinstance(change, list):
                raise bad_request("invalid patch format of primitive list")
            field = name.removeprefix(DELETE_VALUES)
            present = result.get(field)
            result[field] = [value for value in present if value not in change] if isinstance(present, list) else []
        elif name.startswith(ORDER):
            _set_order(result, target, patch, name.removeprefix(ORDER), fields)
        elif name in (DIRECTIVE, KEEP_ONLY) or ORDER + name in patch:
            continue
        elif change is None:
            result.pop(name, None)
        elif isinstance(change, dict) and not isinstance(result.get(name), dict):
            if change.get(DIRECTIVE) != "delete":
                result[name] = _plain(change)
        else:
            result[name] = _field(fields.get(name), result.get(name), change)
    return result


def _set_order(result: Json, target: Json, patch: Json, name: str, fields: Mapping[str, FieldType]) -> None:
    """Merges a list and puts its items into the order the patch wants."""
    field, order, before = fields.get(name), patch[ORDER + name], target.get(name)
    if name in patch:
        result[name] = _field(field, result.get(name), patch[name])
    key = None if field is None else field.merging.merge
    if isinstance(order, list) and isinstance(result.get(name), list) and key is not None:
        result[name] = _in_order(result[name], order, before if isinstance(before, list) else [], key)


def _kept(target: Json, patch: Json) -> Json:
    keep = patch.get(KEEP_ONLY)
    if keep is not None and not isinstance(keep, list):
        raise bad_request("invalid patch format of retainKeys")
    return dict(target) if keep is None else {name: value for name, value in target.items() if name in keep}


def _field(field: FieldType | None, current: Any, change: Any) -> Any:
    if isinstance(change, dict):
        below = None if field is None or field.mapped else field.type
        return apply_strategic_patch(current if isinstance(current, dict) else {}, change, below)
    if not isinstance(change, list):
        return change
    present = current if isinstance(current, list) else []
    key = None if field is None else field.merging.merge
    if field is None or key is None or not (key == "" or all(isinstance(item, dict) for item in [*present, *change])):
        return _plain(change)
    if key == "":
        united = [*present, *(value for value in change if value not in present)]
        return _in_order(united, change, present, key)
    return _in_order(_list(present, change, key, field.type), change, present, key)


def _in_order(items: list[Any], wanted: list[Any], before: list[Any], key: str) -> list[Any]:
    """The items in the wanted order; others stay before those they stood before."""
    rank, was = _ranks(wanted, key), _ranks(before, key)
    patched = sorted((item for item in items if _identity(item, key) in rank), key=lambda i: rank[_identity(i, key)])
    others = [item for item in items if _identity(item, key) not in rank]
    result: list[Any] = []
    for item in patched:
        place = was.get(_identity(item, key))
        while others and place is not None and was.get(_identity(others[0], key), place) < place:
            result.append(others.pop(0))
        result.append(item)
    return result + others


def _ranks(items: list[Any], key: str) -> dict[Any, int]:
    return {_identity(item, key): index for index, item in enumerate(items)}


def _identity(item: Any, key: str) -> Any:
    value = item.get(key) if key and isinstance(item, dict) else item
    return value if isinstance(value, str | int | float | None) else repr(value)


def _list(current: list[Json], changes: list[Json], key: str, kind: str) -> list[Json]:
    if any(change.get(DIRECTIVE) == "replace" and key not in change for change in changes):
        return [_plain(change) for change in changes if key in change]
    result = list(current)
    for change in changes:
        if key not in change:
            text = f"map: {go_printed(change)} does not contain declared merge key: {key}"
            raise StatusError(500, "", text)
        _merge_item(result, change, key, kind)
    return result


def _merge_item(items: list[Json], change: Json, key: str, kind: str) -> None:
    at = next((index for index, item in enumerate(items) if item.get(key) == change[key]), None)
    if change.get(DIRECTIVE) == "delete":
        items[:] = [item for item in items if item.get(key) != change[key]]
    elif at is None:
        items.append(apply_strategic_patch({}, change, kind))
    else:
        items[at] = apply_strategic_patch(items[at], change, kind)


def _plain(value: Any) -> Any:
    """The value without directives."""
    if isinstance(value, dict):
        named = {name: part for name, part in value.items() if not name.startswith("$") and part is not None}
        return {name: _plain(part) for name, part in named.items() if not _is_deleted(part)}
    return [_plain(part) for part in value if not _is_deleted(part)] if isinstance(value, list) else value


def _is_deleted(value: Any) -> bool:
    return isinstance(value, dict) and value.get(DIRECTIVE) == "delete"
