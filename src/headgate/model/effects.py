"""What may be done to a cluster. Deciding yields these values; only a shell performs them.

They live below the rules so that every rule package can name what it decides.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Raw, Struct

from headgate.model.keys import Key, Target
from headgate.model.pod import Phase


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


StatusChange = PodCondition | Nomination | PodRun | JobProgress | NodeReadiness


class PatchStatus(Struct, frozen=True, gc=False):
    target: Target
    change: StatusChange


class Suspension(Struct, frozen=True, gc=False):
    """Set spec.suspend of a Job."""

    suspended: bool


class Unschedulability(Struct, frozen=True, gc=False):
    """Set spec.unschedulable of a node."""

    unschedulable: bool


SpecChange = Suspension | Unschedulability


class PatchSpec(Struct, frozen=True, gc=False):
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
