"""PodTopologySpread: which nodes keep the skew, and which are emptier. All numbers are worked out by hand."""

import pytest
from builders import tolerating
from peers_builders import HOST, THREE, ZONE, Around, pod_of, select, spread, zoned

from headgate.model.node import Taint, TaintEffect
from headgate.placement.placer import NoPlacement

WEB = pod_of("app=web")
EVERYWHERE = ["a1", "a2", "b1"]
TAINT = Taint("gpu", "", TaintEffect.NO_SCHEDULE)
TWO_IN_A_ONE_IN_B = (("a1", WEB), ("a2", WEB), ("b1", WEB))
ONE_IN_EACH = (("a1", WEB), ("b1", WEB))


def hard(*spreads, labels="app=web", **fields):
    return pod_of(labels, hard_spread=spreads, **fields)


def soft(*spreads, labels="app=web", **fields):
    return pod_of(labels, soft_spread=spreads, **fields)


@pytest.mark.parametrize(
    "placed, incoming, takers",
    [
        pytest.param((), hard(spread()), EVERYWHERE, id="where nothing runs yet every zone will do"),
        pytest.param(
            TWO_IN_A_ONE_IN_B, hard(spread()), ["b1"], id="a zone two ahead with the pod is refused at a skew of one"
        ),
        pytest.param(TWO_IN_A_ONE_IN_B, hard(spread(2)), EVERYWHERE, id="at a skew of two it is not"),
        pytest.param(
            TWO_IN_A_ONE_IN_B, hard(spread(), labels="app=db"), EVERYWHERE, id="a pod that is not counted adds nothing"
        ),
        pytest.param(
            TWO_IN_A_ONE_IN_B,
            hard(spread(min_domains=3)),
            [],
            id="with fewer zones than there should be the emptiest counts as empty",
        ),
        pytest.param(TWO_IN_A_ONE_IN_B, hard(spread(min_domains=2)), ["b1"], id="with enough zones it does not"),
        pytest.param(
            (("a1", WEB), ("a2", WEB), ("b1", pod_of("app=web", deleted=9.0))),
            hard(spread(2)),
            ["b1"],
            id="a pod that is being deleted does not count",
        ),
        pytest.param(
            (("a1", WEB), ("a2", WEB), ("b1", pod_of("app=web", "other"))),
            hard(spread(2)),
            ["b1"],
            id="a pod of another namespace does not count",
        ),
        pytest.param(TWO_IN_A_ONE_IN_B, hard(spread(selector=())), EVERYWHERE, id="an empty selector counts no pod"),
        pytest.param(
            TWO_IN_A_ONE_IN_B, hard(spread(selector=None)), EVERYWHERE, id="nor does one that selects nothing"
        ),
        pytest.param(
            (("a1", WEB), ("b1", WEB)),
            hard(spread(), spread(key=HOST)),
            ["a2"],
            id="every one of several constraints must hold",
        ),
        pytest.param(
            (("a1", WEB), ("b1", WEB)), hard(spread(key=HOST)), ["a2"], id="by host each node is a domain of its own"
        ),
    ],
)
def test_hard_spreading_leaves(placed, incoming, takers):
    assert Around(THREE, placed).takers(incoming) == takers


@pytest.mark.parametrize(
    "nodes, placed, incoming, takers",
    [
        pytest.param(
            (*THREE, zoned("stray")),
            (("a1", WEB), ("b1", WEB), ("stray", WEB)),
            hard(spread()),
            EVERYWHERE,
            id="a node without the label is refused, and its pods do not count",
        ),
        pytest.param(
            (*THREE, zoned("c1", "c", labels={"rack": "1"})),
            ONE_IN_EACH,
            hard(spread(), spread(9, key="rack")),
            ["c1"],
            id="a node that lacks one of two keys is refused, and counts for neither constraint",
        ),
        pytest.param(
            (*THREE, zoned("c1", "c", labels={"disk": "slow"})),
            ONE_IN_EACH,
            hard(spread(), node_selector=((ZONE, "a"),)),
            ["a1", "a2"],
            id="zones the pod's own selector rules out are no domains",
        ),
        pytest.param(
            (*THREE, zoned("c1", "c")),
            ONE_IN_EACH,
            hard(spread(honor_affinity=False), node_selector=((ZONE, "a"),)),
            [],
            id="unless the constraint ignores the pod's node affinity",
        ),
        pytest.param(
            (*THREE, zoned("c1", "c", taints=(TAINT,))),
            ONE_IN_EACH,
            hard(spread()),
            [],
            id="zones whose taints keep the pod off are domains",
        ),
        pytest.param(
            (*THREE, zoned("c1", "c", taints=(TAINT,))),
            ONE_IN_EACH,
            hard(spread(honor_taints=True)),
            EVERYWHERE,
            id="unless the constraint honours taints",
        ),
        pytest.param(
            (*THREE, zoned("c1", "c", taints=(TAINT,))),
            ONE_IN_EACH,
            hard(spread(honor_taints=True), tolerations=tolerating("gpu")),
            ["c1"],
            id="taints that are tolerated are no reason to leave a zone out",
        ),
        pytest.param(
            (zoned("a1", "a", unschedulable=True), zoned("b1", "b")),
            (("b1", WEB),),
            hard(spread(honor_taints=True)),
            [],
            id="a cordoned node is a domain all the same",
        ),
    ],
)
def test_which_nodes_are_domains(nodes, placed, incoming, takers):
    assert Around(nodes, placed).takers(incoming) == takers


