"""One workload explained: from where it stands, or from how its question for quota would be decided now."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import assert_never

from msgspec import Struct, structs

from headgate.engine.quota.admission_cycle import Admitted, Deferred, Gated, Outcome, Preempting, Waits
from headgate.engine.why_waiting.answers import Act, Explanation, FlavorReport, Place, RaiseQuota, Remedy, Verdict
from headgate.engine.why_waiting.cluster import Cluster
from headgate.engine.why_waiting.decision import MOST_BEFORE, Decision, Question, decide, question_about
from headgate.engine.why_waiting.holding import called
from headgate.engine.why_waiting.remedies import Case, remedies
from headgate.engine.why_waiting.sentences import shortage_sentence
from headgate.engine.why_waiting.shortages import flavor_reports, undeclared
from headgate.engine.why_waiting.standing import Standing, standing, told, unhindered
from headgate.lifecycle.workload.conditions import EVICTED
from headgate.model.queues import ClusterQueue, QueuedWorkload
from headgate.quota import messages
from headgate.quota.ledger import LocalUse
from headgate.quota.pending_queue import Unreserved
from headgate.quota.pending_workload import PendingWorkload, Rank


def explain(cluster: Cluster, workload: QueuedWorkload) -> Explanation:
    found = standing(workload, cluster)
    if found is None:
        return _about_quota(cluster, workload)
    if not found.then_quota:
        return _plain(cluster, workload, found)
    return _and_then(cluster, workload, found)


def _plain(cluster: Cluster, workload: QueuedWorkload, found: Standing) -> Explanation:
    queue = cluster.queue_of(workload)
    node = cluster.forest.queues.get(queue.name) if queue is not None else None
    return Explanation(
        workload=called(workload.key),
        verdict=found.verdict,
        summary=found.summary,
        local_queue=workload.queue,
        cluster_queue=cluster.around.queue_of(workload),
        cohorts=tuple(cohort.name for cohort in node.ancestors()) if node is not None else (),
        priority=workload.effective_priority,
        remedies=tuple(Remedy(Act(act)) for act in found.acts),
    )


def _and_then(cluster: Cluster, workload: QueuedWorkload, found: Standing) -> Explanation:
    """With what would await it if nothing but quota was in its way."""
    plain = _plain(cluster, workload, found)
    if plain.cluster_queue not in cluster.forest.queues:
        return plain
    question = question_about(cluster, unhindered(workload), plain.cluster_queue)
    question = structs.replace(question, inactive=question.inactive - {plain.cluster_queue})
    judged = _judge(question, plain)
    note = f"Once that is over it {judged.told.summary}"
    if judged.case is None:
        note = "Once that is over there is quota for it"
    return structs.replace(plain, about=judged.told.about, flavors=judged.told.flavors, notes=(note,))


def _about_quota(cluster: Cluster, workload: QueuedWorkload) -> Explanation:
    plain = _plain(cluster, workload, Standing(Verdict.QUOTA, ""))
    question = question_about(cluster, workload, plain.cluster_queue)
    judged = _judge(question, plain)
    found = remedies(judged.case) if judged.case is not None else ()
    notes = (*_notes(workload, judged.told, found), *_shown_by(cluster.around.queues[plain.cluster_queue]))
    return structs.replace(judged.told, place=_place(question), remedies=found, notes=notes)


def _notes(workload: QueuedWorkload, judged: Explanation, found: tuple[Remedy, ...]) -> Iterator[str]:
    if workload.is_true(EVICTED):
        yield f"It was evicted before: {told(workload.condition(EVICTED))}"
    more_helps = any(isinstance(remedy.change, RaiseQuota) for remedy in found)
    if judged.verdict in (Verdict.QUOTA, Verdict.BEHIND, Verdict.PREEMPTING) and not more_helps:
        yield f"More quota would first go to others, to over {MOST_BEFORE} of them"


def _shown_by(queue: ClusterQueue) -> Iterator[str]:
    """A queue may be inactive for reasons that only whoever wrote its status knows."""
    for shown in queue.conditions:
        if shown.type == "Active" and shown.status == "False":
            yield f"The status of ClusterQueue {queue.name} says that it is inactive: {told(shown)}"


def _place(question: Question) -> Place:
    """The local queue that used less goes first, where that matters; then it is by rank."""

    def order(one: PendingWorkload) -> tuple[LocalUse, Rank]:
        return (question.used_by(one) if question.used_by is not None else 0), one.rank

    mine = question.head
    others = [order(one) for one in question.rivals.of(mine.queue)]
    return Place(1 + sum(one < order(mine) for one in others), 1 + len(others))


class _Judged(Struct, frozen=True):
    """`case` is None where there is quota for it."""

    told: Explanation
    case: Case | None = None


def _judge(question: Question, plain: Explanation) -> _Judged:
    decision = decide(question)
    shown = decision if decision.outcome is not None else structs.replace(decision, outcome=decision.head)
    if shown.outcome is None or decision.admits:
        summary = "could have quota now: its controller has not decided yet, or does not run"
        return _Judged(structs.replace(plain, verdict=Verdict.NOTHING, summary=summary))
    reports = flavor_reports(question, shown, shown.outcome.head)
    verdict, summary = _judged(question, decision, shown.outcome, reports)
    judged = structs.replace(
        plain,
        verdict=verdict,
        summary=summary,
        about=called(shown.outcome.head.key),
        flavors=reports,
        victims=tuple(called(victim.reservation.key) for victim in decision.victims),
    )
    return _Judged(judged, Case(question, decision, reports))


def _judged(
    question: Question, decision: Decision, outcome: Outcome, reports: tuple[FlavorReport, ...]
) -> tuple[Verdict, str]:
    verdict, summary = _of_outcome(question, decision, outcome, reports)
    if decision.outcome is not None:
        return verdict, summary
    head = called(outcome.head.key)
    behind = f"waits behind {head}: ClusterQueue {outcome.head.queue} is StrictFIFO, and {head} {summary}"
    return Verdict.BEHIND, behind


def _of_outcome(
    question: Question, decision: Decision, outcome: Outcome, reports: tuple[FlavorReport, ...]
) -> tuple[Verdict, str]:
    match outcome:
        case Preempting(_, _, victims, _):
            names = ", ".join(called(victim.reservation.key) for victim in victims)
            if _is_withheld(outcome.head.workload):
                return Verdict.PREEMPTION_WITHHELD, f"may not preempt {names}: {messages.CIRCLES}"
            how = "have left" if all(victim.reservation.evicted for victim in victims) else "have been made to leave"
            return Verdict.PREEMPTING, f"gets quota when these {how}: {names}"
        case Deferred():
            return Verdict.PREEMPTING, "gets quota when workloads that leave for others are gone"
        case Gated():
            gates = ", ".join(outcome.head.workload.preemption_gates)
            return Verdict.PREEMPTION_GATED, f"may not preempt anybody while a preemption gate is closed: {gates}"
        case Waits():
            return _of_waiting(question, decision, outcome, reports)
        case Admitted():
            return Verdict.NOTHING, "could have quota now"
        case _:
            assert_never(outcome)


def _is_withheld(workload: QueuedWorkload) -> bool:
    """Its condition says so; who only sees the objects cannot know what they were before."""
    shown = workload.condition("QuotaReserved")
    return shown is not None and shown.status == "False" and messages.WITHHELD in shown.message


def _of_waiting(
    question: Question, decision: Decision, outcome: Waits, reports: tuple[FlavorReport, ...]
) -> tuple[Verdict, str]:
    if outcome.reason is Unreserved.PODS_NOT_READY:
        return Verdict.PODS_NOT_READY, "waits until the pods of all admitted workloads are ready"
    if outcome.head.problem:
        return Verdict.INVALID, f"cannot run as it is: {outcome.head.problem}"
    if outcome.reason is Unreserved.NO_FLAVOR:
        return Verdict.NO_FLAVOR, _no_flavor(question, outcome, reports)
    nearest = nearest_report(reports)
    if nearest is not None:
        short = max(nearest.shortages, key=lambda one: Fraction(one.missing, one.requested))
        verdict = Verdict.TOO_LARGE if outcome.reason is Unreserved.TOO_LARGE else Verdict.QUOTA
        return verdict, shortage_sentence(short)
    first = [called(one.head.key) for one in decision.before]
    if outcome.message == messages.NO_LONGER_FITS and first:
        return Verdict.QUOTA, f"must leave the room to {', '.join(first)}, whose turn comes first"
    return Verdict.QUOTA, f"gets no quota: {outcome.message}"


def _no_flavor(question: Question, outcome: Waits, reports: tuple[FlavorReport, ...]) -> str:
    resources = undeclared(question, outcome.head)
    if resources:
        return f"asks for {', '.join(resources)}, and ClusterQueue {outcome.head.queue} has no quota for that"
    whys = dict.fromkeys(report.refusal for report in reports if report.refusal)
    return f"suits no flavor: {'; '.join(whys) or outcome.message}"


def nearest_report(reports: tuple[FlavorReport, ...]) -> FlavorReport | None:
    """The flavor that lacks least of what is asked for; the first of equals."""
    short = [report for report in reports if report.shortages]
    return min(short, key=_lack, default=None)


def _lack(report: FlavorReport) -> tuple[bool, Fraction]:
    return (
        any(short.is_for_ever for short in report.shortages),
        max(Fraction(short.missing, short.requested) for short in report.shortages),
    )
