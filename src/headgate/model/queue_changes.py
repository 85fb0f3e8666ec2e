"""What we write about queues and the workloads in them: the parts of their status that we answer for, as a whole.

Lists are written whole, so the target of such a change must name the version it was made from.
"""

from __future__ import annotations

from msgspec import Struct

from headgate.model.conditions import Condition
from headgate.model.queues import (
    Admission,
    CheckStatus,
    EvictionCount,
    FlavorDebt,
    GateStatus,
    QueuedWorkload,
    RequeueState,
)
from headgate.model.resources import Resources


class QueuedWorkloadStatus(Struct, frozen=True, gc=False):
    """By the names of QueuedWorkload. What is not listed here (unhealthy nodes) stays as others left it."""

    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    requeue: RequeueState | None = None
    reclaimable: tuple[tuple[str, int], ...] = ()
    checks: tuple[CheckStatus, ...] = ()
    gate_statuses: tuple[GateStatus, ...] = ()
    resource_requests: tuple[tuple[str, Resources], ...] = ()
    past_execution_seconds: int = 0
    evictions: tuple[EvictionCount, ...] = ()
    nominated_clusters: tuple[str, ...] = ()
    cluster: str = ""

    @classmethod
    def of(cls, workload: QueuedWorkload) -> QueuedWorkloadStatus:
        """As it stands on the object; writing it changes nothing."""
        return cls(
            workload.conditions,
            workload.admission,
            workload.requeue,
            workload.reclaimable,
            workload.checks,
            workload.gate_statuses,
            workload.resource_requests,
            workload.past_execution_seconds,
            workload.evictions,
            workload.nominated_clusters,
            workload.cluster,
        )


class FlavorUse(Struct, frozen=True, gc=False):
    """How much of a flavor is held, and how much of that beyond the queue's own quota; zeros are told too."""

    flavor: str
    total: Resources
    borrowed: Resources = Resources()


class ClusterQueueStatus(Struct, frozen=True, gc=False):
    conditions: tuple[Condition, ...]
    pending: int
    reserving: int
    admitted: int
    reservation: tuple[FlavorUse, ...] = ()  # of workloads with reserved quota
    usage: tuple[FlavorUse, ...] = ()  # of admitted workloads
    weighted_share: int | None = None  # None: without fair sharing


class ClusterQueueDebt(Struct, frozen=True, gc=False):
    """What is owed, by flavor, and nothing else of the status: who knows the pods need not know the quota."""

    debt: tuple[FlavorDebt, ...] = ()


class Consumption(Struct, frozen=True, gc=False):
    """What a local queue has used, where that decides who goes first; in billionths of whole units."""

    consumed: Resources
    at: float


class LocalQueueStatus(Struct, frozen=True, gc=False):
    conditions: tuple[Condition, ...]
    pending: int
    reserving: int
    admitted: int
    reservation: tuple[FlavorUse, ...] = ()  # nothing is borrowed by a local queue
    usage: tuple[FlavorUse, ...] = ()
    consumption: Consumption | None = None


class CohortStatus(Struct, frozen=True, gc=False):
    weighted_share: int | None = None  # None: without fair sharing


class AdmissionCheckStatus(Struct, frozen=True, gc=False):
    conditions: tuple[Condition, ...] = ()


QueueStatus = (
    QueuedWorkloadStatus
    | ClusterQueueStatus
    | ClusterQueueDebt
    | LocalQueueStatus
    | CohortStatus
    | AdmissionCheckStatus
)
