"""The status of a Workload that gets quota, is admitted, or is refused, and its admission checks.

Which checks it needs, how they stand, and what follows from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    EVICTED,
    NO_RESERVATION,
    PREEMPTED,
    QUOTA_RESERVED,
    ConditionUpdate,
    edited,
    second,
)
from headgate.model.queues import (
    GATE_SIGNALS,
    Admission,
    CheckState,
    CheckStatus,
    ClusterQueue,
    PreemptionProposal,
    QueuedWorkload,
    QueuedWorkloadStatus,
    RequiredCheck,
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


def required_checks(queue: ClusterQueue, admission: Admission | None) -> tuple[str, ...]:
    """Before it has flavors, those that hold for all of them; then those of the flavors it has. By name."""
    if not queue.checks:
        return ()
    if admission is None:
        flavors = [quotas.flavor for group in queue.groups for quotas in group.flavors]
        return _names(check for check in queue.checks if not check.on_flavors or _covers(check, flavors))
    assigned = {flavor for given in admission.pod_sets for _, flavor in given.flavors}
    return _names(check for check in queue.checks if not check.on_flavors or not assigned.isdisjoint(check.on_flavors))


def synced_checks(checks: Sequence[CheckStatus], names: Sequence[str], now: float) -> tuple[CheckStatus, ...]:
    """One state for each name, the known ones as they stand, new ones pending; what is not needed is left out."""
    if not names:
        return ()
    known = {check.name: check for check in checks}
    return tuple(known.get(name) or CheckStatus(name, at=second(now)) for name in names)


def reset_checks(checks: Sequence[CheckStatus], now: float) -> tuple[CheckStatus, ...]:
    """All pending again. That one had asked for another try is counted."""
    return tuple([_reset(check, now) for check in checks]) if checks else ()


def are_ready(checks: Sequence[CheckStatus], names: Sequence[str]) -> bool:
    if not names:
        return True
    ready = {check.name for check in checks if check.state is CheckState.READY}
    return all(name in ready for name in names)


def in_state(workload: QueuedWorkload, state: CheckState) -> tuple[CheckStatus, ...]:
    return tuple(check for check in workload.status.checks if check.state is state)


def retry_not_before(workload: QueuedWorkload) -> float | None:
    """The latest time at which a check that wants another try can be tried again."""
    retried = in_state(workload, CheckState.RETRY)
    return max((check.at + check.requeue_after for check in retried if check.requeue_after is not None), default=None)


def _reset(check: CheckStatus, now: float) -> CheckStatus:
    if check.state is CheckState.PENDING:
        return check
    message = f"Reset to Pending after eviction. Previously: {check.state}"
    retries = check.retries + (check.state is CheckState.RETRY)
    return CheckStatus(check.name, CheckState.PENDING, message, second(now), retries=retries)


def _covers(check: RequiredCheck, flavors: Sequence[str]) -> bool:
    return set(flavors) <= set(check.on_flavors)


def _names(checks: Iterable[RequiredCheck]) -> tuple[str, ...]:
    return tuple(sorted({check.name for check in checks}))


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
