"""What the design promises beyond single decisions: who shares a priority, who waits how, who is left alone."""

import pytest
from builders import bound, gang, member, node, pod, priority_class, workload
from msgspec.structs import replace
from steps import Steps
from test_preempting import evictions, gone, nominations, preempted, recorded

from headgate.model.effects import Nomination, PatchStatus, PodCondition, WorkloadStatus
from headgate.model.events import Observed, Outcome, WriteError
from headgate.model.settings import GangPreemption, PreemptionSettings, Profile, Settings

HIGH = priority_class("high", 10)
TWO = node("n", cpu=100), node("m", cpu=100)
LOW = bound(pod("low-n", priority=1), "n"), bound(pod("low-m", priority=1), "m")


def told(steps):
    """What each pod reads in its condition after this step, without how far its gang came."""
    changes = [(each.target.key.name, each.change) for each in steps.effects if isinstance(each, PatchStatus)]
    return {name: change.reason for name, change in changes if isinstance(change, PodCondition)}


@pytest.mark.parametrize(
    "waiting",
    [
        pytest.param([pod("high", priority=10)], id="a pod"),
        pytest.param([workload("train", gang(2), priority_class="high"), member("w0"), member("w1")], id="a gang"),
    ],
)
def test_nobody_leaves_while_there_is_room(waiting):
    steps = Steps(*TWO, *LOW, node("free", cpu=200), HIGH, *waiting)
    assert set(steps.binds.values()) == {"free"}
    assert (nominations(steps), evictions(steps)) == ({}, [])


def test_all_groups_of_a_workload_share_its_priority():
    """Whatever its pods say: both groups preempt what is below the workload, and neither what is not."""
    train = workload("train", gang(1), gang(1, name="servers"), priority_class="high")
    members = member("w0", priority=0), member("s0", group="servers", priority=99)
    steps = Steps(*TWO, *LOW, HIGH, train, *members)
    assert sorted(nominations(steps)) == ["s0", "w0"]
    above = [replace(each, priority=50) for each in LOW]
    assert nominations(Steps(*TWO, *above, HIGH, train, *members)) == {}


def test_where_neither_pods_nor_workload_say_a_priority_nothing_diverges():
    default = priority_class("normal", 7, is_default=True)
    steps = Steps(default, workload("train", gang(1)), member("w0", priority=7))
    assert steps.only_status() == WorkloadStatus(7, 7)


def test_all_members_are_unschedulable_and_back_in_line_while_they_wait_for_room():
    train = workload("train", gang(2), priority_class="high")
    steps = Steps(*TWO, *LOW, HIGH, train, member("w0"), member("w1"))
    assert told(steps) == {"w0": "Unschedulable", "w1": "Unschedulable"}
    assert steps.pending["unschedulable"] == 2
    assert len(evictions(recorded(steps))) == 2
    assert steps.pending["unschedulable"] + steps.pending["active"] + steps.pending["backoff"] == 2


def test_a_gang_that_finds_no_placement_drops_its_victims_and_waits_all_the_same():
    train = workload("train", gang(3), priority_class="high")
    steps = Steps(*TWO, *LOW, HIGH, train, *(member(f"w{i}") for i in range(3)))
    assert told(steps) == dict.fromkeys(("w0", "w1", "w2"), "Unschedulable")
    assert evictions(steps.later(30)) == []


ALONE = Settings(profiles=(Profile(disabled=frozenset({"GangScheduling"})),))
POD_BY_POD = Settings(preemption=PreemptionSettings(gangs=GangPreemption.POD_BY_POD))


@pytest.mark.parametrize("settings", [ALONE, POD_BY_POD], ids=["queued one by one", "preempting pod by pod"])
def test_members_that_go_by_themselves_count_on_victims_of_their_own(settings):
    """The victim of the first is none for the second."""
    train = workload("train", gang(2), priority_class="high")
    steps = Steps(*TWO, *LOW, HIGH, train, member("w0"), member("w1"), settings=settings)
    assert sorted(nominations(steps).values()) == ["m", "n"]
    assert sorted(evictions(recorded(steps))) == ["low-m", "low-n"]


@pytest.mark.parametrize("settings", [ALONE, POD_BY_POD], ids=["queued one by one", "preempting pod by pod"])
def test_members_that_go_by_themselves_use_what_the_victim_of_another_leaves_free(settings):
    """One large pod leaves room for both: nobody is evicted for the second."""
    nodes = node("n", cpu=200), node("m", cpu=200)
    low = [bound(pod(f"low-{name}", cpu=200, priority=1), name) for name in ("n", "m")]
    train = workload("train", gang(2), priority_class="high")
    steps = Steps(*nodes, *low, HIGH, train, member("w0"), member("w1"), settings=settings)
    assert len(evictions(recorded(steps))) == 1
    assert evictions(steps.later(30)) == []


