"""Victims for pods that their Volcano queue has no capacity for, within it and of queues beyond their due."""

import pytest
from builders import bound, node, pod, priority_class, shape
from msgspec.structs import replace
from steps import Steps
from volcano_scenes import grouped, pod_group, queue, queued

from headgate.model.effects import Bind, Evict, Nomination, PatchStatus, PodCondition, WakeAt
from headgate.model.events import Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.pod import eviction_mark


def running(name, cpu=1000, of="team", **fields):
    return bound(queued(name, cpu, of, gates=(), **fields), "n")


def evicted(steps):
    return sorted(each.target.key.name for each in steps.effects if isinstance(each, Evict))


def said(steps, name):
    found = [e.change for e in steps.effects if isinstance(e, PatchStatus) and e.target.key.name == name]
    return next((each.reason, each.message) for each in found if isinstance(each, PodCondition))


BIG = node("n", cpu=64_000)


def test_d8_a_gated_pod_preempts_pods_of_lower_priority_in_its_full_queue():
    steps = Steps(queue("team", 1000), BIG, low := running("low"), queued("high", priority=10))
    assert evicted(steps) == ["low"]
    reason, message = said(steps, "high")
    assert reason == "SchedulingGated"
    assert message.endswith("requested cpu 1; preempting 1 pods for it")
    assert steps.binds == {}
    steps.see(replace(low, deleted=50.0))
    assert evicted(steps) == []
    steps.step(Gone(low.key, low.uid))
    assert steps.binds == {"high": "n"}, "at once, without a back-off"


def test_nobody_of_equal_or_higher_priority_leaves():
    steps = Steps(queue("team", 1000), BIG, running("old", priority=5), queued("new", priority=5))
    assert evicted(steps) == []


def test_nobody_leaves_where_that_does_not_help():
    steps = Steps(queue("team", 1000), BIG, running("low"), queued("high", 2000, priority=10))
    assert evicted(steps) == []


def test_the_least_important_and_youngest_leave_and_no_more_than_needed():
    pods = [running("old", created=1.0), running("young", created=2.0), running("better", priority=3, created=3.0)]
    steps = Steps(queue("team", 3000), BIG, *pods, queued("high", priority=10))
    assert evicted(steps) == ["young"]
    pods = [running("large", 2000, created=1.0), running("small", 1000, created=2.0)]
    steps = Steps(queue("team", 3000), BIG, *pods, queued("high", 2000, priority=10))
    assert evicted(steps) == ["large"], "the small one would leave for nothing"


def test_pods_that_are_leaving_already_are_waited_for():
    steps = Steps(queue("team", 1000), BIG, replace(running("low"), deleted=30.0), queued("high", priority=10))
    assert evicted(steps) == []
    assert said(steps, "high")[1].endswith("; waiting for pods that are leaving")


def test_a_pod_that_never_preempts_does_not():
    steps = Steps(queue("team", 1000), BIG, running("low"), queued("high", priority=10, preempts=False))
    assert evicted(steps) == []


def test_a_gang_in_a_queue_leaves_as_a_whole_and_for_a_gang_as_a_whole():
    group = pod_group("old", members=2)
    members = [replace(bound(grouped(f"o{n}", "old"), "n"), gates=()) for n in range(2)]
    steps = Steps(queue("team", 2000), BIG, group, *members, queued("high", priority=10))
    assert evicted(steps) == ["o0", "o1"]
    marks = {eviction_mark(each.message) for each in steps.effects if isinstance(each, Evict)}
    assert [mark.pods for mark in marks] == [2], "one mark, by which a successor finishes what was begun"
    lows = [running(f"low-{n}") for n in range(3)]
    arriving = [grouped(f"m{n}", priority=10) for n in range(2)]
    wanted = replace(pod_group(members=2), priority=10)
    together = Steps(queue("team", 3000), BIG, *lows, wanted, *arriving)
    assert len(evicted(together)) == 2


