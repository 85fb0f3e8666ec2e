"""Who has a say about a pod is remembered, and asked anew when somebody begins or ceases to speak of such pods."""

import msgspec
from group_builders import Cluster
from peers_builders import HOST, Around, pod_of, select, term, zoned

from headgate.model.keys import Key, Kind

WEB, RED = select("app=web"), select("team=red")
NODES = (zoned("a1", "a"), zoned("b1", "b"))
BYSTANDER = pod_of("", name="bystander", anti_affinity=(term(select("app=other"), HOST),))  # so that terms matter
HERMIT = pod_of("", name="hermit", anti_affinity=(term(WEB, HOST),))
SHUNS_RED = pod_of("", name="shuns-red", anti_affinity=(term(WEB, HOST, namespaces=(), among=RED),))


def test_one_that_comes_and_speaks_of_such_pods_is_heard_and_forgotten_when_it_leaves():
    around, web = Around(NODES, [("b1", BYSTANDER)]), pod_of("app=web")
    assert around.takers(web) == ["a1", "b1"]
    around.table.charge(HERMIT, "a1")
    assert around.takers(web) == ["b1"]
    around.table.release(HERMIT.key)
    assert around.takers(web) == ["a1", "b1"]


def test_when_it_has_left_such_pods_can_be_planned_as_if_it_had_never_been_there():
    around, web = Cluster(list(NODES), [("b1", BYSTANDER)]), pod_of("app=web")
    before = around.placer.plan(web, 2)
    around.table.charge(HERMIT, "a1")
    assert {found.node for found in around.placer.plan(web, 2)} == {"b1"}
    around.table.release(HERMIT.key)
    assert around.placer.plan(web, 2) == before


def test_a_namespace_with_other_labels_makes_its_pods_spoken_of():
    around, web = Around(NODES, [("b1", BYSTANDER), ("a1", SHUNS_RED)]), pod_of("app=web")
    assert around.takers(web) == ["a1", "b1"]
    around.relabel("default", {"team": "red"})
    assert around.takers(web) == ["b1"]
    around.relabel("default", {})
    assert around.takers(web) == ["a1", "b1"]


def test_pods_that_differ_in_nothing_but_their_namespace_are_told_apart():
    around, web = Around(NODES, [("a1", HERMIT)]), pod_of("app=web")
    elsewhere = msgspec.structs.replace(web, key=Key(Kind.POD, "elsewhere", "incoming"))
    assert around.takers(elsewhere) == ["a1", "b1"]
    assert around.takers(web) == ["b1"]


def test_pods_that_differ_in_nothing_but_their_labels_are_told_apart():
    around = Around(NODES, [("a1", HERMIT)])
    assert around.takers(pod_of("app=other")) == ["a1", "b1"]
    assert around.takers(pod_of("app=web")) == ["b1"]
