"""Observations in, effects out: what the engine decides about pods, step by step."""

import pytest
from builders import bound, node, node_key, pod, pod_key
from steps import Steps

from headgate.model.effects import Bind, EmitEvent, PatchStatus, PodCondition, WakeAt
from headgate.model.events import Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.pod import Phase, ScheduledCondition
from headgate.model.settings import Profile, Settings


def test_a_pod_is_bound_to_the_node_with_its_uid():
    steps = Steps(node("n"), pod("a"))
    assert steps.effects == [Bind(pod("a").target, "n")]
    assert steps.story == [("bind", "Scheduled", "a")]


def test_a_pod_of_another_scheduler_is_left_alone_but_its_room_counts():
    other = bound(pod("theirs", cpu=900, scheduler_name="default-scheduler"), "n")
    steps = Steps(node("n", cpu=1000), other, pod("waits", scheduler_name="default-scheduler"), pod("ours", cpu=200))
    assert steps.binds == {}


def test_every_profile_serves_its_own_name():
    settings = Settings(profiles=(Profile("one"), Profile("two")))
    steps = Steps(node("n"), pod("a", scheduler_name="one"), pod("b", scheduler_name="two"), settings=settings)
    assert steps.binds == {"a": "n", "b": "n"}


def test_what_was_just_decided_counts_for_the_next_pod():
    steps = Steps(node("n", cpu=150), pod("a", created=1.0), pod("b", created=2.0))
    assert steps.binds == {"a": "n"}


def test_a_refused_pod_is_told_why_once():
    steps = Steps(node("n", cpu=50), pod("a"))
    said = "0/1 nodes are available: 1 Insufficient cpu."
    assert steps.only(PatchStatus).change == PodCondition(
        "PodScheduled", "False", "Unschedulable", said, 0.0, new_reason=True
    )
    assert steps.only(EmitEvent).reason == "FailedScheduling"
    steps.later(60, Observed(node("n", cpu=60)))
    assert steps.effects == [], "the same refusal is not told twice"


