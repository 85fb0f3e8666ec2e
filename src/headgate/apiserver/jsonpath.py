"""JSONPath as printer columns use it: fields, indexes, all elements, and filters that compare one field."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Step = Callable[[Any], list[Any]]
Find = Callable[[Any], list[Any]]

_STEP = re.compile(
    r"""\.(?P<field>[A-Za-z0-9_$-]+(?:\\\.[A-Za-z0-9_-]+)*)
      | \[(?P<index>-?\d+)\]
      | \[\*\] | \.\*
      | \[(?P<quote>['"])(?P<key>[^'"]*)(?P=quote)\]
      | \[\?\(\s*@(?P<path>(?:\.[A-Za-z0-9_-]+)+)\s*
        (?P<operator>==|!=)\s*(?P<mark>['"])(?P<value>[^'"]*)(?P=mark)\s*\)\]
    """,
    re.VERBOSE,
)


class InvalidJsonPath(ValueError):
    """Not a path, or one that is not supported; the text says from where on."""


def compile_json_path(path: str) -> Find:
    """A function that finds all values at the path, in order; values that are not there are left out."""
    steps: list[Step] = []
    place = 0
    while place < len(path):
        found = _STEP.match(path, place)
        if found is None:
            raise InvalidJsonPath(f"cannot read {path[place:]!r} of {path!r}")
        steps.append(_step(found))
        place = found.end()

    def find(value: Any) -> list[Any]:
        values = [value]
        for step in steps:
            values = [each for one in values for each in step(one)]
        return values

    return find


def _step(found: re.Match[str]) -> Step:
    name = found["field"] if found["field"] is not None else found["key"]
    if name is not None:
        return _field(name.replace("\\.", "."))
    if found["index"] is not None:
        return _index(int(found["index"]))
    if found["path"] is not None:
        return _filter(compile_json_path(found["path"]), found["value"], equal=found["operator"] == "==")
    return _all


def _field(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _index(number: int) -> Step:
    def step(value: Any) -> list[Any]:
        there = isinstance(value, list) and -len(value) <= number < len(value)
        return [value[number]] if there else []

    return step


def _all(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _filter(find: Find, wanted: str, *, equal: bool) -> Step:
    def step(value: Any) -> list[Any]:
        members = value if isinstance(value, list) else []
        return [each for each in members if ((find(each) or [None])[0] == wanted) is equal]

    return step
