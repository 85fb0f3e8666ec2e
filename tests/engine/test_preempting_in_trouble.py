"""Gangs and preemption when writes fail, answers are lost and what is seen is late."""

import pytest
from builders import bound, gang, member, node, pod, priority_class, shape, workload
from msgspec.structs import replace
from steps import Steps
from test_preempting import FULL, HIGH, LOW, evictions, gone, marks, nominations, preempted, recorded

from headgate.model.effects import Bind, Evict, Nomination, PatchStatus, PodCondition, WorkloadStatus
from headgate.model.events import Gone, Observed, Outcome, WriteError
from headgate.model.keys import Key, Kind
from headgate.model.pod import EvictionMark, Phase, eviction_mark

TWO = node("n", cpu=100), node("m", cpu=100)
WHOLE = workload("train", gang(2, whole=True))
RUNNING = bound(member("w0"), "n"), bound(member("w1"), "m")
URGENT = priority_class("high", 10), workload("urgent", gang(2), priority_class="high")


def patches(steps, kind):
    return [each for each in steps.effects if isinstance(each, PatchStatus) and isinstance(each.change, kind)]


def bindings(steps):
    return [each for each in steps.effects if isinstance(each, Bind)]


# promises


def test_nobody_leaves_while_one_of_several_promises_is_in_doubt():
    """The answer to one nomination was lost, another failed: the new plan counts on the first only when it is sure."""
    low = [bound(pod(f"low-{each}", priority=1), each) for each in ("n", "m")]
    steps = Steps(*TWO, *low, *URGENT, member("u0", "urgent"), member("u1", "urgent"))
    first, second = patches(steps, Nomination)
    steps.step(Outcome(first, WriteError.CONFLICT), Outcome(second, WriteError.UNKNOWN))
    steps.later(1.0)
    again = {each.target.key: each for each in patches(steps, Nomination)}
    assert evictions(steps.step(Outcome(again[first.target.key]))) == []
    assert len(evictions(steps.step(Outcome(again[second.target.key])))) == 2


def test_a_promise_seen_on_record_after_a_lost_answer_is_kept():
    steps = Steps(FULL, LOW, HIGH)
    (nomination,) = patches(steps, Nomination)
    steps.step(Outcome(nomination, WriteError.UNKNOWN), Observed(replace(HIGH, nominated="n")))
    steps.later(5)
    assert evictions(recorded(steps)) == ["low"]


def test_a_promise_of_a_node_that_is_gone_is_taken_back():
    steps = preempted(FULL, LOW, HIGH)
    steps.see(replace(HIGH, nominated="n"))
    assert nominations(steps.later(20, Gone(FULL.key, FULL.uid), gone(LOW))) == {"high": ""}


def test_members_that_no_longer_stand_in_line_keep_no_room_from_others():
    """One of two went away, so the gang waits for another: what it was promised is free."""
    low = [bound(pod(f"low-{each}", priority=1), each) for each in ("n", "m")]
    members = member("u0", "urgent"), member("u1", "urgent")
    steps = preempted(*TWO, *low, *URGENT, *members)
    steps.step(gone(members[1]))
    assert nominations(steps) == {"u0": ""}
    (taken_back,) = patches(steps, Nomination)
    steps.step(Outcome(taken_back, WriteError.CONFLICT))
    assert nominations(steps.later(1.0)) == {"u0": ""}


def test_the_text_does_not_count_down_as_victims_leave():
    """A condition for each member and each pod that leaves would be many."""
    low = [bound(pod(f"low{i}", cpu=50, priority=1), "n") for i in range(2)]
    steps = preempted(FULL, *low, HIGH)
    steps.see(replace(HIGH, nominated="n"))
    assert steps.later(20, gone(low[0])).effects == []


