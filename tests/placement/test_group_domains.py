"""A group that must stay together gets all its placements in one domain, in the best one there is."""

import msgspec
import pytest
from builders import node, pod, shape
from group_builders import Cluster, members, peers
from peers_builders import HOST, ZONE, select, spread, term, zoned

from headgate.model.cluster_events import ClusterEvent
from headgate.model.settings import Profile
from headgate.placement.groups import GroupPlacement

WEB = select("app=web")
APART = {"anti_affinity": (term(WEB, key=HOST),)}
SMALL_AND_LARGE = [zoned("a1", "a"), zoned("b1", "b"), zoned("b2", "b"), zoned("b3", "b")]
MIXED = [*members(2, cpu=600), *members(6, cpu=100, name="s")]
PACKING = Profile(scoring=msgspec.structs.replace(Profile().scoring, type="MostAllocated"))


def zones(cluster, placements):
    return sorted({cluster.table.get(name).labels[ZONE] for name in placements.values()})


@pytest.mark.parametrize(
    "nodes, pods, needed, expected",
    [
        pytest.param(
            SMALL_AND_LARGE, members(3, cpu=1000), 3, (3, ["b"]), id="the one zone that takes them all is chosen"
        ),
        pytest.param(SMALL_AND_LARGE, members(4, cpu=1000), 4, None, id="two zones that would do together will not do"),
        pytest.param(
            SMALL_AND_LARGE, members(6, cpu=500), 2, (6, ["b"]), id="the zone that placements more of them is better"
        ),
        pytest.param(
            [zoned("a1", "a", cpu=1000), zoned("b1", "b", cpu=9000)],
            members(2),
            2,
            (2, ["b"]),
            id="of zones that placement as many the one with the better score is chosen",
        ),
        pytest.param(SMALL_AND_LARGE, MIXED, 8, (8, ["b"]), id="pods of different shapes stay together"),
        pytest.param(
            SMALL_AND_LARGE, peers(3, **APART), 3, (3, ["b"]), id="pods that shun each other stay in the zone"
        ),
        pytest.param(
            SMALL_AND_LARGE,
            peers(6, hard_spread=(spread(),)),
            6,
            (6, ["b"]),
            id="spreading over zones counts only the zone they may be in",
        ),
        pytest.param(
            SMALL_AND_LARGE,
            peers(6, cpu=300, hard_spread=(spread(key=HOST),)),
            6,
            (6, ["b"]),
            id="spreading over nodes counts only the nodes of the zone",
        ),
        pytest.param(
            [node("bare", cpu=9000), zoned("a1", "a")], members(2), 2, (2, ["a"]), id="a node in no zone is out"
        ),
        pytest.param([node("bare")], members(1), 1, None, id="nothing starts where no node has the label"),
        pytest.param(
            SMALL_AND_LARGE,
            members(1, shape=shape(100, node_selector=((ZONE, "a"),))),
            1,
            (1, ["a"]),
            id="a group that names its zone is tried there",
        ),
        pytest.param(
            SMALL_AND_LARGE,
            members(1, shape=shape(100, node_selector=((ZONE, "c"),))),
            1,
            None,
            id="and nowhere if that zone does not exist",
        ),
    ],
)
def test_one_domain_only(nodes, pods, needed, expected):
    cluster = Cluster(nodes)
    before = cluster.look()
    placements = cluster.placements(pods, needed, ZONE)
    assert (None if placements is None else (len(placements), zones(cluster, placements))) == expected
    assert cluster.look() == before, "the table is as it was"


def test_what_is_better_is_for_the_profile_to_say():
    half_full = [("a1", pod("old", cpu=500))]
    nodes = [zoned("a1", "a"), zoned("b1", "b")]
    spreading, packing = Cluster(nodes, half_full), Cluster(nodes, half_full, profile=PACKING)
    assert zones(spreading, spreading.placements(members(2), topology=ZONE)) == ["b"]
    assert zones(packing, packing.placements(members(2), topology=ZONE)) == ["a"]


def test_equally_good_domains_are_settled_by_the_seed():
    nodes = [zoned(f"n{i}", f"z{i}") for i in range(20)]
    chosen = {Cluster(nodes, seed=seed).placements(members(2), topology=ZONE)["m0"] for seed in range(10)}
    assert len(chosen) > 4


def test_the_best_is_found_among_more_domains_than_are_compared():
    nodes = [zoned(f"n{i}", f"z{i}", cpu=200) for i in range(300)]
    cluster = Cluster([*nodes, zoned("large", "last", cpu=2000)])
    assert set(cluster.placements(members(10), needed=1, topology=ZONE).values()) == {"large"}


@pytest.mark.parametrize(
    "nodes, pods, message",
    [
        pytest.param(
            SMALL_AND_LARGE,
            members(4, cpu=1000),
            "0/3 nodes are available for pod 4 of 4 within zone=b (3 placed, 4 needed): 3 Insufficient cpu.",
            id="the roomiest domain says what it lacks",
        ),
        pytest.param(
            [node("bare")],
            members(1),
            "0/1 nodes are available: the label zone leaves no node to choose.",
            id="a label that no node has is told",
        ),
    ],
)
def test_a_refused_group_is_told_which_domain_came_nearest(nodes, pods, message):
    assert str(Cluster(nodes).place(pods, topology=ZONE)) == message


def test_a_refused_group_wakes_by_what_any_domain_lacks():
    """Zone a is full for one that shuns, zone b is too small: whichever changes, the group wants to know."""
    nodes = [zoned("a1", "a", cpu=2000), zoned("b1", "b", cpu=1500)]
    found = Cluster(nodes, [("a1", peers(1, name="old")[0])]).place(peers(2, **APART), topology=ZONE)
    assert set(found.filters) == {"InterPodAffinity"}
    assert {ClusterEvent.NEIGHBOURS_CHANGED, ClusterEvent.NODE_CHANGED, ClusterEvent.ROOM_FREED} <= found.wake_on
    assert found.curable == 2


def test_domains_not_worth_trying_may_be_cured_too():
    running = [(name, pod(f"old-{name}", cpu=900)) for name in ("a1", "b1", "b2")]
    found = Cluster(SMALL_AND_LARGE, running).place(members(3, cpu=500), topology=ZONE)
    assert not isinstance(found, GroupPlacement)
    assert found.curable == 4


def test_a_nominated_node_in_another_domain_does_not_count():
    pods = [pod("first", cpu=100, nominated="a1"), *members(2, cpu=1000)]
    cluster = Cluster(SMALL_AND_LARGE, promised=pods[:1])
    assert zones(cluster, cluster.placements(pods, topology=ZONE)) == ["b"]
