"""What is created on a worker cluster, and what of the original it does not have."""

import json

from fleet_builders import queued
from integration_scenes import job, pod

from headgate.api.decode import decode
from headgate.fleet.clones import job_clone, pod_clone, workload_clone
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import (
    JOB_UID,
    MULTIKUEUE,
    MULTIKUEUE_ORIGIN,
    OPENED_GATE,
    ORIGIN_UID,
    PREBUILT_WORKLOAD,
)
from headgate.model.queues import PriorityClassRef

WORKLOAD = Key(Kind.KUEUE_WORKLOAD, "default", "job-train-1a2b3")


def manifest_of(create):
    return json.loads(bytes(create.manifest))


def decoded(kind, manifest, **metadata):
    identity = {"namespace": "default", "uid": "u", "resourceVersion": "7", **metadata}
    manifest["metadata"].update(identity)
    return decode(kind, json.dumps(manifest).encode())


def test_a_workload_keeps_what_decides_about_it():
    home = queued(
        "job-train-1a2b3",
        priority=5,
        priority_class=PriorityClassRef("kueue.x-k8s.io", "WorkloadPriorityClass", "high"),
        labels={"team": "blue", JOB_UID: "u"},
        annotations={"note": "kept", OPENED_GATE: "a@1"},
        max_execution_seconds=60,
    )
    pod_sets = [{"name": "main", "count": 2, "template": {"spec": {"containers": []}}}]
    made = manifest_of(workload_clone(home, pod_sets, "origin-1", gated=True))
    assert made["metadata"] == {
        "name": "job-train-1a2b3",
        "namespace": "default",
        "labels": {"team": "blue", MULTIKUEUE_ORIGIN: "origin-1"},
        "annotations": {"note": "kept", ORIGIN_UID: "uid-job-train-1a2b3"},
    }
    assert made["spec"] == {
        "podSets": pod_sets,
        "queueName": "lq",
        "priority": 5,
        "maximumExecutionTimeSeconds": 60,
        "preemptionGates": [{"name": MULTIKUEUE}],
    }


def test_a_workload_has_no_gate_where_preemption_is_not_orchestrated():
    assert "preemptionGates" not in manifest_of(workload_clone(queued(), [], "o", gated=False))["spec"]


def test_a_job_is_suspended_and_run_by_whoever_runs_jobs_there():
    wanted = job("train", managedBy=MULTIKUEUE, backoffLimit=3, suspend=False, selector={"matchLabels": {"a": "b"}})
    wanted["spec"]["template"]["metadata"] = {
        "labels": {"app": "train", "controller-uid": "u", "batch.kubernetes.io/job-name": "train"}
    }
    home = decoded(Kind.JOB, wanted, labels={"team": "blue", "job-name": "train"})
    made = manifest_of(job_clone(home, WORKLOAD, "origin-1"))
    spec = made["spec"]
    assert made["metadata"]["labels"] == {
        "team": "blue",
        PREBUILT_WORKLOAD: "job-train-1a2b3",
        MULTIKUEUE_ORIGIN: "origin-1",
    }
    assert (spec["suspend"], spec["backoffLimit"], spec["parallelism"]) == (True, 3, 1)
    assert not {"managedBy", "selector", "manualSelector"} & set(spec)
    assert spec["template"]["metadata"]["labels"] == {"app": "train"}
    assert spec["template"]["spec"] == wanted["spec"]["template"]["spec"]


def test_only_jobs_that_run_elsewhere_keep_their_whole_spec():
    assert bytes(decoded(Kind.JOB, job("train")).spec) == b""
    assert b"parallelism" in bytes(decoded(Kind.JOB, job("train", managedBy=MULTIKUEUE)).spec)


def test_a_pod_is_gated_as_it_is_at_home_and_bound_nowhere():
    wanted = pod("p", nodeName="n", annotations={"note": "kept"})
    made = manifest_of(pod_clone(decoded(Kind.POD, wanted), WORKLOAD, "origin-1"))
    assert made["metadata"]["labels"][PREBUILT_WORKLOAD] == "job-train-1a2b3"
    assert made["metadata"]["annotations"] == {"note": "kept"}
    assert made["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]
    assert made["spec"]["containers"] == wanted["spec"]["containers"]
    assert "nodeName" not in made["spec"]
