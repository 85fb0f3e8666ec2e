"""InterPodAffinity: near some pods, far from others, and who is asked. All numbers are worked out by hand."""

import pytest
from peers_builders import HOST, THREE, Around, pod_of, select, term, zoned

from headgate.model.node import WeightedTerm
from headgate.placement.placer import NoPlacement

EVERYWHERE = ["a1", "a2", "b1"]
DB, WEB = pod_of("app=db"), pod_of("app=web")
NEAR_DB, NEAR_DB_HOST = term(select("app=db")), term(select("app=db"), HOST)
STRAY = (*THREE, zoned("stray"))


def near(*terms, labels=""):
    return pod_of(labels, affinity=terms)


def far(*terms, labels=""):
    return pod_of(labels, anti_affinity=terms)


@pytest.mark.parametrize(
    "nodes, placed, incoming, takers",
    [
        pytest.param(THREE, (("a1", DB),), near(NEAR_DB), ["a1", "a2"], id="the zone of a pod it wants to be near"),
        pytest.param(THREE, (("a1", DB),), near(NEAR_DB_HOST), ["a1"], id="the very node, by host"),
        pytest.param(THREE, (), near(NEAR_DB), [], id="nowhere when there is no such pod"),
        pytest.param(
            STRAY,
            (),
            near(NEAR_DB, labels="app=db"),
            EVERYWHERE,
            id="the first of a series goes anywhere that has the label",
        ),
        pytest.param(
            THREE, (("a1", DB),), near(NEAR_DB, labels="app=db"), ["a1", "a2"], id="the second goes where the first is"
        ),
        pytest.param(
            STRAY,
            (("stray", DB),),
            near(NEAR_DB, labels="app=db"),
            EVERYWHERE,
            id="one that runs where there is no such label does not count as the first",
        ),
        pytest.param(
            THREE,
            (("a1", DB), ("a1", pod_of("tier=x"))),
            near(NEAR_DB, term(select("tier=x"))),
            [],
            id="nowhere when two terms hold of two pods",
        ),
        pytest.param(
            THREE,
            (("a1", pod_of("app=db,tier=x")),),
            near(NEAR_DB, term(select("tier=x"))),
            ["a1", "a2"],
            id="where both terms hold of one pod",
        ),
        pytest.param(
            THREE,
            (("a1", pod_of("app=db,tier=x")),),
            near(NEAR_DB, term(select("tier=x"), HOST)),
            ["a1"],
            id="where every term's own nearness is met",
        ),
        pytest.param(
            THREE,
            (("a1", DB),),
            near(NEAR_DB, term(select("tier=x")), labels="app=db,tier=x"),
            EVERYWHERE,
            id="anywhere for the first that meets all its terms, though others meet some",
        ),
        pytest.param(
            THREE, (("a1", pod_of("app=db", deleted=9.0)),), near(NEAR_DB), ["a1", "a2"], id="near one that is leaving"
        ),
        pytest.param(THREE, (("a1", DB),), near(term(None)), [], id="nowhere for a term that selects nothing"),
        pytest.param(THREE, (("b1", DB),), near(term(())), ["b1"], id="near any pod for one that selects everything"),
        pytest.param(THREE, (("a1", DB),), far(NEAR_DB), ["b1"], id="off the zone of one it shuns"),
        pytest.param(THREE, (("a1", DB),), far(NEAR_DB_HOST), ["a2", "b1"], id="off its node, by host"),
        pytest.param(
            STRAY,
            (("a1", DB), ("stray", DB)),
            far(NEAR_DB),
            ["b1", "stray"],
            id="a node without the label is far enough",
        ),
        pytest.param(
            THREE,
            (("a1", DB), ("b1", WEB)),
            far(NEAR_DB_HOST, term(select("app=web"))),
            ["a2"],
            id="off all of several it shuns",
        ),
        pytest.param(
            THREE, (("a1", pod_of("app=db", deleted=9.0)),), far(NEAR_DB), ["b1"], id="off one that is leaving still"
        ),
        pytest.param(
            THREE, (("a1", far(term(select("app=web")))),), WEB, ["b1"], id="off the zone of one that shuns it"
        ),
        pytest.param(
            THREE, (("a1", far(term(select("app=web")))),), DB, EVERYWHERE, id="anywhere if it is not the one shunned"
        ),
        pytest.param(
            STRAY, (("stray", far(term(select("app=web")))),), WEB, [*EVERYWHERE, "stray"], id="unless that has no zone"
        ),
        pytest.param(
            THREE, (), far(term(select("app=web")), labels="app=web"), EVERYWHERE, id="it does not shun itself"
        ),
    ],
)
def test_required_terms_lead_to(nodes, placed, incoming, takers):
    assert Around(nodes, placed).takers(incoming) == takers


