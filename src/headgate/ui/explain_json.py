"""An explanation as scripts read it: amounts are Kubernetes quantities, times RFC 3339."""

from __future__ import annotations

from typing import Any, assert_never

from headgate.api.wire import format_time
from headgate.engine.why_waiting.answers import (
    Act,
    Change,
    CoverResources,
    Explanation,
    FewerPods,
    Finish,
    FlavorReport,
    HigherPriority,
    HolderLine,
    NewAmount,
    RaiseQuota,
    Remedy,
    SetPolicy,
    Shortage,
    SmallerPods,
    SuitFlavor,
    Withdraw,
)
from headgate.engine.why_waiting.sentences import remedy_sentence
from headgate.quota.wording import amount_text

Json = dict[str, Any]


def to_json(told: Explanation) -> Json:
    place = told.place
    return {
        "workload": told.workload,
        "verdict": told.verdict.value,
        "summary": told.summary,
        "notes": list(told.notes),
        "localQueue": told.local_queue,
        "clusterQueue": told.cluster_queue,
        "cohorts": list(told.cohorts),
        "priority": told.priority,
        "place": None if place is None else {"position": place.position, "of": place.of},
        "about": told.about,
        "flavors": [_flavor(report) for report in told.flavors],
        "victims": list(told.victims),
        "remedies": [_remedy(remedy) for remedy in told.remedies],
    }


def _flavor(report: FlavorReport) -> Json:
    return {
        "podSet": report.pod_set,
        "flavor": report.flavor,
        "refusal": report.refusal,
        "shortages": [_shortage(short) for short in report.shortages],
    }


def _shortage(short: Shortage) -> Json:
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
        "node": {"kind": _kind(short.is_cohort), "name": short.node},
        **{name: amount_text(short.resource, amount) for name, amount in amounts.items()},
        "withheld": [{"name": one.node, "amount": amount_text(short.resource, one.amount)} for one in short.withheld],
        "holders": [_holder(short.resource, one) for one in short.holders],
    }


def _holder(resource: str, one: HolderLine) -> Json:
    return {
        "workload": one.workload,
        "clusterQueue": one.queue,
        "priority": one.priority,
        "amount": amount_text(resource, one.amount),
        "since": None if one.since is None else format_time(one.since),
        "preemptable": one.may_go,
        "why": one.why,
    }


def _remedy(remedy: Remedy) -> Json:
    text = remedy_sentence(remedy)
    return {"text": text, "change": _change(remedy.change), "victims": list(remedy.victims)}


def _change(change: Change) -> Json:
    match change:
        case RaiseQuota(name, is_cohort, field, amounts):
            raised = [{"flavor": one.flavor, **_amount(one)} for one in amounts]
            return {
                "kind": "RaiseQuota",
                "of": {"kind": _kind(is_cohort), "name": name},
                "field": field,
                "amounts": raised,
            }
        case FewerPods(pod_set, before, to):
            return {"kind": "FewerPods", "podSet": pod_set, "from": before, "to": to}
        case SmallerPods(pod_set, amounts):
            return {"kind": "SmallerPods", "podSet": pod_set, "amounts": [_amount(one) for one in amounts]}
        case HigherPriority(before, to):
            return {"kind": "HigherPriority", "from": before, "to": to}
        case SetPolicy(queue, field, value):
            return {"kind": "SetPolicy", "clusterQueue": queue, "field": f"preemption.{field}", "value": value}
        case Finish(workloads):
            return {"kind": "Finish", "workloads": list(workloads)}
        case Withdraw(workload):
            return {"kind": "Withdraw", "workload": workload}
        case SuitFlavor(flavor, taints, labels):
            return {"kind": "SuitFlavor", "flavor": flavor, "taints": list(taints), "labels": list(labels)}
        case CoverResources(queue, resources):
            return {"kind": "CoverResources", "clusterQueue": queue, "resources": list(resources)}
        case Act():
            return {"kind": "Act"}
        case _:
            assert_never(change)


def _amount(one: NewAmount) -> Json:
    return {"resource": one.resource, "by": amount_text(one.resource, one.by), "to": amount_text(one.resource, one.to)}


def _kind(is_cohort: bool) -> str:
    return "Cohort" if is_cohort else "ClusterQueue"
