"""Counting neighbours pod by pod comes to the same as counting them all, under random histories."""

import msgspec
from builders import tolerating
from hypothesis import example, given
from hypothesis import strategies as st
from peers_builders import HOST, ZONE, Around, labelled, pod_of, select, spread, term, zoned

from headgate.model.keys import Key, Kind
from headgate.model.node import HostPort, Taint, TaintEffect, WeightedTerm

WEB, DB = select("app=web"), select("app=db")
IN_RED = term(WEB, namespaces=(), among=select("team=red"))
TAINT = Taint("gpu", "", TaintEffect.PREFER_NO_SCHEDULE)

NODES = [f"n{index}" for index in range(4)]
PODS = [f"p{index}" for index in range(6)]
NAMESPACES = ["default", "other"]
DEMANDS = [
    {},
    {"anti_affinity": (term(WEB),)},
    {"affinity": (IN_RED,), "anti_affinity": (term(DB, HOST),)},
    {"preferences": (WeightedTerm(7, term(WEB)), WeightedTerm(-3, IN_RED))},
    {"preferences": (WeightedTerm(5, term(DB)), WeightedTerm(-5, term(DB)))},
]
IN_ZONE_A = pod_of("app=web", soft_spread=(spread(), spread(3, HOST)), node_selector=((ZONE, "a"),))
INCOMING = [
    pod_of("app=web", hard_spread=(spread(),)),
    pod_of("app=web", hard_spread=(spread(2, HOST),), soft_spread=(spread(),)),
    pod_of("app=web", hard_spread=(spread(2, min_domains=2, honor_taints=True), spread(1, HOST))),
    pod_of(
        "app=web", "other", hard_spread=(spread(selector=DB), spread(everywhere=True)), node_selector=((ZONE, "a"),)
    ),
    IN_ZONE_A,
    pod_of("app=db", "other", affinity=(term(DB, namespaces=("other",)),)),
    pod_of("app=db", anti_affinity=(IN_RED, term(DB))),
    pod_of("app=web", "other", preferences=(WeightedTerm(9, IN_RED), WeightedTerm(-2, term(DB)))),
    pod_of("app=web", ports=(HostPort(80),), tolerations=tolerating("gpu")),
]

moves = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(NODES), st.sampled_from(["", "a", "b"]), st.booleans()),
    st.tuples(st.just("drop"), st.sampled_from(NODES)),
    st.tuples(
        st.just("charge"),
        st.sampled_from(PODS),
        st.sampled_from(NODES),
        st.sampled_from(["app=web", "app=db"]),
        st.sampled_from(DEMANDS),
        st.booleans(),
    ),
    st.tuples(st.just("release"), st.sampled_from(PODS)),
    st.tuples(st.just("relabel"), st.sampled_from(NAMESPACES), st.sampled_from(["team=red", "team=blue", ""])),
    st.tuples(st.just("crowd"), st.sampled_from([1, 70])),
    st.tuples(st.just("look"), st.sampled_from(INCOMING)),
)


def key_of(name):
    """The first pods of those in play live in one namespace, the others in another."""
    return Key(Kind.POD, NAMESPACES[PODS.index(name) % 2], name)


def play(around, move):
    match move:
        case ("put", name, zone, tainted):
            around.table.put(zoned(name, zone, taints=(TAINT,) if tainted else ()))
        case ("drop", name):
            around.table.drop(name)
        case ("charge", name, where, labels, demands, leaving):
            ports = (HostPort(80),) if leaving else ()
            one = pod_of(labels, deleted=9.0 if leaving else None, ports=ports, **demands)
            around.table.charge(msgspec.structs.replace(one, key=key_of(name)), where)
        case ("release", name):
            around.table.release(key_of(name))
        case ("relabel", namespace, labels):
            around.relabel(namespace, labelled(labels))
        case ("crowd", count):
            for index in range(count):
                around.table.put(zoned(f"small-{index}", "c", cpu=0))
        case ("look", incoming):
            around.place(incoming)


def final(history):
    """What is there in the end, in a table that never saw it otherwise."""
    afresh = Around(())
    nodes, charges, labels = {}, {}, {}
    for move in history:
        match move:
            case ("put", name, *_):
                nodes[name] = move
            case ("drop", name):
                nodes.pop(name, None)
            case ("charge", name, *_):
                charges[name] = move
            case ("release", name):
                charges.pop(name, None)
            case ("relabel", namespace, _):
                labels[namespace] = move
    crowds = [move for move in history if move[0] == "crowd"]
    for move in (*nodes.values(), *crowds, *charges.values(), *labels.values()):
        play(afresh, move)
    return afresh


@given(st.lists(moves, max_size=40))
@example([("put", "n0", "a", False), ("look", INCOMING[0]), ("crowd", 70), ("put", "n1", "b", False)])
def test_a_placer_that_followed_every_change_agrees_with_one_that_saw_only_the_end(history):
    followed = Around(())
    for move in history:
        play(followed, move)
    afresh = final(history)
    for incoming in INCOMING:
        assert followed.place(incoming) == afresh.place(incoming)


@given(st.lists(moves, max_size=20), st.sampled_from(INCOMING))
@example([("put", "n0", zone, False) for zone in ("b", "a", "b", "a")], IN_ZONE_A)
def test_a_placer_that_looks_after_every_change_never_differs_from_one_that_never_looked_before(history, incoming):
    """So nothing that is kept between two looks, by row, by domain or by shape, goes stale."""
    followed = Around(())
    for move in history:
        play(followed, move)
        assert followed.place(incoming) == followed.afresh().place(incoming)


@given(st.lists(moves, max_size=25))
def test_a_pod_that_comes_and_goes_leaves_no_trace(history):
    """Nothing that was counted for it stays counted."""
    around = Around(())
    for move in history:
        play(around, move)
    before = [around.place(incoming) for incoming in INCOMING]
    for demands in DEMANDS:
        passer_by = pod_of("app=web", name="passer-by", ports=(HostPort(80),), **demands)
        around.table.charge(passer_by, NODES[0])
        for incoming in INCOMING:
            around.place(incoming)
        around.table.release(passer_by.key)
    assert [around.place(incoming) for incoming in INCOMING] == before
