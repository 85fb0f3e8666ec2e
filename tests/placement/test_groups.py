"""A gang gets placements for as many pods as it needs, or none; and the table is as it was either way."""

import pytest
from builders import node, pod
from group_builders import Cluster, members, peers
from peers_builders import HOST, ZONE, select, spread, term, zoned

from headgate.model.cluster_events import ClusterEvent
from headgate.model.node import HostPort
from headgate.placement.groups import GroupPlacement
from headgate.placement.placer import NoPlacement

TWO = [node("n1"), node("n2")]
WEB = select("app=web")
APART = {"anti_affinity": (term(WEB, key=HOST),)}
BESIDE = {"affinity": (term(WEB, key=HOST),)}
ZONES = [zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b")]


@pytest.mark.parametrize(
    "nodes, pods, needed, placed",
    [
        pytest.param(TWO, members(4, cpu=500), 4, 4, id="a gang that fits to the last placement starts"),
        pytest.param(TWO, members(5, cpu=500), 5, None, id="a gang that lacks one placement does not start"),
        pytest.param(TWO, members(5, cpu=500), 4, 4, id="it starts with its least number where there is no more room"),
        pytest.param(TWO, members(5, cpu=100), 2, 5, id="surplus pods are placed while there is room"),
        pytest.param(TWO, members(12, cpu=500), 4, 4, id="a long run starts with as many as fit"),
        pytest.param(TWO, members(12, cpu=500), 5, None, id="a long run that lacks one does not start"),
        pytest.param(TWO, members(20, cpu=100), 20, 20, id="a long run is placed as one"),
        pytest.param(
            TWO, [*members(2, cpu=700), *members(2, cpu=300, name="s")], 4, 4, id="small pods fit beside large ones"
        ),
        pytest.param(
            TWO, [*members(3, cpu=700), *members(2, cpu=300, name="s")], 4, 4, id="others start where one cannot"
        ),
        pytest.param(
            TWO, [*members(2, cpu=700), *members(7, cpu=100, name="s")], 9, None, id="runs take room from each other"
        ),
        pytest.param(
            TWO, [*members(11, cpu=100), pod("big", cpu=1000)], 12, None, id="a pod after a run sees what the run took"
        ),
        pytest.param(
            TWO, [*members(6, cpu=100), pod("big", cpu=1000)], 7, 7, id="a large pod is placed before small ones"
        ),
        pytest.param(ZONES, peers(3, **APART), 3, 3, id="pods that shun each other get a node each"),
        pytest.param(ZONES, peers(4, **APART), 4, None, id="one more of them than nodes cannot start"),
        pytest.param(ZONES, peers(4, **APART), 3, 3, id="unless it is not needed"),
        pytest.param(ZONES, peers(8, **BESIDE), 8, 8, id="pods that want to be together follow the first"),
        pytest.param(ZONES, peers(11, cpu=100, **BESIDE), 11, None, id="and cannot start where the first is alone"),
        pytest.param(ZONES, peers(6, hard_spread=(spread(),)), 6, 6, id="evenly spread pods count those before"),
        pytest.param(
            ZONES, peers(6, cpu=400, hard_spread=(spread(),)), 6, None, id="a full zone stops pods that must be spread"
        ),
        pytest.param(ZONES, peers(3, ports=(HostPort(80),)), 3, 3, id="pods with one host port get a node each"),
        pytest.param(ZONES, peers(7, ports=(HostPort(80),)), 3, 3, id="a run with one host port too"),
        pytest.param(ZONES, peers(4, ports=(HostPort(80),)), 4, None, id="and there are no more ports than nodes"),
        pytest.param([], members(1), 1, None, id="nothing starts without nodes"),
        pytest.param(TWO, members(2), 0, 2, id="a group that needs nobody is placed all the same"),
        pytest.param([node("n", cpu=1)], members(2), 0, None, id="but not with nobody at all"),
        pytest.param(TWO, members(2), 3, None, id="a group with fewer pods than it needs does not start"),
    ],
)
def test_all_or_nothing(nodes, pods, needed, placed):
    cluster = Cluster(nodes)
    before = cluster.look()
    found = cluster.place(pods, needed)
    assert (len(found.placements) if isinstance(found, GroupPlacement) else None) == placed
    assert cluster.look() == before, "the table is as it was"


def test_those_left_and_those_placed_are_told_in_the_given_order():
    pods = [pod("big", cpu=2000), *members(6), pod("huge", cpu=9000), *members(2, name="last")]
    found = Cluster(TWO).place(pods, 8)
    assert [placed.key.name for placed, _ in found.placements] == [*(f"m{i}" for i in range(6)), "last0", "last1"]
    assert [left.key.name for left in found.left] == ["big", "huge"]


def test_the_placements_hold_when_they_are_taken():
    cluster = Cluster(ZONES)
    found = cluster.place([*peers(3, cpu=300, **APART), *members(6, cpu=200, name="plain"), pod("last", cpu=250)])
    for placed, placement in found.placements:
        assert cluster.placer.fits(placed, cluster.table.row_of(placement.node))
        cluster.table.charge(placed, placement.node)


def test_a_gang_is_beside_what_runs_already():
    running = [("n1", pod("old", cpu=800))]
    assert Cluster(TWO, running).placements(members(2, cpu=500)) == {"m0": "n2", "m1": "n2"}


@pytest.mark.parametrize(
    "nodes, pods, needed, message",
    [
        pytest.param(
            TWO,
            members(5, cpu=500),
            5,
            "0/2 nodes are available for pod 5 of 5 (4 placed, 5 needed): 2 Insufficient cpu.",
            id="the first that found no placement is named",
        ),
        pytest.param(
            TWO,
            [pod("big", cpu=1500), *members(3, cpu=900)],
            3,
            "0/2 nodes are available for pod 1 of 4 (2 placed, 3 needed): 2 Insufficient cpu.",
            id="with its own reasons, also when others were refused after it",
        ),
        pytest.param(
            ZONES,
            peers(5, **APART),
            5,
            "0/3 nodes are available for pod 4 of 5 (3 placed, 5 needed): "
            "3 node(s) didn't match pod anti-affinity rules.",
            id="as it was refused beside those placed",
        ),
        pytest.param([], members(1), 1, "no nodes available to schedule pods", id="no nodes are no nodes"),
        pytest.param(
            TWO,
            members(2),
            3,
            "0/2 nodes are available: the group has 2 pods and needs 3 to start.",
            id="pods that are missing are missing",
        ),
    ],
)
def test_a_refused_group_is_told_why(nodes, pods, needed, message):
    assert str(Cluster(nodes).place(pods, needed)) == message


def test_a_group_wakes_by_what_could_change_its_refusal():
    found = Cluster(TWO).place(members(5, cpu=500))
    assert (found.filters, found.curable) == (("NodeResourcesFit",), 2)
    assert found.wake_on == {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_CHANGED, ClusterEvent.ROOM_FREED}
    apart = Cluster(ZONES).place(peers(4, **APART))
    assert apart.filters == ("InterPodAffinity",)
    assert ClusterEvent.NEIGHBOURS_CHANGED in apart.wake_on


def test_a_gang_stops_asking_when_too_few_are_left():
    """The pod after the one that dooms the gang would be refused by something else, which nobody hears of."""
    pods = [pod("big", cpu=2000), *peers(1, name="apart", **APART)]
    assert Cluster(ZONES, [("a1", peers(1, name="x")[0])]).place(pods).filters == ("NodeResourcesFit",)


@pytest.mark.parametrize("topology", ["", ZONE])
def test_one_seed_gives_one_placement(topology):
    nodes = [zoned(f"n{i}", f"z{i % 7}") for i in range(40)]
    pods = [*members(20, cpu=50), *peers(4, cpu=80, name="w", **APART), *members(9, cpu=70, name="o")]
    first = Cluster(nodes).place(pods, topology=topology)
    assert isinstance(first, GroupPlacement)
    assert Cluster(nodes[::-1]).place(pods, topology=topology) == first
    assert any(Cluster(nodes, seed=seed).place(pods, topology=topology) != first for seed in range(1, 6))


def test_asking_twice_gives_the_same_answer():
    cluster = Cluster(ZONES)
    pods = [*members(7, cpu=50), *peers(3, cpu=80, name="w", **APART)]
    assert cluster.place(pods) == cluster.place(pods)
    assert isinstance(cluster.place(peers(4, **APART)), NoPlacement)
    assert cluster.place(pods) == Cluster(ZONES).place(pods), "a refused group left no trace"
