"""Volcano's Queues, what a PodGroup says about its queue, and the names of the queue-allocation gate."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, structs

from headgate.model.keys import Key, Target
from headgate.model.resources import Resources

ROOT, DEFAULT_QUEUE = "root", "default"
DEEPEST_QUEUE = 16  # queues above one another, the root among them
DEVICE_CLASS = "deviceclass/"  # how a queue names what pods request through claims; not counted here
QUEUE_GATE = "scheduling.volcano.sh/queue-allocation-gate"
QUEUE_GATES = frozenset({QUEUE_GATE, "volcano.sh/queue-allocation-gate"})
"""Each is the name of a scheduling gate and of the annotation that asks for it."""
QUEUE_ANNOTATIONS = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")
"""How a pod without a PodGroup names its queue; the first that is set counts."""
RESERVED_AT = "scheduling.headgate.dev/queue-reserved-at"
"""Annotation written with the removal of the gate: since when the pod reserves capacity of its queue."""


class QueueState(StrEnum):
    OPEN = "Open"
    CLOSING = "Closing"  # takes no more pods, and has some
    CLOSED = "Closed"
    UNKNOWN = "Unknown"  # its place in the tree is not known: a parent is missing, or is below itself


class DequeueStrategy(StrEnum):
    """Which pods may start after one that the queue has no capacity for."""

    FIFO = "fifo"  # none behind it
    TRAVERSE = "traverse"  # whichever fit


class PodGroupPhase(StrEnum):
    PENDING = "Pending"
    INQUEUE = "Inqueue"  # its queue has capacity for its minResources
    RUNNING = "Running"
    COMPLETED = "Completed"
    UNKNOWN = "Unknown"  # some of its pods run, fewer than it needs


class QueueCounts(Struct, frozen=True, gc=False):
    """PodGroups by phase."""

    pending: int = 0
    inqueue: int = 0
    running: int = 0
    unknown: int = 0
    completed: int = 0


class VolcanoQueue(Struct, frozen=True, gc=False):
    """A resource that `capability` does not name is limited by the queues above only."""

    key: Key
    uid: str
    version: str
    parent: str = ROOT  # empty for the root itself
    capability: Resources = Resources()
    guarantee: Resources = Resources()  # kept free for it by the queues beside it
    deserved: Resources = Resources()  # what it may take back from others, and what others may not take from it
    priority: int = 0  # higher ones take their turn first and give back last
    reclaimable: bool = True
    weight: int = 1  # of Volcano's proportion plugin, which its capacity plugin does not look at either
    dequeue: DequeueStrategy = DequeueStrategy.TRAVERSE
    state: QueueState | None = None  # as its status shows; None: nothing yet
    counts: QueueCounts = QueueCounts()
    allocated: Resources = Resources()
    reserved: Resources = Resources()
    deleted: float | None = None

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)

    @property
    def is_open(self) -> bool:
        return self.state not in (QueueState.CLOSING, QueueState.CLOSED) and self.deleted is None

    @property
    def limits(self) -> VolcanoQueue:
        """The queue without what only its status says, and with whether it is open."""
        state = QueueState.OPEN if self.is_open else QueueState.CLOSED
        empty = Resources()
        return structs.replace(self, version="", state=state, counts=QueueCounts(), allocated=empty, reserved=empty)


class VolcanoGroup(Struct, frozen=True, gc=False):
    """What only Volcano's PodGroups say: of their queue, and what their status shows."""

    queue: str = DEFAULT_QUEUE
    min_resources: Resources = Resources()
    phase: PodGroupPhase | None = None
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unsupported: str = ""  # a field that asks for what is not served; its pods are not scheduled


def asks_for_gate(annotations: Mapping[str, str]) -> bool:
    """Whether a pod is to be gated until its queue has capacity for it."""
    return any(annotations.get(name) == "true" for name in QUEUE_GATES)


def queue_named(annotations: Mapping[str, str]) -> str:
    """The queue that a pod itself names; empty where it names none."""
    return next((annotations[name] for name in QUEUE_ANNOTATIONS if annotations.get(name)), "")
