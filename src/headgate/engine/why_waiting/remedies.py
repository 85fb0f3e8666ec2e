"""The smallest changes that would admit a workload, each enough by itself and tried out by deciding again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from math import gcd

from msgspec import Struct, structs

from headgate.engine.quota.admission_cycle import Admitted, Preempting
from headgate.engine.why_waiting import changing
from headgate.engine.why_waiting.answers import (
    CoverResources,
    Field,
    FlavorReport,
    NewAmount,
    RaiseQuota,
    Remedy,
    SuitFlavor,
    Withdraw,
)
from headgate.engine.why_waiting.decision import Decision, Question, decide
from headgate.engine.why_waiting.demand_changes import finish, higher_priority, less_demand
from headgate.engine.why_waiting.holding import called
from headgate.engine.why_waiting.policy_changes import other_policies
from headgate.engine.why_waiting.shortages import undeclared
from headgate.engine.why_waiting.smallest import Range, smallest
from headgate.model.node import TaintEffect
from headgate.quota.flavors import PODS
from headgate.quota.requests import PodSetRequests
from headgate.quota.tree import FlavorResource, QuotaNode


class Case(Struct, frozen=True):
    """The question, how it was decided, and what was found short by flavor."""

    question: Question
    decision: Decision
    reports: tuple[FlavorReport, ...]

    @property
    def node(self) -> QuotaNode:
        return self.decision.ledger.forest.queues[self.question.head.queue]

    @property
    def missing(self) -> dict[FlavorResource, int]:
        return {of: amount for report in self.reports for of, amount in _missing_of(report).items()}


def _missing_of(report: FlavorReport) -> dict[FlavorResource, int]:
    return {FlavorResource(short.flavor, short.resource): short.missing for short in report.shortages}


Family = Callable[[Case], Iterator[Remedy]]


def remedies(case: Case) -> tuple[Remedy, ...]:
    """Limits first, which need no more room than there is; then more quota; then what the workload can do itself."""
    found: dict[Remedy, None] = {}
    for family in FAMILIES:
        found.update(dict.fromkeys(family(case)))
    return tuple(found)


def _borrow_more(case: Case) -> Iterator[Remedy]:
    for node in (case.node, *case.node.ancestors()):
        yield from _raise(case, node, Field.BORROWING, _asked(case, case.node))


def _lend_more(case: Case) -> Iterator[Remedy]:
    """Whoever keeps unused quota to itself lends more of it, at most all it has."""
    own, asked = {case.node, *case.node.ancestors()}, _asked(case, case.node)
    for node in _below(case.node.root):
        if node not in own and any(node.accounts[of].own_room for of in asked):
            yield from _raise(case, node, Field.LENDING, asked)


def _more_quota(case: Case) -> Iterator[Remedy]:
    """Flavor by flavor: of the others no more than must be."""
    asked = _asked(case, case.node)
    for flavor in dict.fromkeys(of.flavor for of in asked):
        last = [of for of in asked if of.flavor == flavor]
        yield from _raise(case, case.node, Field.NOMINAL, [*(of for of in asked if of.flavor != flavor), *last])


def _more_for_cohorts(case: Case) -> Iterator[Remedy]:
    """Where a cohort above has quota of its own."""
    for cohort in case.node.ancestors():
        yield from _raise(case, cohort, Field.NOMINAL, _asked(case, cohort))


def _raise(case: Case, node: QuotaNode, field: Field, wanted: Sequence[FlavorResource]) -> Iterator[Remedy]:
    """The least that has to be raised of this field of the node's own quota."""
    before = {of: amount for of in wanted if of in node.quotas and (amount := _said(node, of, field)) is not None}
    ranges = [
        Range(_most(case, node, of, field), case.missing.get(of, 0), _grain(case.question, of.resource))
        for of in before
    ]
    if not any(one.most for one in ranges):
        return

    def after(amounts: Sequence[int]) -> Question:
        by = dict(zip(before, amounts, strict=True))
        return changing.raised(case.question, node.name, not node.is_queue, field, by)

    found = smallest(lambda amounts: decide(after(amounts)).is_enough, ranges)
    if found is not None and any(found):
        raised = [
            NewAmount(of.flavor, of.resource, by, amount + by)
            for (of, amount), by in zip(before.items(), found, strict=True)
            if by
        ]
        yield Remedy(RaiseQuota(node.name, not node.is_queue, field, tuple(sorted(raised, key=_by_name))))


def _by_name(amount: NewAmount) -> tuple[str, str]:
    return amount.flavor, amount.resource


def _said(node: QuotaNode, of: FlavorResource, field: Field) -> int | None:
    return changing.amount_of(node.quota(of), field)


def _most(case: Case, node: QuotaNode, of: FlavorResource, field: Field) -> int:
    """More than this helps nobody: it is enough for all who hold or want quota."""
    everything = _demand(case.question, of.resource) + sum(leaf.used(of) for leaf in node.root.leaves())
    if field is not Field.LENDING:
        return everything
    quota = node.quota(of)
    return max(0, min(everything, quota.nominal - (quota.lending_limit or 0)))


