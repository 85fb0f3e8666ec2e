"""From one status of a queued workload to the next: what is said, what is kept, and what is forgotten."""

import pytest
from builders import changed, kueue_workload
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headgate.lifecycle.workload.admission import admitted, refused, required_checks, reserved, synced_checks
from headgate.lifecycle.workload.deadlines import execution_ends, next_deadline, ready_until
from headgate.lifecycle.workload.eviction import (
    deactivated,
    deactivation_target,
    evicted,
    preempted,
    released,
    requeued,
    timed_out,
)
from headgate.lifecycle.workload.next_step import next_step
from headgate.lifecycle.workload.queue_snapshot import QueueSnapshot, inadmissible_reason
from headgate.model.keys import Condition, Key, Kind, Target
from headgate.model.pod import PodShape
from headgate.model.queues import (
    GATE_SIGNALS,
    Admission,
    CheckState,
    CheckStatus,
    ClusterQueue,
    FlavorQuotas,
    GateStatus,
    LocalQueue,
    PodSet,
    PodSetAssignment,
    PreemptionProposal,
    Quota,
    RequeueState,
    RequiredCheck,
    ResourceGroup,
)
from headgate.model.resources import Resources
from headgate.model.settings import PodsReady, QuotaSettings

CPU = Resources.of({"cpu": 1000})
GIVEN = Admission("cq", (PodSetAssignment("main", (("cpu", "default"),), CPU, 1),))
LOCAL = LocalQueue(Key(Kind.LOCAL_QUEUE, "default", "lq"), "uid-lq", "1", "cq")


def queue(*flavors, **fields):
    groups = (ResourceGroup(("cpu",), tuple(FlavorQuotas(name, (("cpu", Quota(1000)),)) for name in flavors)),)
    return ClusterQueue(Key(Kind.CLUSTER_QUEUE, "", "cq"), "uid-cq", "1", groups, **fields)


def work(*conditions, **fields):
    key = Key(Kind.KUEUE_WORKLOAD, "default", "a")
    pod_sets = (PodSet("main", PodShape(requests=CPU)),)
    return kueue_workload(key, "uid-a", "1", 0.0, pod_sets, queue="lq", conditions=conditions, generation=3, **fields)


def true(type_, reason="", message="", at=0.0):
    return Condition(type_, "True", reason, message, at)


def after(workload, status):
    return replace(workload, status=status)


def shown(status, type_):
    found = next((one for one in status.conditions if one.type == type_), None)
    return found and (found.status, found.reason, found.message)


def running(**fields):
    return after(work(**fields), reserved(work(**fields), GIVEN, (), 10.0))


