"""The smallest changes: each is enough, and nothing less of it would be."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quota_builders import FlavorResource, applies, cohort, flavor, group, holds, pods, policy, queue
from quota_worlds import FLAVORS, crowded

from headgate.engine.explain.explanation import (
    FewerPods,
    FinishWorkloads,
    HigherPriority,
    QuotaField,
    RaiseQuota,
    SmallerPods,
    change_sentence,
)
from headgate.engine.explain.limits import flavor_reports
from headgate.engine.explain.minimal_changes import DecidedCase, Range, minimal_changes, smallest
from headgate.engine.explain.what_if import (
    OtherPending,
    QuotaWhatIf,
    decide,
    with_count,
    with_less,
    with_priority,
    with_quota_raised,
    without_holders,
)
from headgate.engine.quota.admission_cycle import Admitted, Preempting
from headgate.model.queues import QueueingStrategy, Quota, Reclaim, WithinQueue
from headgate.model.settings import QuotaSettings
from headgate.quota.ledger import Reservation


def what_if(head, *parts, others=(), flavors=("default",), fair=()):
    queues = tuple(part for part in parts if type(part).__name__ == "ClusterQueue")
    cohorts = tuple(part for part in parts if type(part).__name__ == "Cohort")
    return QuotaWhatIf(
        head=head,
        others=OtherPending(others),
        holders=tuple(part for part in parts if isinstance(part, Reservation)),
        queues=queues,
        cohorts=cohorts,
        flavors={name: flavor(name) for name in flavors},
        may_enter=lambda queue, namespace: True,
        settings=QuotaSettings(fair=fair),
        now=100.0,
    )


def found_for(asked):
    decision = decide(asked)
    if decision.admits or (decision.outcome is None and decision.head is None):
        return ()
    result = decision.outcome or decision.head
    return minimal_changes(DecidedCase(asked, decision, flavor_reports(asked, decision, result.head)))


def said(asked):
    return [change_sentence(one) for one in found_for(asked)]


STRICT = QueueingStrategy.STRICT_FIFO
LOWER = policy(within_queue=WithinQueue.LOWER_PRIORITY)
MORE = "raise nominalQuota of ClusterQueue q: cpu of flavor default by "


@pytest.mark.parametrize(
    "asked, changes",
    [
        pytest.param(
            what_if(applies("a", "q", 3), queue("q", 4), holds("h", "q", 2)),
            [f"{MORE}1 (to 5)", "lower the requests of each pod of main to 2 cpu", "wait for, or end, default/h"],
            id="a queue on its own: more quota, less demand, or somebody ends",
        ),
        pytest.param(
            what_if(applies("a", "q", pod_sets=(pods(count=5),)), queue("q", 4), holds("h", "q", 2)),
            [f"{MORE}3 (to 7)", "run 2 instead of 5 pods of main (parallelism)"],
            id="of several pods as many run as there is quota for",
        ),
        pytest.param(
            what_if(
                applies("a", "q", 6), queue("q", Quota(4, 1, None), "all"), queue("other", 9, "all")
            ),
            [
                "raise borrowingLimit of ClusterQueue q: cpu of flavor default by 1 (to 2)",
                f"{MORE}1 (to 5)",
                "lower the requests of each pod of main to 5 cpu",
            ],
            id="a borrowing limit is raised by what is missing",
        ),
        pytest.param(
            what_if(
                applies("a", "q", 6), queue("q", 4, "all"), queue("other", Quota(9, None, 1), "all")
            ),
            [
                "raise lendingLimit of ClusterQueue other: cpu of flavor default by 1 (to 2)",
                f"{MORE}1 (to 5)",
                "lower the requests of each pod of main to 5 cpu",
            ],
            id="a lender that keeps unused quota lends more",
        ),
        pytest.param(
            what_if(applies("a", "q", 6), queue("q", 4, "all"), cohort("all", nominal=1)),
            [
                f"{MORE}1 (to 5)",
                "raise nominalQuota of Cohort all: cpu of flavor default by 1 (to 2)",
                "lower the requests of each pod of main to 5 cpu",
            ],
            id="a cohort that has quota of its own gets more",
        ),
        pytest.param(
            what_if(
                applies("a", "q", 2, priority=1),
                queue("q", 2, preemption=LOWER),
                holds("low", "q", 1, priority=4),
                holds("high", "q", 1, priority=9),
            ),
            [
                f"{MORE}2 (to 4)",
                "raise its priority from 1 to 10; preempts default/low, default/high",
                "wait for, or end, default/high and default/low",
            ],
            id="two that hold a part each must both leave",
        ),
        pytest.param(
            what_if(
                applies("a", "q", 1, created=5.0),
                queue("q", 4, strategy=STRICT),
                holds("h", "q", 2),
                others=[applies("big", "q", 3)],
            ),
            [
                f"{MORE}2 (to 6)",
                "raise its priority from 0 to 1",
                "take default/big out of the queue (delete it, or set its spec.active to false)",
                "wait for, or end, default/h",
            ],
            id="behind another in a strict queue: room for both, or the other steps back",
        ),
        pytest.param(
            what_if(
                applies("a", "q", 1, created=5.0),
                queue("q", 4),
                holds("h", "q", 4),
                others=[applies("first", "q", 1)],
            ),
            [f"{MORE}2 (to 6)", "wait for, or end, default/h"],
            id="what others ahead of it would take first is counted in",
        ),
    ],
)  # fmt: skip
def test_the_changes_that_are_offered(asked, changes):
    assert said(asked) == changes


def test_of_two_flavors_either_can_be_raised():
    asked = what_if(applies("a", "q", 3), queue("q", groups=(group(one=2, two=1),)), flavors=("one", "two"))
    assert said(asked) == [
        "raise nominalQuota of ClusterQueue q: cpu of flavor one by 1 (to 3)",
        "raise nominalQuota of ClusterQueue q: cpu of flavor two by 2 (to 3)",
        "lower the requests of each pod of main to 2 cpu",
    ]


def reclaims(**fields):
    return policy(reclaim=Reclaim.LOWER_PRIORITY, **fields)


def test_priority_is_raised_just_above_those_who_borrow():
    asked = what_if(
        applies("a", "q", 4),
        queue("q", 4, "all", preemption=reclaims()),
        queue("other", 4, "all"),
        holds("h", "other", 6, priority=7),
    )
    assert "raise its priority from 0 to 8; preempts default/h" in said(asked)


@pytest.mark.parametrize(
    "mine, theirs, change",
    [
        pytest.param(
            {"priority": 5},
            holds("h", "q", 5),
            "set preemption.withinClusterQueue of ClusterQueue q to LowerPriority; preempts default/h",
            id="one less important in its own queue",
        ),
        pytest.param(
            {"priority": 5},
            holds("h", "other", 6),
            "set preemption.reclaimWithinCohort of ClusterQueue q to LowerPriority; preempts default/h",
            id="one less important that borrows",
        ),
        pytest.param(
            {},
            holds("h", "other", 6),
            "set preemption.reclaimWithinCohort of ClusterQueue q to Any; preempts default/h",
            id="any that borrows",
        ),
    ],
)
def test_of_a_policy_the_mildest_that_is_enough_is_advised(mine, theirs, change):
    asked = what_if(applies("a", "q", 4, **mine), queue("q", 4, "all"), queue("other", 4, "all"), theirs)
    assert [one for one in said(asked) if one.startswith("set preemption")] == [change]


# The law: what is offered is enough, and one unit less of any part of it is not.


def after(asked: QuotaWhatIf, change):
    match change:
        case RaiseQuota(name, is_cohort, field, amounts):
            by = {FlavorResource(one.flavor, one.resource): one.by for one in amounts}
            return with_quota_raised(asked, name, is_cohort, field, by)
        case FewerPods(pod_set, _, to):
            return with_count(asked, pod_set, to)
        case SmallerPods(pod_set, amounts):
            return with_less(asked, pod_set, {one.resource: one.by for one in amounts})
        case HigherPriority(_, to):
            return with_priority(asked, to)
        case FinishWorkloads(workloads):
            names = {one.uid for one in asked.holders if f"{one.key.namespace}/{one.key.name}" in workloads}
            return without_holders(asked, names)
    raise AssertionError(change)


def lesser(asked: QuotaWhatIf, change):
    """The same change with one unit less, in every way there is."""
    match change:
        case RaiseQuota(name, is_cohort, field, amounts):
            by = {FlavorResource(one.flavor, one.resource): one.by for one in amounts}
            for of, amount in by.items():
                yield with_quota_raised(asked, name, is_cohort, field, {**by, of: amount - 1})
        case FewerPods(pod_set, _, to):
            yield with_count(asked, pod_set, to + 1)
        case SmallerPods(pod_set, amounts):
            by = {one.resource: one.by for one in amounts}
            for resource, amount in by.items():
                yield with_less(asked, pod_set, {**by, resource: amount - 1})
        case HigherPriority(_, to):
            yield with_priority(asked, to - 1)
        case FinishWorkloads(workloads):
            for one in workloads:
                yield after(asked, FinishWorkloads(tuple(other for other in workloads if other != one)))


def is_measured(change) -> bool:
    return isinstance(change, RaiseQuota | FewerPods | SmallerPods | HigherPriority | FinishWorkloads)


def is_enough(asked: QuotaWhatIf, change) -> bool:
    outcome = decide(asked).outcome
    if isinstance(change, HigherPriority):
        return isinstance(outcome, Admitted | Preempting)
    return isinstance(outcome, Admitted)


def crowded_question(dice):
    world, heads = crowded(dice)
    if not heads:
        return None
    mine, *others = heads
    return what_if(
        mine, *world.queues, *world.cohorts, *world.holders, others=others, flavors=FLAVORS, fair=world.settings.fair
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_every_change_is_enough_and_nothing_less_would_be(dice):
    asked = crowded_question(dice)
    if asked is None or decide(asked).admits:
        return
    changes = [minimal_change.change for minimal_change in found_for(asked)]
    for change in filter(is_measured, changes):
        assert is_enough(after(asked, change), change), f"too little: {change}"
        for less in lesser(asked, change):
            assert not is_enough(less, change), f"too much: {change}"
    own = [one for one in changes if isinstance(one, RaiseQuota) and one.name == asked.head.queue]
    assert any(one.field is QuotaField.NOMINAL for one in own), "more quota always helps"


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=3),
    st.lists(st.integers(0, 60), min_size=3, max_size=3),
    st.sampled_from((1, 2, 5, 7)),
    st.sampled_from((50, 1000)),
)
def test_the_smallest_amounts_are_found_whatever_is_guessed(needed, guesses, grain, patience):
    def enough(amounts):
        if sum(amounts) > patience:
            return None
        return all(amount >= least for amount, least in zip(amounts, needed, strict=True))

    ranges = [Range(100, guess, grain) for guess, _ in zip(guesses, needed, strict=False)]
    found = smallest(enough, ranges)
    assert found == tuple(needed) or (found is None and patience == 50), "with little patience it may not be found"
    if any(needed):
        assert smallest(enough, [Range(max(0, least - 1)) for least in needed]) is None
