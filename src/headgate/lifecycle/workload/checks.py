"""Admission checks of a workload: which it needs, how they stand, and what follows from that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.lifecycle.workload.conditions import second
from headgate.model.queues import Admission, CheckState, CheckStatus, ClusterQueue, QueuedWorkload, RequiredCheck


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
