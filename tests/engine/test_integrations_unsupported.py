"""What a job asks for that is not built is refused with a reason, never dropped, until it no longer asks for it."""

import pytest
from integration_scenes import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    PODS,
    WORKLOADS,
    Integrations,
    cluster_queue,
    job,
    local_queue,
    member,
    pod,
)

SETS = "/apis/apps/v1/namespaces/default/statefulsets"
REQUIRED, SLICE = "kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-slice-required-topology"
PREFERRED, FREE = "kueue.x-k8s.io/podset-preferred-topology", "kueue.x-k8s.io/podset-unconstrained-topology"
ELASTIC = "kueue.x-k8s.io/elastic-job"
RACK = {REQUIRED: "example.com/rack"}
CLAIMS = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}


def scene_with_quota(cpu=10):
    scene = Integrations(with_quota=True)
    scene.create(CLUSTER_QUEUES, cluster_queue(cpu))
    scene.create(LOCAL_QUEUES, local_queue())
    return scene.settle()


def annotated_job(on_pods, **fields):
    made = job(**fields)
    made["spec"]["template"]["metadata"] = {"annotations": on_pods}
    return made


def stateful_set(annotations):
    labels = {"app": "set"}
    template = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template, "serviceName": "s"}
    metadata = {"name": "set", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


def refusal(scene):
    (only,) = scene.get(WORKLOADS)["items"]
    shown = {one["type"]: one for one in only.get("status", {}).get("conditions", [])}
    return shown["QuotaReserved"]["reason"], shown["QuotaReserved"]["message"].partition(": ")[2]


def is_admitted(scene):
    return scene.conditions().get("Admitted") == ("True", "Admitted")


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    "path, manifests, asked",
    [
        pytest.param(
            JOBS,
            [annotated_job(RACK)],
            "topologyRequest of pod set main (required: example.com/rack)",
            id="a Job that requires a topology",
        ),
        pytest.param(
            JOBS,
            [annotated_job({PREFERRED: "example.com/rack", SLICE: "example.com/host"})],
            "topologyRequest of pod set main "
            "(podSetSliceRequiredTopology: example.com/host, preferred: example.com/rack)",
            id="a Job that prefers a topology",
        ),
        pytest.param(
            JOBS,
            [annotated_job({FREE: "true"})],
            "topologyRequest of pod set main (unconstrained: true)",
            id="a Job whose pods are counted by node",
        ),
        pytest.param(
            PODS,
            [pod(annotations=RACK)],
            "topologyRequest of pod set main (required: example.com/rack)",
            id="a pod that requires a topology",
        ),
        pytest.param(
            SETS,
            [stateful_set(RACK)],
            "topologyRequest of pod set main (required: example.com/rack)",
            id="a StatefulSet that requires a topology",
        ),
        pytest.param(JOBS, [job(template=CLAIMS)], "resourceClaims of pod set main (gpu)", id="a Job with claims"),
        pytest.param(PODS, [pod(**CLAIMS)], "resourceClaims of pod set main (gpu)", id="a pod with claims"),
        pytest.param(JOBS, [job(annotations={ELASTIC: "true"})], f"annotation {ELASTIC}", id="an elastic Job"),
    ],
)
def test_what_is_not_built_is_refused_with_a_condition_and_an_event(path, manifests, asked, restarts):
    scene = scene_with_quota()
    for each in manifests:
        scene.create(path, each)
    scene.settle()
    assert scene.events.count("Misconfigured") == 1
    if restarts:
        scene.restart()
        assert "Misconfigured" not in scene.settle().events
    assert refusal(scene) == ("Misconfigured", asked)
    assert scene.get(f"{CLUSTER_QUEUES}/cq").get("status", {}).get("reservingWorkloads", 0) == 0


def test_a_group_of_which_one_role_requires_a_topology_is_refused():
    scene = scene_with_quota()
    scene.create(PODS, member("a", cpu="1"))
    scene.create(PODS, member("b", cpu="2", annotations=RACK))
    reason, asked = refusal(scene.settle())
    assert (reason, asked.count("topologyRequest")) == ("Misconfigured", 1)


