"""What is found out about one workload is what the engine decides about all of them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from quota_builders import applies, flavor, holds, pending, queue, snapshot
from quota_worlds import FLAVORS, World, crowded, crowded_applicant

from headgate.engine.explain.what_if import MOST_BEFORE, OtherPending, QuotaWhatIf, decide
from headgate.engine.quota.admission_cycle import Admitted, Deferred, Gated, Preempting, admit_all
from headgate.model.queues import QueueingStrategy
from headgate.model.settings import QuotaSettings
from headgate.quota.ledger import cohort_forest

DECISIVE = Admitted | Preempting | Deferred | Gated
NOW = 100.0


def crowd(dice: Random):
    """A world with several who wait in each queue, some of them alike."""
    world, _ = crowded(dice)
    waiting = []
    for one in world.queues:
        for index in range(dice.choice((1, 3, 6))):
            made = crowded_applicant(dice, f"{one.name}-{index}", one)
            waiting += [made, *(_twin(made, copy) for copy in range(dice.choice((0, 0, 2))))]
    return world, waiting


def _twin(one, copy):
    key = structs.replace(one.key, name=f"{one.key.name}-{copy}")
    workload = structs.replace(one.workload, key=key, uid=f"uid-{key.name}")
    return structs.replace(one, workload=workload, rank=(*one.rank[:2], workload.uid))


def as_engine_decides(world, waiting):
    """The first outcome of each that settles something; None for those who wait."""
    books = world.ledger
    flavors = [flavor(name) for name in FLAVORS]
    found = {}
    for outcomes in admit_all(pending(books, *waiting, now=NOW), snapshot(books, *flavors), world.settings, NOW):
        for outcome in outcomes:
            if isinstance(outcome, DECISIVE):
                found.setdefault(outcome.head.key, outcome)
    return found


def what_if(world, waiting, mine):
    tree = cohort_forest(world.queues, world.cohorts).tree_of(mine.queue)
    return QuotaWhatIf(
        head=mine,
        others=OtherPending(one for one in waiting if one.key != mine.key and one.queue in tree),
        holders=tuple(one for one in world.holders if one.queue in tree),
        queues=tuple(one for one in world.queues if one.name in tree),
        cohorts=tuple(world.cohorts),
        flavors={name: flavor(name) for name in FLAVORS},
        may_enter=lambda queue, namespace: True,
        settings=world.settings,
        now=NOW,
    )


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_one_workload_is_told_what_the_engine_decides_about_it(dice):
    assert_told_as_decided(dice)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(3142, id="those behind it have their turn before its second one"),
        pytest.param(4526, id="who waits for victims stays in front of all who are alike"),
        pytest.param(10406, id="who is looked at only now has waited all along"),
    ],
)
def test_what_was_once_told_otherwise(seed):
    assert_told_as_decided(Random(seed))


def assert_told_as_decided(dice):
    world, waiting = crowd(dice)
    engine = as_engine_decides(world, waiting)
    for mine in dice.sample(waiting, min(4, len(waiting))):
        outcome = decide(what_if(world, waiting, mine)).outcome
        expected = engine.get(mine.key)
        if expected is None:
            assert not isinstance(outcome, DECISIVE)
        else:
            assert type(outcome) is type(expected)
            assert _victims(outcome) == _victims(expected)


def _victims(outcome):
    return [victim.reservation.uid for victim in getattr(outcome, "victims", ())]


def two_kin(strategy):
    first, second = applies("first", "q", 3), applies("second", "q", 3, created=5.0)
    return World([queue("q", 4, strategy=strategy)], [], [holds("h", "q", 2)], QuotaSettings()), [first, second]


@pytest.mark.parametrize(
    "strategy, is_told",
    [
        pytest.param(QueueingStrategy.BEST_EFFORT_FIFO, True, id="one like it was refused, which holds for it too"),
        pytest.param(QueueingStrategy.STRICT_FIFO, False, id="in a strict queue its turn never comes"),
    ],
)
def test_kin(strategy, is_told):
    world, waiting = two_kin(strategy)
    books = structs.replace(what_if(world, waiting, waiting[1]), flavors={"default": flavor()})
    decision = decide(books)
    assert (decision.outcome is not None) == is_told
    assert decision.head is not None and decision.head.head.key.name == "first"


def test_it_gives_up_when_too_many_others_go_first():
    world, (mine, _) = two_kin(QueueingStrategy.BEST_EFFORT_FIFO)
    large = structs.replace(
        what_if(world, [mine], mine),
        flavors={"default": flavor()},
        queues=(queue("q", 1000),),
        others=OtherPending(applies(f"other-{index}", "q", 1, priority=1) for index in range(MOST_BEFORE + 5)),
    )
    decision = decide(large)
    assert (decision.gave_up, decision.admits, decision.is_enough) == (True, False, None)
