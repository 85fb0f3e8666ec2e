"""A Kueue user's manifests on a real cluster: our webhooks complete and refuse them over TLS, under our own rights."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from children import free_port
from cluster import OWN_NAMESPACE, Cluster
from conftest import Start
from installing import install, run_install, wait_until_asked, webhooks_installed
from objects import clear, remove_all
from ours import OurProcess
from wire import Answer, Client

from headgate.api.install_manifests import queue_definitions

QUEUE_NAME, IN_USE = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/resource-in-use"
MANAGED, GATE = "kueue.x-k8s.io/managed", "kueue.x-k8s.io/admission"
API = "/apis/kueue.x-k8s.io/v1beta2"
CONFIG = {"integrations": {"frameworks": ["batch/job", "pod", "deployment", "statefulset"]}}
USERS_MANIFESTS = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: NS-flavor}
spec: {nodeLabels: {instance-type: spot}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: NS-cluster-queue}
spec:
  namespaceSelector: {}
  cohortName: all
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: NS-flavor
      resources:
      - {name: cpu, nominalQuota: 9}
      - {name: memory, nominalQuota: 36Gi}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: user-queue, namespace: NS}
spec: {clusterQueue: NS-cluster-queue}
---
apiVersion: batch/v1
kind: Job
metadata: {name: sample-job, namespace: NS, labels: {kueue.x-k8s.io/queue-name: user-queue}}
spec:
  parallelism: 3
  completions: 3
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: job, image: registry.example/none, resources: {requests: {cpu: "1", memory: 200Mi}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: leader
  namespace: NS
  labels: {kueue.x-k8s.io/queue-name: user-queue, kueue.x-k8s.io/pod-group-name: group}
  annotations: {kueue.x-k8s.io/pod-group-total-count: "2"}
spec:
  restartPolicy: Never
  containers: [{name: c, image: registry.example/none, resources: {requests: {cpu: "3"}}}]
---
apiVersion: v1
kind: Pod
metadata:
  name: worker
  namespace: NS
  labels: {kueue.x-k8s.io/queue-name: user-queue, kueue.x-k8s.io/pod-group-name: group}
  annotations: {kueue.x-k8s.io/pod-group-total-count: "2"}
spec:
  restartPolicy: Never
  containers: [{name: c, image: registry.example/none, resources: {requests: {cpu: "1"}}}]
"""


@pytest.fixture
async def asked(
    cluster: Cluster, client: Client, namespace: str, start: Start, tmp_path: Path
) -> AsyncIterator[OurProcess]:
    """Our process answers for Kueue's kinds, jobs and pods; what is left of them goes when nobody answers any more.

    It stands by and decides nothing: somebody else holds the lease.
    """
    port, config = free_port(), tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    listen = ("--webhook-listen", f"127.0.0.1:{port}", "--lease-namespace", OWN_NAMESPACE)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{OWN_NAMESPACE}/leases"
    held = {"holderIdentity": "another", "leaseDurationSeconds": 3600, "renewTime": "2036-01-01T00:00:00.000000Z"}
    try:
        await remove_all(client, lease)  # one that was given up stays as an object
        await client.create(lease, {"metadata": {"name": "headgate"}, "spec": held})
        with webhooks_installed(cluster, port):
            process = start("--config", str(config), "--roles", "quota,integrations", *listen)
            wait_until_asked(cluster, process)
            yield process
            process.stop()
    finally:
        await remove_all(client, lease)
        await clear(client, f"/api/v1/namespaces/{namespace}/pods", f"/apis/batch/v1/namespaces/{namespace}/jobs")
        await clear(
            client, *(f"/apis/apps/v1/namespaces/{namespace}/{kind}" for kind in ("deployments", "statefulsets"))
        )
        kinds = ("workloads", "localqueues", "clusterqueues", "resourceflavors", "workloadpriorityclasses")
        await clear(client, *(f"{API}/{plural}" for plural in kinds))


