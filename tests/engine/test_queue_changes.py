"""Queues, groups, nodes and pods change while others wait: nobody is left with the answer of an earlier time."""

import pytest
from builders import amounts, bound, node
from msgspec.structs import replace
from volcano_scenes import Queues, elsewhere, grouped, pod_group, queue, queued

from headgate.model.effects import Bind, PatchSpec, QueueReservation, RemoveGate
from headgate.model.events import Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.node import Taint, TaintEffect
from headgate.model.settings import Settings, VolcanoSettings
from headgate.model.volcano import QUEUE_GATE, DequeueStrategy

TIMES = Settings(volcano=VolcanoSettings(reservation_timeout=100.0))
FIFO = {"dequeue": DequeueStrategy.FIFO}
BIG = node("n", cpu=16_000)


def running(name, cpu=1000, of="team", **fields):
    return bound(queued(name, cpu, of, gates=(), **fields), "n")


# pods that move


def test_a_pod_that_reserves_and_names_a_queue_that_is_not_there_is_unschedulable_no_longer():
    steps = Queues(queue("team", 1000), elsewhere("a"))
    steps.see(replace(elsewhere("a", of="gone", gated=False), reserved_at=0.0))
    assert steps.reasons == {"a": "SchedulingGated"}


def test_a_pod_that_was_gated_and_let_in_within_one_step_is_tried_again_when_it_names_another_queue():
    foreign = queued("a", gates=("example.com/theirs", QUEUE_GATE))
    steps = Queues(queue("team", 0), queue("other", 1000), BIG)
    steps.step(Observed(foreign), Observed(queued("a")))
    assert steps.reasons["a"] == "SchedulingGated"
    assert steps.see(queued("a", of="other")).bound == {"a": "n"}


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(running("old", of="other"), id="names a queue that is guaranteed as much"),
        pytest.param(running("old", 500), id="is resized"),
    ],
)
def test_what_a_running_pod_gives_back_starts_another(after):
    tree = [queue("org", 3000), queue("team", None, "org"), queue("other", None, "org", guarantee=1000)]
    steps = Queues(*tree, BIG, running("old"), queued("a", 1500 if after.shape.requests["cpu"] == 500 else 2000))
    assert steps.reasons == {"a": "SchedulingGated"}
    steps.later(20.0).see(after)
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.bound == {"a": "n"}


# fifo


def test_in_a_fifo_queue_the_second_in_line_is_the_first_when_the_first_has_left():
    first, second = queued("first", 3000, created=1.0), queued("second", 2000, created=2.0)
    steps = Queues(queue("team", 1000, **FIFO), BIG, first, second, queued("small", 500, created=3.0))
    steps.later(20.0, Gone(first.key, first.uid))
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.bound == {}
    steps.see(queued("late", 500, created=4.0))
    assert steps.messages["late"] == "waiting behind default/second, the first in queue team"


@pytest.mark.parametrize("becomes, bound_then", [("fifo", {}), ("traverse", {"small": "n"})])
def test_from_the_moment_a_queue_gets_another_dequeue_strategy_it_counts(becomes, bound_then):
    before, after = sorted(DequeueStrategy, key=lambda each: each == becomes)
    steps = Queues(queue("team", 1000, dequeue=before), BIG, queued("big", 2000, created=1.0))
    steps.later(20.0).see(queue("team", 1000, dequeue=after, version="2"))
    steps.later(20.0, Observed(queued("small", 500, created=2.0)))
    assert steps.bound == bound_then


@pytest.mark.parametrize("leaves", ["names another queue", "was bound by somebody else"])
def test_nobody_waits_behind_a_pod_that(leaves):
    big = queued("big", 2000, created=1.0)
    steps = Queues(queue("team", 1000, **FIFO), queue("other", 0), BIG, big, queued("small", 500, created=2.0))
    assert steps.bound == {}
    after = {
        "names another queue": queued("big", 2000, "other", created=1.0),
        "was bound by somebody else": bound(queued("big", 200, created=1.0, gates=()), "n"),
    }
    steps.later(20.0).see(after[leaves])
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.bound == {"small": "n"}


def test_a_gang_waits_in_the_place_of_its_oldest_member():
    members = [grouped("m0", created=1.0), grouped("m1", created=9.0)]
    between = queued("between", 500, created=5.0)
    steps = Queues(queue("team", 1000, **FIFO), pod_group(members=2), BIG, *members, between)
    assert steps.bound == {}
    assert steps.messages["between"] == "waiting behind default/m0, the first in queue team"


