"""What others hand us as a plugin, and what we make of it."""

from __future__ import annotations

import pytest
from builders import pod

from headgate.engine.scheduler.cache import CacheView, ClusterCache
from headgate.gates.pre_enqueue import PRE_ENQUEUE, InvalidPlugin, held_by, plugin_from
from headgate.model.cluster_events import ClusterEvent
from headgate.model.settings import Profile

EMPTY = CacheView(ClusterCache((Profile(),), seed=0))


class Mine:
    name = "Mine"
    wake_on = frozenset({ClusterEvent.NODE_ADDED})

    def refusal(self, candidate, cluster):
        return "no"


class Greedy(Mine):
    def __init__(self, more):
        self.more = more


def broken():
    raise RuntimeError("no database")


def like(**fields):
    return type("Other", (Mine,), fields)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(Mine(), id="an object"),
        pytest.param(Mine, id="a class"),
        pytest.param(lambda: Mine(), id="a function that makes one"),
        pytest.param(like(refusal=lambda self, candidate: "no"), id="one that looks at nothing but the pod"),
    ],
)
def test_a_plugin_comes_in_several_ways(found):
    plugin = plugin_from("Mine", found)
    held = held_by((plugin,), pod(), EMPTY)
    assert held is not None
    assert (held.plugin, held.reason, held.wake_on) == ("Mine", "no", frozenset({ClusterEvent.NODE_ADDED}))


@pytest.mark.parametrize(
    "found, problem",
    [
        pytest.param(42, "expected a plugin, or a class or function that makes one, got 42", id="a number"),
        pytest.param(broken, "could not be made: RuntimeError: no database", id="a function that fails"),
        pytest.param(Greedy, "could not be made: TypeError: ", id="a class that wants more"),
        pytest.param(like(name="Yours"), "expected the attribute name to be 'Mine', got 'Yours'", id="another name"),
        pytest.param(lambda: object(), "expected the attribute name to be 'Mine', got None", id="any object"),
        pytest.param(like(refusal="no"), "expected a method refusal(pod)", id="a refusal that is no method"),
        pytest.param(
            like(refusal=lambda self: None), "expected refusal to take a pod, or a pod and the cluster", id="no pod"
        ),
        pytest.param(like(wake_on=["x"]), "expected wake_on to be a frozenset of ClusterEvent, got ['x']", id="a list"),
        pytest.param(like(wake_on=frozenset({"x"})), "expected wake_on to be a frozenset of ClusterEvent", id="a text"),
    ],
)
def test_what_is_no_plugin_is_told_precisely(found, problem):
    with pytest.raises(InvalidPlugin) as wrong:
        plugin_from("Mine", found)
    assert str(wrong.value).startswith(f"plugin Mine: {problem}")


@pytest.mark.parametrize("answer", [True, 0, ["reason"]], ids=["yes", "zero", "a list"])
def test_an_answer_that_is_no_reason_keeps_the_pod_out_and_says_so(answer):
    held = held_by((like(refusal=lambda self, candidate, cluster: answer)(),), pod(), EMPTY)
    assert held is not None
    assert held.reason == f"plugin Mine failed: expected a reason or None, got {answer!r}"


@pytest.mark.parametrize("gates, held", [((), False), (("a",), True), (("b", "a"), True)], ids=["none", "one", "two"])
def test_scheduling_gates_hold_a_pod_with_the_words_of_the_server(gates, held):
    found = held_by(PRE_ENQUEUE, pod(gates=gates), EMPTY)
    assert (found is not None) == held
    assert found is None or found.reason == "Scheduling is blocked due to non-empty scheduling gates"
