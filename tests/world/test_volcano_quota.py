"""Which waiting pods Volcano's queues keep from starting, as the review of scale-ups sees it."""

from __future__ import annotations

import pytest
from autoscaling_bench import UNSCHEDULABLE
from builders import amounts, bound
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from volcano_scenes import grouped, pod_group, queue, queued

from headgate.model.pod import Workload
from headgate.model.volcano import DequeueStrategy, QueueState, VolcanoQueue
from headgate.quota.volcano import QueueTree
from headgate.world.autoscaling.volcano_quota import QueueLimits, VolcanoQuota


def quota(*objects):
    made = VolcanoQuota()
    for each in objects:
        if isinstance(each, VolcanoQueue):
            made.observe_queue(each)
        elif isinstance(each, Workload):
            made.observe_group(each)
        else:
            made.observe_pod(each)
    return made


def told(pod):
    return replace(pod, scheduled=UNSCHEDULABLE)


@pytest.mark.parametrize(
    "objects, waiting, kept",
    [
        pytest.param(
            [queue("team", 2000)], [queued("a"), queued("b"), queued("c")], "c", id="the last beyond its limit"
        ),
        pytest.param(
            [queue("team", 1000)], [queued("a", created=2.0), queued("b", created=1.0)], "a", id="the older goes first"
        ),
        pytest.param(
            [queue("team", 1000)], [queued("a"), queued("b", priority=1)], "a", id="the more important goes first"
        ),
        pytest.param(
            [queue("team", 1000)],
            [queued("a"), told(queued("b"))],
            "a",
            id="of equals, one that was told that it may go",
        ),
        pytest.param(
            [queue("team", 1000)],
            [queued("a", priority=1), told(queued("b"))],
            "b",
            id="a more important pod displaces one that was told so",
        ),
        pytest.param(
            [queue("team", 2000)],
            [queued("a", 3000), queued("b", created=1.0)],
            "a",
            id="smaller pods pass a larger one",
        ),
        pytest.param(
            [queue("team", 2000, dequeue=DequeueStrategy.FIFO)],
            [queued("a", 3000), queued("b", created=1.0)],
            "ab",
            id="not in a fifo queue",
        ),
        pytest.param([queue("team", 1000), bound(queued("x"), "n")], [queued("a")], "a", id="pods on nodes use it"),
        pytest.param(
            [queue("org", 2000), queue("team", 2000, "org"), queue("other", 2000, "org")],
            [queued("a"), queued("b", of="other"), queued("c")],
            "c",
            id="the queue above is full",
        ),
        pytest.param([queue("team", state=QueueState.CLOSED)], [queued("a")], "a", id="the queue is closed"),
        pytest.param([], [queued("a")], "a", id="there is no such queue"),
        pytest.param([queue("team", parent="gone")], [queued("a")], "a", id="the queue above is not there"),
        pytest.param([], [queued("a", of="default")], "", id="the default queue has no limit"),
        pytest.param(
            [queue("team", 2000)], [queued("a", gates=("example.com/g",)), queued("b")], "a", id="another gate holds it"
        ),
        pytest.param(
            [queue("team", 3000), pod_group(members=3)],
            [*(grouped(name) for name in "abc"), queued("d", created=1.0)],
            "d",
            id="a gang is counted as a whole",
        ),
        pytest.param(
            [queue("team", 2000), pod_group(members=3)],
            [*(grouped(name) for name in "abc"), queued("d", created=1.0)],
            "abc",
            id="a gang that does not fit as a whole takes nothing",
        ),
        pytest.param(
            [queue("team", 3000), pod_group(members=3)], [grouped("a"), grouped("b")], "ab", id="a gang is not complete"
        ),
        pytest.param(
            [queue("team", 3000), pod_group(members=3), bound(grouped("x"), "n")],
            [grouped("a"), grouped("b")],
            "",
            id="a gang of which some run needs the rest only",
        ),
        pytest.param(
            [queue("team", 2000), pod_group(members=1)],
            [*(grouped(name) for name in "abc")],
            "c",
            id="members beyond the minimum go one by one",
        ),
        pytest.param(
            [queue("team", 2000), pod_group(members=1, volcano={"min_resources": amounts(3000)})],
            [grouped("a")],
            "a",
            id="the minResources of its group do not fit",
        ),
    ],
)
def test_which_pods_are_kept(objects, waiting, kept):
    made = quota(*objects)
    for _ in range(2):  # asking changes nothing
        assert made.beyond(waiting) == {f"uid-{name}" for name in kept}


def test_what_pods_on_nodes_use_follows_pods_queues_and_groups():
    running, waiting = bound(queued("x"), "n"), [queued("a")]
    made = quota(queue("team", 1000))
    assert not made.beyond(waiting)
    made.observe_pod(running)
    assert made.beyond(waiting)
    made.observe_queue(queue("team", 2000))
    assert not made.beyond(waiting)
    made.observe_queue(queue("team", 1000))
    made.lose_pod(running.uid)
    assert not made.beyond(waiting)
    made.lose(queue("team").key)
    assert made.beyond(waiting)


NAMES = ("a", "b", "c", "d")
CPUS = st.integers(0, 6).map(lambda cpu: cpu * 1000)


@st.composite
def trees(draw):
    """Queues whose parent is the root or one that was drawn before."""
    made = []
    for at, name in enumerate(NAMES):
        parent = draw(st.sampled_from(("root", *NAMES[:at])))
        made.append(queue(name, draw(st.none() | CPUS), parent, guarantee=draw(CPUS)))
    return made


@given(trees(), st.lists(st.tuples(st.sampled_from(NAMES), CPUS), max_size=8))
def test_it_allows_what_the_schedulers_own_tree_of_queues_allows(queues, requests):
    ours, theirs = QueueLimits({each.name: each for each in queues}), QueueTree(queues)
    for name, cpu in requests:
        assert ours.fits(name, amounts(cpu)) == theirs.get(name).fits(amounts(cpu)), (name, cpu)
        if ours.fits(name, amounts(cpu)):
            ours.add(name, amounts(cpu))
            theirs.get(name).add(amounts(cpu))
