"""Scenarios, typed and checked, and how they are read from files. Times are seconds from the start of the run."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from headgate.api.configuration import InvalidConfiguration, settings_from
from headgate.api.wire import parse_duration
from headgate.api.yaml_documents import InvalidYaml, read_yaml
from headgate.model.quantity import duration_text
from headgate.model.settings import ONE_CLUSTER, Role, Settings
from headgate.simulator.autoscaling import AutoscalerEntry, AutoscalerPlan, InvalidAutoscaler, autoscaler_plan
from headgate.simulator.manifests import Duration, Manifest, NodeBatch, check_manifest, node_manifests

SETTLED = "settled"
STANDARD_INPUT = "-"
ACTIONS = ("apply", "delete", "patch", "disconnect", "crash", "stale", "addNodes", "dropNode")


class InvalidScenario(Exception):
    """Names the file, the path in it, and what was expected there."""

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


class LocatedManifest(Struct, frozen=True):
    """A manifest and its path in the scenario."""

    path: str
    manifest: Manifest


class Apply(Struct, frozen=True):
    manifests: tuple[LocatedManifest, ...]


class DeleteObject(Struct, frozen=True):
    reference: Reference


class PatchObject(Struct, frozen=True):
    reference: Reference
    merge: Manifest


class DisconnectCluster(Struct, frozen=True):
    seconds: float


class Crash(Struct, frozen=True):
    seconds: float


class Stale(Struct, frozen=True):
    seconds: float


class DropNode(Struct, frozen=True):
    name: str


Action = Apply | DeleteObject | PatchObject | DisconnectCluster | Crash | Stale | DropNode


class ScheduledAction(Struct, frozen=True):
    """An action and its time; without a cluster it is for the first one, `crash` and `stale` for all."""

    at: float
    path: str
    cluster: str
    action: Action


class ClusterPlan(Struct, frozen=True):
    name: str
    settings: Settings  # of our process there
    objects: tuple[LocatedManifest, ...] = ()
    autoscaler: AutoscalerPlan | None = None


class Expectation(Struct, frozen=True):
    """What an object must match; at the end where `at` is None."""

    path: str
    at: float | None
    cluster: str
    reference: Reference
    matches: Mapping[str, Any]


class Scenario(Struct, frozen=True):
    """A checked scenario. Without `until` it runs until nothing more will happen."""

    source: str
    clusters: tuple[ClusterPlan, ...]
    timeline: tuple[ScheduledAction, ...] = ()
    snapshots: tuple[float, ...] = ()
    until: float | None = None
    expectations: tuple[Expectation, ...] = ()

    @property
    def settings(self) -> tuple[Settings, ...]:
        """Those of every cluster."""
        return tuple(cluster.settings for cluster in self.clusters)


class InvalidEntry(Exception):
    """Names the path in the file, and what was expected there."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path, self.problem = path, problem


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
    autoscaler: AutoscalerEntry | None = None
    roles: tuple[str, ...] | None = None
    config: dict[str, Any] | None = None


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
    """Raises InvalidEntry."""
    if document.get("until") == SETTLED:
        document = {**document, "until": None}
    try:
        return msgspec.convert(document, ScenarioEntry, dec_hook=_decode_duration)
    except msgspec.ValidationError as error:
        raise InvalidEntry(*_plain(str(error))) from None


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
    """The path and the problem, from an error of msgspec."""
    sentence, _, path = error.partition(" - at `")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", sentence)
    missing = re.fullmatch(r"Object missing required field `(.*)`", sentence)
    if unknown:
        sentence = f'unknown field "{unknown[1]}"{_suggestion(unknown[1])}'
    elif missing:
        sentence = f'expected a field "{missing[1]}", got none'
    else:
        sentence = re.sub(r"`([^`]*)`", lambda found: _in_words(found[1]), sentence)
    return path.rstrip("`").removeprefix("$").removeprefix("."), sentence[0].lower() + sentence[1:]


def _suggestion(name: str) -> str:
    """Where a field of that name belongs, or the field that was perhaps meant."""
    places = [place for place, entry in _ENTRIES.items() if name in _fields(entry)]
    if places:
        return f"; it is a field of {' and '.join(places)}"
    close = get_close_matches(name, sorted({field for entry in _ENTRIES.values() for field in _fields(entry)}), 1)
    return f"; did you mean {close[0]}?" if close else ""


