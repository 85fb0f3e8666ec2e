"""The simulator's own watch over us: each invariant holds for what is right and breaks on what is wrong."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headgate.engine.journal import Entry, Journal
from headgate.model.effects import Bind, RemoveGate
from headgate.model.events import Gone, Observed
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.pod import Phase, Pod, PodShape
from headgate.model.resources import Resources
from headgate.simulator.invariants import (
    BoundOnce,
    BrokenInvariant,
    NodeCapacityInvariant,
    check_gates,
    check_nothing_lost,
)


def node(cpu: int = 1000, pods: int = 10) -> Node:
    return Node(Key(Kind.NODE, "", "n"), "n-uid", "1", {}, {}, Resources.of({"cpu": cpu, "pods": pods}))


def pod(name: str, cpu: int = 600, **fields: object) -> Pod:
    shape = PodShape(requests=Resources.of({"cpu": cpu}))
    basis = Pod(Key(Kind.POD, "default", name), f"{name}-uid", "1", {}, {}, shape, 0.0, scheduler_name="headgate")
    return replace(basis, **fields)


def bind(room: NodeCapacityInvariant, bound: Pod) -> None:
    room.bound(Bind(bound.target, "n"), bound, None)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param([Observed(node())], id="an empty node"),
        pytest.param([Observed(node()), Observed(pod("b", 400, node="n"))], id="beside one that leaves enough"),
        pytest.param(
            [Observed(node()), Observed(pod("b", 900, node="n", phase=Phase.FAILED))], id="beside one that has ended"
        ),
        pytest.param(
            [Observed(node()), Observed(pod("b", 900, node="n")), Gone(pod("b").key, "b-uid")], id="after one that left"
        ),
        pytest.param([], id="a node that is gone concerns others"),
    ],
)
def test_a_binding_that_fits(seen):
    room = NodeCapacityInvariant()
    room.observe(seen)
    bind(room, pod("a"))


@pytest.mark.parametrize(
    "seen, before",
    [
        pytest.param([Observed(node(cpu=500))], [], id="a node too small"),
        pytest.param([Observed(node()), Observed(pod("b", node="n"))], [], id="beside one that was seen there"),
        pytest.param([Observed(node())], [pod("b")], id="beside one we bound and have not seen there yet"),
        pytest.param([Observed(node(pods=1))], [pod("b", cpu=0)], id="one pod more than the node may run"),
    ],
)
def test_a_binding_without_room_breaks(seen, before):
    room = NodeCapacityInvariant()
    room.observe(seen)
    for earlier in before:
        bind(room, earlier)
    with pytest.raises(BrokenInvariant, match="its pods request"):
        bind(room, pod("a"))


def test_an_old_sight_of_a_pod_does_not_give_its_room_back():
    room = NodeCapacityInvariant()
    room.observe([Observed(node())])
    bind(room, pod("b"))
    room.observe([Observed(pod("b"))])
    with pytest.raises(BrokenInvariant):
        bind(room, pod("a"))


def test_a_pod_on_two_nodes_breaks_with_its_story():
    journal = Journal()
    journal.write(Entry(0.0, pod("a").key, "bind", "Scheduled", "assigned to n"))
    once = BoundOnce()
    once.check([Observed(pod("a", node="n")), Observed(pod("a", node="n"))], journal)
    with pytest.raises(BrokenInvariant, match=r"bound to n, then to m\n  bind Scheduled: assigned to n"):
        once.check([Observed(pod("a", node="m"))], journal)


def test_another_pod_of_the_same_name_may_be_elsewhere():
    once = BoundOnce()
    once.check([Observed(pod("a", node="n")), Gone(pod("a").key, "a-uid")], None)
    once.check([Observed(pod("a", node="m", uid="another"))], None)


def test_a_foreign_gate_is_not_to_be_touched():
    ours = "scheduling.volcano.sh/queue-allocation-gate"
    check_gates(RemoveGate(pod("a").target, ours, 0), None)
    with pytest.raises(BrokenInvariant, match=r"another controller.s gate example.com/approval"):
        check_gates(RemoveGate(pod("a").target, "example.com/approval", 0), None)


@pytest.mark.parametrize(
    "waiting, lost",
    [
        pytest.param(pod("a"), True, id="it waits for us and nobody can say why"),
        pytest.param(pod("a", node="n"), False, id="it is bound"),
        pytest.param(pod("a", scheduler_name="other"), False, id="it is another scheduler's"),
        pytest.param(pod("b"), False, id="its story is known"),
    ],
)
def test_nothing_is_lost(waiting, lost):
    journal = Journal()
    journal.write(Entry(0.0, pod("b").key, "wait", "Unschedulable"))
    if lost:
        with pytest.raises(BrokenInvariant, match="is pending without a journal entry"):
            check_nothing_lost([waiting], frozenset({"headgate"}), journal)
    else:
        check_nothing_lost([waiting], frozenset({"headgate"}), journal)
