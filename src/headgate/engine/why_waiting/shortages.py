"""Which limit of which queue or cohort keeps a workload from its quota, flavor by flavor, with the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from headgate.engine.why_waiting.answers import FlavorReport, LimitKind, Shortage, Withheld
from headgate.engine.why_waiting.decision import Decision, Question
from headgate.engine.why_waiting.holding import holder_lines
from headgate.model.queues import ResourceGroup
from headgate.quota import messages
from headgate.quota.flavors import Fitness, FlavorAssigner, Granular, Mode, PodSetFlavors, assign, refusal
from headgate.quota.pending_workload import PendingWorkload
from headgate.quota.requests import PodSetRequests
from headgate.quota.tree import ClusterQueueNode, FlavorResource, QuotaNode


class _Asking(Struct, frozen=True):
    """Who asks, of which queue, in which state of affairs."""

    question: Question
    decision: Decision
    head: PendingWorkload
    node: ClusterQueueNode


class _Demand(Struct, frozen=True):
    """What one pod set wants, and what those before it would get."""

    ask: PodSetRequests
    assigned: PodSetFlavors
    assumed: Mapping[FlavorResource, int]


def flavor_reports(question: Question, decision: Decision, applicant: PendingWorkload) -> tuple[FlavorReport, ...]:
    """For each pod set that does not get what it wants, every flavor it could have had. None where all fit."""
    asking = _Asking(question, decision, applicant, decision.ledger.forest.queues[applicant.queue])
    return tuple(
        report
        for demand in _demands(asking)
        if demand.assigned.mode is not Mode.FIT
        for report in _reports(asking, demand)
    )


def undeclared(question: Question, applicant: PendingWorkload) -> tuple[str, ...]:
    """Resources it asks for that its queue has no quota for at all."""
    queue = next(one for one in question.queues if one.name == applicant.queue)
    covered = {resource for group in queue.groups for resource in group.resources}
    asked = {name for ask in applicant.pod_set_requests for name, amount in ask.each if amount and ask.count}
    return () if question.settings.ignore_undeclared else tuple(sorted(asked - covered))


def _demands(asking: _Asking) -> Iterator[_Demand]:
    node, settings = asking.node, asking.question.settings

    def nobody_leaves(of: FlavorResource, amount: int) -> Fitness:
        return Fitness(Granular.NO_CANDIDATES, node.accounts[of].level(amount).height)

    search = FlavorAssigner(
        node,
        asking.question.flavors,
        nobody_leaves,
        is_fair=settings.is_fair,
        ignore_undeclared=settings.ignore_undeclared,
    )
    assumed: dict[FlavorResource, int] = {}
    asks = asking.head.pod_set_requests
    for ask, assigned in zip(asks, assign(search, asks).pod_sets, strict=False):
        yield _Demand(ask, assigned, dict(assumed))
        for resource, choice in assigned.choices:
            of = FlavorResource(choice.flavor, resource)
            assumed[of] = assumed.get(of, 0) + assigned.requests[resource]


def _reports(asking: _Asking, demand: _Demand) -> Iterator[FlavorReport]:
    for group in asking.node.queue.groups:
        if not any(demand.assigned.requests[resource] for resource in group.resources):
            continue
        for entry in group.flavors:
            known = asking.question.flavors.get(entry.flavor)
            why_not = messages.flavor_missing(entry.flavor) if known is None else refusal(demand.ask.shape, known)
            short = () if why_not else tuple(_shortages(asking, demand, group, entry.flavor))
            if why_not or short:
                yield FlavorReport(demand.ask.name, entry.flavor, why_not, short)


def _shortages(asking: _Asking, demand: _Demand, group: ResourceGroup, flavor: str) -> Iterator[Shortage]:
    for resource, amount in demand.assigned.requests:
        of = FlavorResource(flavor, resource)
        requested, free = demand.assumed.get(of, 0) + amount, max(0, asking.node.accounts[of].available())
        if resource in group.resources and requested > free:
            yield _shortage(asking, of, requested, free)


def _shortage(asking: _Asking, of: FlavorResource, requested: int, free: int) -> Shortage:
    kind, bound = binding(asking.node, of, requested)
    return Shortage(
        flavor=of.flavor,
        resource=of.resource,
        limit=kind,
        node=bound.name,
        is_cohort=not bound.is_queue,
        capacity=_capacity(bound, of, kind),
        used=bound.used(of),
        requested=requested,
        free=free,
        largest=asking.node.accounts[of].potential,
        withheld=tuple(_withheld(asking.node, of)) if kind is LimitKind.TOTAL else (),
        holders=holder_lines(asking.decision, asking.head, bound, of),
    )


def binding(node: QuotaNode, of: FlavorResource, requested: int) -> tuple[LimitKind, QuotaNode]:
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


def _withheld(node: QuotaNode, of: FlavorResource) -> Iterator[Withheld]:
    """By others than the queue itself and the cohorts above it, for what those keep is there for it."""
    path = {node, *node.ancestors()}

    def walk(at: QuotaNode) -> Iterator[Withheld]:
        amount = at.accounts[of].own_room
        if at not in path and amount:
            yield Withheld(at.name, amount)
        for child in at.children:
            yield from walk(child)

    return walk(node.root)
