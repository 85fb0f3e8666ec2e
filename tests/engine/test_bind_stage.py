"""Binding a placed pod: reserve, assume, and the binder's effects in their order."""

import pytest
from builders import bound, node, pod
from msgspec.structs import replace

from headgate.engine.in_flight import WritePolicy
from headgate.engine.journal import Journal
from headgate.engine.scheduler.bind import BindStage
from headgate.engine.scheduler.capacity import CapacityStages
from headgate.engine.scheduler.events import SchedulerMetrics
from headgate.engine.scheduler.plugins import plugins_for
from headgate.model.effects import Bind, RemoveGate
from headgate.model.events import WriteError
from headgate.model.settings import Profile
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import Placement
from headgate.placement.table import NodeTable
from headgate.queueing.backoff import Backoff
from headgate.queueing.queue import PodQueue, QueuedPodInfo

GATE = "example.com/queue-capacity"


class GateRemovingBinder:
    """Removes a gate of ours from the pod before it is bound."""

    def bind(self, placed, node_name):
        if GATE in placed.gates:
            yield RemoveGate(placed.target, GATE, placed.gates.index(GATE))
        yield Bind(placed.target, node_name)


@pytest.fixture
def nodes():
    table = NodeTable(0)
    table.put(node("n"))
    return table


@pytest.fixture
def stage(nodes):
    plugins = replace(plugins_for(Profile("headgate"), Neighbours(nodes)), binder=GateRemovingBinder())
    metrics = SchedulerMetrics(PodQueue(Backoff(1.0, 10.0)))
    return BindStage({"headgate": plugins}, CapacityStages(()), Journal(), WritePolicy(Backoff(1.0, 10.0)), metrics)


def run(stage, placed):
    return stage.run(QueuedPodInfo(placed), Placement("n", 0), 0.0)


def test_what_a_binder_does_before_the_binding_comes_before_it(stage):
    gated = pod("a", gates=(GATE,))
    assert run(stage, gated) == [RemoveGate(gated.target, GATE, 0), Bind(gated.target, "n")]


def test_only_the_binding_is_assumed_and_in_flight(stage, nodes):
    gated = pod("a", gates=(GATE,))
    run(stage, gated)
    assert stage.in_flight == 1
    assert stage.get(gated.key).bind == Bind(gated.target, "n")
    assert nodes.charge_of(gated.key)[0] == "n"
    assert stage.decided == [Bind(gated.target, "n")]


def test_after_a_lost_answer_the_binding_is_sent_again_with_what_comes_before_it(stage):
    """That may be what did not arrive: the server binds no pod that is gated."""
    gated = pod("a", gates=(GATE,))
    _, bind = run(stage, gated)
    assert stage.answer(bind, WriteError.UNKNOWN, 0.0) is None
    assert stage.in_flight == 0
    assert stage.due(stage.writes.deadlines.next_deadline()) == [RemoveGate(gated.target, GATE, 0), bind]
    assert stage.in_flight == 1


def test_a_gate_that_was_seen_to_be_gone_is_not_removed_again(stage):
    gated = pod("a", gates=(GATE,))
    _, bind = run(stage, gated)
    stage.answer(bind, WriteError.UNKNOWN, 0.0)
    stage.get(gated.key).info.pod = replace(gated, gates=())
    assert stage.due(stage.writes.deadlines.next_deadline()) == [bind]


def test_a_binding_that_is_refused_because_a_gate_is_still_there_is_forgotten_and_made_anew_with_its_gate(stage):
    gated = pod("a", gates=(GATE,))
    _, bind = run(stage, gated)
    assert stage.answer(bind, WriteError.REFUSED, 0.0).bind == bind
    assert stage.unreserve(gated.key)
    stage.settle(gated.key)
    assert stage.in_flight == 0
    assert stage.get(gated.key) is None
    assert [type(effect) for effect in run(stage, gated)] == [RemoveGate, Bind]


def test_nothing_is_kept_of_a_pod_that_was_observed_on_its_node(stage):
    _, bind = run(stage, pod("a", gates=(GATE,)))
    stage.answer(bind, WriteError.UNKNOWN, 0.0)
    stage.settle(bound(pod("a"), "n").key)
    assert stage.writes.deadlines.next_deadline() is None
    assert stage.get(bind.target.key) is None
    assert stage.answer(bind, None, 1.0) is None
