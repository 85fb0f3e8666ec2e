"""Unlike pods of a gang start wherever there is a way, whatever their order; and the search for it is bounded."""

import itertools

import pytest
from builders import node, pod, shape
from group_builders import Cluster, members
from hypothesis import given
from hypothesis import strategies as st
from peers_builders import zoned

from headgate.model.node import HostPort
from headgate.placement import packing
from headgate.placement.groups import GroupPlacement


def cpus(*sizes, name="n"):
    return [node(f"{name}{index}", cpu=cpu) for index, cpu in enumerate(sizes)]


def unlike(*sizes, **fields):
    return [pod(f"m{index}", cpu=cpu, **fields) for index, cpu in enumerate(sizes)]


def in_zone(name, cpu, zone):
    return pod(name, shape=shape(cpu, node_selector=(("zone", zone),)))


TWO_ZONES = [zoned("a", "a", cpu=200, labels={"zone": "a"}), zoned("b", "b", cpu=200, labels={"zone": "b"})]


@pytest.mark.parametrize(
    "nodes, pods, needed, placed",
    [
        pytest.param(cpus(200, 100), unlike(100, 200), 2, {"m0", "m1"}, id="the largest goes first"),
        pytest.param(cpus(200, 100), unlike(200, 100), 2, {"m0", "m1"}, id="also where it comes first"),
        pytest.param(cpus(100, 100), unlike(500, 100, 100), 2, {"m1", "m2"}, id="one that fits nowhere is left out"),
        pytest.param(cpus(300), unlike(200, 200, 100, 100), 3, None, id="not where three are too many in any choice"),
        pytest.param(cpus(300), unlike(200, 200, 100, 100, 100), 3, {"m2", "m3", "m4"}, id="the smallest will do"),
        pytest.param(
            cpus(600, 600), unlike(200, 200, 200, 300, 300), 5, {f"m{i}" for i in range(5)}, id="filled to the last bit"
        ),
        pytest.param(
            TWO_ZONES,
            [pod("any", cpu=200), in_zone("bound-a", 200, "a")],
            2,
            {"any", "bound-a"},
            id="who has one node to choose goes before who has two",
        ),
        pytest.param(
            TWO_ZONES,
            [pod("any", cpu=100), in_zone("small-a", 100, "a"), in_zone("large-b", 200, "b")],
            3,
            {"any", "small-a", "large-b"},
            id="whatever its size",
        ),
        pytest.param(
            cpus(100, 200),
            [pod(name, shape=shape(cpu, ports=(HostPort(80),))) for name, cpu in (("small", 100), ("large", 200))],
            2,
            {"small", "large"},
            id="pods with host ports are tried in other orders too",
        ),
    ],
)
def test_a_gang_of_unlike_pods(nodes, pods, needed, placed):
    for order in itertools.permutations(pods):
        cluster = Cluster(nodes)
        before = cluster.look()
        found = cluster.placements(list(order), needed)
        assert (set(found) if found is not None else None) == placed
        assert cluster.look() == before


def ways(sizes, asked, needed):
    """By trying everything: whether `needed` of the pods fit."""
    for chosen in itertools.combinations(asked, needed):
        for rows in itertools.product(range(len(sizes)), repeat=needed):
            left = list(sizes)
            for cpu, row in zip(chosen, rows, strict=True):
                left[row] -= cpu
            if min(left) >= 0:
                return True
    return False


@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=3), st.lists(st.integers(1, 6), min_size=1, max_size=5), st.data()
)
def test_plain_pods_start_exactly_where_there_is_a_way(sizes, asked, data):
    needed = data.draw(st.integers(1, len(asked)))
    found = Cluster(cpus(*(100 * size for size in sizes))).place(unlike(*(100 * cpu for cpu in asked)), needed)
    assert isinstance(found, GroupPlacement) == ways(sizes, asked, needed)


def test_capacity_promised_to_others_is_left_to_them():
    other = pod("other", cpu=100, nominated="n1", priority=5)
    assert not isinstance(Cluster(cpus(200, 100), promised=[other]).place(unlike(100, 200)), GroupPlacement)


def test_the_search_gives_up_after_its_steps(monkeypatch):
    """As much is free as is asked for, but pods of even sizes leave a bit of every node over."""
    tried = []
    done = packing.PackingSearch._do
    monkeypatch.setattr(packing.PackingSearch, "_do", lambda search, step: tried.append(step) or done(search, step))
    even = [26 + 2 * (index % 9) for index in range(29)]
    found = Cluster(cpus(*[101] * 10)).place(unlike(*even, 1010 - sum(even)))
    assert not isinstance(found, GroupPlacement)
    assert 0 < len(tried) <= packing.MOST_STEPS


def test_a_gang_of_equal_pods_is_asked_for_once(monkeypatch):
    monkeypatch.setattr(packing, "packed", lambda *_: pytest.fail("nothing is to be searched"))
    found = Cluster(cpus(100, 100)).place(members(3))
    assert not isinstance(found, GroupPlacement)


def test_a_large_gang_is_not_searched_for():
    pods = unlike(*(100 + index for index in range(packing.MOST_PODS + 1)))
    cluster = Cluster(cpus(100))
    assert packing.packed(pods, 2, packing.RowCapacity({}, {}, cluster.table.draws)) is None
    assert not isinstance(cluster.place(pods), GroupPlacement)


def test_one_seed_gives_one_placement():
    """Nobody but the search finds the way, and the order in which nodes came to be known does not matter to it."""
    nodes, pods = cpus(600, 600, 600, 600), unlike(200, 200, 200, 300, 300, 200, 200, 200, 300, 300)
    first = Cluster(nodes).placements(pods)
    assert first is not None
    assert Cluster(nodes[::-1]).placements(pods) == first
