"""The limiting quota of a workload, flavor by flavor: which limit of which ClusterQueue or Cohort, and who holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from headgate.engine.explain.explanation import FlavorReport, LimitingQuota, LimitKind, QuotaHolder, UnlentQuota
from headgate.engine.explain.what_if import Decision, QuotaWhatIf
from headgate.model.keys import Key
from headgate.model.queues import QueuePreemption, Reclaim, ResourceGroup, WithinQueue
from headgate.preemption.quota.search import QuotaPreemptor, may_take
from headgate.quota import messages
from headgate.quota.flavors import Fitness, FlavorAssigner, Granular, Mode, PodSetFlavors, assign, refusal
from headgate.quota.ledger import ClusterQueueNode, Ledger, Reservation
from headgate.quota.pending_workload import PendingWorkload
from headgate.quota.requests import PodSetRequests
from headgate.quota.tree import FlavorResource, QuotaNode, within_nominal


def namespaced_name(key: Key) -> str:
    return f"{key.namespace}/{key.name}"


def quota_holders(
    decision: Decision, head: PendingWorkload, node: QuotaNode, of: FlavorResource
) -> tuple[QuotaHolder, ...]:
    """All workloads whose usage counts against this node, largest usage first."""
    found = [(dict(reservation.usage)[of], reservation) for reservation in _counted(decision.ledger, node, of)]
    found.sort(key=lambda each: (-each[0], each[1].key))
    return tuple(_line(decision, head, reservation, amount, of) for amount, reservation in found)


def _counted(ledger: Ledger, node: QuotaNode, of: FlavorResource) -> Iterator[Reservation]:
    for leaf in node.leaves():
        if _reaches(leaf, node, of):
            yield from (
                reservation for reservation in ledger.reservations(leaf.name) if dict(reservation.usage).get(of, 0) > 0
            )


def _reaches(leaf: QuotaNode, node: QuotaNode, of: FlavorResource) -> bool:
    """Whether usage of the leaf counts at the node: usage within the part that is not lent counts nowhere above."""
    at = leaf
    while at is not node and at.parent is not None:
        if at.used(of) <= at.kept.get(of, 0):
            return False
        at = at.parent
    return True


def _line(
    decision: Decision, head: PendingWorkload, reservation: Reservation, amount: int, of: FlavorResource
) -> QuotaHolder:
    preemptable, why = _preemptability(decision, head, reservation, of)
    since = reservation.reserved or None
    return QuotaHolder(
        namespaced_name(reservation.key), reservation.queue, reservation.priority, amount, since, preemptable, why
    )


def _preemptability(
    decision: Decision, head: PendingWorkload, reservation: Reservation, of: FlavorResource
) -> tuple[bool, str]:
    node = decision.ledger.forest.queues[head.queue]
    policy = node.queue.preemption
    chosen = next(
        (victim.reservation for victim in decision.victims if victim.reservation.uid == reservation.uid), None
    )
    if chosen is not None:
        return True, "is being preempted for it" if chosen.evicted else "would be preempted for it"
    if reservation.evicted:
        return True, "is evicted"
    preemptor = QuotaPreemptor(head.queue, head.priority, head.ordered, ((of, 1),), (of,))
    if not may_take(preemptor, policy, reservation):
        return False, _forbidden(policy, head, reservation)
    theirs = decision.ledger.forest.queues[reservation.queue]
    if reservation.queue != head.queue and within_nominal(theirs, (of,)):
        return False, "its queue is within its nominal quota"
    if decision.outcome is not None and decision.outcome.head.key == head.key:
        return _not_enough(decision)
    return True, "may be preempted"


def _not_enough(decision: Decision) -> tuple[bool, str]:
    if decision.victims:
        return True, "may be preempted, but others are enough"
    if decision.considers_preemption:
        return True, "may be preempted, but all candidates are not enough"
    return False, "not while the workload would borrow"


def _forbidden(policy: QueuePreemption, head: PendingWorkload, reservation: Reservation) -> str:
    is_own = reservation.queue == head.queue
    if is_own and policy.within_queue is WithinQueue.NEVER:
        return "withinClusterQueue is Never"
    if not is_own and policy.reclaim is Reclaim.NEVER:
        return "reclaimWithinCohort is Never"
    newer_counts = is_own and policy.within_queue is WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY
    if newer_counts and reservation.priority == head.priority:
        return f"priority {reservation.priority} is the same, and it is older"
    return f"priority {reservation.priority} is not below {head.priority}"


class _LimitContext(Struct, frozen=True):
    """A pending workload, its queue, and the decision about it."""

    what_if: QuotaWhatIf
    decision: Decision
    head: PendingWorkload
    node: ClusterQueueNode


class _Demand(Struct, frozen=True):
    """The requests of one pod set, and the quota assumed for the pod sets before it."""

    ask: PodSetRequests
    assigned: PodSetFlavors
    assumed: Mapping[FlavorResource, int]


def flavor_reports(what_if: QuotaWhatIf, decision: Decision, head: PendingWorkload) -> tuple[FlavorReport, ...]:
    """Every flavor of each pod set that does not fit; empty if all fit."""
    context = _LimitContext(what_if, decision, head, decision.ledger.forest.queues[head.queue])
    return tuple(
        report
        for demand in _demands(context)
        if demand.assigned.mode is not Mode.FIT
        for report in _reports(context, demand)
    )


def uncovered_resources(what_if: QuotaWhatIf, head: PendingWorkload) -> tuple[str, ...]:
    """Requested resources that its ClusterQueue does not cover."""
    queue = next(one for one in what_if.queues if one.name == head.queue)
    covered = {resource for group in queue.groups for resource in group.resources}
    asked = {name for ask in head.pod_set_requests for name, amount in ask.each if amount and ask.count}
    return () if what_if.settings.ignore_undeclared else tuple(sorted(asked - covered))


def _demands(context: _LimitContext) -> Iterator[_Demand]:
    node, settings = context.node, context.what_if.settings

    def nobody_leaves(of: FlavorResource, amount: int) -> Fitness:
        return Fitness(Granular.NO_CANDIDATES, node.accounts[of].level(amount).height)

    search = FlavorAssigner(
        node,
        context.what_if.flavors,
        nobody_leaves,
        is_fair=settings.is_fair,
        ignore_undeclared=settings.ignore_undeclared,
    )
    assumed: dict[FlavorResource, int] = {}
    pod_set_requests = context.head.pod_set_requests
    for ask, assigned in zip(pod_set_requests, assign(search, pod_set_requests).pod_sets, strict=False):
        yield _Demand(ask, assigned, dict(assumed))
        for resource, choice in assigned.choices:
            of = FlavorResource(choice.flavor, resource)
            assumed[of] = assumed.get(of, 0) + assigned.requests[resource]


def _reports(context: _LimitContext, demand: _Demand) -> Iterator[FlavorReport]:
    for group in context.node.queue.groups:
        if not any(demand.assigned.requests[resource] for resource in group.resources):
            continue
        for entry in group.flavors:
            known = context.what_if.flavors.get(entry.flavor)
            why_not = messages.flavor_missing(entry.flavor) if known is None else refusal(demand.ask.shape, known)
            short = () if why_not else tuple(_limits(context, demand, group, entry.flavor))
            if why_not or short:
                yield FlavorReport(demand.ask.name, entry.flavor, why_not, short)


def _limits(context: _LimitContext, demand: _Demand, group: ResourceGroup, flavor: str) -> Iterator[LimitingQuota]:
    for resource, amount in demand.assigned.requests:
        of = FlavorResource(flavor, resource)
        requested, free = demand.assumed.get(of, 0) + amount, max(0, context.node.accounts[of].available())
        if resource in group.resources and requested > free:
            yield _limit(context, of, requested, free)


def _limit(context: _LimitContext, of: FlavorResource, requested: int, free: int) -> LimitingQuota:
    kind, bound = limiting_node(context.node, of, requested)
    return LimitingQuota(
        flavor=of.flavor,
        resource=of.resource,
        limit=kind,
        node=bound.name,
        is_cohort=not bound.is_queue,
        capacity=_capacity(bound, of, kind),
        used=bound.used(of),
        requested=requested,
        free=free,
        largest=context.node.accounts[of].potential,
        unlent=tuple(_unlent(context.node, of)) if kind is LimitKind.TOTAL else (),
        holders=quota_holders(context.decision, context.head, bound, of),
    )


def limiting_node(node: QuotaNode, of: FlavorResource, requested: int) -> tuple[LimitKind, QuotaNode]:
    """The first limit on the way up that leaves no more than what is above it; else all there is in the tree.

    For a request that can never fit, limits are compared as if nobody used anything.
    """
    for_ever = requested > node.accounts[of].potential
    at = node
    while at.parent is not None:
        limit = at.quota(of).borrowing_limit
        own, kept = at.subtree.get(of, 0), at.kept.get(of, 0)
        borrowed = 0 if for_ever else max(0, at.used(of) - kept)
        above = at.parent.accounts[of].potential if for_ever else at.parent.accounts[of].available()
        if limit is not None and own - kept - borrowed + limit <= above:
            return LimitKind.BORROWING, at
        at = at.parent
    return (LimitKind.TOTAL if not at.is_queue else LimitKind.NOMINAL), at


def _capacity(node: QuotaNode, of: FlavorResource, kind: LimitKind) -> int:
    limit = node.quota(of).borrowing_limit if kind is LimitKind.BORROWING else 0
    return node.subtree.get(of, 0) + (limit or 0)


def _unlent(node: QuotaNode, of: FlavorResource) -> Iterator[UnlentQuota]:
    """Unlent quota of nodes other than the queue and its ancestors, which it may use."""
    path = {node, *node.ancestors()}

    def walk(at: QuotaNode) -> Iterator[UnlentQuota]:
        amount = at.accounts[of].own_room
        if at not in path and amount:
            yield UnlentQuota(at.name, amount)
        for child in at.children:
            yield from walk(child)

    return walk(node.root)
