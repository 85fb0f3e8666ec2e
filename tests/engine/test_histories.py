"""Whatever history led to a state, the decision is that of a fresh process on the same state."""

import pytest
from builders import bound, node, pod
from histories import BrokenLaw, History, decisions_are_those_of_a_fresh_process
from msgspec.structs import replace

HISTORIES = 200
CHUNK = 50


@pytest.mark.parametrize("first", range(0, HISTORIES, CHUNK))
def test_decisions_are_those_of_a_fresh_process(first):
    for seed in range(first, first + CHUNK):
        decisions_are_those_of_a_fresh_process(seed)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(500_527, id="a promised member of a group without a gang loses its node to another pod"),
        pytest.param(24_578, id="a promised member that goes by itself belongs to a gang that needs more pods now"),
        pytest.param(60_965, id="a late member was kept to the zone of its gang, which has no topology any more"),
        pytest.param(22_992, id="an eviction without an answer was for a gang that has another priority by now"),
    ],
)
def test_histories_that_were_decided_otherwise_once(seed):
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
