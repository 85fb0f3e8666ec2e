"""The conditions of a queued workload: their names, and how one edit of its status is put together."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from headgate.model.keys import Condition
from headgate.model.queues import GATE_SIGNALS, QueuedWorkload, QueuedWorkloadStatus

QUOTA_RESERVED = "QuotaReserved"
ADMITTED = "Admitted"
EVICTED = "Evicted"
PREEMPTED = "Preempted"
REQUEUED = "Requeued"
FINISHED = "Finished"
PODS_READY = "PodsReady"
ON_HOLD = "OnHold"
DEACTIVATION_TARGET = "DeactivationTarget"

NO_RESERVATION = "NoReservation"
PENDING_EVALUATION = "PendingEvaluation"
DEACTIVATED = "Deactivated"


class ConditionUpdate(Struct, frozen=True, gc=False, cache_hash=True):
    """One condition as it is to be from now on."""

    type: str
    status: bool
    reason: str
    message: str


def second(now: float) -> float:
    """Times in a status have whole seconds; said that way at once, they read back as they were written."""
    return now // 1.0


def edited(workload: QueuedWorkload, now: float, *updates: ConditionUpdate, **fields: Any) -> QueuedWorkloadStatus:
    """The status of the workload with these conditions and fields in place of what it shows."""
    fields["conditions"] = _with(workload.status.conditions, second(now), workload.generation, updates)
    return structs.replace(workload.status, **fields)


def _with(
    shown: tuple[Condition, ...], at: float, generation: int, updates: tuple[ConditionUpdate, ...]
) -> tuple[Condition, ...]:
    conditions: dict[str, Condition] = {}
    for one in shown:
        conditions[one.type] = one
    for each in updates:
        type_, status = each.type, "True" if each.status else "False"
        before = conditions.get(type_)
        # a time is that of the last change of status: it stays while only the reason changes
        since = before.at if before is not None and before.status == status else at
        conditions[type_] = Condition(type_, status, each.reason, each.message, since, generation)
    return tuple(conditions.values())


def without(workload: QueuedWorkload, type_: str) -> QueuedWorkload:
    """The workload as if nobody had ever said this."""
    left = tuple(one for one in workload.status.conditions if one.type != type_)
    return with_status(workload, structs.replace(workload.status, conditions=left))


def with_status(workload: QueuedWorkload, status: QueuedWorkloadStatus) -> QueuedWorkload:
    return structs.replace(workload, status=status)


def shows(workload: QueuedWorkload, update: ConditionUpdate) -> bool:
    shown = workload.condition(update.type)
    if shown is None or shown.reason != update.reason:
        return False
    return shown.status == str(update.status) and shown.message == update.message


def no_longer_gated(
    workload: QueuedWorkload, reason: str, message: str = "No preemption gate keeps it from preempting now"
) -> tuple[ConditionUpdate, ...]:
    """Withdraws what it shows of closed gates; `reason` is why it waits now, or what became of it."""
    withdrawn: tuple[ConditionUpdate, ...] = ()
    for one in workload.status.conditions:
        if one.type in GATE_SIGNALS and one.status == "True":
            withdrawn += (ConditionUpdate(one.type, False, reason, message),)
    return withdrawn


def reason_of(workload: QueuedWorkload, type_: str) -> str:
    """The reason of a condition that is True; empty when it is not."""
    shown = workload.condition(type_)
    return shown.reason if shown is not None and shown.status == "True" else ""


def true_since(workload: QueuedWorkload, type_: str) -> float | None:
    shown = workload.condition(type_)
    return shown.at if shown is not None and shown.status == "True" else None


def true_conditions(workload: QueuedWorkload | None) -> frozenset[str]:
    """The types of its conditions that are True."""
    return frozenset(
        () if workload is None else (one.type for one in workload.status.conditions if one.status == "True")
    )
