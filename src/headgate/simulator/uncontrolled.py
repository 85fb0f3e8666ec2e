"""The objects of a scenario that nothing acts on: kinds whose controllers are not part of a simulated cluster."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.apiserver.kinds import RESOURCE_TYPES
from headgate.simulator.manifests import Manifest
from headgate.simulator.scenario import Apply, Scenario

UNCONTROLLED = frozenset({"ReplicationController", "ResourceQuota"})
"""Built-in kinds that are stored and have no controller."""
_BUILTIN = frozenset(known.kind for known in RESOURCE_TYPES) - UNCONTROLLED
_OURS = frozenset(
    {"kueue.x-k8s.io", "scheduling.headgate.dev", "scheduling.k8s.io", "scheduling.volcano.sh", "resource.k8s.io"}
)
"""Groups of kinds that our process acts on, or reads."""


def uncontrolled_kinds(scenario: Scenario) -> list[str]:
    """Their names, sorted."""
    return sorted({manifest["kind"] for manifest in _manifests(scenario) if not _is_controlled(manifest)})


def _is_controlled(manifest: Manifest) -> bool:
    group, slash, _ = manifest["apiVersion"].partition("/")
    return manifest["kind"] in _BUILTIN or bool(slash and group in _OURS)


def _manifests(scenario: Scenario) -> Iterator[Manifest]:
    for cluster in scenario.clusters:
        yield from (located.manifest for located in cluster.objects)
    for scheduled in scenario.timeline:
        if isinstance(scheduled.action, Apply):
            yield from (located.manifest for located in scheduled.action.manifests)
