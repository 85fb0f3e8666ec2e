"""What a scenario says: typed, checked, every duration in seconds from its start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from headgate.model.settings import Settings

Manifest = dict[str, Any]


class InvalidScenario(Exception):
    """The input is wrong: which file, where in it, and what was expected there."""

    def __init__(self, source: str, path: str, problem: str) -> None:
        super().__init__(f"{source}: {path}: {problem}" if path else f"{source}: {problem}")
        self.source, self.path, self.problem = source, path, problem


class Reference(Struct, frozen=True):
    """An object by name; the apiVersion is needed only where a kind exists in several groups."""

    kind: str
    name: str
    namespace: str = ""
    api_version: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Placed(Struct, frozen=True):
    """A manifest and where the scenario has it."""

    path: str
    manifest: Manifest


class Apply(Struct, frozen=True):
    manifests: tuple[Placed, ...]


class DeleteObject(Struct, frozen=True):
    reference: Reference


class PatchObject(Struct, frozen=True):
    reference: Reference
    merge: Manifest


class Disconnect(Struct, frozen=True):
    seconds: float


class Crash(Struct, frozen=True):
    seconds: float


class Stale(Struct, frozen=True):
    seconds: float


class DropNode(Struct, frozen=True):
    name: str


Happening = Apply | DeleteObject | PatchObject | Disconnect | Crash | Stale | DropNode


class Action(Struct, frozen=True):
    """Something that happens at a time; an empty cluster is the first one, or all where our process is meant."""

    at: float
    path: str
    cluster: str
    happening: Happening


class ClusterPlan(Struct, frozen=True):
    name: str
    objects: tuple[Placed, ...] = ()


class Expectation(Struct, frozen=True):
    """`at` None: at the end."""

    path: str
    at: float | None
    cluster: str
    reference: Reference
    matches: Mapping[str, Any]


class Scenario(Struct, frozen=True):
    """`until` None: until nothing more will happen."""

    source: str
    settings: Settings
    clusters: tuple[ClusterPlan, ...]
    timeline: tuple[Action, ...] = ()
    snapshots: tuple[float, ...] = ()
    until: float | None = None
    expectations: tuple[Expectation, ...] = ()
