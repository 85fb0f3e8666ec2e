"""What can be measured about quota, by Kueue's names."""

from __future__ import annotations

import math

import pytest
from msgspec import structs
from quota_steps import QuotaSteps, check, cohort, local, queue, quota, work

from headgate.model.queues import Quota, RequiredCheck, StopPolicy
from headgate.model.selectors import Operator, Requirement
from headgate.model.settings import DEFAULT_FAIR, QuotaMetrics, QuotaSettings

RESOURCES = QuotaSettings(metrics=QuotaMetrics(cluster_queue_resources=True))
CHECKED = queue(checks=(RequiredCheck("c"),))


def measured(steps, prefix):
    return {
        (name.removeprefix(prefix), *(text for _, text in labels)): value
        for name, labels, value in steps.plane.collect()
        if name.startswith(prefix)
    }


def test_waiting_workloads_and_how_many_sorts_of_them():
    steps = QuotaSteps(queue(cpu=1), work("a"), *(work(f"b{n}") for n in range(3)), work("big", cpu=9))
    assert measured(steps, "kueue_pending_") == {
        ("workloads", "cq", "active"): 0,
        ("workloads", "cq", "inadmissible"): 4,
        ("scheduling_hashes", "cq", "active"): 0,
        ("scheduling_hashes", "cq", "inadmissible"): 2,
    }
    assert (
        steps.number("kueue_local_queue_pending_workloads", name="lq", namespace="default", status="inadmissible") == 4
    )


def test_in_a_stopped_queue_everybody_waits_for_a_change():
    steps = QuotaSteps(queue(cpu=1, stop_policy=StopPolicy.HOLD), work("a"))
    for of in ({"cluster_queue": "cq"}, {"name": "lq", "namespace": "default"}):
        name = "kueue_pending_workloads" if "cluster_queue" in of else "kueue_local_queue_pending_workloads"
        counts = [steps.number(name, **of, status=status) for status in ("active", "inadmissible")]
        assert counts == [0, 1]


def test_finished_workloads_that_are_still_there():
    steps = QuotaSteps(queue(), work("a"), work("b"))
    steps.finish("a").finish("b")
    steps.lose(steps["b"])
    assert steps.number("kueue_finished_workloads", cluster_queue="cq") == 1
    assert steps.number("kueue_local_queue_finished_workloads", name="lq", namespace="default") == 1


@pytest.mark.parametrize(
    ("objects", "reason", "cause"),
    [
        pytest.param(
            [queue(cpu=1), work("a", cpu=2)], "NoReservation", "ExceedsMaxQuota", id="more than there ever is"
        ),
        pytest.param([queue(cpu=1), work("x"), work("a")], "NoReservation", "WaitingForQuota", id="others have it"),
        pytest.param([queue(stop_policy=StopPolicy.HOLD), work("a")], "NoReservation", "Suspended", id="stopped"),
        pytest.param([check("c"), CHECKED, work("a")], "UnsatisfiedAdmissionChecks", "", id="its checks"),
    ],
)
def test_why_workloads_are_not_admitted(objects, reason, cause):
    steps = QuotaSteps(*objects)
    why = {"cluster_queue": "cq", "reason": reason, "underlying_cause": cause}
    assert steps.number("kueue_unadmitted_workloads", **why) == 1
    assert steps.number("kueue_local_queue_unadmitted_workloads", **why, name="lq", namespace="default") == 1


def test_workloads_not_told_yet_why_they_wait_count_by_that_all_the_same():
    steps = QuotaSteps(queue(cpu=1))
    steps.plane.permits.give(10)
    steps.see(*(work(f"w{n}", cpu=2 + n) for n in range(80)))
    shown = sum(1 for one in steps.workloads if one.condition("QuotaReserved") is not None)
    why = {"cluster_queue": "cq", "reason": "NoReservation", "underlying_cause": "ExceedsMaxQuota"}
    assert shown < 80
    assert steps.number("kueue_unadmitted_workloads", **why) == 80


def test_what_a_cluster_queue_has_and_uses_in_whole_units():
    mine = Quota(3000, borrowing_limit=500)
    steps = QuotaSteps(
        check("c"),
        queue(groups=quota(default=mine), cohort="team", checks=(RequiredCheck("c"),)),
        work("a", cpu=2),
        work("b", cpu=4),
        settings=RESOURCES,
    )
    named = ("cq", "team", "default", "cpu")
    assert {
        ("resource_reservation", *named): 2.0,
        ("resource_usage", *named): 0.0,
        ("resource_pending", "cq", "cpu"): 4.0,
        ("nominal_quota", *named): 3.0,
        ("borrowing_limit", *named): 0.5,
        ("lending_limit", *named): math.inf,
    }.items() <= measured(steps, "kueue_cluster_queue_").items()


def test_what_cluster_queues_have_and_use_is_told_only_where_that_is_asked_for():
    names = {name for name, _, _ in QuotaSteps(queue(), work("a")).plane.collect()}
    assert not {name for name in names if "quota" in name and "quota_reserved" not in name}
    assert not {name for name in names if name.startswith("kueue_cluster_queue_resource")}


