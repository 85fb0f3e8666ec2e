"""Why a pod waits: the gate or stage that holds it, its Volcano queue at every level, and who reserves ahead of it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from headgate.engine.journal import Journal
from headgate.engine.scheduler.plane import SchedulerPlane
from headgate.gates.pre_enqueue import PRE_ENQUEUE
from headgate.model.events import Observed
from headgate.model.keys import Key
from headgate.model.objects import Object
from headgate.model.pod import Pod
from headgate.model.resources import Resources, amount_text
from headgate.model.settings import Settings
from headgate.quota.volcano import VolcanoQueueNode


class QueueLevel(Struct, frozen=True):
    """One resource of the pod's queue or of one above it, as quantities; without a limit `capability` is empty."""

    queue: str
    resource: str
    capability: str
    used: str
    reserved: str
    guarantee: str


class AheadReservation(Struct, frozen=True):
    """A pod without a node that reserves capacity which the explained pod could use."""

    pod: str
    queue: str
    requests: str
    since: float


class PodExplanation(Struct, frozen=True):
    pod: str
    decision: str  # of the journal: bind, wait, gate, reserve; empty for a pod that is not ours
    reason: str
    message: str
    node: str = ""
    gates: tuple[str, ...] = ()
    queue: str = ""
    levels: tuple[QueueLevel, ...] = ()
    ahead: tuple[AheadReservation, ...] = ()


def explain_pod(objects: Iterable[Object], settings: Settings, key: Key, now: float) -> PodExplanation | None:
    """Makes the real decision on these objects, all that the scheduler reads, and tells what it says of the pod."""
    journal = Journal()
    plane = SchedulerPlane(settings, PRE_ENQUEUE, journal)
    order = {kind: place for place, kind in enumerate(plane.reads)}
    pod: Pod | None = None
    for found in sorted((each for each in objects if each.key.kind in order), key=lambda each: order[each.key.kind]):
        plane.absorb(Observed(found), now)
        if isinstance(found, Pod) and found.key == key:
            pod = found
    if pod is None:
        return None
    for _ in plane.decide(now):
        pass
    capacity = plane.queue_capacity
    queue, node = capacity.queue_of(pod), capacity.usage.node(capacity.queue_of(pod))
    path = list(node.path()) if node is not None else []
    names = {level.name for level in path} - {"root"} or {queue}
    entry = journal.last(key)
    reason, message = (entry.reason, entry.message) if entry is not None else ("", "")
    if pod.node:
        reason, message = "Scheduled", f"runs on {pod.node}"
    ahead = [
        AheadReservation(_named(each.pod.key), each.queue, _texts(each.pod.shape.requests), each.since(now))
        for each in capacity.reservations.in_order(capacity.in_force.values())
        if each.pod.key != key and _shares(capacity.usage.node(each.queue), names)
    ]
    levels = [
        QueueLevel(
            level.name,
            resource,
            _limit(level.queue.capability, resource),
            amount_text(resource, level.totals.get(resource, 0) - level.reserved.get(resource, 0)),
            amount_text(resource, level.reserved.get(resource, 0)),
            amount_text(resource, level.queue.guarantee[resource]),
        )
        for level in path
        for resource, _ in pod.shape.requests
    ]
    decision = entry.decision if entry is not None else ""
    return PodExplanation(
        _named(key), decision, reason, message, pod.node, pod.gates, queue, tuple(levels), tuple(ahead)
    )


def _shares(node: VolcanoQueueNode | None, names: set[str]) -> bool:
    """Whether a queue is one of these or below one."""
    return node is not None and any(level.name in names for level in node.path())


def _limit(capability: Resources, resource: str) -> str:
    limits = dict(capability.items)
    return amount_text(resource, limits[resource]) if resource in limits else ""


def _named(key: Key) -> str:
    return f"{key.namespace}/{key.name}"


def _texts(requests: Resources) -> str:
    return ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in requests)
