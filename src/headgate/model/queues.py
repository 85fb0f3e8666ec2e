"""The kinds of the group kueue.x-k8s.io: queues, their quota, the workloads that wait in them, and worker clusters."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, structs

from headgate.model.keys import Condition, Key, Target
from headgate.model.kueue_names import ALLOWED_FLAVORS, ELASTIC_JOB, SLICE_OF
from headgate.model.node import Taint, Toleration
from headgate.model.pod import PodShape
from headgate.model.resources import Resources, TemplateNeeds
from headgate.model.selectors import Requirement

PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"
ADMISSION_GATED_BY = "kueue.x-k8s.io/admission-gated-by"
GATE_SIGNALS = ("BlockedOnPreemptionGates", "PreemptionBlocked")
"""Two conditions that mean that a closed gate forbids the preemption it needs: written together, either is read."""
WHOLE_WEIGHT = 1000  # a fair sharing weight of one; weights are counted in thousandths


class QueueingStrategy(StrEnum):
    STRICT_FIFO = "StrictFIFO"
    BEST_EFFORT_FIFO = "BestEffortFIFO"


class StopPolicy(StrEnum):
    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class WithinQueue(StrEnum):
    """Whom of its own queue a workload may preempt."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"


class Reclaim(StrEnum):
    """Whom of the queues that borrow a workload may preempt."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    ANY = "Any"


class BorrowWithinCohort(StrEnum):
    """Whom of the queues that borrow a workload may preempt although it borrows itself."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


class FlavorSearch(StrEnum):
    """What to do at a flavor that would do, at a price."""

    MAY_STOP_SEARCH = "MayStopSearch"
    TRY_NEXT_FLAVOR = "TryNextFlavor"


class FlavorPreference(StrEnum):
    BORROWING_OVER_PREEMPTION = "BorrowingOverPreemption"
    PREEMPTION_OVER_BORROWING = "PreemptionOverBorrowing"


class CheckState(StrEnum):
    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


