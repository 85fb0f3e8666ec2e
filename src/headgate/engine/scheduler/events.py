"""What is reported about a pod: one journal entry for each decision, and the condition and event rendered from it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headgate.engine.in_flight import RETRIABLE, InFlightWrites, WritePolicy
from headgate.engine.journal import Entry, Journal
from headgate.engine.scheduler.capacity import NotNow
from headgate.gates.pre_enqueue import Held
from headgate.model.effects import POD_SCHEDULED, Bind, EmitEvent, EventType, Nomination, PatchStatus, PodCondition
from headgate.model.events import Outcome, WriteError
from headgate.model.keys import Key
from headgate.model.pod import Pod, ScheduledCondition
from headgate.placement.placer import NoPlacement, Placement
from headgate.queueing.queue import QueuedPodInfo

GATED = "SchedulingGated"
RELEASED = "nothing keeps the pod from being scheduled any more"


def bound(info: QueuedPodInfo, found: Placement, now: float) -> Entry:
    pod = info.pod
    message = f"assigned {pod.key.namespace}/{pod.key.name} to {found.node}"
    numbers: dict[str, int | str] = {
        "node": found.node,
        "score": found.score,
        "profile": pod.scheduler_name,
        "attempts": info.attempts,
        "queued_ms": round((now - info.since) * 1000),
    }
    return Entry(now, pod.key, "bind", "Scheduled", message, numbers)


def refused(pod: Pod, found: NoPlacement, post_filter: str, now: float) -> Entry:
    """`post_filter` says what preemption can do about it."""
    numbers: dict[str, int | str] = {"nodes": found.nodes, **dict(found.reasons), "profile": pod.scheduler_name}
    message = f"{found} {post_filter[0].upper()}{post_filter[1:]}." if post_filter else str(found)
    return Entry(now, pod.key, "wait", "Unschedulable", message, numbers)


def deferred(pod: Pod, stage: str, not_now: NotNow, now: float) -> Entry:
    """A capacity stage does not let the pod pass now."""
    numbers: dict[str, int | str] = {**not_now.numbers, "stage": stage, "profile": pod.scheduler_name}
    return Entry(now, pod.key, "wait", not_now.reason, not_now.message, numbers)


def reserved(pod: Pod, queue: str, now: float) -> Entry:
    """The gate of a pod that no node fits is removed."""
    message = f"queue {queue} has capacity and no node fits: the pod reserves that capacity until one does"
    return Entry(now, pod.key, "reserve", "QueueCapacityReserved", message, {"queue": queue})


def gated(pod: Pod, held: Held, now: float) -> Entry:
    return Entry(now, pod.key, "gate", GATED, held.reason, {"plugin": held.plugin, "gates": ", ".join(pod.gates)})


def released(pod: Pod, now: float) -> Entry:
    return Entry(now, pod.key, "ungate", "SchedulingGatesRemoved", RELEASED)


def forgotten(pod: Pod, bind: Bind, outcome: Outcome, now: float) -> Entry:
    message = f"binding to {bind.node} did not take hold: {outcome.message or outcome.trouble}"
    return Entry(now, pod.key, "forget", "BindingFailed", message, {"node": bind.node, "profile": pod.scheduler_name})


def scheduled_event(pod: Pod, node: str, now: float) -> EmitEvent:
    message = f"Successfully assigned {pod.key.namespace}/{pod.key.name} to {node}"
    return EmitEvent(pod.target, EventType.NORMAL, "Scheduled", "Binding", message, now)


def failed_event(pod: Pod, entry: Entry) -> EmitEvent:
    """The binding failed."""
    return EmitEvent(pod.target, EventType.WARNING, "FailedScheduling", "Binding", entry.message, entry.at)


def queued(pod: Pod) -> PatchStatus:
    """In place of a condition that would still call the pod gated. Autoscalers look for Unschedulable, not for this."""
    return PatchStatus(pod.target, PodCondition(POD_SCHEDULED, "False", "SchedulingQueued", RELEASED, None, True))


def shown_as_gated(pod: Pod) -> bool:
    return pod.scheduled is not None and pod.scheduled.reason == GATED


def condition_and_event(pod: Pod, entry: Entry) -> Iterator[PatchStatus | EmitEvent]:
    """What the refused pod's owner sees; nothing when the object says it already."""
    if _shows(pod, entry):
        return
    yield _condition(pod, entry)
    yield EmitEvent(pod.target, EventType.WARNING, "FailedScheduling", "Scheduling", entry.message, entry.at)


