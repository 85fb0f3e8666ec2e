"""The next step of one Workload, whatever its queue decides: a rule for each reason, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct, structs

from headgate.lifecycle.workload import eviction
from headgate.lifecycle.workload.admission import (
    HAS_NO_RESERVATION,
    admitted,
    are_ready,
    in_state,
    required_checks,
    retry_not_before,
    synced_checks,
)
from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    DEACTIVATED,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    ON_HOLD,
    PENDING_EVALUATION,
    QUOTA_RESERVED,
    REQUEUED,
    ConditionUpdate,
    edited,
    no_longer_gated,
    second,
    shows,
)
from headgate.lifecycle.workload.deadlines import execution_ends, kept_until, ready_until
from headgate.lifecycle.workload.queue_snapshot import GATED, QueueSnapshot, inadmissible_reason, is_stopped
from headgate.model.effects import Activation, Finalizers, QueuePriority
from headgate.model.keys import Condition
from headgate.model.kueue_names import IN_USE, JOB_UID
from headgate.model.queues import (
    CheckState,
    CheckStatus,
    GateStatus,
    QueuedWorkload,
    QueuedWorkloadStatus,
    RequeueState,
    StopPolicy,
)

REFUSED_BY_CYCLE = frozenset(
    {
        "WaitingForQuota",
        "NoMatchingFlavor",
        "ExceedsMaxQuota",
        "TopologyPlacementFailed",
        "WaitingForPreemptedWorkloads",
        "WaitingForPodsReady",
        PENDING_EVALUATION,
    }
)
"""Reasons found when the workload was considered; they stand until it is considered again."""


class Removal(Struct, frozen=True):
    """The object is to be deleted."""


Change = QueuedWorkloadStatus | Activation | QueuePriority | Finalizers | Removal


class Step(Struct, frozen=True, gc=False):
    """One change, with the decision, reason and message of its journal entry and event."""

    decision: str
    reason: str
    message: str
    change: Change


Rule = Callable[[QueuedWorkload, QueueSnapshot, float], Step | None]

WAITING = "Waiting"  # it has no quota
RESERVED = "Reserved"  # it has quota and is not admitted yet
LEAVING = "Leaving"  # it has quota, and was evicted or is not active
_DRAINS = StopPolicy.HOLD_AND_DRAIN  # found sooner than members of enums


def next_step(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    """The first change that is due. None: nothing to do but wait."""
    if workload.deleted is not None:
        return _finalize(workload)
    queue, has_quota, gates = queues.queue, workload.status.admission is not None, queues.settings.preemption_gates
    has_checks = bool(workload.status.checks or (queue is not None and queue.checks))
    for rule in _rules(workload.status.conditions, has_quota, workload.active, has_checks, gates):
        step = rule(workload, queues, now)
        if step is not None:
            return step
    return None


@lru_cache(maxsize=4096)  # the same is shown of many; bench_queues takes 1.02 times as long without it
def _rules(
    conditions: tuple[Condition, ...], has_quota: bool, active: bool, checks: bool, gates: bool
) -> tuple[Rule, ...]:
    """Those that may hold of it, by where it stands and what there is to be looked at."""
    shown = {one.type: one.status for one in conditions}
    if shown.get(FINISHED) == "True":
        return (_retired,)
    left_out = () if checks else ABOUT_CHECKS
    left_out += () if gates else (_sync_gates,)
    left_out += (_deactivated,) if active else ()
    left_out += () if shown.get(DEACTIVATION_TARGET) == "True" else (_deactivation_target,)
    left_out += () if shown.get(REQUEUED) == "False" else (_requeued,)
    return tuple(rule for rule in RULES[_stage(shown, has_quota, active)] if rule not in left_out)


def _stage(shown: Mapping[str, str], has_quota: bool, active: bool) -> str:
    if not has_quota:
        return WAITING
    if shown.get(EVICTED) == "True" or not active:
        return LEAVING
    return ADMITTED if shown.get(ADMITTED) == "True" else RESERVED


def _finalize(workload: QueuedWorkload) -> Step | None:
    """Removes our finalizer; a Workload with an owner is finalized by the integrations."""
    if not _is_on_its_own(workload) or IN_USE not in workload.finalizers:
        return None
    names = tuple(name for name in workload.finalizers if name != IN_USE)
    return Step("let go", "Deleted", "nobody owns the workload", Finalizers(names))


def _retired(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    until = kept_until(workload, queues.settings)
    if until is None or now < until:
        return None
    return Step("delete", "Deleted", "Deleted finished workload due to elapsed retention", Removal())


def _orphaned(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    """It was made for a job that is gone."""
    if workload.owner is not None or not workload.labels.get(JOB_UID) or workload.owned_by_stranger is not False:
        return None
    message = "The workload's owner was not found"
    return Step("finish", "OwnerNotFound", message, eviction.finished(workload, "OwnerNotFound", message, now))


def _deactivation_target(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    target = workload.condition(DEACTIVATION_TARGET)
    if not workload.active or target is None:
        return None
    return Step("deactivate", target.reason, target.message, Activation(False))


def _deactivated(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    if workload.active or workload.is_true(EVICTED):
        return None
    return _evicted(workload, eviction.deactivated(workload, now))


def _requeued(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    """What kept it from queueing up again is over."""
    requeued = workload.condition(REQUEUED)
    if not workload.active or requeued is None or requeued.status != "False":
        return None
    found = _requeue_reason(requeued.reason, workload, queues, now)
    if found is None:
        return None
    reason, message = found
    return Step("requeue", reason, message, eviction.requeued(workload, reason, message, now))


def _requeue_reason(why: str, workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> tuple[str, str] | None:
    local, queue = queues.local, queues.queue
    if why.startswith(DEACTIVATED):
        return "Reactivated", "The workload was reactivated"
    if why in (eviction.POD_TIMEOUT, eviction.CHECK):
        rests = (
            workload.status.requeue is not None
            and workload.status.requeue.at is not None
            and workload.status.requeue.at > now
        )
        return None if rests else ("BackoffFinished", "The workload backoff was finished")
    if why == eviction.LOCAL_STOPPED and local is not None and local.stop_policy is StopPolicy.NONE:
        return "LocalQueueRestarted", "The LocalQueue was restarted after being stopped"
    if why == eviction.QUEUE_STOPPED and queue is not None and queue.stop_policy is StopPolicy.NONE:
        return "ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"
    return None


def _sync_gates(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    """Every preemption gate of its spec has a state, closed to begin with. While all are open, nothing is proposed."""
    known = {gate.name: gate for gate in workload.status.gate_statuses}
    wanted = tuple(known.get(name) or GateStatus(name, False, second(now)) for name in workload.preemption_gates)
    proposal = workload.status.proposal if workload.has_closed_gate else None
    if {gate.name for gate in wanted} == set(known) and proposal == workload.status.proposal:
        return None
    change = edited(workload, now, gate_statuses=wanted, proposal=proposal)
    return Step("", "PreemptionGates", "the states of its preemption gates were brought in line", change)


def _sync_checks(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    """Its states are those of the checks its queue asks for now."""
    if queues.queue is None:
        return None
    names = required_checks(queues.queue, workload.status.admission)
    checks = synced_checks(workload.status.checks, names, now)
    if checks == workload.status.checks:
        return None
    return Step(
        "", "AdmissionChecks", "its admission checks were brought in line", edited(workload, now, checks=checks)
    )


def _admitted(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    if queues.queue is None or not are_ready(
        workload.status.checks, required_checks(queues.queue, workload.status.admission)
    ):
        return None
    return Step("admit", ADMITTED, "The workload is admitted", admitted(workload, now))


def _checks_failed(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    if not workload.status.checks or workload.is_true(DEACTIVATION_TARGET):
        return None
    rejected, retried = in_state(workload, CheckState.REJECTED), in_state(workload, CheckState.RETRY)
    if rejected:
        message = _named(rejected, CheckState.REJECTED)
        return Step(
            "deactivationTarget",
            "AdmissionCheckRejected",
            f"Deactivated due to {message}",
            eviction.deactivation_target(workload, eviction.CHECK, message, now),
        )
    if not retried:
        return None
    status = eviction.evicted(workload, eviction.CHECK, f"Evicted due to {_named(retried, CheckState.RETRY)}", now)
    at = retry_not_before(workload)
    if at is not None:
        count = workload.status.requeue.count if workload.status.requeue is not None else 0
        status = structs.replace(status, requeue=RequeueState(count, at))
    return _evicted(workload, status)


def _named(checks: Sequence[CheckStatus], state: CheckState) -> str:
    parts = [f'"{check.name}" ({check.message})' if check.message else f'"{check.name}"' for check in checks]
    return f"AdmissionCheck{'s' if len(checks) > 1 else ''} in {state} state: {'; '.join(parts)}"


def _stopped(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    """A Workload that is not admitted yet releases its quota to a queue that is stopped."""
    why = is_stopped(workload, queues)
    if why is None:
        return None
    return Step("release", why.reason, why.message, eviction.unreserved(workload, why.reason, why.message, now))


def _drained(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    """An admitted Workload is evicted from a queue that is drained."""
    if queues.local is not None and queues.local.stop_policy is _DRAINS:
        status = eviction.evicted(workload, eviction.LOCAL_STOPPED, "The LocalQueue is stopped", now)
        return _evicted(workload, status)
    if queues.queue is not None and queues.queue.stop_policy is _DRAINS:
        return _evicted(
            workload, eviction.evicted(workload, eviction.QUEUE_STOPPED, "The ClusterQueue is stopped", now)
        )
    return None


def _not_ready(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    found = ready_until(workload, queues.settings)
    if found is None or now < found.at or workload.is_true(DEACTIVATION_TARGET):
        return None
    status = eviction.timed_out(workload, queues.settings.pods_ready, found.cause, now)
    if status is not None:
        return _evicted(workload, status)
    reason, message = "RequeuingLimitExceeded", "exceeding the maximum number of re-queuing retries"
    return Step("deactivationTarget", reason, message, eviction.deactivation_target(workload, reason, message, now))


def _overtime(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    ends = execution_ends(workload, queues.settings)
    if ends is None or now < ends or workload.is_true(DEACTIVATION_TARGET):
        return None
    reason = "MaximumExecutionTimeExceeded"
    status = eviction.deactivation_target(workload, reason, "exceeding the maximum execution time", now)
    message = f"The maximum execution time ({workload.max_execution_seconds}s) exceeded"
    return Step("deactivationTarget", reason, message, structs.replace(status, past_execution_seconds=0))


def _released(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    """A Workload without an owner releases its quota by itself."""
    if not _is_on_its_own(workload) or not workload.is_true(EVICTED):
        return None
    reason = PENDING_EVALUATION if workload.active else DEACTIVATED
    return Step("release", reason, "its quota is given back", eviction.released(workload, now, reason))


def _kept_out(workload: QueuedWorkload, queues: QueueSnapshot, now: float) -> Step | None:
    """Its condition says why it is inadmissible, as long as it is."""
    shown = workload.condition(QUOTA_RESERVED)
    before = shown.reason if shown is not None else ""
    why = inadmissible_reason(workload, queues)
    if not workload.active:
        reason, message = DEACTIVATED, "The workload is deactivated"
    elif shown is not None and before == ON_HOLD and workload.is_on_hold:
        reason, message = ON_HOLD, shown.message
    elif why is not None:
        reason, message = why
    elif shown is None or before in REFUSED_BY_CYCLE or (workload.has_closed_gate and no_longer_gated(workload, "")):
        return None
    else:
        reason, message = PENDING_EVALUATION, "Workload is pending evaluation in the scheduling queue"
    update = ConditionUpdate(QUOTA_RESERVED, False, reason, message)
    withdrawn = no_longer_gated(workload, reason)  # then the reason was that of a preemption gate
    is_shown = shows(workload, update) or reason == before == DEACTIVATED
    if is_shown and not withdrawn and workload.status.proposal is None:
        return None
    cleared = before == GATED and reason != GATED and not withdrawn
    change = edited(workload, now, update, HAS_NO_RESERVATION, *withdrawn, proposal=None)
    return Step("wait", "AdmissionGateCleared" if cleared else reason, message, change)


def _is_on_its_own(workload: QueuedWorkload) -> bool:
    """It has no owner, as far as is known: what was made for a job may have one of a kind we do not know."""
    if workload.owner is not None or workload.owned_by_stranger:
        return False
    return workload.owned_by_stranger is False or not workload.labels.get(JOB_UID)


def _evicted(workload: QueuedWorkload, status: QueuedWorkloadStatus) -> Step:
    why = next(one for one in status.conditions if one.type == EVICTED)
    return Step("evict", why.reason, why.message, status)


RULES: Mapping[str, tuple[Rule, ...]] = {
    WAITING: (_orphaned, _deactivation_target, _deactivated, _requeued, _sync_gates, _sync_checks, _kept_out),
    RESERVED: (_orphaned, _deactivation_target, _sync_gates, _sync_checks, _checks_failed, _stopped, _admitted),
    ADMITTED: (
        _orphaned,
        _deactivation_target,
        _sync_gates,
        _sync_checks,
        _checks_failed,
        _drained,
        _not_ready,
        _overtime,
    ),
    LEAVING: (_orphaned, _deactivation_target, _deactivated, _sync_gates, _sync_checks, _released),
}
ABOUT_CHECKS: tuple[Rule, ...] = (_sync_checks, _checks_failed)
