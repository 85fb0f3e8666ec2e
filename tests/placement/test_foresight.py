"""Pods alike that spread or keep apart are planned at once, and sit where they would one after the other."""

import msgspec
import numpy as np
import pytest
from builders import pod
from group_builders import Cluster, peers
from hypothesis import example, given
from hypothesis import strategies as st
from peers_builders import HOST, pod_of, select, spread, term, zoned
from steps import Steps

from headgate.model.node import Taint, TaintEffect
from headgate.model.settings import Profile, ScoringStrategy
from headgate.placement import placer
from headgate.placement.placer import Placement
from headgate.placement.ranking import foremost, place_of, score_of

RACK = "rack"
WEB, DB = select("app=web"), select("app=db")
TAINT = Taint("gpu", "", TaintEffect.NO_SCHEDULE)
RULES = [
    {"hard_spread": (spread(),)},
    {"hard_spread": (spread(2, HOST),)},
    {"hard_spread": (spread(), spread(1, RACK))},
    {"hard_spread": (spread(min_domains=3),)},
    {"hard_spread": (spread(2, honor_taints=True, honor_affinity=False),), "node_selector": ((RACK, "r1"),)},
    {"hard_spread": (spread(everywhere=True),)},
    {"hard_spread": (spread(selector=DB), spread(2))},
    {"hard_spread": (spread(selector=()),)},
    {"anti_affinity": (term(WEB, HOST),)},
    {"anti_affinity": (term(WEB, RACK),)},
    {"anti_affinity": (term(WEB), term(DB, RACK))},
    {"anti_affinity": (term(DB, HOST),)},
    {"anti_affinity": (term(WEB, HOST),), "hard_spread": (spread(),)},
]
nodes = st.lists(
    st.tuples(
        st.sampled_from(["a", "a", "b", "c", ""]),
        st.sampled_from(["r1", "r2", ""]),
        st.sampled_from([200, 400, 1000]),
        st.booleans(),
    ),
    min_size=1,
    max_size=9,
)
running = st.lists(
    st.tuples(
        st.integers(0, 8),
        st.sampled_from(["app=web", "app=db", "app=other"]),
        st.sampled_from([{}, *RULES]),
        st.booleans(),
    ),
    max_size=6,
)
promises = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1), st.sampled_from([100, 400])), max_size=2)
profiles = st.builds(
    lambda strategy, off: Profile(scoring=ScoringStrategy(type=strategy), disabled=frozenset(off)),
    st.sampled_from(["LeastAllocated", "MostAllocated"]),
    st.sampled_from([(), ("NodeAffinity", "TaintToleration")]),
)
ANYWHERE = Profile(disabled=frozenset({"TaintToleration"}))
NOT_COUNTED = {"hard_spread": (spread(honor_taints=True),)}


def cluster(made, there, promised, profile):
    """Nodes n0, n1, ... with their zones and racks, some with labels missing, pods that run there, and promises."""
    known = [
        zoned(f"n{i}", zone, cpu=cpu, labels={RACK: rack} if rack else {}, taints=(TAINT,) if tainted else ())
        for i, (zone, rack, cpu, tainted) in enumerate(made)
    ]
    old = [
        (f"n{at}", pod_of(labels, name=f"old{i}", deleted=9.0 if leaving else None, cpu=50, **rules))
        for i, (at, labels, rules, leaving) in enumerate(there)
    ]
    others = [pod(f"other{i}", cpu=cpu, nominated=f"n{at}", priority=p) for i, (at, p, cpu) in enumerate(promised)]
    return Cluster(known, old, others, profile=profile)


def one_by_one(around, pods, within=None):
    """What each gets, placed and charged before the next is asked for, up to the first that gets nothing."""
    found = []
    for one in pods:
        placement = around.placer.place(one, within)
        if not isinstance(placement, Placement):
            return found
        found.append(placement)
        around.table.charge(one, placement.node)
    return found


@given(nodes, running, promises, st.sampled_from(RULES), st.integers(1, 14), profiles, st.booleans())
@example([("", "", 1000, False)] * 2, [], [], {"anti_affinity": (term(WEB),)}, 5, Profile(), False)
@example([("a", "", 1000, True), ("b", "", 1000, False)], [], [], NOT_COUNTED, 5, ANYWHERE, False)
def test_a_plan_within_limits_is_what_one_by_one_would_give(made, there, promised, rules, count, profile, confined):
    around = cluster(made, there, promised, profile)
    pods = peers(count, **rules)
    within = np.arange(len(around.table.nodes)) % 3 > 0 if confined else None
    planned = around.placer.plan(pods[0], count, within)
    assert planned == one_by_one(around, pods, within)


