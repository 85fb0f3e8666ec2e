"""Single pods wait behind a gate, start once, and give their quota back when they are asked to leave, or later."""

import hashlib

import pytest
from integration_scenes import GATE, KUEUE, MANAGED, PODS, WORKLOADS, Integrations, flavor, pod

from headgate.model.effects import Delete, PatchStatus, PodCondition
from headgate.model.settings import QuotaRelease

HELD = {"terminationGracePeriodSeconds": 60}


def waiting(manifest=None, **quota):
    scene = Integrations(**quota)
    scene.create(PODS, manifest or pod())
    return scene.settle()


def running(manifest=None, **quota):
    return waiting(manifest or pod(**HELD), **quota).admit().run("pod")


def the_pod(scene, name="pod"):
    return scene.get(f"{PODS}/{name}")


def test_a_pod_gets_a_workload_of_one_pod_that_it_owns():
    scene = waiting()
    made, uid = scene.workload(), the_pod(scene)["metadata"]["uid"]
    digest = hashlib.sha1(f"Pod\n\npod\n{uid}".encode()).hexdigest()[:5]
    assert made["metadata"]["name"] == f"pod-pod-{digest}"
    (reference,) = made["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"], reference["controller"]) == ("Pod", uid, True)
    (pods,) = made["spec"]["podSets"]
    assert (pods["name"], pods["count"]) == ("main", 1)
    assert "schedulingGates" not in pods["template"]["spec"]
    assert pods["template"]["spec"]["containers"] == the_pod(scene)["spec"]["containers"]


def test_a_pod_without_the_label_is_no_concern_of_ours():
    assert waiting(pod(labels={MANAGED: ""})).effects == []


def test_pods_are_held_back_only_where_that_is_asked_for():
    assert waiting(frameworks=("batch/job",)).effects == []


def test_an_admitted_pod_gets_all_it_needs_and_loses_its_gate_in_one_write():
    scene = waiting(pod(nodeSelector={"disk": "fast"}, gates=["example.com/other", GATE]))
    tolerations = [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]
    scene.create(f"{KUEUE}/resourceflavors", flavor("spot", nodeLabels={"type": "spot"}, tolerations=tolerations))
    scene.admit(flavor="spot")
    started = the_pod(scene)
    assert started["spec"]["schedulingGates"] == [{"name": "example.com/other"}], "other gates are not ours to take"
    assert started["spec"]["nodeSelector"] == {"disk": "fast", "type": "spot"}
    assert tolerations[0] in started["spec"]["tolerations"]
    labels = started["metadata"]["labels"]
    assert (labels["kueue.x-k8s.io/podset"], labels["kueue.x-k8s.io/cluster-queue-name"]) == ("main", "cq")
    assert scene.writes == ["PatchSpec"]


def test_our_second_gate_goes_with_the_first():
    scene = waiting(pod(gates=[GATE, "kueue.x-k8s.io/topology"])).admit()
    assert not the_pod(scene)["spec"].get("schedulingGates")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_finishes_its_workload_and_is_let_go(phase):
    scene = running()
    assert scene.conditions()["PodsReady"] == ("True", "Started")
    scene.end("pod", phase=phase)
    assert scene.conditions()["Finished"] == ("True", phase)
    assert MANAGED not in the_pod(scene)["metadata"].get("finalizers", [])
    assert scene.settle().effects == []


def test_an_evicted_pod_is_marked_and_deleted():
    scene = running().evict()
    (mark,) = [each.change for each in scene.effects if isinstance(each, PatchStatus) and _is_mark(each.change)]
    assert (mark.type, mark.reason, mark.message) == ("TerminationTarget", "WorkloadEvicted", "said")
    assert [type(each) for each in scene.effects].count(Delete) == 1


def _is_mark(change):
    return isinstance(change, PodCondition)


def test_fast_release_gives_quota_back_as_soon_as_the_pod_is_asked_to_leave():
    scene = running()
    name = scene.workload()["metadata"]["name"]
    seen = []
    scene.say(scene.workload(), {"Evicted": "True"}, "Preempted")
    while effects := scene.step():
        seen += effects
    released = [each.change for each in seen if isinstance(each, PatchStatus) and hasattr(each.change, "admission")]
    said = {each.type: (each.status, each.reason) for each in released[0].conditions}
    assert released[0].admission is None
    assert said["QuotaReserved"] == ("False", "PendingEvaluation")
    assert said["Requeued"] == ("False", "Preempted"), "a pod that was deleted cannot run again"
    assert said["Finished"] == ("True", "OwnerNotFound")
    assert the_pod(scene)["status"]["phase"] == "Running", "it still stops, with all the time it has"
    assert scene.names(WORKLOADS) == [name]


def test_without_fast_release_quota_comes_back_when_the_grace_is_over():
    scene = running(quota_release=QuotaRelease.GRACE).evict()
    assert scene.conditions()["QuotaReserved"][0] == "True"
    assert scene.wakes == [1_000.0 + 60 + 60], "as Kueue counts: from the time the pod was to be gone"
    assert scene.later(119).conditions()["QuotaReserved"][0] == "True"
    assert scene.later(1).conditions()["QuotaReserved"][0] == "False"


def test_without_fast_release_quota_comes_back_when_the_pod_ends_earlier():
    scene = running(quota_release=QuotaRelease.GRACE).evict()
    assert scene.end("pod", phase="Failed").conditions()["Finished"] == ("True", "Failed")


def test_on_terminal_quota_is_held_to_the_end():
    scene = running(quota_release=QuotaRelease.ON_TERMINAL).evict()
    assert scene.later(100_000).conditions()["QuotaReserved"][0] == "True"
    assert scene.end("pod", phase="Failed").conditions()["Finished"] == ("True", "Failed")


def test_a_pod_that_waits_behind_its_gate_may_queue_up_again():
    scene = waiting(pod(gates=[GATE])).admit(flavor="unknown").evict()
    assert scene.conditions()["Requeued"] == ("True", "Preempted")
    assert the_pod(scene)["spec"]["schedulingGates"] == [{"name": GATE}]


def test_a_pod_that_lost_its_gate_without_quota_is_sent_away():
    scene = waiting(pod(**HELD))
    scene.ask("PATCH", f"{PODS}/pod", {"spec": {"schedulingGates": []}}, "application/merge-patch+json")
    assert "Stopped" in scene.settle().events
    assert scene.names(PODS) == []


def test_a_deleted_pod_that_waits_is_let_go_and_its_workload_goes_with_it():
    scene = waiting()
    scene.delete(f"{PODS}/pod")
    assert (scene.names(PODS), scene.names(WORKLOADS)) == ([], [])


def test_a_new_process_lets_a_finished_pod_go():
    scene = running()
    scene.patch(f"{PODS}/pod/status", status={"phase": "Succeeded"})
    scene.restart()
    assert scene.settle().conditions()["Finished"] == ("True", "Succeeded")
    assert MANAGED not in the_pod(scene)["metadata"].get("finalizers", [])
