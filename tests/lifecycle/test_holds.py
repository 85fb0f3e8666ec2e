"""What the condition of a held Workload says, and when its clocks start."""

import pytest
from builders import bound, kueue_workload, pod, shape
from msgspec import structs

from headgate.lifecycle.terminating import (
    Hold,
    hold_limit,
    message,
    running_since,
    runs_from,
    seconds_run,
    with_hold,
)
from headgate.lifecycle.workload.deadlines import execution_ends, ready_until
from headgate.lifecycle.workload.eviction import released
from headgate.model.keys import Condition, Key, Kind, Target
from headgate.model.queues import Admission, PodSet, PodSetAssignment
from headgate.model.resources import Resources
from headgate.model.settings import PodsReady, QuotaSettings

OWNER = Target(Key(Kind.JOB, "default", "j"), "uid-j")
SETTINGS = QuotaSettings(max_hold=120.0, pods_ready=PodsReady(timeout=300.0))


def said(type_, at, status="True"):
    return Condition(type_, status, type_, "", at)


def work(*conditions, admitted=10.0, **fields):
    given = Admission("cq", (PodSetAssignment("main", (("cpu", "default"),), Resources.of({"cpu": 1000}), 1),))
    told = (said("QuotaReserved", admitted), said("Admitted", admitted), *conditions)
    key = Key(Kind.KUEUE_WORKLOAD, "default", "w")
    sets = (PodSet("main", shape(1000)),)
    return kueue_workload(key, "u", "1", 0.0, sets, owner=OWNER, admission=given, conditions=told, **fields)


HELD, OVER, EARLIER = (
    said("WaitingForRoom", at, status) for at, status in ((10.0, "True"), (90.0, "False"), (5.0, "False"))
)


@pytest.mark.parametrize(
    "workload, limit, since, latest",
    [
        pytest.param(work(), 130.0, 10.0, 10.0, id="never held"),
        pytest.param(work(HELD), 130.0, None, 130.0, id="held"),
        pytest.param(work(OVER), None, 90.0, 90.0, id="its hold has ended"),
        pytest.param(work(EARLIER), 130.0, 10.0, 10.0, id="held in an admission before"),
        pytest.param(work(said("Evicted", 50.0)), None, 10.0, 10.0, id="evicted"),
    ],
)
def test_when_a_workload_starts(workload, limit, since, latest):
    assert hold_limit(workload, 120.0) == limit
    assert running_since(workload) == since
    assert runs_from(workload, 120.0) == latest


@pytest.mark.parametrize(
    "workload, start",
    [
        pytest.param(work(max_execution_seconds=60), 10.0, id="with its admission"),
        pytest.param(work(OVER, max_execution_seconds=60), 90.0, id="with the end of its hold"),
        pytest.param(work(HELD, max_execution_seconds=60), 130.0, id="when its hold is over in any case"),
    ],
)
def test_its_clocks_start(workload, start):
    assert execution_ends(workload, SETTINGS) == start + 60
    assert ready_until(workload, SETTINGS).at == start + 300


@pytest.mark.parametrize(
    "workload, ran",
    [
        pytest.param(work(), 190, id="since its admission"),
        pytest.param(work(OVER), 110, id="since its hold ended"),
        pytest.param(work(HELD), 0, id="not at all while it is held"),
    ],
)
def test_how_long_it_ran_when_it_gives_its_quota_back(workload, ran):
    assert seconds_run(workload, 200.0) == ran
    assert released(workload, 200.0).past_execution_seconds == ran


def leaving(name, cpu=1500, node="n"):
    return bound(pod(name, cpu), node, deleted=100.0)


@pytest.mark.parametrize(
    "pods, text",
    [
        pytest.param(
            (leaving("a"),),
            "waiting for 1500m cpu of leaving pods default/a on n; starts by 1970-01-01T00:01:40Z",
            id="one pod",
        ),
        pytest.param(
            tuple(leaving(f"p{number}", node=f"n{number}") for number in range(7)),
            "waiting for 10500m cpu of leaving pods default/p0 on n0, default/p1 on n1, default/p2 on n2, "
            "default/p3 on n3, default/p4 on n4 and 2 more; starts by 1970-01-01T00:01:40Z",
            id="more pods than are named",
        ),
    ],
)
def test_what_it_says(pods, text):
    assert message(Hold(pods, 100.9), work()) == text


def test_the_condition_comes_with_a_hold_and_tells_its_end():
    hold = Hold((leaving("a"),), 100.0)
    assert with_hold(work(), None, 20.0) == work(), "one that is not held says nothing"
    held = with_hold(work(), hold, 20.0)
    assert held.condition("WaitingForRoom").message == message(hold, held)
    assert with_hold(held, hold, 30.0) == held, "nothing new"
    other = with_hold(held, structs.replace(hold, pods=(leaving("b"),)), 30.0).condition("WaitingForRoom")
    assert (other.at, "default/b" in other.message) == (20.0, True), "what it waits for is told, since when stays"
    over = with_hold(held, None, 40.0).condition("WaitingForRoom")
    assert (over.status, over.reason, over.at) == ("False", "HoldEnded", 40.0)
