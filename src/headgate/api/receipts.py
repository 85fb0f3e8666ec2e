"""Preemptions as people and programs read them: entries of the journal as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from headgate.api.kinds import RESOURCES
from headgate.model.keys import Key


class Told(Protocol):
    """An entry of the journal."""

    @property
    def at(self) -> float: ...
    @property
    def key(self) -> Key: ...
    @property
    def decision(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def numbers(self) -> Mapping[str, int | str]: ...


def entry_dict(entry: Told) -> dict[str, Any]:
    """The entry with its object named as manifests name it."""
    resource, key = RESOURCES[entry.key.kind], entry.key
    place = {"namespace": key.namespace} if key.namespace else {}
    return {
        "at": entry.at,
        "object": {"apiVersion": resource.api_version, "kind": resource.kind_name, **place, "name": key.name},
        "decision": entry.decision,
        "reason": entry.reason,
        "message": entry.message,
        "numbers": entry.numbers,
    }


def receipts_json(entries: Iterable[Told]) -> bytes:
    return msgspec.json.encode([entry_dict(entry) for entry in entries])
