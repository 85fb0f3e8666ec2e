"""What is counted about quota, and how long things took, by Kueue's names."""

from __future__ import annotations

import pytest
from msgspec import structs
from quota_steps import OWNER, QuotaSteps, check, local, queue, quota, work

from headgate.engine.metrics import Distribution, Distributions, Histogram
from headgate.engine.quota.metrics import BOUNDS, AdmissionMetrics
from headgate.model.queues import (
    CheckState,
    CheckStatus,
    PriorityClassRef,
    QueuePreemption,
    Quota,
    Reclaim,
    RequiredCheck,
    StopPolicy,
    WithinQueue,
)

CQ = {"cluster_queue": "cq", "priority_class": ""}
LQ = {"name": "lq", "namespace": "default", "priority_class": ""}
LOWER = QueuePreemption(within_queue=WithinQueue.LOWER_PRIORITY)


def seconds(steps, metric, **labels):
    """How many waits were told, and how long they were together."""
    found = steps.number(metric, **labels)
    return (found.count, found.total) if isinstance(found, Distribution) else (0, 0)


def both(steps, name):
    """Of the cluster queue and of the local queue."""
    return seconds(steps, f"kueue_{name}", **CQ), seconds(steps, f"kueue_local_queue_{name}", **LQ)


# how long things took


def waits_for_quota(steps):
    steps.now = 7.0
    steps.finish("first")


def waits_again(steps):
    """Admitted at 0, told to go at 4, released at 6, admitted again at 9."""
    steps.now = 4.0
    steps.see(structs.replace(queue(cpu=1), stop_policy=StopPolicy.HOLD_AND_DRAIN))
    steps.now = 6.0
    steps.step()
    steps.now = 9.0
    steps.see(queue(cpu=1))


@pytest.mark.parametrize(
    ("works", "happens", "waits"),
    [
        pytest.param([work("first")], lambda steps: None, (1, 0.0), id="admitted at once"),
        pytest.param([work("first", created=-3.0)], lambda steps: None, (1, 3.0), id="since it was created"),
        pytest.param([work("first"), work("a", created=2.0)], waits_for_quota, (2, 5.0), id="after another one"),
    ],
)
@pytest.mark.parametrize("name", ["quota_reserved_wait_time_seconds", "admission_wait_time_seconds"])
def test_how_long_workloads_wait(name, works, happens, waits):
    steps = QuotaSteps(queue(cpu=1), *works)
    happens(steps)
    assert both(steps, name) == (waits, waits)


def test_the_wait_begins_anew_when_it_is_requeued():
    steps = QuotaSteps(queue(cpu=1), work("a"))
    waits_again(steps)
    count, total = both(steps, "quota_reserved_wait_time_seconds")[0]
    assert (count, steps.admitted) == (2, ["a"])
    assert total == 9.0 - steps["a"].condition("Requeued").at < 9.0


def checked(name="c"):
    return queue(checks=(RequiredCheck(name),))


def test_how_long_checks_take_is_counted_from_the_reservation():
    steps = QuotaSteps(check("c"), checked(), work("a"))
    assert both(steps, "admission_checks_wait_time_seconds") == ((0, 0), (0, 0))
    steps.now = 30.0
    steps.edit("a", checks=(CheckStatus("c", CheckState.READY),))
    assert both(steps, "admission_checks_wait_time_seconds") == ((1, 30.0), (1, 30.0))
    assert both(steps, "admission_wait_time_seconds") == ((1, 30.0), (1, 30.0))
    assert both(steps, "quota_reserved_wait_time_seconds") == ((1, 0.0), (1, 0.0))


def test_without_checks_nothing_is_told_of_them():
    assert both(QuotaSteps(queue(), work("a")), "admission_checks_wait_time_seconds") == ((0, 0), (0, 0))


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        pytest.param("Started", True, id="the first time"),
        pytest.param("Recovered", False, id="not when they have recovered"),
    ],
)
def test_how_long_pods_take_to_be_ready(reason, told):
    steps = QuotaSteps(queue(cpu=1), work("a", created=-5.0, owner=OWNER))
    steps.now = 20.0
    steps.says("a", "PodsReady", True, reason)
    since_created, since_admitted = (((1, 25.0),) * 2, ((1, 20.0),) * 2) if told else (((0, 0),) * 2,) * 2
    assert both(steps, "ready_wait_time_seconds") == since_created
    assert both(steps, "admitted_until_ready_wait_time_seconds") == since_admitted