def _fields(entry: type[Struct]) -> list[str]:
    return [field.encode_name for field in structs.fields(entry)]


_ENTRIES: Mapping[str, type[Struct]] = {
    "the scenario": ScenarioEntry,
    "clusters[]": ClusterEntry,
    "clusters[].nodes[]": NodeBatch,
    "clusters[].autoscaler": AutoscalerEntry,
    "timeline[]": TimelineEntry,
    "timeline[].patch": PatchEntry,
    "expect[]": ExpectEntry,
}
"""The parts of a scenario, by where they stand."""


def _in_words(types: str) -> str:
    """Our words for msgspec's types; `null` is left out."""
    given = [name for name in types.split(" | ") if name != "null"] or ["nothing"]
    return " or ".join(_NAMES.get(name, name) for name in given)


def load_scenario(path: str, installed: Sequence[str] = ()) -> Scenario:
    """The scenario in a file, or in standard input for `-`. Raises InvalidScenario.

    `installed` names the plugins its configuration may enable.
    """
    try:
        if path == STANDARD_INPUT:
            return parse_scenario(sys.stdin.buffer, "standard input", installed)
        with Path(path).open("rb") as file:
            return parse_scenario(file, path, installed)
    except OSError as error:
        raise InvalidScenario(path, "", f"cannot be read: {error.strerror}") from None


def parse_scenario(text: str | bytes | BinaryIO, source: str, installed: Sequence[str] = ()) -> Scenario:
    """Raises InvalidScenario, and OSError of an open file."""
    try:
        document = read_yaml(text)
    except InvalidYaml as error:
        raise InvalidScenario(source, error.place, error.problem) from None
    return _ScenarioReader(source, installed).scenario(document)


