"""Where a workload goes that was not admitted: back into its queue, or aside until something changes."""

from __future__ import annotations

from enum import StrEnum

from headgate.model.queues import QueueingStrategy


class Requeue(StrEnum):
    """Why a workload comes back from a cycle."""

    GENERIC = ""
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    PENDING_PREEMPTION = "PendingPreemption"
    PREEMPTION_FAILED = "PreemptionFailed"
    PODS_NOT_READY = "PodsNotReady"
    PREEMPTION_GATED = "PreemptionGated"
    NO_CANDIDATES = "PreemptionNoCandidates"
    NO_FIT = "NoFit"


_AT_ONCE = frozenset(
    {
        Requeue.FAILED_AFTER_NOMINATION,
        Requeue.PENDING_PREEMPTION,
        Requeue.PREEMPTION_FAILED,
        Requeue.PODS_NOT_READY,
    }
)
SPEAKS_FOR_CLASS = frozenset({Requeue.NO_FIT, Requeue.NO_CANDIDATES})
"""What is true of all workloads of the same class, until something changes."""


def comes_back_at_once(strategy: QueueingStrategy, why: Requeue, has_more_flavors: bool) -> bool:
    """A strict queue goes no further without its head; others step aside unless the next cycle may answer otherwise."""
    if strategy is QueueingStrategy.STRICT_FIFO:
        return why is not Requeue.NAMESPACE_MISMATCH
    return why in _AT_ONCE or has_more_flavors


class Unreserved(StrEnum):
    """Why a workload has no quota; the values are the reasons of its condition QuotaReserved."""

    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    GATED = "AdmissionGated"
    PODS_NOT_READY = "WaitingForPodsReady"
    NO_FLAVOR = "NoMatchingFlavor"
    TOO_LARGE = "ExceedsMaxQuota"
    WAITING = "WaitingForQuota"
    TOPOLOGY = "TopologyPlacementFailed"
    PREEMPTING = "WaitingForPreemptedWorkloads"
    PENDING = "PendingEvaluation"
