"""Volcano's queues on the quota tree: what each may still take, at every level."""

import pytest
from builders import amounts
from hypothesis import given
from hypothesis import strategies as st
from volcano_scenes import queue

from headgate.model.resources import Resources
from headgate.quota.volcano import NO_SHARE, WHOLE_SHARE, QueueTree


def tree(*queues, **used):
    made = QueueTree(queues)
    for name, cpu in used.items():
        made.get(name).add(amounts(cpu))
    return made


def room(made, name):
    """The most cpu that one more pod of the queue may request, in steps of 100m up to 20."""
    return max((cpu for cpu in range(0, 20_001, 100) if made.get(name).fits(amounts(cpu))), default=None)


@pytest.mark.parametrize(
    "queues, used, expected",
    [
        pytest.param([queue("a", 4000)], {"a": 1000}, 3000, id="its capability less what it uses"),
        pytest.param([queue("a")], {"a": 1000}, 20_000, id="no limit where none is set"),
        pytest.param(
            [queue("p", 5000), queue("a", 4000, "p"), queue("b", 4000, "p")],
            {"a": 1000, "b": 3000},
            1000,
            id="what the queue above has left",
        ),
        pytest.param(
            [queue("p", 5000), queue("a", None, "p")], {"a": 1000}, 4000, id="a queue without a limit has its parent's"
        ),
        pytest.param(
            [queue("p", 5000), queue("a", None, "p"), queue("b", None, "p", guarantee=2000)],
            {"a": 1000},
            2000,
            id="not what the queue beside it is guaranteed",
        ),
        pytest.param(
            [queue("p", 5000), queue("a", None, "p"), queue("b", None, "p", guarantee=2000)],
            {"a": 1000, "b": 3000},
            1000,
            id="a guarantee that is used up keeps nothing more",
        ),
        pytest.param([queue("root", 3000, ""), queue("a", 9000)], {"a": 1000}, 2000, id="a root that has a limit"),
        pytest.param([queue("a", 2000)], {"a": 3000}, 0, id="over its capability: nothing more"),
        pytest.param(
            [queue("p", 2000), queue("a", None, "p", guarantee=3000), queue("b", None, "p", guarantee=3000)],
            {},
            2000,
            id="guarantees beyond the parent's capability do not count",
        ),
        pytest.param(
            [queue("p", 3000), queue("a", None, "p", guarantee=1000), queue("b", None, "p", guarantee=2000)],
            {"p": 1000, "b": 1000},
            1000,
            id="what it is guaranteed, although pods of others use that of another queue",
        ),
        pytest.param(
            [queue("p", 3000), queue("b", None, "p", guarantee=3000), queue("a", None, "b")],
            {"p": 1000},
            2000,
            id="what the queue above it is guaranteed, as far as others left it that",
        ),
        pytest.param(
            [queue("p", 3000), queue("a", None, "p", guarantee=1000), queue("b", None, "p", guarantee=2000)],
            {"p": 1000, "a": 1000},
            0,
            id="no more than it is guaranteed, where others use that of another queue",
        ),
    ],
)
def test_how_much_more_a_queue_may_use(queues, used, expected):
    assert room(tree(*queues, **used), "a") == expected


def test_the_default_queue_is_there_without_an_object_and_counts_below_the_root():
    made = tree(queue("root", 1000, ""), queue("a"))
    made.get("default").add(amounts(600))
    assert room(made, "a") == 400


@pytest.mark.parametrize(
    "queues, name, why",
    [
        pytest.param([queue("a", 1, "gone")], "a", "queue gone does not exist", id="a parent that is not there"),
        pytest.param([queue("a", 1, "b"), queue("b", 1, "a")], "a", "queue a is below itself", id="a circle"),
        pytest.param([queue("a", 1, "a")], "a", "queue a is below itself", id="its own parent"),
    ],
)
def test_a_queue_without_a_place_says_why_and_harms_no_other(queues, name, why):
    made = tree(*queues, queue("fine", 1000))
    assert made.get(name) is None
    assert made.misplaced[name] == why
    assert room(made, "fine") == 1000


