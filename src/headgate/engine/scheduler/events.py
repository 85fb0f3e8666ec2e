"""What the scheduler plane reports: journal entries, the conditions and events rendered from them, and metrics.

There is one entry for each decision about a pod. A preemption has its receipt in the journal, and events that do not
name other tenants' pods. Metrics are named as kube-scheduler's: pods in the queue, attempts, preemption searches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec
from msgspec import Struct

from headgate.engine.in_flight import RETRIABLE, InFlightWrites, WritePolicy
from headgate.engine.journal import Entry, Journal
from headgate.engine.metrics import Number
from headgate.engine.scheduler.capacity import NotNow
from headgate.gates.pre_enqueue import Held
from headgate.model.effects import (
    POD_SCHEDULED,
    Bind,
    EmitEvent,
    EventType,
    Evict,
    Nomination,
    PatchStatus,
    PodCondition,
)
from headgate.model.events import Outcome, WriteError
from headgate.model.keys import Key
from headgate.model.pod import EvictionMark, GroupKey, Pod, ScheduledCondition, evicted_together
from headgate.model.quantity import counted
from headgate.placement.placer import NoPlacement, Placement
from headgate.preemption.receipts import Receipt
from headgate.preemption.search import Plan, Preemptor
from headgate.queueing.queue import PodQueue, QueuedPodInfo

GATED = "SchedulingGated"
RELEASED = "nothing keeps the pod from being scheduled any more"

BY_SCHEDULER = "PreemptionByScheduler"
REST = "the rest of its gang has been preempted"
ABANDONED = "the preemption was abandoned"
SHOWN = 5  # names in a text before it only counts
NAMED = 200  # victims a receipt names
EVENT_LIMIT = 1024
NominatedNodes = Iterable[tuple[Pod, str]]


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


def preempting_text(plan: Plan) -> str:
    """The same while the plan is carried out: a text that counts down would be written for every victim."""
    pods = sum(len(unit.pods) for unit in plan.victims)
    if not pods:
        return awaiting_text(plan.placements)
    asking = max(pod.priority for pod, _ in plan.placements)
    lower = all(unit.priority < asking for unit in plan.victims)
    whom = counted(pods, "lower-priority pod") if lower else f"{counted(pods, 'pod')} that a queue gives back"
    return f"preempting {whom} on {_nodes_of(plan.placements)}"


def awaiting_text(placements: NominatedNodes) -> str:
    return f"waiting for terminating pods on {_nodes_of(placements)}"


def _nodes_of(placements: NominatedNodes) -> str:
    return listed(dict.fromkeys(node for _, node in placements))


def preempting(preemptor: Preemptor, plan: Plan, now: float) -> Entry:
    """The receipt: victims, preemptor, policy, cost and the alternatives that were compared."""
    receipt = plan.receipt
    victims = ", ".join(f"{named(line.key)} (priority {line.priority})" for line in receipt.victims[:SHOWN])
    more = len(receipt.victims) - SHOWN
    message = f"{named(preemptor.key)}, priority {preemptor.priority}, preempts {victims or 'nobody'}"
    message += f" and {more} more" if more > 0 else ""
    disrupted = {pod.group.workload for unit in plan.victims for pod in unit.pods if pod.group is not None}
    numbers = {**_numbers(receipt), "workloads": len(disrupted)}
    return Entry(now, object_of(preemptor), "preempt", "Preempting", message, numbers)


def evicted(pod: Pod, preemptor: Preemptor, plan: Plan, now: float) -> Entry:
    message = f"preempted on {pod.node} by {named(preemptor.key)}, priority {preemptor.priority}{_why(pod, preemptor)}"
    numbers = {**_numbers(plan.receipt), "node": pod.node, "for": named(preemptor.key)}
    return Entry(now, pod.key, "evict", "Preempted", message, numbers)


def evicted_from_queue(pod: Pod, preemptor: Preemptor, now: float) -> Entry:
    message = f"leaves its queue to {named(preemptor.key)}, priority {preemptor.priority}"
    return Entry(
        now, pod.key, "evict", "QueuePreempted", message, {"node": pod.node, "preemptor": named(preemptor.key)}
    )


def rest_evicted(pod: Pod, now: float) -> Entry:
    return Entry(now, pod.key, "evict", "Preempted", REST, {"node": pod.node})


def _numbers(receipt: Receipt) -> dict[str, int | str]:
    """The numbers of the receipt."""
    return {
        "policy": receipt.policy,
        "domain": receipt.domain,
        "compared": ", ".join(receipt.compared),
        "budget violations": dict(receipt.criteria)["budget violations"],
        "gangs broken": receipt.gangs_broken,
        "victims": sum(line.pods for line in receipt.victims),
        "units": len(receipt.victims),
        "work_lost": sum(line.work_lost for line in receipt.victims),
        "displaced": receipt.displaced,
        "names": ", ".join(named(line.key) for line in receipt.victims[:NAMED]),
        "candidates": receipt.candidates,
        "domains": receipt.domains,
        "alternatives": "; ".join(f"{other.where}: {other.why}" for other in receipt.alternatives),
        "certificate": receipt.certificate,
    }


def victim_text(pod: Pod, preemptor: Preemptor, mark: EvictionMark | None = None) -> str:
    """By whom the pod is preempted, as far as its owner may know, and with which gang it is evicted."""
    who = f"{_as_seen_from(pod, preemptor)}, which has priority {preemptor.priority}{_why(pod, preemptor)}"
    return evicted_together(f"Preempted by {who}, on node {pod.node}", mark)


def victim_event(evict: Evict, now: float) -> EmitEvent:
    """The eviction was accepted."""
    return EmitEvent(evict.target, EventType.NORMAL, "Preempted", "Preempting", evict.message, now)


def not_evicted(evict: Evict, outcome: Outcome, now: float) -> Entry:
    """The eviction failed for good, and the pod is kept."""
    return Entry(now, evict.target.key, "keep", "EvictionFailed", f"not evicted: {outcome.message or outcome.trouble}")


def not_evicted_event(evict: Evict, entry: Entry) -> EmitEvent:
    return EmitEvent(evict.target, EventType.WARNING, entry.reason, "Preempting", entry.message, entry.at)


def preemptor_event(preemptor: Preemptor, plan: Plan, now: float) -> EmitEvent:
    """On the pod, or on the first member of the group."""
    own = preemptor.pods[0].key.namespace
    mine = [f"pod {pod.key.name}" for unit in plan.victims for pod in unit.pods if pod.key.namespace == own]
    others = sum(len(unit.pods) for unit in plan.victims) - len(mine)
    text = ", ".join([*mine[:SHOWN], *([f"{len(mine) - SHOWN} more"] if len(mine) > SHOWN else [])])
    text += (" and " if text else "") + f"{counted(others, 'pod')} of other namespaces" if others else ""
    message = f"Preempting {text}"[:EVENT_LIMIT]
    return EmitEvent(preemptor.pods[0].target, EventType.NORMAL, "Preempting", "Preempting", message, now)


def listed(names: Iterable[str]) -> str:
    all_names = list(names)
    more = len(all_names) - SHOWN
    return ", ".join(all_names[:SHOWN]) + (f" and {counted(more, 'more node')}" if more > 0 else "")


def object_of(preemptor: Preemptor) -> Key:
    """The object under which the journal keeps the preemption."""
    return preemptor.key.workload if isinstance(preemptor.key, GroupKey) else preemptor.key


def _why(victim: Pod, preemptor: Preemptor) -> str:
    """Said where it is not its priority that makes a pod leave."""
    return ", for a queue that takes back what it deserves" if victim.priority >= preemptor.priority else ""


def _as_seen_from(pod: Pod, preemptor: Preemptor) -> str:
    if preemptor.pods[0].key.namespace == pod.key.namespace:
        return named(preemptor.key)
    return "a pod group of another namespace" if isinstance(preemptor.key, GroupKey) else "a pod of another namespace"


def named(key: Key | GroupKey) -> str:
    if isinstance(key, Key):
        return f"pod {key.namespace}/{key.name}"
    parts = (key.workload.name, key.group, key.replica)
    return f"pod group {key.workload.namespace}/{'/'.join(part for part in parts if part)}"


class AttemptResult(StrEnum):
    """The result of an attempt; the values are the labels of scheduler_schedule_attempts_total and its like."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting_on_preemption"  # of groups only: a pod that waits for its victims counts as unschedulable
    ERROR = "error"  # the binding failed


