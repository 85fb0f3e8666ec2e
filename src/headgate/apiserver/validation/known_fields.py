"""The fields of built-in kinds, by name: which ones of an object a real server would not know.

`kubernetes-fields.json` has the types of Kubernetes v1.36 with the names of their fields; a field that is an object, a
list of them (`[`) or a map to them (`{`) says of which type they are. It is read when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

from headgate.apiserver.messages import Json

FILE = "kubernetes-fields.json"


class KnownFields(Struct, frozen=True):
    """The type of each kind, and the fields of each type."""

    kinds: Mapping[str, str]
    types: Mapping[str, Mapping[str, str]]


@cache
def known_fields() -> KnownFields:
    return msgspec.json.decode((files("headgate.apiserver.validation") / FILE).read_bytes(), type=KnownFields)


def unknown_fields(value: Json) -> list[str]:
    """The paths of fields that its kind does not have; none of a kind that is not listed."""
    known = known_fields()
    type_ = known.kinds.get(f"{value.get('apiVersion')} {value.get('kind')}")
    return [] if type_ is None else list(_unknown(value, type_, "", known.types))


def _unknown(value: Any, type_: str, path: str, types: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Undeclared fields of the value; what is of another shape than its type is the matter of validation."""
    if type_.startswith("["):
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _unknown(item, type_[1:], f"{path}[{index}]", types)
        return
    if not isinstance(value, dict):
        return
    if type_.startswith("{"):
        for name, part in value.items():
            yield from _unknown(part, type_[1:], f"{path}.{name}", types)
        return
    fields = types[type_]
    for name, part in value.items():
        here = f"{path}.{name}" if path else name
        below = fields.get(name)
        if below is None:
            yield here
        elif below:
            yield from _unknown(part, below, here, types)
