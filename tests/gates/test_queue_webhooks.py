"""A simulated cluster asks us about queues, workloads, jobs and pods, as a real one does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.apiserver import ADMISSION, INITIAL_OBJECTS, ApiServer, Json, Request, Response
from headgate.model.settings import FRAMEWORKS, QuotaSettings, Settings
from headgate.simulator.cluster import installed_objects, lookup_in, our_webhooks

API = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{API}/namespaces/default/workloads"
PODS, JOBS = "/api/v1/namespaces/default/pods", "/apis/batch/v1/namespaces/default/jobs"
IN_USE, QUEUE_NAME = "kueue.x-k8s.io/resource-in-use", "kueue.x-k8s.io/queue-name"
THEN = "2026-01-01T00:00:00Z"


class Cluster:
    def __init__(self) -> None:
        settings = Settings(quota=QuotaSettings(frameworks=FRAMEWORKS))
        webhooks = our_webhooks(settings, lookup_in(lambda: self.server))
        objects = (*INITIAL_OBJECTS, *installed_objects(settings))
        self.server = ApiServer(admission=(*ADMISSION, webhooks), objects=objects)

    def ask(self, method: str, path: str, value: Json, content_type: str = "application/json") -> Response:
        return self.server.handle(Request(method, path, {}, msgspec.json.encode(value), content_type), 1000.0)

    def create(self, path: str, kind: str, version: str = "kueue.x-k8s.io/v1beta2", **fields: Any) -> Response:
        whole = {"apiVersion": version, "kind": kind, **fields}
        return self.ask("POST", path, {**whole, "metadata": {"name": "it", **fields.get("metadata", {})}})

    def merge(self, path: str, **fields: Any) -> Response:
        return self.ask("PATCH", path, fields, "application/merge-patch+json")


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def quota(name: str, nominal: Any = 4, **limits: Any) -> Json:
    return {"name": name, "nominalQuota": nominal, **limits}


def group(*quotas: Json, flavors: tuple[str, ...] = ("spot",)) -> Json:
    names = [one["name"] for one in quotas]
    return {"coveredResources": names, "flavors": [{"name": name, "resources": list(quotas)} for name in flavors]}


def denied(name: str, *errors: str) -> str:
    said = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    return f'admission webhook "{name}" denied the request: {said}'


@pytest.mark.parametrize("plural, kind", [("clusterqueues", "ClusterQueue"), ("resourceflavors", "ResourceFlavor")])
def test_what_queues_depend_on_is_kept_while_in_use(cluster: Cluster, plural: str, kind: str) -> None:
    created = cluster.create(f"{API}/{plural}", kind, spec={})
    assert (created.code, created.value["metadata"]["finalizers"]) == (201, [IN_USE])
    cluster.ask("DELETE", f"{API}/{plural}/it", {})
    cluster.merge(f"{API}/{plural}/it", metadata={"finalizers": None})
    assert cluster.ask("GET", f"{API}/{plural}/it", {}).code == 404


@pytest.mark.parametrize(
    "plural, kind, spec, message",
    [
        pytest.param(
            "clusterqueues",
            "ClusterQueue",
            {"cohortName": "all", "resourceGroups": [group(quota("cpu", "-1", lendingLimit=5))]},
            denied(
                "validate.clusterqueues.kueue.headgate.dev",
                'spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: "-1": '
                "must be greater than or equal to 0",
                'spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: "5": '
                "must be less than or equal to the nominalQuota",
            ),
            id="a queue that lends more than it has",
        ),
        pytest.param(
            "clusterqueues",
            "ClusterQueue",
            {"resourceGroups": [group(quota("cpu")), group(quota("memory"))]},
            denied(
                "validate.clusterqueues.kueue.headgate.dev",
                'spec.resourceGroups[1].flavors[0].name: Duplicate value: "spot"',
            ),
            id="a flavor in two groups",
        ),
        pytest.param(
            "cohorts",
            "Cohort",
            {"resourceGroups": [group(quota("cpu", borrowingLimit=1))]},
            denied(
                "validate.cohorts.kueue.headgate.dev",
                'spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit: Invalid value: "1": '
                "must be nil when parent is empty",
            ),
            id="a limit with nobody to borrow from",
        ),
        pytest.param(
            "resourceflavors",
            "ResourceFlavor",
            {"nodeLabels": {"zone": "no value!"}},
            'spec.nodeLabels[zone]: Invalid value: "no value!": a valid label must be',
            id="a label no node can have",
        ),
    ],
)
def test_a_simulated_cluster_refuses_queues(cluster: Cluster, plural: str, kind: str, spec: Json, message: str) -> None:
    refused = cluster.create(f"{API}/{plural}", kind, spec=spec)
    assert refused.code == 403
    assert message in refused.value["message"]


def pod_set(**fields: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": 1}}}
    return {"count": 2, "template": {"spec": {"containers": [container]}}, **fields}


def workload(cluster: Cluster, **spec: Any) -> Response:
    return cluster.create(WORKLOADS, "Workload", spec={"podSets": [pod_set()], "queueName": "q", **spec})


@pytest.mark.parametrize(
    "ref, priority",
    [
        pytest.param(
            {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}, 9, id="of a workload's class"
        ),
        pytest.param(
            {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "system-cluster-critical"},
            2_000_000_000,
            id="of a pod's class",
        ),
    ],
)
def test_a_workload_gets_the_priority_of_its_class(cluster: Cluster, ref: Json, priority: int) -> None:
    classes = f"{API}/workloadpriorityclasses"
    assert cluster.create(classes, "WorkloadPriorityClass", metadata={"name": "high"}, value=9).code == 201
    created = workload(cluster, priorityClassRef=ref)
    assert (created.code, created.value["spec"].get("priority")) == (201, priority)


def test_a_workload_keeps_the_priority_it_says_and_needs_none(cluster: Cluster) -> None:
    plain = workload(cluster).value["spec"]
    assert ("priority" in plain, plain["podSets"][0]["name"]) == (False, "main")
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "gone"}
    said = cluster.create(
        WORKLOADS,
        "Workload",
        metadata={"name": "other"},
        spec={"podSets": [pod_set()], "priorityClassRef": ref, "priority": 3},
    )
    assert said.value["spec"]["priority"] == 3


def test_a_class_that_is_not_there_gives_no_priority(cluster: Cluster) -> None:
    refused = workload(
        cluster, priorityClassRef={"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "x"}
    )
    assert refused.code == 422
    assert "priority" in refused.value["message"]


RESERVED = {"type": "QuotaReserved", "status": "True", "reason": "x", "message": "", "lastTransitionTime": THEN}
VALIDATE_WORKLOAD = "validate.workloads.kueue.headgate.dev"


def assigned(cpu: str, flavor: str = "spot") -> Json:
    given = {"name": "main", "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": cpu}, "count": 2}
    return {"clusterQueue": "cq", "podSetAssignments": [given]}


def test_the_status_of_a_workload_is_judged_too(cluster: Cluster) -> None:
    assert workload(cluster).code == 201
    status = f"{WORKLOADS}/it/status"
    odd = cluster.merge(status, status={"conditions": [RESERVED], "admission": assigned("3m")})
    path = "status.admission.podSetAssignments[0].resourceUsage[cpu]"
    assert odd.value["message"] == denied(VALIDATE_WORKLOAD, f'{path}: Invalid value: "3m": is not a multiple of 2')
    assert cluster.merge(status, status={"conditions": [RESERVED], "admission": assigned("2")}).code == 200
    moved = cluster.merge(status, status={"admission": assigned("2", "other")})
    assert moved.value["message"] == denied(VALIDATE_WORKLOAD, "status.admission: Invalid value: field is immutable")
    grown = cluster.merge(f"{WORKLOADS}/it", spec={"podSets": [pod_set(name="main", count=3)]})
    assert grown.value["message"] == denied(VALIDATE_WORKLOAD, "spec.podSets[0]: Invalid value: field is immutable")


def test_work_alike_is_judged_alike_and_by_whatever_differs(cluster: Cluster) -> None:
    held, spec = {"conditions": [RESERVED], "admission": assigned("2")}, {"podSets": [pod_set()]}
    for name in ("first", "second"):
        assert cluster.create(WORKLOADS, "Workload", metadata={"name": name}, spec=spec).code == 201
        odd = cluster.merge(f"{WORKLOADS}/{name}/status", status={**held, "admission": assigned("3m")})
        assert (odd.code, cluster.merge(f"{WORKLOADS}/{name}/status", status=held).code) == (403, 200)
    boosted = {"name": "third", "annotations": {"kueue.x-k8s.io/priority-boost": "much"}}
    assert cluster.create(WORKLOADS, "Workload", metadata=boosted, spec=spec).code == 403
    moved = {"clusterName": "elsewhere"}
    assert cluster.merge(f"{WORKLOADS}/first/status", status={"nominatedClusterNames": ["elsewhere"]}).code == 200
    assert cluster.merge(f"{WORKLOADS}/first/status", status={**moved, "nominatedClusterNames": None}).code == 200
    assert cluster.merge(f"{WORKLOADS}/second/status", status=moved).code == 403


def test_what_is_going_is_let_go_however_wrong_it_is(cluster: Cluster) -> None:
    spec = {"podSets": [pod_set()]}
    assert cluster.create(WORKLOADS, "Workload", metadata={"finalizers": ["x/y"]}, spec=spec).code == 201
    wrong = {"metadata": {"annotations": {"kueue.x-k8s.io/priority-boost": "much"}}}
    assert cluster.merge(f"{WORKLOADS}/it", **wrong).code == 403
    cluster.ask("DELETE", f"{WORKLOADS}/it", {})
    assert cluster.merge(f"{WORKLOADS}/it", **wrong).code == 200


def job(**metadata: Any) -> Json:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": metadata, "spec": {"template": {"spec": pod}}}


def test_jobs_wait_in_the_queue_of_their_namespace_once_there_is_one(cluster: Cluster) -> None:
    free = cluster.create(JOBS, "Job", "batch/v1", **job(name="free"))
    assert (free.code, free.value["spec"]["suspend"]) == (201, False)
    queues = f"{API}/namespaces/default/localqueues"
    cluster.create(queues, "LocalQueue", metadata={"name": "default"}, spec={"clusterQueue": "cq"})
    held = cluster.create(JOBS, "Job", "batch/v1", **job(name="held"))
    assert (held.value["spec"]["suspend"], held.value["metadata"]["labels"][QUEUE_NAME]) == (True, "default")
    started = cluster.merge(f"{JOBS}/held", spec={"suspend": False})
    assert started.code == 200
    moved = cluster.merge(f"{JOBS}/held", metadata={"labels": {QUEUE_NAME: "other"}})
    path = f"metadata.labels[{QUEUE_NAME}]"
    assert moved.value["message"] == denied(
        "validate.jobs.headgate.dev", f'{path}: Invalid value: "other": field is immutable'
    )


def test_pods_are_gated_and_pods_of_one_shape_have_one_role(cluster: Cluster) -> None:
    def create(name: str, cpu: int) -> Json:
        container = {"name": "c", "image": f"i-{name}", "resources": {"requests": {"cpu": cpu}}}
        labels = {QUEUE_NAME: "q", "kueue.x-k8s.io/pod-group-name": "g"}
        annotations = {"kueue.x-k8s.io/pod-group-total-count": "3"}
        metadata = {"name": name, "labels": labels, "annotations": annotations}
        created = cluster.create(PODS, "Pod", "v1", metadata=metadata, spec={"containers": [container]})
        assert created.code == 201
        return created.value

    first, same, other = create("a", 1), create("b", 1), create("c", 2)
    assert first["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]
    assert first["metadata"]["finalizers"] == ["kueue.x-k8s.io/managed"]
    assert first["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"
    role, again, another = (one["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"] for one in (first, same, other))
    assert role == again != another


def test_a_pod_of_the_system_never_waits(cluster: Cluster) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    path = "/api/v1/namespaces/kube-system/pods"
    created = cluster.create(path, "Pod", "v1", metadata={"labels": {QUEUE_NAME: "q"}}, spec=spec)
    assert created.code == 201
    assert "schedulingGates" not in created.value["spec"]
