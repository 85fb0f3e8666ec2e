"""What becomes of a workload that has quota: checks, stops, timeouts, deactivation, and the way back."""

import pytest
from msgspec.structs import asdict, replace
from quota_steps import OWNER, QuotaSteps, check, flavor, local, queue, quota, work

from headgate.lifecycle.workload.eviction import released
from headgate.model.effects import Delete
from headgate.model.events import TimerFired
from headgate.model.queues import CheckState, CheckStatus, RequeueState, RequiredCheck, StopPolicy
from headgate.model.settings import PodsReady, QuotaSettings, Retention

CHECKED = queue(cpu=1, checks=(RequiredCheck("x"), RequiredCheck("y")))


def answers(steps, **states):
    """The controllers of the checks say how they stand."""
    told = {one.name: one for one in steps["a"].status.checks}
    made = {name: replace(told[name], state=state, message="said so", at=steps.now) for name, state in states.items()}
    return steps.edit("a", checks=tuple({**told, **made}.values()))


def checked(**fields):
    return QuotaSteps(CHECKED, check("x"), check("y"), work("a", **fields))


# two phases


def test_a_workload_with_checks_has_quota_first_and_is_admitted_when_all_are_ready():
    steps = checked()
    assert steps.reason("a") == ("True", "QuotaReserved")
    waits = ("False", "UnsatisfiedAdmissionChecks", "The workload has not all checks ready")
    assert steps.condition("a", "Admitted") == waits
    assert [(one.name, one.state) for one in steps["a"].status.checks] == [("x", "Pending"), ("y", "Pending")]
    answers(steps, x=CheckState.READY)
    assert steps.admitted == []
    answers(steps, y=CheckState.READY)
    assert steps.admitted == ["a"]
    assert steps.told == [("a", "QuotaReserved"), ("a", "Admitted")]


def test_a_check_that_wants_another_try_sends_the_workload_back_for_a_while():
    steps = checked()
    steps.now = 10.0
    told = CheckStatus("x", CheckState.RETRY, "no nodes", 10.0, requeue_after=60)
    steps.edit("a", checks=(told, steps["a"].status.checks[1]))
    message = 'Evicted due to AdmissionCheck in Retry state: "x" (no nodes)'
    assert steps.condition("a", "Evicted") == ("True", "AdmissionCheck", message)
    assert steps.reason("a") == ("False", "PendingEvaluation")
    assert steps["a"].status.requeue == RequeueState(0, 70.0)
    assert steps["a"].status.checks[0].message == "Reset to Pending after eviction. Previously: Retry"
    assert steps["a"].status.checks[0].retries == 1
    assert steps.alarm == 70.0
    steps.later(59.0)
    assert steps.reason("a", "Requeued") == ("False", "AdmissionCheck")
    steps.later(1.0)
    assert steps.reason("a", "Requeued") == ("True", "BackoffFinished")
    assert steps.reason("a") == ("True", "QuotaReserved")


def test_a_check_that_rejects_deactivates_the_workload():
    steps = answers(checked(), y=CheckState.REJECTED)
    assert steps["a"].active is False
    status, reason, message = steps.condition("a", "Evicted")
    assert (status, reason) == ("True", "DeactivatedDueToAdmissionCheck")
    assert message == 'The workload is deactivated due to AdmissionCheck in Rejected state: "y" (said so)'
    assert steps["a"].condition("DeactivationTarget") is None
    assert steps.reason("a") == ("False", "Deactivated")
    assert ("a", "AdmissionCheckRejected") in steps.told


def test_only_checks_of_the_assigned_flavor_count():
    groups = quota(spot=1, default=1)
    checks = RequiredCheck("x", ("spot",)), RequiredCheck("y", ("default",))
    steps = QuotaSteps(queue(groups=groups, checks=checks), flavor("spot"), check("x"), check("y"), work("a"))
    assert [one.name for one in steps["a"].status.checks] == ["x"]


def test_checks_that_a_queue_no_longer_asks_for_are_not_waited_for():
    steps = answers(checked(), x=CheckState.READY)
    steps.see(replace(CHECKED, checks=(RequiredCheck("x"),)))
    assert [one.name for one in steps["a"].status.checks] == ["x"]
    assert steps.admitted == ["a"]


# stop policies


@pytest.mark.parametrize(
    ("stopped", "reason", "again"),
    [
        pytest.param(
            queue(stop_policy=StopPolicy.HOLD_AND_DRAIN), "ClusterQueueStopped", "ClusterQueueRestarted", id="its queue"
        ),
        pytest.param(
            local(stop_policy=StopPolicy.HOLD_AND_DRAIN),
            "LocalQueueStopped",
            "LocalQueueRestarted",
            id="its local queue",
        ),
    ],
)
def test_a_queue_that_is_drained_sends_its_workloads_away_until_it_starts_again(stopped, reason, again):
    steps = QuotaSteps(queue(), work("a"))
    steps.see(stopped)
    assert steps.reason("a", "Evicted") == ("True", reason)
    assert steps.reason("a", "Requeued") == ("False", reason)
    assert steps.reason("a") == ("False", "Suspended")
    steps.see(replace(stopped, stop_policy=StopPolicy.NONE))
    assert steps.reason("a", "Requeued") == ("True", again)
    assert steps.admitted == ["a"]