ELSEWHERE = pod_of("app=db", "other")
TEAMS = {"default": "team=red", "other": "team=blue"}


@pytest.mark.parametrize(
    "placed, incoming, takers",
    [
        pytest.param((("a1", ELSEWHERE),), near(NEAR_DB), [], id="a pod of another namespace is not meant"),
        pytest.param(
            (("a1", ELSEWHERE), ("b1", DB)),
            near(term(select("app=db"), namespaces=("other",))),
            ["a1", "a2"],
            id="where a namespace is named its pods are, and those of its own are not",
        ),
        pytest.param(
            (("a1", ELSEWHERE), ("b1", DB)),
            near(term(select("app=db"), namespaces=(), among=())),
            EVERYWHERE,
            id="an empty namespace selector means all",
        ),
        pytest.param(
            (("a1", ELSEWHERE), ("b1", DB)),
            near(term(select("app=db"), namespaces=(), among=select("team=blue"))),
            ["a1", "a2"],
            id="a namespace selector means those with its labels",
        ),
        pytest.param(
            (("a1", ELSEWHERE), ("b1", DB)),
            near(term(select("app=db"), namespaces=("default",), among=select("team=blue"))),
            EVERYWHERE,
            id="named and selected namespaces add up",
        ),
        pytest.param(
            (("a1", pod_of("", "other", anti_affinity=(term(select("app=web"), namespaces=("default",)),))),),
            WEB,
            ["b1"],
            id="a pod elsewhere shuns one of a namespace it names",
        ),
        pytest.param(
            (("a1", pod_of("", "other", anti_affinity=(term(select("app=web"), namespaces=("other",)),))),),
            WEB,
            EVERYWHERE,
            id="and not one of a namespace it does not",
        ),
        pytest.param(
            (
                (
                    "a1",
                    pod_of(
                        "", "other", anti_affinity=(term(select("app=web"), namespaces=(), among=select("team=red")),)
                    ),
                ),
            ),
            WEB,
            ["b1"],
            id="it shuns one of a namespace it selects by label",
        ),
    ],
)
def test_whose_pods_are_meant(placed, incoming, takers):
    assert Around(THREE, placed, TEAMS).takers(incoming) == takers


def test_a_namespace_that_changes_its_labels_is_counted_anew():
    around = Around(THREE, (("a1", ELSEWHERE),), TEAMS)
    wants_green = near(term(select("app=db"), namespaces=(), among=select("team=green")))
    assert around.takers(wants_green) == []
    assert around.neighbours.relabel("other", {"team": "green"})
    assert around.takers(wants_green) == ["a1", "a2"]
    assert not around.neighbours.relabel("other", {"team": "green"}), "which is no news the second time"


def test_each_node_is_given_one_reason():
    shunning = pod_of("app=db", anti_affinity=(term(select("app=web"), HOST),))
    incoming = pod_of("app=web", affinity=(NEAR_DB,), anti_affinity=(term(select("tier=x"), HOST),))
    refused = Around(THREE, (("a1", shunning), ("a2", pod_of("tier=x")))).place(incoming)
    assert isinstance(refused, NoPlacement)
    assert str(refused) == (
        "0/3 nodes are available: 1 node(s) didn't match pod affinity rules, "
        "1 node(s) didn't match pod anti-affinity rules, "
        "1 node(s) didn't satisfy existing pods anti-affinity rules."
    )


