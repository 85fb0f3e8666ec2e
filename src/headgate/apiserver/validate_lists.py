"""Lists that are sets, or maps by key: nothing may be in them twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headgate.apiserver.errors import FieldError
from headgate.apiserver.fields import duplicate, invalid
from headgate.apiserver.messages import Json


def compile_list_type(schema: Json) -> list[Callable[[Any, str, list[FieldError]], None]]:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return [_distinct(_itself)]
        case "map":
            keys: Sequence[str] = schema.get("x-kubernetes-list-map-keys") or ()
            return [_distinct(lambda item: {key: item[key] for key in keys if key in item} if item else {}, keys)]
        case _:
            return []


def _distinct(identity: Callable[[Any], Any], keys: Sequence[str] = ()) -> Callable[[Any, str, list[FieldError]], None]:
    """Reports each repeated item once, where it first comes again; `keys` name the items of a map."""

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if not isinstance(value, list) or (keys and _named_apart(value, keys)):
            return
        times: dict[bytes, int] = {}
        for index, item in enumerate(value):
            if identity is not _itself and item is not None and not isinstance(item, dict):
                errors.append(invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map"))
                return
            key = identity(item)
            text = msgspec.json.encode(key, order="sorted")
            times[text] = times.get(text, 0) + 1
            if times[text] == 2:
                errors.append(duplicate(f"{path}[{index}]", key))

    return check


def _named_apart(items: list[Any], keys: Sequence[str]) -> bool:
    """Whether it is plain to see that no two items have the same names."""
    named = [item for item in items if type(item) is dict]
    by_key = [[item.get(key) for item in named] for key in keys]
    if any(set(map(type, names)) != {str} for names in by_key):
        return False
    return len(set(by_key[0] if len(keys) == 1 else zip(*by_key, strict=True))) == len(items)


def _itself(item: Any) -> Any:
    return item
