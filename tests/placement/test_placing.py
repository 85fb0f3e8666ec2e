"""Where a pod goes among a few nodes, and what it is told when there is no place."""

import pytest
from builders import amounts, node, pod, shape, tolerating

from headgate.engine.scheduler.plugins import plugins_for
from headgate.model.cluster_events import ClusterEvent
from headgate.model.node import HostPort, NodeTerm, PeerDemands, PodTerm, Spread, Taint, TaintEffect, Toleration
from headgate.model.pod import PodShape
from headgate.model.selectors import Operator, Requirement
from headgate.model.settings import Profile
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import NoPlacement, Placement, Placer
from headgate.placement.table import NodeTable

NO_SCHEDULE = Taint("gpu", "a100", TaintEffect.NO_SCHEDULE)
PREFER_NOT = Taint("gpu", "a100", TaintEffect.PREFER_NO_SCHEDULE)
NO_EXECUTE = Taint("gpu", "a100", TaintEffect.NO_EXECUTE)


PLAIN = Profile()

X = (Requirement("app", Operator.IN, ("x",)),)
Y = (Requirement("app", Operator.IN, ("y",)),)
NEAR = PodTerm("zone", X, ("default",))
FAR = PodTerm("zone", Y, ("default",))
SPREAD = Spread(1, "zone", X)


def placer(*nodes, profile=PLAIN):
    table = NodeTable()
    for one in nodes:
        table.put(one)
    return Placer(plugins_for(profile, Neighbours(table)).rules), table


def wants(*requirements):
    return (NodeTerm(expressions=requirements),)


def label(key, operator, *values):
    return Requirement(key, operator, values)


@pytest.mark.parametrize(
    "nodes, asked, expected",
    [
        pytest.param([node("n")], shape(1000, 1024), "n", id="a pod that fills the node to the last byte fits"),
        pytest.param([node("full", pods=0), node("n")], shape(1), "n", id="a node that may run no more pods is passed"),
        pytest.param(
            [node("tight"), node("n", cpu=4000)], shape(100), "n", id="the node with the larger share left wins"
        ),
        pytest.param(
            [node("cpu-bound", cpu=1000, memory=8192), node("even", cpu=2000, memory=4096)],
            shape(500, 1024),
            "even",
            id="the mean of the free shares of cpu and memory decides",
        ),
        pytest.param(
            [node("off", unschedulable=True), node("n", cpu=200)], shape(100), "n", id="a cordoned node is passed over"
        ),
        pytest.param(
            [node("off", unschedulable=True)],
            shape(100, tolerations=tolerating("node.kubernetes.io/unschedulable")),
            "off",
            id="a pod that tolerates the cordon may enter",
        ),
        pytest.param(
            [node("gpu", taints=(NO_SCHEDULE,)), node("n", cpu=200)], shape(100), "n", id="a taint keeps pods off"
        ),
        pytest.param(
            [node("gpu", taints=(NO_EXECUTE,)), node("n", cpu=200)], shape(100), "n", id="so does one that also evicts"
        ),
        pytest.param([node("gpu", taints=(PREFER_NOT,))], shape(100), "gpu", id="a soft taint does not"),
        pytest.param(
            [node("gpu", taints=(NO_SCHEDULE,))],
            shape(100, tolerations=(Toleration("gpu", value="a100", effect=TaintEffect.NO_SCHEDULE),)),
            "gpu",
            id="a toleration of key, value and effect opens the node",
        ),
        pytest.param(
            [node("gpu", taints=(NO_SCHEDULE,))],
            shape(100, tolerations=(Toleration(exists=True),)),
            "gpu",
            id="a toleration of everything opens every node",
        ),
        pytest.param(
            [node("a", cpu=9000), node("b", labels={"zone": "b"})],
            shape(100, node_selector=(("zone", "b"),)),
            "b",
            id="the node selector decides before the score",
        ),
        pytest.param(
            [node("a", cpu=9000), node("b", labels={"zone": "b"})],
            shape(100, required_terms=wants(label("zone", Operator.IN, "b", "c"))),
            "b",
            id="a required term decides before the score",
        ),
        pytest.param(
            [node("a", labels={"gen": "9"}), node("b", labels={"gen": "10"})],
            shape(100, required_terms=wants(label("gen", Operator.GREATER, "9"))),
            "b",
            id="Gt compares numbers, not texts",
        ),
        pytest.param(
            [node("a"), node("b")],
            shape(100, required_terms=(NodeTerm(fields=(label("metadata.name", Operator.IN, "b"),)),)),
            "b",
            id="a term on the name field picks that node",
        ),
        pytest.param([node("a"), node("b")], shape(100, node_name="b"), "b", id="a pod that names its node gets it"),
    ],
)
def test_the_pod_goes_to(nodes, asked, expected):
    found = placer(*nodes)[0].place(pod(shape=asked))
    assert isinstance(found, Placement)
    assert found.node == expected


