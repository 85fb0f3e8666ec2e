"""A gang starts with enough of its pods or not at all."""

import pytest
from builders import bound, gang, member, node, pod, pod_key, priority_class, workload, workload_key
from msgspec.structs import replace
from steps import Steps

from headgate.model.effects import Bind, EmitEvent, Nomination, PatchStatus, PodCondition, WorkloadStatus
from headgate.model.events import Gone, Observed, Outcome, WriteError
from headgate.model.keys import Key, Kind
from headgate.model.pod import GroupKey, Workload
from headgate.model.settings import Profile, Settings


def members(count, **fields):
    return [member(f"w{number}", **fields) for number in range(count)]


def conditions(steps):
    return {
        effect.target.key.name: (effect.change.reason, effect.change.message)
        for effect in steps.effects
        if isinstance(effect, PatchStatus) and isinstance(effect.change, PodCondition)
    }


def test_a_gang_is_bound_whole_when_there_is_room_for_it():
    steps = Steps(node("n", cpu=400), workload("train", gang(4)), *members(4))
    assert steps.binds == {"w0": "n", "w1": "n", "w2": "n", "w3": "n"}


def test_a_gang_that_does_not_fit_gets_nothing_and_says_how_far_it_came():
    steps = Steps(node("n", cpu=300), workload("train", gang(4)), *members(4))
    assert steps.binds == {}
    reason, message = conditions(steps)["w0"]
    assert reason == "Unschedulable"
    assert "Insufficient cpu" in message
    assert set(conditions(steps)) == {"w0", "w1", "w2", "w3"}
    assert steps.pending["unschedulable"] == 4


def test_what_a_gang_could_not_use_is_left_to_others():
    steps = Steps(node("n", cpu=300), workload("train", gang(4)), *members(4, created=1.0), pod("other", created=2.0))
    assert steps.binds == {"other": "n"}


def test_pods_beyond_the_minimum_follow_when_there_is_room():
    steps = Steps(node("n", cpu=300), workload("train", gang(2)), *members(4))
    assert len(steps.binds) == 3
    steps.see(node("late", cpu=100))
    assert list(steps.later(10).binds.values()) == ["late"]


def test_a_gang_waits_for_its_missing_pods_and_starts_with_the_last():
    steps = Steps(node("n", cpu=1000), workload("train", gang(3)), *members(2))
    assert steps.binds == {}
    assert conditions(steps)["w0"] == ("SchedulingGated", "waiting for its gang to have at least 3 pods")
    assert steps.pending["gated"] == 2
    assert len(steps.see(member("w2")).binds) == 3
    assert steps.pending["gated"] == 0


def test_waiting_for_members_is_told_once_however_many_come():
    steps = Steps(node("n", cpu=10_000), workload("train", gang(50)), *members(10))
    assert len(conditions(steps)) == 10
    assert set(conditions(steps.see(member("late")))) == {"late"}
    assert not [effect for effect in steps.effects if isinstance(effect, EmitEvent)]


def test_one_gated_member_holds_its_gang():
    steps = Steps(node("n"), workload("train", gang(2)), *members(2), member("w2", gates=("example.com/wait",)))
    assert steps.binds == {}
    assert conditions(steps)["w0"] == ("SchedulingGated", "waiting for the gates of w2, a member of its gang")
    assert len(steps.see(member("w2")).binds) == 3


def test_pods_may_come_before_their_workload():
    steps = Steps(node("n"), *members(2))
    assert steps.binds == {}
    assert conditions(steps)["w0"][1] == "waiting for Workload default/train to be created"
    assert len(steps.see(workload("train", gang(2))).binds) == 2


def test_a_group_the_workload_does_not_know_waits_for_it():
    steps = Steps(node("n"), workload("train", gang(1)), member("a", group="servers"))
    assert conditions(steps)["a"][1] == 'Workload default/train has no pod group "servers"'
    assert steps.see(workload("train", gang(1), gang(1, name="servers"))).binds == {"a": "n"}


def test_members_of_a_group_without_a_gang_go_one_by_one():
    steps = Steps(node("n", cpu=150), workload("train"), *members(2))
    assert len(steps.binds) == 1


def test_replicas_are_gangs_of_their_own():
    pods = [member(f"{replica}-{number}", replica=replica) for replica in "ab" for number in range(2)]
    steps = Steps(node("n", cpu=300), workload("train", gang(2)), *pods)
    assert sorted(steps.binds) == ["a-0", "a-1"]