@pytest.mark.parametrize("value", ["false", ""])
def test_an_annotation_that_asks_for_nothing_refuses_nothing(value):
    scene = scene_with_quota()
    scene.create(JOBS, annotated_job({FREE: value, REQUIRED: ""}, annotations={ELASTIC: value}))
    assert is_admitted(scene.settle())


def test_a_level_too_long_to_be_one_is_refused_all_the_same():
    scene = scene_with_quota()
    scene.create(JOBS, annotated_job({REQUIRED: "x" * 5_000}))
    assert refusal(scene.settle())[0] == "Misconfigured"


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    "path, manifest, change",
    [
        pytest.param(
            f"{JOBS}/job",
            annotated_job(RACK),
            {"spec": {"template": {"metadata": {"annotations": {REQUIRED: None}}}}},
            id="a Job without its topology",
        ),
        pytest.param(
            f"{PODS}/pod",
            pod(annotations=RACK),
            {"metadata": {"annotations": {REQUIRED: None}}},
            id="a pod without its topology",
        ),
        pytest.param(
            f"{SETS}/set",
            stateful_set(RACK),
            {"spec": {"template": {"metadata": {"annotations": {REQUIRED: None}}}}},
            id="a StatefulSet without its topology",
        ),
        pytest.param(
            f"{JOBS}/job",
            job(annotations={ELASTIC: "true"}),
            {"metadata": {"annotations": {ELASTIC: None}}},
            id="a Job that is no longer elastic",
        ),
    ],
)
def test_what_no_longer_asks_for_it_is_admitted(path, manifest, change, restarts):
    scene = scene_with_quota()
    scene.create(path.rpartition("/")[0], manifest)
    scene.settle()
    scene.patch(path, **change)
    if restarts:
        scene.restart()
    assert is_admitted(scene.settle())


def test_a_group_whose_pods_no_longer_require_a_topology_is_admitted():
    scene = scene_with_quota()
    for name in "ab":
        scene.create(PODS, member(name, annotations=RACK))
    scene.settle()
    for name in "ab":
        scene.patch(f"{PODS}/{name}", metadata={"annotations": {REQUIRED: None}})
    assert is_admitted(scene.settle())


def test_a_job_that_waits_for_quota_and_asks_for_more_than_is_built_is_refused():
    scene = scene_with_quota(cpu=1)
    scene.create(JOBS, job(parallelism=1, name="first"))
    scene.settle()
    scene.create(JOBS, job(name="second"))
    scene.settle()
    scene.patch(f"{JOBS}/second", metadata={"annotations": {ELASTIC: "true"}})
    scene.settle()
    (waiting,) = [one for one in scene.get(WORKLOADS)["items"] if one["metadata"]["name"].startswith("job-second")]
    shown = {one["type"]: one["reason"] for one in waiting["status"]["conditions"]}
    assert shown["QuotaReserved"] == "Misconfigured"


def test_a_running_job_that_asks_for_it_later_goes_on():
    scene = scene_with_quota()
    scene.create(PODS, pod())
    assert is_admitted(scene.settle())
    scene.patch(f"{PODS}/pod", metadata={"annotations": RACK})
    assert is_admitted(scene.settle())
    assert scene.free("pod")


def test_a_prebuilt_workload_says_itself_which_topology_it_wants():
    scene = scene_with_quota()
    spec = {"containers": [{"name": "main", "image": "example.com/image:1", "resources": {"requests": {"cpu": "1"}}}]}
    pod_set = {
        "name": "main",
        "count": 1,
        "template": {"spec": {**spec, "restartPolicy": "Never"}},
        "topologyRequest": {"required": "example.com/rack"},
    }
    scene.create(WORKLOADS, {"metadata": {"name": "made"}, "spec": {"queueName": "lq", "podSets": [pod_set]}})
    scene.create(JOBS, job(labels={"kueue.x-k8s.io/prebuilt-workload-name": "made"}))
    scene.settle()
    assert "Finished" not in scene.conditions("made")
    assert refusal(scene)[0] == "Misconfigured"
