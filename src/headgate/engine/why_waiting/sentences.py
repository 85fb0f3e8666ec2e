"""Limits and changes in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from headgate.engine.why_waiting.answers import (
    Act,
    Change,
    CoverResources,
    FewerPods,
    Finish,
    HigherPriority,
    LimitKind,
    NewAmount,
    RaiseQuota,
    Remedy,
    SetPolicy,
    Shortage,
    SmallerPods,
    SuitFlavor,
    Withdraw,
    Withheld,
)
from headgate.quota.messages import amount_text


def shortage_sentence(short: Shortage) -> str:
    """Continues a sentence about the workload."""
    asked = f"{amount_text(short.resource, short.requested)} {short.resource} of flavor {short.flavor}"
    if short.is_for_ever:
        largest = amount_text(short.resource, short.largest)
        return f"asks for {asked}, and can never get more than {largest}: {limit_text(short)}"
    free = amount_text(short.resource, short.free)
    return f"needs {asked} and {free} is free: {limit_text(short)}"


def limit_text(short: Shortage) -> str:
    """The node that binds, and its numbers."""
    capacity, used = (amount_text(short.resource, amount) for amount in (short.capacity, short.used))
    where = node_text(short.node, short.is_cohort)
    match short.limit:
        case LimitKind.NOMINAL:
            return f"nominalQuota of {where} is {capacity}, {used} in use"
        case LimitKind.BORROWING:
            return f"{where} may use {capacity} with its borrowingLimit, {used} in use"
        case LimitKind.TOTAL:
            return f"{where} has {capacity} in total, {used} in use{_withheld_text(short.resource, short.withheld)}"
        case _:
            assert_never(short.limit)


def _withheld_text(resource: str, withheld: Iterable[Withheld]) -> str:
    kept = [f"{one.node} keeps {amount_text(resource, one.amount)}" for one in withheld]
    return f" ({', '.join(kept)} unused by its lendingLimit)" if kept else ""


def node_text(name: str, is_cohort: bool) -> str:
    return f"{'Cohort' if is_cohort else 'ClusterQueue'} {name}"


def remedy_sentence(remedy: Remedy) -> str:
    text = _change(remedy.change)
    return f"{text}; then {', '.join(remedy.victims)} must leave for it" if remedy.victims else text


def _change(change: Change) -> str:
    match change:
        case RaiseQuota(name, is_cohort, field, amounts):
            return f"raise {field} of {node_text(name, is_cohort)}: {_amounts(amounts)}"
        case FewerPods(pod_set, before, to):
            return f"run {to} instead of {before} pods of {pod_set} (parallelism)"
        case SmallerPods(pod_set, amounts):
            asked = ", ".join(f"{amount_text(one.resource, one.to)} {one.resource}" for one in amounts)
            return f"let each pod of {pod_set} ask for no more than {asked}"
        case HigherPriority(before, to):
            return f"raise its priority from {before} to {to}"
        case SetPolicy(queue, field, value):
            return f"set preemption.{field} of ClusterQueue {queue} to {value}"
        case Finish(workloads):
            return f"wait for, or end, {' and '.join(workloads)}"
        case Withdraw(workload):
            return f"take {workload} out of the queue (delete it, or set its spec.active to false)"
        case SuitFlavor(flavor, taints, labels):
            wants = [*(f"tolerate {taint}" for taint in taints), *(f"run where {label}" for label in labels)]
            return f"let its pods {' and '.join(wants)} (flavor {flavor})"
        case CoverResources(queue, resources):
            return f"add {', '.join(resources)} to the quota of ClusterQueue {queue}, or ask for none"
        case Act(text):
            return text
        case _:
            assert_never(change)


def _amounts(amounts: Iterable[NewAmount]) -> str:
    return ", ".join(
        f"{one.resource} of flavor {one.flavor} by {amount_text(one.resource, one.by)}"
        f" (to {amount_text(one.resource, one.to)})"
        for one in amounts
    )