def test_room_whose_promise_could_not_be_recorded_is_free_for_others():
    """The promise failed, and by then the gang lacks a member: whoever was kept off the room is tried."""
    here = node("n", cpu=100, labels={"zone": "a"})
    members = bound(member("u0", "urgent"), "m"), member("u1", "urgent")
    rival = pod("rival", shape=shape(100, node_selector=(("zone", "a"),)), priority=5)
    steps = Steps(here, node("m", cpu=100), LOW, *URGENT, *members, rival)
    (nomination,) = patches(steps, Nomination)
    steps.step(Outcome(nomination, WriteError.CONFLICT), Observed(replace(members[0], deleted=99.0)))
    assert nominations(steps.later(2.0)) == {"rival": "n"}


# whose turn it is


def test_the_rest_of_a_kind_is_tried_although_the_one_that_went_to_see_is_of_another_kind_now():
    """From when room is promised to someone it matters who they are, so they share their verdicts with others."""
    waiting = [pod(name, priority=5) for name in ("a", "b")]
    steps = preempted(FULL, bound(pod("taken", priority=9), "n"), *waiting)
    recorded(steps.see(HIGH))
    assert steps.later(20, Observed(node("small", cpu=50))).binds == {}
    assert steps.later(20, Observed(node("large", cpu=200))).binds == {"high": "large", "a": "large"}
    assert steps.later(20, Observed(node("another", cpu=200))).binds == {"b": "another"}


def test_a_surplus_member_whose_binding_failed_rests_before_it_tries_again():
    steps = Steps(node("n"), workload("train", gang(1)), bound(member("w0"), "n"), member("w1"))
    (bind,) = bindings(steps)
    assert steps.step(Outcome(bind, WriteError.CONFLICT)).binds == {}
    assert steps.later(1.0).binds == {"w1": "n"}


# gangs that leave


def test_members_that_leave_do_not_count_when_others_come():
    """Otherwise the first to come back would start alone, and be alone soon."""
    leaving = [replace(each, deleted=30.0) for each in RUNNING]
    steps = Steps(*TWO, node("o"), workload("train", gang(2)), *leaving, member("w2"))
    assert steps.binds == {}
    assert len(steps.see(member("w3")).binds) == 2


def test_members_that_wait_do_not_follow_a_gang_that_was_just_evicted():
    """They are no longer the surplus of a gang that runs."""
    train = workload("train", gang(2, whole=True)), *RUNNING
    late = member("w2", cpu=500)
    steps = Steps(*TWO, *train, late, HIGH)
    assert sorted(evictions(recorded(recorded(steps)))) == ["w0", "w1"]
    assert steps.later(20, Observed(node("o"))).binds.get("w2") is None


def test_the_rest_of_a_gang_that_leaves_whole_goes_however_often_that_fails():
    steps = recorded(preempted(*TWO, WHOLE, *RUNNING, HIGH))
    first, second = (each for each in steps.effects if isinstance(each, Evict))
    steps.step(Outcome(first), Outcome(second, WriteError.CONFLICT), gone(HIGH))
    assert evictions(steps.later(1.0)) == [second.target.key.name]


def test_what_a_successor_finishes_is_tried_again_and_not_done_twice():
    rest = bound(member("w1"), "m", preempted=True)
    steps = Steps(*TWO, WHOLE, rest)
    assert evictions(steps) == ["w1"]
    steps.step(Outcome(steps.only(Evict), WriteError.UNAVAILABLE), Observed(replace(rest, labels={"seen": "again"})))
    assert evictions(steps) == []
    assert evictions(steps.later(1.0)) == ["w1"]


def test_a_gang_that_was_only_marked_stays_whatever_its_workload_is_worth():
    """Its pods say another priority than the workload does."""
    train = replace(WHOLE, priority_class="high")
    marked = [replace(each, preempted=True) for each in RUNNING]
    steps = Steps(*TWO, priority_class("high", 10), train, *marked)
    assert evictions(steps) == []
    assert marks(steps) == {"w0": "False", "w1": "False"}


def test_a_gang_of_which_one_has_ended_has_not_begun_to_leave():
    ended = replace(RUNNING[0], phase=Phase.SUCCEEDED)
    steps = Steps(*TWO, WHOLE, ended, replace(RUNNING[1], preempted=True))
    assert evictions(steps) == []