@pytest.mark.parametrize(
    "nodes, asked, message",
    [
        pytest.param([], shape(1), "no nodes available to schedule pods", id="there are no nodes"),
        pytest.param(
            [node("a"), node("b")],
            shape(2000, 4096),
            "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory.",
            id="every resource that is short is named",
        ),
        pytest.param(
            [node("a", pods=0)], shape(1), "0/1 nodes are available: 1 Too many pods.", id="no pod slot is left"
        ),
        pytest.param(
            [node("a", unschedulable=True, taints=(NO_SCHEDULE,)), node("b", taints=(NO_SCHEDULE,)), node("c", cpu=1)],
            shape(10),
            "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {gpu: a100}, "
            "1 node(s) were unschedulable.",
            id="each node counts for the first rule that refuses it",
        ),
        pytest.param(
            [node("a")],
            shape(1, required_terms=()),
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            id="an empty list of terms matches nothing",
        ),
        pytest.param(
            [node("a")],
            shape(1, required_terms=(NodeTerm(),)),
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            id="an empty term matches nothing",
        ),
        pytest.param(
            [node("a")],
            shape(1, node_name="b"),
            "0/1 nodes are available: 1 node(s) didn't match the requested node name.",
            id="the named node is not there",
        ),
        pytest.param(
            [node("a")],
            PodShape(requests=amounts(**{"nvidia.com/gpu": 1})),
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
            id="a device the node does not have is short",
        ),
    ],
)
def test_the_refusal_says(nodes, asked, message):
    found = placer(*nodes)[0].place(pod(shape=asked))
    assert isinstance(found, NoPlacement)
    assert str(found) == message


@pytest.mark.parametrize(
    "nodes, asked, curable",
    [
        pytest.param([node("a")], shape(600), 1, id="a full node might do if pods left"),
        pytest.param([node("a")], shape(2000), 0, id="a node that is too small never will"),
        pytest.param([node("a", pods=0)], shape(1), 0, id="nor one that may run no pods at all"),
        pytest.param([node("a", taints=(NO_SCHEDULE,))], shape(600), 0, id="a taint does not leave with the pods"),
        pytest.param([node("a")], shape(600, node_selector=(("zone", "b"),)), 0, id="nor does a missing label"),
        pytest.param([node("a", unschedulable=True), node("b"), node("c")], shape(600), 2, id="nodes are counted"),
        pytest.param([node("a")], shape(1, ports=(HostPort(80),)), 1, id="a port is given back"),
    ],
)
def test_where_evicting_pods_could_help(nodes, asked, curable):
    placing, table = placer(*nodes)
    for each in nodes:
        table.charge(pod(f"on-{each.name}", shape=shape(500, ports=(HostPort(80),))), each.name)
    assert placing.place(pod("new", shape=asked)).curable == curable


