"""The status of a Workload that gets quota, is admitted, or is refused."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.lifecycle.workload.checks import are_ready, synced_checks
from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    EVICTED,
    NO_RESERVATION,
    PREEMPTED,
    QUOTA_RESERVED,
    ConditionUpdate,
    edited,
)
from headgate.model.queues import (
    GATE_SIGNALS,
    Admission,
    PreemptionProposal,
    QueuedWorkload,
    QueuedWorkloadStatus,
)
from headgate.model.resources import Resources

IS_ADMITTED = ConditionUpdate(ADMITTED, True, ADMITTED, "The workload is admitted")
HAS_OPEN_CHECKS = ConditionUpdate(
    ADMITTED, False, "UnsatisfiedAdmissionChecks", "The workload has not all checks ready"
)
HAS_NO_RESERVATION = ConditionUpdate(ADMITTED, False, NO_RESERVATION, "The workload has no reservation")
PAST_ONCE_RESERVED = frozenset({EVICTED, PREEMPTED, *GATE_SIGNALS})
IS_GATED = tuple(
    ConditionUpdate(signal, True, "PreemptionGated", "Workload requires preemption, but it's gated")
    for signal in GATE_SIGNALS
)


def reserved(workload: QueuedWorkload, admission: Admission, checks: Sequence[str], now: float) -> QueuedWorkloadStatus:
    """It has quota, and is admitted as well when no check is pending. What evicted it before becomes False."""
    past = [
        ConditionUpdate(before.type, False, QUOTA_RESERVED, f"Previously: {before.message}")
        for before in workload.status.conditions
        if before.status == "True" and before.type in PAST_ONCE_RESERVED
    ]
    states = synced_checks(workload.status.checks, checks, now)
    checked = IS_ADMITTED if are_ready(states, checks) else HAS_OPEN_CHECKS
    has_quota = _has_quota(admission.cluster_queue)
    return edited(
        workload,
        now,
        has_quota,
        *past,
        checked,
        admission=admission,
        checks=states,
        resource_requests=(),
        proposal=None,
    )


def _has_quota(queue: str) -> ConditionUpdate:
    return ConditionUpdate(QUOTA_RESERVED, True, QUOTA_RESERVED, f"Quota reserved in ClusterQueue {queue}")


def admitted(workload: QueuedWorkload, now: float) -> QueuedWorkloadStatus:
    return edited(workload, now, IS_ADMITTED)


def refused(
    workload: QueuedWorkload,
    reason: str,
    message: str,
    requests: tuple[tuple[str, Resources], ...],
    now: float,
    *also: ConditionUpdate,
    proposal: PreemptionProposal | None = None,
) -> QueuedWorkloadStatus:
    """It has no quota, for this reason; its requests are shown with it, and what preempting for it would cost."""
    updates = [ConditionUpdate(QUOTA_RESERVED, False, reason, message), HAS_NO_RESERVATION, *also]
    return edited(workload, now, *updates, resource_requests=requests, proposal=proposal)
