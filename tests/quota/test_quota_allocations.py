"""Allocations since the last change from outside: preemption enters none of them again."""

import pytest
from builders import changed
from msgspec import structs
from quota_builders import applies, condition, flavor, group, holds, ledger, pending, policy, queue, snapshot, work

from headgate.engine.quota.admission_cycle import Admitted, Preempting, Waits, cycle, settle
from headgate.model.queues import FlavorSearch, Fungibility, WithinQueue
from headgate.model.settings import QuotaSettings
from headgate.quota.allocations import MOST_ENTRIES, MOST_EVICTIONS
from headgate.quota.pending_workload import changed_from_outside

LOWER = policy(within_queue=WithinQueue.LOWER_PRIORITY)
LOW, HIGH = holds("low", "q"), holds("high", "q", priority=1)


def preempt(books, preemptor=HIGH, victim=LOW):
    """The victim leaves and the preemptor gets what it held."""
    books.preempt(preemptor, [victim])
    books.release(victim.queue, victim.uid)
    books.reserve(preemptor)


def put_back(books, first=HIGH, then=LOW):
    """By something else than preemption."""
    books.release(first.queue, first.uid)
    books.reserve(then)


def full(*more):
    return ledger(queue("q", 1, preemption=LOWER), LOW, *more)


def closes(books, preemptor=HIGH, victim=LOW, *, borrows=True):
    plan = books.allocations.plan(books.node("q").root)
    return plan is not None and plan.closes_circle(preemptor, [victim], borrows=borrows)


def test_the_first_preemption_is_free_and_the_second_of_its_kind_closes_a_circle():
    books = full()
    assert not closes(books)
    preempt(books)
    put_back(books)
    assert closes(books)


def test_who_stays_within_its_nominal_quota_may_close_a_circle_once():
    books = full()
    for _ in range(MOST_ENTRIES):
        assert not closes(books, borrows=False)
        preempt(books)
        put_back(books)
    assert closes(books, borrows=False)


def test_one_that_asks_for_the_same_closes_the_same_circle():
    books = full()
    preempt(books)
    put_back(books)
    assert closes(books, holds("like-high", "q", priority=1))
    assert not closes(books, holds("other", "q", priority=2))
    assert not closes(books, holds("larger", "q", cpu=2, priority=1))


def test_the_older_of_two_that_ask_for_the_same_may_take_the_place_of_the_newer():
    """So may queues decide; the allocation is another, though it looks the same."""
    older, newer = holds("older", "q"), holds("newer", "q")
    books = ledger(queue("q", 1), newer)
    preempt(books, older, newer)
    oldest = holds("oldest", "q")
    assert not closes(books, oldest, older)
    preempt(books, oldest, older)
    put_back(books, oldest, newer)
    assert closes(books, older, newer)


def test_victims_that_are_told_already_close_no_circle():
    books = full()
    preempt(books)
    put_back(books)
    assert not closes(books, victim=structs.replace(LOW, evicted=True))


def test_an_eviction_that_did_not_come_about_is_forgotten():
    books = full()
    for _ in range(3):
        books.preempt(HIGH, [LOW])
        books.reserve(LOW)
        assert not closes(books)


def test_a_change_from_outside_lets_all_begin_anew():
    books = full()
    preempt(books)
    put_back(books)
    assert not books.forget_allocations("q")
    assert not books.allocations.histories
    assert not closes(books)


def test_a_change_from_outside_says_whether_anybody_was_held_back():
    books, waiting = full(), pending(ledger(queue("q", 1, preemption=LOWER)), applies("high", "q", priority=1))
    for _ in range(MOST_ENTRIES):
        preempt(books)
        put_back(books)
    (head,) = waiting.heads()
    settle(decided(books, head), waiting, books, 0.0)
    assert books.forget_allocations("q")
    assert not books.forget_allocations("q"), "it is told once"


def test_other_queues_and_cohorts_are_a_change_from_outside():
    books = full()
    preempt(books)
    assert books.allocations.histories
    assert not books.rebuilt([queue("q", 1)], []).allocations.histories


def test_no_workload_is_preempted_for_ever_whatever_else_moves():
    """Several circles at once pass through very many allocations before one of them comes again."""
    books = full()
    for index in range(MOST_EVICTIONS):
        other = holds(f"other-{index}", "q", cpu=index + 2)
        assert not closes(books, other)
        preempt(books, other)
        put_back(books, other)
    assert closes(books, holds("one-more", "q", cpu=99))


def test_what_is_tried_out_leaves_no_trace():
    books = full()
    preempt(books)
    with books.trial():
        put_back(books)
        assert not closes(books)
    put_back(books)
    assert closes(books)


def test_nothing_is_noted_where_nobody_preempts():
    books = full()
    books.release("q", LOW.uid)
    books.reserve(HIGH)
    books.mark_evicted(HIGH)
    assert not books.allocations.histories


def decided(books, head):
    (outcome,) = cycle(snapshot(books, flavor(), flavor("spare")), [head], QuotaSettings())
    return outcome


@pytest.mark.parametrize("spare, outcome", [(0, Waits), (1, Admitted)], ids=["nothing is free", "a flavor is free"])
def test_who_is_held_back_takes_what_is_free(spare, outcome):
    """Its queue stops at the first flavor in which it may preempt, so the second would never be tried."""
    stops = Fungibility(FlavorSearch.MAY_STOP_SEARCH, FlavorSearch.MAY_STOP_SEARCH)
    home = queue("q", groups=(group(default=1, spare=spare),), preemption=LOWER, fungibility=stops)
    books, head = ledger(home, LOW), applies("high", "q", priority=1)
    for _ in range(MOST_ENTRIES):
        assert isinstance(decided(books, head), Preempting)
        preempt(books)
        put_back(books)
    assert isinstance(decided(books, head), outcome)


def test_who_is_held_back_is_told_for_how_many():
    books, head = full(), applies("high", "q", priority=1)
    for _ in range(MOST_ENTRIES):
        preempt(books)
        put_back(books)
    outcome = decided(books, head)
    assert outcome.withheld
    assert ". The preemption of 1 workload(s) is withheld: " in outcome.message


BEFORE = work("w", reclaimable=(("main", 1),))


@pytest.mark.parametrize(
    "changes, is_from_outside",
    [
        pytest.param({"generation": 2}, True, id="its spec"),
        pytest.param({"priority": 5}, True, id="its priority"),
        pytest.param({"boost": 5}, True, id="the boost of its priority"),
        pytest.param({"queue": "other"}, True, id="its queue"),
        pytest.param({"active": False}, True, id="it is deactivated"),
        pytest.param({"gated_by": ("x",)}, True, id="a controller holds it back"),
        pytest.param({"deleted": 5.0}, True, id="it is deleted"),
        pytest.param({"conditions": (condition("Finished", True),)}, True, id="it is finished"),
        pytest.param({"conditions": (condition("QuotaReserved", False, "OnHold"),)}, True, id="it is on hold"),
        pytest.param({"reclaimable": (("main", 2),)}, True, id="more of its pods are done"),
        pytest.param({"reclaimable": ()}, False, id="its pods start again"),
        pytest.param({"version": "2"}, False, id="nothing but its version"),
        pytest.param({"conditions": (condition("PodsReady", True),)}, False, id="its pods are ready"),
        pytest.param({"conditions": (condition("Evicted", True, "Preempted"),)}, False, id="it is preempted"),
    ],
)
def test_what_is_a_change_from_outside(changes, is_from_outside):
    assert changed_from_outside(BEFORE, changed(BEFORE, **changes)) is is_from_outside