@pytest.mark.parametrize("stopped", [queue(stop_policy=StopPolicy.HOLD), local(stop_policy=StopPolicy.HOLD)])
def test_a_queue_on_hold_keeps_what_is_admitted_and_admits_nothing(stopped):
    steps = QuotaSteps(queue(), work("a"))
    steps.see(stopped, work("b"))
    assert steps.admitted == ["a"]
    assert steps.reason("b") == ("False", "Suspended")


def test_what_has_quota_only_gives_it_back_to_a_queue_on_hold():
    steps = checked()
    steps.see(replace(CHECKED, stop_policy=StopPolicy.HOLD))
    assert steps.condition("a", "QuotaReserved")[:2] == ("False", "Suspended")
    assert steps["a"].status.admission is None
    assert steps.reason("a", "Evicted") is None


# pods that do not get ready


def slow(**fields):
    settings = QuotaSettings(pods_ready=PodsReady(timeout=300.0, recovery_timeout=30.0, **fields))
    return QuotaSteps(queue(cpu=1), work("a", owner=OWNER), settings=settings)


def pods_leave(steps):
    return steps.edit("a", **asdict(released(steps["a"], steps.now)))


def test_pods_that_are_not_ready_in_time_send_their_workload_back_to_rest():
    steps = slow().later(1.0)
    assert steps.alarm == 300.0
    steps.later(299.0)
    message = "Exceeded the PodsReady timeout default/a"
    assert steps.condition("a", "Evicted") == ("True", "PodsReadyTimeout", message)
    assert steps["a"].status.requeue == RequeueState(1, 360.0)
    assert [(one.reason, one.cause) for one in steps["a"].status.evictions] == [("PodsReadyTimeout", "WaitForStart")]
    pods_leave(steps)
    assert steps.reason("a", "Requeued") == ("False", "PodsReadyTimeout")
    assert steps.admitted == []
    steps.later(60.0)
    assert steps.admitted == ["a"]
    steps.later(300.0)
    assert steps["a"].status.requeue == RequeueState(2, 780.0), "it rests twice as long"


def test_pods_that_are_ready_are_not_waited_for_unless_they_stop_being_so():
    steps = slow()
    steps.says("a", "PodsReady", True, "Started").later(1000.0)
    assert steps.reason("a", "Evicted") is None
    steps.says("a", "PodsReady", False, "WaitForRecovery").later(30.0)
    assert steps.reason("a", "Evicted") == ("True", "PodsReadyTimeout")
    assert steps["a"].status.evictions[0].cause == "WaitForRecovery"


def test_a_workload_that_failed_too_often_is_deactivated():
    steps = slow(backoff_limit=0).later(300.0)
    assert steps["a"].active is False
    assert steps.reason("a", "Evicted") == ("True", "DeactivatedDueToRequeuingLimitExceeded")
    assert steps["a"].status.requeue is None
    assert ("a", "RequeuingLimitExceeded") in steps.told


def test_where_admission_waits_for_pods_one_workload_starts_after_the_other():
    settings = QuotaSettings(block_admission=True)
    steps = QuotaSteps(queue(cpu=2), work("a", owner=OWNER), work("b", created=1.0, owner=OWNER), settings=settings)
    assert steps.admitted == ["a"]
    assert steps.reason("b") == ("False", "WaitingForPodsReady")
    steps.says("a", "PodsReady", True, "Started")
    assert steps.admitted == ["a", "b"]


# time, deactivation, retention


def test_a_workload_runs_no_longer_than_it_may():
    steps = QuotaSteps(queue(), work("a", max_execution_seconds=100, past_execution_seconds=40))
    assert steps.later(1.0).alarm == 60.0
    steps.later(59.0)
    assert steps["a"].active is False
    assert steps.reason("a", "Evicted") == ("True", "DeactivatedDueToMaximumExecutionTimeExceeded")
    assert ("a", "MaximumExecutionTimeExceeded") in steps.told
    labels = {"reason": "Deactivated", "underlying_cause": "MaximumExecutionTimeExceeded", "priority_class": ""}
    assert steps.number("kueue_evicted_workloads_total", cluster_queue="cq", **labels) == 1


def test_a_deadline_that_was_acted_on_does_not_come_again():
    steps = QuotaSteps(queue(), work("a", max_execution_seconds=60)).later(1.0)
    steps.held, steps.now, steps.alarm = True, 60.0, None
    steps.step(TimerFired("quota")).step(TimerFired("quota"))
    assert steps.decisions("a").count("deactivationTarget") == 1
    assert steps.alarm is None