@pytest.mark.usefixtures("asked")
async def test_the_manifests_of_a_kueue_user_are_taken_and_completed(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    applied = cluster.kubectl("apply", "--filename=-", text=USERS_MANIFESTS.replace("NS", namespace))
    assert [line.rpartition(" ")[2] for line in applied.splitlines()] == ["created"] * 6
    for plural, name in (("resourceflavors", "flavor"), ("clusterqueues", "cluster-queue")):
        found = await client.get(f"{API}/{plural}/{namespace}-{name}")
        assert found["metadata"]["finalizers"] == [IN_USE]
    job = await client.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/sample-job")
    assert job["spec"]["suspend"] is True
    leader, worker = [await client.get(f"/api/v1/namespaces/{namespace}/pods/{name}") for name in ("leader", "worker")]
    assert leader["spec"]["schedulingGates"] == [{"name": GATE}]
    assert (leader["metadata"]["finalizers"], leader["metadata"]["labels"][MANAGED]) == ([MANAGED], "true")
    roles = [pod["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"] for pod in (leader, worker)]
    assert roles[0] != roles[1]
    again = cluster.kubectl("apply", "--filename=-", text=USERS_MANIFESTS.replace("NS", namespace))
    assert [line.rpartition(" ")[2] for line in again.splitlines()] == ["unchanged"] * 6


def of_kueue(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, **fields}


def pod_set(count: int = 1) -> dict[str, Any]:
    return {"count": count, "template": {"spec": {"containers": [{"name": "c", "image": "registry.example/none"}]}}}


def message(answer: Answer) -> str:
    assert answer.code == 403, answer.body
    return str(answer.value["message"])


def denied(name: str, error: str) -> str:
    return f'admission webhook "{name}" denied the request: {error}'


@pytest.mark.usefixtures("asked")
async def test_mistakes_are_refused_in_the_words_users_know(client: Client, namespace: str) -> None:
    quota = {"name": "cpu", "nominalQuota": 1, "lendingLimit": 2}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "spot", "resources": [quota]}]}
    queue = of_kueue("ClusterQueue", f"{namespace}-q", spec={"cohortName": "all", "resourceGroups": [group]})
    assert message(await client.request("POST", f"{API}/clusterqueues", queue)) == denied(
        "validate.clusterqueues.kueue.headgate.dev",
        'spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: "2": '
        "must be less than or equal to the nominalQuota",
    )
    await client.create(f"{API}/workloadpriorityclasses", of_kueue("WorkloadPriorityClass", "default", value=40))
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "default"}
    path = f"{API}/namespaces/{namespace}/workloads"
    created = await client.request(
        "POST", path, of_kueue("Workload", "it", spec={"podSets": [pod_set(2)], "priorityClassRef": ref})
    )
    assert (created.code, created.value["spec"]["priority"]) == (201, 40)
    boosted = of_kueue("Workload", "boosted", spec={"podSets": [pod_set()]})
    boosted["metadata"]["annotations"] = {"kueue.x-k8s.io/priority-boost": "much"}
    assert "must be a whole number of 32 bits" in message(await client.request("POST", path, boosted))


@pytest.mark.usefixtures("asked")
async def test_jobs_and_pods_are_held_to_what_they_waited_for(cluster: Cluster, client: Client, namespace: str) -> None:
    cluster.kubectl("apply", "--filename=-", text=USERS_MANIFESTS.replace("NS", namespace))
    job, pods = f"/apis/batch/v1/namespaces/{namespace}/jobs/sample-job", f"/api/v1/namespaces/{namespace}/pods"
    await client.patch(job, {"metadata": {"labels": {QUEUE_NAME: "other-queue"}}})
    await client.patch(job, {"spec": {"suspend": False}})
    moved = {"metadata": {"labels": {QUEUE_NAME: "user-queue"}}}
    merge = "application/merge-patch+json"
    path = f"metadata.labels[{QUEUE_NAME}]"
    assert message(await client.request("PATCH", job, moved, merge)) == denied(
        "validate.jobs.headgate.dev", f'{path}: Invalid value: "user-queue": field is immutable'
    )
    other = {"metadata": {"labels": {"kueue.x-k8s.io/pod-group-name": "others"}}}
    path = "metadata.labels[kueue.x-k8s.io/pod-group-name]"
    assert message(await client.request("PATCH", f"{pods}/leader", other, merge)) == denied(
        "validate.pods.headgate.dev", f'{path}: Invalid value: "others": field is immutable'
    )
    await client.create(
        f"{API}/namespaces/{namespace}/localqueues", of_kueue("LocalQueue", "default", spec={"clusterQueue": "x"})
    )
    spec = {"containers": [{"name": "c", "image": "registry.example/none"}]}
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "plain-"}, "spec": spec}
    held = (await client.request("POST", pods, plain)).value
    assert (held["metadata"]["labels"][QUEUE_NAME], held["spec"]["schedulingGates"]) == ("default", [{"name": GATE}])


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: serving, namespace: NS, labels: {kueue.x-k8s.io/queue-name: user-queue}}
spec:
  selector: {matchLabels: {app: serving}}
  template:
    metadata: {labels: {app: serving}}
    spec: {containers: [{name: c, image: registry.example/none}]}
"""


@pytest.mark.usefixtures("asked")
async def test_the_pods_of_a_deployment_are_to_wait_in_its_queue(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    cluster.kubectl("apply", "--filename=-", text=DEPLOYMENT.replace("NS", namespace))
    found = await client.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/serving")
    told = found["spec"]["template"]["metadata"]
    assert told["labels"] == {"app": "serving", QUEUE_NAME: "user-queue", MANAGED: "true"}
    assert told["annotations"] == {"kueue.x-k8s.io/pod-suspending-parent": "deployment"}


STATEFUL_SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: NS, labels: {kueue.x-k8s.io/queue-name: user-queue}}
spec:
  replicas: 3
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: registry.example/none}]}
"""


