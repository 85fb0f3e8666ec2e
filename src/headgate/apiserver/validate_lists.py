"""Lists that are sets, or maps by key: nothing may be in them twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from headgate.apiserver.field_errors import FieldError, duplicate, invalid
from headgate.apiserver.messages import Json


def compile_list_type(schema: Json) -> list[Callable[[Any, str, list[FieldError]], None]]:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return [_distinct(_itself)]
        case "map":
            keys: Sequence[str] = schema.get("x-kubernetes-list-map-keys") or ()
            names = itemgetter(*keys) if keys else None
            return [_distinct(lambda item: {key: item[key] for key in keys if key in item} if item else {}, names)]
        case _:
            return []


def _distinct(
    identity: Callable[[Any], Any], names: Callable[[Any], Any] | None = None
) -> Callable[[Any, str, list[FieldError]], None]:
    """Reports each repeated item once, where it first comes again; `names` are those of an item of a map."""

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if not isinstance(value, list) or (names is not None and _apart(value, names)):
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


def _apart(items: list[Any], names: Callable[[Any], Any]) -> bool:
    """Whether it is plain to see that all items are objects and no two have the same names."""
    try:
        return len(set(map(names, items))) == len(items)
    except (KeyError, TypeError):  # no object, or without a name, or with one that is no plain value
        return False


def _itself(item: Any) -> Any:
    return item
