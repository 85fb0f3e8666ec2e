"""Where a workload stands: its queues as they are, and whether that lets it wait for quota at all."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from headgate.model.queues import ClusterQueue, LocalQueue, QueuedWorkload, StopPolicy
from headgate.model.quota_settings import QuotaSettings

MISCONFIGURED = "Misconfigured"
SUSPENDED = "Suspended"
GATED = "AdmissionGated"
WRONG_NAMESPACE = "workload namespace doesn't match ClusterQueue selector"


class Circumstances(Struct, frozen=True):
    """`queue` is the cluster queue it has quota of, or else that of its local queue; None where there is none."""

    local: LocalQueue | None
    queue: ClusterQueue | None
    queue_is_active: bool
    may_enter: bool  # the queue is for workloads of its namespace
    settings: QuotaSettings
    problem: str = ""  # why no server would have its pods, where that is so and it has no quota yet


class Hindrance(NamedTuple):
    """Why a workload does not even wait for quota; `reason` is that of its condition."""

    reason: str
    message: str


def hindrance(workload: QueuedWorkload, around: Circumstances) -> Hindrance | None:
    """The first thing that keeps it out of its queue, whatever quota there is."""
    return _queues(workload, around) or _its_own(around) or _gated(workload)


def is_stopped(workload: QueuedWorkload, around: Circumstances) -> Hindrance | None:
    """Its queues take nobody in, as long as this is so."""
    local, queue = around.local, around.queue
    if local is None or local.deleted is not None:
        return Hindrance(MISCONFIGURED, f"LocalQueue {workload.queue} is terminating or missing")
    if local.stop_policy is not StopPolicy.NONE:
        return Hindrance(SUSPENDED, f"LocalQueue {workload.queue} is stopped")
    if queue is None or queue.deleted is not None:
        name = queue.name if queue is not None else local.cluster_queue
        return Hindrance(MISCONFIGURED, f"ClusterQueue {name} is terminating or missing")
    if queue.stop_policy is not StopPolicy.NONE:
        return Hindrance(SUSPENDED, f"ClusterQueue {queue.name} is stopped")
    return None


def _queues(workload: QueuedWorkload, around: Circumstances) -> Hindrance | None:
    local, queue = around.local, around.queue
    if local is None:
        return Hindrance(MISCONFIGURED, f"LocalQueue {workload.queue} doesn't exist")
    if local.stop_policy is not StopPolicy.NONE or local.deleted is not None:
        return Hindrance(SUSPENDED, f"LocalQueue {workload.queue} is inactive")
    if queue is None:
        return Hindrance(MISCONFIGURED, f"ClusterQueue {local.cluster_queue} doesn't exist")
    if not around.queue_is_active:
        return Hindrance(SUSPENDED, f"ClusterQueue {queue.name} is inactive")
    return None


def _its_own(around: Circumstances) -> Hindrance | None:
    """Where it is, and what its pods ask for."""
    if not around.may_enter:
        return Hindrance(MISCONFIGURED, WRONG_NAMESPACE)
    return Hindrance(MISCONFIGURED, around.problem) if around.problem else None


def _gated(workload: QueuedWorkload) -> Hindrance | None:
    if not workload.gated_by:
        return None
    return Hindrance(GATED, f"Admission is gated by: {','.join(workload.gated_by)}")
