"""How a decision about a pod is told: one journal entry, and the condition and event rendered from it."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.engine.journal import Entry
from headgate.model.effects import Bind, EmitEvent, EventType, PatchStatus, PodCondition
from headgate.model.events import Outcome
from headgate.model.pod import Pod
from headgate.placement.placer import NoPlacement, Placement

POD_SCHEDULED = "PodScheduled"


def bound(pod: Pod, found: Placement, now: float) -> Entry:
    message = f"assigned {pod.key.namespace}/{pod.key.name} to {found.node}"
    return Entry(now, pod.key, "bind", "Scheduled", message, {"node": found.node, "score": found.score})


def refused(pod: Pod, found: NoPlacement, now: float) -> Entry:
    numbers = {"nodes": found.nodes, **dict(found.reasons)}
    return Entry(now, pod.key, "wait", "Unschedulable", str(found), numbers)


def gated(pod: Pod, reason: str, now: float) -> Entry:
    return Entry(now, pod.key, "gate", "SchedulingGated", reason, {"gates": len(pod.gates)})


def forgotten(bind: Bind, outcome: Outcome, now: float) -> Entry:
    message = f"binding to {bind.node} did not take hold: {outcome.message or outcome.trouble}"
    return Entry(now, bind.target.key, "forget", "BindingFailed", message, {"node": bind.node})


def scheduled_event(pod: Pod, node: str, now: float) -> EmitEvent:
    message = f"Successfully assigned {pod.key.namespace}/{pod.key.name} to {node}"
    return EmitEvent(pod.target, EventType.NORMAL, "Scheduled", "Binding", message, now)


def condition_and_event(pod: Pod, entry: Entry) -> Iterator[PatchStatus | EmitEvent]:
    """What the refused pod's owner sees; nothing when the object says it already."""
    shown = pod.scheduled
    if shown is not None and (shown.status, shown.reason, shown.message) == ("False", entry.reason, entry.message):
        return
    turned = None if shown is not None and shown.status == "False" else entry.at
    yield PatchStatus(pod.target, PodCondition(POD_SCHEDULED, "False", entry.reason, entry.message, turned))
    yield EmitEvent(pod.target, EventType.WARNING, "FailedScheduling", "Scheduling", entry.message, entry.at)
