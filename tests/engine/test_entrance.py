"""What keeps a pod out of the queue, what its owner is told, and what lets it in."""

import pytest
from builders import bound, node, pod
from steps import Steps

from headgate.gates.pre_enqueue import PRE_ENQUEUE
from headgate.model.cluster_events import ClusterEvent
from headgate.model.effects import Bind, EmitEvent, PatchStatus
from headgate.model.events import Observed, Outcome, TimerFired
from headgate.model.pod import ScheduledCondition
from headgate.model.settings import Profile, Settings

BY_SERVER = ScheduledCondition("False", "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")


def shown(reason, message):
    return ScheduledCondition("False", reason, message)


def test_a_gated_pod_is_not_tried_until_its_last_gate_is_gone():
    steps = Steps(node("n"), pod("a", gates=("x", "y")))
    assert steps.binds == {}
    assert steps.see(pod("a", gates=("y",))).binds == {}
    assert steps.see(pod("a")).binds == {"a": "n"}
    assert [decision for decision, _, _ in steps.story] == ["gate", "gate", "ungate", "bind"]


def test_the_condition_names_the_gates_that_remain_and_follows_them():
    steps = Steps(node("n"), pod("a", gates=("x", "y"), scheduled=BY_SERVER))
    assert steps.only(PatchStatus).change.message == "waiting for scheduling gates: x, y"
    steps.see(pod("a", gates=("y",), scheduled=shown("SchedulingGated", "waiting for scheduling gates: x, y")))
    assert steps.only(PatchStatus).change.message == "waiting for scheduling gates: y"
    assert steps.only(PatchStatus).change.reason == "SchedulingGated"


def test_one_event_when_it_becomes_gated_and_one_when_it_is_released():
    steps = Steps(node("n"), pod("a", gates=("x", "y"), scheduled=BY_SERVER))
    assert steps.only(EmitEvent).reason == "SchedulingGated"
    waiting = shown("SchedulingGated", "waiting for scheduling gates: x, y")
    steps.see(pod("a", gates=("y",), scheduled=waiting))
    assert not [effect for effect in steps.effects if isinstance(effect, EmitEvent)]
    steps.see(pod("a", scheduled=waiting))
    assert steps.only(EmitEvent).reason == "SchedulingGatesRemoved"


def test_a_second_look_before_the_condition_caught_up_repeats_no_event():
    steps = Steps(node("n", cpu=1), pod("a", gates=("x", "y"), scheduled=BY_SERVER))
    steps.see(pod("a", gates=("y",), scheduled=BY_SERVER))
    assert not [effect for effect in steps.effects if isinstance(effect, EmitEvent)], "still the server's own text"
    steps.see(pod("a", scheduled=BY_SERVER))
    steps.see(pod("a", scheduled=BY_SERVER, labels={"touched": "yes"}))
    assert not [effect for effect in steps.effects if isinstance(effect, EmitEvent)], "released only once"


def test_a_pod_let_in_with_its_gates_on_is_not_called_released():
    settings = Settings(profiles=(Profile(disabled=frozenset({"SchedulingGates"})),))
    steps = Steps(node("n"), pod("a", gates=("x",), scheduled=BY_SERVER), settings=settings)
    assert steps.kinds == ["Bind"]


def test_a_gated_pod_is_never_called_unschedulable():
    steps = Steps(pod("a", gates=("x",)))
    steps.later(600, Observed(node("n", cpu=1)), TimerFired("scheduling"))
    assert not [effect for effect in steps.effects if isinstance(effect, PatchStatus)]


def test_a_restart_says_nothing_again():
    told = shown("SchedulingGated", "waiting for scheduling gates: x")
    assert Steps(node("n"), pod("a", gates=("x",), scheduled=told)).effects == []


def test_gates_removed_while_we_were_away_are_noticed():
    told = shown("SchedulingGated", "waiting for scheduling gates: x")
    steps = Steps(node("n"), pod("a", scheduled=told))
    assert steps.kinds == ["EmitEvent", "Bind"]


def test_a_released_pod_that_no_node_takes_is_called_unschedulable_at_once():
    steps = Steps(node("n", cpu=1), pod("a", gates=("x",)))
    steps.see(pod("a", scheduled=shown("SchedulingGated", "waiting for scheduling gates: x")))
    assert steps.only(PatchStatus).change.reason == "Unschedulable"