def prefers(*weighted, labels=""):
    return pod_of(labels, preferences=tuple(WeightedTerm(weight, each) for weight, each in weighted))


TO_WEB = term(select("app=web"))
C = (*THREE, zoned("c1", "c"))


@pytest.mark.parametrize(
    "nodes, placed, incoming, points",
    [
        pytest.param(
            THREE, (("a1", DB),), prefers((10, NEAR_DB)), {"a1": 100, "a2": 100, "b1": 0}, id="nearer to one it likes"
        ),
        pytest.param(
            THREE,
            (("a1", DB),),
            prefers((-10, NEAR_DB)),
            {"a1": 0, "a2": 0, "b1": 100},
            id="farther from one it does not",
        ),
        pytest.param(
            C,
            (("a1", DB), ("a2", DB), ("b1", DB)),
            prefers((10, NEAR_DB)),
            {"a1": 100, "a2": 100, "b1": 50, "c1": 0},  # 20, 10, 0
            id="nearer to more of them",
        ),
        pytest.param(
            C,
            (("a1", DB), ("b1", WEB)),
            prefers((30, NEAR_DB), (-10, TO_WEB)),
            {"a1": 100, "a2": 100, "b1": 0, "c1": 25},  # 30, -10, 0
            id="likes and dislikes add up",
        ),
        pytest.param(
            THREE,
            (("a1", DB),),
            prefers((7, NEAR_DB), (3, NEAR_DB_HOST)),
            {"a1": 100, "a2": 70, "b1": 0},
            id="in the zone is good, on the node is better",
        ),
        pytest.param(
            THREE,
            (("a1", prefers((30, TO_WEB))),),
            WEB,
            {"a1": 100, "a2": 100, "b1": 0},
            id="nearer to one that likes it",
        ),
        pytest.param(
            THREE,
            (("a1", prefers((-30, TO_WEB))),),
            WEB,
            {"a1": 0, "a2": 0, "b1": 100},
            id="farther from one that does not",
        ),
        pytest.param(
            C,
            (("a1", near(TO_WEB)), ("b1", prefers((2, TO_WEB)))),
            WEB,
            {"a1": 50, "a2": 50, "b1": 100, "c1": 0},  # 1, 2, 0
            id="one that requires it counts as one that likes it by one",
        ),
        pytest.param(
            THREE,
            (("a1", prefers((30, TO_WEB))), ("b1", prefers((30, TO_WEB)))),
            WEB,
            None,
            id="nobody is compared when all are liked alike",
        ),
        pytest.param(THREE, (("a1", prefers((30, TO_WEB))),), DB, None, id="nor when nobody speaks of it"),
        pytest.param(
            STRAY,
            (("stray", DB), ("a1", DB)),
            prefers((5, NEAR_DB)),
            {"a1": 100, "a2": 100, "b1": 0, "stray": 0},
            id="a node without the label is near nobody",
        ),
        pytest.param(
            THREE,
            (("b1", pod_of("app=db", deleted=9.0)),),
            prefers((5, NEAR_DB)),
            {"a1": 0, "a2": 0, "b1": 100},
            id="one that is leaving counts",
        ),
    ],
)
def test_preferences_give(nodes, placed, incoming, points):
    assert Around(nodes, placed).points("InterPodAffinity", incoming) == points


def test_only_nodes_that_will_do_are_compared():
    """The dearest node is full, so the others are scaled by the next."""
    nodes = (zoned("a1", "a", pods=1), zoned("b1", "b"), zoned("c1", "c"))
    around = Around(nodes, (("a1", DB), ("b1", WEB)))
    incoming = prefers((100, NEAR_DB), (1, TO_WEB))
    assert around.place(incoming).node == "b1"
    assert around.takers(incoming) == ["b1", "c1"]


def test_a_zone_key_nobody_has_is_no_nearness():
    assert Around(THREE, (("a1", DB),)).takers(near(term(select("app=db"), "rack"))) == []
    assert Around(THREE, (("a1", DB),)).takers(far(term(select("app=db"), "rack"))) == EVERYWHERE