class Quota(Struct, frozen=True, gc=False):
    """A borrowing limit of None borrows whatever there is; a lending limit of None lends whatever is not used."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class FlavorQuotas(Struct, frozen=True, gc=False):
    """One flavor of a resource group and the quota of each resource in it, in the order of the manifest."""

    flavor: str
    quotas: tuple[tuple[str, Quota], ...]


class ResourceGroup(Struct, frozen=True, gc=False):
    """Resources that a pod set gets of one and the same flavor; the flavors in the order they are tried."""

    resources: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


class Fungibility(Struct, frozen=True, gc=False):
    when_can_borrow: FlavorSearch = FlavorSearch.MAY_STOP_SEARCH
    when_can_preempt: FlavorSearch = FlavorSearch.TRY_NEXT_FLAVOR
    preference: FlavorPreference = FlavorPreference.BORROWING_OVER_PREEMPTION


class QueuePreemption(Struct, frozen=True, gc=False):
    within_queue: WithinQueue = WithinQueue.NEVER
    reclaim: Reclaim = Reclaim.NEVER
    borrow: BorrowWithinCohort = BorrowWithinCohort.NEVER
    borrow_threshold: int | None = None  # of borrow: no victim above this priority


class RequiredCheck(Struct, frozen=True, gc=False):
    """An admission check of a queue; without flavors, it holds for all of them."""

    name: str
    on_flavors: tuple[str, ...] = ()


class FlavorDebt(Struct, frozen=True, gc=False):
    """What pods that leave still take of a flavor although its quota was given back."""

    flavor: str
    total: Resources


class ClusterQueue(Struct, frozen=True, gc=False):
    """`namespaces` None selects no namespace, empty selects all."""

    key: Key
    uid: str
    version: str
    groups: tuple[ResourceGroup, ...] = ()
    cohort: str = ""
    strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    namespaces: tuple[Requirement, ...] | None = None
    fungibility: Fungibility = Fungibility()
    preemption: QueuePreemption = QueuePreemption()
    checks: tuple[RequiredCheck, ...] = ()
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_weight: int = WHOLE_WEIGHT
    usage_based: bool = False  # local queues that used less go first (UsageBasedAdmissionFairSharing)
    conditions: tuple[Condition, ...] = ()
    finalizers: tuple[str, ...] = ()
    generation: int = 0
    deleted: float | None = None
    debt: tuple[FlavorDebt, ...] = ()  # what its status says is owed, by flavor
    concurrent_admission: bool = False  # it has a concurrentAdmissionPolicy

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)


class LocalQueue(Struct, frozen=True, gc=False):
    key: Key
    uid: str
    version: str
    cluster_queue: str
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_weight: int = WHOLE_WEIGHT
    conditions: tuple[Condition, ...] = ()
    consumed: Resources = Resources()  # what it has used, where its status says so; in billionths of whole units
    consumed_at: float | None = None  # as of when
    generation: int = 0
    deleted: float | None = None
    labels: Mapping[str, str] = {}

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)


class Cohort(Struct, frozen=True, gc=False):
    """Queues and cohorts that share quota; its own quota comes on top of theirs."""

    key: Key
    uid: str
    version: str
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    fair_weight: int = WHOLE_WEIGHT
    generation: int = 0
    deleted: float | None = None
    shown_share: int | None = None  # the weighted share its status shows

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)


class ResourceFlavor(Struct, frozen=True, gc=False):
    """A sort of nodes: the labels and taints they have; `tolerations` are given to the pods that get it."""

    key: Key
    uid: str
    version: str
    node_labels: Mapping[str, str] = {}
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""
    finalizers: tuple[str, ...] = ()
    deleted: float | None = None

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)


class WorkloadPriorityClass(Struct, frozen=True, gc=False):
    key: Key
    uid: str
    version: str
    value: int


class CheckParameters(Struct, frozen=True, gc=False):
    api_group: str
    kind: str
    name: str


class AdmissionCheck(Struct, frozen=True, gc=False):
    key: Key
    uid: str
    version: str
    controller: str
    parameters: CheckParameters | None = None
    conditions: tuple[Condition, ...] = ()
    finalizers: tuple[str, ...] = ()
    generation: int = 0
    deleted: float | None = None

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)


TopologyRequest = tuple[tuple[str, str], ...]
"""The fields of a topologyRequest that ask for something, with their values, by name."""


class PodSet(Struct, frozen=True, gc=False, cache_hash=True):
    """Pods of one template; `shape` has the requests of one pod. May start with `min_count` of them, if that is set."""

    name: str
    shape: PodShape
    count: int = 1
    min_count: int | None = None
    needs: TemplateNeeds = TemplateNeeds()  # what the requests were worked out from
    topology: TopologyRequest = ()  # how close to each other its pods are to run


class PodSetAssignment(Struct, frozen=True, gc=False, cache_hash=True):
    """What a pod set got: a flavor by resource, the usage of all its pods together, and how many these are."""

    name: str
    flavors: tuple[tuple[str, str], ...]
    usage: Resources
    count: int


class Admission(Struct, frozen=True, gc=False, cache_hash=True):
    cluster_queue: str
    pod_sets: tuple[PodSetAssignment, ...]


class RequeueState(Struct, frozen=True, gc=False):
    count: int = 0
    at: float | None = None  # not before


class CheckStatus(Struct, frozen=True, gc=False):
    """How one admission check of a workload stands."""

    name: str
    state: CheckState = CheckState.PENDING
    message: str = ""
    at: float = 0.0  # when its state last changed
    requeue_after: int | None = None  # seconds
    retries: int = 0
    updates: bytes = b""  # podSetUpdates, verbatim


class GateStatus(Struct, frozen=True, gc=False):
    """A preemption gate of a workload; one without a status is closed."""

    name: str
    open: bool = False
    at: float = 0.0  # when it last opened or closed


class PreemptionProposal(Struct, frozen=True, gc=False):
    """What it would cost to preempt for a gated workload. Says nothing that time alone changes, and names no victim.

    The victims' running pods lose one second of work each per second, counted from the mean of their starts.
    """

    can_preempt: bool
    victims: int = 0  # workloads that would be evicted and are not yet
    highest_priority: int = 0  # of the victims
    priority_sum: int = 0
    pods: int = 0  # of the victims that run
    running_since: float = 0.0  # the mean of when these pods were admitted, in whole seconds

    def work_lost(self, now: float) -> int:
        """In seconds of one pod."""
        return max(0, int(now - self.running_since)) * self.pods


class EvictionCount(Struct, frozen=True, gc=False):
    reason: str
    cause: str
    count: int


class PriorityClassRef(Struct, frozen=True, gc=False):
    group: str
    kind: str
    name: str


class QueuedWorkloadStatus(Struct, frozen=True, gc=False):
    """The status of a Workload of kueue.x-k8s.io: as read, and as written, whole.

    What is not listed here (unhealthy nodes) stays as others left it.
    """

    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    requeue: RequeueState | None = None
    reclaimable: tuple[tuple[str, int], ...] = ()  # pods that are done for good, by pod set
    checks: tuple[CheckStatus, ...] = ()
    gate_statuses: tuple[GateStatus, ...] = ()
    proposal: PreemptionProposal | None = None  # while a gate is closed and it was refused quota
    resource_requests: tuple[tuple[str, Resources], ...] = ()  # what the status says it requests, by pod set
    past_execution_seconds: int = 0
    evictions: tuple[EvictionCount, ...] = ()
    nominated_clusters: tuple[str, ...] = ()
    cluster: str = ""


_NOT_BUILT = (ELASTIC_JOB, SLICE_OF, ALLOWED_FLAVORS)
"""Annotations of Workloads that change how they are admitted, in ways that are not built."""


class QueuedWorkload(Struct, frozen=True, gc=False):
    """A Workload of kueue.x-k8s.io: pods that are admitted together, or not. Its metadata, its spec and its status."""

    key: Key
    uid: str
    version: str
    created: float
    pod_sets: tuple[PodSet, ...]
    queue: str = ""  # the local queue, in its own namespace
    priority: int = 0
    priority_class: PriorityClassRef | None = None
    boost: int = 0  # added to its priority (annotation priority-boost)
    gated_by: tuple[str, ...] = ()  # controllers that hold it back (annotation admission-gated-by)
    preemption_gates: tuple[str, ...] = ()  # all must be open before anything is preempted for it
    active: bool = True
    max_execution_seconds: int | None = None
    generation: int = 0
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner: Target | None = None
    deleted: float | None = None
    owners: tuple[Target, ...] = ()  # pods of a group or their set, owning it together; `owner` is the first of them
    owned_by_stranger: bool | None = None  # by something of a kind we do not know; None: that is not told
    status: QueuedWorkloadStatus = QueuedWorkloadStatus()

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)

    @property
    def is_controlled(self) -> bool:
        """One object is its owner, and not the pods of a group."""
        return self.owner is not None and not self.owners

    @property
    def effective_priority(self) -> int:
        return self.priority + self.boost

    @property
    def unsupported(self) -> tuple[str, ...]:
        """What it asks for that is not built, so that it must not be admitted as if it had not asked."""
        found: tuple[str, ...] = ()
        for one in self.pod_sets:
            if one.topology:
                wanted = ", ".join([f"{name}: {value}" for name, value in one.topology])
                found += (f"topologyRequest of pod set {one.name} ({wanted})",)
            if one.needs.claims:
                found += (f"resourceClaims of pod set {one.name} ({', '.join(one.needs.claims)})",)
        if self.annotations:
            found += tuple(f"annotation {name}" for name in _NOT_BUILT if name in self.annotations)
        return found

    def condition(self, type_: str) -> Condition | None:
        for condition in self.status.conditions:  # asked for a hundred times in the life of a workload
            if condition.type == type_:
                return condition
        return None

    def is_true(self, type_: str) -> bool:
        for condition in self.status.conditions:
            if condition.type == type_:
                return condition.status == "True"
        return False

    def looks_like(self, other: QueuedWorkload) -> bool:
        """Nothing differs but the version."""
        if self is other:
            return True
        return self.status == other.status and structs.replace(self, version=other.version) == other

    @property
    def is_on_hold(self) -> bool:
        """Its owner keeps it from queueing, for now."""
        shown = self.condition("QuotaReserved")
        return shown is not None and shown.status == "False" and shown.reason == "OnHold"

    @property
    def gated_since(self) -> float | None:
        """Since when it needs preemption that a closed gate forbids; None when it does not.

        Of its two conditions the later one counts, and of two from the same second the one that is True.
        """
        shown = [one for one in self.status.conditions if one.type in GATE_SIGNALS]
        if not shown:
            return None
        signals = [one.at for one in shown if one.status == "True"]
        return min(signals) if signals and max(signals) == max(one.at for one in shown) else None

    @property
    def has_closed_gate(self) -> bool:
        return bool(self.preemption_gates and self.closed_gates)

    @property
    def closed_gates(self) -> tuple[str, ...]:
        opened = {gate.name for gate in self.status.gate_statuses if gate.open}
        return tuple(name for name in self.preemption_gates if name not in opened)


QueueObject = ClusterQueue | LocalQueue | Cohort | ResourceFlavor | WorkloadPriorityClass | AdmissionCheck


class MultiKueueCluster(Struct, frozen=True, gc=False):
    """A worker cluster. Of `secret` and `path` at most one is set: where its kubeconfig is.

    `secret` names a Secret in our own namespace. Neither is set where the cluster is described in another way.
    """

    key: Key
    uid: str
    version: str
    secret: str = ""
    path: str = ""
    conditions: tuple[Condition, ...] = ()
    generation: int = 0
    deleted: float | None = None

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)


class MultiKueueConfig(Struct, frozen=True, gc=False):
    """The worker clusters that an admission check may use, in the order they are tried."""

    key: Key
    uid: str
    version: str
    clusters: tuple[str, ...] = ()
    deleted: float | None = None

    @property
    def name(self) -> str:
        return self.key.name
