"""What may be done to a cluster. Deciding yields these values; only a shell performs them.

They live below the rules so that every rule package can name what it decides.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Raw, Struct

from headgate.model.conditions import Condition
from headgate.model.keys import Key, Target
from headgate.model.pod import Phase
from headgate.model.queue_changes import QueueStatus
from headgate.model.work_changes import WorkChange


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


class Nomination(Struct, frozen=True, gc=False):
    """Write, or with an empty node clear, status.nominatedNodeName."""

    node: str


class PodRun(Struct, frozen=True, gc=False):
    """What a kubelet reports: the pod's phase, since when, and with which code it ended."""

    phase: Phase
    at: float
    reason: str = ""
    exit_code: int | None = None


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


class NodeReadiness(Struct, frozen=True, gc=False):
    ready: bool
    reason: str
    message: str
    at: float


class WorkloadStatus(Struct, frozen=True, gc=False):
    """The whole status of a Workload: its priorities as numbers, and all its conditions."""

    priority: int
    preemption_priority: int
    conditions: tuple[Condition, ...] = ()


class BudgetStatus(Struct, frozen=True, gc=False):
    """What the disruption controller reports of a PodDisruptionBudget."""

    observed_generation: int
    expected: int
    healthy: int
    desired: int
    allowed: int


StatusChange = (
    PodCondition | Nomination | PodRun | JobProgress | NodeReadiness | WorkloadStatus | BudgetStatus | QueueStatus
)


class PatchStatus(Struct, frozen=True, gc=False):
    target: Target
    change: StatusChange


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


SpecChange = Suspension | Unschedulability | Activation | QueuePriority | Finalizers | WorkChange


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


Effect = Bind | RemoveGate | PatchStatus | PatchSpec | Create | Delete | Evict | EmitEvent | WakeAt
Write = Bind | RemoveGate | PatchStatus | PatchSpec | Create | Delete | Evict | EmitEvent