@pytest.mark.usefixtures("asked")
async def test_the_pods_of_a_stateful_set_are_one_group(cluster: Cluster, client: Client, namespace: str) -> None:
    cluster.kubectl("apply", "--filename=-", text=STATEFUL_SET.replace("NS", namespace))
    path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets/web"
    owner = await client.get(path)
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": owner["metadata"]["uid"]}
    template = owner["spec"]["template"]
    metadata = {**template["metadata"], "name": "web-0", "ownerReferences": [{**reference, "controller": True}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    made = (await client.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)).value
    assert made["spec"]["schedulingGates"] == [{"name": GATE}]
    assert made["metadata"]["labels"] == {"app": "web", QUEUE_NAME: "user-queue", MANAGED: "true"}
    assert made["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-name"].startswith("statefulset-web-")
    assert made["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "3"
    larger = await client.request("PATCH", path, {"spec": {"replicas": 4}}, "application/merge-patch+json")
    assert message(larger) == denied(
        "validate.statefulsets.headgate.dev", "spec.replicas: Invalid value: field is immutable"
    )


async def test_an_outage_of_ours_stops_only_work_that_names_a_queue(
    asked: OurProcess, client: Client, namespace: str
) -> None:
    asked.stop()
    spec = {"containers": [{"name": "c", "image": "registry.example/none"}]}
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": spec}
    queued = {**plain, "metadata": {"name": "queued", "labels": {QUEUE_NAME: "user-queue"}}}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    assert (await client.request("POST", pods, plain)).code == 201
    refused = await client.request("POST", pods, queued)
    assert (refused.code, "default.pods.headgate.dev" in refused.value["message"]) == (500, True)


@pytest.mark.usefixtures("asked")
async def test_what_our_own_process_writes_is_not_asked_about(
    cluster: Cluster, namespace: str, own_account: Path
) -> None:
    wrong = of_kueue("Workload", "ours", spec={"podSets": [pod_set()]})
    wrong["metadata"] |= {"namespace": namespace, "annotations": {"kueue.x-k8s.io/priority-boost": "much"}}
    flags = (f"--kubeconfig={own_account}", "create", "--filename=-")
    assert "created" in cluster.kubectl(*flags, text=json.dumps(wrong))


@pytest.mark.parametrize(
    "verb, group, resource, subresource, allowed",
    [
        pytest.param("watch", "kueue.x-k8s.io", "clusterqueues", "", True, id="it reads queues"),
        pytest.param("patch", "kueue.x-k8s.io", "clusterqueues", "status", True, id="it says how they stand"),
        pytest.param("delete", "kueue.x-k8s.io", "clusterqueues", "", False, id="it deletes none"),
        pytest.param("create", "kueue.x-k8s.io", "localqueues", "", False, id="it makes none"),
        pytest.param("create", "kueue.x-k8s.io", "workloads", "", True, id="it makes workloads"),
        pytest.param("patch", "kueue.x-k8s.io", "workloadpriorityclasses", "", False, id="it changes no class"),
        pytest.param("patch", "batch", "jobs", "", True, id="it starts jobs"),
        pytest.param("create", "batch", "jobs", "", False, id="it makes no jobs"),
        pytest.param("patch", "", "pods", "", True, id="it takes gates off"),
        pytest.param("create", "", "pods", "", False, id="it makes no pods"),
        pytest.param("watch", "", "limitranges", "", True, id="it reads limit ranges"),
        pytest.param("watch", "node.k8s.io", "runtimeclasses", "", True, id="it reads runtime classes"),
        pytest.param("watch", "apps", "statefulsets", "", True, id="it reads stateful sets"),
        pytest.param("patch", "apps", "statefulsets", "", False, id="it changes none"),
        pytest.param("get", "apps", "deployments", "", True, id="it looks up deployments"),
        pytest.param("get", "", "secrets", "", False, id="it reads nobody's secrets"),
        pytest.param("patch", "", "nodes", "", False, id="it changes no node"),
    ],
)
@pytest.mark.usefixtures("own_account")
async def test_our_rights(
    client: Client, verb: str, group: str, resource: str, subresource: str, allowed: bool
) -> None:
    wanted = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": "default"}
    spec = {"user": f"system:serviceaccount:{OWN_NAMESPACE}:headgate", "resourceAttributes": wanted}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = await client.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert bool(answer.value["status"].get("allowed")) is allowed


@pytest.fixture
def theirs(cluster: Cluster) -> Iterator[str]:
    """A definition as Kueue would have left it."""
    name = "cohorts.kueue.x-k8s.io"
    install(cluster)
    cluster.kubectl("label", "crd", name, "app.kubernetes.io/managed-by-")
    yield name
    cluster.kubectl("label", "crd", name, "app.kubernetes.io/managed-by=headgate")


def test_kinds_that_kueue_has_installed_are_left_to_it(cluster: Cluster, theirs: str) -> None:
    told = run_install(cluster.administrator).stdout
    assert f"CustomResourceDefinition {theirs}: left as it is, because somebody else installed it" in told
    without = run_install(cluster.administrator, "--no-queues").stdout
    assert not [one for one in queue_definitions() if one["metadata"]["name"] in without]
