"""The quota plane and the integrations on one cluster: they know each other only by the objects they write."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from integration_scenes import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    WORKLOAD_CLASSES,
    WORKLOADS,
    Integrations,
    cluster_queue,
    job,
    local_queue,
    member,
    node,
    pod,
)

from headgate.model.effects import EmitEvent
from headgate.model.events import WriteError
from headgate.model.settings import PodsReady, QuotaRelease

LONG = {"terminationGracePeriodSeconds": 60}
URGENT = {"kueue.x-k8s.io/priority-class": "urgent"}
RESTS = {"active": 0, "startTime": None, "conditions": [{"type": "Suspended", "status": "True"}]}
TROUBLES = (None, None, None, WriteError.CONFLICT, WriteError.UNAVAILABLE, WriteError.UNKNOWN)


def cluster(cpu, **quota):
    """One queue in which the urgent may preempt others, and a node as large."""
    scene = Integrations(with_quota=True, **quota)
    scene.create(NODES, node("n", cpu))
    preemption = {"withinClusterQueue": "LowerPriority"}
    scene.create(CLUSTER_QUEUES, cluster_queue(cpu, preemption=preemption))
    scene.create(LOCAL_QUEUES, local_queue())
    scene.create(WORKLOAD_CLASSES, {"metadata": {"name": "urgent"}, "value": 100})
    return scene.settle()


def full_of_pods(number, **quota):
    """A queue whose whole quota is held by single pods that take a minute to stop."""
    scene = cluster(number, **quota)
    for each in range(number):
        scene.create(PODS, pod(f"old-{each}", **LONG))
    return scene.settle().run(*(f"old-{each}" for each in range(number)))


def admitted(scene):
    """Who has been admitted and is not finished, by the work it stands for."""
    held = []
    for found in scene.get(WORKLOADS)["items"]:
        name = found["metadata"]["name"]
        said = scene.conditions(name)
        if said.get("Admitted", ("",))[0] == "True" and "Finished" not in said:
            held.append(found["metadata"]["ownerReferences"][0]["name"])
    return sorted(held)


def is_suspended(scene, name="job"):
    return scene.get(f"{JOBS}/{name}")["spec"]["suspend"]


# a life


def test_a_job_lives_from_its_submission_to_its_end():
    scene = cluster(2)
    scene.create(JOBS, job(parallelism=2))
    assert not is_suspended(scene.settle())
    scene.create(JOBS, job("next"))
    assert is_suspended(scene.settle(), "next")
    done = [{"type": name, "status": "True"} for name in ("SuccessCriteriaMet", "Complete")]
    scene.job_status(active=2, ready=2, startTime="1970-01-01T00:16:40Z")
    when = "1970-01-01T00:16:40Z"
    scene.job_status(active=0, ready=0, succeeded=2, completionTime=when, conditions=done)
    assert not is_suspended(scene, "next")


def test_pods_that_are_done_make_room_for_the_next_before_the_job_is():
    scene = cluster(2)
    scene.create(JOBS, job(parallelism=2))
    scene.create(JOBS, job("next"))
    scene.settle().job_status(active=1, ready=1, succeeded=1, startTime="1970-01-01T00:16:40Z")
    assert not is_suspended(scene, "next")


def test_a_preempted_job_makes_room_when_it_rests_and_comes_back_when_there_is_quota():
    scene = cluster(2)
    scene.create(JOBS, job(parallelism=2))
    scene.settle().job_status(active=2, startTime="1970-01-01T00:16:40Z")
    scene.create(JOBS, job("urgent", parallelism=2, labels=URGENT))
    assert is_suspended(scene.settle(), "urgent")
    scene.job_status(**RESTS)
    assert is_suspended(scene)
    assert not is_suspended(scene, "urgent")
    scene.delete(f"{JOBS}/urgent")
    assert not is_suspended(scene)


def test_a_group_is_admitted_whole_or_waits_whole():
    scene = cluster(3)
    for name in ("a", "b"):
        scene.create(PODS, member(name, group="first"))
    scene.settle().now += 1
    for name in ("a2", "b2"):
        scene.create(PODS, member(name, group="second"))
    scene.settle()
    assert [scene.free(name) for name in ("a", "b", "a2", "b2")] == [True, True, False, False]
    scene.run("a", "b").end("a", "b")
    assert scene.free("a2")
    assert scene.free("b2")


# fast release


def test_urgent_pods_are_admitted_while_those_they_preempted_still_stop():
    scene = full_of_pods(1)
    scene.create(PODS, pod("new", labels=URGENT))
    scene.settle()
    assert admitted(scene) == ["new"]
    assert scene.get(f"{PODS}/old-0")["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    "release, after_seconds",
    [
        pytest.param(QuotaRelease.FAST, [4, 4, 4], id="fast: all at once"),
        pytest.param(QuotaRelease.GRACE, [0, 1, 2], id="grace: one for each grace period"),
    ],
)
def test_a_stream_of_urgent_pods_against_pods_that_take_long_to_stop(release, after_seconds):
    scene = full_of_pods(4, quota_release=release)
    for each in range(4):
        scene.create(PODS, pod(f"new-{each}", labels=URGENT))
        scene.settle()
    urgent = [sum(name.startswith("new") for name in admitted(scene.later(seconds))) for seconds in (0, 120, 120)]
    assert urgent == after_seconds


def test_pods_admitted_while_others_stop_start_one_by_one_as_those_end():
    scene = full_of_pods(3)
    urgent = [f"new-{each}" for each in range(3)]
    for name in urgent:
        scene.create(PODS, pod(name, labels=URGENT))
    assert admitted(scene.settle()) == urgent
    free = [sum(map(scene.free, urgent))]
    for each in range(3):
        scene.end(f"old-{each}", phase="Failed")
        free.append(sum(map(scene.free, urgent)))
    assert free == [0, 1, 2, 3]


def test_a_preempted_group_releases_its_quota_when_the_last_of_its_pods_is_asked_to_leave():
    scene = cluster(2)
    for name in "ab":
        scene.create(PODS, member(name, **LONG))
    scene.settle().run("a", "b")
    scene.create(PODS, pod("new", labels=URGENT))
    scene.settle()
    assert admitted(scene) == ["new"]
    assert scene.conditions("group")["WaitingForReplacementPods"] == ("True", "Preempted")
    scene.end("a", "b", phase="Failed")
    scene.delete(f"{PODS}/new")
    assert admitted(scene) == [], "a group without its pods does not get its quota back"


def test_a_queue_reclaims_its_quota_at_once_however_long_others_take_to_stop():
    scene = Integrations(with_quota=True)
    for name in ("cq", "other"):
        preemption = {"reclaimWithinCohort": "Any"}
        scene.create(CLUSTER_QUEUES, cluster_queue(2, name, cohortName="both", preemption=preemption))
        scene.create(LOCAL_QUEUES, local_queue(name, name))
    burst = [f"burst-{each}" for each in range(4)]
    for name in burst:
        scene.create(PODS, pod(name, labels={"kueue.x-k8s.io/queue-name": "cq"}, **LONG))
    scene.settle().run(*burst)
    for each in range(2):
        scene.create(PODS, pod(f"due-{each}", labels={"kueue.x-k8s.io/queue-name": "other"}))
    assert [name for name in admitted(scene.settle()) if name.startswith("due")] == ["due-0", "due-1"]


# whatever goes wrong


def story(troubles, restarts=()):
    """One history with these troubles, until all has settled: who runs in the end."""
    fate = iter(troubles)

    def fault(write):
        return None if isinstance(write, EmitEvent) else next(fate, None)

    def settled():
        quiet = 0
        for number in range(80):
            if number in restarts:
                scene.restart()
            quiet = 0 if scene.step() else quiet + 1
            if quiet > len(restarts) + 2:
                return
            scene.now += 61.0  # longer than anything is put off
        raise AssertionError("never comes to rest")

    scene = cluster(2, pods_ready=PodsReady(timeout=1e9))
    scene.fault = fault
    scene.create(JOBS, job(parallelism=2))
    settled()
    scene.patch(f"{JOBS}/job/status", status={"active": 2, "startTime": "1970-01-01T00:16:40Z"})
    for name in "ab":
        scene.create(PODS, member(name, labels=URGENT, **LONG))
    settled()
    scene.patch(f"{JOBS}/job/status", status=RESTS)
    settled()
    template = scene.get(f"{JOBS}/job")["spec"]["template"]["metadata"]["labels"]
    marks = [name for name in template if name.startswith("kueue")]
    return is_suspended(scene), scene.free("a"), scene.free("b"), admitted(scene), marks, len(scene.names(WORKLOADS))


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(TROUBLES), max_size=30), st.sets(st.integers(0, 9), max_size=3))
def test_lost_answers_conflicts_and_restarts_change_nothing_in_the_end(troubles, restarts):
    assert story(troubles, restarts) == (True, True, True, ["a"], [], 2)