@pytest.mark.parametrize(
    "queues, said",
    [
        pytest.param(
            [queue("a", 1000)],
            "queue a has cpu 1, and cpu 500m is in use or reserved; requested cpu 600m",
            id="its own limit",
        ),
        pytest.param(
            [queue("p", 1000), queue("a", 900, "p"), queue("b", 900, "p")],
            "queue a has cpu 900m, and cpu 500m is in use or reserved; requested cpu 600m",
            id="the lowest level that forbids it",
        ),
        pytest.param(
            [queue("p", 1000), queue("a", None, "p")],
            "queue p above queue a has cpu 1, and cpu 500m is in use or reserved; requested cpu 600m",
            id="a level above",
        ),
        pytest.param(
            [queue("p", 2000), queue("a", None, "p"), queue("b", None, "p", guarantee=1000)],
            "queue p above queue a has cpu 2, of which cpu 1 is guaranteed to other queues, and cpu 500m is in use or "
            "reserved; requested cpu 600m",
            id="a guarantee beside it",
        ),
    ],
)
def test_a_shortage_names_the_level_and_its_numbers(queues, said):
    assert str(tree(*queues, a=500).get("a").shortage(amounts(600))) == said


def test_nothing_is_short_where_it_fits():
    assert tree(queue("a", 1000), a=500).get("a").shortage(amounts(500)) is None


@pytest.mark.parametrize(
    "cpu, memory, fits",
    [
        pytest.param(500, 100, True, id="there is enough of both"),
        pytest.param(500, 101, False, id="too little memory, at the level above"),
        pytest.param(501, 100, False, id="too little cpu"),
    ],
)
def test_every_resource_that_is_requested_must_fit(cpu, memory, fits):
    made = tree(queue("p", capability=amounts(memory=100)), queue("a", 1000, "p"), a=500)
    assert made.get("a").fits(amounts(cpu, memory)) is fits
    assert (made.get("a").shortage(amounts(cpu, memory)) is None) is fits


def test_a_resource_that_no_queue_limits_is_free():
    assert tree(queue("a", 1000)).get("a").fits(Resources.of({"example.com/gpu": 8}))


queues_below = st.lists(
    st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 8)), st.one_of(st.just(0), st.integers(0, 8))),
    min_size=1,
    max_size=7,
)


@given(queues_below, st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4), st.booleans()), max_size=30))
def test_what_fits_never_exceeds_a_capability_at_any_level(described, story):
    made = QueueTree(
        queue(
            f"q{n}", None if most is None else most * 100, f"q{above}" if above < n else "root", guarantee=least * 100
        )
        for n, (above, most, least) in enumerate(described)
    )
    running = []
    for place, size, comes in story:
        node = made.get(f"q{place % len(described)}")
        if comes and node.fits(amounts(size * 100)):
            node.add(amounts(size * 100))
            running.append((node, amounts(size * 100)))
        elif not comes and running:
            left, held = running.pop(place % len(running))
            left.remove(held)
        for each in made:
            limit = dict(each.queue.capability.items).get("cpu")
            assert limit is None or each.totals.get("cpu", 0) <= limit
    for left, held in running:
        left.remove(held)
    assert all(not any(each.totals.values()) for each in made)


@pytest.mark.parametrize(
    "deserved, used, share",
    [
        pytest.param({"cpu": 4000}, {"cpu": 1000}, 1 / 4, id="of what it deserves"),
        pytest.param({"cpu": 4000, "memory": 100}, {"cpu": 1000, "memory": 50}, 1 / 2, id="of which it has most"),
        pytest.param({"cpu": 4000}, {"cpu": 8000}, 2, id="more than it deserves"),
        pytest.param({"cpu": 4000}, {"memory": 100}, 0, id="others do not count"),
        pytest.param({"cpu": 0}, {}, 0, id="it deserves nothing and has nothing"),
        pytest.param({"cpu": 0}, {"cpu": 1}, 1, id="it deserves nothing and has some"),
    ],
)
def test_the_share_of_a_queue(deserved, used, share):
    made = QueueTree([queue("a", deserved=Resources.of(deserved))])
    made.get("a").add(Resources.of(used))
    assert made.get("a").shares() == (int(share * WHOLE_SHARE), 0)


def test_shares_are_told_from_the_topmost_queue_on():
    made = tree(queue("org"), queue("a", None, "org", deserved=4000), a=1000)
    assert made.get("a").shares() == (*NO_SHARE, WHOLE_SHARE // 4, 0)