def test_how_long_it_ran_in_all():
    steps = QuotaSteps(queue(cpu=1), work("a", past_execution_seconds=100))
    steps.now = 40.0
    steps.finish("a")
    assert both(steps, "execution_time_seconds") == ((1, 140.0), (1, 140.0))


def test_how_long_pods_had_been_ready_when_they_had_to_go_and_how_long_quota_was_held_on_to():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("a", owner=OWNER))
    steps.now = 10.0
    steps.says("a", "PodsReady", True, "Started")
    steps.now = 25.0
    steps.see(work("b", priority=5, created=25.0))
    why = {"cluster_queue": "cq", "reason": "Preempted"}
    assert seconds(steps, "kueue_pods_ready_to_evicted_time_seconds", **why, underlying_cause="") == (1, 15.0)
    assert seconds(steps, "kueue_workload_eviction_latency_seconds", **why) == (0, 0)
    steps.now = 60.0
    steps.says("a", "QuotaReserved", False, "Pending")
    assert seconds(steps, "kueue_workload_eviction_latency_seconds", **why) == (1, 35.0)


def test_what_a_restart_sees_again_is_not_told_again():
    steps = QuotaSteps(check("c"), checked(), work("a", owner=OWNER), work("b", cpu=9))
    steps.edit("a", checks=(CheckStatus("c", CheckState.READY),)).says("a", "PodsReady", True, "Started")
    steps.finish("a")
    steps.restart()
    told = [name for name, _, value in steps.plane.collect() if isinstance(value, Distribution) or "_total" in name]
    assert told == ["kueue_admission_attempts_total"]


def test_an_object_seen_again_as_it_was_is_not_counted_again():
    steps = QuotaSteps(queue(), work("a"))
    steps.see(steps["a"]).see(steps["a"])
    assert steps.number("kueue_admitted_workloads_total", **CQ) == 1
    assert both(steps, "admission_wait_time_seconds") == ((1, 0.0), (1, 0.0))


@pytest.mark.parametrize(
    ("name", "count", "last"),
    [
        pytest.param("kueue_quota_reserved_wait_time_seconds", 14, 10240.0, id="fourteen as a rule"),
        pytest.param("kueue_admission_wait_time_seconds", 16, 40960.0, id="sixteen for admission"),
        pytest.param("kueue_local_queue_admission_wait_time_seconds", 14, 10240.0, id="but not of local queues"),
        pytest.param("kueue_workload_eviction_latency_seconds", 14, 10240.0, id="fourteen for evictions"),
    ],
)
def test_bounds_are_those_of_kueue(name, count, last):
    assert (len(BOUNDS[name]), BOUNDS[name][:4], BOUNDS[name][-1]) == (count, (1.0, 2.5, 5.0, 10.0), last)


def test_a_value_counts_for_the_first_bound_it_does_not_exceed():
    made = Distributions({"m": (1.0, 2.0)})
    for value in (-4.0, 1.0, 1.5, 2.0, 9.0):
        made.observe("m", (), value)
    assert list(made) == [("m", (), Distribution((1.0, 2.0), (2, 2, 1), 13.5))]


def test_what_was_told_by_finer_bounds_counts_by_the_coarser_ones():
    fine, made = Histogram((1.0, 2.0, 4.0)), Distributions({"m": (1.0, 2.0)})
    for value in (1.0, 2.0, 3.0, 9.0):
        fine.add(value)
    made.observe("m", (), 2.0)
    made.take_in("m", (), fine)
    assert list(made) == [("m", (), Distribution((1.0, 2.0), (1, 2, 2), 17.0))]


# what only grows


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [work("a"), work("b"), work("c")], {"success": 2, "inadmissible": 1}, id="one workload after another"
        ),
        pytest.param([work("big", cpu=9)], {"inadmissible": 1}, id="a cycle that admits nobody"),
        pytest.param(
            [work("a", queue="lq2"), work("b", queue="lq2"), work("c", cpu=9)],
            {"success": 1, "inadmissible": 1},
            id="heads of two queues are one attempt",
        ),
    ],
)
def test_attempts_are_cycles(objects, expected):
    steps = QuotaSteps(queue(cpu=2), queue("other", cpu=1), local("lq2", "other")).see(*objects)
    counted = {result: steps.number("kueue_admission_attempts_total", result=result) for result in expected}
    assert counted == expected