class GroupAttempt(Struct):
    """An attempt to schedule a gang: it succeeds with the last of its bindings."""

    bindings: int  # that are not known to have succeeded


class SchedulerMetrics:
    def __init__(self, queue: PodQueue) -> None:
        self._queue = queue
        self._pods: Counter[tuple[AttemptResult, str]] = Counter()  # by profile
        self._groups: Counter[tuple[AttemptResult, str]] = Counter()
        self._searches = 0
        self._group_searches: Counter[str] = Counter()

    def attempted(self, info: QueuedPodInfo, result: AttemptResult, pods: int) -> None:
        """An attempt of a queue entry with so many pods has ended without a placement."""
        profile = info.pod.scheduler_name
        self._pods[AttemptResult.UNSCHEDULABLE if result is AttemptResult.WAITING else result, profile] += pods
        if info.group is not None:
            self._groups[result, profile] += 1

    def bound(self, profile: str, attempt: GroupAttempt | None) -> None:
        """A binding succeeded; `attempt` is that of its gang, if it was tried as one."""
        self._pods[AttemptResult.SCHEDULED, profile] += 1
        if attempt is not None:
            attempt.bindings -= 1
            self._groups[AttemptResult.SCHEDULED, profile] += not attempt.bindings

    def failed(self, profile: str, *, as_group: bool) -> None:
        """A binding failed; `as_group` for the first one of a gang's attempt."""
        self._pods[AttemptResult.ERROR, profile] += 1
        self._groups[AttemptResult.ERROR, profile] += as_group

    def searched(self, found: bool, *, for_group: bool) -> None:
        """Victims were searched for."""
        if for_group:
            self._group_searches["success" if found else "unschedulable"] += 1
        else:
            self._searches += 1

    def collect(self) -> Iterator[Number]:
        """Gauges of the queue and counters, by metric, labels and value."""
        for name, size in self._queue.sizes.items():
            yield "scheduler_pending_pods", (("queue", name),), size
        for (name, event), count in self._queue.incoming.items():
            yield "scheduler_queue_incoming_pods_total", (("event", event), ("queue", name)), count
        for (plugin, profile), size in self._queue.unschedulable_by.items():
            yield "scheduler_unschedulable_pods", (("plugin", plugin), ("profile", profile)), size
        for (result, profile), count in self._pods.items():
            yield "scheduler_schedule_attempts_total", (("profile", profile), ("result", result)), count
        for (result, profile), count in self._groups.items():
            yield "scheduler_podgroup_schedule_attempts_total", (("profile", profile), ("result", result)), count
        yield "scheduler_preemption_attempts_total", (), self._searches
        for came_of_it, count in self._group_searches.items():
            yield "scheduler_workload_preemption_attempts_total", (("result", came_of_it),), count
