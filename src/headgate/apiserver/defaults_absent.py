"""A server keeps no difference between a field that is empty and one that is not there."""

from __future__ import annotations

from typing import Any

from headgate.apiserver.messages import Json


def without_empty(fields: Json) -> Json:
    """Without nulls and fields that hold nothing; the very same when there are none."""
    if all(fields.values()):
        return fields
    kept = {name: value for name, value in fields.items() if not _is_nothing(value) and value != {}}
    return fields if len(kept) == len(fields) else kept


def without_empty_lists(fields: Json) -> Json:
    """The same, but empty objects stay: that they are there can mean something."""
    if all(fields.values()):
        return fields
    kept = {name: value for name, value in fields.items() if not _is_nothing(value)}
    return fields if len(kept) == len(fields) else kept


def with_metadata_trimmed(value: Json) -> Json:
    metadata = without_empty(value["metadata"])
    return value if metadata is value["metadata"] else {**value, "metadata": metadata}


def _is_nothing(value: Any) -> bool:
    return value is None or value in ("", [])
