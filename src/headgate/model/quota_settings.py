"""What an operator chooses about quota, as plain values."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

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
    """When a pod that was asked to leave gives its quota back."""

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
