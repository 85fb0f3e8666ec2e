"""A member that is relabelled, or whose workload goes, leaves its group completely: nobody counts on it any more."""

import pytest
from builders import bound, gang, member, node, pod, priority_class, shape, workload
from msgspec.structs import asdict, replace
from steps import Steps
from test_preempting import evictions, gone, marks, nominations, preempted, recorded

from headgate.model.effects import Bind, PatchStatus, PodCondition
from headgate.model.events import Observed, Outcome, WriteError
from headgate.model.pod import EvictionMark, GroupKey, eviction_mark

TRAIN, SERVE = workload("train", gang(2)), workload("serve", gang(2))
TWO = node("n", cpu=100), node("m", cpu=100)
LOW = bound(pod("low-n", priority=1), "n"), bound(pod("low-m", priority=1), "m")
HIGH = workload("train", gang(2), priority=10)
WHOLE = workload("train", gang(2, whole=True), priority=1)
RUNNING = bound(member("w0"), "n"), bound(member("w1"), "m")
MARKED = [replace(each, preempted=True, mark=EvictionMark(str(each.group), 2)) for each in RUNNING]
PAIR = member("w0", priority=10), member("w1", priority=10)


def alone(one):
    return replace(one, group=None)


def moved(one, to="serve"):
    return replace(one, group=member("x", of=to).group)


def says(steps):
    """What each pod reads in its condition after this step."""
    changes = [(each.target.key.name, each.change) for each in steps.effects if isinstance(each, PatchStatus)]
    return {name: change.message for name, change in changes if isinstance(change, PodCondition)}


# while they wait


def test_a_gang_does_not_wait_for_the_gates_of_one_who_left():
    gated = member("w1", gates=("later",))
    steps = Steps(node("n"), workload("train", gang(1)), member("w0"), gated)
    assert steps.binds == {}
    assert steps.see(alone(gated)).binds == {"w0": "n"}


def test_a_gang_that_lost_a_member_waits_for_another():
    first, second = member("w0", cpu=600), member("w1", cpu=600)
    steps = Steps(node("n"), TRAIN, first, second)
    assert steps.see(alone(second)).binds == {"w1": "n"}
    assert says(steps) == {"w0": "waiting for its gang to have at least 2 pods"}


def test_a_member_that_moves_completes_the_other_gang_and_breaks_its_own():
    pods = member("w0"), member("w1"), member("s0", of="serve")
    steps = Steps(TRAIN, SERVE, *pods)
    steps.see(moved(pods[0]))
    steps.later(20, Observed(node("n")))
    assert steps.binds == {"w0": "n", "s0": "n"}
    assert steps.pending["gated"] == 1


def test_a_member_that_moves_there_and_back_is_where_it_was():
    pods = member("w0"), member("w1")
    steps = Steps(TRAIN, SERVE, *pods)
    steps.see(moved(pods[0]))
    steps.see(alone(pods[0]))
    steps.see(pods[0])
    assert steps.later(20, Observed(node("n"))).binds == {"w0": "n", "w1": "n"}


def test_a_member_that_moves_while_all_who_are_held_are_asked_about_again_is_in_one_gang_only():
    steps = Steps(TRAIN, SERVE, mover := member("w0"))
    steps.later(400, Observed(moved(mover)))
    steps.see(member("w1"), node("n"))
    assert steps.binds == {}
    assert steps.see(member("s0", of="serve")).binds == {"w0": "n", "s0": "n"}


def test_a_pod_that_joins_a_gang_does_not_stand_in_line_by_itself_any_more():
    lone = pod("w0", cpu=900)
    steps = Steps(TRAIN, node("n", cpu=100), lone)
    steps.see(replace(lone, group=GroupKey(TRAIN.key, "workers")))
    assert says(steps) == {"w0": "waiting for its gang to have at least 2 pods"}
    assert steps.see(node("m")).binds == {}


def test_both_workloads_are_told_of_a_member_that_moves():
    low, high = priority_class("low", 1), priority_class("high", 10)
    train, serve = workload("train", gang(1), priority_class="low"), workload("serve", gang(1), priority_class="high")
    runs = bound(member("w0", priority=1), "n")
    steps = Steps(node("n"), low, high, train, serve, runs)
    written = {each.target.key.name: each.change for each in steps.effects if isinstance(each, PatchStatus)}
    steps.see(*(replace(each, **asdict(written[each.key.name])) for each in (train, serve)))
    assert steps.see(moved(runs)).only_status().conditions[0].type == "PodsNotMatchingPriority"


# with a promise


