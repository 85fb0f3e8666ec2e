"""Scenario files: from YAML to a scenario, or to one error that says what was expected where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, structs

from headgate.api.configuration import InvalidConfiguration, settings_from
from headgate.model.settings import Role, Settings
from headgate.simulator.manifests import NodeBatch, check_manifest, node_manifests
from headgate.simulator.scenario import (
    Action,
    Apply,
    ClusterPlan,
    Crash,
    DeleteObject,
    Disconnect,
    DropNode,
    Expectation,
    Happening,
    InvalidScenario,
    Manifest,
    PatchObject,
    Placed,
    Scenario,
    Stale,
)
from headgate.simulator.scenario_entries import (
    ACTIONS,
    ClusterEntry,
    ExpectEntry,
    ScenarioEntry,
    TimelineEntry,
    WrongEntry,
    decode_entry,
    shown,
)
from headgate.simulator.yaml_text import InvalidYaml, read_yaml


def load_scenario(path: str, installed: Sequence[str] = ()) -> Scenario:
    """`installed` names the plugins its configuration may enable. Raises InvalidScenario."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise InvalidScenario(path, "", f"cannot be read: {error.strerror}") from None
    return parse_scenario(text, path, installed)


def parse_scenario(text: str | bytes, source: str, installed: Sequence[str] = ()) -> Scenario:
    """Raises InvalidScenario."""
    try:
        document = read_yaml(text)
    except InvalidYaml as error:
        raise InvalidScenario(source, error.place, error.problem) from None
    return _Reader(source, installed).scenario(document)


class _Reader:
    def __init__(self, source: str, installed: Sequence[str]) -> None:
        self._source, self._installed = source, installed

    def scenario(self, document: object) -> Scenario:
        entry = self._entry(document)
        clusters = entry.clusters or (ClusterEntry(),)
        names = self._cluster_names(clusters)
        scenario = Scenario(
            source=self._source,
            settings=self._settings(entry.config),
            clusters=tuple(self._cluster(number, cluster) for number, cluster in enumerate(clusters)),
            timeline=tuple(self._action(number, step, names) for number, step in enumerate(entry.timeline or ())),
            snapshots=tuple(sorted(entry.snapshots or ())),
            until=entry.until,
            expectations=tuple(self._expectation(*item, names) for item in enumerate(entry.expect or ())),
        )
        self._check_times(scenario, entry)
        return scenario

    def _entry(self, document: object) -> ScenarioEntry:
        if not isinstance(document, dict) or document.get("kind") != "Scenario":
            found = document.get("kind") if isinstance(document, dict) else document
            raise self._wrong("kind", f'expected "Scenario", got {shown(found)}')
        try:
            return decode_entry(document)
        except WrongEntry as error:
            raise self._wrong(error.path, error.problem) from None

    def _settings(self, config: dict[str, Any] | None) -> Settings:
        try:
            settings = settings_from(config or {}, self._source, self._installed)
            return structs.replace(settings, roles=frozenset(Role))
        except InvalidConfiguration as error:
            raise self._wrong(f"config.{error.path}" if error.path else "config", error.expected) from None

    def _cluster_names(self, clusters: tuple[ClusterEntry, ...]) -> frozenset[str]:
        names: dict[str, None] = {}
        for number, cluster in enumerate(clusters):
            if not cluster.name or cluster.name in names:
                raise self._wrong(f"clusters[{number}].name", f"expected a name of its own, got {shown(cluster.name)}")
            names[cluster.name] = None
        return frozenset(names)

    def _cluster(self, number: int, entry: ClusterEntry) -> ClusterPlan:
        path = f"clusters[{number}]"
        nodes = self._nodes(f"{path}.nodes", entry.nodes)
        return ClusterPlan(entry.name, nodes + self._manifests(f"{path}.objects", entry.objects))

    def _nodes(self, path: str, batches: tuple[NodeBatch, ...]) -> tuple[Placed, ...]:
        placed: list[Placed] = []
        for number, batch in enumerate(batches):
            try:
                manifests = node_manifests(batch)
            except ValueError as error:
                raise self._wrong(f"{path}[{number}]", str(error)) from None
            placed += [Placed(f"{path}[{number}]", manifest) for manifest in manifests]
        return tuple(placed)

    def _manifests(self, path: str, manifests: tuple[Manifest, ...]) -> tuple[Placed, ...]:
        for number, manifest in enumerate(manifests):
            for inner, problem in check_manifest(manifest):
                raise self._wrong(f"{path}[{number}].{inner}", problem)
        return tuple(Placed(f"{path}[{number}]", manifest) for number, manifest in enumerate(manifests))

    def _action(self, number: int, entry: TimelineEntry, clusters: frozenset[str]) -> Action:
        path = f"timeline[{number}]"
        self._check_cluster(path, entry.cluster, clusters)
        return Action(entry.at, path, entry.cluster, self._happening(path, entry))

    def _happening(self, path: str, entry: TimelineEntry) -> Happening:
        given: list[Happening] = []
        if entry.apply is not UNSET:
            given.append(Apply(self._manifests(f"{path}.apply", entry.apply)))
        if entry.delete is not UNSET:
            given.append(DeleteObject(entry.delete.reference()))
        if entry.patch is not UNSET:
            given.append(PatchObject(entry.patch.reference(), entry.patch.merge))
        if entry.disconnect is not UNSET:
            given.append(Disconnect(entry.disconnect))
        if entry.crash is not UNSET:
            given.append(Crash(entry.crash))
        if entry.stale is not UNSET:
            given.append(Stale(entry.stale))
        if entry.add_nodes is not UNSET:
            given.append(Apply(self._nodes(f"{path}.addNodes", entry.add_nodes)))
        if entry.drop_node is not UNSET:
            given.append(DropNode(entry.drop_node))
        if len(given) != 1:
            raise self._wrong(path, f"expected exactly one of {', '.join(ACTIONS)}, got {len(given) or 'none'}")
        return given[0]

    def _expectation(self, number: int, entry: ExpectEntry, clusters: frozenset[str]) -> Expectation:
        path = f"expect[{number}]"
        self._check_cluster(path, entry.cluster, clusters)
        return Expectation(path, entry.at, entry.cluster, entry.object.reference(), entry.matches)

    def _check_cluster(self, path: str, name: str, clusters: frozenset[str]) -> None:
        if name and name not in clusters:
            known = ", ".join(sorted(clusters))
            raise self._wrong(f"{path}.cluster", f"expected one of {known}, got {shown(name)}")

    def _check_times(self, scenario: Scenario, entry: ScenarioEntry) -> None:
        if scenario.until is None:
            return
        late = f"expected a time no later than `until` ({scenario.until:g}s)"
        for number, at in enumerate(entry.snapshots or ()):
            if at > scenario.until:
                raise self._wrong(f"snapshots[{number}]", f"{late}, got {at:g}s")
        for expectation in scenario.expectations:
            if expectation.at is not None and expectation.at > scenario.until:
                raise self._wrong(f"{expectation.path}.at", f"{late}, got {expectation.at:g}s")

    def _wrong(self, path: str, problem: str) -> InvalidScenario:
        return InvalidScenario(self._source, path, problem)