def gated_condition_and_event(pod: Pod, entry: Entry) -> Iterator[PatchStatus | EmitEvent]:
    """What the held pod's owner sees: the condition, and an event when it was not called gated before."""
    if _shows(pod, entry):
        return
    yield _condition(pod, entry)
    if not shown_as_gated(pod):
        yield EmitEvent(pod.target, EventType.NORMAL, GATED, "Scheduling", entry.message, entry.at)


def _shows(pod: Pod, entry: Entry) -> bool:
    return pod.scheduled == _condition_of(entry)


def shows(pod: Pod, gated: str) -> bool:
    """Whether the pod is called gated with this text."""
    return pod.scheduled == ScheduledCondition("False", GATED, gated)


def _condition(pod: Pod, entry: Entry) -> PatchStatus:
    shown = pod.scheduled if pod.scheduled is not None and pod.scheduled.status == "False" else None
    turned = None if shown is not None else entry.at
    new_reason = shown is None or shown.reason != entry.reason
    change = PodCondition(POD_SCHEDULED, "False", entry.reason, entry.message, turned, new_reason)
    return PatchStatus(pod.target, change)


def may_take_effect_later(outcome: Outcome) -> bool:
    """Whether to send again what did not take effect, or perhaps did.

    That a pod waits is written, and a nomination or a mark removed, whatever the pod looks like by now.
    """
    match outcome.effect:
        case (
            PatchStatus(change=Nomination(node=""))
            | PatchStatus(change=PodCondition(type="PodScheduled"))
            | PatchStatus(change=PodCondition(type="DisruptionTarget", status="False"))
        ):
            return outcome.trouble in RETRIABLE or outcome.trouble is WriteError.CONFLICT
    return outcome.trouble in RETRIABLE


Report = PatchStatus | EmitEvent


class PodConditions:
    """The PodScheduled condition of every pod that waits, with its journal entry and event, once for each reason.

    What was written last counts, observed or not: the object may still show something older, and an older text whose
    write failed must not be written again after a newer one.
    """

    def __init__(self, journal: Journal, policy: WritePolicy) -> None:
        self._journal = journal
        # conditions whose write failed, by pod; the many that succeed at once are not kept
        self.retries = InFlightWrites[Key, PatchStatus](policy)
        self._written: dict[Key, ScheduledCondition] = {}

    def waits(self, pod: Pod, entry: Entry) -> list[Report]:
        """The pod stays in the queue for the reason of this entry; nothing is reported when that was written last."""
        condition = _condition_of(entry)
        if self._written.get(pod.key) == condition:
            return []
        self._journal.write(entry)
        return self._write(pod.key, condition, list(condition_and_event(self._as_written(pod), entry)))

    def held_back(self, pod: Pod, entry: Entry) -> list[Report]:
        """As `waits`, for a pod that is shown as gated: its queue has no capacity for it."""
        return [] if self._written.get(pod.key) == _condition_of(entry) else self.gated(pod, entry)

    def gated(self, pod: Pod, entry: Entry) -> list[Report]:
        self._journal.write(entry)
        return self._write(pod.key, _condition_of(entry), list(gated_condition_and_event(self._as_written(pod), entry)))

    def released(self, pod: Pod, now: float) -> None:
        """No plugin holds the pod any more. Its condition is that of its first attempt, or `queued`."""
        self._journal.write(released(pod, now))

    def queued(self, pod: Pod) -> list[Report]:
        """The pod waits for its turn and for nothing else."""
        patch = queued(pod)
        assert isinstance(patch.change, PodCondition)
        return self._write(pod.key, _shown(patch.change), [patch])

    def still_says(self, pod: Key, condition: PodCondition) -> bool:
        """Whether this is what was written about the pod last."""
        return self._written.get(pod) == _shown(condition)

    def forget(self, key: Key) -> None:
        """The pod does not wait any more."""
        self._written.pop(key, None)

    def _as_written(self, pod: Pod) -> Pod:
        written = self._written.get(pod.key)
        return pod if written is None else msgspec.structs.replace(pod, scheduled=written)

    def _write(self, pod: Key, condition: ScheduledCondition, reports: list[Report]) -> list[Report]:
        self._written[pod] = condition
        if reports and len(self.retries):
            self.retries.forget(pod)  # an older text must not come after this one
        return reports


def _condition_of(entry: Entry) -> ScheduledCondition:
    return ScheduledCondition("False", entry.reason, entry.message)


def _shown(condition: PodCondition) -> ScheduledCondition:
    return ScheduledCondition(condition.status, condition.reason, condition.message)
