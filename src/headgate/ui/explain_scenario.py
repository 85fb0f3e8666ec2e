"""The cluster of a scenario at a moment of its run, to be explained like any other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import structs

from headgate.api.decode import decode
from headgate.api.kinds import RESOURCES
from headgate.apiserver.messages import Json
from headgate.engine.why_waiting.cluster import Cluster
from headgate.model.objects import Object
from headgate.simulator.faults import Faults
from headgate.simulator.scenario import InvalidScenario, Scenario, load_scenario
from headgate.simulator.virtual_time import EPOCH, run
from headgate.ui.installed import InstalledPlugins

_KINDS = {(resource.api_version, resource.kind_name): kind for kind, resource in RESOURCES.items()}


def simulated(file: str, seed: int, at: float | None) -> Cluster:
    """The first cluster of the scenario at that second, or at the end. Raises InvalidScenario and NeverSettles."""
    installed = InstalledPlugins()
    scenario = load_scenario(file, installed.names)
    if at is not None and scenario.until is not None and at > scenario.until:
        raise InvalidScenario(file, "until", f"the scenario ends after {scenario.until:g}s, before --at {at:g}s")
    report = run(_looked_at(scenario, at), seed, Faults(), None, installed.enabled_by(scenario.settings))
    name = scenario.clusters[0].name
    shown = next((shot.objects[name] for shot in report.snapshots if shot.at == at), report.final[name])
    return Cluster(_decoded(shown), scenario.settings.quota, EPOCH + (report.until if at is None else at))


def _looked_at(scenario: Scenario, at: float | None) -> Scenario:
    return scenario if at is None else structs.replace(scenario, snapshots=(at,))


def _decoded(manifests: Sequence[Json]) -> Iterator[Object]:
    for manifest in manifests:
        kind = _KINDS.get((manifest["apiVersion"], manifest["kind"]))
        if kind is not None:
            yield decode(kind, msgspec.json.encode(manifest))
