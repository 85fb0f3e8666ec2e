"""What a run reports: snapshots and expectations at their times, the journal, and a summary."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from headgate.api.kinds import RESOURCES
from headgate.apiserver import Json
from headgate.engine.journal import Entry
from headgate.model.events import Gone, Observed
from headgate.model.keys import Kind
from headgate.model.pod import Phase, Pod
from headgate.model.quantity import duration_text
from headgate.simulator.clients import AmbiguousKind, Kubectl, reference_dict
from headgate.simulator.observing import ObjectChange
from headgate.simulator.scenario import Expectation, InvalidScenario, Scenario
from headgate.world.autoscaling import AutoscalerCounts

Objects = Mapping[str, Sequence[Json]]
"""All objects of every cluster, sorted by apiVersion, kind, namespace and name."""


class Snapshot(Struct, frozen=True):
    """All objects at a time."""

    at: float
    objects: Objects


class Failure(Struct, frozen=True):
    """An expectation that did not hold, and what was found instead."""

    path: str
    at: float
    object: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: at {duration_text(self.at)} {self.object}: {self.found}"


class Report(Struct, frozen=True):
    """Times are seconds from the start of the run."""

    until: float
    snapshots: Sequence[Snapshot]
    final: Objects
    journal: Sequence[Mapping[str, Any]]
    refused: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any]
    failures: Sequence[Failure]
    warnings: Sequence[Mapping[str, Any]] = ()  # of the server, about requests of the scenario

    def to_json(self) -> bytes:
        """The report as JSON; equal runs give equal bytes."""
        return msgspec.json.encode(
            {
                "until": rounded_seconds(self.until),
                "snapshots": [{"at": rounded_seconds(shot.at), **_clusters(shot.objects)} for shot in self.snapshots],
                "final": _clusters(self.final),
                "journal": self.journal,
                "refused": self.refused,
                **({"warnings": self.warnings} if self.warnings else {}),
                "summary": self.summary,
            }
        )


def merged_journal(journals: Mapping[str, Sequence[Entry]], start: float) -> list[Mapping[str, Any]]:
    """The journals of all clusters as one, in order of time."""
    entries = [(entry, cluster) for cluster, journal in journals.items() for entry in journal]
    entries.sort(key=lambda item: item[0].at)
    return [_entry(entry, cluster, start) for entry, cluster in entries]


def _entry(entry: Entry, cluster: str, start: float) -> Mapping[str, Any]:
    resource = RESOURCES[entry.key.kind]
    return {
        "at": rounded_seconds(entry.at - start),
        "cluster": cluster,
        "object": reference_dict(resource.api_version, resource.kind_name, entry.key.namespace, entry.key.name),
        "decision": entry.decision,
        "reason": entry.reason,
        "message": entry.message,
        "numbers": entry.numbers,
    }


def rounded_seconds(seconds: float) -> float | int:
    """Rounded to microseconds, because differences of epoch times are not exact."""
    rounded = round(seconds, 6)
    return int(rounded) if rounded.is_integer() else rounded


def _clusters(objects: Objects) -> dict[str, Any]:
    return {"clusters": {name: {"objects": found} for name, found in objects.items()}}


class PodCounts:
    """What became of the pods of a cluster, and how long they waited for a node."""

    def __init__(self) -> None:
        self.created = self.bound = self.succeeded = self.failed = 0
        self.waits: list[float] = []
        self._known: dict[str, Pod] = {}
        self._since: dict[str, float] = {}
        self._waiting: dict[str, None] = {}

    def count(self, changes: Iterable[ObjectChange], now: float) -> None:
        for change in changes:
            match change:
                case Observed(Pod() as pod):
                    self._count(pod, now)
                case Gone(key, uid) if key.kind is Kind.POD:
                    for by_uid in (self._known, self._since, self._waiting):
                        by_uid.pop(uid, None)

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def _count(self, pod: Pod, now: float) -> None:
        known = self._known.get(pod.uid)
        self._known[pod.uid] = pod
        if known is None:
            self.created += 1
            self._since[pod.uid] = now
        if pod.wants_node:
            self._waiting[pod.uid] = None
        elif self._waiting.pop(pod.uid, 0) is None and pod.node:
            self.waits.append(now - self._since[pod.uid])
        self.bound += bool(pod.node) and not (known and known.node)
        before = known.phase if known else Phase.PENDING
        self.succeeded += pod.phase is Phase.SUCCEEDED and before is not Phase.SUCCEEDED
        self.failed += pod.phase is Phase.FAILED and before is not Phase.FAILED and pod.deleted is None


def summary_of(clusters: Iterable[PodCounts], decisions: int, effects: int) -> dict[str, object]:
    every = list(clusters)
    waits = sorted(wait for counts in every for wait in counts.waits)
    return {
        "pods": {
            "created": sum(counts.created for counts in every),
            "bound": sum(counts.bound for counts in every),
            "succeeded": sum(counts.succeeded for counts in every),
            "failed": sum(counts.failed for counts in every),
            "pending": sum(counts.pending for counts in every),
        },
        "decisions": decisions,
        "effects": effects,
        "waitingSeconds": {
            "min": round(waits[0], 6),
            "median": round(statistics.median(waits), 6),
            "max": round(waits[-1], 6),
        }
        if waits
        else None,
    }


def autoscaler_summary(clusters: Sequence[AutoscalerCounts]) -> dict[str, object]:
    """What the autoscalers of all clusters did together; nothing where there is none."""
    if not clusters:
        return {}
    counts = sum(clusters, start=AutoscalerCounts())
    return {
        "autoscaler": {
            "scaleUps": counts.scale_ups,
            "nodesAdded": counts.nodes_added,
            "nodesRemoved": counts.nodes_removed,
            "falseScaleUps": counts.false_scale_ups,
            "falseReasons": dict(counts.false_reasons),
            "missedScaleUps": counts.missed_scale_ups,
            "nodesUnused": counts.nodes_unused,
            "nodeSeconds": rounded_seconds(counts.node_seconds),
            "emptyNodeSeconds": rounded_seconds(counts.empty_node_seconds),
        }
    }


class ExpectationChecker:
    """Takes the snapshots and checks the expectations of a scenario at their times, in seconds from the start."""

    def __init__(self, scenario: Scenario, clusters: Mapping[str, Kubectl]) -> None:
        self._scenario, self._clusters = scenario, clusters
        expected = [item.at for item in scenario.expectations if item.at is not None]
        self._times = sorted({*scenario.snapshots, *expected})
        self.snapshots: list[Snapshot] = []
        self.failures: list[Failure] = []

    @property
    def last_time(self) -> float:
        """The last time still to come."""
        return self._times[-1] if self._times else 0.0

    def check_before(self, time: float) -> None:
        """Handles every time before this one, of each of which nothing is due any more."""
        while self._times and self._times[0] < time:
            at = self._times.pop(0)
            self._check_all(at, at)

    def check_at_end(self, ended: float) -> None:
        self.check_before(float("inf"))
        self._check_all(None, ended)

    def objects(self) -> Objects:
        return {name: kubectl.list_all() for name, kubectl in self._clusters.items()}

    def _check_all(self, asked: float | None, at: float) -> None:
        for snapshot in self._scenario.snapshots:
            if snapshot == asked:
                self.snapshots.append(Snapshot(at, self.objects()))
        for expectation in self._scenario.expectations:
            if expectation.at == asked:
                self._check(expectation, at)

    def _check(self, expectation: Expectation, at: float) -> None:
        kubectl = self._clusters[expectation.cluster or self._scenario.clusters[0].name]
        try:
            found = kubectl.get(expectation.reference)
        except AmbiguousKind as error:
            raise InvalidScenario(self._scenario.source, f"{expectation.path}.object", str(error)) from None
        missing = found is None and bool(expectation.matches)  # {} expects that there is no such object
        difference = "not found" if missing else mismatch(expectation.matches, found)
        if difference is not None:
            self.failures.append(Failure(expectation.path, at, str(expectation.reference), difference))


def mismatch(expected: Any, found: Any, path: str = "") -> str | None:
    """Where and how `found` differs from what is expected; None if it matches.

    A mapping may hold more than is expected, and so may a list after its expected elements. Null, an empty list
    and an empty mapping expect that there is nothing.
    """
    if expected is None or expected in ([], {}):
        return None if found in (None, [], {}) else _differs(path, expected, found)
    match expected, found:
        case Mapping(), Mapping():
            differences = (mismatch(value, found.get(name), _join(path, name)) for name, value in expected.items())
        case list(), list() if len(found) >= len(expected):
            pairs = enumerate(zip(expected, found, strict=False))
            differences = (mismatch(value, there, f"{path}[{index}]") for index, (value, there) in pairs)
        case _:
            return None if _equal(expected, found) else _differs(path, expected, found)
    return next((difference for difference in differences if difference is not None), None)


def _equal(expected: Any, found: Any) -> bool:
    return bool(expected == found) and isinstance(expected, bool) == isinstance(found, bool)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _differs(path: str, expected: Any, found: Any) -> str:
    shown = "nothing" if found is None else _shown(found)
    return f"{path or 'the object'}: expected {_shown(expected)}, found {shown}"


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()
