"""Manifests as Kueue's users write them: our webhooks, the quota plane and the integrations do all the rest."""

import pytest
from integration_scenes import (
    CLUSTER_QUEUES,
    GATE,
    GROUP,
    JOBS,
    LOCAL_QUEUES,
    PODS,
    QUEUE,
    TOTAL,
    WORKLOADS,
    Integrations,
    cluster_queue,
    flavor,
    local_queue,
    pod_spec,
)

from headgate.apiserver.admission.plugins import ADMISSION
from headgate.apiserver.kinds import INITIAL_OBJECTS
from headgate.apiserver.server import ApiServer
from headgate.simulator.cluster import installed_objects, lookup_in, our_webhooks

FLAVORS = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"


class Installed(Integrations):
    """A cluster as `headgate install` leaves it, with one queue of two cpus."""

    def __init__(self):
        super().__init__(with_quota=True)
        webhooks = our_webhooks(self.settings, lookup_in(lambda: self.server))
        objects = (*INITIAL_OBJECTS, *installed_objects(self.settings))
        self.server = ApiServer(admission=(*ADMISSION, webhooks), objects=objects)
        self.restart()
        self.create(FLAVORS, flavor("default", nodeLabels={"type": "batch"}))
        self.create(CLUSTER_QUEUES, cluster_queue(2))
        self.create(LOCAL_QUEUES, local_queue())
        self.settle()


def plain_job(name="job"):
    spec = {"parallelism": 2, "completions": 2, "template": {"spec": pod_spec(restartPolicy="Never")}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": {QUEUE: "lq"}}, "spec": spec}


def plain_pod(name, group=""):
    labels = {QUEUE: "lq"} | ({GROUP: group} if group else {})
    metadata = {"name": name, "labels": labels, "annotations": {TOTAL: "2"} if group else {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec()}


def test_a_job_is_held_back_and_started():
    scene = Installed()
    assert scene.create(JOBS, plain_job())["spec"]["suspend"] is True
    spec = scene.settle().get(f"{JOBS}/job")["spec"]
    assert spec["suspend"] is False
    assert spec["template"]["spec"]["nodeSelector"] == {"type": "batch"}
    assert scene.create(JOBS, plain_job("next"))["spec"]["suspend"] is True
    assert scene.settle().get(f"{JOBS}/next")["spec"]["suspend"] is True


@pytest.mark.parametrize("group", ["", "group"])
def test_pods_are_held_back_started_and_let_go(group):
    scene = Installed()
    for name in "ab":
        assert scene.create(PODS, plain_pod(name, group))["spec"]["schedulingGates"] == [{"name": GATE}]
    assert all(map(scene.settle().free, "ab"))
    assert len(scene.names(WORKLOADS)) == (1 if group else 2)
    scene.run("a", "b").end("a", "b")
    for name in "ab":
        scene.delete(f"{PODS}/{name}")
    assert (scene.names(PODS), scene.names(WORKLOADS)) == ([], [])