def test_nobody_waits_behind_a_gang_that_has_too_few_members():
    members = [grouped("m0", created=1.0), grouped("m1", created=2.0)]
    steps = Queues(queue("team", 1000, **FIFO), pod_group(members=2), BIG, *members, queued("small", 500, created=5.0))
    assert steps.bound == {}
    steps.later(20.0, Gone(members[1].key, members[1].uid))
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.bound == {"small": "n"}


def test_of_a_gang_that_has_started_a_member_too_many_holds_its_own_place_and_no_other():
    members = [grouped("m0", created=1.0), grouped("m1", created=2.0), grouped("m2", cpu=5000, created=3.0)]
    steps = Queues(queue("team", 3000, **FIFO), pod_group(members=2), BIG, *members)
    assert set(steps.bound) == {"m0", "m1"}
    steps.see(queued("late", 500, created=4.0), queued("early", 500, created=2.5))
    assert steps.messages["late"] == "waiting behind default/m2, the first in queue team"
    assert steps.binds == {"early": "n"}


def test_of_a_gang_in_a_fifo_queue_no_member_waits_behind_another():
    """The gang needs one, and one that asked for no gate comes first, although another one is older."""
    older = grouped("m0", cpu=2000, created=1.0)
    younger = replace(grouped("m1", cpu=2000, gates=(), created=2.0), annotations={})
    steps = Queues(queue("team", 3000, **FIFO), pod_group(members=1), BIG, older, younger)
    assert steps.bound == {"m1": "n"}
    assert steps.reasons == {"m0": "SchedulingGated"}


def test_of_a_gang_in_a_fifo_queue_members_that_fit_do_not_wait_behind_the_oldest_that_does_not():
    members = [grouped("m0", cpu=5000, created=1.0), grouped("m1", created=2.0), grouped("m2", created=3.0)]
    steps = Queues(queue("team", 3000, **FIFO), pod_group(members=2), BIG, *members)
    assert set(steps.bound) == {"m1", "m2"}


def test_nobody_waits_behind_a_member_that_is_too_large_once_its_gang_starts_without_it():
    large, small = grouped("large", cpu=3000, created=1.0), grouped("small", created=2.0)
    steps = Queues(queue("team", 2000, **FIFO), pod_group(members=1), large, small)
    assert steps.let_go == ["small"]
    steps.see(queued("late", created=3.0))
    assert steps.let_go == ["late"]


def test_a_pod_whose_priority_falls_does_not_wait_behind_itself_nor_keep_its_place():
    first, second = queued("first", 2000, priority=9, created=1.0), queued("second", 1500, priority=5, created=2.0)
    steps = Queues(queue("team", 1000, **FIFO), BIG, first, second)
    steps.see(replace(first, priority=1, shape=replace(first.shape, node_selector=(("gpu", "yes"),))))
    assert steps.messages["first"] == "waiting behind default/second, the first in queue team"
    steps.later(20.0).see(queue("team", 1500, version="2", **FIFO))
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.bound == {"second": "n"}


def test_who_leaves_a_fifo_queue_where_nobody_waits_behind_it_keeps_nobody_of_another_queue_waiting():
    """Whoever was tried in vain backs off."""
    alone, old = queued("alone", of="line"), running("old")
    steps = Queues(queue("line", 0, **FIFO), queue("team", 1000), BIG, old, alone, queued("next", created=1.0))
    steps.later(20.0, Gone(alone.key, alone.uid))
    assert steps.step(Gone(old.key, old.uid)).bound == {"next": "n"}


# gangs


def test_a_gang_reserves_also_for_members_that_did_not_ask_for_the_gate():
    """Otherwise others would take what they need, and autoscalers would buy nodes for a gang that may not start."""
    plain = replace(grouped("m0", gates=()), annotations={})
    steps = Queues(queue("team", 2000), pod_group(members=2), plain, grouped("m1", created=1.0))
    assert sorted(steps.let_go) == ["m0", "m1"]
    steps.see(BIG, queued("other", created=2.0))
    steps.later(20.0, TimerFired("scheduling"))
    assert set(steps.bound) == {"m0", "m1"}


def test_once_a_pod_of_a_group_runs_the_others_do_not_wait_for_its_min_resources():
    group = pod_group(volcano={"min_resources": amounts(3000)})
    steps = Queues(queue("team", 2000), BIG, group, grouped("gated"))
    assert "minResources" in steps.messages["gated"]
    steps.later(20.0).see(grouped("let-go", gated=False, created=1.0))
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.bound == {"let-go": "n", "gated": "n"}


