"""Who has to go when quota is short: by priority and by whose quota it is, or by fair shares."""

from random import Random

import pytest
from quota_builders import CPU, cohort, holds, ledger, policy, queue
from quota_worlds import crowded

from headgate.model.queues import BorrowWithinCohort, Quota, Reclaim, WithinQueue
from headgate.model.settings import DEFAULT_FAIR, FairStrategy
from headgate.preemption.quota.classical import classical_victims
from headgate.preemption.quota.fair import fair_victims
from headgate.preemption.quota.search import QuotaPreemptor, fits
from headgate.quota.tree import FlavorResource

LOWER, NEWER = WithinQueue.LOWER_PRIORITY, WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY
WHILE_BORROWING = BorrowWithinCohort.LOWER_PRIORITY
IN_QUEUE, RECLAMATION = "InClusterQueue", "InCohortReclamation"
FAIRLY, BORROWING = "InCohortFairSharing", "InCohortReclaimWhileBorrowing"


def preemptor(cpu, priority=2, ordered=5.0, of=CPU):
    return QuotaPreemptor("q", priority, ordered, ((of, cpu * 1000),), (of,))


def told(victims):
    return {victim.reservation.key.name: victim.reason.value for victim in victims}


def within(within_queue, **fields):
    return policy(within_queue=within_queue, **fields)


def reclaiming(reclaim, **fields):
    return policy(reclaim=reclaim, **fields)


@pytest.mark.parametrize(
    "rules, cpu, holders, victims",
    [
        pytest.param(within(WithinQueue.NEVER), 1, [holds("low", "q", 4)], {}, id="nobody where the policy is never"),
        pytest.param(within(LOWER), 1, [holds("low", "q", 4)], {"low": IN_QUEUE}, id="the less important"),
        pytest.param(within(LOWER), 1, [holds("equal", "q", 4, priority=2)], {}, id="not the equally important"),
        pytest.param(
            within(NEWER), 1, [holds("new", "q", 4, priority=2, ordered=9.0)], {"new": IN_QUEUE}, id="the newer equal"
        ),
        pytest.param(within(NEWER), 1, [holds("old", "q", 4, priority=2, ordered=1.0)], {}, id="not the older equal"),
        pytest.param(
            within(LOWER),
            1,
            [holds("low", "q", 2), holds("lower", "q", 2, priority=-1)],
            {"lower": IN_QUEUE},
            id="the least important first",
        ),
        pytest.param(
            within(LOWER),
            1,
            [holds("early", "q", 2, reserved=1.0), holds("late", "q", 2, reserved=2.0)],
            {"late": IN_QUEUE},
            id="of equals the one admitted last",
        ),
        pytest.param(
            within(LOWER),
            1,
            [holds("b", "q", 2), holds("a", "q", 2)],
            {"a": IN_QUEUE},
            id="of quite equals the first by uid",
        ),
        pytest.param(
            within(LOWER),
            1,
            [holds("leaving", "q", 2, priority=1, evicted=True), holds("lower", "q", 2)],
            {"leaving": IN_QUEUE},
            id="whoever is on the way out before all others",
        ),
        pytest.param(
            within(LOWER),
            3,
            [holds("small", "q", 1, priority=-1), holds("big", "q", 3)],
            {"big": IN_QUEUE},
            id="nobody needlessly",
        ),
        pytest.param(within(LOWER), 5, [holds("low", "q", 4)], {}, id="nobody when it does not help"),
        pytest.param(
            within(LOWER), 1, [holds("low", "q", 4), holds("elsewhere", "q", 4, flavor="x")], {"low": IN_QUEUE},
            id="nobody who uses something else",
        ),
    ],
)  # fmt: skip
def test_victims_in_its_own_queue(rules, cpu, holders, victims):
    assert told(classical_victims(ledger(queue("q", 4, preemption=rules), *holders), preemptor(cpu))) == victims


IDLE = queue("idle", 4, "c")


def two_queues(rules, *others):
    return ledger(queue("q", 4, "c", preemption=rules), queue("r", 4, "c"), *others)


