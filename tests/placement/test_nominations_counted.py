"""Which promises count against whom: never the same room twice, and never a group's own against itself."""

import msgspec
import pytest
from builders import node, pod, pod_key, shape
from group_builders import Cluster, members
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.keys import Key, Kind
from headgate.model.node import HostPort
from headgate.model.pod import GroupKey
from headgate.placement.placer import Placement
from headgate.placement.trial import PlacementTrial

GANG = GroupKey(Key(Kind.WORKLOAD, "default", "gang"))
FULL_BOTH = [node("n1"), node("n2")]


def promised(name, at, cpu=800, **fields):
    return pod(name, cpu=cpu, nominated=at, **fields)


def nominated(pods, *names):
    """The pods, each with a nomination."""
    return [msgspec.structs.replace(one, nominated=name) for one, name in zip(pods, names, strict=True)]


def taken(cluster, cpu, **fields):
    """The nodes that would take one more pod."""
    late = pod("late", cpu=cpu, **fields)
    return [name for name in ("n1", "n2") if cluster.placer.fits(late, cluster.table.row_of(name))]


def test_a_pod_with_room_already_is_not_promised_more():
    first = promised("first", "n1")
    cluster = Cluster(FULL_BOTH, promised=[first])
    assert taken(cluster, 900) == ["n2"]
    cluster.table.charge(first, "n2")
    assert taken(cluster, 900) == ["n1"], "it sits on the other node now, and waits for none"
    cluster.table.release(first.key)
    assert taken(cluster, 900) == ["n2"], "it waits again"


def test_that_holds_in_a_trial_too_and_ends_with_it():
    first = promised("first", "n1")
    cluster = Cluster(FULL_BOTH, promised=[first])
    with PlacementTrial(cluster.table) as trial:
        trial.take(first, "n1")
        assert taken(cluster, 200) == ["n1", "n2"], "800 are taken, not 1600"
    assert taken(cluster, 900) == ["n2"]


@pytest.mark.parametrize(
    "pods, needed, expected",
    [
        pytest.param(
            nominated(members(2, cpu=800), "n1", "n2"),
            2,
            {"m0": "n1", "m1": "n2"},
            id="each takes the placement kept for it",
        ),
        pytest.param(
            nominated(members(2, cpu=800), "n2", "n1"), 2, {"m0": "n2", "m1": "n1"}, id="whichever way they are kept"
        ),
        pytest.param(
            nominated(members(2, cpu=500), "n1", "n1"),
            2,
            {"m0": "n1", "m1": "n1"},
            id="two placements kept on one node",
        ),
        pytest.param(
            nominated(members(2, cpu=800), "gone", "n2"),
            2,
            {"m0": "n1", "m1": "n2"},
            id="one whose node is gone looks elsewhere",
        ),
        pytest.param(
            [pod("m0", cpu=800), *nominated([pod("m1", cpu=900)], "n2")],
            2,
            {"m0": "n1", "m1": "n2"},
            id="a member without a placement does not take one that is kept for another",
        ),
        pytest.param(
            [*members(6, cpu=150), *nominated([pod("last", cpu=1000)], "n2")],
            7,
            {**{f"m{i}": "n1" for i in range(6)}, "last": "n2"},
            id="nor does a long run of them",
        ),
        pytest.param(
            nominated(members(3, cpu=800), "n1", "n1", "n2"),
            3,
            None,
            id="placements that do not hold are no placements",
        ),
        pytest.param(
            nominated(members(2, cpu=800), "n1", "n1"),
            2,
            {"m0": "n1", "m1": "n2"},
            id="a placement that does not hold is exchanged for one that does",
        ),
    ],
)
def test_a_group_is_not_kept_off_by_its_own_nominations(pods, needed, expected):
    waiting = [msgspec.structs.replace(one, group=GANG) for one in pods]
    cluster = Cluster(FULL_BOTH, promised=[one for one in waiting if one.nominated])
    assert cluster.placements(waiting, needed) == expected
    before = taken(cluster, 900)
    cluster.placements(waiting, needed)
    assert taken(cluster, 900) == before, "afterwards others are kept off as before"


def test_a_group_is_kept_off_by_the_nominations_of_others():
    cluster = Cluster(FULL_BOTH, promised=[promised("other", "n1", priority=1)])
    assert cluster.placements(members(2, cpu=800)) is None
    assert cluster.placements(members(8, cpu=200)) is None
    assert cluster.placements(members(6, cpu=200))
    assert sorted(cluster.placements(members(2, cpu=800, priority=2)).values()) == ["n1", "n2"], (
        "which wait for no one less"
    )


def test_a_member_placed_by_itself_respects_what_is_kept_for_another():
    first = promised("first", "n1", group=GANG)
    cluster = Cluster([node("n1")], promised=[first])
    assert not isinstance(cluster.placer.place(pod("second", cpu=800, group=GANG)), Placement)
    assert isinstance(cluster.placer.place(first), Placement)