def test_an_eviction_whose_answer_is_lost_is_sent_again():
    steps = Steps(queue("team", 1000), BIG, running("low"), queued("high", priority=10))
    evict = steps.only(Evict)
    steps.step(Outcome(evict, WriteError.UNKNOWN))
    assert evicted(steps.later(5)) == ["low"]


# pods that did not ask for the gate: nobody leaves unless a node fits them then


def ungated(name, cpu=1000, zone="", **fields):
    made = pod(name, cpu, annotations={"scheduling.volcano.sh/queue-name": "team"}, **fields)
    return replace(made, shape=replace(made.shape, node_selector=(("zone", zone),))) if zone else made


def test_a_pod_that_keeps_nothing_preempts_in_its_queue_once_a_node_comes_that_fits_it():
    steps = Steps(queue("team", 1000), BIG, running("low"), ungated("high", zone="b", priority=10))
    assert evicted(steps) == [], "it could not use what is left to it"
    assert evicted(steps.later(20).see(node("m", cpu=4000, labels={"zone": "b"}))) == ["low"]


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(ungated("first", zone="c", priority=10), id="that no node fits"),
        pytest.param(ungated("first", priority=10, preempts=False), id="that never preempts"),
    ],
)
def test_a_pod_preempts_in_its_queue_also_if_it_waits_with_another(first):
    steps = Steps(
        queue("team", 1000), BIG, running("low"), first, ungated("second", zone="b", priority=10, created=1.0)
    )
    assert evicted(steps) == []
    assert evicted(steps.later(20).see(node("m", cpu=4000, labels={"zone": "b"}))) == ["low"]


# between queues


def shared(**other):
    """Two queues share 2 CPU; the second uses both, and deserves one."""
    tree = [queue("org", 2000), queue("team", None, "org", deserved=1000), queue("other", None, "org", **other)]
    return [*tree, BIG, running("b0", of="other", priority=9), running("b1", of="other", priority=9, created=1.0)]


def test_a_queue_takes_back_what_it_deserves_from_one_that_uses_more():
    steps = Steps(*shared(deserved=1000), queued("mine"))
    assert evicted(steps) == ["b1"], "whatever its priority: the youngest"


@pytest.mark.parametrize(
    "other, mine",
    [
        pytest.param({"deserved": 1000, "reclaimable": False}, 1000, id="from a queue that is not reclaimable"),
        pytest.param({"deserved": 2000}, 1000, id="from a queue that uses what it deserves"),
        pytest.param({"deserved": 1000, "guarantee": 1500}, 1000, id="below what the other is guaranteed"),
        pytest.param({}, 2000, id="for more than the queue deserves itself"),
    ],
)
def test_nothing_is_taken_back(other, mine):
    assert evicted(Steps(*shared(**other), queued("mine", mine))) == []


def test_no_queue_gives_back_what_it_is_guaranteed():
    """Without its large pod the other queue would have less than that, and the queue above still enough for mine."""
    tree = [queue("org", 2500), queue("team", None, "org", deserved=1000)]
    other = queue("other", None, "org", deserved=1500, guarantee=1500)
    pods = [running("large", 2000, of="other"), running("small", 500, of="other", created=1.0)]
    assert evicted(Steps(*tree, other, BIG, *pods, queued("mine"))) == []


def test_the_queue_of_lower_priority_gives_back_first():
    tree = [queue("org", 2000), queue("team", None, "org", deserved=1000)]
    others = [queue("first", None, "org", priority=1), queue("last", None, "org", priority=2)]
    pods = [running("a", of="last", created=9.0), running("b", of="first")]
    assert evicted(Steps(*tree, *others, BIG, *pods, queued("mine"))) == ["b"]


def test_pods_outside_queues_are_nobodys_victims_here():
    outside = bound(pod("outside", 1000, priority=-5), "n")
    steps = Steps(queue("team", 0), node("n", cpu=8000), outside, queued("high", priority=10))
    assert evicted(steps) == []


# where no queue is short, and nodes are


