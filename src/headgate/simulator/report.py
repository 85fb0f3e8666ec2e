"""What a run tells afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from headgate.api.kinds import RESOURCES
from headgate.apiserver import Json
from headgate.engine.journal import Entry
from headgate.simulator.acting import reference_dict

Objects = Mapping[str, Sequence[Json]]
"""All objects of every cluster, sorted by apiVersion, kind, namespace and name."""


class Snapshot(Struct, frozen=True):
    at: float
    objects: Objects


class Failure(Struct, frozen=True):
    """An expectation that did not hold, and what was found instead."""

    path: str
    at: float
    object: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: at {self.at:g}s {self.object}: {self.found}"


class Report(Struct, frozen=True):
    """Times are seconds from the start of the run."""

    until: float
    snapshots: Sequence[Snapshot]
    final: Objects
    journal: Sequence[Mapping[str, Any]]
    refused: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any]
    failures: Sequence[Failure]

    def to_json(self) -> bytes:
        """One history, the same bytes in every process."""
        return msgspec.json.encode(
            {
                "until": tidy(self.until),
                "snapshots": [{"at": tidy(shot.at), **_clusters(shot.objects)} for shot in self.snapshots],
                "final": _clusters(self.final),
                "journal": self.journal,
                "refused": self.refused,
                "summary": self.summary,
            }
        )


def told(stories: Mapping[str, Sequence[Entry]], start: float) -> list[Mapping[str, Any]]:
    """The journals of all clusters as one, in order of time."""
    entries = [(entry, cluster) for cluster, story in stories.items() for entry in story]
    entries.sort(key=lambda item: item[0].at)
    return [_entry(entry, cluster, start) for entry, cluster in entries]


def _entry(entry: Entry, cluster: str, start: float) -> Mapping[str, Any]:
    resource = RESOURCES[entry.key.kind]
    return {
        "at": tidy(entry.at - start),
        "cluster": cluster,
        "object": reference_dict(resource.api_version, resource.kind_name, entry.key.namespace, entry.key.name),
        "decision": entry.decision,
        "reason": entry.reason,
        "message": entry.message,
        "numbers": entry.numbers,
    }


def tidy(seconds: float) -> float | int:
    """Without the dust that adding to the epoch leaves."""
    rounded = round(seconds, 6)
    return int(rounded) if rounded.is_integer() else rounded


def _clusters(objects: Objects) -> dict[str, Any]:
    return {"clusters": {name: {"objects": found} for name, found in objects.items()}}