@pytest.mark.parametrize(
    "rules, placements",
    [
        pytest.param({"hard_spread": (spread(),)}, {"a": 2, "b": 2}, id="over zones"),
        pytest.param({"anti_affinity": (term(WEB),)}, {"a": 1, "b": 1}, id="one in a zone"),
        pytest.param({"anti_affinity": (term(WEB, HOST),)}, {"a": 2, "b": 1}, id="one on a node"),
        pytest.param({"affinity": (term(WEB),)}, {}, id="those who must be near each other are asked for one by one"),
        pytest.param({"soft_spread": (spread(),)}, {}, id="those who compare nodes are asked for one by one"),
    ],
)
def test_how_many_of_four_pods_are_planned_where(rules, placements):
    around = Cluster([zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b")])
    planned = around.placer.plan(peers(4, **rules)[0], 4)
    zones = [found.node[0] for found in planned]
    assert {zone: zones.count(zone) for zone in sorted(set(zones))} == placements


def test_where_nodes_are_many_and_pods_few_each_is_asked_for(monkeypatch):
    """A plan within limits looks at every node; a few pods are found theirs sooner without."""
    monkeypatch.setattr(placer, "ROWS_A_POD", 1)
    around = Cluster([zoned(f"n{i}", "ab"[i % 2]) for i in range(6)])
    spreading = peers(6, hard_spread=(spread(),))
    assert around.placer.plan(spreading[0], 5) == []
    assert len(around.placer.plan(spreading[0], 6)) == 6


@pytest.mark.parametrize(
    "others, served",
    [
        pytest.param([pod_of("app=web", name="x")], 0, id="a pod without the rules"),
        pytest.param(peers(2, hard_spread=(spread(),)), 2, id="pods exactly alike"),
        pytest.param(peers(2, "app=db", hard_spread=(spread(),)), 0, id="pods with other labels"),
        pytest.param(
            [pod_of("app=web", "elsewhere", cpu=100, hard_spread=(spread(),))], 0, id="a pod in another namespace"
        ),
    ],
)
def test_a_plan_within_limits_serves(others, served):
    around = Cluster([zoned("a1", "a"), zoned("b1", "b")])
    first = peers(1, hard_spread=(spread(),))[0]
    assert around.placer.plan_serves(first, others) == served


@pytest.mark.parametrize("lonely", range(5))
def test_pods_of_one_shape_that_others_shun_are_not_planned_with_those_they_do_not(lonely):
    """Existing pods that keep apart from app=web see the labels, though the shapes are the same."""
    hermit = pod_of("", name="hermit", cpu=100, anti_affinity=(term(WEB, HOST),), node="small")
    waiting = [
        msgspec.structs.replace(pod(f"p{i}", cpu=1, created=float(i)), labels={"app": "web"} if i == lonely else {})
        for i in range(5)
    ]
    steps = Steps(zoned("small", "a", cpu=10_000, memory=10_000), zoned("full", "b", cpu=100, memory=10_000), hermit)
    binds = steps.see(*waiting).binds
    assert len(binds) == 5
    assert binds[f"p{lonely}"] == "full", "where nobody minds"


def test_places_are_compared_by_score_then_by_pods_then_by_draw():
    around = Cluster([zoned(name) for name in ("x", "y", "z")], [("x", pod("there", cpu=1))])
    rows = np.array([around.table.row_of(name) for name in ("x", "y", "z")])
    scores = np.array([70, 70, -1])
    places = place_of(around.table, rows, scores)
    assert score_of(places).tolist() == [70, 70, -1]
    assert places[1] > places[0] > 0 > places[2], "y runs fewer pods, z will not do"
    one = [place_of(around.table, int(row), int(score)) for row, score in zip(rows, scores, strict=True)]
    assert places.tolist() == one


def test_rows_whose_draws_begin_alike_are_told_apart_by_the_rest():
    assert foremost(np.array([5, 9, 9, 9]), np.array([1, 30, 10, 20])) == 2
