"""How much quota there is: what a queue has, lends and borrows, in a tree of cohorts."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quota_builders import CPU, cohort, holds, ledger, queue
from quota_worlds import asked_for, worlds

from headgate.model.queues import Quota
from headgate.quota.fair_sharing import share_of
from headgate.quota.tree import FlavorResource, Forest, QuotaNode, usage_of

UNKNOWN = FlavorResource("default", "gpu")


def room(books, name, of=CPU):
    return books.forest.queues[name].accounts[of].available() // 1000


def most(books, name, of=CPU):
    return books.forest.queues[name].accounts[of].potential // 1000


@pytest.mark.parametrize(
    "parts, free, capacity",
    [
        pytest.param([queue("q", 4)], 4, 4, id="a queue alone has its nominal quota"),
        pytest.param([queue("q", 4), holds("w", "q", 3)], 1, 4, id="what is held is not free"),
        pytest.param([queue("q", 4, "c"), queue("r", 6, "c")], 10, 10, id="what others do not use may be borrowed"),
        pytest.param([queue("q", 4, "c"), queue("r", 6, "c"), holds("w", "r", 5)], 5, 10, id="what others use may not"),
        pytest.param([queue("q", Quota(4, 1), "c"), queue("r", 6, "c")], 5, 5, id="up to the borrowing limit"),
        pytest.param(
            [queue("q", Quota(4, 1), "c"), queue("r", 6, "c"), holds("w", "q", 5)], 0, 5, id="and nothing beyond it"
        ),
        pytest.param([queue("q", 4, "c"), queue("r", Quota(6, None, 2), "c")], 6, 6, id="up to what others lend"),
        pytest.param(
            [queue("q", 4, "c"), queue("r", Quota(6, None, 2), "c"), holds("w", "r", 4)],
            6,
            6,
            id="whoever lends a part uses the rest first",
        ),
        pytest.param(
            [queue("q", 4, "c"), queue("r", Quota(6, None, 2), "c"), holds("w", "r", 5)],
            5,
            6,
            id="and then what it would have lent",
        ),
        pytest.param([queue("q", 4, "c"), cohort("c", nominal=3)], 7, 7, id="a cohort's own quota is for its queues"),
        pytest.param(
            [queue("q", 4, "c"), cohort("c", "p"), cohort("p", nominal=3)], 7, 7, id="and for those of cohorts below it"
        ),
        pytest.param(
            [queue("q", 4, "c"), cohort("c", "p", Quota(0, 1)), cohort("p", nominal=3)],
            5,
            5,
            id="a cohort's borrowing limit binds all below it",
        ),
        pytest.param([queue("q", 4), cohort("c"), queue("r", 6, "c")], 4, 4, id="without a cohort nothing is shared"),
        pytest.param(
            [queue("q", 4, "c"), queue("r", 0, "c"), holds("w", "r", 3), holds("v", "r", 2)],
            -1,
            4,
            id="after quota was taken away less than nothing is free",
        ),
    ],
)
def test_how_much_a_queue_can_have(parts, free, capacity):
    books = ledger(*parts)
    assert (room(books, "q"), most(books, "q")) == (free, capacity)


def test_a_resource_nobody_has_quota_for_is_never_free():
    assert room(ledger(queue("q", 4, "c")), "q", UNKNOWN) == 0


THREE_FLOORS = [queue("q", 2, "low"), cohort("low", "high", 3), cohort("high", "top", 4), cohort("top", nominal=5)]


@pytest.mark.parametrize(
    "asked, level",
    [
        pytest.param(2, (0, True), id="what its own quota has is at no level"),
        pytest.param(5, (1, True), id="what the next cohort has is at level one"),
        pytest.param(9, (2, True), id="what the one above has is at level two"),
        pytest.param(10, (3, False), id="beyond that only the whole tree is left, and nothing to reclaim from outside"),
        pytest.param(99, (3, False), id="what nobody has is at the level of the whole tree"),
    ],
)
def test_how_far_up_a_request_reaches(asked, level):
    books = ledger(*THREE_FLOORS)
    assert books.forest.queues["q"].accounts[CPU].level(asked * 1000) == level


def test_a_queue_alone_borrows_at_no_level_and_has_nobody_to_reclaim_from():
    assert ledger(queue("q", 2)).forest.queues["q"].accounts[CPU].level(99_000) == (0, False)


def test_queues_below_a_ring_of_cohorts_take_no_part():
    ring = [cohort("a", "b"), cohort("b", "a"), cohort("c", "b")]
    books = ledger(*ring, queue("in", 4, "a"), queue("below", 4, "c"), queue("out", 4, "d"))
    assert sorted(books.forest.cyclic) == ["below", "in"]
    assert books.forest.tree_of("in") == ()
    assert books.forest.tree_of("out") == ("out",)


def test_a_holder_of_a_queue_below_a_ring_counts_again_once_the_ring_is_gone():
    held = holds("w", "in", 3)
    books = ledger(cohort("a", "a"), queue("in", 4, "a"), held)
    mended = books.rebuilt([queue("in", 4, "a")], [cohort("a")])
    assert room(mended, "in") == 1


def test_the_path_of_a_queue_names_every_cohort_above_it():
    assert ledger(*THREE_FLOORS).forest.path_of("q") == "/top/high/low/q"


@pytest.mark.parametrize(
    "parts, share",
    [
        pytest.param([queue("q", 4, "c"), holds("w", "q", 4)], (False, 0), id="its own quota is no share"),
        pytest.param([queue("q", 4), holds("w", "q", 9)], (False, 0), id="without a cohort there are no shares"),
        pytest.param(
            [queue("q", 4, "c"), queue("r", 4, "c"), holds("w", "q", 6)],
            (False, 250),
            id="two of eight borrowed are a quarter",
        ),
        pytest.param(
            [queue("q", 4, "c", fair_weight=2000), queue("r", 4, "c"), holds("w", "q", 6)],
            (False, 125),
            id="with twice the weight it counts half",
        ),
        pytest.param(
            [queue("q", 4, "c", fair_weight=0), queue("r", 4, "c"), holds("w", "q", 6)],
            (True, 250),
            id="without weight it is beyond all others",
        ),
        pytest.param(
            [queue("q", 4, "c", fair_weight=0), queue("r", 4, "c"), holds("w", "q", 4)],
            (False, 0),
            id="but not before it borrows",
        ),
        pytest.param(
            [queue("q", 4, "c"), queue("r", 3, "c"), holds("w", "q", 5)],
            (False, Fraction(1000, 7)),
            id="shares are exact",
        ),
    ],
)
def test_shares(parts, share):
    assert share_of(ledger(*parts).forest.queues["q"]).order == share


def test_a_share_is_shown_rounded_up_and_as_the_largest_number_when_beyond_all():
    books = ledger(queue("q", 4, "c"), queue("r", 3, "c", fair_weight=0), holds("w", "q", 5), holds("v", "r", 4))
    shares = [share_of(books.forest.queues[name]).rounded for name in ("q", "r")]
    assert shares == [143, 2**63 - 1]


def test_what_a_queue_has_no_quota_for_is_carried_by_its_cohort_as_long_as_it_is_held():
    books = ledger(queue("q", 2, "c"), holds("w", "q", 3, flavor="gone"))
    gone, node = FlavorResource("gone", "cpu"), books.forest.queues["q"]
    cohort = books.forest.cohort("c")
    assert (node.used(gone), cohort.used(gone), list(cohort.accounts[gone].borrowers)) == (3000, 3000, [node])
    books.release("q", "uid-w")
    assert (node.used(gone), cohort.used(gone), list(cohort.accounts[gone].borrowers)) == (0, 0, [])


def everything(books):
    nodes = {above for node in books.forest.queues.values() for above in (node, *node.ancestors())}
    used = {(node.name, of): amount for node in nodes for of, one in node.accounts.items() if (amount := one.used)}
    return used, {one.uid: one for name in books.forest.queues for one in books.reservations(name)}


@settings(max_examples=60, deadline=None)
@given(worlds(), st.lists(st.tuples(st.integers(0, 3), asked_for), max_size=6))
def test_what_is_charged_and_credited_leaves_no_trace(world, charges):
    books = world.ledger
    before = everything(books)
    usages = [
        (world.queues[index % len(world.queues)].name, usage_of({FlavorResource("one", "cpu"): amount}))
        for index, amount in charges
    ]
    for name, usage in usages:
        books.charge(name, usage)
    for name, usage in usages:
        books.credit(name, usage)
    assert everything(books) == before


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_a_trial_leaves_no_trace_also_when_it_fails(world):
    books = world.ledger
    before, generations = everything(books), [books.generation(one.name) for one in world.queues]
    with pytest.raises(ZeroDivisionError), books.trial():
        for holder in world.holders:
            books.release(holder.queue, holder.uid)
        with books.trial():
            books.charge(world.queues[0].name, usage_of({FlavorResource("one", "cpu"): 1000}))
        raise ZeroDivisionError
    assert everything(books) == before
    assert [books.generation(one.name) for one in world.queues] == generations


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_laws_of_availability(world):
    books = world.ledger
    for node in books.forest.queues.values():
        for of in node.quotas:
            assert node.accounts[of].own_room >= 0
            assert node.accounts[of].available() <= node.accounts[of].potential
            for above in (node, *node.ancestors()):
                limit = above.quota(of).borrowing_limit
                most = above.subtree.get(of, 0) + (limit if limit is not None else 10**9)
                assert above.used(of) <= most, "admission only where it fits never exceeds a limit"
        root = node.root
        assert all(root.used(of) <= root.subtree.get(of, 0) for of in root.accounts), "nor the quota of the whole tree"


def test_queues_of_any_kind_stand_on_the_same_tree():
    one = QuotaNode("one", "shared", {CPU: Quota(4)}, is_queue=True)
    other = QuotaNode("other", "shared", {CPU: Quota(6, None, 2)}, is_queue=True)
    forest = Forest([one, other], [QuotaNode("shared", quotas={CPU: Quota(1)})])
    forest.queues["one"].accounts[CPU].add(5, None)
    assert one.accounts[CPU].available() == 2, "4 of its own, 1 of the parent and the 2 that are lent, less 5"
    assert forest.tree_of("other") == ("one", "other")
