"""What keeps a pod out of the queue, what its owner is told, and what lets it in."""

import pytest
from builders import bound, member, node, pod, workload
from steps import Steps

from headgate.gates.pre_enqueue import PRE_ENQUEUE
from headgate.model.cluster_events import ClusterEvent
from headgate.model.effects import Bind, EmitEvent, PatchStatus
from headgate.model.events import Observed, Outcome, TimerFired
from headgate.model.pod import PodGroup, ScheduledCondition
from headgate.model.settings import Profile, Settings

BY_SERVER = ScheduledCondition("False", "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")


APPROVED = {"approved": "yes"}


def shown(reason, message):
    return ScheduledCondition("False", reason, message)


def test_a_gated_pod_is_not_tried_until_its_last_gate_is_gone():
    steps = Steps(node("n"), pod("a", gates=("x", "y")))
    assert steps.binds == {}
    assert steps.see(pod("a", gates=("y",))).binds == {}
    assert steps.see(pod("a")).binds == {"a": "n"}
    assert [decision for decision, _, _ in steps.story] == ["gate", "ungate", "bind"]


def calls(steps):
    return [effect for effect in steps.effects if isinstance(effect, PatchStatus | EmitEvent)]


def test_gates_cost_no_calls_where_the_server_says_what_they_do():
    """A pod of two gates, from its creation to its binding: the text of the server is the one of the plugin."""
    steps = Steps(node("n"), pod("a", gates=("x", "y"), scheduled=BY_SERVER))
    assert calls(steps) == []
    assert calls(steps.see(pod("a", gates=("y",), scheduled=BY_SERVER))) == []
    assert calls(steps.see(pod("a", gates=("y",), scheduled=BY_SERVER, labels={"touched": "yes"}))) == []
    assert steps.see(pod("a", scheduled=BY_SERVER)).kinds == ["Bind"]


def test_a_server_that_says_nothing_is_helped_out_once():
    steps = Steps(node("n"), pod("a", gates=("x", "y")))
    patch, event = calls(steps)
    assert (patch.change.reason, patch.change.message) == (BY_SERVER.reason, BY_SERVER.message)
    assert (event.reason, event.message) == (BY_SERVER.reason, BY_SERVER.message)
    assert calls(steps.see(pod("a", gates=("y",)))) == []
    assert calls(steps.see(pod("a", gates=("y",), scheduled=BY_SERVER))) == []
    assert steps.see(pod("a", scheduled=BY_SERVER)).kinds == ["Bind"]


def test_a_pod_let_in_with_its_gates_on_is_not_called_released():
    settings = Settings(profiles=(Profile(disabled=frozenset({"SchedulingGates"})),))
    steps = Steps(node("n"), pod("a", gates=("x",), scheduled=BY_SERVER), settings=settings)
    assert steps.kinds == ["Bind"]


def test_a_gated_pod_is_never_called_unschedulable():
    steps = Steps(pod("a", gates=("x",)))
    steps.later(600, Observed(node("n", cpu=1)), TimerFired("scheduling"))
    assert not [effect for effect in steps.effects if isinstance(effect, PatchStatus)]


def test_a_restart_says_nothing_again():
    assert Steps(node("n"), pod("a", gates=("x",), scheduled=BY_SERVER)).effects == []


def test_gates_removed_while_we_were_away_are_noticed():
    steps = Steps(node("n"), pod("a", scheduled=BY_SERVER))
    assert (steps.kinds, [entry[0] for entry in steps.story]) == (["Bind"], ["ungate", "bind"])


def test_a_released_pod_that_no_node_takes_is_called_unschedulable_at_once():
    steps = Steps(node("n", cpu=1), pod("a", gates=("x",)))
    steps.see(pod("a", scheduled=BY_SERVER))
    assert steps.only(PatchStatus).change.reason == "Unschedulable"


def test_a_pod_let_go_by_a_plugin_that_must_wait_its_turn_no_longer_says_that_it_is_held():
    settings = Settings(max_in_flight=1)
    plugins = (*PRE_ENQUEUE, Approval())
    steps = Steps(node("n"), pod("first", labels=APPROVED), pod("a"), settings=settings, pre_enqueue=plugins)
    steps.see(pod("a", labels=APPROVED, scheduled=shown("SchedulingGated", "not approved yet")))
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

    def refusal(self, candidate, cluster):
        self.asked += 1
        return None if self.open or "approved" in candidate.labels else "not approved yet"


class Broken:
    name = "Broken"
    wake_on = frozenset()

    def refusal(self, candidate, cluster):
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


class Companions:
    """Somebody's plugin: a member waits until its group has as many pods as there are nodes, and one of them runs."""

    name = "Companions"
    wake_on = frozenset({ClusterEvent.MEMBERS_CHANGED, ClusterEvent.NODE_ADDED, ClusterEvent.NEIGHBOURS_CHANGED})

    def refusal(self, candidate, cluster):
        members = cluster.members(candidate.group)
        described = cluster.workload(candidate.group.workload)
        running = [each for each in members if cluster.node_of(each.key)]
        if described is None or not running:
            return "nobody of its group runs"
        on_nodes = [each for one in cluster.nodes() for each in cluster.pods_on(one.name)]
        assert {each.key for each in running} <= {each.key for each in on_nodes}
        assert {each.key for each in cluster.pods()} >= {each.key for each in members if cluster.pod(each.key)}
        assert cluster.node("n") in cluster.nodes() and cluster.node("nowhere") is None
        return None if len(members) >= len(cluster.nodes()) else f"{len(members)} of {len(cluster.nodes())} are there"


def test_a_plugin_reads_nodes_pods_and_groups_and_is_asked_when_they_change():
    basic = workload("train", PodGroup("workers"))
    nodes = node("n"), node("m"), node("o")
    steps = Steps(*nodes, basic, member("w0"), pre_enqueue=(*PRE_ENQUEUE, Companions()))
    assert steps.binds == {}
    assert steps.see(bound(member("first"), "n")).binds == {}
    (condition,) = [effect.change for effect in steps.effects if isinstance(effect, PatchStatus)]
    assert condition.message == "2 of 3 are there"
    assert set(steps.see(member("w1")).binds) == {"w0", "w1"}


def test_what_a_plugin_was_given_does_not_change_afterwards():
    seen = []

    class Keeping(Approval):
        def refusal(self, candidate, cluster):
            seen.append((cluster.nodes(), cluster.pods()))
            return

    steps = Steps(node("n"), pod("a"), pre_enqueue=(*PRE_ENQUEUE, Keeping()))
    steps.see(node("m"), pod("b"))
    assert [(len(nodes), len(pods)) for nodes, pods in seen[:1]] == [(1, 1)]
