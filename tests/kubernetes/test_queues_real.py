"""Quota on a real cluster: a Kueue user's manifests by kubectl, our webhooks over TLS, our process with its own rights.

Neither kubelets nor the Job controller run, so the tests play their part: a pod runs, ends or leaves when they say so.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from children import eventually, free_port
from cluster import OWN_NAMESPACE, Cluster
from conftest import Start
from exchanges import priority_class
from installing import wait_until_asked, webhooks_installed
from objects import clear, create_nodes, node, priority_classes
from ours import OurProcess
from test_queue_webhooks_real import API, GATE
from wire import Client

Json = dict[str, Any]
ROLES = "quota,integrations,scheduler"
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: NS-flavor}
spec: {nodeLabels: {pool: NS}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: NS-queue}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: NS-flavor, resources: [{name: cpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: user-queue, namespace: NS}
spec: {clusterQueue: NS-queue}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, namespace: NS, labels: {kueue.x-k8s.io/queue-name: user-queue}}
spec:
  parallelism: 3
  completions: 3
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: registry.example/none, resources: {requests: {cpu: "1"}}}]
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: NS, labels: {kueue.x-k8s.io/queue-name: user-queue}}
spec:
  schedulerName: headgate
  priorityClassName: CLASS
  restartPolicy: Never
  terminationGracePeriodSeconds: 60
  containers: [{name: c, image: registry.example/none, resources: {requests: {cpu: "4"}}}]
"""
LATER = "2030-01-01T00:00:00Z"