def test_reserving_with_checks_to_wait_for_does_not_admit():
    status = reserved(work(resource_requests=(("main", CPU),)), GIVEN, ("x",), 10.7)
    assert shown(status, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
    assert shown(status, "Admitted")[:2] == ("False", "UnsatisfiedAdmissionChecks")
    assert status.checks == (CheckStatus("x", at=10.0),)
    assert status.resource_requests == ()


def test_times_have_whole_seconds_and_name_the_generation():
    (condition, _) = reserved(work(), GIVEN, (), 10.7).conditions
    assert (condition.at, condition.generation) == (10.0, 3)


def test_a_check_that_was_ready_before_counts():
    ready = CheckStatus("x", CheckState.READY)
    assert shown(reserved(work(checks=(ready,)), GIVEN, ("x",), 1.0), "Admitted")[0] == "True"


def test_a_refusal_keeps_the_time_of_the_first_one():
    first = after(work(), refused(work(), "WaitingForQuota", "1 more", (), 5.0))
    again = refused(first, "ExceedsMaxQuota", "2 more", (("main", CPU),), 9.0)
    condition = next(one for one in again.conditions if one.type == "QuotaReserved")
    assert (condition.at, condition.reason, again.resource_requests) == (5.0, "ExceedsMaxQuota", (("main", CPU),))


def test_an_eviction_keeps_the_quota_and_resets_what_let_it_in():
    workload = running(
        checks=(CheckStatus("x", CheckState.RETRY, retries=1), CheckStatus("y", CheckState.READY, updates=b"[]")),
        gate_statuses=(GateStatus("g", True, 1.0),),
        cluster="east",
        nominated_clusters=("west",),
    )
    workload = changed(workload, checks=(CheckStatus("x", CheckState.RETRY, retries=1), CheckStatus("z")))
    status = evicted(workload, "NodeFailures", "lost", 20.0)
    assert status.admission == GIVEN
    assert [(one.name, one.state, one.retries) for one in status.checks] == [("x", "Pending", 2), ("z", "Pending", 0)]
    assert status.gate_statuses == (GateStatus("g", False, 20.0),)
    assert (status.cluster, status.nominated_clusters) == ("", ())


def test_an_eviction_withdraws_what_was_said_of_closed_gates():
    signals = [Condition(type_, "True", "PreemptionGated", "m", 1.0) for type_ in GATE_SIGNALS]
    before = running(proposal=PreemptionProposal(True, 1))
    before = changed(before, conditions=(*before.status.conditions, *signals))
    status = evicted(before, "NodeFailures", "lost", 20.0)
    found = [(one.status, one.reason, one.at) for one in status.conditions if one.type in GATE_SIGNALS]
    assert (found, status.proposal) == ([("False", "Evicted", 20.0)] * 2, None)


def test_evictions_are_counted_by_reason_and_cause():
    workload = running()
    for now in (20.0, 30.0):
        workload = after(workload, evicted(workload, "PodsReadyTimeout", "slow", now, cause="WaitForStart"))
    workload = after(workload, preempted(workload, "InClusterQueue", "for another", 40.0))
    assert [(one.reason, one.cause, one.count) for one in workload.status.evictions] == [
        ("PodsReadyTimeout", "WaitForStart", 2),
        ("Preempted", "", 1),
    ]


@pytest.mark.parametrize(
    ("reason", "again"),
    [
        pytest.param("Preempted", "True", id="preempted: it queues up at once"),
        pytest.param("NodeFailures", "True", id="its node failed: it queues up at once"),
        pytest.param("PodsReadyTimeout", "False", id="not ready in time: it rests first"),
        pytest.param("ClusterQueueStopped", "False", id="its queue is stopped: it waits for that"),
    ],
)
def test_whoever_gave_its_quota_back_queues_up_again_as_the_reason_has_it(reason, again):
    workload = after(running(), evicted(running(), reason, "why", 20.0))
    status = released(workload, 25.9)
    assert shown(status, "Requeued") == (again, reason, "why")
    assert shown(status, "QuotaReserved") == ("False", "PendingEvaluation", "why")
    assert shown(status, "Admitted") == ("False", "NoReservation", "The workload has no reservation")
    assert (status.admission, status.past_execution_seconds) == (None, 15)


@given(st.integers(0, 200), st.integers(1, 1000), st.integers(1, 5000))
def test_rests_grow_and_are_bounded(before, base, most):
    settings = PodsReady(backoff_base=base, backoff_most=most)
    resting = timed_out(running(requeue=RequeueState(before)), settings, "WaitForStart", 100.0).requeue
    longer = timed_out(running(requeue=resting), settings, "WaitForStart", 100.0).requeue
    assert resting.count == before + 1
    assert min(base, most) <= resting.at - 100.0 <= longer.at - 100.0 <= most


def test_a_rest_too_many_is_not_granted():
    assert timed_out(running(requeue=RequeueState(2)), PodsReady(backoff_limit=2), "WaitForStart", 1.0) is None


def test_deactivation_tells_why_and_forgets_the_rest():
    workload = after(
        running(requeue=RequeueState(3, 99.0)), deactivation_target(running(), "AdmissionCheck", "x said no", 20.0)
    )
    workload = changed(workload, requeue=RequeueState(3, 99.0), active=False)
    status = deactivated(workload, 21.0)
    assert shown(status, "Evicted") == (
        "True",
        "DeactivatedDueToAdmissionCheck",
        "The workload is deactivated due to x said no",
    )
    assert shown(status, "DeactivationTarget") is None
    assert (status.requeue, status.admission) == (None, GIVEN)


def test_deactivating_what_has_no_quota_leaves_nothing_to_give_back():
    status = deactivated(work(active=False), 1.0)
    assert shown(status, "QuotaReserved")[:2] == ("False", "Deactivated")
    assert shown(status, "Requeued")[:2] == ("False", "Deactivated")


def test_queueing_up_again_remembers_how_often_but_not_until_when():
    status = requeued(work(requeue=RequeueState(2, 50.0)), "BackoffFinished", "rested", 60.0)
    assert status.requeue == RequeueState(2, None)


# checks


@pytest.mark.parametrize(
    ("admission", "names"),
    [
        pytest.param(None, ("all", "both"), id="without flavors, those that hold for all"),
        pytest.param(GIVEN, ("all", "both", "some"), id="with flavors, those of the flavors"),
    ],
)
def test_which_checks_a_workload_needs(admission, names):
    checks = (
        RequiredCheck("some", ("default",)),
        RequiredCheck("other", ("spot",)),
        RequiredCheck("both", ("default", "spot")),
        RequiredCheck("all"),
    )
    assert required_checks(queue("default", "spot", checks=checks), admission) == names


def test_known_checks_keep_their_state_and_surplus_ones_go():
    ready = CheckStatus("b", CheckState.READY, at=1.0)
    synced = synced_checks((ready, CheckStatus("gone")), ("a", "b"), 7.0)
    assert synced == (CheckStatus("a", at=7.0), ready)


# time


@pytest.mark.parametrize(
    ("workload", "until"),
    [
        pytest.param(work(), None, id="what is not admitted is not waited for"),
        pytest.param(work(true("Admitted", at=10.0)), None, id="nobody would say it of a workload nobody owns"),
        pytest.param(
            work(true("Admitted", at=10.0), Condition("PodsReady", "False", "WaitForStart", "", 12.0)),
            (310.0, "WaitForStart"),
            id="since it was admitted",
        ),
        pytest.param(
            work(true("Admitted", at=10.0), Condition("PodsReady", "False", "WaitForRecovery", "", 500.0)),
            (530.0, "WaitForRecovery"),
            id="since they were lost",
        ),
        pytest.param(work(true("Admitted"), true("PodsReady", "Started")), None, id="they are ready"),
    ],
)
def test_how_long_pods_are_waited_for(workload, until):
    found = ready_until(workload, QuotaSettings(pods_ready=PodsReady(timeout=300.0, recovery_timeout=30.0)))
    assert (found and tuple(found)) == until
    assert ready_until(workload, QuotaSettings(pods_ready=PodsReady(None, None))) is None, "not where that is off"


def test_the_earliest_deadline_counts():
    owner = Target(Key(Kind.JOB, "default", "j"), "uid-j")
    workload = running(owner=owner, max_execution_seconds=60, past_execution_seconds=20)
    assert execution_ends(workload, QuotaSettings()) == 50.0
    assert next_deadline(workload, QuotaSettings()) == 50.0


# what is next


def queue_snapshot(**fields):
    made = {"local": LOCAL, "queue": queue("default"), "queue_is_active": True, "may_enter": True}
    return QueueSnapshot(**{**made, **fields}, settings=QuotaSettings())


@pytest.mark.parametrize(
    ("workload", "queues", "message"),
    [
        pytest.param(work(), queue_snapshot(local=None), "LocalQueue lq doesn't exist", id="no local queue"),
        pytest.param(work(), queue_snapshot(queue=None), "ClusterQueue cq doesn't exist", id="no cluster queue"),
        pytest.param(work(), queue_snapshot(queue_is_active=False), "ClusterQueue cq is inactive", id="inactive queue"),
        pytest.param(
            work(),
            queue_snapshot(may_enter=False),
            "workload namespace doesn't match ClusterQueue selector",
            id="not for it",
        ),
        pytest.param(work(), queue_snapshot(), None, id="nothing"),
    ],
)
def test_what_keeps_a_workload_out_of_its_queue(workload, queues, message):
    found = inadmissible_reason(workload, queues)
    assert (found and found.message) == message


def test_nothing_is_next_for_a_workload_that_waits_or_runs():
    assert next_step(work(), queue_snapshot(), 5.0) is None
    assert next_step(running(), queue_snapshot(), 5.0) is None


def test_what_was_said_when_it_was_considered_stands():
    told = after(work(), refused(work(), "WaitingForQuota", "1 more", (), 1.0))
    assert next_step(told, queue_snapshot(), 5.0) is None


def test_what_kept_it_out_is_withdrawn_when_it_is_over():
    told = after(work(), refused(work(), "Suspended", "stopped", (), 1.0))
    step = next_step(told, queue_snapshot(), 5.0)
    assert shown(step.change, "QuotaReserved")[:2] == ("False", "PendingEvaluation")


def test_a_step_once_taken_is_not_due_again():
    workload = after(running(), reserved(work(), GIVEN, ("x",), 1.0))
    for queues in (queue_snapshot(), queue_snapshot(local=None), queue_snapshot(queue_is_active=False)):
        at, seen = workload, 0
        while (step := next_step(at, queues, 10_000.0)) is not None:
            at, seen = after(at, step.change), seen + 1
            assert seen < 8


def test_admitting_says_only_that():
    before = after(work(), reserved(work(), GIVEN, ("x",), 1.0))
    status = admitted(before, 2.0)
    assert shown(status, "Admitted") == ("True", "Admitted", "The workload is admitted")
    assert status.admission == GIVEN
