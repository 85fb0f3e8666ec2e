"""Effects: what may be done to a cluster. Deciding yields these values; only a shell performs them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Raw, Struct

from headgate.model.keys import Condition, Key, Target
from headgate.model.node import Toleration
from headgate.model.pod import Phase
from headgate.model.queues import FlavorDebt, GateStatus, QueuedWorkloadStatus
from headgate.model.resources import Resources
from headgate.model.volcano import PodGroupPhase, QueueCounts, QueueState


class FlavorUse(Struct, frozen=True, gc=False):
    """How much of a flavor is held, and how much of that beyond the queue's own quota; zeros are told too."""

    flavor: str
    total: Resources
    borrowed: Resources = Resources()


class ClusterQueueStatus(Struct, frozen=True, gc=False):
    conditions: tuple[Condition, ...]
    pending: int
    reserving: int
    admitted: int
    reservation: tuple[FlavorUse, ...] = ()  # of workloads with reserved quota
    usage: tuple[FlavorUse, ...] = ()  # of admitted workloads
    weighted_share: int | None = None  # None: without fair sharing


class ClusterQueueDebt(Struct, frozen=True, gc=False):
    """What is owed, by flavor, and nothing else of the status: who knows the pods need not know the quota."""

    debt: tuple[FlavorDebt, ...] = ()


class Consumption(Struct, frozen=True, gc=False):
    """What a local queue has used, where that decides who goes first; in billionths of whole units."""

    consumed: Resources
    at: float


class LocalQueueStatus(Struct, frozen=True, gc=False):
    conditions: tuple[Condition, ...]
    pending: int
    reserving: int
    admitted: int
    reservation: tuple[FlavorUse, ...] = ()  # nothing is borrowed by a local queue
    usage: tuple[FlavorUse, ...] = ()
    consumption: Consumption | None = None


class CohortStatus(Struct, frozen=True, gc=False):
    weighted_share: int | None = None  # None: without fair sharing


class AdmissionCheckStatus(Struct, frozen=True, gc=False):
    conditions: tuple[Condition, ...] = ()


class PreemptionGateStates(Struct, frozen=True, gc=False):
    """The states of all preemption gates of a Workload, and nothing else of its status."""

    gates: tuple[GateStatus, ...]


class MultiKueueClusterStatus(Struct, frozen=True, gc=False):
    conditions: tuple[Condition, ...] = ()


QueueStatus = (
    QueuedWorkloadStatus
    | ClusterQueueStatus
    | ClusterQueueDebt
    | LocalQueueStatus
    | CohortStatus
    | PreemptionGateStates
    | AdmissionCheckStatus
    | MultiKueueClusterStatus
)


class Bind(Struct, frozen=True, gc=False):
    """Assign the pod to the node; refused by the server if the pod is another, gated, bound or going."""

    target: Target
    node: str


class RemoveGate(Struct, frozen=True, gc=False):
    """Take one scheduling gate, found at `index`, off a pod; refused if another gate stands there by now."""

    target: Target
    gate: str
    index: int


class PodCondition(Struct, frozen=True, gc=False):
    """Set one condition of a pod. `at` is when its status changed; None when it did not: the old time stays."""

    type: str
    status: str
    reason: str
    message: str
    at: float | None
    new_reason: bool = False  # the pod shows another reason, or none: autoscalers wait for that, not for texts


class Nomination(Struct, frozen=True, gc=False):
    """Write, or with an empty node clear, status.nominatedNodeName."""

    node: str


class PodRun(Struct, frozen=True, gc=False):
    """What a kubelet reports: the pod's phase, since when, with which code it ended, and of which containers that is
    told.
    """

    phase: Phase
    at: float
    reason: str = ""
    exit_code: int | None = None
    containers: tuple[tuple[str, str], ...] = ()  # names and images
    started: float | None = None  # of those that ended


class JobProgress(Struct, frozen=True, gc=False):
    """What the Job controller reports. `condition` is Complete, Failed or Suspended when one is to be True."""

    active: int
    ready: int
    succeeded: int
    failed: int
    started: float | None
    at: float
    condition: str = ""
    reason: str = ""
    message: str = ""
    completed_indexes: str | None = None  # of an Indexed Job
    failed_indexes: str | None = None  # where indexes have a backoff limit of their own


