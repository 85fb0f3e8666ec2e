"""Who holds the quota that is short, and whether they could be made to leave."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.engine.why_waiting.answers import HolderLine
from headgate.engine.why_waiting.decision import Decision
from headgate.model.keys import Key
from headgate.model.queues import QueuePreemption, Reclaim, WithinQueue
from headgate.preemption.quota.search import Preemptor, may_take
from headgate.quota.ledger import Ledger, Reservation
from headgate.quota.pending_workload import PendingWorkload
from headgate.quota.tree import FlavorResource, QuotaNode, within_nominal


def called(key: Key) -> str:
    return f"{key.namespace}/{key.name}"


def holder_lines(
    decision: Decision, applicant: PendingWorkload, node: QuotaNode, of: FlavorResource
) -> tuple[HolderLine, ...]:
    """All whose usage counts against this node, those who hold most first."""
    found = [(dict(holder.usage)[of], holder) for holder in _counted(decision.ledger, node, of)]
    found.sort(key=lambda each: (-each[0], each[1].key))
    return tuple(_line(decision, applicant, holder, amount, of) for amount, holder in found)


def _counted(ledger: Ledger, node: QuotaNode, of: FlavorResource) -> Iterator[Reservation]:
    for leaf in node.leaves():
        if _reaches(leaf, node, of):
            yield from (holder for holder in ledger.reservations(leaf.name) if dict(holder.usage).get(of, 0) > 0)


def _reaches(leaf: QuotaNode, node: QuotaNode, of: FlavorResource) -> bool:
    """Some of its usage is seen so far up: what fits into the part a queue keeps to itself is nobody else's."""
    at = leaf
    while at is not node and at.parent is not None:
        if at.used(of) <= at.kept.get(of, 0):
            return False
        at = at.parent
    return True


def _line(
    decision: Decision, applicant: PendingWorkload, holder: Reservation, amount: int, of: FlavorResource
) -> HolderLine:
    may_go, why = _fate(decision, applicant, holder, of)
    since = holder.reserved or None
    return HolderLine(called(holder.key), holder.queue, holder.priority, amount, since, may_go, why)


def _fate(decision: Decision, applicant: PendingWorkload, holder: Reservation, of: FlavorResource) -> tuple[bool, str]:
    node = decision.ledger.forest.queues[applicant.queue]
    policy = node.queue.preemption
    chosen = next((victim.reservation for victim in decision.victims if victim.reservation.uid == holder.uid), None)
    if chosen is not None:
        return True, "is leaving for it" if chosen.evicted else "has to leave for it"
    if holder.evicted:
        return True, "is leaving"
    preemptor = Preemptor(applicant.queue, applicant.priority, applicant.ordered, ((of, 1),), (of,))
    if not may_take(preemptor, policy, holder):
        return False, _forbidden(policy, applicant, holder)
    theirs = decision.ledger.forest.queues[holder.queue]
    if holder.queue != applicant.queue and within_nominal(theirs, (of,)):
        return False, "its queue uses only its own quota"
    if decision.outcome is not None and decision.outcome.head.key == applicant.key:
        return _not_enough(decision)
    return True, "may be preempted"


def _not_enough(decision: Decision) -> tuple[bool, str]:
    if decision.victims:
        return True, "may be preempted, others are enough"
    if decision.considers_preemption:
        return True, "may be preempted, but all who may are too few"
    return False, "is spared: the workload would have to borrow"


def _forbidden(policy: QueuePreemption, applicant: PendingWorkload, holder: Reservation) -> str:
    is_own = holder.queue == applicant.queue
    if is_own and policy.within_queue is WithinQueue.NEVER:
        return "withinClusterQueue is Never"
    if not is_own and policy.reclaim is Reclaim.NEVER:
        return "reclaimWithinCohort is Never"
    newer_counts = is_own and policy.within_queue is WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY
    if newer_counts and holder.priority == applicant.priority:
        return f"priority {holder.priority} is the same, and it is older"
    return f"priority {holder.priority} is not below {applicant.priority}"
