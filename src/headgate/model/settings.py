"""What an operator can choose, as plain values. The engine picks its implementations from these names once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from msgspec import Struct

DEFAULT_SCHEDULER_NAME = "headgate"
PLUGIN_NAMES = (
    "SchedulingGates",
    "NodeName",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
)
"""Every plugin a profile may switch, by kube-scheduler's name."""


class Named(Protocol):
    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=Named)


class ScoringStrategy(Struct, frozen=True):
    """How NodeResourcesFit likes nodes to be used."""

    type: str = "LeastAllocated"  # or MostAllocated, RequestedToCapacityRatio
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))  # name and weight
    shape: tuple[tuple[int, int], ...] = ()  # for RequestedToCapacityRatio: used percent, and points from 0 to 10


class Profile(Struct, frozen=True):
    """One scheduler as pods know it by name; plugin names as in kube-scheduler."""

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    disabled: frozenset[str] = frozenset()  # names of default plugins taken out; "*" takes out all
    weights: Mapping[str, int] = {}  # of score plugins, where not the default
    scoring: ScoringStrategy = ScoringStrategy()

    def kept(self, plugins: tuple[P, ...]) -> tuple[P, ...]:
        """Those of the plugins that this profile leaves on, in order."""
        if "*" in self.disabled:
            return ()
        return tuple(plugin for plugin in plugins if plugin.name not in self.disabled)


class Settings(Struct, frozen=True):
    profiles: tuple[Profile, ...] = (Profile(),)
    initial_backoff: float = 1.0  # seconds a refused pod waits before its next try; doubles with each refusal
    max_backoff: float = 10.0
    max_in_flight: int = 1000  # bindings decided and not yet answered; more wait, so that late urgent pods are not last
    features: Mapping[str, bool] = {}
    seed: int = 0  # settles ties between equally good nodes
