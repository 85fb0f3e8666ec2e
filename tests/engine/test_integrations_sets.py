"""StatefulSets: all pods of one are admitted as a whole, before they are there, and however often they are replaced."""

import hashlib

import pytest
from integration_scenes import GROUP, PODS, QUEUE, TOTAL, WORKLOADS, Integrations, pod, pod_spec

SETS = "/apis/apps/v1/namespaces/default/statefulsets"
PREFIX = "kueue.x-k8s.io"


def stateful_set(replicas=2, cpu="1", **labels):
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec(cpu)},
    }
    metadata = {"name": "web", "labels": {QUEUE: "lq", **labels}}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


def scene(replicas=2, **quota):
    made = Integrations(**quota)
    made.create(SETS, stateful_set(replicas))
    return made.settle()


def name_of(made):
    uid = made.get(f"{SETS}/web")["metadata"]["uid"]
    digest = hashlib.sha1("\n".join(("StatefulSet", "apps", "web", uid)).encode()).hexdigest()
    return f"statefulset-web-{digest[:5]}"


def of_set(made, number, total=2, **fields):
    """A pod of the set, as its controller makes it and our webhook leaves it."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True}
    annotations = {
        GROUP: name_of(made),
        TOTAL: str(total),
        f"{PREFIX}/pod-group-fast-admission": "true",
        f"{PREFIX}/pod-group-serving": "true",
        f"{PREFIX}/role-hash": "main",
        f"{PREFIX}/pod-suspending-parent": "statefulset",
    }
    manifest = pod(f"web-{number}", annotations=annotations, finalizers=[], **fields)
    manifest["metadata"]["ownerReferences"] = [{**owner, "uid": made.get(f"{SETS}/web")["metadata"]["uid"]}]
    return manifest


def with_pods(replicas=2, **quota):
    made = scene(replicas, **quota)
    for number in range(replicas):
        made.create(PODS, of_set(made, number, replicas))
    return made.settle()


def running(replicas=2, **quota):
    made = with_pods(replicas, **quota).admit()
    return made.run(*(f"web-{number}" for number in range(replicas)))


def gated(made):
    return [name for name in made.names(PODS) if made.get(f"{PODS}/{name}")["spec"].get("schedulingGates")]


def gone(made, *names):
    """Nothing of these pods is left."""
    for name in names:
        made.ask("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    made.settle()


def test_it_has_a_workload_before_it_has_pods():
    made = scene(3)
    workload = made.workload()
    metadata, (pods,) = workload["metadata"], workload["spec"]["podSets"]
    uid = made.get(f"{SETS}/web")["metadata"]["uid"]
    assert metadata["name"] == name_of(made)
    assert metadata["labels"] == {f"{PREFIX}/job-uid": uid}
    assert metadata["annotations"] == {
        f"{PREFIX}/is-group-workload": "true",
        f"{PREFIX}/job-owner-gvk": "apps/v1, Kind=StatefulSet",
        f"{PREFIX}/job-owner-name": "web",
    }
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner.get("controller")) == ("StatefulSet", uid, None)
    assert (pods["name"], pods["count"]) == ("main", 3)
    assert workload["spec"]["queueName"] == "lq"


@pytest.mark.parametrize(
    "replicas, labels, quota",
    [
        pytest.param(0, {}, {}, id="one without pods"),
        pytest.param(2, {QUEUE: ""}, {}, id="one that names no queue"),
        pytest.param(2, {}, {"frameworks": ("batch/job", "pod")}, id="where sets do not wait"),
    ],
)
def test_who_has_none(replicas, labels, quota):
    made = Integrations(**quota)
    made.create(SETS, stateful_set(replicas, **labels))
    assert made.settle().names(WORKLOADS) == []


def test_its_pods_start_when_all_of_it_is_admitted():
    made = with_pods()
    assert gated(made) == ["web-0", "web-1"]
    made.admit()
    assert gated(made) == []
    assert made.run("web-0", "web-1").conditions()["PodsReady"][0] == "True"
    assert [owner["kind"] for owner in made.workload()["metadata"]["ownerReferences"]] == ["StatefulSet"]


def test_a_pod_that_comes_later_starts_at_once():
    made = scene(2)
    made.create(PODS, of_set(made, 0))
    made.settle().admit()
    made.create(PODS, of_set(made, 1))
    assert gated(made.settle()) == []


def test_a_pod_is_replaced_by_another_of_its_name():
    made = running()
    gone(made, "web-1")
    made.create(PODS, of_set(made, 1))
    assert gated(made.settle()) == []
    assert "WaitingForReplacementPods" not in made.conditions()
    assert made.conditions()["QuotaReserved"][0] == "True"


def test_pods_that_succeed_give_no_quota_back():
    made = running().end("web-0")
    assert "reclaimablePods" not in made.workload()["status"]
    assert "Finished" not in made.conditions()


def test_a_workload_outlives_all_pods_of_an_evicted_set_and_waits_again_with_the_next():
    made = running()
    before = made.workload()["metadata"]["uid"]
    made.evict()
    gone(made, "web-0", "web-1")
    assert made.conditions()["QuotaReserved"][0] == "False"
    for number in range(2):
        made.create(PODS, of_set(made, number))
    assert gated(made.settle()) == ["web-0", "web-1"]
    assert made.workload()["metadata"]["uid"] == before
    made.say(made.workload(), {"Evicted": "False"})
    assert gated(made.admit()) == []


def test_pods_beyond_its_quota_keep_their_gate():
    made = running()
    made.patch(f"{SETS}/web", spec={"replicas": 3})
    made.create(PODS, of_set(made, 2, total=3))
    assert gated(made.settle()) == ["web-2"]
    assert made.conditions()["Admitted"][0] == "True"


def test_one_that_waits_follows_its_size():
    made = scene(2)
    made.patch(f"{SETS}/web", spec={"replicas": 3})
    (pods,) = made.settle().workload()["spec"]["podSets"]
    assert pods["count"] == 3


def test_scaled_to_none_it_holds_no_quota_and_scaled_up_it_waits_again():
    made = running()
    made.patch(f"{SETS}/web", spec={"replicas": 0})
    gone(made.settle(), "web-0", "web-1")
    assert made.conditions()["QuotaReserved"] == ("False", "OnHold")
    assert "admission" not in made.workload()["status"]
    made.patch(f"{SETS}/web", spec={"replicas": 2})
    assert made.settle().conditions()["QuotaReserved"] == ("False", "PendingEvaluation")


def test_its_workload_goes_with_it():
    made = running().delete(f"{SETS}/web")
    gone(made, *made.names(PODS))
    assert made.names(WORKLOADS) == []


def test_a_new_process_knows_it():
    made = running()
    made.restart()
    assert made.settle().effects == []


def test_a_pod_of_a_deployment_waits_by_itself_and_its_workload_goes_with_it():
    made = Integrations()
    told = {f"{PREFIX}/pod-suspending-parent": "deployment"}
    made.create(PODS, pod("one", annotations=told, finalizers=[]))
    assert gated(made.settle()) == ["one"]
    assert gated(made.admit()) == []
    made.run("one")
    gone(made, "one")
    assert made.names(WORKLOADS) == []
