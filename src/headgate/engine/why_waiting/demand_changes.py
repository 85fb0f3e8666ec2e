"""What would have to change about the workload itself, or about those who hold the quota."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from headgate.engine.quota.admission_cycle import Preempting
from headgate.engine.why_waiting import changing
from headgate.engine.why_waiting.answers import FewerPods, Finish, HigherPriority, NewAmount, Remedy, SmallerPods
from headgate.engine.why_waiting.decision import Question, decide
from headgate.engine.why_waiting.holding import called
from headgate.engine.why_waiting.smallest import Range, smallest
from headgate.model.queues import PodSet
from headgate.quota.ledger import Reservation
from headgate.quota.tree import FlavorResource

MOST_TRIED = 24  # holders, one by one
MOST_TOGETHER = 12  # nobody waits for more of them to finish

Missing = Mapping[FlavorResource, int]


def less_demand(question: Question, missing: Mapping[str, int]) -> Iterator[Remedy]:
    """The most pods of a pod set with which it would be admitted; if there are none, the most each could ask for."""
    for pod_set in question.head.workload.pod_sets:
        fewer = _pods_too_many(question, pod_set, missing)
        if fewer:
            yield Remedy(FewerPods(pod_set.name, pod_set.count, pod_set.count - fewer))
        else:
            yield from _smaller(question, pod_set, missing)


def higher_priority(question: Question) -> Iterator[Remedy]:
    """The lowest priority with which it would be admitted, or could make others leave."""
    before = question.head.priority
    others = {*(one.priority for one in question.holders), *(one.priority for one, _ in question.rivals.kinds)}
    worth = sorted({one + more for one in others for more in (0, 1) if one + more > before})  # all else is the same

    def enough(index: tuple[int, ...]) -> bool | None:
        if index[0] == 0:
            return False
        decision = decide(changing.with_priority(question, worth[index[0] - 1]))
        return isinstance(decision.outcome, Preempting) or decision.is_enough

    found = smallest(enough, [Range(len(worth))]) if worth else None
    if found is not None:
        priority = worth[found[0] - 1]
        decision = decide(changing.with_priority(question, priority))
        yield Remedy(HigherPriority(before, priority), tuple(called(one.reservation.key) for one in decision.victims))


def finish(question: Question, missing: Sequence[Missing]) -> Iterator[Remedy]:
    """The smallest holder that is enough, or else few of the largest, none of them needlessly.

    `missing` is what it lacks, flavor by flavor; empty where that is not the matter.
    """
    holders = _by_size(question, [of for one in missing for of in one])
    large = [holder for holder in holders if not missing or any(_covers(holder, one) for one in missing)]
    single = next((one for one in large[:MOST_TRIED] if _admits_without(question, [one])), None)
    chosen = [single] if single is not None else _several(question, holders[::-1])
    if chosen:
        yield Remedy(Finish(tuple(sorted(called(one.key) for one in chosen))))


def _covers(holder: Reservation, missing: Missing) -> bool:
    held = dict(holder.usage)
    return bool(missing) and all(held.get(of, 0) >= amount for of, amount in missing.items())


def _pods_too_many(question: Question, pod_set: PodSet, missing: Mapping[str, int]) -> int:
    """0 where fewer pods would not help."""

    def enough(fewer: tuple[int, ...]) -> bool | None:
        return decide(changing.with_count(question, pod_set.name, pod_set.count - fewer[0])).is_enough

    guess = max((_parts(amount, pod_set.shape.requests[name]) for name, amount in missing.items()), default=0)
    found = smallest(enough, [Range(pod_set.count - 1, guess)]) if pod_set.count > 1 else None
    return found[0] if found is not None else 0


def _smaller(question: Question, pod_set: PodSet, missing: Mapping[str, int]) -> Iterator[Remedy]:
    asked = [(name, amount) for name, amount in pod_set.shape.requests if amount > 1]

    def enough(less: tuple[int, ...]) -> bool | None:
        by = {name: amount for (name, _), amount in zip(asked, less, strict=True)}
        return decide(changing.with_less(question, pod_set.name, by)).is_enough

    ranges = [Range(amount - 1, _parts(missing.get(name, 0), pod_set.count)) for name, amount in asked]
    found = smallest(enough, ranges) if asked else None
    if found is not None and any(found):
        amounts = [NewAmount("", name, by, amount - by) for (name, amount), by in zip(asked, found, strict=True) if by]
        yield Remedy(SmallerPods(pod_set.name, tuple(amounts)))


def _parts(amount: int, size: int) -> int:
    return -(-amount // size) if size > 0 else 0


def _by_size(question: Question, needed: Sequence[FlavorResource]) -> list[Reservation]:
    """Those who hold any of what is needed, smallest first; of several resources the one they hold most of counts."""
    totals: dict[FlavorResource, int] = {}
    for holder in question.holders:
        for of, amount in holder.usage:
            totals[of] = totals.get(of, 0) + amount

    def size(holder: Reservation) -> Fraction:
        parts = [Fraction(amount, totals[of]) for of, amount in holder.usage if amount and (not needed or of in needed)]
        return max(parts, default=Fraction(0))

    sized = [(size(holder), holder) for holder in question.holders]
    return [holder for part, holder in sorted(sized, key=lambda each: (each[0], each[1].key)) if part]


def _several(question: Question, largest_first: Sequence[Reservation]) -> list[Reservation]:
    most = Range(min(len(largest_first), MOST_TOGETHER), 2)
    count = smallest(lambda count: _admits_without(question, largest_first[: count[0]]), [most])
    chosen = list(largest_first[: count[0]]) if count is not None else []
    while (needless := _needless(question, chosen)) is not None:
        chosen.remove(needless)
    return chosen


def _needless(question: Question, chosen: Sequence[Reservation]) -> Reservation | None:
    """One of them without whom it would be admitted as well."""
    return next((one for one in chosen if _admits_without(question, [it for it in chosen if it is not one])), None)


def _admits_without(question: Question, holders: Sequence[Reservation]) -> bool:
    return decide(changing.without(question, {one.uid for one in holders})).admits
