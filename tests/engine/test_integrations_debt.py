"""Quota that was released by pods that still run is a debt: it is counted, and who gets that quota may be held."""

import pytest
from integration_scenes import JOBS, KUEUE, NODES, PODS, Integrations, cluster_queue, flavor, job, member, node, pod

from headgate.model.settings import QuotaRelease

LONG = {"terminationGracePeriodSeconds": 60}
DEBT = {"cluster_queue": "cq", "flavor": "default", "resource": "cpu"}


def preempted(cpu=1, **quota):
    """A pod that runs on the only node and was told to go; the node has that much cpu, as the queue has."""
    scene = Integrations(**quota)
    scene.create(NODES, node("n", cpu))
    scene.create(f"{KUEUE}/clusterqueues", cluster_queue(cpu))
    scene.create(PODS, pod("old", **LONG))
    name = scene.settle().workload()["metadata"]["name"]
    return scene.admit(name).run("old").evict(name)


def admitted(scene, manifest, path=PODS):
    """The next in line gets the quota that was released."""
    known = set(scene.names("/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"))
    scene.create(path, manifest)
    scene.settle()
    (name,) = set(scene.names("/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads")) - known
    return scene.admit(name)


def is_gated(scene, name="new"):
    return bool(scene.get(f"{PODS}/{name}")["spec"].get("schedulingGates"))


def test_a_pod_that_leaves_owes_what_it_takes_until_it_ended():
    scene = preempted()
    assert scene.number("headgate_released_debt", **DEBT) == 1000
    assert scene.end("old", phase="Failed").number("headgate_released_debt", **DEBT) == 0


def test_a_pod_that_leaves_without_giving_quota_back_owes_nothing():
    scene = preempted(quota_release=QuotaRelease.ON_TERMINAL)
    assert scene.number("headgate_released_debt", **DEBT) == 0


def test_a_pod_that_runs_owes_nothing():
    scene = Integrations()
    scene.create(PODS, pod("old"))
    scene.settle().admit().run("old")
    assert scene.number("headgate_released_debt", **DEBT) == 0


def test_work_admitted_against_a_debt_keeps_its_gate_until_the_room_is_there():
    scene = admitted(preempted(cpu=1), pod("new"))
    assert is_gated(scene)
    assert scene.number("headgate_work_waiting_for_room") == 1
    scene.end("old", phase="Failed")
    assert not is_gated(scene)
    assert scene.number("headgate_work_waiting_for_room") == 0


def test_work_that_begins_to_wait_for_room_says_so_once():
    scene = admitted(preempted(cpu=1), pod("new"))
    told = [entry.message for entry in scene.journal.take() if entry.reason == "WaitingForRoom"]
    assert told == ["waiting for 1 cpu of leaving pods default/old on n; starts by 1970-01-01T00:17:40Z"]
    assert scene.events == ["WaitingForRoom"]
    assert scene.later(1).events == []


def test_work_that_is_sent_away_waits_for_room_no_more():
    scene = admitted(preempted(cpu=1), pod("new"))
    scene.delete(f"{PODS}/new").settle()
    assert scene.number("headgate_work_waiting_for_room") == 0


def test_a_job_admitted_against_a_debt_stays_suspended():
    scene = admitted(preempted(cpu=1), job(), JOBS)
    assert scene.get(f"{JOBS}/job")["spec"]["suspend"] is True
    scene.end("old", phase="Failed")
    assert scene.get(f"{JOBS}/job")["spec"]["suspend"] is False


def test_pods_of_a_stopped_job_owe_like_any_other():
    scene = Integrations()
    scene.create(JOBS, job())
    template = scene.settle().admit().get(f"{JOBS}/job")["spec"]["template"]
    scene.job_status(active=1, startTime="1970-01-01T00:16:40Z")
    uid = scene.get(f"{JOBS}/job")["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": uid, "controller": True}
    spec = template["spec"] | LONG
    metadata = {**template["metadata"], "name": "old", "ownerReferences": [owner]}
    scene.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    scene.run("old").delete(f"{PODS}/old")
    assert scene.number("headgate_released_debt", **DEBT) == 0, "the job holds its quota"
    scene.evict().job_status(active=0, startTime=None, conditions=[{"type": "Suspended", "status": "True"}])
    assert scene.number("headgate_released_debt", **DEBT) == 1000


def test_where_there_is_room_beside_the_debt_work_starts_at_once():
    assert not is_gated(admitted(preempted(cpu=2), pod("new")))