def _demand(question: Question, resource: str) -> int:
    total = sum(_asked_by(ask, resource) for ask in question.head.pod_set_requests)
    return total + sum(
        count * _asked_by(ask, resource) for one, count in question.rivals.kinds for ask in one.pod_set_requests
    )


def _asked_by(ask: PodSetRequests, resource: str) -> int:
    return ask.count * (1 if resource == PODS else ask.each[resource])


def _grain(question: Question, resource: str) -> int:
    """What all amounts of it in quotas, in use and in demand are multiples of, and so what is too little or enough."""
    applicants = [question.head, *(one for one, _ in question.rivals.kinds)]
    asked = [ask.each[resource] for one in applicants for ask in one.pod_set_requests]
    held = [amount for holder in question.holders for of, amount in holder.usage if of.resource == resource]
    groups = [*(one.groups for one in question.queues), *(one.groups for one in question.cohorts)]
    quotas = [
        quota
        for group in chain.from_iterable(groups)
        for entry in group.flavors
        for name, quota in entry.quotas
        if name == resource
    ]
    said = [one for quota in quotas for field in Field if (one := changing.amount_of(quota, field)) is not None]
    return gcd(*asked, *held, *said) or 1


def _asked(case: Case, node: QuotaNode) -> list[FlavorResource]:
    """What of the node's quota the workload asks for, in the order of the manifest."""
    asks = case.question.head.pod_set_requests
    wanted = {PODS, *(name for ask in asks for name, amount in ask.each if amount)}
    return [of for of in node.quotas if of.resource in wanted]


def _below(node: QuotaNode) -> Iterator[QuotaNode]:
    for child in node.children:
        yield child
        yield from _below(child)


def _suit_flavors(case: Case) -> Iterator[Remedy]:
    """Its pods could have a flavor that they do not suit as they are."""
    for name in dict.fromkeys(report.flavor for report in case.reports if report.refusal):
        flavor = case.question.flavors.get(name)
        if flavor is None:
            continue
        taints = [taint for taint in flavor.node_taints if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE]
        texts = tuple(f"{taint.key}={taint.value}:{taint.effect}" for taint in taints)
        labels = tuple(f"{key}={value}" for key, value in sorted(flavor.node_labels.items()))
        for change, anywhere in ((SuitFlavor(name, texts), False), (SuitFlavor(name, texts, labels), True)):
            found = _helps(change, decide(changing.suited(case.question, taints, anywhere=anywhere)))
            if found is not None:
                yield found
                break


def _cover_resources(case: Case) -> Iterator[Remedy]:
    resources = undeclared(case.question, case.question.head)
    if resources:
        ignoring = structs.replace(case.question.settings, ignore_undeclared=True)
        change = CoverResources(case.question.head.queue, resources)
        found = _helps(change, decide(structs.replace(case.question, settings=ignoring)))
        if found is not None:
            yield found


def _helps(change: SuitFlavor | CoverResources, decision: Decision) -> Remedy | None:
    if not isinstance(decision.outcome, Admitted | Preempting):
        return None
    return Remedy(change, tuple(called(victim.reservation.key) for victim in decision.victims))


def _less_demand(case: Case) -> Iterator[Remedy]:
    return less_demand(case.question, _missing_by_resource(case.missing))


def _higher_priority(case: Case) -> Iterator[Remedy]:
    """Nothing to be gained where it preempts already."""
    return iter(()) if isinstance(case.decision.outcome, Preempting) else higher_priority(case.question)


def _finish(case: Case) -> Iterator[Remedy]:
    is_about_it = case.decision.outcome is not None
    return finish(case.question, [_missing_of(report) for report in case.reports] if is_about_it else [])


def _other_policies(case: Case) -> Iterator[Remedy]:
    return iter(()) if isinstance(case.decision.outcome, Preempting) else other_policies(case.question)


def _make_way(case: Case) -> Iterator[Remedy]:
    """Where its turn does not come, because another one's did."""
    head = case.decision.head
    if case.decision.outcome is None and head is not None:
        rivals = case.question.rivals.without(head.head.key)
        if decide(structs.replace(case.question, rivals=rivals)).admits:
            yield Remedy(Withdraw(called(head.head.key)))


def _missing_by_resource(missing: Mapping[FlavorResource, int]) -> dict[str, int]:
    """The least that is missing of it in any flavor."""
    least: dict[str, int] = {}
    for of, amount in missing.items():
        least[of.resource] = min(amount, least.get(of.resource, amount))
    return least


FAMILIES: tuple[Family, ...] = (
    _suit_flavors,
    _cover_resources,
    _borrow_more,
    _lend_more,
    _more_quota,
    _more_for_cohorts,
    _less_demand,
    _higher_priority,
    _other_policies,
    _make_way,
    _finish,
)
