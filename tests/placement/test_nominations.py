"""Room that is promised to one pod is not given to another of no higher priority."""

import pytest
from builders import bound, node, pod, shape
from steps import Steps

from headgate.model.events import Gone, Observed
from headgate.model.node import HostPort


def waits_for(name, nominated, cpu=800, **fields):
    """A pod whose nominated node is still full, so that it waits for its victims to leave; it asks for no others."""
    return pod(name, cpu=cpu, nominated=nominated, created=9.0, preempts=False, **fields)


@pytest.mark.parametrize(
    "priority, expected",
    [
        pytest.param(0, {}, id="a pod of lower priority leaves the promise alone"),
        pytest.param(5, {}, id="so does one of equal priority"),
        pytest.param(6, {"late": "n"}, id="a more important pod does not"),
    ],
)
def test_promised_room(priority, expected):
    victim = bound(pod("victim", cpu=700), "n")
    steps = Steps(node("n"), victim, waits_for("first", "n", priority=5))
    assert steps.see(pod("late", cpu=300, priority=priority)).binds == expected


def test_room_beside_the_promise_is_free():
    ports = (HostPort(80),)
    first = pod("first", shape=shape(800, ports=ports), nominated="n", priority=5)
    steps = Steps(node("n", cpu=2000), bound(pod("victim", shape=shape(500, ports=ports)), "n"), first)
    assert steps.see(pod("late", cpu=700)).binds == {"late": "n"}
    assert steps.see(pod("later", cpu=1)).binds == {}


def test_a_promised_port_is_taken():
    ports = (HostPort(80),)
    busy = bound(pod("victim", shape=shape(900, ports=ports)), "n")
    steps = Steps(node("n"), busy, pod("first", shape=shape(900, ports=ports), nominated="n", priority=5))
    steps.see(node("m", cpu=10), pod("late", shape=shape(1, ports=ports)))
    assert steps.binds == {"late": "m"}


def test_the_nominated_node_is_taken_without_looking_further():
    steps = Steps(node("small", cpu=900), node("large", cpu=9000), waits_for("first", "small"))
    assert steps.binds == {"first": "small"}


def test_a_nominated_node_that_will_not_do_is_passed_over():
    steps = Steps(node("small", cpu=100), node("large", cpu=9000), waits_for("first", "small"))
    assert steps.binds == {"first": "large"}


def test_a_promise_ends_with_the_pod_it_was_made_to():
    victim, first = bound(pod("victim", cpu=700), "n"), waits_for("first", "n", priority=5)
    steps = Steps(node("n"), victim, first, pod("late", cpu=300))
    assert steps.binds == {}
    assert steps.later(60, Gone(first.key, first.uid)).binds == {"late": "n"}


def test_a_promise_ends_when_the_nomination_is_cleared():
    victim = bound(pod("victim", cpu=700), "n")
    steps = Steps(node("n"), victim, waits_for("first", "n", priority=5), pod("late", cpu=300))
    steps.later(60, Observed(waits_for("first", "", priority=5)), Observed(node("n", labels={"touched": "yes"})))
    assert steps.binds == {"late": "n"}
