"""Pods that their queue allowed, that no node fits and that reserve nothing: whom they let pass, and until when."""

import pytest
from builders import bound, node, priority_class
from msgspec.structs import replace
from volcano_scenes import Queues, elsewhere, grouped, pod_group, queue, queued

from headgate.model.effects import Evict
from headgate.model.events import Gone, Observed, TimerFired
from headgate.model.settings import Settings, VolcanoSettings
from headgate.model.volcano import QUEUE_ANNOTATIONS, DequeueStrategy

FIFO = {"dequeue": DequeueStrategy.FIFO}
BIG = node("n", cpu=16_000)
BEHIND = "waiting behind default/head, the first in queue team"


def unasked(made):
    """The pod, which never asked for the gate."""
    annotations = {QUEUE_ANNOTATIONS[0]: made.annotations[QUEUE_ANNOTATIONS[0]]}
    return replace(made, annotations=annotations, gates=())


HEAD = unasked(elsewhere("head", 2000, created=1.0))
SMALL = queued("small", 1000, created=3.0)


def running(name, cpu=1000, of="team", **fields):
    return bound(queued(name, cpu, of, gates=(), **fields), "n")


def fuller(how):
    """The queue, which had capacity for the first pod, and what takes it away."""
    tree = [queue("org", 3000), queue("team", 3000, "org", **FIFO), queue("other", None, "org")]
    return tree, {
        "somebody behind it started": queued("second", 2000, created=2.0),
        "another scheduler bound a pod of the queue": running("second", 2000),
        "a queue beside it uses more": running("second", 2000, "other"),
        "the queue was made smaller": queue("team", 1000, "org", version="2", **FIFO),
    }[how]


@pytest.mark.parametrize(
    "how",
    [
        "somebody behind it started",
        "another scheduler bound a pod of the queue",
        "a queue beside it uses more",
        "the queue was made smaller",
    ],
)
def test_nobody_passes_the_first_of_a_fifo_queue_that_is_too_full_for_it_since(how):
    tree, change = fuller(how)
    steps = Queues(*tree, BIG, HEAD)
    assert steps.messages["head"].startswith("0/1 nodes are available")
    said = steps.later(20.0).see(change).messages
    said |= steps.later(20.0).see(SMALL).messages
    assert "small" not in steps.bound
    assert said["small"] == BEHIND
    assert said["head"].startswith("waiting for queue capacity")
    there = bound(replace(change, gates=()), "n") if "second" in steps.bound else change
    assert Queues(*tree, there, BIG, HEAD, SMALL).bound == {}, "nor does a fresh process let anybody pass"


def test_whoever_waits_behind_it_starts_as_soon_as_the_queue_would_allow_it():
    second = running("second", 2000)
    steps = Queues(queue("team", 3000, **FIFO), BIG, HEAD, second, SMALL)
    assert steps.bound == {}
    steps.later(20.0, Gone(second.key, second.uid))
    for _ in range(3):
        steps.later(20.0, TimerFired("scheduling"))
    assert steps.bound == {"small": "n"}


@pytest.mark.parametrize("how", ["is gone", "names another queue", "has a node"])
def test_nobody_waits_behind_it_once_it(how):
    steps = Queues(queue("team", 3000, **FIFO), queue("other"), BIG, HEAD)
    steps.later(20.0).see(running("second", 2000))
    steps.later(20.0).see(SMALL)
    assert steps.messages["small"] == BEHIND
    moved = unasked(elsewhere("head", 2000, of="other", created=1.0))
    change = {
        "is gone": Gone(HEAD.key, HEAD.uid),
        "names another queue": Observed(moved),
        "has a node": Observed(bound(replace(HEAD, annotations={}), "n")),
    }[how]
    steps.later(20.0, change)
    for _ in range(3):
        steps.later(20.0, TimerFired("scheduling"))
    assert steps.bound == {"small": "n"}


