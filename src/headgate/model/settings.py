"""What an operator can choose, about quota and about scheduling, as plain values.

The engine picks its implementations from these names once.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol, TypeVar

from msgspec import Struct, structs

from headgate.model.resources import Resources
from headgate.model.selectors import Operator, Requirement

JOBS, PODS, DEPLOYMENTS, STATEFUL_SETS = "batch/job", "pod", "deployment", "statefulset"
FRAMEWORKS = (JOBS, PODS, DEPLOYMENTS, STATEFUL_SETS)
"""The kinds of work that can be held back until there is quota for it, by Kueue's names."""
BY_PODS = frozenset({PODS, DEPLOYMENTS, STATEFUL_SETS})
"""Those of which it is the pods that are held back."""

NAMESPACE_NAME = "kubernetes.io/metadata.name"
SYSTEM_NAMESPACES = ("headgate-system", "kube-system")
"""Namespaces whose pods must never wait for quota: without them nothing that gives quota could run."""

DEFAULT_SCHEDULER_NAME = "headgate"


class FairStrategy(StrEnum):
    """When a workload of a queue that has more than its due may be preempted."""

    FINAL_SHARE = "LessThanOrEqualToFinalShare"
    INITIAL_SHARE = "LessThanInitialShare"


DEFAULT_FAIR = (FairStrategy.FINAL_SHARE, FairStrategy.INITIAL_SHARE)


class RequeueTime(StrEnum):
    """Where a workload whose pods were not ready in time queues up again: by its eviction, or where it was."""

    EVICTION = "Eviction"
    CREATION = "Creation"


class QuotaRelease(StrEnum):
    """When the quota of a pod that is being deleted is released."""

    FAST = "Fast"  # at once
    GRACE = "Grace"  # when it ended, or its grace is over
    ON_TERMINAL = "OnTerminal"  # when it ended, however long that takes


class Transformation(Struct, frozen=True):
    """One resource counted as others: so much of each output for every whole unit of it, a part counting as a whole.

    With `multiplied_by`, times the whole units asked of that other resource.
    """

    source: str
    outputs: Resources
    keeps: bool = True  # the input itself still counts
    multiplied_by: str = ""


class PodsReady(Struct, frozen=True):
    """How long the pods of an admitted workload may take to be ready, in seconds, and what follows when they do not."""

    timeout: float | None = 1800.0  # None: as long as they like
    recovery_timeout: float | None = 1800.0  # after they were ready once; None: as long as they like
    backoff_limit: int | None = None  # how often it may queue up again; None: without end
    backoff_base: int = 60  # seconds it rests the first time; doubles each time
    backoff_most: int = 3600


class Retention(Struct, frozen=True):
    """How many seconds workloads are kept; None: for ever."""

    after_finished: float | None = None
    after_deactivated: float | None = None


RESOURCE_WEIGHT = 10**12  # a resource weight of one; weights are counted in trillionths


class UsageSharing(Struct, frozen=True):
    """How the past use of local queues is weighed, where those that used less go first."""

    half_life: float = 0.0  # seconds after which half of what was used is forgotten; 0: all of it, at once
    interval: float = 300.0  # seconds between two samples
    weights: tuple[tuple[str, int], ...] = ()  # of resources, in trillionths; what is not listed weighs one


class QuotaMetrics(Struct, frozen=True):
    """Which queues and how much of them metrics tell. A selector of None selects no local queue, empty selects all."""

    cluster_queue_resources: bool = False
    local_queues: tuple[Requirement, ...] | None = ()


class QuotaSettings(Struct, frozen=True):
    fair: tuple[FairStrategy, ...] = ()  # strategies of fair sharing in order; empty: no fair sharing
    requeue_time: RequeueTime = RequeueTime.EVICTION
    ignore_undeclared: bool = False  # resources no queue has quota for count for nothing
    excluded_prefixes: tuple[str, ...] = ()  # of resources that are left out of account
    transformations: tuple[Transformation, ...] = ()
    preemption_gates: bool = False  # whether a closed preemption gate holds back evictions
    block_admission: bool = False  # nothing more is admitted until the pods of all admitted workloads are ready
    manages_all: bool = False  # jobs that name no queue wait too
    namespaces: tuple[Requirement, ...] = (Requirement(NAMESPACE_NAME, Operator.NOT_IN, SYSTEM_NAMESPACES),)
    frameworks: tuple[str, ...] = FRAMEWORKS
    pods_ready: PodsReady = PodsReady()
    retention: Retention = Retention()
    copied_labels: tuple[str, ...] = ()  # of jobs and pods, that their Workloads get too
    quota_release: QuotaRelease = QuotaRelease.FAST
    max_hold: float = 120.0  # seconds for which admitted work may be held for pods that are leaving; 0: it never is
    debt_percent: int | None = None  # of all quota of a flavor, the most that pods which leave may owe; None: all of it
    recovers_failures: bool = False  # pods that cannot stop on unreachable nodes are removed, if they say that is safe
    usage_sharing: UsageSharing | None = None  # None: what local queues used does not matter
    metrics: QuotaMetrics = QuotaMetrics()

    @property
    def is_fair(self) -> bool:
        return bool(self.fair)


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
