"""What neighbours' rules need to know of reaches them through the engine."""

import msgspec
import pytest
from peers_builders import HOST, THREE, WEB_PODS, pod_of, select, spread, term, zoned

from headgate.engine.loop import Engine
from headgate.model.effects import Bind
from headgate.model.events import Observed
from headgate.model.keys import Key, Kind
from headgate.model.objects import Namespace
from headgate.model.pod import Phase
from headgate.model.settings import Settings

DB_ELSEWHERE = pod_of("app=db", "other", name="db", node="b1")
NEAR_BLUE_DB = pod_of("app=web", affinity=(term(select("app=db"), namespaces=(), among=select("team=blue")),))


def other(**labels):
    return Namespace(Key(Kind.NAMESPACE, "", "other"), "uid-other", "1", labels)


def binds(engine, now, *objects):
    effects = engine.step([Observed(one) for one in objects], now)
    return {effect.target.key.name: effect.node for effect in effects if isinstance(effect, Bind)}


def test_the_engine_wants_to_see_namespaces():
    assert Kind.NAMESPACE in Engine(Settings()).reads


def test_the_labels_of_a_namespace_decide_whom_a_term_speaks_of():
    engine = Engine(Settings())
    assert binds(engine, 0.0, other(team="blue"), *THREE, DB_ELSEWHERE, NEAR_BLUE_DB) == {"incoming": "b1"}


def test_a_pod_that_was_refused_is_tried_again_when_a_namespace_gets_other_labels():
    engine = Engine(Settings())
    assert binds(engine, 0.0, other(team="red"), *THREE, DB_ELSEWHERE, NEAR_BLUE_DB) == {}
    assert binds(engine, 60.0, other(team="blue")) == {"incoming": "b1"}


@pytest.mark.parametrize("name", ["n", "m"])
def test_a_node_that_fetched_an_image_is_preferred_from_then_on(name):
    engine = Engine(Settings())
    binds(engine, 0.0, zoned("n"), zoned("m"))
    fetched = msgspec.structs.replace(zoned(name), images={"large:1": 1 << 30})
    binds(engine, 1.0, fetched)
    assert binds(engine, 2.0, pod_of(images=("large:1",))) == {"incoming": name}


WEB_AT = {where: pod_of("app=web", name=f"web-{where}", node=where) for where in ("a1", "a2", "b1")}
SPREAD = pod_of("app=web", hard_spread=(spread(min_domains=3),))
SHUNNING = pod_of("app=db", name="shunning", node="a1", anti_affinity=(term(()),))


def changed(one, **fields):
    return msgspec.structs.replace(one, **fields)


@pytest.mark.parametrize(
    "before, incoming, after",
    [
        pytest.param([], pod_of("", affinity=(term(WEB_PODS),)), WEB_AT["a1"], id="a pod it wants to be near came"),
        pytest.param(
            [changed(WEB_AT["a1"], labels={"app": "db"})],
            pod_of("", affinity=(term(WEB_PODS),)),
            WEB_AT["a1"],
            id="a pod got the label it looks for",
        ),
        pytest.param(
            [WEB_AT["a1"]],
            pod_of("", anti_affinity=(term(WEB_PODS),)),
            changed(WEB_AT["a1"], labels={}),
            id="a pod lost the label it shuns",
        ),
        pytest.param(
            [WEB_AT["a1"]],
            pod_of("", anti_affinity=(term(WEB_PODS),)),
            changed(WEB_AT["a1"], phase=Phase.SUCCEEDED),
            id="a pod it shuns has ended",
        ),
        pytest.param([SHUNNING], pod_of(), changed(SHUNNING, phase=Phase.FAILED), id="a pod that shuns it has ended"),
        pytest.param(
            [WEB_AT["a1"]], SPREAD, changed(WEB_AT["a1"], deleted=9.0), id="a pod that counted against it is leaving"
        ),
        pytest.param(
            [WEB_AT["a1"]],
            SPREAD,
            changed(WEB_AT["a1"], labels={}),
            id="a pod that counted against it does not any more",
        ),
    ],
)
def test_a_pod_that_was_refused_for_its_neighbours_is_tried_again_when(before, incoming, after):
    engine = Engine(Settings())
    assert binds(engine, 0.0, zoned("a1", "a"), *before, incoming) == {}
    assert binds(engine, 60.0, after) == {"incoming": "a1"}


def test_what_was_just_decided_is_a_neighbour_of_the_next():
    together = [pod_of("app=web", name=f"w{index}", affinity=(term(WEB_PODS),)) for index in range(4)]
    apart = [pod_of("app=db", name=f"d{index}", anti_affinity=(term(select("app=db"), HOST),)) for index in range(4)]
    found = binds(Engine(Settings()), 0.0, *THREE, *together, *apart)
    assert len({found[f"w{index}"][0] for index in range(4)}) == 1, "all in the zone of the first"
    assert sorted(node for name, node in found.items() if name.startswith("d")) == ["a1", "a2", "b1"]