def test_a_gang_that_lacks_a_pod_and_was_never_marked_has_not_begun_to_leave():
    steps = Steps(*TWO, workload("train", gang(3, whole=True)), *RUNNING, HIGH)
    (nomination,) = patches(steps, Nomination)
    assert evictions(steps.step(Outcome(nomination, WriteError.CONFLICT))) == []


def test_a_mark_that_is_being_taken_back_is_set_again_before_anyone_leaves():
    """What was seen last shows the mark still, and taking it back may yet succeed, or fail and be tried again."""
    steps = preempted(*TWO, WHOLE, *RUNNING, HIGH)
    steps.see(*(replace(each, preempted=True, mark=EvictionMark(str(each.group), 2)) for each in RUNNING))
    assert marks(steps.step(gone(HIGH))) == {"w0": "False", "w1": "False"}
    taken_back = patches(steps, PodCondition)
    assert marks(recorded(steps.see(pod("other", priority=10)))) == {"w0": "True", "w1": "True"}
    set_again = patches(steps, PodCondition)
    steps.step(*(Outcome(each, trouble) for each, trouble in zip(taken_back, (None, WriteError.CONFLICT), strict=True)))
    assert evictions(steps) == []
    assert marks(steps.later(5.0)) == {}
    assert sorted(evictions(steps.step(*(Outcome(each) for each in set_again)))) == ["w0", "w1"]


def test_of_two_who_wait_for_one_gang_to_leave_either_may_go_away():
    others = [pod(name, priority=10) for name in ("first", "second")]
    for other in others:
        steps = preempted(*TWO, WHOLE, *RUNNING, *others)
        marking = [each for each in patches(steps, PodCondition) if each.change.type == "DisruptionTarget"]
        steps.step(gone(other))
        assert sorted(evictions(steps.step(*(Outcome(each) for each in marking)))) == ["w0", "w1"]


def test_a_member_that_joined_while_its_gang_was_being_marked_leaves_with_it():
    train = workload("train", gang(2, whole=True)), *RUNNING
    steps = recorded(Steps(*TWO, *train, HIGH))
    marking = patches(steps, PodCondition)
    steps.see(node("o", cpu=100), bound(member("w2"), "o"))
    assert evictions(steps.step(*(Outcome(mark) for mark in marking))) == []
    assert sorted(evictions(recorded(steps))) == ["w0", "w1", "w2"]


@pytest.mark.parametrize(
    ("said", "leaves"),
    [
        pytest.param(3, True, id="three were marked: the two that are left go too"),
        pytest.param(2, False, id="two were marked and both are there: they stay"),
        pytest.param(0, False, id="the marks do not say, and two are more than the gang needs"),
    ],
)
def test_a_successor_knows_from_the_marks_how_many_there_were(said, leaves):
    mark = EvictionMark(str(RUNNING[0].group), said) if said else None
    marked = [replace(each, preempted=True, mark=mark) for each in RUNNING]
    steps = Steps(*TWO, workload("train", gang(1, whole=True)), *marked)
    assert evictions(steps) == (["w0", "w1"] if leaves else [])


def test_the_marks_name_the_gang_that_is_evicted_and_hide_names_from_other_tenants():
    stranger = replace(HIGH, key=Key(Kind.POD, "other", "secret"))
    steps = recorded(Steps(*TWO, WHOLE, *RUNNING, stranger))
    assert evictions(steps) == []
    texts = [each.change.message for each in steps.effects if isinstance(each, PatchStatus)]
    who = "Preempted by a pod of another namespace, which has priority 10, on node"
    gang = str(RUNNING[0].group)
    assert sorted(texts) == [f"{who} {name}; all 2 pods of {gang} are evicted together" for name in ("m", "n")]
    assert [eviction_mark(text) for text in texts] == [EvictionMark(gang, 2)] * 2


# statuses


def test_a_status_made_from_an_old_version_is_not_sent_again_and_again():
    steps = Steps(workload("train", gang(1)))
    (status,) = patches(steps, WorkloadStatus)
    assert patches(steps.step(Outcome(status, WriteError.CONFLICT)), WorkloadStatus) == []
    (again,) = patches(steps.see(replace(workload("train", gang(1)), version="2")), WorkloadStatus)
    assert again.target.version == "2"
