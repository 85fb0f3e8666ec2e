"""An explanation of a workload as text and as JSON: the verdict, the limits, the holders of quota, the remedies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from msgspec import structs

from headgate.api.wire import format_time
from headgate.engine.explain.explanation import (
    Change,
    CoverResources,
    DeactivateHead,
    Explanation,
    FewerPods,
    FinishWorkloads,
    FlavorReport,
    HigherPriority,
    LimitingQuota,
    MatchFlavor,
    MinimalChange,
    NewAmount,
    QueuePosition,
    QuotaHolder,
    RaiseQuota,
    RequiredAction,
    SetPolicy,
    SmallerPods,
    change_sentence,
    node_text,
)
from headgate.engine.explain.workload import nearest_report
from headgate.quota.messages import amount_text
from headgate.ui.output import age, table

WORKLOAD = "Workload"
Json = dict[str, Any]
MOST_HOLDERS = 8  # lines
LIMITS = ["FLAVOR", "RESOURCE", "LIMIT", "CAPACITY", "USED", "FREE", "REQUESTED", "MISSING"]


def render(explanation: Explanation, now: float) -> Iterator[str]:
    """Lines of text; the first has the verdict."""
    yield f"{explanation.kind} {explanation.workload}: {explanation.state}"
    yield from _where(explanation)
    yield f"  {explanation.workload.partition('/')[2]} {explanation.summary}."
    yield from (f"  {note}." for note in explanation.notes)
    if explanation.workers:
        yield ""
        rows = [[one.cluster, one.answer, one.why] for one in explanation.workers]
        yield from table(["WORKER CLUSTER", "ANSWER", "WHY"], rows)
    if explanation.flavors:
        yield ""
        yield from _flavors(explanation)
    yield from _held(explanation, now)
    if explanation.minimal_changes:
        yield ""
        yield _headline(explanation.minimal_changes)
        yield from (f"  * {change_sentence(minimal_change)}" for minimal_change in explanation.minimal_changes)


def _headline(minimal_changes: Sequence[MinimalChange]) -> str:
    if all(isinstance(minimal_change.change, RequiredAction) for minimal_change in minimal_changes):
        return "Required actions:"
    return (
        "This minimal change would admit it:"
        if len(minimal_changes) == 1
        else "Any one of these minimal changes would admit it:"
    )


def _where(explanation: Explanation) -> Iterator[str]:
    path = [f"LocalQueue {explanation.local_queue}"] if explanation.local_queue else []
    path += [f"ClusterQueue {explanation.cluster_queue}"] if explanation.cluster_queue else []
    path += [f"Cohort {name}" for name in explanation.cohorts]
    parts = [" -> ".join(path)] if path else []
    if explanation.kind == WORKLOAD:
        parts.append(f"priority {explanation.priority}")
    if explanation.position is not None:
        parts.append(f"{explanation.position.position} of {explanation.position.of} in the queue")
    if parts:
        yield f"  {', '.join(parts)}"
    if explanation.position is not None and explanation.position.ahead:
        yield f"  Ahead of it in the queue: {_ahead(explanation.position)}."


def _ahead(position: QueuePosition) -> str:
    named = [f"{one.workload} (priority {one.priority})" for one in position.ahead]
    left = position.position - 1 - len(named)
    return ", ".join(named) + (f" and {left} more" if left else "")


def _flavors(explanation: Explanation) -> Iterator[str]:
    several = len({report.pod_set for report in explanation.flavors}) > 1
    if explanation.about and explanation.about != explanation.workload:
        yield f"Of {explanation.about}, which is ahead of it:"
    rows = [(report, short) for report in explanation.flavors for short in report.limits]
    if rows:
        yield from table(LIMITS, [_limit(report, short, several) for report, short in rows])
    for report in explanation.flavors:
        if report.refusal:
            yield f"{_flavor(report, several)}  {report.refusal}"


def _flavor(report: FlavorReport, several: bool) -> str:
    return f"{report.flavor} ({report.pod_set})" if several else report.flavor


def _limit(report: FlavorReport, short: LimitingQuota, several: bool) -> list[str]:
    numbers = (short.capacity, short.used, short.free, short.requested, short.missing)
    where = f"{short.limit} of {node_text(short.node, short.is_cohort)}"
    return [_flavor(report, several), short.resource, where, *(amount_text(short.resource, one) for one in numbers)]


def _held(explanation: Explanation, now: float) -> Iterator[str]:
    """The workloads that hold quota of the flavor that is nearest to fitting."""
    nearest = nearest_report(explanation.flavors)
    for short in nearest.limits if nearest is not None else ():
        if short.holders:
            yield ""
            head = f"HOLDS {short.resource} OF {short.flavor}"
            shown = [_holder(short, one, now) for one in short.holders[:MOST_HOLDERS]]
            yield from table([head, "AMOUNT", "QUEUE", "PRIORITY", "SINCE", "PREEMPTABLE"], shown)
            left = len(short.holders) - MOST_HOLDERS
            if left > 0:
                rest = sum(one.amount for one in short.holders[MOST_HOLDERS:])
                yield f"and {left} more with {amount_text(short.resource, rest)} together"


def _holder(short: LimitingQuota, one: QuotaHolder, now: float) -> list[str]:
    amount = amount_text(short.resource, one.amount)
    since = age(now - one.since) if one.since is not None else "-"
    return [
        one.workload,
        amount,
        one.queue,
        str(one.priority),
        since,
        f"{'yes' if one.preemptable else 'no'}, {one.why}",
    ]


def to_json(explanation: Explanation) -> Json:
    """Amounts are Kubernetes quantities, times RFC 3339."""
    position = explanation.position
    return {
        "kind": explanation.kind,
        "workload": explanation.workload,
        "verdict": explanation.state.value,
        "summary": explanation.summary,
        "notes": list(explanation.notes),
        "localQueue": explanation.local_queue,
        "clusterQueue": explanation.cluster_queue,
        "cohorts": list(explanation.cohorts),
        "priority": explanation.priority,
        "place": None if position is None else {"position": position.position, "of": position.of},
        "ahead": [structs.asdict(one) for one in position.ahead] if position is not None else [],
        "workers": [structs.asdict(one) for one in explanation.workers],
        "about": explanation.about,
        "flavors": [_flavor_json(report) for report in explanation.flavors],
        "victims": list(explanation.victims),
        "remedies": [_remedy_json(minimal_change) for minimal_change in explanation.minimal_changes],
    }


def _flavor_json(report: FlavorReport) -> Json:
    return {
        "podSet": report.pod_set,
        "flavor": report.flavor,
        "refusal": report.refusal,
        "shortages": [_shortage_json(short) for short in report.limits],
    }


def _shortage_json(short: LimitingQuota) -> Json:
    amounts = {
        "capacity": short.capacity,
        "used": short.used,
        "free": short.free,
        "requested": short.requested,
        "missing": short.missing,
        "largest": short.largest,
    }
    return {
        "resource": short.resource,
        "limit": short.limit.value,
        "node": {"kind": _node_kind(short.is_cohort), "name": short.node},
        **{name: amount_text(short.resource, amount) for name, amount in amounts.items()},
        "withheld": [{"name": one.node, "amount": amount_text(short.resource, one.amount)} for one in short.unlent],
        "holders": [_holder_json(short.resource, one) for one in short.holders],
    }


def _holder_json(resource: str, one: QuotaHolder) -> Json:
    return {
        "workload": one.workload,
        "clusterQueue": one.queue,
        "priority": one.priority,
        "amount": amount_text(resource, one.amount),
        "since": None if one.since is None else format_time(one.since),
        "preemptable": one.preemptable,
        "why": one.why,
    }


def _remedy_json(minimal_change: MinimalChange) -> Json:
    text = change_sentence(minimal_change)
    return {"text": text, "change": _change_json(minimal_change.change), "victims": list(minimal_change.victims)}


def _change_json(change: Change) -> Json:
    match change:
        case RaiseQuota(name, is_cohort, field, amounts):
            raised = [{"flavor": one.flavor, **_amount_json(one)} for one in amounts]
            return {
                "kind": "RaiseQuota",
                "of": {"kind": _node_kind(is_cohort), "name": name},
                "field": field,
                "amounts": raised,
            }
        case FewerPods(pod_set, before, to):
            return {"kind": "FewerPods", "podSet": pod_set, "from": before, "to": to}
        case SmallerPods(pod_set, amounts):
            return {"kind": "SmallerPods", "podSet": pod_set, "amounts": [_amount_json(one) for one in amounts]}
        case HigherPriority(before, to):
            return {"kind": "HigherPriority", "from": before, "to": to}
        case SetPolicy(queue, field, value):
            return {"kind": "SetPolicy", "clusterQueue": queue, "field": f"preemption.{field}", "value": value}
        case FinishWorkloads(workloads):
            return {"kind": "Finish", "workloads": list(workloads)}
        case DeactivateHead(workload):
            return {"kind": "Withdraw", "workload": workload}
        case MatchFlavor(flavor, taints, labels):
            return {"kind": "SuitFlavor", "flavor": flavor, "taints": list(taints), "labels": list(labels)}
        case CoverResources(queue, resources):
            return {"kind": "CoverResources", "clusterQueue": queue, "resources": list(resources)}
        case RequiredAction():
            return {"kind": "Act"}
        case _:
            assert_never(change)


def _amount_json(one: NewAmount) -> Json:
    return {"resource": one.resource, "by": amount_text(one.resource, one.by), "to": amount_text(one.resource, one.to)}


def _node_kind(is_cohort: bool) -> str:
    return "Cohort" if is_cohort else "ClusterQueue"