def test_of_equal_pods_that_are_tried_together_those_wait_before_which_the_queue_has_become_too_full():
    late = [queued(f"late-{n}", 1000, created=2.0 + n) for n in range(3)]
    steps = Queues(queue("team", 3000, **FIFO), BIG, HEAD)
    steps.later(20.0).see(*late)
    assert set(steps.bound) == {"late-0", "late-1"}
    assert steps.messages["late-2"] == BEHIND


def test_who_was_let_pass_is_not_called_back():
    """The queue is too full for the first one because of those that passed it: they stay."""
    steps = Queues(queue("team", 3000, **FIFO), BIG, HEAD, queued("second", 2000, created=2.0))
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.bound == {"second": "n"}
    assert "Evict" not in steps.kinds


def test_in_a_queue_that_becomes_fifo_it_is_the_first():
    steps = Queues(queue("team", 3000), BIG, HEAD, queued("second", 2000, created=2.0))
    steps.later(20.0).see(queue("team", 3000, version="2", **FIFO))
    steps.later(20.0).see(SMALL)
    assert steps.bound == {"second": "n"}


def test_in_a_traverse_queue_others_pass_it():
    steps = Queues(queue("team", 3000), BIG, HEAD, queued("second", 2000, created=2.0))
    steps.later(20.0).see(SMALL)
    assert set(steps.bound) == {"second", "small"}


def test_a_gang_of_such_pods_is_the_first_as_a_whole():
    members = [unasked(elsewhere(f"m{n}", 1000, created=1.0 + n)) for n in range(2)]
    members = [replace(each, group=grouped("x").group) for each in members]
    steps = Queues(queue("team", 3000, **FIFO), pod_group(members=2), BIG, *members)
    steps.later(20.0).see(running("second", 2000))
    steps.later(20.0).see(queued("small", 500, created=9.0))
    assert steps.bound == {}
    assert steps.messages["small"] == "waiting behind default/m0, the first in queue team"


def test_a_pod_that_rests_after_its_reservation_is_the_first_when_its_queue_is_too_full_for_it():
    times = Settings(volcano=VolcanoSettings(reservation_timeout=100.0))
    resting = replace(elsewhere("head", 2000, created=0.0, gated=False), reserved_at=0.0)
    steps = Queues(queue("team", 3000, **FIFO), BIG, resting, settings=times)
    steps.later(110.0, TimerFired("scheduling"))
    steps.later(5.0).see(queued("second", 2000, created=2.0))
    assert steps.bound == {"second": "n"}
    steps.later(5.0).see(SMALL)
    assert "small" not in steps.bound


def test_where_gates_are_off_nobody_reserves_and_the_first_is_the_first_all_the_same():
    off = Settings(volcano=VolcanoSettings(gates=False))
    head = elsewhere("head", 2000, created=1.0, gates=())
    steps = Queues(queue("team", 3000, **FIFO), BIG, head, queued("second", 2000, created=2.0, gates=()), settings=off)
    assert steps.bound == {"second": "n"}
    steps.later(20.0).see(queued("small", 1000, created=3.0, gates=()))
    assert steps.bound == {"second": "n"}


# what else changes the answer of a queue


def test_pods_are_tried_again_when_their_group_wants_less_in_all():
    needs = {"min_resources": queued("x", 5000).shape.requests}
    steps = Queues(queue("team", 3000), pod_group(volcano=needs), BIG, grouped("m0"))
    assert steps.reasons == {"m0": "SchedulingGated"}
    steps.later(20.0).see(pod_group(version="2"))
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.bound == {"m0": "n"}


def test_a_pod_that_waits_for_its_queue_preempts_a_running_one_whose_priority_falls():
    member = bound(grouped("m0", gates=()), "n")
    classes = [priority_class("high", 10), priority_class("low", 1)]
    steps = Queues(*classes, queue("team", 1000), pod_group(priority_class="high"), BIG, member)
    steps.later(20.0).see(queued("a", priority=5))
    assert steps.reasons == {"a": "SchedulingGated"}
    steps.later(20.0).see(pod_group(priority_class="low", version="2"))
    assert steps.only(Evict).target.key.name == "m0"
