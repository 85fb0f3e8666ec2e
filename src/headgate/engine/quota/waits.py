"""How long workloads waited and ran: worked out once, when a wait ends, from what the object shows and the time.

A wait ends when a condition turns true between two observations of one object. What is first observed with the
condition true, as after a restart, ended before anybody watched, and is not told again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from headgate.engine.distributions import Bounds
from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    EVICTED,
    FINISHED,
    PODS_READY,
    QUOTA_RESERVED,
    REQUEUED,
    true_since,
)
from headgate.model.conditions import Condition
from headgate.model.queues import QueuedWorkload

STARTED = "Started"  # the reason of PodsReady the first time; pods that recovered are no news

Came = Mapping[str, Condition]
"""Conditions that have turned true, by type."""


def _doubling(count: int) -> Bounds:
    return (1.0, *(2.5 * 2**n for n in range(count - 1)))


RESERVED_WAIT = "quota_reserved_wait_time_seconds"
ADMISSION_WAIT = "admission_wait_time_seconds"
CHECKS_WAIT = "admission_checks_wait_time_seconds"
READY_WAIT = "ready_wait_time_seconds"
ADMITTED_UNTIL_READY = "admitted_until_ready_wait_time_seconds"
EXECUTION = "execution_time_seconds"
READY_TO_EVICTED = "kueue_pods_ready_to_evicted_time_seconds"
EVICTION_LATENCY = "kueue_workload_eviction_latency_seconds"

OF_QUEUES: Mapping[str, Bounds] = {
    RESERVED_WAIT: _doubling(14),
    ADMISSION_WAIT: _doubling(16),
    CHECKS_WAIT: _doubling(14),
    READY_WAIT: _doubling(14),
    ADMITTED_UNTIL_READY: _doubling(14),
    EXECUTION: _doubling(16),
}
"""Told of the cluster queue and of the local queue."""

BOUNDS: Mapping[str, Bounds] = {
    **{f"kueue_{name}": bounds for name, bounds in OF_QUEUES.items()},
    **{f"kueue_local_queue_{name}": bounds for name, bounds in OF_QUEUES.items()},
    f"kueue_local_queue_{ADMISSION_WAIT}": _doubling(14),
    READY_TO_EVICTED: _doubling(14),
    EVICTION_LATENCY: _doubling(14),
}


class Turned(NamedTuple):
    """What two observations of a workload tell apart; `released`: it has no quota any more."""

    came: Came
    released: bool


@lru_cache(maxsize=4096)  # the same happens to many
def turned(before: tuple[Condition, ...], after: tuple[Condition, ...]) -> Turned:
    was = {one.type for one in before if one.status == "True"}
    is_true = {one.type: one for one in after if one.status == "True"}
    came = {type_: one for type_, one in is_true.items() if type_ not in was}
    return Turned(came, released=QUOTA_RESERVED in was and QUOTA_RESERVED not in is_true)


def waits_over(after: QueuedWorkload, came: Came, now: float) -> list[tuple[str, float]]:
    """What its queues are told, in seconds."""
    over: list[tuple[str, float]] = []
    reserved, admitted, ready = QUOTA_RESERVED in came, ADMITTED in came, came.get(PODS_READY)
    waited = now - queued_since(after) if reserved or admitted or ready is not None else 0.0
    if reserved:
        over.append((RESERVED_WAIT, waited))
    if admitted:
        over.append((ADMISSION_WAIT, waited))
        if after.checks or not reserved:
            over.append((CHECKS_WAIT, 0.0 if reserved else now - _since(after, QUOTA_RESERVED, now)))
    if ready is not None and ready.reason == STARTED:
        over.append((READY_WAIT, waited))
        over.append((ADMITTED_UNTIL_READY, ready.at - _since(after, ADMITTED, ready.at)))
    if FINISHED in came:
        running = now - _since(after, ADMITTED, now)
        over.append((EXECUTION, after.past_execution_seconds + max(0.0, running)))
    return over


def ready_until_evicted(before: QueuedWorkload, after: QueuedWorkload) -> float | None:
    """None when it was not ready, or was not told to go."""
    ready, evicted = true_since(before, PODS_READY), true_since(after, EVICTED)
    return None if ready is None or evicted is None else evicted - ready


def evicted_until_released(released: QueuedWorkload, now: float) -> float | None:
    """None unless its quota, which has come back just now, did so because it was told to go."""
    since = true_since(released, EVICTED)
    return None if since is None or released.is_true(FINISHED) else now - since


def queued_since(workload: QueuedWorkload) -> float:
    """When it began to wait, for the last time."""
    again = workload.condition(REQUEUED)
    return workload.created if again is None else again.at


def _since(workload: QueuedWorkload, type_: str, otherwise: float) -> float:
    since = true_since(workload, type_)
    return otherwise if since is None else since
