"""Laws of placing groups, for any cluster and any group."""

import msgspec
from builders import node, pod, shape
from group_builders import Cluster
from hypothesis import given
from hypothesis import strategies as st
from peers_builders import HOST, ZONE, pod_of, select, spread, term, zoned

from headgate.model.node import HostPort
from headgate.placement.groups import GroupPlacement
from headgate.placement.placer import Placement
from headgate.placement.table import port_name

WEB = select("app=web")
KINDS = (
    {"cpu": 100},
    {"cpu": 300, "memory": 100},
    {"cpu": 700},
    {"cpu": 50, "ports": (HostPort(80),)},
    {"cpu": 50, "anti_affinity": (term(WEB, HOST),)},
    {"cpu": 50, "affinity": (term(WEB),)},
    {"cpu": 50, "hard_spread": (spread(),)},
    {"cpu": 50, "soft_spread": (spread(key=HOST),)},
)
NODES = [zoned("a1", "a"), zoned("a2", "a", cpu=600), zoned("b1", "b", cpu=1500), zoned("c1", "c", pods=3)]
runs = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 8)), max_size=4)
running = st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(KINDS)), max_size=4)
promises = st.lists(st.tuples(st.sampled_from(NODES), st.integers(0, 2), st.sampled_from([100, 400])), max_size=3)
wishes = st.lists(st.sampled_from(["", "", "a1", "b1", "gone"]), max_size=20)


def group(kinds):
    made = [kind for kind, count in kinds for _ in range(count)]
    return [pod_of("app=web", name=f"m{index}", **kind) for index, kind in enumerate(made)]


def cluster(there, promised=(), members=()):
    old = [(at.name, pod_of("app=web", name=f"old{index}", **kind)) for index, (at, kind) in enumerate(there)]
    others = [
        pod(f"other{index}", cpu=cpu, nominated=at.name, priority=priority)
        for index, (at, priority, cpu) in enumerate(promised)
    ]
    return Cluster(NODES, old, [*others, *members])


def one_by_one(placed_in, pods):
    """Each placed and charged before the next is asked for."""
    placements = {}
    for one in pods:
        found = placed_in.placer.place(one)
        if isinstance(found, Placement):
            placements[one.key.name] = found.node
            placed_in.table.charge(one, found.node)
    return placements


@given(running, runs, promises)
def test_a_group_sits_where_its_pods_would_one_after_the_other(there, kinds, promised):
    pods = group(kinds)
    expected = one_by_one(cluster(there, promised), pods)
    assert (cluster(there, promised).placements(pods, 1) or {}) == expected


@given(running, runs, promises, st.integers(1, 12), st.sampled_from(["", ZONE]))
def test_a_group_gets_what_it_needs_or_nothing_and_leaves_no_trace(there, kinds, promised, needed, topology):
    asked, pods = cluster(there, promised), group(kinds)
    before = asked.look()
    found = asked.place(pods, needed, topology)
    assert asked.look() == before
    if isinstance(found, GroupPlacement):
        assert len(found.placements) >= needed
        assert sorted([placed for placed, _ in found.placements] + list(found.left), key=pods.index) == pods
        assert (
            not topology
            or len({asked.table.get(placement.node).labels[ZONE] for _, placement in found.placements}) == 1
        )
    elif not topology:
        assert len(one_by_one(asked, pods)) < needed


@given(running, runs, promises, wishes)
def test_nominated_or_not_the_placements_hold_and_break_no_promise(there, kinds, promised, wished):
    wanted = dict(enumerate(wished))
    pods = [msgspec.structs.replace(one, nominated=wanted.get(i, "")) for i, one in enumerate(group(kinds))]
    asked = cluster(there, promised, [one for one in pods if one.nominated])
    found = asked.place(pods, 1)
    if not isinstance(found, GroupPlacement):
        return
    for placed, placement in found.placements:
        asked.table.charge(placed, placement.node)
    for placed, placement in found.placements:
        for port in placed.shape.ports:
            assert asked.table.ports[port_name(port)][asked.table.row_of(placement.node)] == 1
    for name in {placement.node for _, placement in found.placements}:
        row, size = asked.table.row_of(name), asked.table.get(name).allocatable
        kept = [cpu for at, _, cpu in promised if at.name == name]
        assert asked.table.requested["cpu"][row] + sum(kept) <= size["cpu"]
        assert asked.table.requested["pods"][row] + len(kept) <= size["pods"]


@given(
    promises, st.lists(st.sampled_from(["a1", "a2", "c1", "gone"]), min_size=1, max_size=12), st.sampled_from([90, 250])
)
def test_nominated_nodes_kept_together_are_those_kept_one_by_one(promised, at, cpu):
    pods = [pod(f"m{index}", shape=shape(cpu, 1), nominated=name) for index, name in enumerate(at)]
    asked = cluster((), promised)
    together = asked.placer.keep_each(pods)
    for one, found in zip(pods, together, strict=True):
        assert asked.placer.keep(one) == found
        if found is not None:
            asked.table.charge(one, found.node)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 40), st.sampled_from([100, 250, 400]))
def test_how_many_pods_a_row_can_take_is_what_filling_it_shows(sizes, most, cpu):
    nodes = [node(f"n{index}", cpu=size * 100, pods=5) for index, size in enumerate(sizes)]
    asked = Cluster(nodes)
    room = asked.placer.capacity(shape(cpu), most)
    expected = [min(most, 5, size * 100 // cpu) for size in sizes]
    assert [int(room[asked.table.row_of(each.name)]) for each in nodes] == expected
