"""Who must leave for whom, how that is told, and when the quota comes back."""

import pytest
from msgspec import structs
from quota_steps import OWNER, QuotaSteps, cohort, local, pods, queue, work

from headgate.lifecycle.workload.eviction import released
from headgate.model.queues import BorrowWithinCohort, GateStatus, QueuePreemption, Reclaim, WithinQueue
from headgate.model.settings import QuotaSettings

LOWER = QueuePreemption(within_queue=WithinQueue.LOWER_PRIORITY)
ANY = QueuePreemption(reclaim=Reclaim.ANY)


def gone(steps, name):
    """What an integration does once the pods are gone."""
    return steps.edit(name, **structs.asdict(released(steps[name], steps.now)))


def test_the_victim_is_told_and_the_preemptor_waits_for_its_quota():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low", owner=OWNER))
    steps.see(work("high", priority=1))
    message = (
        "Preempted to accommodate a workload (UID: uid-high, JobUID: UNKNOWN) due to prioritization in the "
        "ClusterQueue; preemptor path: /cq; preemptee path: /cq"
    )
    assert steps.condition("low", "Evicted") == ("True", "Preempted", message)
    assert steps.condition("low", "Preempted") == ("True", "InClusterQueue", message)
    assert steps.reason("low") == ("True", "QuotaReserved"), "it holds its quota until its pods are gone"
    assert steps.reason("high") == ("False", "WaitingForPreemptedWorkloads")
    assert steps.condition("high", "QuotaReserved")[2].endswith(". Pending the preemption of 1 workload(s)")
    gone(steps, "low")
    assert steps.admitted == ["high"]
    assert steps.reason("low") == ("False", "WaitingForQuota")


def test_what_nobody_owns_gives_its_quota_back_by_itself():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low"))
    steps.now = 7.0
    steps.see(work("high", priority=1))
    assert steps.admitted == ["high"]
    low = steps["low"]
    assert steps.reason("low", "Evicted") == ("True", "Preempted")
    assert steps.reason("low", "Requeued") == ("True", "Preempted")
    assert (low.status.admission, low.status.past_execution_seconds) == (None, 7)
    assert [(one.reason, one.cause, one.count) for one in low.status.evictions] == [("Preempted", "", 1)]


def test_a_victim_is_told_once_however_long_it_takes():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low", owner=OWNER), work("high", priority=1))
    before = len(steps.statuses_written("low"))
    steps.see(work("other", priority=1, created=5.0)).later(60.0)
    assert len(steps.statuses_written("low")) == before
    assert steps.number("kueue_preempted_workloads_total", preempting_cluster_queue="cq", reason="InClusterQueue") <= 1


def test_events_and_counts_of_a_preemption():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low"))
    steps.see(work("high", priority=1))
    for event in (("low", "EvictedDueToPreempted"), ("low", "Preempted"), ("high", "PreemptedWorkload")):
        assert steps.told.count(event) == 1
    labels = {"cluster_queue": "cq", "reason": "Preempted", "underlying_cause": "", "priority_class": ""}
    assert steps.number("kueue_evicted_workloads_total", **labels) == 1
    assert steps.number("kueue_preempted_workloads_total", preempting_cluster_queue="cq", reason="InClusterQueue") == 1


def test_a_queue_takes_back_what_others_borrowed():
    queues = queue("cq", 1, "team", preemption=ANY), queue("other", 1, "team"), local("lq2", "other"), cohort("team")
    steps = QuotaSteps(*queues, work("b1", queue="lq2"), work("b2", queue="lq2", created=1.0))
    assert steps.admitted == ["b1", "b2"]
    steps.now = 5.0
    steps.see(work("own", created=5.0))
    assert "own" in steps.admitted
    (victim,) = [name for name in ("b1", "b2") if steps.condition(name, "Preempted")]
    status, reason, message = steps.condition(victim, "Preempted")
    assert (status, reason) == ("True", "InCohortReclamation")
    assert "preemptor path: /team/cq; preemptee path: /team/other" in message