def test_a_pod_that_carries_the_right_condition_is_not_written_again_after_a_restart():
    said = ScheduledCondition("False", "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
    steps = Steps(node("n", cpu=50), pod("a", scheduled=said))
    assert steps.effects == []
    assert steps.story == [("wait", "Unschedulable", "a")], "but the journal knows it"


def test_a_condition_that_was_false_before_keeps_its_time():
    gated = ScheduledCondition("False", "SchedulingGated", "…")
    assert Steps(node("n", cpu=50), pod("a", scheduled=gated)).only(PatchStatus).change.at is None


@pytest.mark.parametrize(
    "shown, is_new",
    [
        pytest.param(None, True, id="of a pod that shows nothing"),
        pytest.param(ScheduledCondition("False", "SchedulingGated", ""), True, id="of a pod that was gated"),
        pytest.param(ScheduledCondition("False", "Unschedulable", "0/2 nodes"), False, id="only the text is another"),
    ],
)
def test_a_reason_that_autoscalers_have_not_seen_yet_is_marked(shown, is_new):
    assert Steps(node("n", cpu=50), pod("a", scheduled=shown)).only(PatchStatus).change.new_reason is is_new


def test_a_pod_that_waits_for_room_gets_it_when_a_pod_ends():
    running = bound(pod("old", cpu=900), "n")
    steps = Steps(node("n"), running, pod("a", cpu=200))
    steps.later(60, Observed(bound(running, "n", phase=Phase.SUCCEEDED)))
    assert steps.binds == {"a": "n"}


def test_a_terminating_pod_holds_its_room_until_it_is_gone():
    running = bound(pod("old", cpu=900), "n")
    steps = Steps(node("n"), running, pod("a", cpu=200))
    steps.later(60, Observed(bound(running, "n", deleted=90.0)))
    assert steps.binds == {}
    steps.later(30, Gone(running.key, running.uid))
    assert steps.binds == {"a": "n"}


def test_an_observation_from_before_the_binding_changes_nothing():
    steps = Steps(node("n"), pod("a"))
    steps.step(Outcome(Bind(pod("a").target, "n")))
    assert steps.only(EmitEvent).reason == "Scheduled"
    assert steps.see(pod("a", annotations={"seen": "late"})).effects == []


def test_a_pod_found_on_another_node_is_charged_there():
    steps = Steps(node("n1"), node("n2", cpu=500), pod("a", cpu=500))
    assert steps.binds == {"a": "n1"}
    steps.see(bound(pod("a", cpu=500), "n2"), pod("b", cpu=800))
    assert steps.binds == {"b": "n1"}


def test_a_refused_binding_gives_the_room_back_and_tries_again_later():
    steps = Steps(node("n"), pod("a"))
    steps.step(Outcome(Bind(pod("a").target, "n"), WriteError.CONFLICT, "the object has been modified"))
    assert steps.kinds == ["EmitEvent", "WakeAt"]
    assert steps.events == {"a": "binding to n did not take hold: the object has been modified"}
    assert steps.only(WakeAt) == WakeAt(1.0, "scheduling")
    steps.later(1.0, TimerFired("scheduling"))
    assert steps.binds == {"a": "n"}
    assert [decision for decision, _, _ in steps.story] == ["bind", "forget", "bind"]


def attempts(steps, result):
    return steps.number("scheduler_schedule_attempts_total", result=result, profile="headgate")


@pytest.mark.parametrize(
    "history, scheduled, failed",
    [
        pytest.param([], 0, 0, id="before the answer nothing is known"),
        pytest.param([None], 1, 0, id="a success"),
        pytest.param([None, "seen"], 1, 0, id="a success, which is then seen"),
        pytest.param(["seen", None], 1, 0, id="seen before it was answered"),
        pytest.param([WriteError.UNKNOWN, "seen"], 1, 0, id="a lost answer, then it is seen"),
        pytest.param([WriteError.UNKNOWN, None, "seen"], 1, 0, id="a lost answer, then a success"),
        pytest.param([WriteError.CONFLICT], 0, 1, id="a failure is no success"),
        pytest.param([WriteError.UNKNOWN, "seen elsewhere"], 0, 0, id="somebody else bound it"),
    ],
)
def test_an_attempt_is_counted_once_when_it_is_known_how_it_ended(history, scheduled, failed):
    steps = Steps(node("n"), node("m", cpu=1), pod("a"))
    for event in history:
        if event is None or isinstance(event, WriteError):
            steps.step(Outcome(Bind(pod("a").target, "n"), event))
        else:
            steps.see(bound(pod("a"), "n" if event == "seen" else "m"))
    assert (attempts(steps, "scheduled"), attempts(steps, "error")) == (scheduled, failed)


def test_a_lost_answer_keeps_the_room_and_asks_again():
    bind = Bind(pod("a", cpu=900).target, "n")
    steps = Steps(node("n"), pod("a", cpu=900), pod("b", cpu=900, created=1.0))
    steps.step(Outcome(bind, WriteError.UNKNOWN))
    assert steps.binds == {}, "nobody else gets room that may be taken"
    steps.later(1.0, TimerFired("scheduling"))
    assert steps.binds == {"a": "n"}
    steps.step(Outcome(bind, WriteError.CONFLICT, "already assigned"))
    assert steps.binds == {}, "the conflict may be our own binding"
    steps.see(bound(pod("a", cpu=900), "n"))
    steps.later(60.0, TimerFired("scheduling"))
    assert steps.binds == {}, "the truth was seen, nothing is asked again"


def test_a_pod_deleted_while_its_binding_is_under_way_gives_its_room_back():
    steps = Steps(node("n"), pod("a", cpu=900), pod("b", cpu=900, created=1.0))
    steps.later(60, Gone(pod_key("a"), "uid-a"))
    assert steps.binds == {"b": "n"}


def test_a_pod_made_anew_under_the_same_name_is_another_pod():
    steps = Steps(node("n"), bound(pod("a", cpu=900), "n"))
    steps.see(pod("a", cpu=800, uid="second"))
    assert steps.effects == [Bind(pod("a", uid="second").target, "n")]


def test_the_end_of_an_earlier_incarnation_does_not_touch_the_present_one():
    steps = Steps(node("n"), bound(pod("a", cpu=900, uid="second"), "n"), pod("b", cpu=900))
    assert steps.later(60, Gone(pod_key("a"), "first")).binds == {}


def test_a_node_that_goes_takes_no_more_pods():
    steps = Steps(node("n"))
    steps.step(Gone(node_key("n"), "uid-n"), Observed(pod("a")))
    assert steps.binds == {}


def test_a_heartbeat_of_a_node_wakes_nobody():
    steps = Steps(node("n", cpu=50), pod("a"))
    steps.engine.journal.take()
    steps.later(60, Observed(node("n", cpu=50)))
    assert steps.effects == []
    assert steps.story == []


def test_no_more_bindings_are_under_way_than_allowed_and_a_late_urgent_pod_is_next():
    settings = Settings(max_in_flight=2)
    steps = Steps(node("n"), *(pod(f"p{i}", created=float(i)) for i in range(4)), settings=settings)
    assert list(steps.binds) == ["p0", "p1"]
    steps.step(Observed(pod("urgent", priority=9)), Outcome(Bind(pod("p0").target, "n")))
    assert list(steps.binds) == ["urgent"]


def test_a_condition_that_could_not_be_written_is_written_later():
    steps = Steps(node("n", cpu=50), pod("a"))
    patch = steps.only(PatchStatus)
    steps.step(Outcome(patch, WriteError.UNAVAILABLE))
    steps.later(1.0, TimerFired("scheduling"))
    assert steps.effects == [patch]


def test_a_condition_that_could_not_be_written_is_dropped_when_it_is_no_longer_true():
    steps = Steps(node("n", cpu=50), pod("a"))
    patch = steps.only(PatchStatus)
    steps.step(Outcome(patch, WriteError.UNAVAILABLE))
    steps.later(1.0, TimerFired("scheduling"), Observed(node("n")))
    assert patch not in steps.effects


def test_the_lines_are_counted():
    steps = Steps(node("n", cpu=50), pod("a"), pod("b", gates=("g",)))
    assert steps.pending == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 1}