@pytest.mark.parametrize("leaves", [alone, moved], ids=["to none", "to another gang"])
def test_nobody_is_evicted_for_a_gang_that_a_member_left_while_its_promise_was_recorded(leaves):
    steps = Steps(*TWO, *LOW, HIGH, SERVE, *PAIR)
    promised = [each for each in steps.effects if isinstance(each, PatchStatus)]
    assert len(nominations(steps)) == 2
    steps.step(Observed(leaves(PAIR[1])), *(Outcome(each) for each in promised))
    assert len(evictions(steps)) <= (1 if leaves is alone else 0), "for w1 by itself at most"
    assert nominations(steps).get("w0") == ""


def test_nobody_is_evicted_for_a_gang_whose_workload_goes_while_its_promise_is_recorded():
    steps = Steps(*TWO, *LOW, HIGH, *PAIR)
    promised = [each for each in steps.effects if isinstance(each, PatchStatus)]
    steps.step(gone(HIGH), *(Outcome(each) for each in promised))
    assert evictions(steps) == []
    assert nominations(steps) == {"w0": "", "w1": ""}


def test_room_promised_to_a_gang_that_is_none_any_more_is_not_kept():
    steps = preempted(*TWO, *LOW, HIGH, *PAIR)
    assert len(evictions(steps)) == 2
    steps.step(gone(HIGH))
    assert nominations(steps) == {"w0": "", "w1": ""}
    steps.see(pod("other", priority=0))
    assert steps.later(20, gone(LOW[0]), gone(LOW[1])).binds.keys() == {"other"}


def test_a_member_that_leaves_after_the_evictions_takes_its_room_by_itself():
    steps = Steps(*TWO, *LOW, HIGH, *PAIR)
    placement = nominations(steps)["w1"]
    assert len(evictions(recorded(steps))) == 2
    steps.see(replace(alone(PAIR[1]), nominated=placement))
    assert steps.step(gone(LOW[0]), gone(LOW[1])).binds == {"w1": placement}


# while bindings are in flight


def in_flight():
    steps = Steps(*TWO, TRAIN, SERVE, *PAIR)
    return steps, [each for each in steps.effects if isinstance(each, Bind)]


def test_a_member_that_moves_while_its_binding_is_in_flight_counts_where_it_moved_to():
    steps, binds = in_flight()
    steps.see(moved(PAIR[1]))
    steps.step(*(Outcome(each) for each in binds))
    steps.see(node("late", cpu=100), member("s1", of="serve", priority=10))
    assert steps.binds == {"s1": "late"}, "with w1 there, serve needs but one more"
    assert steps.see(node("later", cpu=100), member("w2", priority=10)).binds == {"w2": "later"}


def test_a_binding_that_fails_after_the_member_left_is_tried_again_without_its_gang():
    steps, binds = in_flight()
    second = next(each for each in binds if each.target.key.name == "w1")
    steps.see(alone(PAIR[1]))
    steps.step(Outcome(second, WriteError.UNAVAILABLE))
    assert steps.later(20).binds.keys() == {"w1"}


# while they run


def test_a_running_member_that_left_does_not_leave_with_its_gang():
    train = workload("train", gang(2, whole=True), priority=1)
    both = [bound(member("w0"), "n"), bound(member("w1"), "m")]
    steps = Steps(*TWO, train, *both)
    steps.see(alone(replace(both[1], priority=99)))
    steps.see(pod("high", priority=10))
    assert evictions(recorded(steps)) == ["w0"]


def test_a_running_pod_that_joined_a_gang_leaves_whole_with_it():
    train = workload("train", gang(2, whole=True), priority=1)
    first, second = bound(member("w0"), "n"), bound(pod("w1", priority=99), "m")
    steps = Steps(*TWO, train, first, second)
    steps.see(replace(second, group=first.group))
    steps.see(pod("high", priority=10))
    assert sorted(marks(recorded(steps))) == ["w0", "w1"]
    assert sorted(evictions(recorded(steps))) == ["w0", "w1"]


def test_a_gang_lacks_a_running_member_that_left():
    both = [bound(member("w0"), "n"), bound(member("w1"), "m")]
    steps = Steps(*TWO, TRAIN, *both)
    steps.see(alone(both[1]))
    steps.see(member("w2", cpu=200), node("late", cpu=100))
    assert says(steps)["w2"].startswith("0/3 nodes are available for pod 1 of 1 (0 placed, 1 needed)")


def marked_for_nobody(*since):
    """Two pods of a gang are marked, as both are seen to be; then the preemptor goes away, and this happens."""
    steps = preempted(*TWO, WHOLE, *RUNNING, pod("high", priority=10))
    assert sorted(marks(steps)) == ["w0", "w1"]
    steps.see(*MARKED)
    return steps.step(gone(pod("high")), *since)


