"""The status of queues and of the workloads in them, in the form of a merge patch: lists are whole, None removes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, assert_never

from msgspec import Raw

from headgate.api.amounts import amount_texts, billionth_texts
from headgate.api.conditions import LONGEST_MESSAGE, condition_entries
from headgate.api.times import format_time
from headgate.model.queue_changes import (
    AdmissionCheckStatus,
    ClusterQueueDebt,
    ClusterQueueStatus,
    CohortStatus,
    Consumption,
    FlavorUse,
    LocalQueueStatus,
    QueuedWorkloadStatus,
    QueueStatus,
)
from headgate.model.queues import Admission, CheckStatus, EvictionCount, FlavorDebt, GateStatus, RequeueState

REMEMBERED = 4_096
"""How many admissions are kept in words: those of work alike are alike."""


def queue_status_of(change: QueueStatus) -> dict[str, Any]:
    """The fields of `status` to set; None removes a field."""
    match change:
        case QueuedWorkloadStatus():
            return _workload(change)
        case ClusterQueueStatus():
            return {
                **_counts(change),
                "flavorsReservation": [_cluster_use(use) for use in change.reservation],
                "flavorsUsage": [_cluster_use(use) for use in change.usage],
                "fairSharing": _share(change.weighted_share),
            }
        case ClusterQueueDebt(debt):
            return {"flavorsDebt": [_plain_use(owed) for owed in debt] or None}
        case LocalQueueStatus():
            return {
                **_counts(change),
                "flavorsReservation": [_plain_use(use) for use in change.reservation],
                "flavorsUsage": [_plain_use(use) for use in change.usage],
                "fairSharing": _consumption(change.consumption),
            }
        case CohortStatus(weighted_share):
            return {"fairSharing": _share(weighted_share)}
        case AdmissionCheckStatus(conditions):
            return {"conditions": condition_entries(conditions)}
        case _:
            assert_never(change)


def _workload(status: QueuedWorkloadStatus) -> dict[str, Any]:
    return {
        "conditions": condition_entries(status.conditions),
        "admission": _admission(status.admission),
        "requeueState": _requeue(status.requeue),
        "reclaimablePods": [{"name": name, "count": count} for name, count in status.reclaimable] or None,
        "admissionChecks": [_check(check) for check in status.checks] or None,
        "preemptionGates": [_gate(gate) for gate in status.gate_statuses] or None,
        "resourceRequests": [
            {"name": name, "resources": amount_texts(asked)} for name, asked in status.resource_requests
        ]
        or None,
        "accumulatedPastExecutionTimeSeconds": status.past_execution_seconds or None,
        "schedulingStats": _stats(status.evictions),
        "nominatedClusterNames": list(status.nominated_clusters) or None,
        "clusterName": status.cluster or None,
    }


@lru_cache(maxsize=REMEMBERED)
def _admission(admission: Admission | None) -> Mapping[str, Any] | None:
    if admission is None:
        return None
    assignments = [
        {
            "name": given.name,
            "flavors": dict(given.flavors),
            "resourceUsage": amount_texts(given.usage),
            "count": given.count,
        }
        for given in admission.pod_sets
    ]
    return {"clusterQueue": admission.cluster_queue, "podSetAssignments": assignments}


def _requeue(state: RequeueState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {"count": state.count or None, "requeueAt": None if state.at is None else format_time(state.at)}


def _check(check: CheckStatus) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": check.name,
        "state": check.state.value,
        "message": check.message[:LONGEST_MESSAGE],
        "lastTransitionTime": format_time(check.at),
    }
    if check.requeue_after is not None:
        entry["requeueAfterSeconds"] = check.requeue_after
    if check.retries:
        entry["retryCount"] = check.retries
    return {**entry, "podSetUpdates": Raw(check.updates)} if check.updates else entry


def _gate(gate: GateStatus) -> dict[str, str]:
    position = "Open" if gate.open else "Closed"
    return {"name": gate.name, "position": position, "lastTransitionTime": format_time(gate.at)}


def _stats(evictions: Sequence[EvictionCount]) -> dict[str, Any] | None:
    entries = [{"reason": each.reason, "underlyingCause": each.cause, "count": each.count} for each in evictions]
    return {"evictions": entries} if entries else None


def _counts(status: ClusterQueueStatus | LocalQueueStatus) -> dict[str, Any]:
    return {
        "conditions": condition_entries(status.conditions),
        "pendingWorkloads": status.pending,
        "reservingWorkloads": status.reserving,
        "admittedWorkloads": status.admitted,
    }


def _cluster_use(use: FlavorUse) -> dict[str, Any]:
    borrowed = amount_texts(use.borrowed)
    resources = [
        {"name": name, "total": total, "borrowed": borrowed.get(name, "0")}
        for name, total in amount_texts(use.total).items()
    ]
    return {"name": use.flavor, "resources": resources}


def _plain_use(use: FlavorUse | FlavorDebt) -> dict[str, Any]:
    resources = [{"name": name, "total": total} for name, total in amount_texts(use.total).items()]
    return {"name": use.flavor, "resources": resources}


def _share(weighted: int | None) -> dict[str, int] | None:
    return None if weighted is None else {"weightedShare": weighted}


def _consumption(consumption: Consumption | None) -> dict[str, Any] | None:
    """A local queue has no share of its own; the field is there because it must be."""
    if consumption is None:
        return None
    status = {"consumedResources": billionth_texts(consumption.consumed), "lastUpdate": format_time(consumption.at)}
    return {"weightedShare": 0, "admissionFairSharingStatus": status}
