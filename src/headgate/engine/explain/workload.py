"""Explains one workload: by its state, or by how an admission cycle would decide on it now.

Of one that was dispatched, also what each worker cluster answers: by its clone there, or by what home knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import assert_never

from msgspec import Struct, structs

from headgate.engine.explain.explanation import (
    Explanation,
    FlavorReport,
    MinimalChange,
    QueuePosition,
    RaiseQuota,
    RequiredAction,
    WorkerAnswer,
    WorkloadAhead,
    WorkloadState,
    limit_sentence,
)
from headgate.engine.explain.limits import flavor_reports, namespaced_name, uncovered_resources
from headgate.engine.explain.minimal_changes import DecidedCase, minimal_changes
from headgate.engine.explain.snapshot import ClusterSnapshot
from headgate.engine.explain.state import StateReport, condition_text, state_before_quota, without_blockers
from headgate.engine.explain.what_if import MOST_BEFORE, Decision, QuotaWhatIf, decide, what_if_for
from headgate.engine.quota.admission_cycle import Admitted, Deferred, Gated, Outcome, Preempting, Waits
from headgate.fleet.orchestrator import Promise
from headgate.fleet.replicas import Answer, Replica
from headgate.lifecycle.workload.conditions import EVICTED
from headgate.model.keys import Condition
from headgate.model.kueue_names import OPENED_GATE
from headgate.model.quantity import duration_text
from headgate.model.queues import ClusterQueue, MultiKueueCluster, QueuedWorkload
from headgate.quota import messages
from headgate.quota.ledger import LocalUse
from headgate.quota.pending_queue import Unreserved
from headgate.quota.pending_workload import PendingWorkload, Rank

MOST_AHEAD = 5  # workloads that are named
EXPLAIN_ROLE = "headgate-explain"
"""The ClusterRole that `headgate install` creates for whoever may read all that decides about quota."""


def explain(cluster: ClusterSnapshot, workload: QueuedWorkload) -> Explanation:
    found = state_before_quota(workload, cluster)
    if found is None:
        return _about_quota(cluster, workload)
    if not found.then_quota or cluster.hidden:
        return _plain(cluster, workload, found)
    return _and_then(cluster, workload, found)


def _plain(cluster: ClusterSnapshot, workload: QueuedWorkload, found: StateReport) -> Explanation:
    queue = cluster.queue_of(workload)
    node = cluster.forest.queues.get(queue.name) if queue is not None else None
    return Explanation(
        workload=namespaced_name(workload.key),
        state=found.state,
        summary=found.summary,
        local_queue=workload.queue,
        cluster_queue=cluster.objects.queue_of(workload),
        cohorts=tuple(cohort.name for cohort in node.ancestors()) if node is not None else (),
        priority=workload.effective_priority,
        minimal_changes=tuple(MinimalChange(RequiredAction(act)) for act in found.actions),
        notes=(_hidden(cluster),) if found.state is WorkloadState.PENDING else (),
    )


def _hidden(cluster: ClusterSnapshot) -> str:
    kinds = ", ".join(kind.partition(".")[0] for kind in cluster.hidden)
    return (
        f"Limits and holders of quota are not shown: the rights to list {kinds} in the whole cluster are missing "
        f"(ClusterRole {EXPLAIN_ROLE} has them)"
    )


def _and_then(cluster: ClusterSnapshot, workload: QueuedWorkload, found: StateReport) -> Explanation:
    """Its state, and what an admission cycle would decide once that is resolved."""
    plain = _plain(cluster, workload, found)
    if plain.cluster_queue not in cluster.forest.queues:
        return plain
    what_if = what_if_for(cluster, without_blockers(workload), plain.cluster_queue)
    what_if = structs.replace(what_if, inactive=what_if.inactive - {plain.cluster_queue})
    result = _quota_result(what_if, plain)
    note = f"After that it {result.explanation.summary}"
    if result.case is None:
        note = "After that it would be admitted"
    return structs.replace(plain, about=result.explanation.about, flavors=result.explanation.flavors, notes=(note,))


def _about_quota(cluster: ClusterSnapshot, workload: QueuedWorkload) -> Explanation:
    plain = _plain(cluster, workload, StateReport(WorkloadState.QUOTA, ""))
    what_if = what_if_for(cluster, workload, plain.cluster_queue)
    result = _quota_result(what_if, plain)
    found = minimal_changes(result.case) if result.case is not None else ()
    notes = (*_notes(workload, result.explanation, found), *_shown_by(cluster.objects.queues[plain.cluster_queue]))
    return structs.replace(result.explanation, position=_position(what_if), minimal_changes=found, notes=notes)


def _notes(workload: QueuedWorkload, result: Explanation, found: tuple[MinimalChange, ...]) -> Iterator[str]:
    if workload.is_true(EVICTED):
        yield f"It was evicted before: {condition_text(workload.condition(EVICTED))}"
    more_helps = any(isinstance(minimal_change.change, RaiseQuota) for minimal_change in found)
    if result.state in (WorkloadState.QUOTA, WorkloadState.BEHIND, WorkloadState.PREEMPTING) and not more_helps:
        yield f"More quota would first admit over {MOST_BEFORE} other workloads"


def _shown_by(queue: ClusterQueue) -> Iterator[str]:
    """Notes an inactive status: its reasons may be known only to the controller that wrote it."""
    for shown in queue.conditions:
        if shown.type == "Active" and shown.status == "False":
            yield f"The status of ClusterQueue {queue.name} says that it is inactive: {condition_text(shown)}"


def _position(what_if: QuotaWhatIf) -> QueuePosition:
    """Its position by usage-based fair sharing, if enabled, then by rank."""

    def order(one: PendingWorkload) -> tuple[LocalUse, Rank]:
        return (what_if.used_by(one) if what_if.used_by is not None else 0), one.rank

    mine = what_if.head
    others = what_if.others.of(mine.queue)
    ahead = sorted((one for one in others if order(one) < order(mine)), key=order)
    named = tuple(WorkloadAhead(namespaced_name(one.key), one.workload.effective_priority) for one in ahead)
    return QueuePosition(1 + len(ahead), 1 + len(others), named[:MOST_AHEAD])


class _QuotaResult(Struct, frozen=True):
    """`case` is None if it would be admitted."""

    explanation: Explanation
    case: DecidedCase | None = None


def _quota_result(what_if: QuotaWhatIf, plain: Explanation) -> _QuotaResult:
    decision = decide(what_if)
    shown = decision if decision.outcome is not None else structs.replace(decision, outcome=decision.head)
    if shown.outcome is None or decision.admits:
        summary = "could be admitted now: its controller has not decided yet, or does not run"
        return _QuotaResult(structs.replace(plain, state=WorkloadState.NOTHING, summary=summary))
    reports = flavor_reports(what_if, shown, shown.outcome.head)
    state, summary = _state_and_summary(what_if, decision, shown.outcome, reports)
    result = structs.replace(
        plain,
        state=state,
        summary=summary,
        about=namespaced_name(shown.outcome.head.key),
        flavors=reports,
        victims=tuple(namespaced_name(victim.reservation.key) for victim in decision.victims),
    )
    return _QuotaResult(result, DecidedCase(what_if, decision, reports))


def _state_and_summary(
    what_if: QuotaWhatIf, decision: Decision, outcome: Outcome, reports: tuple[FlavorReport, ...]
) -> tuple[WorkloadState, str]:
    state, summary = _of_outcome(what_if, decision, outcome, reports)
    if decision.outcome is not None:
        return state, summary
    head = namespaced_name(outcome.head.key)
    behind = f"waits behind {head}: ClusterQueue {outcome.head.queue} is StrictFIFO, and {head} {summary}"
    return WorkloadState.BEHIND, behind


def _of_outcome(
    what_if: QuotaWhatIf, decision: Decision, outcome: Outcome, reports: tuple[FlavorReport, ...]
) -> tuple[WorkloadState, str]:
    match outcome:
        case Preempting(_, _, victims, _):
            names = ", ".join(namespaced_name(victim.reservation.key) for victim in victims)
            if _is_withheld(outcome.head.workload):
                return WorkloadState.PREEMPTION_WITHHELD, f"may not preempt {names}: {messages.CIRCLES}"
            if all(victim.reservation.evicted for victim in victims):
                return WorkloadState.PREEMPTING, f"waits for preempted workloads to release their quota: {names}"
            return WorkloadState.PREEMPTING, f"is admitted once these are preempted: {names}"
        case Deferred():
            return WorkloadState.PREEMPTING, "waits for workloads that others preempt to release their quota"
        case Gated():
            gates = ", ".join(outcome.head.workload.closed_gates)
            return WorkloadState.PREEMPTION_GATED, f"may not preempt while a preemption gate is closed: {gates}"
        case Waits():
            return _of_waiting(what_if, decision, outcome, reports)
        case Admitted():
            return WorkloadState.NOTHING, "could be admitted now"
        case _:
            assert_never(outcome)


def _is_withheld(workload: QueuedWorkload) -> bool:
    """Whether its condition says so: the history of allocations cannot be seen in the objects."""
    shown = workload.condition("QuotaReserved")
    return shown is not None and shown.status == "False" and messages.WITHHELD in shown.message


def _of_waiting(
    what_if: QuotaWhatIf, decision: Decision, outcome: Waits, reports: tuple[FlavorReport, ...]
) -> tuple[WorkloadState, str]:
    if outcome.reason is Unreserved.PODS_NOT_READY:
        return WorkloadState.PODS_NOT_READY, "waits until the pods of all admitted workloads are ready"
    if outcome.head.problem:
        return WorkloadState.INVALID, f"cannot run as it is: {outcome.head.problem}"
    if outcome.reason is Unreserved.NO_FLAVOR:
        return WorkloadState.NO_FLAVOR, _no_flavor(what_if, outcome, reports)
    nearest = nearest_report(reports)
    if nearest is not None:
        short = max(nearest.limits, key=lambda one: Fraction(one.missing, one.requested))
        state = WorkloadState.TOO_LARGE if outcome.reason is Unreserved.TOO_LARGE else WorkloadState.QUOTA
        return state, limit_sentence(short)
    first = [namespaced_name(one.head.key) for one in decision.before]
    if outcome.message == messages.NO_LONGER_FITS and first:
        return WorkloadState.QUOTA, f"no longer fits after {', '.join(first)}, considered first"
    return WorkloadState.QUOTA, f"gets no quota: {outcome.message}"


def _no_flavor(what_if: QuotaWhatIf, outcome: Waits, reports: tuple[FlavorReport, ...]) -> str:
    resources = uncovered_resources(what_if, outcome.head)
    if resources:
        return f"requests {', '.join(resources)}, which ClusterQueue {outcome.head.queue} does not cover"
    whys = dict.fromkeys(report.refusal for report in reports if report.refusal)
    return f"matches no flavor: {'; '.join(whys) or outcome.message}"


def nearest_report(reports: tuple[FlavorReport, ...]) -> FlavorReport | None:
    """The flavor that lacks the smallest part of what is requested; the first of equals."""
    short = [report for report in reports if report.limits]
    return min(short, key=_lack, default=None)


def _lack(report: FlavorReport) -> tuple[bool, Fraction]:
    return (
        any(short.is_for_ever for short in report.limits),
        max(Fraction(short.missing, short.requested) for short in report.limits),
    )


def concerned_clusters(home: QueuedWorkload) -> tuple[str, ...]:
    """The worker clusters that a workload was dispatched to, and the one it runs on."""
    named = (*home.status.nominated_clusters, *((home.status.cluster,) if home.status.cluster else ()))
    return tuple(dict.fromkeys(named))


def worker_answers(
    home: QueuedWorkload,
    clusters: Mapping[str, MultiKueueCluster],
    clones: Mapping[str, QueuedWorkload],
    now: float,
) -> tuple[WorkerAnswer, ...]:
    """In the order of nomination. `clusters` and `clones` have what could be read."""
    promise = Promise.read(home.annotations.get(OPENED_GATE, ""), 0.0)
    answers = []
    for name in concerned_clusters(home):
        answer, why = _answer(home, name, clusters.get(name), clones.get(name), now)
        if promise is not None and promise.cluster == name and home.status.cluster != name:
            why = "; ".join(
                filter(None, (f"allowed to preempt {duration_text(max(0, int(now - promise.at)))} ago", why))
            )
        answers.append(WorkerAnswer(name, answer, why))
    return tuple(answers)


def is_connected(cluster: MultiKueueCluster) -> bool:
    """As its status says."""
    shown = _active(cluster)
    return shown is not None and shown.status == "True"


def _active(cluster: MultiKueueCluster) -> Condition | None:
    return next((one for one in cluster.conditions if one.type == "Active"), None)


def _answer(
    home: QueuedWorkload, name: str, cluster: MultiKueueCluster | None, clone: QueuedWorkload | None, now: float
) -> tuple[str, str]:
    shown = _active(cluster) if cluster is not None else None
    if clone is not None:
        return _of_clone(Replica(name, clone), now)
    if shown is not None and shown.status != "True":
        return "not connected", f"{shown.reason}: {shown.message}"
    if home.status.cluster == name:
        return "admitted", ""
    return "dispatched", "its answer cannot be read from here"


def _of_clone(replica: Replica, now: float) -> tuple[str, str]:
    quota = replica.workload.condition("QuotaReserved")
    why = quota.message if quota is not None else ""
    match replica.answer:
        case Answer.ADMITTED:
            return "admitted", ""
        case Answer.RESERVED:
            return "has quota", "waits for its admission checks"
        case Answer.BLOCKED:
            return "needs preemption", _price(replica, now)
        case Answer.REFUSED:
            return "no quota", why
        case Answer.NONE if replica.opened_at is not None:
            return "preempting", why
        case Answer.NONE:
            return "not considered yet", why
        case _:
            assert_never(replica.answer)


def _price(replica: Replica, now: float) -> str:
    offer = replica.proposal
    if offer is None:
        return "its gate is closed"
    victims = "1 workload" if offer.victims == 1 else f"{offer.victims} workloads"
    lost = duration_text(offer.work_lost(now))
    return f"its gate is closed; would evict {victims} of priority up to {offer.highest_priority}, {lost} of pod work"