@pytest.mark.parametrize(
    "nodes, priority, expected",
    [
        pytest.param(["n1"], 5, ["b", "c"], id="by key, and only those below"),
        pytest.param(["n1"], 9, ["a", "b", "c"], id="equal ones are not below"),
        pytest.param(["n2", "n1"], 9, ["d", "a", "b", "c"], id="node by node as they were given"),
        pytest.param(["n1", "n1"], 2, ["b"], id="a node counts once"),
        pytest.param(["n3"], 9, [], id="nobody waits there"),
    ],
)
def test_who_waits_below_a_priority(nodes, priority, expected):
    waiting = [promised("c", "n1", priority=4), promised("a", "n1", priority=5), promised("b", "n1", priority=1)]
    cluster = Cluster(FULL_BOTH, promised=[*waiting, promised("d", "n2", priority=8), promised("e", "n2", priority=9)])
    assert [one.key.name for one in cluster.neighbours.nominations.lower_on(nodes, priority)] == expected


def test_a_promise_waits_for_its_node_and_outlives_it():
    cluster = Cluster([node("n2")], promised=[promised("first", "n1")])
    late = pod("late", cpu=800)
    assert cluster.placer.place(late).node == "n2"
    cluster.table.put(node("n1", cpu=1100))
    assert cluster.placer.place(late).node == "n2"
    cluster.table.drop("n1")
    cluster.table.put(node("stranger", cpu=5000))
    assert cluster.placer.place(late).node == "stranger", "its row is another node's now"
    cluster.table.put(node("n1", cpu=9000))
    assert cluster.placer.place(late).node == "n1"
    assert not isinstance(cluster.placer.place(pod("large", cpu=8900)), Placement), "800 of it are promised"


AT = [f"n{i}" for i in range(4)]
waits = st.lists(
    st.tuples(
        st.sampled_from([*AT, "later"]),
        st.integers(0, 3),
        st.sampled_from([50, 100, 300]),
        st.sampled_from([(), (80,)]),
    ),
    max_size=8,
)
runs = st.lists(st.tuples(st.sampled_from(AT), st.sampled_from([100, 250, 600])), max_size=8)


def scene(running, waiting):
    pods = [
        pod(f"w{i}", shape=shape(cpu, ports=tuple(map(HostPort, ports))), nominated=at, priority=priority)
        for i, (at, priority, cpu, ports) in enumerate(waiting)
    ]
    there = [(where, pod(f"r{i}", cpu=cpu)) for i, (where, cpu) in enumerate(running)]
    return Cluster([node(name) for name in AT], there, pods), pods


@given(runs, waits, st.integers(0, 3), st.sampled_from([(), (80,)]), st.lists(st.integers(0, 9), max_size=4))
def test_the_counts_are_what_looking_at_each_promise_would_say(running, waiting, priority, ports, gone):
    cluster, pods = scene(running, waiting)
    cluster.table.put(node("later"))
    for index in gone:
        cluster.neighbours.nominations.drop(pod_key(f"w{index}"))
    left = [one for index, one in enumerate(pods) if index not in gone]
    late = pod("late", shape=shape(150, ports=tuple(map(HostPort, ports))), priority=priority)
    for name in (*AT, "later"):
        row = cluster.table.row_of(name)
        before = [one for one in left if one.nominated == name and one.priority >= priority]
        used = cluster.table.requested["cpu"][row] + sum(one.shape.requests["cpu"] for one in before)
        clash = ports and any(one.shape.ports for one in before)
        assert cluster.placer.fits(late, row) == (used + 150 <= 1000 and not clash)
        [(_, free)] = cluster.neighbours.nominations.demands(late)
        assert not before or free[row] == (used + 150 <= 1000 and not clash)
    assert cluster.neighbours.nominations.concerns(late) == any(one.priority >= priority for one in left)


@given(runs, waits, st.integers(0, 8))
def test_a_pod_is_never_in_its_own_way(running, waiting, index):
    cluster, pods = scene(running, waiting)
    without, _ = scene(running, waiting)
    for own in pods[index : index + 1]:
        without.neighbours.nominations.drop(own.key)
        assert cluster.placer.place(own) == without.placer.place(own)
        assert [cluster.placer.fits(own, row) for row in range(4)] == [
            without.placer.fits(own, row) for row in range(4)
        ]


@given(
    runs,
    waits,
    st.integers(0, 3),
    st.integers(1, 12),
    st.sampled_from([shape(90, 5), shape(40, ports=(HostPort(80),))]),
)
def test_a_plan_beside_promises_is_what_one_by_one_would_give(running, waiting, priority, count, asked):
    cluster, _ = scene(running, waiting)
    late = [pod(f"late{i}", shape=asked, priority=priority) for i in range(count)]
    planned = cluster.placer.plan(late[0], count)
    for index, one in enumerate(late):
        found = cluster.placer.place(one)
        assert isinstance(found, Placement) == (index < len(planned))
        if isinstance(found, Placement):
            assert found == planned[index]
            cluster.table.charge(one, found.node)