HERE = (("zone", "a"),)
FULL = node("n", cpu=2000, labels=dict(HERE))
OTHERS = [running(f"b{at}", of="other", priority=9, created=float(at)) for at in range(2)]


def nominated(steps):
    """The pods for whose sake somebody leaves, and the evictions, once their nominations are accepted."""
    found = [e for e in steps.effects if isinstance(e, PatchStatus) and isinstance(e.change, Nomination)]
    steps.step(*map(Outcome, found))
    return sorted(each.target.key.name for each in found), evicted(steps)


def test_a_queue_takes_back_what_it_deserves_on_a_node():
    queues = queue("team", None, deserved=1000), queue("other", None, deserved=1000)
    assert nominated(Steps(*queues, FULL, *OTHERS, queued("mine"))) == (["mine"], ["b1"])


def test_of_pods_that_wait_the_first_ones_take_back_what_their_queue_deserves():
    queues = queue("team", None, deserved=1000), queue("other", None)
    waiting = [queued(name, created=float(at)) for at, name in enumerate(["first", "second", "third"])]
    preemptors, victims = nominated(Steps(*queues, FULL, *OTHERS, *waiting))
    assert (preemptors, len(victims)) == (["first"], 1)


@pytest.mark.parametrize(
    "team, other, priority",
    [
        pytest.param({"deserved": 1000}, {"deserved": 1000, "reclaimable": False}, 0, id="from one not reclaimable"),
        pytest.param({"deserved": 1000}, {"deserved": 2000}, 0, id="from one that uses what it deserves"),
        pytest.param({"deserved": 1000}, {"guarantee": 1500}, 0, id="below what the other is guaranteed"),
        pytest.param({"deserved": 500}, {}, 0, id="for more than the queue deserves itself"),
        pytest.param({}, {"deserved": 2000}, 99, id="from one that uses what it deserves, by a higher priority"),
        pytest.param({}, {"reclaimable": False}, 99, id="from one not reclaimable, by a higher priority"),
    ],
)
def test_nothing_is_taken_back_on_a_node(team, other, priority):
    queues = queue("team", None, **team), queue("other", None, **other)
    assert nominated(Steps(*queues, FULL, *OTHERS, queued("mine", priority=priority))) == ([], [])


@pytest.mark.parametrize("other", [{}, {"deserved": 1000}], ids=["that deserves nothing", "beyond what it deserves"])
def test_a_pod_of_higher_priority_preempts_pods_of_a_queue(other):
    queues = queue("team", None), queue("other", None, **other)
    preemptors, victims = nominated(Steps(*queues, FULL, *OTHERS, queued("mine", priority=99)))
    assert (preemptors, len(victims)) == (["mine"], 1)


def test_a_pod_in_no_queue_preempts_by_priority():
    queues = [queue("other", None, deserved=2000)]
    preemptors, victims = nominated(Steps(*queues, FULL, *OTHERS, pod("outside", 1000, priority=99)))
    assert (preemptors, len(victims)) == (["outside"], 1)


def test_what_is_taken_back_does_not_go_to_pods_of_the_other_queue_that_come_back():
    """Although those take their turn first."""
    queues = queue("team", None, deserved=1000), queue("other", None, deserved=1000, priority=1)
    steps = Steps(*queues, FULL, *OTHERS, queued("mine"))
    nominated(steps)
    again = queued("again", of="other", priority=9)
    steps.step(Gone(OTHERS[1].key, OTHERS[1].uid), Observed(again))
    assert steps.binds == {"mine": "n"}
    assert said(steps, "again")[1].startswith("waiting until queue team has taken back what it deserves")


def test_what_is_taken_back_does_not_go_to_a_gang_that_is_more_than_its_queue_deserves():
    """Of which each pod by itself would be within."""
    queues = queue("team", None, deserved=1000), queue("other", None, deserved=1000)
    gang = replace(pod_group(members=2, of="other"), priority_class="high")
    again = [grouped(f"m{n}", priority=9, created=float(n)) for n in range(2)]
    mine = replace(queued("mine", gated=False), nominated="n")
    steps = Steps(*queues, FULL, priority_class("high", 9), gang, *again, mine)
    assert steps.binds == {"mine": "n"}
    assert said(steps, "m0")[1].startswith("waiting until queue team has taken back what it deserves")