def test_of_a_gang_any_members_that_the_queue_allows_start():
    members = [grouped("m0", cpu=5000, created=1.0), grouped("m1", created=2.0), grouped("m2", created=3.0)]
    steps = Queues(queue("team", 2000), pod_group(members=2), BIG, *members)
    assert set(steps.bound) == {"m1", "m2"}


def test_of_a_gang_that_its_queue_does_not_allow_only_members_that_did_not_ask_for_the_gate_are_unschedulable():
    plain = replace(grouped("m0", gates=()), annotations={})
    steps = Queues(queue("team", 0), pod_group(members=2), BIG, plain, grouped("m1", created=1.0))
    assert steps.reasons == {"m0": "Unschedulable", "m1": "SchedulingGated"}


def test_of_a_gang_any_members_reserve_that_the_queue_has_capacity_for():
    made = [grouped(f"m{n}", cpu=2000 if n == 0 else 500, gated=False, created=float(n)) for n in range(3)]
    members = [replace(each, reserved_at=0.0) for each in made]
    steps = Queues(queue("team", 1000), pod_group(members=2), *members)
    reserving = steps.engine._planes[0].queue_capacity.in_force
    assert {key.name for key in reserving} == {"m1", "m2"}
    assert steps.let_go == []


def test_members_that_were_let_go_come_first():
    """Otherwise a member that reserves the last of the queue would wait for one that is not needed."""
    members = [grouped("m0", created=1.0), grouped("m1", created=2.0, gated=False)]
    steps = Queues(queue("team", 1000), pod_group(members=1), BIG, *members)
    assert set(steps.bound) == {"m1"}


def test_pods_of_a_group_that_is_no_gang_reserve_each_for_itself():
    small, big = grouped("small", cpu=500, gated=False), grouped("big", cpu=2000, gated=False, created=1.0)
    steps = Queues(queue("team", 1000), pod_group(), small, big)
    assert steps.reasons == {"small": "Unschedulable", "big": "SchedulingGated"}


def test_a_gang_that_needs_fewer_members_reserves_for_those_that_fit():
    members = [grouped(f"m{n}", gated=False, created=float(n)) for n in range(3)]
    steps = Queues(queue("team", 2000), pod_group(members=3), *members)
    assert set(steps.reasons.values()) == {"SchedulingGated"}
    steps.later(20.0).see(pod_group(members=2, version="2"))
    steps.later(20.0, TimerFired("scheduling"))
    reserving = steps.engine._planes[0].queue_capacity.in_force
    assert {key.name for key in reserving} == {"m0", "m1"}


def test_a_gang_of_which_one_more_member_is_let_go_reserves_anew_as_a_whole():
    nowhere = {"node_selector": (("gpu", "yes"),)}
    old, new = grouped("m0", gated=False), grouped("m1", created=1.0)
    old = replace(old, reserved_at=0.0, shape=replace(old.shape, **nowhere))
    steps = Queues(queue("team", 2000), pod_group(members=1), old, settings=TIMES)
    steps.later(100.0, TimerFired("scheduling"))
    assert steps.reasons == {"m0": "SchedulingGated"}, "its time is over"
    steps.later(20.0).see(pod_group(members=2, version="2"), replace(new, shape=replace(new.shape, **nowhere)))
    assert steps.let_go == ["m1"]
    assert steps.reasons == {"m0": "Unschedulable", "m1": "Unschedulable"}


def test_a_reservation_that_is_displaced_is_not_shown_to_autoscalers_also_while_its_pod_backs_off():
    steps = Queues(queue("team", 1000), low := elsewhere("low"))
    steps.see(replace(low, gates=(), reserved_at=0.0), BIG)
    steps.see(queued("high", priority=9, created=1.0))
    assert steps.bound == {"high": "n"}
    assert steps.reasons == {"low": "SchedulingGated"}


def test_a_displaced_reservation_is_not_shown_to_autoscalers_also_while_its_pod_backs_off_after_a_failed_binding():
    low = replace(elsewhere("low", gated=False), reserved_at=0.0)
    steps = Queues(queue("team", 1000), BIG, low)
    assert steps.reasons == {"low": "Unschedulable"}
    bind = steps.later(20.0).see(node("gpu", labels={"gpu": "yes"})).only(Bind)
    steps.step(Outcome(bind, WriteError.UNAVAILABLE)).see(queued("high", priority=9, created=1.0))
    assert steps.bound == {"low": "gpu", "high": "n"}
    assert steps.reasons == {"low": "SchedulingGated"}