class _ScenarioReader:
    def __init__(self, source: str, installed: Sequence[str]) -> None:
        self._source, self._installed = source, installed

    def scenario(self, document: object) -> Scenario:
        entry = self._entry(document)
        clusters = entry.clusters or (ClusterEntry(),)
        names = self._cluster_names(clusters)
        common = self._settings("config", entry.config or {})
        scenario = Scenario(
            source=self._source,
            clusters=tuple(self._cluster(number, cluster, common) for number, cluster in enumerate(clusters)),
            timeline=tuple(
                self._scheduled_action(number, step, names) for number, step in enumerate(entry.timeline or ())
            ),
            snapshots=tuple(sorted(entry.snapshots or ())),
            until=entry.until,
            expectations=tuple(self._expectation(*item, names) for item in enumerate(entry.expect or ())),
        )
        self._check_times(scenario, entry)
        return scenario

    def _entry(self, document: object) -> ScenarioEntry:
        if not isinstance(document, dict) or document.get("kind") != "Scenario":
            found = document.get("kind") if isinstance(document, dict) else document
            raise self._invalid("kind", f'expected "Scenario", got {shown(found)}')
        try:
            return decode_entry(document)
        except InvalidEntry as error:
            raise self._invalid(error.path, error.problem) from None

    def _settings(self, path: str, config: dict[str, Any]) -> Settings:
        try:
            return settings_from(config, self._source, self._installed)
        except InvalidConfiguration as error:
            raise self._invalid(f"{path}.{error.path}" if error.path else path, error.expected) from None

    def _roles(self, path: str, given: tuple[str, ...] | None) -> frozenset[Role]:
        if given is None:
            return ONE_CLUSTER
        for number, role in enumerate(given):
            if role not in frozenset(Role):
                raise self._invalid(f"{path}[{number}]", f"expected one of {', '.join(Role)}, got {shown(role)}")
        return frozenset(Role(role) for role in given)

    def _cluster_names(self, clusters: tuple[ClusterEntry, ...]) -> frozenset[str]:
        names: dict[str, None] = {}
        for number, cluster in enumerate(clusters):
            if not cluster.name or cluster.name in names:
                raise self._invalid(
                    f"clusters[{number}].name", f"expected a name of its own, got {shown(cluster.name)}"
                )
            names[cluster.name] = None
        return frozenset(names)

    def _cluster(self, number: int, entry: ClusterEntry, common: Settings) -> ClusterPlan:
        path = f"clusters[{number}]"
        own = common if entry.config is None else self._settings(f"{path}.config", entry.config)
        settings = structs.replace(own, roles=self._roles(f"{path}.roles", entry.roles))
        nodes = self._nodes(f"{path}.nodes", entry.nodes)
        autoscaler = self._autoscaler(f"{path}.autoscaler", entry.autoscaler)
        if autoscaler is not None:
            nodes += tuple(LocatedManifest(f"{path}.autoscaler.groups", manifest) for manifest in autoscaler.nodes)
        objects = nodes + self._manifests(f"{path}.objects", entry.objects)
        return ClusterPlan(entry.name, settings, objects, autoscaler)

    def _autoscaler(self, path: str, entry: AutoscalerEntry | None) -> AutoscalerPlan | None:
        try:
            return None if entry is None else autoscaler_plan(entry)
        except InvalidAutoscaler as error:
            raise self._invalid(f"{path}.{error.path}", error.problem) from None

    def _nodes(self, path: str, batches: tuple[NodeBatch, ...]) -> tuple[LocatedManifest, ...]:
        located: list[LocatedManifest] = []
        for number, batch in enumerate(batches):
            try:
                manifests = node_manifests(batch)
            except ValueError as error:
                raise self._invalid(f"{path}[{number}]", str(error)) from None
            located += [LocatedManifest(f"{path}[{number}]", manifest) for manifest in manifests]
        return tuple(located)

    def _manifests(self, path: str, manifests: tuple[Manifest, ...]) -> tuple[LocatedManifest, ...]:
        for number, manifest in enumerate(manifests):
            for inner, problem in check_manifest(manifest):
                raise self._invalid(f"{path}[{number}].{inner}", problem)
        return tuple(LocatedManifest(f"{path}[{number}]", manifest) for number, manifest in enumerate(manifests))

    def _scheduled_action(self, number: int, entry: TimelineEntry, clusters: frozenset[str]) -> ScheduledAction:
        path = f"timeline[{number}]"
        self._check_cluster(path, entry.cluster, clusters)
        return ScheduledAction(entry.at, path, entry.cluster, self._action(path, entry))

    def _action(self, path: str, entry: TimelineEntry) -> Action:
        given: list[Action] = []
        if entry.apply is not UNSET:
            given.append(Apply(self._manifests(f"{path}.apply", entry.apply)))
        if entry.delete is not UNSET:
            given.append(DeleteObject(entry.delete.reference()))
        if entry.patch is not UNSET:
            given.append(PatchObject(entry.patch.reference(), entry.patch.merge))
        if entry.disconnect is not UNSET:
            given.append(DisconnectCluster(entry.disconnect))
        if entry.crash is not UNSET:
            given.append(Crash(entry.crash))
        if entry.stale is not UNSET:
            given.append(Stale(entry.stale))
        if entry.add_nodes is not UNSET:
            given.append(Apply(self._nodes(f"{path}.addNodes", entry.add_nodes)))
        if entry.drop_node is not UNSET:
            given.append(DropNode(entry.drop_node))
        if len(given) != 1:
            raise self._invalid(path, f"expected exactly one of {', '.join(ACTIONS)}, got {len(given) or 'none'}")
        return given[0]

    def _expectation(self, number: int, entry: ExpectEntry, clusters: frozenset[str]) -> Expectation:
        path = f"expect[{number}]"
        self._check_cluster(path, entry.cluster, clusters)
        return Expectation(path, entry.at, entry.cluster, entry.object.reference(), entry.matches)

    def _check_cluster(self, path: str, name: str, clusters: frozenset[str]) -> None:
        if name and name not in clusters:
            known = ", ".join(sorted(clusters))
            raise self._invalid(f"{path}.cluster", f"expected one of {known}, got {shown(name)}")

    def _check_times(self, scenario: Scenario, entry: ScenarioEntry) -> None:
        if scenario.until is None:
            return
        late = f"expected a time no later than `until` ({duration_text(scenario.until)})"
        for number, at in enumerate(entry.snapshots or ()):
            if at > scenario.until:
                raise self._invalid(f"snapshots[{number}]", f"{late}, got {duration_text(at)}")
        for expectation in scenario.expectations:
            if expectation.at is not None and expectation.at > scenario.until:
                raise self._invalid(f"{expectation.path}.at", f"{late}, got {duration_text(expectation.at)}")

    def _invalid(self, path: str, problem: str) -> InvalidScenario:
        return InvalidScenario(self._source, path, problem)
