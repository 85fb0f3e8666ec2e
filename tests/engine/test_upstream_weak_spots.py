"""What kube-scheduler's gangs and preemption are known to get wrong, and what happens here instead."""

import time

from builders import bound, gang, member, node, pod, priority_class, workload
from msgspec.structs import replace
from steps import Steps
from test_preempting import evictions, gone, nominations, preempted, recorded

from headgate.api.requests import calls_for
from headgate.model.effects import EmitEvent, Evict
from headgate.model.events import Gone, Observed

HIGH = priority_class("high", 10)
TRAIN = workload("train", gang(2), priority_class="high")
MEMBERS = member("w0"), member("w1")
TWO = node("n", cpu=100), node("m", cpu=100)
LOW = bound(pod("low-n", priority=1), "n"), bound(pod("low-m", priority=1), "m")


class Counting:
    """Lets everyone in and counts how often it was asked."""

    name = "Counting"
    wake_on = frozenset()

    def __init__(self):
        self.asked = 0

    def refusal(self, pod, cluster):
        self.asked += 1


def attempts(steps, result):
    return steps.number("scheduler_schedule_attempts_total", profile="headgate", result=result)


def test_a_group_clears_less_important_promises_on_every_node_it_takes():
    """There the group's domain is called `cluster`, a node nobody has, and promises on it are never cleared."""
    middle = pod("middle", priority=5, nominated="m")
    going = [replace(each, deleted=30.0) for each in LOW]
    steps = Steps(*TWO, *going, middle).see(HIGH, TRAIN, *MEMBERS)
    assert sorted(nominations(steps)) == ["w0", "w1"]
    assert nominations(recorded(steps)) == {"middle": ""}


def test_a_victim_is_told_the_node_it_leaves_and_not_the_name_of_a_domain():
    steps = preempted(*TWO, *LOW, HIGH, TRAIN, *MEMBERS)
    said = {each.target.key.name: each.message for each in steps.effects if isinstance(each, EmitEvent)}
    assert said["low-n"].endswith("on node n")
    assert said["low-m"].endswith("on node m")


def test_gangs_broken_by_a_single_pod_are_counted():
    """There only groups count the groups they disrupt."""
    running = bound(member("v0", of="victim"), "n"), bound(member("v1", of="victim"), "m")
    steps = preempted(*TWO, workload("victim", gang(2, whole=True)), *running, pod("boss", priority=10))
    recorded(steps)
    (receipt,) = [entry for entry in steps.engine.journal.take() if entry.decision == "preempt"]
    assert (receipt.numbers["gangs broken"], receipt.numbers["units"], receipt.numbers["victims"]) == (1, 1, 2)


def test_a_thousand_victims_do_not_stop_everything_else():
    """There every one of them is tried again against every member. Here it takes some thousandths of a second."""
    nodes = [node(f"n{i}", cpu=1000) for i in range(100)]
    low = [bound(pod(f"low-{i}", cpu=100, priority=1), f"n{i % 100}") for i in range(1000)]
    members = [member(f"w{i}", cpu=1000) for i in range(100)]
    steps = Steps(*nodes, *low, HIGH, workload("train", gang(100), priority_class="high"), *members[:-1])
    before = time.process_time()
    steps.see(members[-1])
    assert len(nominations(steps)) == 100
    assert time.process_time() - before < 1.0


def test_a_gang_of_n_asks_at_the_door_n_times_and_not_n_squared_times():
    door = Counting()
    steps = Steps(node("n", cpu=100_000, pods=500), workload("train", gang(200)), pre_enqueue=(door,))
    for index in range(200):
        steps.see(member(f"w{index}"))
    assert len(steps.binds) == 200
    assert door.asked == 200


def test_a_pod_that_comes_wakes_nobody_whom_it_does_not_concern():
    """There every new pod of a group has all that wait looked at."""
    parked = [pod(f"parked-{i}", cpu=5000) for i in range(20)]
    steps = Steps(node("n"), *parked, workload("train", gang(50)))
    tried = attempts(steps, "unschedulable")
    for index in range(49):
        steps.see(member(f"w{index}", cpu=1))
    assert attempts(steps, "unschedulable") == tried


def test_the_preemptor_is_tried_when_its_last_victim_has_left_and_not_with_the_next_flush():
    """There a second round of the same preemption can leave it parked for five minutes."""
    steps = preempted(*TWO, *LOW, HIGH, TRAIN, *MEMBERS)
    steps.later(0.5, Observed(replace(MEMBERS[0], labels={"touched": "yes"})))
    assert evictions(steps) == []
    steps.later(0.1, gone(LOW[0]))
    assert sorted(steps.later(0.1, gone(LOW[1])).binds) == ["w0", "w1"]


def test_a_promise_that_can_no_longer_be_kept_is_noticed():
    """There a group goes on waiting while any of its victims is still on its way out."""
    going = replace(LOW[0], deleted=30.0)
    taken = bound(pod("boss", priority=99), "m")
    other = node("o", cpu=100), bound(pod("low-o", priority=1), "o")
    members = member("w0", nominated="n"), member("w1", nominated="m")
    steps = Steps(*TWO, *other, going, taken, HIGH, TRAIN, *members)
    assert evictions(recorded(steps)) == ["low-o"]


def test_an_eviction_names_the_very_pod_and_not_one_that_came_after_it():
    """There victims are deleted by name alone."""
    steps = preempted(*TWO, *LOW, HIGH, TRAIN, *MEMBERS)
    first = next(each for each in steps.effects if isinstance(each, Evict))
    *_, deletion = calls_for(first, "test")
    assert first.target.uid.encode() in deletion.body


def test_a_pod_whose_binding_is_on_its_way_can_be_a_victim():
    steps = Steps(TWO[0], pod("low", priority=1))
    assert steps.binds == {"low": "n"}
    steps.see(pod("boss", priority=10))
    assert evictions(recorded(steps)) == ["low"]


def test_a_gang_with_a_gated_member_comes_back_when_its_gate_goes():
    steps = Steps(node("n"), TRAIN, HIGH, MEMBERS[0], member("w1", gates=("example.com/wait",)))
    assert steps.binds == {}
    assert sorted(steps.see(MEMBERS[1]).binds) == ["w0", "w1"]


def test_a_member_of_another_priority_holds_nobody_up():
    """There one pod that disagrees with its group fails the whole group."""
    steps = Steps(node("n"), HIGH, TRAIN, MEMBERS[0], member("w1", priority=3))
    assert sorted(steps.binds) == ["w0", "w1"]


def test_a_gang_goes_on_when_a_member_goes_away_in_the_middle():
    """There a group could stay stuck; here the next in line takes the place of the one that went."""
    steps = preempted(*TWO, *LOW, HIGH, TRAIN, *MEMBERS, member("w2", created=1.0))
    steps.step(Gone(MEMBERS[1].key, MEMBERS[1].uid), gone(LOW[0]), gone(LOW[1]))
    assert sorted(steps.binds) == ["w0", "w2"]
