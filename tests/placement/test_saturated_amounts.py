"""Requests beyond all measure: nothing overflows, nothing is given away, and what was there before is there again."""

import numpy as np
import pytest
from builders import MIB, bound, node, pod, pod_key, shape
from hypothesis import given
from hypothesis import strategies as st
from steps import Steps

from headgate.model.effects import EmitEvent, Evict
from headgate.model.pod import PodShape
from headgate.model.resources import LARGEST_REQUEST, Resources
from headgate.model.settings import Profile, ScoringStrategy, Settings
from headgate.placement.nominations import Nominations
from headgate.placement.scores import JUDGES
from headgate.placement.table import LARGEST_SUM, Columns, NodeTable, times

ENORMOUS = Resources.of({"cpu": 100, "memory": LARGEST_REQUEST})
ENORMOUS_SHAPE = PodShape(requests=ENORMOUS, scored_requests=ENORMOUS)


def enormous(name, **fields):
    return pod(name, shape=ENORMOUS_SHAPE, **fields)


@given(st.lists(st.integers(0, LARGEST_REQUEST) | st.just(LARGEST_REQUEST), max_size=600))
def test_a_sum_shows_exactly_or_as_the_largest_and_is_taken_back_exactly(given_amounts):
    columns = Columns(2)
    columns.add(0, [("memory", 7)], 1)
    for amount in given_amounts:
        columns.add(0, [("memory", amount)], 1)
    assert columns.at("memory", 0) == min(7 + sum(given_amounts), LARGEST_SUM)
    for amount in given_amounts:
        columns.add(0, [("memory", amount)], -1)
    assert columns.at("memory", 0) == 7
    assert columns.beyond() == set()


def test_a_node_with_thousands_of_enormous_pods_is_as_before_when_they_are_gone():
    table = NodeTable()
    table.put(node("n"))
    table.charge(pod("small", shape=shape(50, 7)), "n")
    row = table.row_of("n")
    for number in range(5000):
        table.charge(enormous(f"p{number}"), "n")
    assert (table.requested["memory"][row], table.overfull()) == (LARGEST_SUM, {row})
    for number in range(5000):
        table.release(pod_key(f"p{number}"))
    assert (table.requested["memory"][row], table.overfull()) == (7 * MIB, set())


def test_a_row_that_is_used_again_knows_nothing_of_sums_before():
    columns = Columns(1)
    columns.add(0, [("memory", LARGEST_SUM)], 1)
    columns.clear(0)
    columns.add(0, [("memory", 1)], 1)
    assert (columns.at("memory", 0), columns.beyond()) == (1, set())


@given(st.integers(0, LARGEST_REQUEST), st.lists(st.integers(0, 1 << 20), min_size=1))
def test_many_times_an_amount_is_exact_or_larger_than_any_node(amount, counts):
    for count, product in zip(counts, times(amount, np.array(counts)).tolist(), strict=True):
        exact = amount * count
        assert product == exact or (LARGEST_REQUEST <= product <= LARGEST_SUM < exact)
        assert times(amount, count) == product


@pytest.mark.parametrize("kind", sorted(JUDGES))
def test_scores_stay_scores_however_much_is_taken(kind):
    judge = JUDGES[kind](ScoringStrategy(type=kind, shape=((0, 0), (100, 10))))
    taken = np.array([0, LARGEST_REQUEST, LARGEST_SUM, 2 * LARGEST_SUM])
    capacity = np.array([LARGEST_REQUEST - 1] * 4)
    scores = judge(taken, capacity)
    assert ((scores >= 0) & (scores <= 100)).all()


def test_enormous_pods_on_a_node_leave_the_others_to_the_other_nodes():
    steps = Steps(node("full"), node("free"), *(bound(enormous(f"p{n}"), "full") for n in range(2)), pod("a"))
    assert steps.binds == {"a": "free"}


def test_an_enormous_pod_waits_its_owner_is_warned_once_and_the_others_get_nodes():
    steps = Steps(node("n"), enormous("huge"), pod("a"))
    assert steps.binds == {"a": "n"}
    assert [(e.target.key.name, e.reason, e.message) for e in steps.effects if isinstance(e, EmitEvent)] == [
        (
            "huge",
            "RequestsTooLarge",
            "requests more than can be counted, which no node has; it counts as memory 4Pi",
        ),
        ("huge", "FailedScheduling", "0/1 nodes are available: 1 Insufficient memory."),
    ]
    assert "RequestsTooLarge" not in [
        e.reason for e in steps.see(enormous("huge", labels={"a": "b"})).effects if isinstance(e, EmitEvent)
    ]


def test_many_enormous_pods_at_once_are_all_refused():
    steps = Steps(*(node(f"n{n}") for n in range(3)), *(enormous(f"p{n}") for n in range(300)), pod("a"))
    assert list(steps.binds) == ["a"]


def test_nobody_is_evicted_from_a_node_that_stays_full_whoever_leaves():
    """More than a number can say is on the node, part of it of higher priority: to evict the rest would not help."""
    settings = Settings(profiles=(Profile(),))
    there = [bound(enormous(f"low{n}", priority=-1), "n") for n in range(300)]
    above = [bound(enormous(f"high{n}", priority=9), "n") for n in range(300)]
    steps = Steps(node("n"), *there, *above, pod("a", priority=5), settings=settings)
    assert [e for e in steps.effects if isinstance(e, Evict)] == []


def test_nominations_of_enormous_pods_at_many_priorities_keep_the_node_and_nothing_else():
    table = NodeTable()
    for name in ("n", "free"):
        table.put(node(name))
    nominations = Nominations(table)
    for number in range(2, 40):
        nominations.put(enormous(f"p{number}", priority=number, nominated="n"))
    assert [nominations.admits(pod("a", shape=shape(100, 1)), table.row_of(name)) for name in ("n", "free")] == [
        False,
        True,
    ]
    for number in range(2, 40):
        nominations.drop(pod_key(f"p{number}"))
    assert nominations.admits(pod("a", shape=shape(100, 1)), table.row_of("n"))
