"""Minimal changes, each of which would admit the workload by itself, found by deciding again after the change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from math import gcd

from msgspec import Struct, structs

from headgate.engine.explain.explanation import (
    CoverResources,
    DeactivateHead,
    FewerPods,
    FinishWorkloads,
    FlavorReport,
    HigherPriority,
    MatchFlavor,
    MinimalChange,
    NewAmount,
    QuotaField,
    RaiseQuota,
    SetPolicy,
    SmallerPods,
)
from headgate.engine.explain.limits import namespaced_name, uncovered_resources
from headgate.engine.explain.what_if import (
    Decision,
    QuotaWhatIf,
    decide,
    quota_amount,
    with_count,
    with_flavor_matched,
    with_less,
    with_priority,
    with_quota_raised,
    without_holders,
)
from headgate.engine.quota.admission_cycle import Admitted, Preempting
from headgate.model.node import TaintEffect
from headgate.model.queues import BorrowWithinCohort, ClusterQueue, PodSet, QueuePreemption, Reclaim, WithinQueue
from headgate.quota.flavors import PODS
from headgate.quota.ledger import Reservation
from headgate.quota.requests import PodSetRequests
from headgate.quota.tree import FlavorResource, QuotaNode

Enough = Callable[[tuple[int, ...]], bool | None]
"""Whether these amounts are enough; None if that takes too long to find out."""


class Range(Struct, frozen=True):
    """Amounts from 0 to `most`. A good `guess`, and a `grain` that thresholds are multiples of, save evaluations."""

    most: int
    guess: int = 0
    grain: int = 1


def smallest(enough: Enough, ranges: Sequence[Range]) -> tuple[int, ...] | None:
    """Amounts that are enough, and are not with one unit less of any; None where none are.

    Amounts that come first are made as small as possible first. More is not always better, since others may take it
    first: so what was found for one amount is looked at again after the others.
    """
    found = _plenty(enough, ranges)
    if found is None:
        return None
    for index, one in enumerate(ranges):
        found = _with_least(enough, found, index, one)
    while (again := _reducible(enough, found)) is not None:
        found = _with_least(enough, found, again, Range(found[again], found[again] - 1))
    return found


def _plenty(enough: Enough, ranges: Sequence[Range]) -> tuple[int, ...] | None:
    """The largest amounts, or, if these cannot be evaluated, the guess doubled until it is enough."""
    most = tuple(one.most for one in ranges)
    answer = enough(most)
    amounts = most if answer else tuple(min(one.most, max(one.guess, one.grain)) for one in ranges)
    while answer is not False and amounts != most:
        if enough(amounts):
            return amounts
        amounts = tuple(min(one.most, 2 * amount) for one, amount in zip(ranges, amounts, strict=True))
    return most if answer else None


def _reducible(enough: Enough, amounts: tuple[int, ...]) -> int | None:
    """The first amount of which one unit less is enough."""
    if len(amounts) == 1:
        return None  # that is how it was found
    fewer = (index for index, amount in enumerate(amounts) if amount and enough(_with(amounts, index, amount - 1)))
    return next(fewer, None)


def _with(amounts: tuple[int, ...], index: int, amount: int) -> tuple[int, ...]:
    return (*amounts[:index], amount, *amounts[index + 1 :])


def _with_least(enough: Enough, amounts: tuple[int, ...], index: int, wanted: Range) -> tuple[int, ...]:
    if not amounts[index] or enough(_with(amounts, index, 0)):
        return _with(amounts, index, 0)
    too_little, plenty = 0, amounts[index]
    for tried in (wanted.guess, wanted.guess - 1):
        if too_little < tried < plenty:
            too_little, plenty = (too_little, tried) if enough(_with(amounts, index, tried)) else (tried, plenty)
    for grain in (wanted.grain, 1):
        while plenty - too_little > 1:
            middle = _between(too_little, plenty, grain)
            if middle is None:
                break
            too_little, plenty = (too_little, middle) if enough(_with(amounts, index, middle)) else (middle, plenty)
        if plenty - too_little > 1 and not enough(_with(amounts, index, plenty - 1)):
            break
    return _with(amounts, index, plenty)


def _between(low: int, high: int, grain: int) -> int | None:
    """The middle multiple of the grain that lies between the two."""
    first, last = low // grain + 1, -(-high // grain) - 1
    return (first + last) // 2 * grain if first <= last else None


def other_policies(what_if: QuotaWhatIf) -> Iterator[MinimalChange]:
    """For each field of the preemption policy the least permissive value that is enough."""
    queue = next(one for one in what_if.queues if one.name == what_if.head.queue)
    for steps in (_within_queue(queue.preemption), _reclaim(queue.preemption), _borrow(queue.preemption)):
        found = next(
            (minimal_change for step in steps if (minimal_change := _tried(what_if, queue, *step)) is not None), None
        )
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
    """borrowWithinCohort requires reclaimWithinCohort."""
    if policy.borrow is BorrowWithinCohort.NEVER and policy.reclaim is not Reclaim.NEVER:
        value = BorrowWithinCohort.LOWER_PRIORITY
        yield "borrowWithinCohort.policy", value.value, structs.replace(policy, borrow=value)


def _tried(
    what_if: QuotaWhatIf, queue: ClusterQueue, field: str, value: str, policy: QueuePreemption
) -> MinimalChange | None:
    changed = structs.replace(queue, preemption=policy)
    queues = tuple(changed if one.name == queue.name else one for one in what_if.queues)
    decision = decide(structs.replace(what_if, queues=queues))
    if not isinstance(decision.outcome, Admitted | Preempting):
        return None
    return MinimalChange(
        SetPolicy(queue.name, field, value), tuple(namespaced_name(one.reservation.key) for one in decision.victims)
    )


MOST_TRIED = 24  # holders, one by one
MOST_TOGETHER = 12  # nobody waits for more of them to finish

Missing = Mapping[FlavorResource, int]


def less_demand(what_if: QuotaWhatIf, missing: Mapping[str, int]) -> Iterator[MinimalChange]:
    """The most pods of a pod set with which it would be admitted; if none, the largest requests of each pod."""
    for pod_set in what_if.head.workload.pod_sets:
        fewer = _pods_too_many(what_if, pod_set, missing)
        if fewer:
            yield MinimalChange(FewerPods(pod_set.name, pod_set.count, pod_set.count - fewer))
        else:
            yield from _smaller(what_if, pod_set, missing)


def higher_priority(what_if: QuotaWhatIf) -> Iterator[MinimalChange]:
    """The lowest priority with which it would be admitted, or would preempt."""
    before = what_if.head.priority
    others = {*(one.priority for one in what_if.holders), *(one.priority for one, _ in what_if.others.kinds)}
    worth = sorted({one + more for one in others for more in (0, 1) if one + more > before})  # all else is the same

    def enough(index: tuple[int, ...]) -> bool | None:
        if index[0] == 0:
            return False
        decision = decide(with_priority(what_if, worth[index[0] - 1]))
        return isinstance(decision.outcome, Preempting) or decision.is_enough

    found = smallest(enough, [Range(len(worth))]) if worth else None
    if found is not None:
        priority = worth[found[0] - 1]
        decision = decide(with_priority(what_if, priority))
        yield MinimalChange(
            HigherPriority(before, priority), tuple(namespaced_name(one.reservation.key) for one in decision.victims)
        )


def finish(what_if: QuotaWhatIf, missing: Sequence[Missing]) -> Iterator[MinimalChange]:
    """The smallest holder whose quota is enough, or else a minimal set of the largest.

    `missing` is the quota it lacks, flavor by flavor; empty if it lacks none.
    """
    holders = _by_size(what_if, [of for one in missing for of in one])
    large = [reservation for reservation in holders if not missing or any(_covers(reservation, one) for one in missing)]
    single = next((one for one in large[:MOST_TRIED] if _admits_without(what_if, [one])), None)
    chosen = [single] if single is not None else _several(what_if, holders[::-1])
    if chosen:
        yield MinimalChange(FinishWorkloads(tuple(sorted(namespaced_name(one.key) for one in chosen))))


def _covers(reservation: Reservation, missing: Missing) -> bool:
    held = dict(reservation.usage)
    return bool(missing) and all(held.get(of, 0) >= amount for of, amount in missing.items())


def _pods_too_many(what_if: QuotaWhatIf, pod_set: PodSet, missing: Mapping[str, int]) -> int:
    """How many pods fewer are enough; 0 if none are."""

    def enough(fewer: tuple[int, ...]) -> bool | None:
        return decide(with_count(what_if, pod_set.name, pod_set.count - fewer[0])).is_enough

    guess = max((_parts(amount, pod_set.shape.requests[name]) for name, amount in missing.items()), default=0)
    found = smallest(enough, [Range(pod_set.count - 1, guess)]) if pod_set.count > 1 else None
    return found[0] if found is not None else 0


def _smaller(what_if: QuotaWhatIf, pod_set: PodSet, missing: Mapping[str, int]) -> Iterator[MinimalChange]:
    asked = [(name, amount) for name, amount in pod_set.shape.requests if amount > 1]

    def enough(less: tuple[int, ...]) -> bool | None:
        by = {name: amount for (name, _), amount in zip(asked, less, strict=True)}
        return decide(with_less(what_if, pod_set.name, by)).is_enough

    ranges = [Range(amount - 1, _parts(missing.get(name, 0), pod_set.count)) for name, amount in asked]
    found = smallest(enough, ranges) if asked else None
    if found is not None and any(found):
        amounts = [NewAmount("", name, by, amount - by) for (name, amount), by in zip(asked, found, strict=True) if by]
        yield MinimalChange(SmallerPods(pod_set.name, tuple(amounts)))


def _parts(amount: int, size: int) -> int:
    return -(-amount // size) if size > 0 else 0


def _by_size(what_if: QuotaWhatIf, needed: Sequence[FlavorResource]) -> list[Reservation]:
    """Holders of any needed quota, smallest dominant share first."""
    totals: dict[FlavorResource, int] = {}
    for reservation in what_if.holders:
        for of, amount in reservation.usage:
            totals[of] = totals.get(of, 0) + amount

    def size(reservation: Reservation) -> Fraction:
        parts = [
            Fraction(amount, totals[of]) for of, amount in reservation.usage if amount and (not needed or of in needed)
        ]
        return max(parts, default=Fraction(0))

    sized = [(size(reservation), reservation) for reservation in what_if.holders]
    return [reservation for part, reservation in sorted(sized, key=lambda each: (each[0], each[1].key)) if part]


def _several(what_if: QuotaWhatIf, largest_first: Sequence[Reservation]) -> list[Reservation]:
    most = Range(min(len(largest_first), MOST_TOGETHER), 2)
    count = smallest(lambda count: _admits_without(what_if, largest_first[: count[0]]), [most])
    chosen = list(largest_first[: count[0]]) if count is not None else []
    while (needless := _needless(what_if, chosen)) is not None:
        chosen.remove(needless)
    return chosen


def _needless(what_if: QuotaWhatIf, chosen: Sequence[Reservation]) -> Reservation | None:
    """One of them that need not finish."""
    return next((one for one in chosen if _admits_without(what_if, [it for it in chosen if it is not one])), None)


def _admits_without(what_if: QuotaWhatIf, holders: Sequence[Reservation]) -> bool:
    return decide(without_holders(what_if, {one.uid for one in holders})).admits


class DecidedCase(Struct, frozen=True):
    """A what-if, the decision on it, and the limiting quota by flavor."""

    what_if: QuotaWhatIf
    decision: Decision
    reports: tuple[FlavorReport, ...]

    @property
    def node(self) -> QuotaNode:
        return self.decision.ledger.forest.queues[self.what_if.head.queue]

    @property
    def missing(self) -> dict[FlavorResource, int]:
        return {of: amount for report in self.reports for of, amount in _missing_of(report).items()}


def _missing_of(report: FlavorReport) -> dict[FlavorResource, int]:
    return {FlavorResource(short.flavor, short.resource): short.missing for short in report.limits}


Family = Callable[[DecidedCase], Iterator[MinimalChange]]


def minimal_changes(case: DecidedCase) -> tuple[MinimalChange, ...]:
    """Limits first, which need no more capacity; then more quota; then changes of the workload itself."""
    found: dict[MinimalChange, None] = {}
    for family in FAMILIES:
        found.update(dict.fromkeys(family(case)))
    return tuple(found)


def _borrow_more(case: DecidedCase) -> Iterator[MinimalChange]:
    for node in (case.node, *case.node.ancestors()):
        yield from _raise(case, node, QuotaField.BORROWING, _asked(case, case.node))


def _lend_more(case: DecidedCase) -> Iterator[MinimalChange]:
    """Raises lendingLimits of nodes with unused quota, at most to their nominalQuota."""
    own, asked = {case.node, *case.node.ancestors()}, _asked(case, case.node)
    for node in _below(case.node.root):
        if node not in own and any(node.accounts[of].own_room for of in asked):
            yield from _raise(case, node, QuotaField.LENDING, asked)


def _more_quota(case: DecidedCase) -> Iterator[MinimalChange]:
    """Raises nominalQuota, one flavor at a time."""
    asked = _asked(case, case.node)
    for flavor in dict.fromkeys(of.flavor for of in asked):
        last = [of for of in asked if of.flavor == flavor]
        yield from _raise(case, case.node, QuotaField.NOMINAL, [*(of for of in asked if of.flavor != flavor), *last])


def _more_for_cohorts(case: DecidedCase) -> Iterator[MinimalChange]:
    """Raises the nominalQuota of ancestors that have quota of their own."""
    for cohort in case.node.ancestors():
        yield from _raise(case, cohort, QuotaField.NOMINAL, _asked(case, cohort))


def _raise(
    case: DecidedCase, node: QuotaNode, field: QuotaField, wanted: Sequence[FlavorResource]
) -> Iterator[MinimalChange]:
    """The smallest raise of this field of the node's own quota that is enough."""
    before = {of: amount for of in wanted if of in node.quotas and (amount := _said(node, of, field)) is not None}
    ranges = [
        Range(_most(case, node, of, field), case.missing.get(of, 0), _grain(case.what_if, of.resource)) for of in before
    ]
    if not any(one.most for one in ranges):
        return

    def after(amounts: Sequence[int]) -> QuotaWhatIf:
        by = dict(zip(before, amounts, strict=True))
        return with_quota_raised(case.what_if, node.name, not node.is_queue, field, by)

    found = smallest(lambda amounts: decide(after(amounts)).is_enough, ranges)
    if found is not None and any(found):
        raised = [
            NewAmount(of.flavor, of.resource, by, amount + by)
            for (of, amount), by in zip(before.items(), found, strict=True)
            if by
        ]
        yield MinimalChange(RaiseQuota(node.name, not node.is_queue, field, tuple(sorted(raised, key=_by_name))))


