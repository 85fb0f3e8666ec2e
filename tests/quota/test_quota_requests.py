"""What a workload asks of quota, and what it holds."""

import pytest
from builders import changed
from quota_builders import PLAIN, condition, pods, reserved, work

from headgate.model.resources import Resources
from headgate.model.settings import QuotaSettings, Transformation
from headgate.quota.requests import counted, pod_set_requests_of, reservation_of, usage_held
from headgate.quota.tree import FlavorResource

MIG = "nvidia.com/mig-1g.5gb"
FIVE_GIB = Resources.of({"example.com/gpu-memory": 5 << 30})


@pytest.mark.parametrize(
    "asked, settings, counts",
    [
        pytest.param({"cpu": 500}, PLAIN, {"cpu": 500}, id="as it is"),
        pytest.param(
            {"cpu": 500, "example.com/x": 1},
            QuotaSettings(excluded_prefixes=("example.com/",)),
            {"cpu": 500},
            id="without what is left out of account",
        ),
        pytest.param(
            {MIG: 2},
            QuotaSettings(transformations=(Transformation(MIG, FIVE_GIB),)),
            {MIG: 2, "example.com/gpu-memory": 10 << 30},
            id="with what it stands for",
        ),
        pytest.param(
            {MIG: 2},
            QuotaSettings(transformations=(Transformation(MIG, FIVE_GIB, keeps=False),)),
            {"example.com/gpu-memory": 10 << 30},
            id="or that in its place",
        ),
        pytest.param(
            {"cpu": 1500},
            QuotaSettings(transformations=(Transformation("cpu", Resources.of({"credits": 10})),)),
            {"cpu": 1500, "credits": 20},
            id="a part of a unit is a whole one",
        ),
        pytest.param(
            {"gpu": 2, "percent": 30},
            QuotaSettings(transformations=(Transformation("percent", Resources.of({"share": 1}), False, "gpu"),)),
            {"gpu": 2, "share": 60},
            id="times another resource",
        ),
        pytest.param(
            {"gpu": 1, "share": 5},
            QuotaSettings(transformations=(Transformation("gpu", Resources.of({"share": -7})),)),
            {"gpu": 1, "share": 5},
            id="never less than was asked",
        ),
    ],
)
def test_what_counts_of_the_requests_of_a_pod(asked, settings, counts):
    assert counted(Resources.of(asked), settings) == Resources.of(counts)


def test_pods_that_are_done_for_good_are_not_asked_for():
    (ask,) = pod_set_requests_of(work(pod_sets=(pods(count=5, min_count=2),), reclaimable=(("main", 2),)), PLAIN)
    assert (ask.count, ask.spare, ask.scaled(ask.count)["cpu"]) == (3, 1, 3000)


@pytest.mark.parametrize(
    "done, held",
    [
        pytest.param(0, 4000, id="all it was given"),
        pytest.param(1, 3000, id="less the part of pods that are done"),
        pytest.param(9, 0, id="and never less than nothing"),
    ],
)
def test_what_an_admitted_workload_holds(done, held):
    workload = reserved(work(pod_sets=(pods(count=4),), reclaimable=(("main", done),)), "q", cpu="spot")
    assert usage_held(workload) == ((FlavorResource("spot", "cpu"), held),)


def test_a_holder_says_all_that_decides_whether_it_is_a_victim():
    conditions = (condition("QuotaReserved", True, at=7.0), condition("Evicted", True))
    workload = changed(reserved(work(priority=3, boost=1), "q", cpu="spot"), conditions=conditions)
    holder = reservation_of(workload, ordered=5.0)
    assert (holder.queue, holder.priority, holder.ordered, holder.reserved, holder.evicted) == ("q", 4, 5.0, 7.0, True)


def test_without_an_admission_nothing_is_held():
    assert (usage_held(work()), reservation_of(work(), 0.0)) == ((), None)
