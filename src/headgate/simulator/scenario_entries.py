"""A scenario file as it is written, field by field; anything else in it is a mistake."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from headgate.api.wire import parse_duration
from headgate.simulator.manifests import NodeBatch
from headgate.simulator.scenario import Manifest, Reference

SETTLED = "settled"
ACTIONS = ("apply", "delete", "patch", "disconnect", "crash", "stale", "addNodes", "dropNode")


class WrongEntry(Exception):
    """Where in the file, and what was expected there."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path, self.problem = path, problem


class Duration(float):
    """Seconds, written Go-style."""


class ObjectEntry(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    kind: str
    name: str
    namespace: str = ""
    api_version: str = ""

    def reference(self) -> Reference:
        return Reference(self.kind, self.name, self.namespace, self.api_version)


class PatchEntry(ObjectEntry, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    merge: dict[str, Any]


class ClusterEntry(Struct, frozen=True, forbid_unknown_fields=True):
    name: str = "main"
    nodes: tuple[NodeBatch, ...] = ()
    objects: tuple[Manifest, ...] = ()


class TimelineEntry(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    at: Duration
    cluster: str = ""
    apply: tuple[Manifest, ...] | UnsetType = UNSET
    delete: ObjectEntry | UnsetType = UNSET
    patch: PatchEntry | UnsetType = UNSET
    disconnect: Duration | UnsetType = UNSET
    crash: Duration | UnsetType = UNSET
    stale: Duration | UnsetType = UNSET
    add_nodes: tuple[NodeBatch, ...] | UnsetType = UNSET
    drop_node: str | UnsetType = UNSET


class ExpectEntry(Struct, frozen=True, forbid_unknown_fields=True):
    object: ObjectEntry
    matches: dict[str, Any]
    at: Duration | None = None
    cluster: str = ""


class ScenarioEntry(Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    config: dict[str, Any] | None = None
    clusters: tuple[ClusterEntry, ...] | None = None
    timeline: tuple[TimelineEntry, ...] | None = None
    snapshots: tuple[Duration, ...] | None = None
    until: Duration | None = None
    expect: tuple[ExpectEntry, ...] | None = None


def decode_entry(document: dict[str, Any]) -> ScenarioEntry:
    """Raises WrongEntry."""
    if document.get("until") == SETTLED:
        document = {**document, "until": None}
    try:
        return msgspec.convert(document, ScenarioEntry, dec_hook=_decode_duration)
    except msgspec.ValidationError as error:
        raise WrongEntry(*_plain(str(error))) from None


def _decode_duration(wanted: type, value: object) -> object:
    if wanted is not Duration:
        raise NotImplementedError
    try:
        seconds = parse_duration(value) if isinstance(value, str) else None
    except ValueError:
        seconds = None
    if seconds is None or seconds < 0:
        raise ValueError(f"expected a duration like 90s or 1m30s, got {shown(value)}")
    return Duration(seconds)


def shown(value: object) -> str:
    return msgspec.json.encode(value).decode() if not isinstance(value, dict | list) else type(value).__name__


_NAMES = {"object": "a mapping", "array": "a list", "str": "text", "int": "a whole number", "bool": "true or false"}


def _plain(error: str) -> tuple[str, str]:
    """The path in the file and the sentence, from how msgspec says it."""
    sentence, _, path = error.partition(" - at `")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", sentence)
    missing = re.fullmatch(r"Object missing required field `(.*)`", sentence)
    if unknown:
        sentence = f'unknown field "{unknown[1]}"'
    elif missing:
        sentence = f'expected a field "{missing[1]}", got none'
    else:
        sentence = re.sub(r"`([^`]*)`", lambda found: _in_words(found[1]), sentence)
    return path.rstrip("`").removeprefix("$").removeprefix("."), sentence[0].lower() + sentence[1:]


def _in_words(types: str) -> str:
    """`array | null` is a list: that it may be left out needs no mention."""
    given = [name for name in types.split(" | ") if name != "null"] or ["nothing"]
    return " or ".join(_NAMES.get(name, name) for name in given)