def _by_name(amount: NewAmount) -> tuple[str, str]:
    return amount.flavor, amount.resource


def _said(node: QuotaNode, of: FlavorResource, field: QuotaField) -> int | None:
    return quota_amount(node.quota(of), field)


def _most(case: DecidedCase, node: QuotaNode, of: FlavorResource, field: QuotaField) -> int:
    """An upper bound: enough for all holders and all pending workloads."""
    everything = _demand(case.what_if, of.resource) + sum(leaf.used(of) for leaf in node.root.leaves())
    if field is not QuotaField.LENDING:
        return everything
    quota = node.quota(of)
    return max(0, min(everything, quota.nominal - (quota.lending_limit or 0)))


def _demand(what_if: QuotaWhatIf, resource: str) -> int:
    total = sum(_asked_by(ask, resource) for ask in what_if.head.pod_set_requests)
    return total + sum(
        count * _asked_by(ask, resource) for one, count in what_if.others.kinds for ask in one.pod_set_requests
    )


def _asked_by(ask: PodSetRequests, resource: str) -> int:
    return ask.count * (1 if resource == PODS else ask.each[resource])


def _grain(what_if: QuotaWhatIf, resource: str) -> int:
    """The greatest common divisor of all quotas, usage and requests: thresholds are multiples of it."""
    pending = [what_if.head, *(one for one, _ in what_if.others.kinds)]
    asked = [ask.each[resource] for one in pending for ask in one.pod_set_requests]
    held = [amount for reservation in what_if.holders for of, amount in reservation.usage if of.resource == resource]
    groups = [*(one.groups for one in what_if.queues), *(one.groups for one in what_if.cohorts)]
    quotas = [
        quota
        for group in chain.from_iterable(groups)
        for entry in group.flavors
        for name, quota in entry.quotas
        if name == resource
    ]
    said = [one for quota in quotas for field in QuotaField if (one := quota_amount(quota, field)) is not None]
    return gcd(*asked, *held, *said) or 1