def test_what_came_to_each_line_is_counted():
    steps = Steps(node("n", cpu=50), pod("a"), pod("b", gates=("g",)))
    came = "scheduler_queue_incoming_pods_total"
    assert steps.number(came, queue="active", event="PodAdd") == 1
    assert steps.number(came, queue="gated", event="PodAdd") == 1
    assert steps.number(came, queue="unschedulable", event="ScheduleAttemptFailure") == 1
    steps.later(60, Observed(node("n", cpu=900)))
    assert steps.number(came, queue="active", event="ClusterEvent") == 1


def test_parked_and_gated_pods_are_counted_by_what_keeps_them():
    steps = Steps(node("n", cpu=50), pod("a"), pod("b", gates=("g",)))
    kept = "scheduler_unschedulable_pods"
    assert steps.number(kept, plugin="NodeResourcesFit", profile="headgate") == 1
    assert steps.number(kept, plugin="SchedulingGates", profile="headgate") == 1
    steps.later(60, Observed(node("n", cpu=900)), Observed(pod("b")))
    assert steps.number(kept, plugin="NodeResourcesFit", profile="headgate") == 0
    assert steps.number(kept, plugin="SchedulingGates", profile="headgate") == 0


def test_every_attempt_is_counted_also_those_told_only_once():
    steps = Steps(node("n", cpu=50), pod("a"))
    for cpu in (51, 52, 53):
        steps.later(60, Observed(node("n", cpu=cpu)))
    assert steps.number("scheduler_schedule_attempts_total", result="unschedulable", profile="headgate") == 4
    steps.later(60, Observed(node("n"))).accepted()
    assert steps.number("scheduler_schedule_attempts_total", result="scheduled", profile="headgate") == 1


def test_a_binding_says_after_how_many_attempts_and_how_long_without_the_time_behind_gates():
    steps = Steps(node("n", cpu=50), pod("a", gates=("g",)))
    steps.later(100, Observed(pod("a")))
    steps.engine.journal.take()
    steps.later(60, Observed(node("n")))
    (entry,) = steps.engine.journal.take()
    assert entry.numbers["attempts"] == 2
    assert entry.numbers["queued_ms"] == 60_000


def test_an_older_condition_is_not_written_after_a_newer_one():
    steps = Steps(node("n", cpu=50), pod("a"))
    older = steps.only(PatchStatus)
    steps.step(Outcome(older, WriteError.UNAVAILABLE))
    steps.later(60.0, Observed(node("m", cpu=50)))
    assert steps.only(PatchStatus).change.message == "0/2 nodes are available: 2 Insufficient cpu."