@pytest.mark.parametrize("settings", [ALONE, POD_BY_POD], ids=["queued one by one", "preempting pod by pod"])
def test_the_victims_of_members_whose_gang_does_not_fit_are_dropped(settings):
    train = workload("train", gang(3), priority_class="high")
    steps = Steps(*TWO, *LOW, HIGH, train, *(member(f"w{i}") for i in range(3)), settings=settings)
    assert (nominations(steps), evictions(steps)) == ({}, [])
    assert (nominations(steps.later(30)), evictions(steps)) == ({}, [])
    third = node("o", cpu=100), bound(pod("low-o", priority=1), "o")
    assert "w0" in nominations(steps.see(*third))
    assert evictions(recorded(steps)) != []


def test_a_member_queued_by_itself_preempts_as_soon_as_its_gang_can_be_complete():
    train = workload("train", gang(2), priority_class="high")
    steps = Steps(*TWO, *LOW, HIGH, train, member("w0"), settings=ALONE)
    assert nominations(steps) == {}
    (condition,) = [each.change for each in steps.effects if isinstance(getattr(each, "change", None), PodCondition)]
    assert condition.message.endswith("Its gang needs 2 pods more to start: only 1 wait.")
    assert sorted(nominations(steps.later(30, Observed(member("w1"))))) == ["w0", "w1"]


def test_a_member_queued_by_itself_preempts_for_a_gang_that_runs():
    running = bound(member("w0"), "n")
    train = workload("train", gang(1), priority_class="high")
    steps = Steps(*TWO, running, LOW[1], HIGH, train, member("w1"), settings=ALONE)
    assert nominations(steps) == {"w1": "m"}


def test_others_leave_for_the_minimum_only():
    """The third of them is not needed to start, so nobody leaves for it together with the others."""
    third = node("o", cpu=100), bound(pod("low-o", priority=1), "o")
    train = workload("train", gang(2), priority_class="high")
    steps = preempted(*TWO, *LOW, *third, HIGH, train, *(member(f"w{i}") for i in range(3)))
    assert len(evictions(steps)) == 2


@pytest.mark.parametrize(
    ("least", "running"),
    [
        pytest.param(3, 3, id="one less breaks it"),
        pytest.param(2, 3, id="one can be spared"),
        pytest.param(3, 2, id="it is broken already"),
    ],
)
def test_in_pod_mode_pods_leave_one_by_one_however_many_of_them_run(least, running):
    nodes = [node(f"n{i}", cpu=100) for i in range(running)]
    members = [bound(member(f"w{i}"), f"n{i}") for i in range(running)]
    steps = preempted(*nodes, workload("train", gang(least)), *members, pod("boss", priority=10))
    assert len(evictions(steps)) == 1


def test_a_replica_leaves_whole_and_the_next_one_stays():
    """Nothing larger leaves than started together."""
    nodes = [node(f"n{i}", cpu=100) for i in range(4)]
    members = [bound(member(f"{r}{i}", replica=r), f"n{2 * (r == 'b') + i}") for r in "ab" for i in range(2)]
    steps = preempted(*nodes, workload("train", gang(2, whole=True)), *members, pod("boss", priority=10))
    left = sorted(evictions(recorded(steps)))
    assert left in (["a0", "a1"], ["b0", "b1"])


def test_placements_that_somebody_more_important_took_are_given_up_for_others():
    """The promise was for n, where a more important pod runs now: only then is somebody else asked to leave."""
    taken = bound(pod("boss", priority=99), "n")
    steps = Steps(*TWO, taken, LOW[1], pod("high", priority=10, nominated="n"))
    assert nominations(steps) == {"high": "m"}
    assert evictions(recorded(steps)) == ["low-m"]


def test_a_gang_whose_promise_lost_one_placement_makes_a_new_one():
    train = workload("train", gang(2), priority_class="high")
    going = replace(LOW[0], deleted=30.0)
    members = member("w0", nominated="n"), member("w1", nominated="vanished")
    steps = Steps(*TWO, going, LOW[1], HIGH, train, *members)
    assert sorted({"w0": "n", "w1": "vanished"} | nominations(steps)) == ["w0", "w1"]
    assert evictions(recorded(steps)) == ["low-m"]
    steps.step(gone(going))
    assert len(steps.step(gone(LOW[1])).binds) == 2


def test_a_pod_that_is_seen_anew_when_its_victim_leaves_is_tried_once():
    """Both put it in line, in one step, and it must not be taken from there twice."""
    low, high = LOW[0], pod("high", priority=10)
    steps = preempted(TWO[0], low, high)
    assert steps.step(gone(low), Observed(replace(high, nominated="n"))).binds == {"high": "n"}
    assert steps.kinds.count("Bind") == 1


def test_a_promise_that_was_refused_is_recorded_anew_before_anyone_leaves():
    """What was assumed of the pod while its nomination was in doubt is not on record."""
    steps = Steps(TWO[0], LOW[0], pod("high", priority=10))
    patches = [each for each in steps.effects if isinstance(each, PatchStatus)]
    (promise,) = [each for each in patches if isinstance(each.change, Nomination)]
    steps.step(Outcome(promise, WriteError.UNKNOWN))
    steps.see(pod("high", priority=10, labels={"seen": "again"}))
    assert nominations(steps.later(5)) == {"high": "n"}
    steps.step(Outcome(promise, WriteError.CONFLICT))
    assert (evictions(steps.later(5)), nominations(steps)) == ([], {"high": "n"})
    assert evictions(recorded(steps)) == ["low-n"]