def test_two_gangs_that_compete_for_one_room_never_share_it():
    pods = [member(f"{name}{number}", of=name) for number in range(3) for name in ("x", "y")]
    steps = Steps(node("n", cpu=500), workload("x", gang(3)), workload("y", gang(3)), *pods)
    assert {name[0] for name in steps.binds} == {"x"}
    assert len(steps.binds) == 3
    steps.see(*(replace(one, node="n") for one in pods if one.key.name[0] == "x"))
    done = [Gone(pod_key(f"x{number}"), f"uid-x{number}") for number in range(3)]
    assert {name[0] for name in steps.later(10, *done).binds} == {"y"}


def test_a_late_member_joins_a_gang_that_runs():
    steps = Steps(node("n"), workload("train", gang(2)), *(bound(one, "n") for one in members(2)), member("late"))
    assert steps.binds == {"late": "n"}


def test_a_gang_that_lost_a_pod_needs_only_that_one():
    running = [bound(one, "n") for one in members(3)]
    steps = Steps(node("n", cpu=400), workload("train", gang(4)), *running, member("again"))
    assert steps.binds == {"again": "n"}


def test_a_binding_that_fails_is_tried_again_after_a_rest():
    steps = Steps(node("n"), workload("train", gang(2)), *members(2))
    first, second = [effect for effect in steps.effects if isinstance(effect, Bind)]
    steps.step(Outcome(first), Outcome(second, WriteError.CONFLICT, "no"))
    assert steps.binds == {}
    steps.see(bound(member("w0"), "n"))
    assert steps.later(2).binds == {"w1": "n"}


def test_the_placement_of_a_member_whose_binding_failed_is_kept_while_its_gang_rests():
    steps = Steps(node("n", cpu=200), workload("train", gang(2)), *members(2))
    first, second = [effect for effect in steps.effects if isinstance(effect, Bind)]
    steps.step(Outcome(first), Outcome(second, WriteError.CONFLICT, "no"))
    kept = [e for e in steps.effects if isinstance(e, PatchStatus) and isinstance(e.change, Nomination)]
    assert [(e.target.key.name, e.change.node) for e in kept] == [("w1", "n")]
    assert steps.see(bound(member("w0"), "n"), pod("rival")).binds == {}
    assert steps.later(2).binds == {"w1": "n"}


def test_that_a_pod_waits_is_said_again_when_the_server_would_not_hear_it():
    steps = Steps(node("n", cpu=50), pod("a"))
    steps.step(Outcome(steps.only(PatchStatus), WriteError.CONFLICT, "try again"))
    assert steps.later(2).only(PatchStatus).change.reason == "Unschedulable"


def test_a_gang_in_one_place_takes_the_only_zone_that_has_room_for_all():
    nodes = [node(f"{zone}{number}", cpu=100, labels={"zone": zone}) for zone in "ab" for number in range(2)]
    busy = bound(pod("busy"), "a0")
    steps = Steps(*nodes, busy, workload("train", gang(2, topology="zone")), *members(2))
    assert sorted(steps.binds.values()) == ["b0", "b1"]


def test_a_late_member_stays_in_the_zone_of_its_gang():
    nodes = [node("a", cpu=200, labels={"zone": "a"}), node("b", cpu=1000, labels={"zone": "b"})]
    running = bound(member("w0"), "a")
    steps = Steps(*nodes, workload("train", gang(1, topology="zone")), running, member("w1"), member("w2"))
    assert steps.binds == {"w1": "a"}


@pytest.mark.parametrize("off", [(), ("DefaultPreemption",)], ids=["with preemption", "without preemption"])
def test_a_late_member_leaves_the_zone_of_its_gang_when_the_gang_has_no_topology_any_more(off):
    nodes = [node("a", cpu=100, labels={"zone": "a"}), node("b", cpu=1000, labels={"zone": "b"})]
    settings = Settings(profiles=(Profile(disabled=frozenset(off)),))
    train = workload("train", gang(1, topology="zone"))
    steps = Steps(*nodes, train, bound(member("w0"), "a"), member("w1"), settings=settings)
    assert steps.binds == {}
    steps.later(20, Observed(replace(train, version="2", groups=(gang(1),))))
    assert steps.binds == {"w1": "b"}


def test_a_profile_without_gangs_schedules_members_one_by_one():
    settings = Settings(profiles=(Profile(disabled=frozenset({"GangScheduling"})),))
    steps = Steps(node("n", cpu=100), workload("train", gang(2)), *members(2), settings=settings)
    assert len(steps.binds) == 1


def test_pods_that_say_themselves_how_many_they_are_form_a_gang():
    group = GroupKey(Key(Kind.KUEUE_WORKLOAD, "default", "g"))
    pods = [pod(name, group=group, group_total=3) for name in "abc"]
    steps = Steps(node("n"), *pods[:2])
    assert steps.binds == {}
    assert len(steps.see(pods[2]).binds) == 3


