"""Whether one node takes a pod as things stand, and which would if pods left."""

import numpy as np
import pytest
from builders import node, pod, shape
from group_builders import Cluster
from hypothesis import given
from hypothesis import strategies as st
from peers_builders import HOST, named, pod_of, select, spread, term, zoned

from headgate.model.claims import ClaimDemands
from headgate.model.node import HostPort, NodeTerm, Taint, TaintEffect
from headgate.model.selectors import Operator, Requirement
from headgate.placement.placer import Placement

TAINT = Taint("gpu", "yes", TaintEffect.NO_SCHEDULE)
WEB = select("app=web")
ELSEWHERE = (NodeTerm((Requirement("zone", Operator.IN, ("nowhere",)),)),)


def web(name="web", **fields):
    return pod_of("app=web", name=name, **fields)


@pytest.mark.parametrize(
    "there, running, asked, fits, curable",
    [
        pytest.param(zoned("n"), (), pod(), True, False, id="a node with room fits and needs no cure"),
        pytest.param(zoned("n"), (pod("old", cpu=950),), pod(), False, True, id="a full node is cured by leaving"),
        pytest.param(zoned("n", pods=1), (pod("old"),), pod(), False, True, id="so is one with too many pods"),
        pytest.param(zoned("n", cpu=50), (), pod(), False, False, id="a node too small is not"),
        pytest.param(zoned("n", taints=(TAINT,)), (), pod(), False, False, id="nor is a taint"),
        pytest.param(
            zoned("n", taints=(TAINT,)),
            (pod("old", cpu=950),),
            pod(),
            False,
            False,
            id="the first rule to refuse decides: a full node with a taint is never cured",
        ),
        pytest.param(zoned("n", unschedulable=True), (), pod(), False, False, id="nor is a cordon"),
        pytest.param(zoned("n"), (), named(pod(), "other"), False, False, id="nor another name"),
        pytest.param(
            zoned("n"), (), pod(shape=shape(node_selector=(("zone", "x"),))), False, False, id="nor missing labels"
        ),
        pytest.param(
            zoned("n"),
            (web("old", ports=(HostPort(80),)),),
            web(ports=(HostPort(80),)),
            False,
            True,
            id="a taken host port is given back",
        ),
        pytest.param(
            zoned("n"), (web("old"),), web(anti_affinity=(term(WEB, HOST),)), False, True, id="a pod shunned may leave"
        ),
        pytest.param(
            zoned("n"),
            (web("old", anti_affinity=(term(WEB, HOST),)),),
            web(),
            False,
            True,
            id="and so may one that shuns",
        ),
        pytest.param(
            zoned("n"),
            (),
            web(affinity=(term(select("app=db"), HOST),)),
            False,
            False,
            id="nobody comes nearer by leaving",
        ),
        pytest.param(
            zoned("n"),
            (web("old"),),
            web(hard_spread=(spread(key=HOST, min_domains=2),)),
            False,
            True,
            id="a crowded domain thins out",
        ),
        pytest.param(
            node("n"), (), web(hard_spread=(spread(key=HOST),)), False, False, id="a missing topology label stays away"
        ),
        pytest.param(
            zoned("n"),
            (),
            pod(shape=shape(bound_to=ClaimDemands(volumes=(ELSEWHERE,)))),
            False,
            False,
            id="a volume stays where it is",
        ),
        pytest.param(
            zoned("n"),
            (),
            pod(shape=shape(bound_to=ClaimDemands(taken=True))),
            False,
            True,
            id="a claim in use is given back",
        ),
    ],
)
def test_one_node(there, running, asked, fits, curable):
    cluster = Cluster([there], [("n", one) for one in running])
    row = cluster.table.row_of("n")
    assert cluster.placer.fits(asked, row) is fits
    assert bool(cluster.placer.curable(asked)[row]) is curable


def test_promised_room_is_cured_by_leaving():
    cluster = Cluster([zoned("n")], promised=[pod("first", cpu=950, nominated="n", priority=5)])
    row = cluster.table.row_of("n")
    assert not cluster.placer.fits(pod("late"), row)
    assert cluster.placer.curable(pod("late"))[row]
    assert cluster.placer.fits(pod("late", priority=6), row)


def test_a_row_without_a_node_neither_fits_nor_can_be_cured():
    cluster = Cluster([zoned("n"), zoned("gone")])
    row = cluster.table.row_of("gone")
    cluster.table.drop("gone")
    assert not cluster.placer.fits(pod(), row)
    assert not cluster.placer.curable(pod(cpu=5000)).any()


KINDS = (
    {"cpu": 300},
    {"cpu": 700, "ports": (HostPort(80),)},
    {"anti_affinity": (term(WEB),)},
    {"affinity": (term(WEB, HOST),)},
    {"hard_spread": (spread(),)},
)
NODES = [zoned("a1", "a"), zoned("a2", "a", taints=(TAINT,)), zoned("b1", "b"), zoned("b2", "b", cpu=200)]
placed = st.lists(st.tuples(st.sampled_from([each.name for each in NODES]), st.sampled_from(KINDS)), max_size=7)
promised = st.lists(st.tuples(st.sampled_from([each.name for each in NODES]), st.integers(0, 2)), max_size=3)


@given(placed, promised, st.sampled_from(KINDS))
def test_fits_and_curable_agree_with_the_verdict_on_the_pod(before, promises, kind):
    running = [(where, pod_of("app=web", name=f"old{i}", **each)) for i, (where, each) in enumerate(before)]
    waiting = [pod(f"w{i}", cpu=200, nominated=at, priority=level) for i, (at, level) in enumerate(promises)]
    cluster, asked = Cluster(NODES, running, waiting), pod_of("app=web", **kind)
    fitting = [each.name for each in NODES if cluster.placer.fits(asked, cluster.table.row_of(each.name))]
    found = cluster.placer.place(asked)
    if isinstance(found, Placement):
        assert found.node in fitting
    else:
        assert not fitting
        assert found.curable == np.count_nonzero(cluster.placer.curable(asked))
    curable = [each.name for each in NODES if cluster.placer.curable(asked)[cluster.table.row_of(each.name)]]
    assert not set(curable) & set(fitting)
