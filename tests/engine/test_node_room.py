"""Pods placed in thought on what nodes have free, kept up to date pod by pod."""

import pytest
from builders import bound, node, node_key, pod, pod_key, shape, tolerating
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.integrations.node_capacity import NodeCapacity
from headgate.model.node import Taint, TaintEffect

TAINT = Taint("spot", "", TaintEffect.NO_SCHEDULE)
BEARS = tolerating("spot")


def room(*things):
    made = NodeCapacity()
    for each in things:
        made.put_pod(each) if hasattr(each, "shape") else made.put_node(each)
    return made


def placed(there, wanted):
    """How many of each shape find a place, one shape after the other."""
    free = there.free(name for each in wanted for name, _ in each.requests.items)
    return [free.place(each, count, there.rows_for(each)) for each, count in wanted.items()]


@pytest.mark.parametrize(
    "things, wanted, found",
    [
        pytest.param([node(cpu=1000)], {shape(1000): 1}, [1], id="an empty node"),
        pytest.param([node(cpu=1000)], {shape(1001): 1}, [0], id="a node that is too small"),
        pytest.param([node(cpu=1000, pods=1)], {shape(1): 2}, [1], id="a node that takes fewer pods"),
        pytest.param([node(cpu=1000)], {shape(600): 2}, [1], id="room for one of two"),
        pytest.param([node("a"), node("b")], {shape(600): 2}, [2], id="room for one each"),
        pytest.param([node("a"), node("b", 300)], {shape(300): 1, shape(1000): 1}, [1, 1], id="tight nodes first"),
        pytest.param([node(), bound(pod(cpu=500), "n")], {shape(600): 1}, [0], id="another pod is there"),
        pytest.param([bound(pod(cpu=500), "n"), node()], {shape(600): 1}, [0], id="its node was seen later"),
        pytest.param([node(), bound(pod(cpu=500), "n", deleted=9.0)], {shape(600): 1}, [0], id="another pod leaves"),
        pytest.param([node(taints=(TAINT,))], {shape(1): 1}, [0], id="a taint"),
        pytest.param(
            [node(taints=(TAINT,))], {shape(1, tolerations=tolerating("spot")): 1}, [1], id="a taint they bear"
        ),
        pytest.param([node(unschedulable=True)], {shape(1): 1}, [0], id="a cordoned node"),
        pytest.param([], {shape(1): 1}, [0], id="no node at all"),
    ],
)
def test_how_many_pods_find_a_place(things, wanted, found):
    assert placed(room(*things), wanted) == found


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


@given(happenings, st.integers(1, 4), st.integers(1, 4))
def test_what_happened_does_not_matter_only_what_is(history, cpu, count):
    kept, nodes, pods = NodeCapacity(), {}, {}
    for what, name, number in history:
        match what:
            case "node":
                nodes[name] = node(name, number)
                kept.put_node(nodes[name])
            case "no node":
                nodes.pop(name, None)
                kept.drop_node(node_key(name), f"uid-{name}")
            case "pod":
                pods[name] = bound(pod(name, 1 + number % 2), "abc"[number % 3])
                kept.put_pod(pods[name])
            case _:
                pods.pop(name, None)
                kept.drop_pod(pod_key(name))
    fresh = room(*nodes.values(), *pods.values())
    assert placed(kept, {shape(cpu): count}) == placed(fresh, {shape(cpu): count})
