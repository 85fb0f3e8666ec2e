"""Whether a workload could make others leave, if the preemption policy of its queue let it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from headgate.engine.quota.admission_cycle import Admitted, Preempting
from headgate.engine.why_waiting.answers import Remedy, SetPolicy
from headgate.engine.why_waiting.decision import Question, decide
from headgate.engine.why_waiting.holding import called
from headgate.model.queues import BorrowWithinCohort, ClusterQueue, QueuePreemption, Reclaim, WithinQueue


def other_policies(question: Question) -> Iterator[Remedy]:
    """Of each part of the policy the mildest that is enough."""
    queue = next(one for one in question.queues if one.name == question.head.queue)
    for steps in (_within_queue(queue.preemption), _reclaim(queue.preemption), _borrow(queue.preemption)):
        found = next((remedy for step in steps if (remedy := _tried(question, queue, *step)) is not None), None)
        if found is not None:
            yield found


Step = tuple[str, str, QueuePreemption]
"""The field, its new value, and the whole policy with it."""


def _within_queue(policy: QueuePreemption) -> Iterator[Step]:
    order = (WithinQueue.NEVER, WithinQueue.LOWER_PRIORITY, WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY)
    for value in order[order.index(policy.within_queue) + 1 :]:
        yield "withinClusterQueue", value.value, structs.replace(policy, within_queue=value)


def _reclaim(policy: QueuePreemption) -> Iterator[Step]:
    order = (Reclaim.NEVER, Reclaim.LOWER_PRIORITY, Reclaim.ANY)
    for value in order[order.index(policy.reclaim) + 1 :]:
        yield "reclaimWithinCohort", value.value, structs.replace(policy, reclaim=value)


def _borrow(policy: QueuePreemption) -> Iterator[Step]:
    """Only beside some reclaiming."""
    if policy.borrow is BorrowWithinCohort.NEVER and policy.reclaim is not Reclaim.NEVER:
        value = BorrowWithinCohort.LOWER_PRIORITY
        yield "borrowWithinCohort.policy", value.value, structs.replace(policy, borrow=value)


def _tried(question: Question, queue: ClusterQueue, field: str, value: str, policy: QueuePreemption) -> Remedy | None:
    changed = structs.replace(queue, preemption=policy)
    queues = tuple(changed if one.name == queue.name else one for one in question.queues)
    decision = decide(structs.replace(question, queues=queues))
    if not isinstance(decision.outcome, Admitted | Preempting):
        return None
    return Remedy(SetPolicy(queue.name, field, value), tuple(called(one.reservation.key) for one in decision.victims))
