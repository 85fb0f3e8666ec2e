"""The conditions of a queued workload: their names, and how one edit of its status is put together."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from msgspec import structs

from headgate.model.conditions import Condition
from headgate.model.queue_changes import QueuedWorkloadStatus
from headgate.model.queues import QueuedWorkload

QUOTA_RESERVED = "QuotaReserved"
ADMITTED = "Admitted"
EVICTED = "Evicted"
PREEMPTED = "Preempted"
REQUEUED = "Requeued"
FINISHED = "Finished"
PODS_READY = "PodsReady"
ON_HOLD = "OnHold"
DEACTIVATION_TARGET = "DeactivationTarget"
BLOCKED_ON_GATES = "BlockedOnPreemptionGates"

NO_RESERVATION = "NoReservation"
PENDING_EVALUATION = "PendingEvaluation"
DEACTIVATED = "Deactivated"


class Said(NamedTuple):
    """One condition as it is to be from now on."""

    type: str
    status: bool
    reason: str
    message: str


def second(now: float) -> float:
    """Times in a status have whole seconds; said that way at once, they read back as they were written."""
    return float(math.floor(now))


def edited(workload: QueuedWorkload, now: float, *said: Said, **fields: Any) -> QueuedWorkloadStatus:
    """The status of the workload with these conditions and fields in place of what it shows."""
    conditions = workload.conditions
    for each in said:
        conditions = _put(conditions, each, second(now), workload.generation)
    return structs.replace(QueuedWorkloadStatus.of(workload), conditions=conditions, **fields)


def without(workload: QueuedWorkload, type_: str) -> QueuedWorkload:
    """The workload as if nobody had ever said this."""
    return structs.replace(workload, conditions=tuple(one for one in workload.conditions if one.type != type_))


def with_status(workload: QueuedWorkload, status: QueuedWorkloadStatus) -> QueuedWorkload:
    return structs.replace(workload, **structs.asdict(status))


def says(workload: QueuedWorkload, said: Said) -> bool:
    shown = workload.condition(said.type)
    return shown is not None and (shown.status, shown.reason, shown.message) == (
        str(said.status),
        said.reason,
        said.message,
    )


def reason_of(workload: QueuedWorkload, type_: str) -> str:
    """The reason of a condition that is True; empty when it is not."""
    shown = workload.condition(type_)
    return shown.reason if shown is not None and shown.status == "True" else ""


def true_since(workload: QueuedWorkload, type_: str) -> float | None:
    shown = workload.condition(type_)
    return shown.at if shown is not None and shown.status == "True" else None


def _put(conditions: tuple[Condition, ...], said: Said, at: float, generation: int) -> tuple[Condition, ...]:
    """The time is that of the last change of status, so it stays while only the reason changes."""
    status = str(said.status)
    before = next((one for one in conditions if one.type == said.type), None)
    kept = before.at if before is not None and before.status == status else at
    made = Condition(said.type, status, said.reason, said.message, kept, generation)
    if before is None:
        return (*conditions, made)
    return tuple(made if one.type == said.type else one for one in conditions)