class Scene:
    """One namespace with its queues, and what happens in it."""

    def __init__(self, cluster: Cluster, client: Client, namespace: str) -> None:
        self._cluster, self._client, self.namespace = cluster, client, namespace

    def apply(self, text: str, **values: str) -> None:
        for name, value in {**values, "NS": self.namespace}.items():
            text = text.replace(name, value)
        self._cluster.kubectl("apply", "--filename=-", text=text)

    def get(self, *what: str) -> str:
        return self._cluster.kubectl("get", f"--namespace={self.namespace}", *what)

    def eventually(self, kind: str, name: str, path: str, wanted: str) -> None:
        def holds() -> bool:
            return self.get(kind, name, f"--output=jsonpath={{{path}}}") == wanted

        eventually(f"{kind} {name}: {path} is {wanted!r}", holds)

    async def end(self, job: str) -> None:
        """What the Job controller says of a Job whose pods have all succeeded."""
        done = [
            {"type": kind, "status": "True", "reason": "CompletionsReached", "message": "", "lastTransitionTime": LATER}
            for kind in ("SuccessCriteriaMet", "Complete")
        ]
        status = {"startTime": LATER, "completionTime": LATER, "succeeded": 3, "conditions": done}
        counted = {"uncountedTerminatedPods": {}, "terminating": 0, "ready": 0}
        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{job}/status"
        answer = await self._client.request("PATCH", path, {"status": status | counted}, "application/merge-patch+json")
        assert answer.code == 200, answer.body

    async def run(self, pod: str) -> None:
        """What a kubelet says of a pod that runs."""
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": LATER}
        await self._client.patch(f"{self._pod(pod)}/status", {"status": {"phase": "Running", "conditions": [ready]}})

    async def let_go(self, pod: str) -> None:
        """What a kubelet does when a pod that was asked to leave has stopped."""
        await self._client.patch(f"{self._pod(pod)}/status", {"status": {"phase": "Failed"}})
        await self._client.delete(f"{self._pod(pod)}?gracePeriodSeconds=0")

    def _pod(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"


@pytest.fixture
def config(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A configuration file, with the feature gates that a test is given."""
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps({"featureGates": getattr(request, "param", {})}))
    return file


@pytest.fixture
async def scene(cluster: Cluster, client: Client, namespace: str, start: Start, config: Path) -> AsyncIterator[Scene]:
    """All three roles decide, and the server asks them about what is written."""
    port = free_port()
    listen = ("--webhook-listen", f"127.0.0.1:{port}", "--lease-namespace", OWN_NAMESPACE)
    one = node(f"{namespace}-n", "4")
    one["metadata"]["labels"]["pool"] = namespace
    try:
        with webhooks_installed(cluster, port):
            process: OurProcess = start("--config", str(config), "--roles", ROLES, "--no-leader-elect", *listen)
            wait_until_asked(cluster, process)
            eventually("it decides", lambda: process.answers("/readyz"))
            await create_nodes(client, [one])
            here = Scene(cluster, client, namespace)
            here.apply(QUEUES)
            yield here
            process.stop()
    finally:
        await clear(client, f"/api/v1/namespaces/{namespace}/pods", f"/apis/batch/v1/namespaces/{namespace}/jobs")
        kinds = ("workloads", "localqueues", "clusterqueues", "resourceflavors")
        await clear(client, *(f"{API}/{plural}" for plural in kinds))


@pytest.fixture
async def urgent(client: Client, namespace: str) -> AsyncIterator[str]:
    name = f"{namespace}-urgent"
    async with priority_classes(client, priority_class(name, 1000)):
        yield name


async def test_a_job_is_started_the_next_one_waits_and_quota_comes_back(scene: Scene) -> None:
    scene.apply(JOB, NAME="first")
    scene.eventually("job", "first", ".spec.suspend", "false")
    assert scene.get("job", "first", "--output=jsonpath={.spec.template.spec.nodeSelector.pool}") == scene.namespace
    scene.apply(JOB, NAME="second")
    queue = f"{scene.namespace}-queue"
    scene.eventually("clusterqueue", queue, ".status.pendingWorkloads", "1")
    scene.eventually("clusterqueue", queue, ".status.flavorsUsage[0].resources[0].total", "3")
    assert scene.get("job", "second", "--output=jsonpath={.spec.suspend}") == "true"
    why = "--output=jsonpath={.items[*].status.conditions[?(@.reason=='WaitingForQuota')].message}"
    eventually("it says what is missing", lambda: "2 more needed" in scene.get("workloads.kueue.x-k8s.io", why))
    await scene.end("first")
    scene.eventually("job", "second", ".spec.suspend", "false")
    scene.eventually("clusterqueue", queue, ".status.pendingWorkloads", "0")


def has_quota(scene: Scene, owner: str) -> bool:
    shown = "--output=jsonpath={.items[?(@.status.admission)].metadata.ownerReferences[0].name}"
    return owner in scene.get("workloads.kueue.x-k8s.io", shown).split()


async def preempt(scene: Scene, urgent: str) -> None:
    """An urgent pod comes, and the pod that runs is asked to leave."""
    scene.apply(POD, NAME="leaves", CLASS="")
    scene.eventually("pod", "leaves", ".spec.nodeName", f"{scene.namespace}-n")
    await scene.run("leaves")
    scene.apply(POD, NAME="urgent", CLASS=urgent)
    scene.eventually("pod", "leaves", ".metadata.deletionGracePeriodSeconds", "60")


async def test_an_urgent_pod_is_admitted_while_the_one_it_preempted_still_stops(scene: Scene, urgent: str) -> None:
    await preempt(scene, urgent)
    eventually("it has quota", lambda: has_quota(scene, "urgent"))
    assert scene.get("pod", "leaves", "--output=jsonpath={.status.phase}") == "Running"
    assert scene.get("pod", "urgent", "--output=jsonpath={.spec.schedulingGates[*].name}") == GATE
    await scene.let_go("leaves")
    scene.eventually("pod", "urgent", ".spec.nodeName", f"{scene.namespace}-n")


async def test_the_queue_shows_what_the_pod_that_still_stops_owes(scene: Scene, urgent: str) -> None:
    queue = f"{scene.namespace}-queue"
    await preempt(scene, urgent)
    scene.eventually("clusterqueue", queue, ".status.flavorsDebt[0].name", f"{scene.namespace}-flavor")
    scene.eventually("clusterqueue", queue, ".status.flavorsDebt[*].resources[*]", '{"name":"cpu","total":"4"}')
    await scene.let_go("leaves")
    scene.eventually("clusterqueue", queue, ".status.flavorsDebt", "")


async def test_an_urgent_pod_starts_before_that_one_has_stopped_once_another_node_has_room(
    scene: Scene, client: Client, urgent: str
) -> None:
    await preempt(scene, urgent)
    eventually("it has quota", lambda: has_quota(scene, "urgent"))
    assert scene.get("pod", "urgent", "--output=jsonpath={.spec.schedulingGates[*].name}") == GATE
    spare = node(f"{scene.namespace}-spare", "4")
    spare["metadata"]["labels"]["pool"] = scene.namespace
    await create_nodes(client, [spare])
    scene.eventually("pod", "urgent", ".spec.nodeName", f"{scene.namespace}-spare")
    assert scene.get("pod", "leaves", "--output=jsonpath={.status.phase}") == "Running"
    await scene.let_go("leaves")


@pytest.mark.parametrize("config", [pytest.param({"PodIntegrationFastQuotaRelease": False}, id="off")], indirect=True)
async def test_without_fast_release_it_is_admitted_when_that_one_has_stopped(scene: Scene, urgent: str) -> None:
    await preempt(scene, urgent)
    reasons = "--output=jsonpath={.items[*].status.conditions[?(@.type=='QuotaReserved')].reason}"
    why = "WaitingForPreemptedWorkloads"
    eventually("it says what it waits for", lambda: why in scene.get("workloads.kueue.x-k8s.io", reasons))
    assert has_quota(scene, "leaves") and not has_quota(scene, "urgent")
    await scene.let_go("leaves")
    scene.eventually("pod", "urgent", ".spec.nodeName", f"{scene.namespace}-n")
