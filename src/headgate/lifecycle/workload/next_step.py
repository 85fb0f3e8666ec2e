"""What must happen next for one workload, whatever its queue decides: a rule for each reason, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct, structs

from headgate.lifecycle.workload import eviction as leaving
from headgate.lifecycle.workload.admission import HAS_NO_RESERVATION, admitted
from headgate.lifecycle.workload.checks import are_ready, in_state, required_checks, retry_not_before, synced_checks
from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    BLOCKED_ON_GATES,
    DEACTIVATED,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    ON_HOLD,
    PENDING_EVALUATION,
    QUOTA_RESERVED,
    REQUEUED,
    Said,
    edited,
    says,
    second,
)
from headgate.lifecycle.workload.deadlines import execution_ends, kept_until, ready_until
from headgate.lifecycle.workload.queue_snapshot import GATED, Circumstances, hindrance, is_stopped
from headgate.model.conditions import Condition
from headgate.model.effects import Activation, Finalizers, QueuedWorkloadStatus, QueuePriority
from headgate.model.kueue_names import IN_USE, JOB_UID
from headgate.model.queues import (
    CheckState,
    CheckStatus,
    GateStatus,
    QueuedWorkload,
    RequeueState,
    StopPolicy,
)

SAID_BY_CYCLE = frozenset(
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
    """One change, and how it is told: what was decided, for which reason, in which words."""

    decision: str
    reason: str
    message: str
    change: Change


Rule = Callable[[QueuedWorkload, Circumstances, float], Step | None]

WAITING = "Waiting"  # it has no quota
RESERVED = "Reserved"  # it has quota and is not admitted yet
LEAVING = "Leaving"  # it has quota, and was told to go or is not active


def next_step(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    """The first change that is due. None: nothing to do but wait."""
    if workload.deleted is not None:
        return _let_go(workload)
    queue, has_quota, gates = around.queue, workload.admission is not None, around.settings.preemption_gates
    has_checks = bool(workload.checks or (queue is not None and queue.checks))
    for rule in _rules(workload.conditions, has_quota, workload.active, has_checks, gates):
        step = rule(workload, around, now)
        if step is not None:
            return step
    return None


@lru_cache(maxsize=4096)  # the same is shown of many
def _rules(
    conditions: tuple[Condition, ...], has_quota: bool, active: bool, checks: bool, gates: bool
) -> tuple[Rule, ...]:
    """Those that may hold of it, by where it stands and what there is to be looked at."""
    shown = {one.type: one.status for one in conditions}
    if shown.get(FINISHED) == "True":
        return (_retired,)
    left_out = () if checks else ABOUT_CHECKS
    left_out += () if gates else (_gates_told,)
    left_out += (_deactivated,) if active else ()
    left_out += () if shown.get(DEACTIVATION_TARGET) == "True" else (_doomed,)
    left_out += () if shown.get(REQUEUED) == "False" else (_queues_again,)
    return tuple(rule for rule in RULES[_stands(shown, has_quota, active)] if rule not in left_out)


def _stands(shown: Mapping[str, str], has_quota: bool, active: bool) -> str:
    if not has_quota:
        return WAITING
    if shown.get(EVICTED) == "True" or not active:
        return LEAVING
    return ADMITTED if shown.get(ADMITTED) == "True" else RESERVED


def _let_go(workload: QueuedWorkload) -> Step | None:
    """Who has an owner is let go by it."""
    if not _is_on_its_own(workload) or IN_USE not in workload.finalizers:
        return None
    names = tuple(name for name in workload.finalizers if name != IN_USE)
    return Step("let go", "Deleted", "nobody owns the workload", Finalizers(names))


def _retired(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    until = kept_until(workload, around.settings)
    if until is None or now < until:
        return None
    return Step("delete", "Deleted", "Deleted finished workload due to elapsed retention", Removal())


def _orphaned(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    """It was made for a job that is gone."""
    is_unowned = workload.owner is None and workload.owned_by_stranger is False
    if not is_unowned or not workload.labels.get(JOB_UID):
        return None
    message = "The workload's owner was not found"
    return Step("finish", "OwnerNotFound", message, leaving.finished(workload, "OwnerNotFound", message, now))


def _doomed(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    doom = workload.condition(DEACTIVATION_TARGET)
    if not workload.active or doom is None:
        return None
    return Step("deactivate", doom.reason, doom.message, Activation(False))


def _deactivated(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    if workload.active or workload.is_true(EVICTED):
        return None
    return _evicted(workload, leaving.deactivated(workload, now))


def _queues_again(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    """What kept it from queueing up again is over."""
    requeued = workload.condition(REQUEUED)
    if not workload.active or requeued is None or requeued.status != "False":
        return None
    found = _what_is_over(requeued.reason, workload, around, now)
    if found is None:
        return None
    reason, message = found
    return Step("requeue", reason, message, leaving.requeued(workload, reason, message, now))


def _what_is_over(why: str, workload: QueuedWorkload, around: Circumstances, now: float) -> tuple[str, str] | None:
    local, queue = around.local, around.queue
    if why.startswith(DEACTIVATED):
        return "Reactivated", "The workload was reactivated"
    if why in (leaving.POD_TIMEOUT, leaving.CHECK):
        rests = workload.requeue is not None and workload.requeue.at is not None and workload.requeue.at > now
        return None if rests else ("BackoffFinished", "The workload backoff was finished")
    if why == leaving.LOCAL_STOPPED and local is not None and local.stop_policy is StopPolicy.NONE:
        return "LocalQueueRestarted", "The LocalQueue was restarted after being stopped"
    if why == leaving.QUEUE_STOPPED and queue is not None and queue.stop_policy is StopPolicy.NONE:
        return "ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"
    return None


def _gates_told(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    """Every preemption gate of its spec has a state, closed to begin with."""
    known = {gate.name: gate for gate in workload.gate_statuses}
    wanted = tuple(known.get(name) or GateStatus(name, False, second(now)) for name in workload.preemption_gates)
    if {gate.name for gate in wanted} == set(known):
        return None
    change = edited(workload, now, gate_statuses=wanted)
    return Step("", "PreemptionGates", "the states of its preemption gates were brought in line", change)


def _checks_told(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    """Its states are those of the checks its queue asks for now."""
    if around.queue is None:
        return None
    names = required_checks(around.queue, workload.admission)
    checks = synced_checks(workload.checks, names, now)
    if checks == workload.checks:
        return None
    return Step(
        "", "AdmissionChecks", "its admission checks were brought in line", edited(workload, now, checks=checks)
    )


def _admitted(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    if around.queue is None or not are_ready(workload.checks, required_checks(around.queue, workload.admission)):
        return None
    return Step("admit", ADMITTED, "The workload is admitted", admitted(workload, now))


def _checks_failed(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    if not workload.checks or workload.is_true(DEACTIVATION_TARGET):
        return None
    rejected, retried = in_state(workload, CheckState.REJECTED), in_state(workload, CheckState.RETRY)
    if rejected:
        message = _named(rejected, CheckState.REJECTED)
        return Step(
            "doom",
            "AdmissionCheckRejected",
            f"Deactivated due to {message}",
            leaving.doomed(workload, leaving.CHECK, message, now),
        )
    if not retried:
        return None
    status = leaving.evicted(workload, leaving.CHECK, f"Evicted due to {_named(retried, CheckState.RETRY)}", now)
    at = retry_not_before(workload)
    if at is not None:
        count = workload.requeue.count if workload.requeue is not None else 0
        status = structs.replace(status, requeue=RequeueState(count, at))
    return _evicted(workload, status)


def _named(checks: Sequence[CheckStatus], state: CheckState) -> str:
    parts = [f'"{check.name}" ({check.message})' if check.message else f'"{check.name}"' for check in checks]
    return f"AdmissionCheck{'s' if len(checks) > 1 else ''} in {state} state: {'; '.join(parts)}"


def _stopped(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    """What has quota only gives it back to a queue that is stopped."""
    why = is_stopped(workload, around)
    if why is None:
        return None
    return Step("release", why.reason, why.message, leaving.unreserved(workload, why.reason, why.message, now))


def _drained(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    """Admitted work leaves a queue that is drained."""
    if around.local is not None and around.local.stop_policy is StopPolicy.HOLD_AND_DRAIN:
        return _evicted(workload, leaving.evicted(workload, leaving.LOCAL_STOPPED, "The LocalQueue is stopped", now))
    if around.queue is not None and around.queue.stop_policy is StopPolicy.HOLD_AND_DRAIN:
        return _evicted(workload, leaving.evicted(workload, leaving.QUEUE_STOPPED, "The ClusterQueue is stopped", now))
    return None


def _not_ready(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    found = ready_until(workload, around.settings)
    if found is None or now < found.at or workload.is_true(DEACTIVATION_TARGET):
        return None
    status = leaving.timed_out(workload, around.settings.pods_ready, found.cause, now)
    if status is not None:
        return _evicted(workload, status)
    reason, message = "RequeuingLimitExceeded", "exceeding the maximum number of re-queuing retries"
    return Step("doom", reason, message, leaving.doomed(workload, reason, message, now))


def _overtime(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    ends = execution_ends(workload, around.settings)
    if ends is None or now < ends or workload.is_true(DEACTIVATION_TARGET):
        return None
    reason = "MaximumExecutionTimeExceeded"
    status = leaving.doomed(workload, reason, "exceeding the maximum execution time", now)
    message = f"The maximum execution time ({workload.max_execution_seconds}s) exceeded"
    return Step("doom", reason, message, structs.replace(status, past_execution_seconds=0))


def _released(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    """Nobody else would give its quota back."""
    if not _is_on_its_own(workload) or not workload.is_true(EVICTED):
        return None
    reason = PENDING_EVALUATION if workload.active else DEACTIVATED
    return Step("release", reason, "its quota is given back", leaving.released(workload, now, reason))


def _kept_out(workload: QueuedWorkload, around: Circumstances, now: float) -> Step | None:
    """Why it does not wait for quota is told as long as it is true."""
    shown = workload.condition(QUOTA_RESERVED)
    before = shown.reason if shown is not None else ""
    why = hindrance(workload, around)
    if not workload.active:
        reason, message = DEACTIVATED, "The workload is deactivated"
    elif before == ON_HOLD and workload.is_on_hold:
        return None
    elif why is not None:
        reason, message = why
    elif shown is None or before in SAID_BY_CYCLE or workload.is_true(BLOCKED_ON_GATES):
        return None
    else:
        reason, message = PENDING_EVALUATION, "Workload is pending evaluation in the scheduling queue"
    said = Said(QUOTA_RESERVED, False, reason, message)
    if says(workload, said) or (reason == before == DEACTIVATED):
        return None
    cleared = before == GATED and reason != GATED
    change = edited(workload, now, said, HAS_NO_RESERVATION)
    return Step("wait", "AdmissionGateCleared" if cleared else reason, message, change)


def _is_on_its_own(workload: QueuedWorkload) -> bool:
    """Nobody owns it, as far as that is told: what was made for a job may have an owner we do not know."""
    if workload.owner is not None or workload.owned_by_stranger:
        return False
    return workload.owned_by_stranger is False or not workload.labels.get(JOB_UID)


def _evicted(workload: QueuedWorkload, status: QueuedWorkloadStatus) -> Step:
    why = next(one for one in status.conditions if one.type == EVICTED)
    return Step("evict", why.reason, why.message, status)


RULES: Mapping[str, tuple[Rule, ...]] = {
    WAITING: (_orphaned, _doomed, _deactivated, _queues_again, _gates_told, _checks_told, _kept_out),
    RESERVED: (_orphaned, _doomed, _gates_told, _checks_told, _checks_failed, _stopped, _admitted),
    ADMITTED: (_orphaned, _doomed, _gates_told, _checks_told, _checks_failed, _drained, _not_ready, _overtime),
    LEAVING: (_orphaned, _doomed, _deactivated, _gates_told, _checks_told, _released),
}
ABOUT_CHECKS: tuple[Rule, ...] = (_checks_told, _checks_failed)