def _asked(case: DecidedCase, node: QuotaNode) -> list[FlavorResource]:
    """The flavor resources of the node that the workload requests, in the order of the manifest."""
    pod_set_requests = case.what_if.head.pod_set_requests
    wanted = {PODS, *(name for ask in pod_set_requests for name, amount in ask.each if amount)}
    return [of for of in node.quotas if of.resource in wanted]


def _below(node: QuotaNode) -> Iterator[QuotaNode]:
    for child in node.children:
        yield child
        yield from _below(child)


def _suit_flavors(case: DecidedCase) -> Iterator[MinimalChange]:
    """Makes its pods match a flavor that they do not match."""
    for name in dict.fromkeys(report.flavor for report in case.reports if report.refusal):
        flavor = case.what_if.flavors.get(name)
        if flavor is None:
            continue
        taints = [taint for taint in flavor.node_taints if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE]
        texts = tuple(f"{taint.key}={taint.value}:{taint.effect}" for taint in taints)
        labels = tuple(f"{key}={value}" for key, value in sorted(flavor.node_labels.items()))
        for change, anywhere in ((MatchFlavor(name, texts), False), (MatchFlavor(name, texts, labels), True)):
            found = _helps(change, decide(with_flavor_matched(case.what_if, taints, anywhere=anywhere)))
            if found is not None:
                yield found
                break