@pytest.mark.parametrize(
    "selector, stuck",
    [
        pytest.param((("zone", "b"),), False, id="that may not run on that node"),
        pytest.param((), True, id="while a pod does not leave the node in time"),
    ],
)
def test_what_is_taken_back_keeps_no_pod_waiting(selector, stuck):
    queues = queue("team", None, deserved=1000), queue("other", None, deserved=1000)
    steps = Steps(*queues, FULL, *OTHERS, queued("mine", shape=shape(1000, node_selector=HERE)))
    nominated(steps)
    deleted = 0.0 if stuck else 1000.0
    again = queued("again", of="other", priority=9, shape=shape(1000, node_selector=selector))
    leaving = replace(OTHERS[1], version="2", deleted=deleted)
    steps.later(5, *map(Observed, (leaving, node("m", cpu=1000, labels={"zone": "b"}), again)))
    assert steps.binds == {"again": "m"}


def test_what_is_taken_back_keeps_a_pod_waiting_until_the_victim_should_be_gone_and_no_longer():
    queues = queue("team", None, deserved=1000), queue("other", None, deserved=1000)
    steps = Steps(*queues, FULL, *OTHERS, queued("mine", shape=shape(1000, node_selector=HERE)))
    nominated(steps)
    leaving, again = replace(OTHERS[1], version="2", deleted=30.0), queued("again", of="other", priority=9)
    steps.later(5, *map(Observed, (leaving, node("m", cpu=1000), again)))
    assert (steps.binds, steps.only(WakeAt).at) == ({}, 30.0)
    steps.later(25, TimerFired("scheduling"))
    assert steps.binds == {"again": "m"}


def test_a_pod_that_waits_while_a_node_is_taken_back_is_unschedulable_if_it_reserves_its_capacity():
    queues = queue("team", None, deserved=1000), queue("other", None, deserved=1000)
    leaving, mine = replace(OTHERS[1], deleted=1000.0), replace(queued("mine", gated=False), nominated="n")
    theirs = [queued("let go", of="other", gated=False, priority=9), queued("gated", of="other", priority=9)]
    steps = Steps(*queues, FULL, OTHERS[0], leaving, mine, *theirs)
    waits = "waiting until queue team has taken back what it deserves on node n"
    assert [said(steps, each.key.name) for each in theirs] == [("Unschedulable", waits), ("SchedulingGated", waits)]


def test_a_queue_takes_back_once_another_uses_more_than_it_deserves():
    queues = queue("team", None, deserved=1000), queue("other", None, deserved=2000)
    mine = queued("mine", shape=shape(1000, node_selector=HERE))
    steps = Steps(*queues, FULL, node("m", labels={"zone": "b"}), *OTHERS, mine)
    assert nominated(steps) == ([], [])
    steps.later(20, Observed(bound(queued("b2", of="other", gates=()), "m")))
    assert nominated(steps) == (["mine"], ["b1"])


def test_a_preemptor_whose_binding_fails_keeps_its_node_while_it_backs_off():
    """Otherwise its victim, made anew with more priority, would come back there and be evicted once more."""
    queues = queue("team", None, deserved=1000), queue("other", None, deserved=1000, priority=1)
    steps = Steps(*queues, FULL, *OTHERS, queued("mine"))
    nominated(steps)
    steps.step(Observed(replace(queued("mine"), version="2", nominated="n")), Gone(OTHERS[1].key, OTHERS[1].uid))
    bind = steps.only(Bind)
    steps.step(Outcome(bind, WriteError.UNAVAILABLE), Observed(queued("again", of="other", priority=9)))
    assert steps.binds == {}
    assert said(steps, "again")[1].startswith("waiting until queue team has taken back what it deserves")
