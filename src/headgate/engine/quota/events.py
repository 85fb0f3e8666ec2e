"""Journal entries and events of decisions about workloads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from headgate.engine.journal import Entry
from headgate.engine.quota.metrics import queued_since
from headgate.engine.quota.workload_records import LazyEvent, Refusal
from headgate.lifecycle.workload.conditions import ADMITTED, QUOTA_RESERVED, true_since
from headgate.lifecycle.workload.next_step import Step
from headgate.lifecycle.workload.queue_snapshot import MISCONFIGURED
from headgate.model.effects import EmitEvent, EventType
from headgate.model.kueue_names import JOB_UID
from headgate.model.queues import Admission, QueuedWorkload
from headgate.preemption.quota.search import Victim
from headgate.quota.ledger import Ledger
from headgate.quota.pending_workload import PendingWorkload

LONGEST_EVENT = 1024
UNKNOWN = "UNKNOWN"
WARNINGS = frozenset({"deactivationTarget"})
EVENTS_BY_REASON = frozenset({"AdmissionGated", "AdmissionGateCleared", "Deleted", ADMITTED})
"""Lifecycle steps that are emitted as events under their own reason."""


def reserved(
    workload: QueuedWorkload, given: Admission, borrow: int, now: float, *, is_admitted: bool
) -> tuple[Entry, tuple[LazyEvent, ...]]:
    """The entry of a reservation, and its events: QuotaReserved, and Admitted where no check is still to pass."""
    queue, waited = given.cluster_queue, now - queued_since(workload)
    numbers = {**_summary(given), "borrow_level": borrow, "queued_ms": round(waited * 1000)}
    has_quota = partial(_reserved_event, workload, queue, waited, now)
    if not is_admitted:
        message = f"quota reserved in {queue}"
        return Entry(now, workload.key, "reserve", QUOTA_RESERVED, message, numbers), (has_quota,)
    entry = Entry(now, workload.key, "admit", ADMITTED, f"admitted by {queue}", numbers)
    return entry, (has_quota, partial(_admitted_event, workload, queue, now, now))


def _summary(given: Admission) -> dict[str, int | str]:
    flavors: set[str] = set()
    pods = 0
    for one in given.pod_sets:
        flavors.update(dict(one.flavors).values())
        pods += one.count
    return {
        "queue": given.cluster_queue,
        "flavors": ",".join(sorted(flavors) if len(flavors) > 1 else flavors),
        "pods": pods,
    }


def refused(head: PendingWorkload, refusal: Refusal, now: float) -> Entry:
    numbers: dict[str, int | str] = {"queue": head.queue}
    cost = refusal.proposal
    if cost is not None and cost.can_preempt:
        numbers |= {"victims": cost.victims, "highest_priority": cost.highest_priority, "pods": cost.pods}
    return Entry(now, head.key, "wait", refusal.reason, refusal.message, numbers)


def preempted(victim: QueuedWorkload, head: PendingWorkload, chosen: Victim, message: str, now: float) -> Entry:
    numbers: dict[str, int | str] = {
        "for": str(head.key),
        "queue": chosen.reservation.queue,
        "for_queue": head.queue,
        "priority": chosen.reservation.priority,
        "for_priority": head.priority,
    }
    return Entry(now, victim.key, "preempt", chosen.reason.value, message, numbers)


def stepped(workload: QueuedWorkload, step: Step, now: float) -> Entry:
    return Entry(now, workload.key, step.decision, step.reason, step.message)


def forgotten(workload: QueuedWorkload, now: float) -> Entry:
    message = "the workload is not as it was when this was decided, so it is decided anew"
    return Entry(now, workload.key, "forget", "WriteFailed", message)


def _reserved_event(workload: QueuedWorkload, queue: str, waited: float, now: float) -> EmitEvent:
    message = f"Quota reserved in ClusterQueue {queue}, wait time since queued was {max(0, waited):.0f}s"
    return _event(workload, QUOTA_RESERVED, message, now)


def refused_event(workload: QueuedWorkload, refusal: Refusal, now: float) -> EmitEvent:
    return _event(workload, refusal.reason, refusal.message, now, EventType.WARNING)


def preempted_message(preemptor: PendingWorkload, chosen: Victim, ledger: Ledger) -> str:
    job = preemptor.workload.labels.get(JOB_UID) or UNKNOWN
    paths = ledger.forest.path_of(preemptor.queue), ledger.forest.path_of(chosen.reservation.queue)
    return (
        f"Preempted to accommodate a workload (UID: {preemptor.workload.uid}, JobUID: {job}) due to "
        f"{chosen.reason.text}; preemptor path: {paths[0]}; preemptee path: {paths[1]}"
    )


def evicted_event(victim: QueuedWorkload, message: str, now: float) -> EmitEvent:
    return _event(victim, "EvictedDueToPreempted", message, now)


def preempted_event(victim: QueuedWorkload, message: str, preemptor: PendingWorkload, now: float) -> EmitEvent:
    return _event(victim, "Preempted", f"{message}; {_priorities(preemptor, victim)}", now)


def preempted_for_event(preemptor: PendingWorkload, victim: QueuedWorkload, queue: str, now: float) -> EmitEvent:
    """Tells the preemptor whom it preempted; `queue` is the ClusterQueue of the victim."""
    who = f"{victim.key.namespace}/{victim.key.name} (UID: {victim.uid}) in ClusterQueue {queue}"
    message = f"Preempted workload {who}; {_priorities(preemptor, victim)}"
    return _event(preemptor.workload, "PreemptedWorkload", message, now)


def _priorities(preemptor: PendingWorkload, victim: QueuedWorkload) -> str:
    return f"{_worth('preemptor', preemptor.workload)}; {_worth('preemptee', victim)}"


def step_events(workload: QueuedWorkload, step: Step, now: float) -> Iterator[LazyEvent]:
    if step.decision == "evict":
        yield partial(_event, workload, f"EvictedDueTo{step.reason}", step.message, now)
    elif step.decision in WARNINGS:
        yield partial(_event, workload, step.reason, step.message, now, EventType.WARNING)
    elif step.reason == ADMITTED and workload.status.admission is not None:
        since, queue = true_since(workload, QUOTA_RESERVED), workload.status.admission.cluster_queue
        yield partial(_admitted_event, workload, queue, now if since is None else since, now)
    elif step.decision == "wait" and step.reason == MISCONFIGURED:
        yield partial(_event, workload, step.reason, step.message, now, EventType.WARNING)
    elif step.reason in EVENTS_BY_REASON:
        yield partial(_event, workload, step.reason, step.message, now)


def _admitted_event(workload: QueuedWorkload, queue: str, since: float, now: float) -> EmitEvent:
    text = f"Admitted by ClusterQueue {queue}, wait time since reservation was {max(0, now - since):.0f}s"
    return _event(workload, ADMITTED, text, now)


def _worth(who: str, workload: QueuedWorkload) -> str:
    total, base, boost = workload.effective_priority, workload.priority, workload.boost
    return f"{who} effective priority: {total} (base: {base}, boost: {boost})"


def _event(
    workload: QueuedWorkload, reason: str, message: str, now: float, kind: EventType = EventType.NORMAL
) -> EmitEvent:
    return EmitEvent(workload.target, kind, reason, reason, message[:LONGEST_EVENT], now)