@pytest.mark.parametrize("kind", [Kind.POD_GROUP, Kind.VOLCANO_POD_GROUP])
def test_a_gang_is_a_gang_whoever_describes_it(kind):
    key = Key(kind, "default", "g")
    described = Workload(key, "uid-g", "1", 0.0, (gang(2, name=""),), priority=5)
    pods = [pod(name, group=GroupKey(key)) for name in "ab"]
    steps = Steps(node("n", cpu=150), described, *pods)
    assert steps.binds == {}
    assert len(steps.see(node("m")).later(10).binds) == 2


# priorities


def test_a_workload_shows_its_priorities_as_numbers():
    classes = priority_class("high", 1000), priority_class("shielded", 2000)
    steps = Steps(*classes, workload("train", priority_class="high", preemption_priority_class="shielded"))
    patch = steps.only(PatchStatus)
    assert patch.target.key == workload_key("train")
    assert patch.change == WorkloadStatus(1000, 2000)


def test_a_workload_shows_the_preemption_policy_of_its_class():
    never = priority_class("polite", 1000, preempts=False)
    steps = Steps(never, workload("train", priority_class="polite"))
    assert steps.only_status() == WorkloadStatus(1000, 1000, preempts=False)


@pytest.mark.parametrize(
    ("classes", "says", "priority", "shield"),
    [
        pytest.param([], {}, 0, 0, id="without any class the priority is zero"),
        pytest.param([("d", 7, True)], {}, 7, 7, id="the default class counts where none is named"),
        pytest.param([("d", 7, True), ("e", 3, True)], {}, 3, 3, id="of several default classes the least counts"),
        pytest.param([("h", 9, False)], {"priority_class": "h"}, 9, 9, id="preemption priority follows the priority"),
        pytest.param(
            [],
            {"priority_class": "system-node-critical"},
            2_000_001_000,
            2_000_001_000,
            id="system classes need no object",
        ),
        pytest.param(
            [("h", 9, False), ("l", 1, False)],
            {"priority_class": "h", "preemption_priority_class": "l"},
            9,
            9,
            id="a preemption priority below the priority is raised to it",
        ),
        pytest.param(
            [],
            {"priority": 4, "priority_class": "gone"},
            4,
            4,
            id="what stands in the status stays when the class goes",
        ),
    ],
)
def test_what_a_workload_is_worth(classes, says, priority, shield):
    made = [priority_class(name, value, is_default=default) for name, value, default in classes]
    steps = Steps(*made, workload("train", **says))
    assert steps.only(PatchStatus).change == WorkloadStatus(priority, shield)


def test_a_class_that_appears_is_news_to_a_workload_without_pods():
    steps = Steps(workload("train", gang(2), priority_class="late"))
    assert steps.effects == []
    assert steps.see(priority_class("late", 7)).only_status() == WorkloadStatus(7, 7)


def test_a_workload_made_anew_while_the_status_of_the_old_one_is_written_gets_its_own():
    train = workload("train", gang(2), priority=None, priority_class="high")
    steps = Steps(priority_class("high", 10), train)
    assert steps.only_status() == WorkloadStatus(10, 10)
    steps.step(Gone(train.key, train.uid), Observed(replace(train, uid="new")))
    assert steps.only_status() == WorkloadStatus(10, 10)


def test_a_status_that_says_it_already_is_not_written():
    steps = Steps(workload("train", priority=0, preemption_priority=0, preempts=True))
    assert steps.effects == []


def test_pods_of_another_priority_are_pointed_out_and_the_workload_counts():
    high = priority_class("high", 10)
    steps = Steps(high, workload("train", priority_class="high"), member("a", priority=3))
    (condition,) = steps.only_status().conditions
    assert (condition.type, condition.status) == ("PodsNotMatchingPriority", "True")
    assert condition.message == "the workload's priority, 10, counts and not that of its pods: a has 3"


def test_the_workloads_priority_decides_whose_turn_it_is():
    high = priority_class("high", 10)
    racer = pod("racer", priority=5)
    steps = Steps(node("n", cpu=100), high, workload("train", gang(1), priority_class="high"), racer, member("w0"))
    assert steps.binds == {"w0": "n"}


def test_an_unknown_class_holds_the_pods_until_it_is_there():
    steps = Steps(node("n"), workload("train", gang(1), priority_class="high"), member("a"))
    assert conditions(steps)["a"][1] == "no PriorityClass with name high was found"
    assert steps.see(priority_class("high", 10)).binds == {"a": "n"}