class ReplicaCounts(Struct, frozen=True, gc=False):
    """What the controllers of ReplicaSets, Deployments and StatefulSets report."""

    observed: int  # generation
    replicas: int
    ready: int


class CronJobProgress(Struct, frozen=True, gc=False):
    last_scheduled: float


class NodeReadiness(Struct, frozen=True, gc=False):
    ready: bool
    reason: str
    message: str
    at: float


class WorkloadStatus(Struct, frozen=True, gc=False):
    """The whole status of a Workload: what its classes were worth when it was first seen, and all its conditions."""

    priority: int
    preemption_priority: int
    preempts: bool = True
    conditions: tuple[Condition, ...] = ()


class VolcanoQueueStatus(Struct, frozen=True, gc=False):
    """The whole status of a Queue of Volcano."""

    state: QueueState
    counts: QueueCounts = QueueCounts()
    allocated: Resources = Resources()  # of pods on nodes
    reserved: Resources = Resources()  # of pods whose gate was removed and that have no node yet


class PodGroupStatus(Struct, frozen=True, gc=False):
    """The whole status of a PodGroup of Volcano."""

    phase: PodGroupPhase
    conditions: tuple[Condition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class BudgetStatus(Struct, frozen=True, gc=False):
    """What the disruption controller reports of a PodDisruptionBudget."""

    observed_generation: int
    expected: int
    healthy: int
    desired: int
    allowed: int


VolcanoStatus = VolcanoQueueStatus | PodGroupStatus
StatusChange = (
    PodCondition
    | Nomination
    | PodRun
    | JobProgress
    | ReplicaCounts
    | CronJobProgress
    | NodeReadiness
    | WorkloadStatus
    | BudgetStatus
    | QueueStatus
    | VolcanoStatus
)


POD_SCHEDULED = "PodScheduled"
Informative = ClusterQueueStatus | ClusterQueueDebt | LocalQueueStatus | CohortStatus
"""Changes of status that only tell how things stand, whoever makes them and on what occasion."""


class PatchStatus(Struct, frozen=True, gc=False):
    """`permitted` marks an informative write for which the engine took a permit, so that it waits no more."""

    target: Target
    change: StatusChange
    permitted: bool = False

    @property
    def informs(self) -> bool:
        """Whether it only tells how things stand: nobody decides by it, so it may come late."""
        change = self.change
        if isinstance(change, PodCondition):
            return change.type == POD_SCHEDULED
        return self.permitted or isinstance(change, Informative)


class Directives(Struct, frozen=True, gc=False):
    """What pods are told about where to run and what they are part of.

    In a change of a Job's template None removes an entry, and the tolerations are all it is to have (None: those
    it has); a pod only ever gets more, and the tolerations are those it lacks.
    """

    node_selector: Mapping[str, str | None] = {}
    tolerations: tuple[Toleration, ...] | None = None
    labels: Mapping[str, str | None] = {}
    annotations: Mapping[str, str | None] = {}


class JobStart(Struct, frozen=True, gc=False):
    """Unsuspend a Job whose pods are to be like this; the target must name the version it was made from."""

    directives: Directives
    parallelism: int | None = None  # None: as it is
    completions: int | None = None


class JobStop(Struct, frozen=True, gc=False):
    """Suspend a Job and mark it: its template is to be put back once nothing of it runs."""


class JobSuspend(Struct, frozen=True, gc=False):
    """Suspend a Job that others start again."""


class JobRestore(Struct, frozen=True, gc=False):
    """Put back the template of a Job that was stopped, and take the mark off; the target must name the version."""

    directives: Directives
    parallelism: int | None = None
    completions: int | None = None


class PodStart(Struct, frozen=True, gc=False):
    """Give a gated pod what it lacks and take the gates off, all at once; refused if other gates stand there by now.

    `gates` are those to take off with the place each stands at; the others say what there is to add to.
    """

    directives: Directives
    gates: tuple[tuple[int, str], ...]
    has_selector: bool = False
    has_tolerations: bool = False
    has_annotations: bool = False


class QueueReservation(Struct, frozen=True, gc=False):
    """Take the queue-allocation gates off a pod and note since when it reserves capacity of its queue.

    Refused if other gates stand there by now. Without gates only the time is noted.
    """

    at: float
    gates: tuple[tuple[int, str], ...] = ()
    has_annotations: bool = True


class WorkloadRewrite(Struct, frozen=True, gc=False):
    """Put fields of a queued workload's spec in place of what was there; the target must name the version."""

    spec: Raw


class Owners(Struct, frozen=True, gc=False):
    """Name all who own an object; `controller` is the one of them that controls it, if any does."""

    owners: tuple[Target, ...]
    controller: Target | None = None


class Annotations(Struct, frozen=True, gc=False):
    """Set annotations; None removes one. Others stay."""

    values: Mapping[str, str | None]


WorkChange = JobStart | JobStop | JobSuspend | JobRestore | PodStart | WorkloadRewrite | Owners | Annotations


class Suspension(Struct, frozen=True, gc=False):
    """Set spec.suspend of a Job."""

    suspended: bool


class Unschedulability(Struct, frozen=True, gc=False):
    """Set spec.unschedulable of a node."""

    unschedulable: bool


class Activation(Struct, frozen=True, gc=False):
    """Set spec.active of a queued workload."""

    active: bool


class QueuePriority(Struct, frozen=True, gc=False):
    """Set spec.priority of a queued workload."""

    priority: int


class Finalizers(Struct, frozen=True, gc=False):
    """Set metadata.finalizers, the whole list; the target must name the version it was made from."""

    names: tuple[str, ...]


class Scale(Struct, frozen=True, gc=False):
    """Set spec.replicas."""

    replicas: int


SpecChange = (
    Suspension | Scale | Unschedulability | Activation | QueuePriority | Finalizers | QueueReservation | WorkChange
)


class PatchSpec(Struct, frozen=True, gc=False):
    """Change what is wanted of an object, as far as its status is not concerned."""

    target: Target
    change: SpecChange


class Create(Struct, frozen=True, gc=False):
    """Create the object; `manifest` is complete JSON and names the same object as `key`."""

    key: Key
    manifest: Raw


class Delete(Struct, frozen=True, gc=False):
    """Delete the object; `grace` None keeps the object's own grace period."""

    target: Target
    grace: int | None = None


class Evict(Struct, frozen=True, gc=False):
    """Ask a pod to leave: its DisruptionTarget condition first, then its deletion."""

    target: Target
    reason: str
    message: str
    at: float


class EventType(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


class EmitEvent(Struct, frozen=True, gc=False):
    """Record a Kubernetes event on the target. Best effort: a lost one is not decided again."""

    target: Target
    type: EventType
    reason: str
    action: str
    message: str
    at: float


class WakeAt(Struct, frozen=True, gc=False):
    """Hand a `TimerFired` with this name back at that time.

    `idle` marks a safety net at which nothing is expected to happen: a cluster that waits only for those has settled.
    """

    at: float
    timer: str
    idle: bool = False


Write = Bind | RemoveGate | PatchStatus | PatchSpec | Create | Delete | Evict | EmitEvent
Effect = Write | WakeAt
"""What concerns the cluster the engine decides about."""


class RemoteWrite(Struct, frozen=True, gc=False):
    """Perform the write on that worker cluster; its outcome is a `RemoteEvent` of the same cluster."""

    cluster: str
    write: Write


class Connect(Struct, frozen=True, gc=False):
    """Use this worker cluster from now on. Where the source is another than before, the old connection is replaced.

    Exactly one of `secret` (its name in our own namespace) and `path` says where the kubeconfig is.
    """

    cluster: str
    secret: str = ""
    path: str = ""


class Disconnect(Struct, frozen=True, gc=False):
    """Forget this worker cluster: nothing more is told of it."""

    cluster: str


FleetEffect = RemoteWrite | Connect | Disconnect
"""What concerns other clusters."""
