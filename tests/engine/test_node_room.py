"""What nodes have room for: seats in thought, kept up to date pod by pod."""

import itertools

import pytest
from builders import bound, node, node_key, pod, pod_key, shape, tolerating
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.integrations.node_room import NodeRoom, Seats
from headgate.model.kueue_names import FLAVORS
from headgate.model.node import Taint, TaintEffect

TAINT = Taint("spot", "", TaintEffect.NO_SCHEDULE)
ANY = [{}]


def leaving(name, cpu, on):
    return bound(pod(name, cpu, annotations={FLAVORS: "cpu=default"}), on, deleted=100.0)


def room(*things):
    made = NodeRoom()
    for each in things:
        made.put_pod(each) if hasattr(each, "shape") else made.put_node(each)
    return made


@pytest.mark.parametrize(
    "things, wanted, answer",
    [
        pytest.param([node(cpu=1000)], {shape(1000): 1}, Seats.THERE, id="an empty node"),
        pytest.param([node(cpu=1000)], {shape(1001): 1}, Seats.NONE, id="a node that is too small"),
        pytest.param([node(cpu=1000, pods=1)], {shape(1): 2}, Seats.NONE, id="a node that takes fewer pods"),
        pytest.param([node(cpu=1000)], {shape(600): 2}, Seats.NONE, id="room for one of two"),
        pytest.param([node("a"), node("b")], {shape(600): 2}, Seats.THERE, id="room for one each"),
        pytest.param([node("a"), node("b", 300)], {shape(300): 1, shape(1000): 1}, Seats.THERE, id="tight seats first"),
        pytest.param([node(), bound(pod(cpu=500), "n")], {shape(600): 1}, Seats.NONE, id="another pod is there"),
        pytest.param([node(), leaving("a", 500, "n")], {shape(600): 1}, Seats.SOON, id="another pod leaves"),
        pytest.param([leaving("a", 500, "n"), node()], {shape(600): 1}, Seats.SOON, id="its node was seen later"),
        pytest.param([node(), leaving("a", 500, "n")], {shape(1600): 1}, Seats.NONE, id="not enough even then"),
        pytest.param([node(taints=(TAINT,))], {shape(1): 1}, Seats.NONE, id="a taint"),
        pytest.param(
            [node(taints=(TAINT,))], {shape(1, tolerations=tolerating("spot")): 1}, Seats.THERE, id="a taint they bear"
        ),
        pytest.param([node(unschedulable=True)], {shape(1): 1}, Seats.NONE, id="a cordoned node"),
        pytest.param([], {shape(1): 1}, Seats.UNKNOWN, id="no node at all"),
    ],
)
def test_what_nodes_say(things, wanted, answer):
    assert room(*things).seats(wanted, {}, ANY) is answer


def test_pods_on_their_way_come_first():
    there = room(node("a"), node("b"))
    assert there.seats({shape(600): 1}, {shape(600): 1}, ANY) is Seats.THERE
    assert there.seats({shape(600): 1}, {shape(600): 2}, ANY) is Seats.NONE


def test_pods_on_their_way_that_fit_nowhere_yet_keep_what_they_will_need():
    """Room of half a pod here and half a pod there: as soon as things move, the first in line will take it."""
    there = room(node("a", 500), node("b", 500))
    assert there.seats({shape(500): 1}, {}, ANY) is Seats.THERE
    assert there.seats({shape(500): 1}, {shape(1000): 1}, ANY) is Seats.NONE


def test_nodes_of_the_sort_that_is_meant_must_be_there():
    there = room(node("a", labels={"pool": "x"}))
    assert there.seats({shape(1): 1}, {}, [{"pool": "x"}]) is Seats.THERE
    assert there.seats({shape(1): 1}, {}, [{"pool": "x"}, {"pool": "y"}]) is Seats.UNKNOWN


sizes = st.lists(st.integers(1, 6), min_size=1, max_size=3)
asked = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def fits(free, pods):
    """Whether there is any way at all to seat them."""
    ways = itertools.product(range(len(free)), repeat=len(pods))
    return any(
        all(sum(size for size, at in zip(pods, way, strict=True) if at == row) <= free[row] for row in range(len(free)))
        for way in ways
    )


@given(sizes, asked)
def test_room_that_is_said_to_be_there_is_there(free, pods):
    there = room(*(node(f"n-{index}", size) for index, size in enumerate(free)))
    wanted = {shape(size): pods.count(size) for size in pods}
    answer = there.seats(wanted, {}, ANY)
    if answer is Seats.THERE:
        assert fits(free, pods)
    elif len(wanted) == 1:
        assert not fits(free, pods)


names = st.sampled_from("abc")
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("node"), names, st.integers(1, 6)),
        st.tuples(st.just("no node"), names, st.just(0)),
        st.tuples(st.just("pod"), st.sampled_from("pqrst"), st.integers(0, 17)),
        st.tuples(st.just("no pod"), st.sampled_from("pqrst"), st.just(0)),
    ),
    max_size=20,
)


def the_pod(name, number):
    on = "abc"[number % 3]
    return leaving(name, 1 + number % 2, on) if number % 5 == 0 else bound(pod(name, 1 + number % 2), on)


@given(happenings, st.integers(1, 4), st.integers(1, 4))
def test_what_happened_does_not_matter_only_what_is(history, cpu, count):
    kept, nodes, pods = NodeRoom(), {}, {}
    for what, name, number in history:
        match what:
            case "node":
                nodes[name] = node(name, number)
                kept.put_node(nodes[name])
            case "no node":
                nodes.pop(name, None)
                kept.drop_node(node_key(name), f"uid-{name}")
            case "pod":
                pods[name] = the_pod(name, number)
                kept.put_pod(pods[name])
            case _:
                pods.pop(name, None)
                kept.drop_pod(pod_key(name))
    fresh = room(*nodes.values(), *pods.values())
    wanted = {shape(cpu): count}
    assert kept.seats(wanted, {}, ANY) is fresh.seats(wanted, {}, ANY)
