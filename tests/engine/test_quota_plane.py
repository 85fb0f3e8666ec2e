"""Workloads get quota of their queues, as far as there is any, and are told where they stand."""

import pytest
from msgspec.structs import replace
from quota_steps import (
    OWNER,
    QuotaSteps,
    check,
    cohort,
    flavor,
    local,
    namespace,
    pods,
    priority_class,
    queue,
    quota,
    work,
)

from headgate.model.events import Gone, Observed
from headgate.model.keys import Condition
from headgate.model.node import Taint, TaintEffect
from headgate.model.queues import (
    PriorityClassRef,
    QueueingStrategy,
    Quota,
    RequiredCheck,
    StopPolicy,
)
from headgate.model.resources import Resources
from headgate.model.selectors import Operator, Requirement
from headgate.model.settings import QuotaSettings, Transformation


def test_a_workload_that_fits_is_admitted_with_one_write():
    steps = QuotaSteps(queue(cpu=2), work("a"))
    assert steps.condition("a", "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
    assert steps.condition("a", "Admitted") == ("True", "Admitted", "The workload is admitted")
    (given,) = steps["a"].status.admission.pod_sets
    assert (given.name, given.flavors, given.count, given.usage["cpu"]) == ("main", (("cpu", "default"),), 1, 1000)
    assert len(steps.statuses_written("a")) == 1
    assert steps.told == [("a", "QuotaReserved"), ("a", "Admitted")]
    assert [event.message for event in steps.events] == [
        "Quota reserved in ClusterQueue cq, wait time since queued was 0s",
        "Admitted by ClusterQueue cq, wait time since reservation was 0s",
    ]


def test_what_does_not_fit_waits_and_says_how_much_is_missing():
    steps = QuotaSteps(queue(cpu=2), work("a", cpu=2), work("b", created=1.0))
    assert steps.admitted == ["a"]
    message = (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 1 more needed"
    )
    assert steps.condition("b", "QuotaReserved") == ("False", "WaitingForQuota", message)
    assert steps.condition("b", "Admitted") == ("False", "NoReservation", "The workload has no reservation")
    assert steps["b"].status.resource_requests == (("main", Resources.of({"cpu": 1000})),)
    assert ("b", "WaitingForQuota") in steps.told


@pytest.mark.parametrize(
    ("around", "waiting", "reason"),
    [
        pytest.param([queue(cpu=1)], work(cpu=2), "ExceedsMaxQuota", id="more than there will ever be"),
        pytest.param([queue(cpu=1)], work(queue="no"), "Misconfigured", id="the local queue is not there"),
        pytest.param([], work(), "Misconfigured", id="the cluster queue is not there"),
        pytest.param([queue(stop_policy=StopPolicy.HOLD)], work(), "Suspended", id="the cluster queue is stopped"),
        pytest.param([queue(namespaces=None)], work(), "Misconfigured", id="the queue is for other namespaces"),
        pytest.param(
            [queue(), local(stop_policy=StopPolicy.HOLD)], work(), "Suspended", id="the local queue is stopped"
        ),
        pytest.param([queue()], work(gated_by=("x/y",)), "AdmissionGated", id="somebody holds it back"),
        pytest.param([queue()], work(active=False), "Deactivated", id="it is not active"),
        pytest.param([queue(groups=quota(other=1))], work(), "Suspended", id="a flavor of the queue is not there"),
        pytest.param(
            [queue(), flavor(node_taints=(Taint("k", "v", TaintEffect.NO_SCHEDULE),))],
            work(),
            "NoMatchingFlavor",
            id="the only flavor is tainted",
        ),
    ],
)
def test_why_a_workload_waits(around, waiting, reason):
    steps = QuotaSteps(*around, waiting)
    assert steps.reason("a") == ("False", reason)
    assert steps.admitted == []


def test_quota_given_back_wakes_those_who_wait_for_it():
    steps = QuotaSteps(queue(cpu=1), work("a"), work("b", created=1.0), work("c", created=2.0))
    steps.finish("a")
    assert steps.admitted == ["b"]
    steps.lose(steps["b"])
    assert steps.admitted == ["c"]


def test_quota_of_pods_that_are_done_for_good_is_free_again():
    steps = QuotaSteps(queue(cpu=2), work("a", pod_sets=(pods(count=2),)), work("b", created=1.0))
    assert steps.admitted == ["a"]
    steps.edit("a", reclaimable=(("main", 1),))
    assert steps.admitted == ["a", "b"]


def test_a_queue_of_best_effort_lets_the_small_pass_a_strict_one_does_not():
    waiting = work("a"), work("b", cpu=2, created=1.0), work("c", created=2.0)
    assert QuotaSteps(queue(cpu=2), *waiting).admitted == ["a", "c"]
    assert QuotaSteps(queue(cpu=2, strategy=QueueingStrategy.STRICT_FIFO), *waiting).admitted == ["a"]


def test_whoever_shares_a_cohort_borrows_what_others_leave():
    queues = queue("cq", 1, "team"), queue("other", 1, "team"), local("lq2", "other")
    steps = QuotaSteps(*queues, work("a"), work("b", created=1.0), work("c", created=2.0))
    assert steps.admitted == ["a", "b"]
    status = steps.status(queue().key)
    assert (status.reserving, status.admitted, status.pending) == (2, 2, 1)
    assert status.usage[0].total["cpu"] == 2000
    assert status.usage[0].borrowed["cpu"] == 1000


def test_a_cohort_may_have_quota_of_its_own():
    steps = QuotaSteps(queue(cpu=0, cohort="team"), cohort("team", groups=quota(default=1)), work("a"))
    assert steps.admitted == ["a"]


@pytest.mark.parametrize(
    "arrival",
    [
        pytest.param([queue()], id="its queue"),
        pytest.param([flavor("other")], id="the missing flavor"),
        pytest.param([local("late")], id="its local queue"),
        pytest.param([namespace("default", team="red")], id="the label that its queue selects"),
        pytest.param([queue(cpu=5)], id="more quota"),
        pytest.param([check("c")], id="the missing check"),
    ],
)
def test_a_workload_waits_for_what_is_missing_and_not_longer(arrival, request):
    before = {
        "its queue": [work("a")],
        "the missing flavor": [queue(groups=quota(other=1)), work("a")],
        "its local queue": [queue(), work("a", queue="late")],
        "the label that its queue selects": [
            queue(namespaces=(Requirement("team", Operator.IN, ("red",)),)),
            work("a"),
        ],
        "more quota": [queue(cpu=1), work("a", cpu=5)],
        "the missing check": [queue(checks=(RequiredCheck("c", ("default",)),)), work("a")],
    }[request.node.callspec.id]
    steps = QuotaSteps(*before)
    assert steps.reason("a")[0] == "False"
    assert steps.see(*arrival).reason("a") == ("True", "QuotaReserved")


def test_partial_admission_takes_as_many_pods_as_there_is_quota_for():
    steps = QuotaSteps(queue(cpu=3), work("a", pod_sets=(pods(count=5, min_count=2),)))
    assert steps.admitted == ["a"]
    assert steps["a"].status.admission.pod_sets[0].count == 3


def test_resources_are_counted_as_the_settings_say():
    doubled = Transformation("example.com/gpu", Resources.of({"cpu": 2000}), keeps=False)
    settings = QuotaSettings(transformations=(doubled,), excluded_prefixes=("ignored.com/",))
    asked = pods(0, amounts={"example.com/gpu": 2, "ignored.com/x": 7})
    steps = QuotaSteps(queue(cpu=4), work("a", pod_sets=(asked,)), work("b"), settings=settings)
    assert steps.admitted == ["a"]
    assert steps["a"].status.admission.pod_sets[0].usage["cpu"] == 4000


# what queues show


def test_a_queue_shows_how_it_stands():
    steps = QuotaSteps(queue(cpu=2), work("a", cpu=2), work("b"), now=10.0)
    for shown in (steps.status(queue().key), steps.status(local().key)):
        assert (shown.pending, shown.reserving, shown.admitted) == (1, 1, 1)
        assert shown.reservation[0].total["cpu"] == shown.usage[0].total["cpu"] == 2000
    (active,) = steps.status(queue().key).conditions
    assert (active.type, active.status, active.reason, active.message, active.at) == (
        "Active",
        "True",
        "Ready",
        "Can admit new workloads",
        10.0,
    )
    assert steps.status(local().key).conditions[0].message == "Can submit new workloads to localQueue"


@pytest.mark.parametrize(
    ("made", "around", "reason", "message"),
    [
        pytest.param(
            queue(stop_policy=StopPolicy.HOLD), [], "Stopped", "Can't admit new workloads: is stopped.", id="stopped"
        ),
        pytest.param(
            queue(groups=quota(a=1, b=1), stop_policy=StopPolicy.HOLD),
            [],
            "Stopped",
            "Can't admit new workloads: is stopped, references missing ResourceFlavor(s): a,b.",
            id="all is told, the first is the reason",
        ),
        pytest.param(
            queue(checks=(RequiredCheck("x"),)),
            [],
            "AdmissionCheckNotFound",
            "Can't admit new workloads: references missing AdmissionCheck(s): x.",
            id="a check is not there",
        ),
        pytest.param(
            queue(checks=(RequiredCheck("x"),)),
            [check("x", active=False)],
            "AdmissionCheckInactive",
            "Can't admit new workloads: references inactive AdmissionCheck(s): x.",
            id="a check is not active",
        ),
        pytest.param(
            queue(checks=(RequiredCheck("x"), RequiredCheck("y"))),
            [check("x", controller="kueue.x-k8s.io/multikueue"), check("y", controller="kueue.x-k8s.io/multikueue")],
            "MultipleMultiKueueAdmissionChecks",
            "Can't admit new workloads: can have only one MultiKueue AdmissionCheck: x,y.",
            id="two fleets at once",
        ),
    ],
)
def test_why_a_queue_takes_no_work(made, around, reason, message):
    steps = QuotaSteps(*around, made)
    (active,) = steps.status(made.key).conditions
    assert (active.status, active.reason, active.message) == ("False", reason, message)
    (of_local,) = steps.status(local().key).conditions
    assert (of_local.status, of_local.reason) == ("False", "ClusterQueueIsInactive")


def test_a_queue_is_told_about_at_most_once_a_second():
    steps = QuotaSteps(queue(cpu=100), now=10.0)
    for number in range(10):
        steps.see(work(f"w{number}"))
    assert steps.status(queue().key).admitted == 0
    assert steps.alarm == 11.0
    steps.later(1.0)
    assert steps.status(queue().key).admitted == 10


def test_other_conditions_of_a_queue_stay_as_others_left_them():
    foreign = replace(queue(), conditions=(Condition("Other", "True", "R", "", 1.0),))
    steps = QuotaSteps(foreign)
    assert [one.type for one in steps.status(foreign.key).conditions] == ["Other", "Active"]


def test_where_shares_are_fair_they_are_shown():
    settings = QuotaSettings(fair=("LessThanOrEqualToFinalShare",))
    queues = queue("cq", 1, "team"), queue("other", 3, "team"), cohort("team")
    steps = QuotaSteps(*queues, work("a", cpu=2), settings=settings)
    assert steps.status(queue().key).weighted_share == 250
    assert steps.number("kueue_cluster_queue_weighted_share", cluster_queue="cq", cohort="team") == 250


def test_what_we_write_ourselves_neither_collides_nor_wakes_anybody():
    steps = QuotaSteps(queue(cpu=1), check("c"), work("a"), work("b", created=1.0), now=10.0)
    assert steps.conflicts == 0
    tries = steps.number("kueue_admission_attempts_total", result="inadmissible")
    written = steps.objects[queue().key]
    steps.see(replace(written, finalizers=("other.io/f", *written.finalizers)))
    assert steps.number("kueue_admission_attempts_total", result="inadmissible") == tries


def test_who_comes_back_to_its_local_queue_before_anybody_looked_is_stopped_with_it():
    steps = QuotaSteps(queue(cpu=0), work())
    waits = steps["a"]
    steps.step(Observed(steps.put(replace(waits, queue="other"))), Observed(steps.put(waits)))
    steps.see(local(stop_policy=StopPolicy.HOLD))
    assert steps.reason("a") == ("False", "Suspended")


# priorities


def test_a_workload_follows_the_value_of_its_priority_class():
    named = PriorityClassRef("kueue.x-k8s.io", "WorkloadPriorityClass", "high")
    steps = QuotaSteps(queue(cpu=0), priority_class("high", 5), work("a", priority=5, priority_class=named))
    steps.see(priority_class("high", 9))
    assert steps["a"].priority == 9


def test_the_more_important_goes_first():
    steps = QuotaSteps(queue(cpu=1), work("low"), work("high", priority=1, created=9.0))
    assert steps.admitted == ["high"]


# finalizers


def test_queues_flavors_and_checks_stay_while_they_are_in_use():
    in_use = ("kueue.x-k8s.io/resource-in-use",)
    steps = QuotaSteps(queue(), check("c"), work("a"))
    kept = steps.objects[queue().key], steps.objects[flavor().key], steps.objects[check("c").key]
    assert [one.finalizers for one in kept] == [in_use] * 3
    steps.see(replace(steps.objects[queue().key], deleted=1.0))
    steps.see(replace(steps.objects[flavor().key], deleted=1.0))
    steps.see(replace(steps.objects[check("c").key], deleted=1.0))
    assert check("c").key not in steps.objects
    assert queue().key in steps.objects
    steps.finish("a")
    assert queue().key not in steps.objects
    assert flavor().key not in steps.objects


def test_a_queue_that_is_being_deleted_goes_with_its_last_workload_though_an_older_one_of_its_name_is_gone():
    steps = QuotaSteps(queue(), work("a"))
    steps.see(replace(steps.objects[queue().key], deleted=1.0))
    steps.step(Gone(queue().key, "uid-of-an-older-one"))
    steps.finish("a")
    assert queue().key not in steps.objects


def test_a_deleted_workload_that_nobody_owns_is_let_go():
    finalizers = ("kueue.x-k8s.io/resource-in-use",)
    steps = QuotaSteps(queue(cpu=1), work("a", finalizers=finalizers), work("b", created=1.0))
    steps.edit("a", deleted=5.0)
    assert [one.key.name for one in steps.workloads] == ["b"]
    assert steps.admitted == ["b"]
    owned = QuotaSteps(queue(), work("a", finalizers=finalizers, owner=OWNER)).edit("a", deleted=5.0)
    assert owned["a"].finalizers == finalizers


# numbers


def test_what_is_counted():
    steps = QuotaSteps(queue(cpu=1), work("a"), work("b", created=1.0))
    by_queue = {"cluster_queue": "cq"}
    assert steps.number("kueue_pending_workloads", **by_queue, status="inadmissible") == 1
    assert steps.number("kueue_admitted_active_workloads", **by_queue) == 1
    assert steps.number("kueue_reserving_active_workloads", **by_queue) == 1
    assert steps.number("kueue_quota_reserved_workloads_total", **by_queue, priority_class="") == 1
    assert steps.number("kueue_admitted_workloads_total", **by_queue, priority_class="") == 1
    assert steps.number("kueue_admission_attempts_total", result="success") == 1
    assert steps.number("kueue_cluster_queue_status", **by_queue, status="active") == 1
    by_local = {"name": "lq", "namespace": "default"}
    assert steps.number("kueue_local_queue_pending_workloads", **by_local, status="inadmissible") == 1


def test_a_crowd_is_told_why_it_waits_as_permits_come():
    crowd = [work(f"w{number:03}", cpu=2 + number, created=float(number)) for number in range(80)]
    steps = QuotaSteps(queue(cpu=1))
    steps.later(5.0).plane.permits.give(50)
    steps.see(*crowd)
    told = [one for one in steps.workloads if one.condition("QuotaReserved") is not None]
    assert len(told) == 50
    steps.plane.permits.give(50)
    steps.later(1.0)
    assert all(one.condition("QuotaReserved") is not None for one in steps.workloads)


def test_borrowing_ends_at_the_limit():
    limited = queue("cq", groups=quota(default=Quota(1000, borrowing_limit=1000)), cohort="team")
    steps = QuotaSteps(limited, queue("other", 5, "team"), *(work(f"w{n}", created=float(n)) for n in range(4)))
    assert steps.admitted == ["w0", "w1"]


def test_the_story_of_an_admission_has_its_numbers():
    steps = QuotaSteps(queue(cpu=1), work("a"))
    entry = next(entry for entry in steps.journal.take() if entry.decision == "admit")
    assert entry.numbers == {"queue": "cq", "flavors": "default", "pods": 1, "borrow_level": 0, "queued_ms": 0}