def test_marks_of_a_gang_whose_workload_is_gone_are_taken_back():
    assert marks(marked_for_nobody(gone(WHOLE))) == {"w0": "False", "w1": "False"}


def test_the_mark_of_one_who_left_its_gang_is_taken_back_last():
    """Whoever looks at the others must be able to tell that it did not leave its node."""
    steps = marked_for_nobody(Observed(alone(MARKED[1])))
    assert marks(steps) == {"w0": "False"}
    successor = Steps(*TWO, WHOLE, MARKED[0], alone(MARKED[1]))
    assert (evictions(successor), marks(successor)) == ([], {"w0": "False"})
    assert marks(recorded(steps)) == {}
    assert marks(steps.see(RUNNING[0])) == {"w1": "False"}


SERVING = workload("serve", gang(2, whole=True), priority=1)
SERVERS = [bound(member(f"s{i}", of="serve"), name) for i, name in enumerate(("k", "l"))]
FOUR = *TWO, node("k", cpu=100), node("l", cpu=100)


@pytest.mark.parametrize(
    "servers, marked",
    [
        pytest.param(SERVERS, ["w0"], id="which was never marked"),
        pytest.param(SERVERS[:1], ["w0"], id="which lacks a pod"),
        pytest.param(
            [replace(each, preempted=True, mark=EvictionMark(str(each.group), 2)) for each in SERVERS],
            ["s0", "s1", "w0"],
            id="which is marked itself",
        ),
    ],
)
def test_a_marked_pod_that_moved_into_another_whole_gang_has_neither_gang_evicted(servers, marked):
    """Its mark names the gang it was marked with: it counts as moved there, and says nothing of the gang it is in."""
    successor = Steps(*FOUR, WHOLE, SERVING, *servers, MARKED[0], moved(MARKED[1]))
    assert evictions(successor) == []
    assert marks(successor) == dict.fromkeys(marked, "False")
    recorded(successor)
    unmarked = [replace(each, preempted=False, mark=None) for each in (MARKED[0], *servers)]
    assert marks(successor.see(*unmarked)) == {"w1": "False"}, "the last"


def test_a_gang_whose_eviction_has_begun_is_evicted_whole_and_not_the_gang_a_terminating_pod_of_it_moved_into():
    terminating = replace(moved(MARKED[1]), deleted=100.0)
    successor = Steps(*FOUR, WHOLE, SERVING, *SERVERS, MARKED[0], terminating)
    assert evictions(successor) == ["w0"]


@pytest.mark.parametrize(
    "other, evicted",
    [
        pytest.param(replace(RUNNING[1], created=500.0), ["w1"], id="was there already"),
        pytest.param(replace(MARKED[1], created=999.0), ["w1"], id="is marked"),
        pytest.param(replace(RUNNING[1], created=999.0), [], id="was made anew since"),
    ],
)
def test_of_a_gang_whose_eviction_has_begun_a_pod_is_evicted_with_the_one_that_takes_its_time_if_it(other, evicted):
    """Otherwise a pod that its controller makes anew would be evicted again, as long as another does not end."""
    terminating = replace(MARKED[0], deleted=930.0, grace=30)  # since 900
    assert evictions(Steps(*TWO, WHOLE, terminating, other)) == evicted


def test_a_gang_that_a_marked_pod_moved_into_is_preempted_whole_with_marks_that_name_it():
    steps = Steps(*FOUR, WHOLE, SERVING, *SERVERS, MARKED[0], moved(MARKED[1]))
    steps.see(*RUNNING[:1], moved(RUNNING[1]))
    steps.see(pod("high", priority=10, shape=shape(100, node_name="k")))
    recorded(steps)
    said = [each.change.message for each in steps.effects if isinstance(each, PatchStatus)]
    assert [eviction_mark(text) for text in said] == [EvictionMark(str(SERVERS[0].group), 3)] * 3
    assert sorted(evictions(recorded(steps))) == ["s0", "s1", "w1"]


def test_a_running_pod_is_never_called_unschedulable():
    """Not even when the server did not hear at first that it waits."""
    waits = pod("w0", cpu=200)
    steps = Steps(node("n", cpu=100), waits)
    (said,) = [each for each in steps.effects if isinstance(each, PatchStatus)]
    steps.see(bound(waits, "n"))
    steps.step(Outcome(said, WriteError.UNAVAILABLE))
    assert says(steps.later(60)) == {}
