"""What is reported about a preemption: receipts in the journal, and events that do not name other tenants' pods."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.engine.journal import Entry
from headgate.model.effects import EmitEvent, EventType, Evict
from headgate.model.events import Outcome
from headgate.model.keys import Key
from headgate.model.pod import EvictionMark, GroupKey, Pod, evicted_together
from headgate.preemption.receipts import Receipt
from headgate.preemption.search import Plan, Preemptor

BY_SCHEDULER = "PreemptionByScheduler"
REST = "the rest of its gang has been preempted"
ABANDONED = "the preemption was abandoned"
SHOWN = 5  # names in a text before it only counts
NAMED = 200  # victims a receipt names
EVENT_LIMIT = 1024
NominatedNodes = Iterable[tuple[Pod, str]]


def preempting_text(plan: Plan) -> str:
    """The same while the plan is carried out: a text that counts down would be written for every victim."""
    pods = sum(len(unit.pods) for unit in plan.victims)
    if not pods:
        return awaiting_text(plan.placements)
    asking = max(pod.priority for pod, _ in plan.placements)
    lower = all(unit.priority < asking for unit in plan.victims)
    whom = counted(pods, "lower-priority pod") if lower else f"{counted(pods, 'pod')} that a queue gives back"
    return f"preempting {whom} on {_nodes_of(plan.placements)}"


def awaiting_text(placements: NominatedNodes) -> str:
    return f"waiting for terminating pods on {_nodes_of(placements)}"


def _nodes_of(placements: NominatedNodes) -> str:
    return listed(dict.fromkeys(node for _, node in placements))


def preempting(preemptor: Preemptor, plan: Plan, now: float) -> Entry:
    """The receipt: victims, preemptor, policy, cost and the alternatives that were compared."""
    receipt = plan.receipt
    victims = ", ".join(f"{named(line.key)} (priority {line.priority})" for line in receipt.victims[:SHOWN])
    more = len(receipt.victims) - SHOWN
    message = f"{named(preemptor.key)}, priority {preemptor.priority}, preempts {victims or 'nobody'}"
    message += f" and {more} more" if more > 0 else ""
    disrupted = {pod.group.workload for unit in plan.victims for pod in unit.pods if pod.group is not None}
    numbers = {**_numbers(receipt), "workloads": len(disrupted)}
    return Entry(now, object_of(preemptor), "preempt", "Preempting", message, numbers)


def evicted(pod: Pod, preemptor: Preemptor, plan: Plan, now: float) -> Entry:
    message = f"preempted on {pod.node} by {named(preemptor.key)}, priority {preemptor.priority}{_why(pod, preemptor)}"
    numbers = {**_numbers(plan.receipt), "node": pod.node, "for": named(preemptor.key)}
    return Entry(now, pod.key, "evict", "Preempted", message, numbers)


def evicted_from_queue(pod: Pod, preemptor: Preemptor, now: float) -> Entry:
    message = f"leaves its queue to {named(preemptor.key)}, priority {preemptor.priority}"
    return Entry(
        now, pod.key, "evict", "QueuePreempted", message, {"node": pod.node, "preemptor": named(preemptor.key)}
    )


def rest_evicted(pod: Pod, now: float) -> Entry:
    return Entry(now, pod.key, "evict", "Preempted", REST, {"node": pod.node})


def _numbers(receipt: Receipt) -> dict[str, int | str]:
    """The numbers of the receipt."""
    return {
        "policy": receipt.policy,
        "domain": receipt.domain,
        "compared": ", ".join(receipt.compared),
        "budget violations": dict(receipt.criteria)["budget violations"],
        "gangs broken": receipt.gangs_broken,
        "victims": sum(line.pods for line in receipt.victims),
        "units": len(receipt.victims),
        "work_lost": sum(line.work_lost for line in receipt.victims),
        "displaced": receipt.displaced,
        "names": ", ".join(named(line.key) for line in receipt.victims[:NAMED]),
        "candidates": receipt.candidates,
        "domains": receipt.domains,
        "alternatives": "; ".join(f"{other.where}: {other.why}" for other in receipt.alternatives),
        "certificate": receipt.certificate,
    }


def victim_text(pod: Pod, preemptor: Preemptor, mark: EvictionMark | None = None) -> str:
    """By whom the pod is preempted, as far as its owner may know, and with which gang it is evicted."""
    who = f"{_as_seen_from(pod, preemptor)}, which has priority {preemptor.priority}{_why(pod, preemptor)}"
    return evicted_together(f"Preempted by {who}, on node {pod.node}", mark)


def victim_event(evict: Evict, now: float) -> EmitEvent:
    """The eviction was accepted."""
    return EmitEvent(evict.target, EventType.NORMAL, "Preempted", "Preempting", evict.message, now)


def not_evicted(evict: Evict, outcome: Outcome, now: float) -> Entry:
    """The eviction failed for good, and the pod is kept."""
    return Entry(now, evict.target.key, "keep", "EvictionFailed", f"not evicted: {outcome.message or outcome.trouble}")


def not_evicted_event(evict: Evict, entry: Entry) -> EmitEvent:
    return EmitEvent(evict.target, EventType.WARNING, entry.reason, "Preempting", entry.message, entry.at)


def preemptor_event(preemptor: Preemptor, plan: Plan, now: float) -> EmitEvent:
    """On the pod, or on the first member of the group."""
    own = preemptor.pods[0].key.namespace
    mine = [f"pod {pod.key.name}" for unit in plan.victims for pod in unit.pods if pod.key.namespace == own]
    others = sum(len(unit.pods) for unit in plan.victims) - len(mine)
    text = ", ".join([*mine[:SHOWN], *([f"{len(mine) - SHOWN} more"] if len(mine) > SHOWN else [])])
    text += (" and " if text else "") + f"{counted(others, 'pod')} of other namespaces" if others else ""
    message = f"Preempting {text}"[:EVENT_LIMIT]
    return EmitEvent(preemptor.pods[0].target, EventType.NORMAL, "Preempting", "Preempting", message, now)


def listed(names: Iterable[str]) -> str:
    all_names = list(names)
    more = len(all_names) - SHOWN
    return ", ".join(all_names[:SHOWN]) + (f" and {counted(more, 'more node')}" if more > 0 else "")


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def object_of(preemptor: Preemptor) -> Key:
    """The object under which the journal keeps the preemption."""
    return preemptor.key.workload if isinstance(preemptor.key, GroupKey) else preemptor.key


def _why(victim: Pod, preemptor: Preemptor) -> str:
    """Said where it is not its priority that makes a pod leave."""
    return ", for a queue that takes back what it deserves" if victim.priority >= preemptor.priority else ""


def _as_seen_from(pod: Pod, preemptor: Preemptor) -> str:
    if preemptor.pods[0].key.namespace == pod.key.namespace:
        return named(preemptor.key)
    return "a pod group of another namespace" if isinstance(preemptor.key, GroupKey) else "a pod of another namespace"


def named(key: Key | GroupKey) -> str:
    if isinstance(key, Key):
        return f"pod {key.namespace}/{key.name}"
    parts = (key.workload.name, key.group, key.replica)
    return f"pod group {key.workload.namespace}/{'/'.join(part for part in parts if part)}"
