"""What an operator can choose, as plain values. The engine picks its implementations from these names once."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol, TypeVar

from msgspec import Struct, structs

from headgate.model.quota_settings import QuotaSettings

DEFAULT_SCHEDULER_NAME = "headgate"


class Role(StrEnum):
    """What an engine decides."""

    QUOTA = "quota"  # which workloads hold quota of their queues
    INTEGRATIONS = "integrations"  # that jobs and pods become workloads, and start and stop as these do
    SCHEDULER = "scheduler"  # on which nodes pods run
    FLEET = "fleet"  # on which worker clusters workloads run


ONE_CLUSTER = frozenset(Role) - {Role.FLEET}
"""The roles of a process that knows of no other cluster than its own."""


class Point(StrEnum):
    """Where in the scheduling of a pod a plugin has its say; the values are kube-scheduler's names for it."""

    PRE_ENQUEUE = "preEnqueue"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    SCORE = "score"


DEFAULT_PLUGINS: Mapping[str, tuple[Point, ...]] = {
    "SchedulingGates": (Point.PRE_ENQUEUE,),
    "GangScheduling": (Point.PRE_ENQUEUE,),
    "NodeName": (Point.FILTER,),
    "NodeUnschedulable": (Point.FILTER,),
    "TaintToleration": (Point.FILTER, Point.SCORE),
    "NodeAffinity": (Point.FILTER, Point.SCORE),
    "NodePorts": (Point.FILTER,),
    "NodeResourcesFit": (Point.FILTER, Point.SCORE),
    "VolumeRestrictions": (Point.FILTER,),
    "NodeVolumeLimits": (Point.FILTER,),
    "VolumeBinding": (Point.FILTER,),
    "VolumeZone": (Point.FILTER,),
    "PodTopologySpread": (Point.FILTER, Point.SCORE),
    "InterPodAffinity": (Point.FILTER, Point.SCORE),
    "DynamicResources": (Point.FILTER,),
    "DefaultPreemption": (Point.POST_FILTER,),
    "NodeResourcesBalancedAllocation": (Point.SCORE,),
    "ImageLocality": (Point.SCORE,),
}
"""Every plugin that is on unless a profile switches it off, by kube-scheduler's name."""

EVERY = "*"


class Named(Protocol):
    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=Named)


class ScoringStrategy(Struct, frozen=True):
    """How NodeResourcesFit likes nodes to be used."""

    type: str = "LeastAllocated"  # or MostAllocated, RequestedToCapacityRatio
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))  # name and weight
    shape: tuple[tuple[int, int], ...] = ()  # for RequestedToCapacityRatio: used percent, and points from 0 to 10


class Switches(Struct, frozen=True):
    """Plugins turned on and off by name; "*" among `disabled` turns off all that are not turned on here."""

    enabled: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()

    def says(self, name: str) -> bool | None:
        """Whether the plugin is on; None when nothing is said about it."""
        if name in self.enabled:
            return True
        return False if name in self.disabled or EVERY in self.disabled else None


class Profile(Struct, frozen=True):
    """One scheduler as pods know it by name; plugin names as in kube-scheduler."""

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    disabled: frozenset[str] = frozenset()  # at every point, unless one says otherwise
    weights: Mapping[str, int] = {}  # of score plugins, where not the default
    scoring: ScoringStrategy = ScoringStrategy()
    enabled: frozenset[str] = frozenset()  # at every point; the only way to turn on what is off by default
    points: Mapping[Point, Switches] = {}  # what is said at one point goes before what is said for all
    percentage_of_nodes_to_score: int | None = None  # None: as the settings say

    def kept(self, plugins: tuple[P, ...], point: Point) -> tuple[P, ...]:
        """Those of the plugins that are on at this point, in order."""
        return tuple(plugin for plugin in plugins if self.has_on(plugin.name, point))

    def has_on(self, name: str, point: Point) -> bool:
        here = self.points.get(point, Switches()).says(name)
        if here is not None:
            return here
        everywhere = Switches(self.enabled, self.disabled).says(name)
        return name in DEFAULT_PLUGINS if everywhere is None else everywhere


class GangPreemption(StrEnum):
    """How victims are found for a gang; either way nobody is preempted unless enough of its pods fit."""

    TOGETHER = "together"  # workload-aware: for all its pods at once
    POD_BY_POD = "pod by pod"


class PreemptionSettings(Struct, frozen=True):
    certify: bool = True  # whether a choice of victims is compared with the best there is
    certify_seconds: float = 0.05  # the most time that may take for one choice
    gangs: GangPreemption = GangPreemption.TOGETHER


class VolcanoSettings(Struct, frozen=True):
    gates: bool = True  # pods that ask for it are gated until their queue has capacity; otherwise none stays gated
    reservation_timeout: float = 600.0  # seconds a pod without a node may reserve capacity of its queue


ALL_AT_ONCE = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"


class MultiKueueSettings(Struct, frozen=True):
    """How workloads are dispatched to worker clusters. A dispatcher of any other name is another controller."""

    origin: str = "multikueue"  # the value of the label by which we know our own objects on worker clusters
    gc_interval: float = 60.0  # seconds between two searches for what nobody at home owns; 0: there are none
    worker_lost_timeout: float = 900.0  # seconds a workload waits for the cluster it runs on
    dispatcher: str = ALL_AT_ONCE
    step_size: int = 3  # worker clusters that the incremental dispatcher adds each round
    single_cluster_preemption_timeout: float = 300.0  # seconds between two gates of a workload that are opened
    proposal_window: float = 1.0  # seconds after the first signal in which others are waited for; 0: first come
    orchestrated: bool = True  # whether remote Workloads get a preemption gate
    kubeconfig_directory: str = "/etc/multikueue/kubeconfigs"  # where kubeconfigs in files must be


class InformWithin(Struct, frozen=True):
    """Seconds by which what only informs may be late."""

    idle: float = 5.0
    saturated: float = 60.0  # while the API server has no capacity left


class Settings(Struct, frozen=True):
    profiles: tuple[Profile, ...] = (Profile(),)
    initial_backoff: float = 1.0  # seconds a refused pod waits before its next try; doubles with each refusal
    max_backoff: float = 10.0
    percentage_of_nodes_to_score: int = 0  # of those that will do, how many are compared; 0: as many as pay
    max_in_flight: int = 1000  # bindings decided and not yet answered; more wait, so that late urgent pods are not last
    features: Mapping[str, bool] = {}
    preemption: PreemptionSettings = PreemptionSettings()
    quota: QuotaSettings = QuotaSettings()
    volcano: VolcanoSettings = VolcanoSettings()
    multikueue: MultiKueueSettings = MultiKueueSettings()
    inform_within: InformWithin = InformWithin()
    seed: int = 0  # settles ties between equally good nodes
    roles: frozenset[Role] = frozenset({Role.SCHEDULER})
    not_applied: tuple[str, ...] = ()  # fields of a configuration file of Kueue that do not apply

    @property
    def gated_schedulers(self) -> frozenset[str]:
        """The schedulerNames whose pods get the queue-allocation gate they ask for."""
        return frozenset(profile.scheduler_name for profile in self.profiles) if self.volcano.gates else frozenset()

    def profiles_in_full(self) -> tuple[Profile, ...]:
        """The profiles with what they leave to the settings filled in."""
        given = self.percentage_of_nodes_to_score
        return tuple(
            structs.replace(profile, percentage_of_nodes_to_score=given)
            if profile.percentage_of_nodes_to_score is None
            else profile
            for profile in self.profiles
        )