def test_workloads_by_priority_class():
    ranked = PriorityClassRef("kueue.x-k8s.io", "WorkloadPriorityClass", "high")
    steps = QuotaSteps(queue(cohort="team"), work("a", priority_class=ranked))
    steps.finish("a")
    of_class = {"priority_class": "high"}
    for what in ("quota_reserved", "admitted", "finished"):
        assert steps.number(f"kueue_{what}_workloads_total", cluster_queue="cq", **of_class) == 1
        assert steps.number(f"kueue_local_queue_{what}_workloads_total", **{**LQ, **of_class}) == 1
    assert steps.number("kueue_cohort_subtree_admitted_workloads_total", cohort="team", **of_class) == 1


def test_evictions_each_time_and_once_for_each_reason():
    steps = QuotaSteps(queue(cpu=1), work("a"))
    waits_again(steps)
    steps.see(structs.replace(queue(cpu=1), stop_policy=StopPolicy.HOLD_AND_DRAIN))
    why = {"reason": "ClusterQueueStopped", "underlying_cause": ""}
    assert steps.number("kueue_evicted_workloads_total", **CQ, **why) == 2
    assert steps.number("kueue_local_queue_evicted_workloads_total", **LQ, **why) == 2
    assert steps.number("kueue_evicted_workloads_once_total", **CQ, **why) == 1


def test_a_workload_that_had_no_quota_was_not_evicted():
    steps = QuotaSteps(queue(cpu=1), work("a", cpu=9))
    steps.edit("a", active=False)
    assert not [name for name, _, _ in steps.plane.collect() if "evicted" in name]


def test_a_preemption_is_counted_once_though_it_had_to_be_written_twice():
    steps = QuotaSteps(queue(cpu=1, preemption=LOWER), work("a"))
    steps.held = True
    steps.see(work("b", priority=5))
    steps.edit("a", labels={"changed": "meanwhile"})
    assert steps.number("kueue_preempted_workloads_total", preempting_cluster_queue="cq", reason="InClusterQueue") == 0
    steps.release()
    assert steps.number("kueue_preempted_workloads_total", preempting_cluster_queue="cq", reason="InClusterQueue") == 1


def two_after_one_victim(cpu=1):
    """Two queues of a cohort want the quota back that a third one borrows."""
    reclaim = QueuePreemption(reclaim=Reclaim.ANY)
    return QuotaSteps(
        queue("cq", groups=quota(default=Quota(1000)), cohort="team", preemption=reclaim),
        queue("other", groups=quota(default=Quota(1000)), cohort="team", preemption=reclaim),
        queue("idle", groups=quota(default=Quota(0)), cohort="team"),
        local("other", "other"),
        local("idle", "idle"),
        work("victim", cpu=2, queue="idle", owner=OWNER),
    ).see(work("a"), work("b", queue="other"))


def test_victims_that_must_go_for_others_already_are_counted_as_searched_for_anew():
    steps = two_after_one_victim()
    name = "kueue_preemption_target_recomputations_total"
    found = {queue: steps.number(name, cluster_queue=queue, result="DeferredFit") for queue in ("cq", "other")}
    assert sorted(found.values()) == [0, 1]


def test_skipped_preemptions_are_those_of_the_last_cycle_a_queue_was_in():
    metrics = AdmissionMetrics(lambda local: True, lambda queue: [])

    def skips():
        return {dict(labels)["cluster_queue"]: value for name, labels, value in metrics.collect() if "skips" in name}

    metrics.attempt(["a", "b"], success=False)
    metrics.skipped_preemption("a")
    assert skips() == {"a": 1}
    metrics.attempt(["b"], success=True)
    assert skips() == {"a": 1}
    metrics.attempt(["a"], success=False)
    assert skips() == {"a": 0}


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        pytest.param(queue(), "kueue_local_queue_admitted_workloads_total", id="a cluster queue"),
        pytest.param(local(), "kueue_admitted_workloads_total", id="a local queue"),
    ],
)
def test_what_was_counted_of_a_queue_goes_with_it(gone, left):
    steps = QuotaSteps(queue(), work("a"))
    steps.finish("a")
    steps.lose(steps.objects[gone.key])
    names = [name for name, _, _ in steps.plane.collect() if name.endswith("admitted_workloads_total")]
    assert names == [left]
