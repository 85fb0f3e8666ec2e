"""Among queues of equal priority, the one that uses the smallest share of what it deserves takes its turn first."""

import pytest
from builders import bound, node, pod
from steps import Steps
from volcano_scenes import Queues, elsewhere, grouped, pod_group, queue, queued

from headgate.model.effects import Bind
from headgate.model.settings import Settings

BIG = node("n", cpu=64_000)
ONE_AT_A_TIME = Settings(max_in_flight=1)


def order(*objects):
    """The pods in the order they are bound."""
    return [each.target.key.name for each in Steps(BIG, *objects).effects if isinstance(each, Bind)]


def running(name, of, cpu=1000):
    return bound(queued(name, cpu, of, gates=()), "n")


def waiting(of, *names, **fields):
    """Pods of the queue, the first of them the oldest, after those that were named before."""
    return [queued(name, of=of, created=float(n), **fields) for n, name in enumerate(names)]


@pytest.mark.parametrize(
    "objects, expected",
    [
        pytest.param(
            [
                queue("a", deserved=4000),
                queue("b", deserved=4000),
                running("x", "a"),
                *waiting("a", "a0"),
                *waiting("b", "b0"),
            ],
            ["b0", "a0"],
            id="who uses less",
        ),
        pytest.param(
            [
                queue("a", deserved=8000),
                queue("b", deserved=1000),
                running("x", "a"),
                running("y", "b", 500),
                *waiting("a", "a0"),
                *waiting("b", "b0", priority=9),
            ],
            ["a0", "b0"],
            id="by the share of what it deserves, whatever the priority of pods",
        ),
        pytest.param(
            [
                queue("a", deserved=2000),
                queue("b", deserved=4000),
                *waiting("a", "a0", "a1"),
                *waiting("b", "b0", "b1", "b2"),
            ],
            ["a0", "b0", "b1", "a1", "b2"],
            id="in turns, as shares grow",
        ),
        pytest.param(
            [
                queue("a", deserved=4000),
                queue("b", deserved=4000, priority=1),
                running("y", "b", 3000),
                *waiting("a", "a0"),
                *waiting("b", "b0"),
            ],
            ["b0", "a0"],
            id="the priority of queues comes first",
        ),
        pytest.param(
            [queue("a"), queue("b", deserved=4000), *waiting("a", "a0", priority=9), *waiting("b", "b0")],
            ["b0", "a0"],
            id="who deserves nothing is last",
        ),
        pytest.param(
            [
                queue("a"),
                queue("b", deserved=1000),
                running("y", "b"),
                *waiting("a", "a0"),
                *waiting("b", "b0", priority=-1),
            ],
            ["b0", "a0"],
            id="also behind one that has all it deserves",
        ),
        pytest.param(
            [
                queue("a", deserved=1000),
                queue("b", deserved=1000),
                running("x", "a"),
                running("y", "b"),
                *waiting("a", "a0"),
                *waiting("b", "b0", priority=9),
            ],
            ["b0", "a0"],
            id="equal shares: by the order of pods",
        ),
        pytest.param(
            [
                queue("org", deserved=8000),
                queue("lab", deserved=8000),
                queue("a", None, "org", deserved=4000),
                queue("b", None, "lab", deserved=4000),
                queue("c", None, "org", deserved=4000),
                running("x", "c", 3000),
                running("y", "b", 1000),
                *waiting("a", "a0"),
                *waiting("b", "b0"),
            ],
            ["b0", "a0"],
            id="by what queues above have, where these differ",
        ),
    ],
)
def test_the_order_of_queues(objects, expected):
    assert order(*objects) == expected


def test_without_what_queues_deserve_the_pods_alone_decide():
    assert order(queue("a"), queue("b"), running("x", "a"), *waiting("a", "a0"), *waiting("b", "b0", priority=1)) == [
        "b0",
        "a0",
    ]
    assert order(queue("a"), queue("b"), running("x", "b"), *waiting("a", "a0"), *waiting("b", "b0")) == ["a0", "b0"]


def test_a_pod_of_no_queue_takes_its_turn_with_the_first_of_the_queue_whose_turn_it_is():
    tree = [queue("a", deserved=4000), queue("b", deserved=4000), running("x", "b")]
    pods = [*waiting("a", "a0", priority=1), *waiting("b", "b0", priority=9)]
    assert order(*tree, *pods, pod("system", 100, priority=5)) == ["system", "a0", "b0"]
    assert order(*tree, *pods, pod("later", 100)) == ["a0", "b0", "later"]


def test_reservations_count_as_used():
    tree = [queue("a", deserved=4000), queue("b", deserved=4000)]
    steps = Queues(BIG, *tree, elsewhere("reserving", of="a", gated=False))
    steps.see(*waiting("a", "a0"), *waiting("b", "b0"))
    assert list(steps.binds) == ["b0", "a0"]


def test_a_gang_takes_one_turn():
    tree = [queue("team", deserved=4000), queue("b", deserved=4000), pod_group(members=2)]
    members = [grouped(f"m{n}", "train", created=float(n)) for n in range(2)]
    assert order(*tree, *members, *waiting("b", "b0", "b1", "b2")) == ["b0", "m0", "m1", "b1", "b2"]


def test_queues_that_come_to_deserve_something_take_turns_from_then_on():
    """Bindings are made one at a time, so the others wait for their turn."""
    pods = [*waiting("a", "a0", "a1", "a2"), *waiting("b", "b0", priority=-1)]
    steps = Queues(BIG, queue("a"), queue("b"), *pods, settings=ONE_AT_A_TIME)
    assert list(steps.binds) == ["a0"]
    steps.see(queue("a", deserved=2000, version="2"), queue("b", deserved=2000, version="2"))
    steps.see(running("a0", "a"))
    assert list(steps.bound) == ["a0", "b0"]
    steps.see(queue("a", version="3"), queue("b", version="3"), running("b0", "b"))
    assert list(steps.bound) == ["a0", "b0", "a1"]


def test_equal_pods_are_still_placed_together_while_one_queue_alone_has_any():
    tree = [queue("a", deserved=64_000), queue("b", deserved=64_000)]
    names = [f"a{n:02}" for n in range(40)]
    assert order(*tree, *waiting("a", *names)) == names


def test_a_pod_that_is_made_anew_in_another_queue_within_a_second_loses_nobody_else_there_the_turn():
    steps = Queues(BIG, queue("a", deserved=4000), queue("b", deserved=4000), running("x", "a"))
    before = queued("moving", of="b", uid="uid-before")
    steps.see(before, queued("other", of="a", priority=9), queued("moving", of="a"))
    assert list(steps.binds) == ["other", "moving"]