def _cover_resources(case: DecidedCase) -> Iterator[MinimalChange]:
    resources = uncovered_resources(case.what_if, case.what_if.head)
    if resources:
        ignoring = structs.replace(case.what_if.settings, ignore_undeclared=True)
        change = CoverResources(case.what_if.head.queue, resources)
        found = _helps(change, decide(structs.replace(case.what_if, settings=ignoring)))
        if found is not None:
            yield found


def _helps(change: MatchFlavor | CoverResources, decision: Decision) -> MinimalChange | None:
    if not isinstance(decision.outcome, Admitted | Preempting):
        return None
    return MinimalChange(change, tuple(namespaced_name(victim.reservation.key) for victim in decision.victims))


def _less_demand(case: DecidedCase) -> Iterator[MinimalChange]:
    return less_demand(case.what_if, _missing_by_resource(case.missing))


def _higher_priority(case: DecidedCase) -> Iterator[MinimalChange]:
    """None if it preempts already."""
    return iter(()) if isinstance(case.decision.outcome, Preempting) else higher_priority(case.what_if)


def _finish(case: DecidedCase) -> Iterator[MinimalChange]:
    is_about_it = case.decision.outcome is not None
    return finish(case.what_if, [_missing_of(report) for report in case.reports] if is_about_it else [])


def _other_policies(case: DecidedCase) -> Iterator[MinimalChange]:
    return iter(()) if isinstance(case.decision.outcome, Preempting) else other_policies(case.what_if)


def _make_way(case: DecidedCase) -> Iterator[MinimalChange]:
    """Removes the head that a StrictFIFO queue waits for."""
    head = case.decision.head
    if case.decision.outcome is None and head is not None:
        others = case.what_if.others.without(head.head.key)
        if decide(structs.replace(case.what_if, others=others)).admits:
            yield MinimalChange(DeactivateHead(namespaced_name(head.head.key)))


def _missing_by_resource(missing: Mapping[FlavorResource, int]) -> dict[str, int]:
    """By resource, the smallest missing amount of any flavor."""
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