def test_cohorts_and_all_below_them():
    steps = QuotaSteps(
        queue("left", cpu=1, cohort="half"),
        queue("right", cpu=2, cohort="whole"),
        cohort("half", "whole", groups=quota(default=3)),
        local("left", "left"),
        local("right", "right"),
        work("a", cpu=2, queue="left"),
        work("b", cpu=1, queue="right"),
        settings=QuotaSettings(fair=DEFAULT_FAIR),
    )
    assert measured(steps, "kueue_cohort_") == {
        ("info", "half", "whole", "whole"): 1,
        ("info", "whole", "", "whole"): 1,
        ("subtree_quota", "half", "default", "cpu"): 4.0,
        ("subtree_quota", "whole", "default", "cpu"): 6.0,
        ("subtree_resource_reservations", "half", "default", "cpu"): 2.0,
        ("subtree_resource_reservations", "whole", "default", "cpu"): 3.0,
        ("subtree_admitted_active_workloads", "half"): 1,
        ("subtree_admitted_active_workloads", "whole"): 2,
        ("subtree_admitted_workloads_total", "half", ""): 1,
        ("subtree_admitted_workloads_total", "whole", ""): 2,
        ("weighted_share", "half"): 0.0,
        ("weighted_share", "whole"): 0.0,
    }
    info = {"parent_cohort": "half", "root_cohort": "whole"}
    assert steps.number("kueue_cluster_queue_info", cluster_queue="left", **info) == 1


def test_a_queue_that_borrows_without_weight_has_a_share_that_is_no_number():
    steps = QuotaSteps(
        queue(cpu=0, cohort="team", fair_weight=0),
        queue("idle", cpu=3, cohort="team"),
        work("a"),
        settings=QuotaSettings(fair=DEFAULT_FAIR),
    )
    assert math.isnan(steps.number("kueue_cluster_queue_weighted_share", cluster_queue="cq", cohort="team"))


def test_a_local_queue():
    steps = QuotaSteps(queue(cpu=3), work("a", cpu=2), work("b", cpu=2))
    at = ("lq", "default")
    assert {
        ("pending_workloads", *at, "inadmissible"): 1,
        ("reserving_active_workloads", *at): 1,
        ("admitted_active_workloads", *at): 1,
        ("status", "True", *at): 1,
        ("status", "False", *at): 0,
        ("resource_reservation", "default", *at, "cpu"): 2.0,
        ("resource_usage", "default", *at, "cpu"): 2.0,
    }.items() <= measured(steps, "kueue_local_queue_").items()


TOLD = Requirement("told", Operator.IN, ("yes",))


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        pytest.param((), {"lq", "quiet"}, id="all of them"),
        pytest.param((TOLD,), {"lq"}, id="those that are selected"),
        pytest.param(None, set(), id="none of them"),
    ],
)
def test_which_local_queues_are_told_of(selector, told):
    steps = QuotaSteps(
        queue(),
        local(labels={"told": "yes"}),
        local("quiet"),
        work("a"),
        work("b", queue="quiet"),
        settings=QuotaSettings(metrics=QuotaMetrics(local_queues=selector)),
    )
    named = {dict(labels)["name"] for name, labels, _ in steps.plane.collect() if name.startswith("kueue_local_queue")}
    assert named == told


def test_labels_are_sorted_and_no_series_comes_twice():
    steps = QuotaSteps(queue(cohort="team"), work("a"), work("b", cpu=9), settings=RESOURCES)
    numbers = [(name, labels) for name, labels, _ in steps.plane.collect()]
    assert all(list(labels) == sorted(labels) for _, labels in numbers)
    assert len(numbers) == len(set(numbers))


def test_a_local_queue_is_told_of_as_long_as_it_is_selected():
    """What was counted before stays as it was."""
    steps = QuotaSteps(queue(), local(), settings=QuotaSettings(metrics=QuotaMetrics(local_queues=(TOLD,))))

    def admitted():
        at = {"name": "lq", "namespace": "default", "priority_class": ""}
        return steps.number("kueue_local_queue_admitted_workloads_total", **at)

    for labels, count in (({}, 0), ({"told": "yes"}, 1), ({}, 1), ({"told": "yes"}, 2)):
        steps.see(structs.replace(steps.objects[local().key], labels=labels))
        steps.see(work(f"w{steps.versions}"))
        for done in [one.key.name for one in steps.workloads if not one.is_true("Finished")]:
            steps.finish(done)
        assert admitted() == count


def test_whoever_moves_to_another_cohort_is_counted_there():
    steps = QuotaSteps(queue(cohort="old"), work("a")).finish("a")
    steps.see(queue(cohort="new"), work("b"))
    found = {
        name: steps.number("kueue_cohort_subtree_admitted_workloads_total", cohort=name, priority_class="")
        for name in ("old", "new")
    }
    assert found == {"old": 1, "new": 1}