@pytest.mark.parametrize(
    "rules, cpu, holders, victims",
    [
        pytest.param(
            reclaiming(Reclaim.ANY), 4, [holds("w", "r", 5, priority=9)], {"w": RECLAMATION}, id="its own quota back"
        ),
        pytest.param(reclaiming(Reclaim.NEVER), 4, [holds("w", "r", 5)], {}, id="not where the policy is never"),
        pytest.param(
            reclaiming(Reclaim.LOWER_PRIORITY), 4, [holds("w", "r", 5, priority=2)], {}, id="not from the as important"
        ),
        pytest.param(
            reclaiming(Reclaim.LOWER_PRIORITY),
            4,
            [holds("w", "r", 5, priority=1)],
            {"w": RECLAMATION},
            id="from the less important",
        ),
        pytest.param(
            reclaiming(Reclaim.ANY),
            3,
            [holds("w", "r", 4), holds("v", "q", 2)],
            {},
            id="not from those within their own quota",
        ),
        pytest.param(
            reclaiming(Reclaim.ANY),
            2,
            [holds("a", "r", 3), holds("b", "r", 3), holds("v", "q", 2)],
            {"a": RECLAMATION},
            id="only as long as they borrow",
        ),
        pytest.param(
            reclaiming(Reclaim.ANY), 5, [IDLE, holds("w", "r", 4), holds("v", "r", 4)], {}, id="not in order to borrow"
        ),
        pytest.param(
            policy(reclaim=Reclaim.ANY, borrow=WHILE_BORROWING),
            5,
            [IDLE, holds("w", "r", 4), holds("v", "r", 4)],
            {"v": BORROWING},
            id="in order to borrow, where the policy allows",
        ),
        pytest.param(
            policy(reclaim=Reclaim.ANY, borrow=WHILE_BORROWING),
            5,
            [IDLE, holds("w", "r", 4, priority=2), holds("v", "r", 4, priority=2)],
            {},
            id="but then only from the less important",
        ),
        pytest.param(
            policy(reclaim=Reclaim.ANY, borrow=WHILE_BORROWING, borrow_threshold=0),
            5,
            [IDLE, holds("w", "r", 4, priority=1), holds("v", "r", 4, priority=1)],
            {},
            id="and up to the threshold",
        ),
        pytest.param(
            policy(reclaim=Reclaim.ANY, within_queue=LOWER),
            2,
            [holds("own", "q", 2), holds("w", "r", 6, priority=9)],
            {"w": RECLAMATION},
            id="from others before its own",
        ),
        pytest.param(
            policy(reclaim=Reclaim.ANY, within_queue=LOWER),
            4,
            [holds("own", "q", 4), holds("w", "r", 4)],
            {"own": IN_QUEUE},
            id="from its own when nobody else borrows",
        ),
    ],
)
def test_victims_in_other_queues(rules, cpu, holders, victims):
    assert told(classical_victims(two_queues(rules, *holders), preemptor(cpu))) == victims


def test_quota_of_a_nearer_cohort_is_reclaimed_from_those_farther_away_while_borrowing():
    """The near cohort's own quota is for its queues first, whatever the priority of who borrows it from outside."""
    books = ledger(
        queue("q", 0, "near", preemption=reclaiming(Reclaim.ANY)),
        queue("far", 0, "top"),
        cohort("near", "top", 4),
        cohort("top"),
        holds("w", "far", 4, priority=9),
    )
    assert told(classical_victims(books, preemptor(3))) == {"w": RECLAMATION}


def test_nobody_is_taken_through_a_cohort_that_keeps_within_its_quota():
    books = ledger(
        queue("q", 2, "near", preemption=reclaiming(Reclaim.ANY)),
        queue("borrower", 0, "far"),
        queue("lender", 4, "far"),
        cohort("near", "top"),
        cohort("far", "top"),
        holds("w", "borrower", 4),
        holds("v", "q", 2),
    )
    assert classical_victims(books, preemptor(2)) == ()