def test_the_past_of_a_workload_is_told_as_past_when_it_gets_quota_again():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low"))
    steps.see(work("high", priority=1)).finish("high")
    assert steps.admitted == ["low"]
    for type_ in ("Evicted", "Preempted"):
        status, reason, message = steps.condition("low", type_)
        assert (status, reason) == ("False", "QuotaReserved")
        assert message.startswith("Previously: Preempted to accommodate")


def test_an_eviction_that_fails_is_decided_anew():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low", owner=OWNER))
    steps.held = True
    steps.see(work("high", priority=1))
    steps.put(steps["low"])  # somebody else wrote something in between
    steps.release()
    assert steps.reason("low", "Evicted") is None
    steps.see(steps["low"])
    assert steps.reason("low", "Evicted") == ("True", "Preempted")


def test_a_closed_gate_holds_back_the_preemption():
    settings = QuotaSettings(preemption_gates=True)
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low"), settings=settings)
    steps.see(work("high", priority=1, preemption_gates=("example.com/g",)))
    assert steps["high"].status.gate_statuses == (GateStatus("example.com/g", False, 0.0),)
    assert steps.reason("high") == ("False", "AdmissionGated")
    assert steps.reason("high", "BlockedOnPreemptionGates") == ("True", "PreemptionGated")
    assert steps.admitted == ["low"]
    steps.edit("high", gate_statuses=(GateStatus("example.com/g", True, 0.0),))
    assert steps.admitted == ["high"]
    assert steps.reason("high", "BlockedOnPreemptionGates") == ("False", "PendingEvaluation")


def gated(*objects):
    """A workload whose preemption a closed gate forbids."""
    settings = QuotaSettings(preemption_gates=True)
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low"), *objects, settings=settings)
    steps.see(work("high", priority=1, preemption_gates=("example.com/g",)))
    assert steps.reason("high", "BlockedOnPreemptionGates") == ("True", "PreemptionGated")
    return steps


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    "change, reason",
    [
        pytest.param({"priority": 0}, "WaitingForQuota", id="there is nobody to preempt any more"),
        pytest.param({"pod_sets": (pods(9),)}, "ExceedsMaxQuota", id="preemption would not help"),
        pytest.param({"queue": "gone"}, "Misconfigured", id="its queue is none"),
        pytest.param({"gated_by": ("example.com/g",)}, "AdmissionGated", id="it is not to be admitted at all"),
    ],
)
def test_what_is_said_of_preemption_gates_is_withdrawn_when_it_is_no_longer_so(change, reason, restarts):
    steps = gated()
    if restarts:
        steps.put(structs.replace(steps["high"], **change))
        steps.restart()
    else:
        steps.edit("high", **change)
    assert steps.reason("high") == ("False", reason)
    assert steps.reason("high", "BlockedOnPreemptionGates") == ("False", reason)
    assert ("high", "AdmissionGateCleared") not in steps.told


def test_a_preemption_gate_that_blocks_again_is_told_again():
    steps = gated()
    steps.edit("high", priority=0)
    steps.edit("high", priority=1)
    assert steps.reason("high", "BlockedOnPreemptionGates") == ("True", "PreemptionGated")


def test_a_preemption_is_told_to_the_victim_and_to_the_preemptor():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low"))
    steps.events = []
    steps.see(work("high", priority=1, boost=2))
    assert [told for told in steps.told if told[1] != "WaitingForPreemptedWorkloads"][:3] == [
        ("low", "EvictedDueToPreempted"),
        ("low", "Preempted"),
        ("high", "PreemptedWorkload"),
    ]
    (message,) = [event.message for event in steps.events if event.reason == "PreemptedWorkload"]
    assert message == (
        "Preempted workload default/low (UID: uid-low) in ClusterQueue cq; "
        "preemptor effective priority: 3 (base: 1, boost: 2); preemptee effective priority: 0 (base: 0, boost: 0)"
    )