@pytest.mark.parametrize(
    "demands, labels, curable",
    [
        pytest.param(PeerDemands(anti_affinity=(NEAR,)), {"zone": "a"}, 1, id="pods that keep others off can leave"),
        pytest.param(PeerDemands(affinity=(FAR,)), {"zone": "a"}, 0, id="pods that leave bring no others near"),
        pytest.param(PeerDemands(hard_spread=(SPREAD,)), {"zone": "a"}, 1, id="a crowded domain can be thinned out"),
        pytest.param(PeerDemands(hard_spread=(SPREAD,)), {}, 0, id="a node without the label stays so"),
    ],
)
def test_where_evicting_neighbours_could_help(demands, labels, curable):
    placing, table = placer(node("n", labels=labels), node("other", labels={"zone": "b"}, unschedulable=True))
    table.charge(pod("there", labels={"app": "x"}), "n")
    table.charge(pod("there too", labels={"app": "x"}), "n")
    assert placing.place(pod("new", shape=shape(1, peers=demands), labels={"app": "x"})).curable == curable


def test_of_many_reasons_the_most_frequent_are_shown():
    nodes = [node(f"n{i}", taints=(Taint("rack", f"r{i}", TaintEffect.NO_SCHEDULE),)) for i in range(40)]
    message = str(placer(*nodes, node("small", cpu=1), node("smaller", cpu=1))[0].place(pod(shape=shape(10))))
    assert message.startswith("0/42 nodes are available: 1 node(s) had untolerated taint {rack: ")
    assert message.endswith(", 2 Insufficient cpu, and 29 other reasons.")


def test_a_refusal_for_lack_of_room_listens_for_room():
    short = placer(node("a"))[0].place(pod(shape=shape(2000)))
    assert ClusterEvent.ROOM_FREED in short.wake_on


def test_a_refusal_by_a_taint_does_not_listen_for_room():
    tainted = placer(node("a", taints=(NO_SCHEDULE,)))[0].place(pod(shape=shape(1)))
    assert tainted.wake_on == {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_CHANGED}


def test_equal_nodes_are_drawn_alike_whatever_the_order_they_came_in():
    names = [f"n{i}" for i in range(20)]
    drawn = []
    for order in (names, names[::-1]):
        placing, table = placer(*(node(name, memory=1000) for name in order))
        drawn.append([])
        for index in range(20):
            one = pod(f"p{index}", shape=shape(1, 1))
            drawn[-1].append(placing.place(one).node)
            table.charge(one, drawn[-1][-1])
    assert drawn[0] == drawn[1]
    assert sorted(drawn[0]) == sorted(names), "each gets one before any gets two"


def test_another_seed_draws_another_order():
    def first(seed):
        table = NodeTable(seed)
        for index in range(50):
            table.put(node(f"n{index}"))
        return Placer(plugins_for(Profile(), Neighbours(table)).rules).place(pod()).node

    assert len({first(seed) for seed in range(10)}) > 5


def test_a_node_that_changes_is_judged_anew():
    placing, table = placer(node("a", taints=(NO_SCHEDULE,)))
    assert isinstance(placing.place(pod(shape=shape(1))), NoPlacement)
    table.put(node("a"))
    assert placing.place(pod(shape=shape(1))) == Placement("a", 173)


def test_a_node_that_left_is_never_chosen_and_its_row_serves_another():
    placing, table = placer(node("a", taints=(NO_SCHEDULE,)), node("b"))
    placing.place(pod(shape=shape(1)))
    table.drop("b")
    assert isinstance(placing.place(pod(shape=shape(1))), NoPlacement)
    table.put(node("c"))
    assert placing.place(pod(shape=shape(1))).node == "c"


def test_a_pod_bound_to_a_node_that_comes_later_is_charged_when_it_comes():
    placing, table = placer()
    table.charge(pod("early", cpu=900), "late")
    table.put(node("late"))
    assert isinstance(placing.place(pod(shape=shape(200))), NoPlacement)


@pytest.mark.parametrize("off", ["TaintToleration", "*"])
def test_a_profile_can_turn_a_filter_off(off):
    placing, _ = placer(node("a", taints=(NO_SCHEDULE,)), profile=Profile(disabled=frozenset({off})))
    assert placing.place(pod(shape=shape(1))).node == "a"