# pods that somebody else lets go


def let_go_by_another():
    """A pod that waited longer than reservations last when it was to reserve, and how it is without that removal."""
    steps = Queues(settings=TIMES)
    steps.now = 500.0
    steps.see(queue("team", 1000), BIG, elsewhere("a"))
    assert (steps.let_go, steps.reasons) == (["a"], {"a": "Unschedulable"})
    return steps, steps.removal("a"), elsewhere("a", gated=False)


def test_a_pod_that_somebody_else_lets_go_while_we_do_reserves_anew_before_others_start():
    steps, removal, ungated = let_go_by_another()
    steps.see(ungated, queued("b", created=1.0))
    assert steps.removal("a").change == QueueReservation(500.0, (), True)
    assert (steps.bound, steps.reasons) == ({}, {"b": "SchedulingGated"})
    steps.step(Outcome(removal, WriteError.CONFLICT), Observed(queued("c", created=2.0)))
    assert (steps.bound, steps.reasons) == ({}, {"c": "SchedulingGated"}), "that removal does not count any more"


def test_a_pod_whose_removal_met_that_of_somebody_else_is_told_at_once_that_it_came_too_late():
    steps, removal, ungated = let_go_by_another()
    steps.step(Outcome(removal, WriteError.CONFLICT), Observed(queued("b", created=1.0)))
    assert (steps.bound, steps.let_go) == ({"b": "n"}, []), "until then the pod is gated as before"
    assert steps.see(ungated).reasons == {"a": "SchedulingGated"}, "no write failed, so it does not back off"


def test_a_pod_that_is_let_go_with_an_earlier_time_than_the_last_one_written_reserves_anew_before_others_start():
    """Its time was over, and it was to reserve again, before the first removal was seen."""
    steps = Queues(queue("team", 1000), BIG, elsewhere("a"), settings=TIMES)
    steps.later(250.0, TimerFired("scheduling"))
    assert steps.removal("a").change == QueueReservation(250.0, ((0, QUEUE_GATE),), True)
    steps.see(replace(elsewhere("a", gated=False), reserved_at=0.0), queued("b", created=1.0))
    assert steps.removal("a").change == QueueReservation(250.0, (), True)
    assert (steps.bound, steps.reasons) == ({}, {"b": "SchedulingGated"})


def test_a_pod_that_somebody_else_lets_go_displaces_no_reservation_however_old_it_is():
    first = replace(elsewhere("first", gated=False, created=50.0), reserved_at=60.0)
    steps = Queues(settings=TIMES)
    steps.now = 70.0
    steps.see(queue("team", 1000), node("n"), first, elsewhere("old", created=1.0))
    steps.see(elsewhere("old", gated=False, created=1.0))
    assert (steps.let_go, steps.reasons) == ([], {})


@pytest.mark.parametrize("group", [None, grouped("a").group], ids=["by itself", "whose PodGroup is not there"])
def test_a_pod_that_is_found_without_a_time_reserves_from_then_on_and_not_for_ever(group):
    """Somebody else removed its gate, or the process ended before it was bound, long after it was made."""
    found, other = elsewhere("a", gated=False, group=group), queued("b", created=1.0)
    steps = Queues(settings=TIMES)
    steps.now = 500.0
    steps.see(queue("team", 1000), BIG, found, other)
    assert steps.removal("a").change == QueueReservation(500.0, (), True)
    assert (steps.bound, steps.reasons["b"]) == ({}, "SchedulingGated")
    fresh = Queues(settings=TIMES)
    fresh.now = 599.0
    fresh.see(queue("team", 1000), BIG, replace(found, reserved_at=500.0), other)
    assert (fresh.bound, fresh.let_go) == ({}, [])
    for each in (steps, fresh):
        each.later(600.0 - each.now, TimerFired("scheduling"))
        assert each.bound == {"b": "n"}


@pytest.mark.parametrize("trouble", [WriteError.UNAVAILABLE, WriteError.UNKNOWN, WriteError.REFUSED])
def test_a_time_that_could_not_be_noted_counts_and_is_sent_again(trouble):
    steps = Queues(settings=TIMES)
    steps.now = 500.0
    steps.see(queue("team", 1000), BIG, elsewhere("a", gated=False))
    noted = steps.removal("a")
    steps.step(Outcome(noted, trouble), Observed(queued("b", created=1.0)))
    assert (steps.let_go, steps.reasons) == ([], {"b": "SchedulingGated"}), "not before a back-off"
    assert steps.later(2.0, TimerFired("scheduling")).removal("a") == noted


