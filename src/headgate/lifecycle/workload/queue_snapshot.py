"""Where a workload stands: its queues as they are, and whether that lets it wait for quota at all."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from headgate.model.queues import ClusterQueue, LocalQueue, QueuedWorkload, StopPolicy
from headgate.model.settings import QuotaSettings

MISCONFIGURED = "Misconfigured"
SUSPENDED = "Suspended"
GATED = "AdmissionGated"
NOT_SUPPORTED = "The workload is not admitted, because it asks for what is not supported"
_RUNS = StopPolicy.NONE  # found sooner than members of enums
WRONG_NAMESPACE = "workload namespace doesn't match ClusterQueue selector"


class QueueSnapshot(Struct, frozen=True):
    """`queue` is the cluster queue it has quota of, or else that of its local queue; None where there is none."""

    local: LocalQueue | None
    queue: ClusterQueue | None
    queue_is_active: bool
    may_enter: bool  # the queue is for workloads of its namespace
    settings: QuotaSettings
    queue_lacks: str = ""  # what its queue asks for that is not supported
    problem: str = ""  # why no server would have its pods, where that is so and it has no quota yet


class Inadmissible(NamedTuple):
    """Why a workload does not even wait for quota; `reason` is that of its condition."""

    reason: str
    message: str


def inadmissible_reason(workload: QueuedWorkload, queues: QueueSnapshot) -> Inadmissible | None:
    """The first thing that keeps it out of its queue, whatever quota there is."""
    if found := workload.unsupported:
        return Inadmissible(MISCONFIGURED, f"{NOT_SUPPORTED}: {'; '.join(found)}")
    return _queues(workload, queues) or _its_own(workload, queues)


def is_stopped(workload: QueuedWorkload, queues: QueueSnapshot) -> Inadmissible | None:
    """Its queues take nobody in, as long as this is so."""
    local, queue = queues.local, queues.queue
    if local is None or local.deleted is not None:
        return Inadmissible(MISCONFIGURED, f"LocalQueue {workload.queue} is terminating or missing")
    if local.stop_policy is not StopPolicy.NONE:
        return Inadmissible(SUSPENDED, f"LocalQueue {workload.queue} is stopped")
    if queue is None or queue.deleted is not None:
        name = queue.name if queue is not None else local.cluster_queue
        return Inadmissible(MISCONFIGURED, f"ClusterQueue {name} is terminating or missing")
    if queue.stop_policy is not StopPolicy.NONE:
        return Inadmissible(SUSPENDED, f"ClusterQueue {queue.name} is stopped")
    return None


def _queues(workload: QueuedWorkload, queues: QueueSnapshot) -> Inadmissible | None:
    local, queue = queues.local, queues.queue
    if local is None:
        return Inadmissible(MISCONFIGURED, f"LocalQueue {workload.queue} doesn't exist")
    if local.stop_policy is not _RUNS or local.deleted is not None:
        return Inadmissible(SUSPENDED, f"LocalQueue {workload.queue} is inactive")
    if queue is None:
        return Inadmissible(MISCONFIGURED, f"ClusterQueue {local.cluster_queue} doesn't exist")
    if not queues.queue_is_active:
        if queues.queue_lacks:
            return Inadmissible(MISCONFIGURED, f"ClusterQueue {queue.name} is inactive: {queues.queue_lacks}")
        return Inadmissible(SUSPENDED, f"ClusterQueue {queue.name} is inactive")
    return None


def _its_own(workload: QueuedWorkload, queues: QueueSnapshot) -> Inadmissible | None:
    """Where it is, what its pods ask for, and who holds it back."""
    if not queues.may_enter:
        return Inadmissible(MISCONFIGURED, WRONG_NAMESPACE)
    if queues.problem:
        return Inadmissible(MISCONFIGURED, queues.problem)
    if workload.gated_by:
        return Inadmissible(GATED, f"Admission is gated by: {','.join(workload.gated_by)}")
    return None