def test_pods_that_leave_owe_no_more_than_they_may():
    scene = Integrations(debt_percent=50)
    scene.create(f"{KUEUE}/clusterqueues", cluster_queue(4))
    names = []
    for number in range(4):
        scene.create(PODS, pod(f"old-{number}", **LONG))
        (name,) = set(scene.settle().names(f"{KUEUE}/namespaces/default/workloads")) - set(names)
        names.append(name)
        scene.admit(name).run(f"old-{number}")
    for name in names:
        scene.say(scene.workload(name), {"Evicted": "True"}, "Preempted")
    scene.settle()

    def released():
        return sum(scene.conditions(name)["QuotaReserved"][0] == "False" for name in names)

    assert (released(), scene.number("headgate_released_debt", **DEBT)) == (2, 2000)
    scene.end("old-0", phase="Failed")
    assert (released(), scene.number("headgate_released_debt", **DEBT)) == (3, 2000)


def test_debt_is_bounded_by_flavor():
    """What is owed of one flavor does not count against another."""
    scene = Integrations(debt_percent=50)
    scene.create(f"{KUEUE}/resourceflavors", flavor("spot"))
    quotas = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": 2}]} for name in ("default", "spot")]
    groups = [{"coveredResources": ["cpu"], "flavors": quotas}]
    scene.create(f"{KUEUE}/clusterqueues", cluster_queue(0, resourceGroups=groups))
    names = {}
    for number, given in enumerate(("default", "default", "spot")):
        scene.create(PODS, pod(f"old-{number}", **LONG))
        (names[number],) = set(scene.settle().names(f"{KUEUE}/namespaces/default/workloads")) - set(names.values())
        scene.admit(names[number], flavor=given).run(f"old-{number}")
    for name in names.values():
        scene.evict(name)
    assert [scene.conditions(name)["QuotaReserved"][0] for name in names.values()] == ["False", "True", "False"]
    assert scene.number("headgate_released_debt", **{**DEBT, "flavor": "spot"}) == 1000


def test_room_of_pods_that_leave_and_keep_their_quota_is_not_given_away():
    """One of two that leave may owe its quota; the room of the other is as taken as its quota is."""
    scene = Integrations(debt_percent=50)
    scene.create(NODES, node("n", 2))
    scene.create(f"{KUEUE}/clusterqueues", cluster_queue(2))
    names = []
    for number in range(2):
        scene.create(PODS, pod(f"old-{number}", **LONG))
        (name,) = set(scene.settle().names(f"{KUEUE}/namespaces/default/workloads")) - set(names)
        names.append(name)
        scene.admit(name).run(f"old-{number}")
    for name in names:
        scene.evict(name)
    scene = admitted(scene, pod("new"))
    assert is_gated(scene)
    assert not is_gated(scene.end("old-1", phase="Failed"))


def test_room_is_given_once():
    scene = preempted(cpu=2)
    assert not is_gated(admitted(scene, pod("first")), "first")
    assert is_gated(admitted(scene, pod("second")), "second")


def test_all_pods_of_a_group_wait_for_room_together():
    scene = preempted(cpu=2)
    for name in "ab":
        scene.create(PODS, member(name))
    scene.settle().admit("group")
    assert is_gated(scene, "a")
    assert is_gated(scene, "b")
    scene.end("old", phase="Failed")
    assert not is_gated(scene, "a")
    assert not is_gated(scene, "b")


def test_the_debt_is_known_to_a_new_process():
    scene = admitted(preempted(cpu=1), pod("new"))
    scene.restart()
    scene.settle()
    assert scene.number("headgate_released_debt", **DEBT) == 1000
    assert is_gated(scene)


@pytest.mark.parametrize("seconds, stuck", [(60, 0), (89, 0), (90, 1)])
def test_a_pod_that_does_not_end_in_time_is_reported(seconds, stuck):
    scene = preempted().later(seconds)
    assert scene.events == ["StuckTerminating"] * stuck
    assert scene.number("headgate_stuck_terminating_pods") == stuck
    assert scene.later(1).events == ([] if stuck or seconds < 89 else ["StuckTerminating"]), "once"


def test_a_stream_of_urgent_pods_is_admitted_without_waiting_for_grace_periods():
    """Every victim gives its quota back in the step it is told to go, however long it takes to stop."""
    scene = Integrations()
    scene.create(f"{KUEUE}/clusterqueues", cluster_queue(5))
    names = []
    for number in range(5):
        scene.create(PODS, pod(f"old-{number}", **LONG))
        (name,) = set(scene.settle().names(f"{KUEUE}/namespaces/default/workloads")) - set(names)
        names.append(name)
        scene.admit(name).run(f"old-{number}")
    started = scene.now
    for name in names:
        scene.evict(name)
    assert scene.now == started
    assert all(scene.conditions(name)["QuotaReserved"][0] == "False" for name in names)
    assert scene.number("headgate_released_debt", **DEBT) == 5000