def test_quota_is_not_given_away_before_its_return_is_seen():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("low"))
    steps.held = True
    steps.see(work("high", priority=1)).later(5.0)
    assert "admit" not in steps.decisions("high")
    steps.release()
    assert "admit" in steps.decisions("high")
    assert steps.admitted == ["high"]


def test_a_guest_waits_until_the_owners_in_line_have_theirs():
    """The first of each queue go first: it would get what the second of the owners takes back a moment later."""
    steps = QuotaSteps(
        queue("cq", cpu=2, cohort="all", preemption=ANY),
        queue("poor", cpu=0, cohort="all"),
        local("guests", of="poor"),
        work("guest", queue="guests"),
        work("first", priority=1),
        work("second"),
    )
    assert steps.admitted == ["first", "second"]
    assert set(steps.decisions("guest")) == {"wait"}
    steps.finish("first")
    assert "guest" in steps.admitted


def test_what_was_promised_and_taken_back_in_one_step_was_never_told_and_gets_its_turn_again():
    """The urgent one leaves too little for the large one; what a small one gets of that goes to the large one after
    all, which preempts an older workload as well."""
    names = ("urgent", "large", "small")
    borrows = QueuePreemption(reclaim=Reclaim.ANY, borrow=BorrowWithinCohort.LOWER_PRIORITY)
    steps = QuotaSteps(
        queue("cq", cpu=7, cohort="all"),
        *(queue(name, cpu=0, cohort="all", preemption=borrows) for name in names),
        *(local(name, of=name) for name in names),
        work("old", queue="small"),
    )
    assert steps.admitted == ["old"]
    steps.see(
        work("small", cpu=2, queue="small"),
        work("large", cpu=4, priority=5, queue="large"),
        work("urgent", cpu=3, priority=9, queue="urgent"),
    )
    assert steps.admitted == ["large", "urgent"]
    assert steps.decisions("small")[:2] == ["admit", "preempt"]
    assert steps.condition("small", "Evicted") is None
    assert steps["small"].status.evictions == ()
    steps.finish("large")
    assert "small" in steps.admitted


# What was chosen stands until something changes


def preempting():
    """`high` wants 2 of 3 cores; `a` and `b` leave for it, and take their time."""
    lows = [work(name, owner=OWNER, created=float(i)) for i, name in enumerate("cba")]
    steps = QuotaSteps(queue(cpu=3, preemption=LOWER), *lows)
    steps.see(work("high", cpu=2, priority=1))
    assert evicted(steps) == ["a", "b"]
    return steps


def evicted(steps):
    return [each.key.name for each in steps.workloads if each.is_true("Evicted")]


def test_others_that_wait_behind_a_preemptor_change_nothing_of_its_victims():
    steps = preempting()
    steps.see(*(work(f"w{i}", cpu=1 + i, priority=1, created=10.0 + i) for i in range(9)))
    assert evicted(steps) == ["a", "b"]
    gone(gone(steps, "a"), "b")
    assert "high" in steps.admitted


def test_a_preemptor_that_wants_more_preempts_more():
    steps = preempting()
    steps.edit("high", pod_sets=(pods(3),), generation=2)
    assert evicted(steps) == ["a", "b", "c"]


def test_a_preemptor_preempts_more_where_quota_went_to_somebody_else():
    steps = preempting()
    steps.see(queue(cpu=2, preemption=LOWER))
    assert evicted(steps) == ["a", "b", "c"]


def test_a_preemptor_does_not_wait_for_its_victims_where_there_is_more_quota():
    steps = preempting()
    steps.see(queue(cpu=5, preemption=LOWER))
    assert "high" in steps.admitted


def test_a_victim_that_finished_leaves_the_others_to_be_waited_for():
    steps = preempting()
    steps.finish("a")
    steps.see(work("other", priority=1, created=10.0))
    assert "high" not in steps.admitted
    assert evicted(steps) == ["a", "b"]
    gone(steps, "b")
    assert "high" in steps.admitted


def test_what_is_quota_by_now_needs_no_victim_that_is_not_gone_yet():
    steps = preempting()
    steps.finish("c")
    steps.finish("a")
    assert "high" in steps.admitted
