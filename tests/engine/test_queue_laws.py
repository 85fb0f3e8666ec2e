"""The laws of Volcano's queues over some random histories each; `make nightly` looks at a hundred thousand."""

import pytest
from builders import bound, node
from histories import BrokenLaw
from msgspec.structs import replace
from queue_laws import (
    QueueHistory,
    a_crash_changes_nothing_in_the_end,
    everybody_runs_in_the_end,
    evictions_come_to_rest,
    queues_are_decided_as_by_a_fresh_process,
    what_is_done_is_what_a_fresh_process_does,
)
from volcano_scenes import grouped, pod_group, queue, queued

from headgate.model.effects import Bind, RemoveGate
from headgate.model.pod import ScheduledCondition
from headgate.model.volcano import DequeueStrategy


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_queues_are_decided_as_by_a_fresh_process(first):
    for seed in range(first, first + 20):
        queues_are_decided_as_by_a_fresh_process(seed)


@pytest.mark.parametrize("first", [70, 90, 210, 240])
def test_what_is_done_is_what_a_fresh_process_does(first):
    for seed in range(first, first + 15):
        what_is_done_is_what_a_fresh_process_does(seed)


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_a_crash_before_or_after_any_write_changes_nothing_in_the_end(first):
    for seed in range(first, first + 10):
        a_crash_changes_nothing_in_the_end(seed)


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_evictions_come_to_rest(first):
    for seed in range(first, first + 20):
        evictions_come_to_rest(seed)


def test_who_is_woken_in_vain_by_each_eviction_has_nobody_start_again():
    """No node fits p3, for which p2 gave up the node that p4 had left, so that p4 came back to it."""
    evictions_come_to_rest(600099)


def test_a_gang_that_loses_a_pod_to_one_tried_before_it_is_settled_anew():
    """The eviction of p6 for a pod of its queue leaves blue, which is tried next, with one pod of the two it needs."""
    evictions_come_to_rest(801419)


def test_everybody_runs_in_the_end():
    for seed in range(20):
        everybody_runs_in_the_end(seed)


def shown(*objects):
    """A history of a cluster with these objects, of which the engine is told nothing."""
    history = QueueHistory(0)
    for each in objects:
        history.cluster.put(each)
    history.cluster.news.clear()
    return history


UNSCHEDULABLE = ScheduledCondition("False", "Unschedulable", "no node fits")


@pytest.mark.parametrize(
    "objects, said",
    [
        pytest.param(
            [queue("team", 1000), *(replace(queued(name, gated=False), scheduled=UNSCHEDULABLE) for name in "ab")],
            "queue team: 0 in use, 2000 with what is reserved, of 1000",
            id="more than a capability is reserved",
        ),
        pytest.param(
            [queue("team", 1000), queued("a")], "a is gated and queue team allows it", id="a pod waits that fits"
        ),
        pytest.param(
            [queue("team", 2000), pod_group("red", 2), grouped("a", "red"), grouped("b", "red")],
            "a, b is gated and queue team allows it",
            id="a gang waits that fits",
        ),
    ],
)
def test_the_laws_see_at_rest_that(objects, said):
    with pytest.raises(BrokenLaw, match=said):
        shown(*objects).check()


def decide(history, *names):
    """The engine decides to remove the gates of these pods."""
    pods = [each for each in history.cluster.objects.values() if each.key.name in names]
    history.decided([RemoveGate(each.target, each.gates[0], 0) for each in pods])


@pytest.mark.parametrize(
    "objects, said",
    [
        pytest.param([queue("team", 9000), queued("a", gates=("example.com/theirs",))], "not ours", id="of others"),
        pytest.param(
            [queue("team", 9000), replace(queued("a"), gates=(*queued("a").gates, "example.com/theirs"))],
            "our gate of a was removed before",
            id="too early",
        ),
        pytest.param(
            [queue("team", 9000), pod_group("red", 2), grouped("a", "red"), grouped("b", "red")],
            "a starts without its gang: 1 members do",
            id="of a part of a gang",
        ),
        pytest.param(
            [queue("team", 9000, dequeue=DequeueStrategy.FIFO), queued("a", created=2.0), queued("first", created=1.0)],
            "a overtakes first in a fifo queue",
            id="of somebody who overtakes",
        ),
    ],
)
def test_the_laws_see_that_a_gate_is_removed(objects, said):
    with pytest.raises(BrokenLaw, match=said):
        decide(shown(*objects), "a")


def test_a_binding_whose_answer_was_lost_is_sent_again_also_if_its_pod_names_a_full_queue_since():
    """It may have arrived: the pod uses that queue already. Any other binding exceeds its capability."""
    history = shown(queue("team", 0), node("n"), one := queued("a", gates=()))
    history.lost.append(sent := Bind(one.target, "n"))
    history.decided([sent])
    history.lost.clear()
    with pytest.raises(BrokenLaw, match="queue team: 1000 in use, 1000 with what is reserved, of 0"):
        history.decided([sent])


def test_the_law_sees_a_pod_that_nobody_tried_again():
    history = shown(queue("team", 1000), node("n", cpu=4000), bound(queued("b", gates=()), "n"), queued("a"))
    history.cluster.lose(next(each.key for each in history.cluster.objects.values() if each.key.name == "b"))
    history.cluster.news.clear()
    with pytest.raises(BrokenLaw, match="bind a to n"):
        history.compare()
