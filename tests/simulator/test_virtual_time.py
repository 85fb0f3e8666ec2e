"""Virtual time: a queue in which equal instants keep their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.simulator.virtual_time import VirtualTime


def jump(time: VirtualTime) -> list:
    """To the next instant; all that is due then."""
    time.advance(time.next_at)
    return list(time.due())


@given(st.lists(st.integers(0, 5)))
def test_events_come_in_order_of_time_and_of_setting(times):
    time = VirtualTime[int]()
    for number, at in enumerate(times):
        time.wake(float(at), number)
    came = []
    while time.next_at is not None:
        came += jump(time)
    assert came == sorted(range(len(times)), key=lambda number: times[number])


def test_the_clock_stands_still_between_events():
    time = VirtualTime[str](now=10.0)
    time.wake(12.5, "later")
    assert (time.now, time.next_at, list(time.due())) == (10.0, 12.5, [])
    assert (jump(time), time.now, time.next_at) == (["later"], 12.5, None)


def test_a_timer_for_the_past_goes_off_now():
    time = VirtualTime[str](now=10.0)
    time.wake(3.0, "late")
    assert (list(time.due()), time.now) == (["late"], 10.0)


def test_time_does_not_go_back():
    with pytest.raises(AssertionError, match="time does not go back"):
        VirtualTime[str](now=10.0).advance(9.0)


def test_what_is_due_includes_what_is_set_meanwhile():
    time = VirtualTime[str](now=1.0)
    time.wake(1.0, "first")
    time.wake(2.0, "tomorrow")
    came = []
    for event in time.due():
        came.append(event)
        if event == "first":
            time.wake(1.0, "second")
    assert came == ["first", "second"]