def test_the_refusal_tells_a_missing_label_from_a_skew():
    refused = Around((zoned("a1", "a"), zoned("stray")), (("a1", WEB),)).place(hard(spread(min_domains=2)))
    assert isinstance(refused, NoPlacement)
    assert str(refused) == (
        "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, "
        "1 node(s) didn't match pod topology spread constraints (missing required label)."
    )


@pytest.mark.parametrize(
    "nodes, placed, incoming, points",
    [
        pytest.param(
            THREE,
            (("a1", WEB), ("a2", WEB)),
            soft(spread()),
            {"a1": 0, "a2": 0, "b1": 100},  # 2·ln 4 = 2.8 ≈ 3 and 0; 100·(3+0-3)/3 and 100·(3+0-0)/3
            id="the empty zone has all the points",
        ),
        pytest.param(
            THREE,
            (("a1", WEB), ("a2", WEB)),
            soft(spread(5)),
            {"a1": 57, "a2": 57, "b1": 100},  # 2.8+4 ≈ 7 and 4; 100·(7+4-7)/7 and 100·(7+4-4)/7
            id="a larger skew waters the difference down",
        ),
        pytest.param(
            THREE,
            (("a1", WEB), ("a1", WEB), ("a1", WEB), ("a2", WEB)),
            soft(spread(key=HOST)),
            {"a1": 0, "a2": 60, "b1": 100},  # 3·ln 5 = 4.8 ≈ 5, 1.6 ≈ 2 and 0
            id="by host each node is counted by itself",
        ),
        pytest.param(
            THREE,
            (("a1", WEB), ("a1", WEB)),
            soft(spread(), spread(key=HOST)),
            {"a1": 0, "a2": 50, "b1": 100},  # 2·ln 4 + 2·ln 5 = 6.0; 2·ln 4 = 2.8 ≈ 3; 0
            id="several constraints add up",
        ),
        pytest.param(
            (*THREE, zoned("stray")),
            (("a1", WEB),),
            soft(spread()),
            {"a1": 0, "a2": 0, "b1": 100, "stray": 0},
            id="a node without the label has no points",
        ),
        pytest.param(THREE, (), soft(spread()), dict.fromkeys(EVERYWHERE, 100), id="where nothing runs all are best"),
        pytest.param(
            THREE,
            (("a1", WEB), ("b1", pod_of("app=web", deleted=9.0)), ("b1", pod_of("app=web", "other"))),
            soft(spread()),
            {"a1": 0, "a2": 0, "b1": 100},
            id="pods that leave and pods of other namespaces do not count",
        ),
        pytest.param(
            (*THREE, zoned("a3", "a", labels={"disk": "slow"})),
            (("a3", WEB), ("b1", WEB)),
            soft(spread(), node_selector=(("disk", "slow"),)),
            {"a1": 0, "a2": 0, "b1": 100, "a3": 0},
            id="pods on nodes the pod's own selector rules out do not count",
        ),
        pytest.param(
            THREE,
            (("a1", WEB), ("a2", WEB), ("a2", WEB), ("b1", WEB)),
            soft(spread(selector=select("app=db")), labels="app=db"),
            dict.fromkeys(EVERYWHERE, 100),
            id="pods the selector does not pick do not count",
        ),
    ],
)
def test_soft_spreading_gives(nodes, placed, incoming, points):
    assert Around(nodes, placed).points("PodTopologySpread", incoming) == points


def test_soft_spreading_outweighs_a_little_more_room():
    nodes = (zoned("a1", "a", cpu=2000), zoned("b1", "b", cpu=1000))
    around = Around(nodes, (("a1", WEB),))
    assert around.place(pod_of("app=web", cpu=100)).node == "a1"
    assert around.place(soft(spread(), cpu=100)).node == "b1"