def test_no_time_matters_to_a_workload_that_is_switched_off_while_its_pods_leave():
    steps = QuotaSteps(queue(), work("a", owner=OWNER, max_execution_seconds=60)).later(1.0)
    steps.edit("a", active=False).later(1.0).restart().later(1.0)
    assert steps["a"].is_true("Admitted")
    assert steps.alarm is None or steps.alarm < 60.0


@pytest.mark.parametrize("reason", ["ClusterQueueStopped", "Unknown"])
def test_a_rest_that_ended_while_something_else_keeps_the_workload_rings_no_more(reason):
    steps = QuotaSteps(queue(stop_policy=StopPolicy.HOLD), work("a", requeue=RequeueState(1, 5.0)))
    steps.says("a", "Requeued", False, reason).later(2.0)
    assert steps.alarm == 5.0
    steps.alarm = None
    steps.later(3.0)
    assert steps.alarm is None


def test_a_workload_is_switched_off_and_on_again():
    steps = QuotaSteps(queue(cpu=1), work("a"), work("b", created=1.0))
    steps.edit("a", active=False)
    assert steps.condition("a", "Evicted") == ("True", "Deactivated", "The workload is deactivated")
    assert steps.reason("a") == ("False", "Deactivated")
    assert steps.admitted == ["b"]
    steps.finish("b")
    assert steps.admitted == []
    steps.edit("a", active=True)
    assert steps.reason("a", "Requeued") == ("True", "Reactivated")
    assert steps.admitted == ["a"]


def test_a_gated_workload_waits_until_the_last_controller_lets_go():
    steps = QuotaSteps(queue(), work("a", gated_by=("x.io/one", "y.io/two")))
    assert steps.condition("a", "QuotaReserved")[2] == "Admission is gated by: x.io/one,y.io/two"
    steps.edit("a", gated_by=("y.io/two",))
    assert steps.admitted == []
    steps.edit("a", gated_by=())
    assert steps.admitted == ["a"]
    assert ("a", "AdmissionGated") in steps.told
    assert ("a", "AdmissionGateCleared") in steps.told


def test_a_workload_whose_job_is_gone_is_finished():
    made_for_a_job = {"labels": {"kueue.x-k8s.io/job-uid": "1"}}
    steps = QuotaSteps(queue(), work("a", owned_by_stranger=False, **made_for_a_job))
    assert steps.reason("a", "Finished") == ("True", "OwnerNotFound")
    assert steps.admitted == []


@pytest.mark.parametrize("told", [None, True], ids=["nobody says who", "something of a kind we do not know"])
def test_a_workload_that_may_have_an_owner_we_do_not_know_is_left_to_it(told):
    steps = QuotaSteps(queue(cpu=1), work("a", labels={"kueue.x-k8s.io/job-uid": "1"}, owned_by_stranger=told))
    assert steps.admitted == ["a"]
    steps.edit("a", active=False)
    assert steps.reason("a", "Evicted") == ("True", "Deactivated")
    assert steps.reason("a") == ("True", "QuotaReserved"), "its quota is its owner's to give back"


def test_finished_workloads_are_kept_as_long_as_said():
    steps = QuotaSteps(queue(), work("a"), settings=QuotaSettings(retention=Retention(after_finished=60.0)))
    steps.finish("a").later(59.0)
    assert [one.key.name for one in steps.workloads] == ["a"]
    assert steps.alarm == 60.0
    steps.later(1.0)
    assert steps.workloads == []
    assert any(isinstance(write, Delete) for write in steps.written)


def test_who_is_not_tried_because_one_alike_was_refused_is_told_so():
    steps = QuotaSteps(queue(cpu=1), work("a"), work("b", created=1.0), work("c", created=2.0))
    assert steps.reason("b") == ("False", "WaitingForQuota")
    assert steps.condition("c", "QuotaReserved") is None, "who has shown nothing yet is not told"
    steps.says("c", "QuotaReserved", False, "PendingEvaluation", "evicted")
    message = "Bypassed scheduling evaluation because an equivalent workload recently failed"
    assert steps.condition("c", "QuotaReserved") == ("False", "WaitingForQuota", message)
    steps.says("c", "QuotaReserved", False, "NoMatchingFlavor", "found when it was tried")
    assert steps.condition("c", "QuotaReserved")[2] == "found when it was tried"


def test_a_workload_on_hold_waits_nowhere():
    steps = QuotaSteps(queue(cpu=1), work("a"), work("b", created=1.0))
    steps.says("b", "QuotaReserved", False, "OnHold", "scaled to zero")
    steps.finish("a")
    assert steps.admitted == []
    assert steps.condition("b", "QuotaReserved") == ("False", "OnHold", "scaled to zero")
    steps.says("b", "QuotaReserved", False, "PendingEvaluation")
    assert steps.admitted == ["b"]