# nodes


def test_a_node_that_is_being_brought_up_keeps_a_reservation_also_if_it_comes_after_its_time():
    waits = replace(elsewhere("a", gated=False), reserved_at=0.0)
    steps = Queues(queue("team", 1000), BIG, waits, settings=TIMES)
    steps.later(110.0, TimerFired("scheduling"))
    assert steps.reasons == {"a": "SchedulingGated"}
    starting = (Taint("node.kubernetes.io/not-ready", "", TaintEffect.NO_SCHEDULE),)
    steps.see(node("gpu", cpu=100, taints=starting))
    assert steps.reasons == {"a": "Unschedulable"}
    steps.see(node("gpu", cpu=100))
    assert steps.reasons == {"a": "SchedulingGated"}


# writes


def test_a_member_whose_removal_was_refused_is_let_go_with_its_gate_the_next_time():
    """It is queued by itself, in a group that is no gang: the entry in the queue must show the gate again."""
    steps = Queues(queue("team", 1000), pod_group(), grouped("m0"))
    steps.step(Outcome(steps.removal("m0"), WriteError.REFUSED))
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.removal("m0").change == QueueReservation(20.0, ((0, QUEUE_GATE),), True)


def test_a_lost_removal_is_sent_again_with_the_binding_until_both_have_taken_hold():
    steps = Queues(queue("team", 1000), BIG, made := queued("a"))
    bind = steps.only(Bind)
    steps.step(Outcome(steps.only(RemoveGate), WriteError.UNKNOWN), Outcome(bind, WriteError.UNKNOWN))
    for _ in range(3):
        steps.later(20.0, TimerFired("scheduling"))
        assert [e for e in steps.effects if isinstance(e, RemoveGate | Bind)] == [
            RemoveGate(made.target, QUEUE_GATE, 0),
            bind,
        ]
        steps.step(Outcome(bind, WriteError.CONFLICT))


def test_a_removal_that_is_under_way_is_sent_again_although_the_binding_failed_meanwhile():
    steps = Queues(queue("team", 1000), elsewhere("a"))
    removal = steps.removal("a")
    steps.step(Outcome(removal, WriteError.UNKNOWN)).see(node("gpu", labels={"gpu": "yes"}))
    steps.later(1.0, TimerFired("scheduling"))
    assert steps.bound == {"a": "gpu"}
    steps.step(Outcome(removal, WriteError.UNKNOWN), Outcome(Bind(removal.target, "gpu"), WriteError.CONFLICT))
    steps.later(20.0, TimerFired("scheduling"))
    assert removal in [each for each in steps.effects if isinstance(each, PatchSpec)]


@pytest.mark.parametrize("trouble", [WriteError.UNAVAILABLE, WriteError.UNKNOWN])
def test_a_removal_that_failed_is_decided_anew_if_the_queue_has_no_capacity_for_the_pod_by_now(trouble):
    steps = Queues(queue("team", 1000), elsewhere("a"))
    steps.step(Outcome(steps.removal("a"), trouble)).see(queue("team", 0, version="2"))
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.let_go == []
    steps.see(queue("team", 1000, version="3"))
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.removal("a").change == QueueReservation(40.0, ((0, QUEUE_GATE),), True)


def test_a_gang_of_which_one_removal_failed_is_let_go_anew_with_all_gates_that_may_be_there():
    """What became of the other removal is not known."""
    members = [elsewhere(name, group=grouped(name).group) for name in ("m0", "m1")]
    steps = Queues(queue("team", 2000), pod_group(members=2), node("n"), *members)
    lost, failed = steps.removal("m0"), steps.removal("m1")
    steps.step(Outcome(lost, WriteError.UNKNOWN), Outcome(failed, WriteError.UNAVAILABLE))
    steps.later(20.0, TimerFired("scheduling"))
    again = QueueReservation(20.0, ((0, QUEUE_GATE),), True)
    assert [steps.removal(name).change for name in ("m0", "m1")] == [again, again]


def test_a_pod_whose_removal_did_not_arrive_is_bound_with_its_gate_removed():
    steps = Queues(queue("team", 1000), elsewhere("a"))
    steps.step(Outcome(steps.removal("a"), WriteError.UNAVAILABLE)).see(node("gpu", labels={"gpu": "yes"}))
    steps.later(20.0, TimerFired("scheduling"))
    assert [type(each) for each in steps.effects if isinstance(each, RemoveGate | Bind)] == [RemoveGate, Bind]


