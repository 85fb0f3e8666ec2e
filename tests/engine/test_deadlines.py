"""Deadlines and timers: one deadline for a key, one timer for the earliest, and nothing is left behind."""

import heapq
import math

from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.deadlines import Deadlines, Timer
from headgate.model.effects import WakeAt


def test_keys_come_due_once_in_the_order_of_their_deadlines():
    deadlines = Deadlines()
    deadlines.set("late", 3.0)
    deadlines.set("early", 1.0)
    assert deadlines.due(0.5) == []
    assert deadlines.due(3.0) == ["early", "late"]
    assert deadlines.due(9.0) == []


def test_the_last_deadline_set_for_a_key_counts():
    deadlines = Deadlines()
    deadlines.set("a", 1.0)
    deadlines.set("a", 5.0)
    assert deadlines.next_deadline() == 5.0
    assert deadlines.due(4.0) == []
    assert deadlines.due(5.0) == ["a"]


def test_a_dropped_key_never_comes_due():
    deadlines = Deadlines()
    deadlines.set("a", 1.0)
    deadlines.drop("a")
    assert deadlines.next_deadline() is None
    assert deadlines.due(9.0) == []


def test_keys_that_move_for_ever_do_not_pile_up():
    deadlines = Deadlines()
    for n in range(10_000):
        deadlines.set("a", float(n))
    assert len(deadlines._heap) < 100


changes = st.lists(st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), st.integers(0, 20))), max_size=40)


@given(changes, st.integers(0, 20))
def test_what_is_due_is_what_a_plain_dictionary_says(changes, now):
    deadlines, plain = Deadlines(), {}
    for key, at in changes:
        if at is None:
            deadlines.drop(key)
            plain.pop(key, None)
        else:
            deadlines.set(key, float(at))
            plain[key] = float(at)
    assert sorted(deadlines.due(float(now))) == sorted(key for key, at in plain.items() if at <= now)
    left = [at for at in plain.values() if at > now]
    assert deadlines.next_deadline() == (heapq.nsmallest(1, left)[0] if left else None)


def test_a_timer_is_set_to_the_earliest_deadline_and_again_when_it_has_fired():
    timer = Timer("quota")
    assert list(timer.wake_at(0.0, None, 5.0, 3.0)) == [WakeAt(3.0, "quota")]
    assert list(timer.wake_at(1.0, 5.0)) == [], "the earlier one still comes"
    assert list(timer.wake_at(1.0, 2.0)) == [WakeAt(2.0, "quota")]
    assert list(timer.wake_at(2.0, 5.0)) == [WakeAt(5.0, "quota")]
    assert list(timer.wake_at(7.0, 1.0)) == [WakeAt(7.0, "quota")], "never in the past"


def test_a_timer_watches_deadlines_that_are_set_and_dropped_later():
    first, second = Deadlines(), Deadlines()
    timer = Timer("quota", first, second)
    assert (list(timer.wake_at(0.0)), timer.at) == ([], math.inf)
    first.set("a", 9.0)
    second.set("b", 5.0)
    assert (list(timer.wake_at(0.0)), timer.at) == ([WakeAt(5.0, "quota")], 5.0)
    second.drop("b")
    assert list(timer.wake_at(1.0)) == [], "it comes too early, which costs one look"
    assert list(timer.wake_at(5.0, 7.0)) == [WakeAt(7.0, "quota")]
    assert list(timer.wake_at(7.0)) == [WakeAt(9.0, "quota")]


def test_the_timer_of_safety_nets_says_that_it_is_one():
    assert [effect.idle for effect in Timer("t", idle=True).wake_at(1.0, 5.0)] == [True]
    assert [effect.idle for effect in Timer("t").wake_at(1.0, 5.0)] == [False]