def test_a_released_pod_that_must_wait_its_turn_no_longer_says_that_it_is_gated():
    settings = Settings(max_in_flight=1)
    steps = Steps(node("n"), pod("first"), pod("a", gates=("x",)), settings=settings)
    steps.see(pod("a", scheduled=shown("SchedulingGated", "waiting for scheduling gates: x")))
    assert steps.only(PatchStatus).change.reason == "SchedulingQueued"


def test_a_pod_gated_and_deleted_is_forgotten():
    steps = Steps(node("n"), pod("a", gates=("x",)))
    steps.see(pod("a", gates=("x",), deleted=5.0))
    assert sum(steps.pending.values()) == 0


def test_a_profile_without_the_plugin_ignores_gates():
    settings = Settings(profiles=(Profile(disabled=frozenset({"SchedulingGates"})),))
    assert Steps(node("n"), pod("a", gates=("x",)), settings=settings).binds == {"a": "n"}


class Approval:
    """Somebody's plugin: a pod waits for its label, and for a node to look at."""

    name = "Approval"
    wake_on = frozenset({ClusterEvent.NODE_ADDED})

    def __init__(self):
        self.open = False
        self.asked = 0

    def refusal(self, candidate):
        self.asked += 1
        return None if self.open or "approved" in candidate.labels else "not approved yet"


class Broken:
    name = "Broken"
    wake_on = frozenset()

    def refusal(self, candidate):
        if candidate.key.name == "bad":
            raise ValueError("no such account")


def test_a_plugin_holds_a_pod_with_its_reason():
    steps = Steps(node("n"), pod("a"), pre_enqueue=(*PRE_ENQUEUE, Approval()))
    change = steps.only(PatchStatus).change
    assert (change.reason, change.message) == ("SchedulingGated", "not approved yet")
    assert steps.see(pod("a", labels={"approved": "yes"})).binds == {"a": "n"}


def test_every_plugin_must_agree():
    steps = Steps(node("n"), pod("a", gates=("x",), labels={"approved": "yes"}), pre_enqueue=(*PRE_ENQUEUE, Approval()))
    assert steps.binds == {}
    assert steps.see(pod("a")).binds == {}
    assert steps.see(pod("a", labels={"approved": "yes"})).binds == {"a": "n"}


def test_a_plugin_is_asked_again_only_for_what_it_listens_to():
    plugin = Approval()
    steps = Steps(node("n"), pod("a"), bound(pod("old"), "n"), pre_enqueue=(plugin,))
    asked, plugin.open = plugin.asked, True
    steps.see(bound(pod("other"), "n"))
    assert plugin.asked == asked
    assert steps.see(node("m")).binds.keys() == {"a"}


def test_a_plugin_that_raises_holds_its_pod_and_lets_the_others_go_on():
    steps = Steps(node("n"), pod("bad"), pod("good"), pre_enqueue=(*PRE_ENQUEUE, Broken()))
    assert steps.binds == {"good": "n"}
    assert steps.only(PatchStatus).change.message == "plugin Broken failed: ValueError: no such account"


@pytest.mark.parametrize("gates", [("x",), ()], ids=["gated", "refused"])
def test_after_five_minutes_everyone_is_asked_again_in_case_something_was_missed(gates):
    plugin = Approval()
    steps = Steps(node("n", cpu=1), pod("a", gates=gates), pre_enqueue=(*PRE_ENQUEUE, plugin))
    plugin.open = True
    steps.later(300, TimerFired("scheduling"))
    assert steps.pending["unschedulable"] == (not gates)


def test_ten_thousand_gated_pods_cost_nothing_when_others_come_and_go():
    """The plugin is asked once for each, not once for each event."""
    plugin = Approval()
    steps = Steps(node("n"), *(pod(f"g{i}") for i in range(10_000)), pre_enqueue=(plugin,))
    asked = plugin.asked
    for index in range(50):
        worker = pod(f"w{index}", labels={"approved": "yes"})
        steps.see(worker).step(Outcome(Bind(worker.target, "n")))
    assert plugin.asked == asked + 50