def test_in_a_fifo_queue_nobody_overtakes_a_pod_whose_removal_failed():
    steps = Queues(queue("team", 2000, **FIFO), elsewhere("a"))
    steps.step(Outcome(steps.removal("a"), WriteError.UNAVAILABLE)).see(elsewhere("late", created=1.0))
    assert steps.messages == {"late": "waiting behind default/a, the first in queue team"}
    steps.later(20.0, TimerFired("scheduling"))
    assert steps.let_go == ["a"]
    steps.step(Outcome(steps.removal("a")))
    assert steps.let_go == ["late"]


def test_a_pod_whose_removal_is_under_way_overtakes_nobody_in_the_fifo_queue_it_moves_to():
    """The removal was decided for another queue; if it has arrived all the same, the pod reserves."""
    steps = Queues(queue("team", 1000, **FIFO), queue("other", 1000), queued("first", 2000))
    removal = steps.see(elsewhere("a", of="other", created=1.0)).removal("a")
    steps.see(elsewhere("a", created=1.0))
    assert steps.messages == {"a": "waiting behind default/first, the first in queue team"}
    steps.step(Outcome(removal, WriteError.UNKNOWN), Observed(node("gpu", labels={"gpu": "yes"})))
    steps.later(20.0, TimerFired("scheduling"))
    assert (steps.bound, steps.let_go) == ({}, [])
    steps.see(replace(elsewhere("a", gated=False, created=1.0), reserved_at=0.0))
    assert steps.bound == {"a": "gpu"}


# the order of queues


def two_queues(**priorities):
    return [queue(name, None, priority=priority) for name, priority in priorities.items()]


def test_pods_of_the_queue_of_higher_priority_take_their_turn_first():
    """Whatever the priority and age of the pods: it is the queues' turn first."""
    old, young = queued("old", of="low", priority=9, created=1.0), queued("young", of="high", created=2.0)
    assert Queues(*two_queues(low=1, high=2), node("n"), old, young).bound == {"young": "n"}
    assert Queues(*two_queues(low=1, high=1), node("n"), old, young).bound == {"old": "n"}


def test_a_pod_in_no_queue_takes_its_turn_with_queues_of_priority_0():
    alone, young = queued("alone", of="", created=1.0), queued("young", of="high", created=2.0)
    assert Queues(*two_queues(high=1), node("n"), replace(alone, annotations={}, gates=()), young).bound == {
        "young": "n"
    }


def test_a_queue_whose_priority_is_raised_has_its_turn_first_from_then_on():
    tree, full = two_queues(one=0, two=0), bound(queued("full", of="one", gates=()), "n")
    waiting = [queued("a", of="one", created=1.0), queued("b", of="two", created=2.0)]
    steps = Queues(*tree, node("n"), full, *waiting)
    steps.see(queue("two", None, priority=5, version="2"))
    steps.later(20.0, Gone(full.key, full.uid))
    steps.later(20.0, TimerFired("scheduling"))
    assert list(steps.bound) == ["b"]


def test_a_gang_takes_the_turn_of_its_queue():
    members = [grouped(f"m{n}", created=5.0 + n) for n in range(2)]
    old = queued("old", of="low", created=1.0)
    steps = Queues(*two_queues(low=0, team=1), pod_group(members=2), node("n", cpu=2000), old, *members)
    assert set(steps.bound) == {"m0", "m1"}


def test_where_two_reservations_do_not_fit_that_of_the_queue_of_higher_priority_is_in_force():
    tree = [queue("org", 1000), queue("low", None, "org"), queue("high", None, "org", priority=1)]
    pods = [
        elsewhere("old", of="low", gated=False, created=1.0),
        elsewhere("young", of="high", gated=False, created=2.0),
    ]
    assert Queues(*tree, *pods).reasons == {"young": "Unschedulable", "old": "SchedulingGated"}


def test_a_pod_displaces_no_reservation_of_a_queue_of_higher_priority():
    tree = [queue("org", 1000), queue("low", None, "org"), queue("high", None, "org", priority=1)]
    steps = Queues(*tree, elsewhere("held", of="high", gated=False))
    steps.see(queued("urgent", of="low", priority=9, created=1.0))
    assert steps.let_go == []
    assert steps.reasons == {"urgent": "SchedulingGated"}