@pytest.mark.parametrize(
    "rules, cpu, holders, strategies, victims",
    [
        pytest.param(
            reclaiming(Reclaim.ANY),
            2,
            [holds("own", "q", 2), *(holds(f"w{index}", "r", 2) for index in range(5))],
            DEFAULT_FAIR,
            {"w0": RECLAMATION},
            id="within its own quota it takes from whoever borrows",
        ),
        pytest.param(
            reclaiming(Reclaim.ANY),
            2,
            [holds("own", "q", 4), *(holds(f"w{index}", "r", 2) for index in range(4))],
            DEFAULT_FAIR,
            {"w0": FAIRLY},
            id="beyond it only from those who then still have as much",
        ),
        pytest.param(
            reclaiming(Reclaim.ANY),
            4,
            [holds("own", "q", 4), holds("w0", "r", 4), holds("w1", "r", 4)],
            DEFAULT_FAIR,
            {},
            id="not from those who would have less",
        ),
        pytest.param(
            reclaiming(Reclaim.ANY),
            1,
            [holds("own", "q", 5), holds("w0", "r", 4), holds("w1", "r", 3)],
            DEFAULT_FAIR,
            {"w0": FAIRLY},
            id="or, by the second rule, from those who had more",
        ),
        pytest.param(
            reclaiming(Reclaim.ANY),
            1,
            [holds("own", "q", 5), holds("w0", "r", 4), holds("w1", "r", 3)],
            (FairStrategy.FINAL_SHARE,),
            {},
            id="unless that rule is off",
        ),
        pytest.param(
            reclaiming(Reclaim.LOWER_PRIORITY),
            2,
            [holds("own", "q", 2), *(holds(f"w{index}", "r", 2, priority=2) for index in range(5))],
            DEFAULT_FAIR,
            {},
            id="priorities count where the policy says so",
        ),
        pytest.param(
            policy(within_queue=LOWER),
            2,
            [holds("own", "q", 4), holds("w0", "r", 8)],
            DEFAULT_FAIR,
            {"own": IN_QUEUE},
            id="its own queue is asked by its own policy",
        ),
    ],
)
def test_victims_by_fair_sharing(rules, cpu, holders, strategies, victims):
    books = ledger(
        queue("q", 4, "c", preemption=rules), queue("r", 4, "c"), queue("idle", 4, "c"), *holders
    )  # twelve in all
    short = preemptor(cpu)
    assert not fits(books, short), "the case is about a shortage"
    assert told(fair_victims(books, short, strategies)) == victims


def test_whoever_has_most_gives_first():
    books = ledger(
        queue("q", 2, "c", preemption=reclaiming(Reclaim.ANY)),
        queue("r", 2, "c"),
        queue("s", 2, "c"),
        *(holds(f"r{index}", "r") for index in range(2)),
        *(holds(f"s{index}", "s") for index in range(4)),
    )
    assert told(fair_victims(books, preemptor(1), DEFAULT_FAIR)) == {"s0": RECLAMATION}


def test_without_a_cohort_fair_sharing_is_about_its_own_queue():
    books = ledger(queue("q", 4, preemption=within(LOWER)), holds("low", "q", 4))
    assert told(fair_victims(books, preemptor(1), DEFAULT_FAIR)) == {"low": IN_QUEUE}


def searches(world):
    if world.settings.fair:
        return lambda books, one: fair_victims(books, one, world.settings.fair)
    return classical_victims


def shortages(dice, world):
    """Every queue that is short of its first flavor, and how much more somebody wants of it."""
    books = world.ledger
    for name, node in books.forest.queues.items():
        entry = node.queue.groups[0].flavors[0]
        of = FlavorResource(entry.flavor, entry.quotas[0][0])
        amount = max(0, node.accounts[of].available()) + dice.choice((1000, 2000))
        yield books, QuotaPreemptor(name, dice.randint(0, 3), float(dice.randint(0, 3)), ((of, amount),), (of,))


@pytest.mark.parametrize("seed", range(6))
def test_victims_are_enough_and_none_is_needless(seed):
    dice, found = Random(seed), 0
    for _ in range(50):
        world, _ = crowded(dice)
        for books, short in shortages(dice, world):
            victims = searches(world)(books, short)
            found += bool(victims)
            assert not victims or fits_without(books, short, victims)
            for spared in victims:
                rest = [victim for victim in victims if victim is not spared]
                assert not fits_without(books, short, rest) or borrows_to_spare(books, short, rest)
    assert found > 10, "the worlds are crowded enough to mean something"


def fits_without(books, short, victims):
    with books.trial():
        for victim in victims:
            books.release(victim.reservation.queue, victim.reservation.uid)
        return fits(books, short)


def borrows_to_spare(books, short, victims):
    """It would fit, but only by borrowing, which these victims do not allow."""
    with books.trial():
        for victim in victims:
            books.release(victim.reservation.queue, victim.reservation.uid)
        return not fits(books, short, borrow=False)


@pytest.mark.parametrize("seed", range(3))
def test_victims_do_not_depend_on_the_order_holders_came_in(seed):
    dice = Random(seed)
    for _ in range(30):
        world, _ = crowded(dice)
        mixed = type(world)(world.queues[::-1], world.cohorts[::-1], world.holders[::-1], world.settings)
        other = mixed.ledger
        for books, short in shortages(dice, world):
            assert searches(world)(books, short) == searches(world)(other, short)


def test_a_quota_that_was_taken_away_is_no_reason_to_take_more_than_asked():
    books = ledger(queue("q", Quota(2), preemption=within(LOWER)), *(holds(f"w{index}", "q", 1) for index in range(4)))
    assert len(classical_victims(books, preemptor(1))) == 3
