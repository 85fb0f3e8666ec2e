"""Whatever history led to a state, the decision is that of a fresh process on the same state."""

import pytest
from builders import bound, node, pod
from histories import BrokenLaw, History, decisions_are_those_of_a_fresh_process
from msgspec.structs import replace

HISTORIES = 400
CHUNK = 50


@pytest.mark.parametrize("first", range(0, HISTORIES, CHUNK))
def test_decisions_are_those_of_a_fresh_process(first):
    for seed in range(first, first + CHUNK):
        decisions_are_those_of_a_fresh_process(seed)


def test_the_law_sees_a_pod_that_nobody_tried_again():
    """A pod the engine was never told of is one a fresh process would bind."""
    history = History(0)
    history.cluster.put(node("n", cpu=100))
    history.rest()
    history.cluster.put(pod("p"))
    history.cluster.news.clear()
    with pytest.raises(BrokenLaw, match="bind p to n"):
        history.compare()


def test_the_law_sees_a_running_pod_that_is_said_to_wait():
    history = History(0)
    history.cluster.put(node("n", cpu=100))
    history.cluster.put(pod("p", cpu=200))
    history.rest()
    (waits,) = [each for each in history.cluster.objects.values() if each.key.name == "p"]
    history.cluster.put(bound(replace(waits), "n"))
    history.rest()
    with pytest.raises(BrokenLaw, match="p runs and is said to wait"):
        history.compare()
