"""The exact request for every write."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from headgate.api.requests import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, Call, calls_for
from headgate.model.effects import (
    Bind,
    Create,
    Delete,
    EmitEvent,
    EventType,
    Evict,
    JobProgress,
    NodeReadiness,
    Nomination,
    PatchSpec,
    PatchStatus,
    PodCondition,
    PodRun,
    RemoveGate,
    Suspension,
    Unschedulability,
    WorkloadStatus,
)
from headgate.model.keys import Condition, Key, Kind, Target
from headgate.model.pod import Phase

POD = Target(Key(Kind.POD, "d", "a"), "u")
POD_AT_7 = Target(POD.key, "u", "7")
NODE = Target(Key(Kind.NODE, "", "n"), "node-u")
JOB = Target(Key(Kind.JOB, "d", "j"), "job-u")
WORKLOAD = Target(Key(Kind.WORKLOAD, "d", "w"), "w-u")
WORKLOAD_AT_7 = Target(WORKLOAD.key, "w-u", "7")
POD_PATH = "/api/v1/namespaces/d/pods/a"
JOB_PATH = "/apis/batch/v1/namespaces/d/jobs/j"
AT, TIME, EARLIER = 1767225600.25, "2026-01-01T00:00:00Z", "2025-12-31T23:59:00Z"


def asked(write):
    """Each request as (method, path, content type, decoded body)."""
    calls = calls_for(write, "headgate.dev/scheduler")
    assert all(call.query == {} for call in calls)
    return [(call.method, call.path, call.content_type, json.loads(call.body)) for call in calls]


def condition(type_, status, reason="", message=""):
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": TIME}


def container_status(state, *, runs):
    fixed = {"name": "c", "image": "i:1", "imageID": "", "restartCount": 0}
    return {**fixed, "ready": runs, "started": runs, "state": state}


@pytest.mark.parametrize(
    "target, precondition",
    [
        pytest.param(POD, {"uid": "u"}, id="of one incarnation"),
        pytest.param(POD_AT_7, {"uid": "u", "resourceVersion": "7"}, id="of one version"),
    ],
)
def test_bind(target, precondition):
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a", "namespace": "d", **precondition},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }
    assert asked(Bind(target, "n")) == [("POST", f"{POD_PATH}/binding", JSON, body)]


def test_a_gate_is_removed_only_from_where_it_stands():
    assert asked(RemoveGate(POD_AT_7, "example.com/gate", 2)) == [
        (
            "PATCH",
            POD_PATH,
            JSON_PATCH,
            [
                {"op": "test", "path": "/metadata/uid", "value": "u"},
                {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "test", "path": "/spec/schedulingGates/2/name", "value": "example.com/gate"},
                {"op": "remove", "path": "/spec/schedulingGates/2"},
            ],
        )
    ]


@pytest.mark.parametrize(
    "change, status",
    [
        pytest.param(
            PodCondition("PodScheduled", "False", "Unschedulable", "no room", AT),
            {"conditions": [condition("PodScheduled", "False", "Unschedulable", "no room")]},
            id="a condition that turned",
        ),
        pytest.param(
            PodCondition("PodScheduled", "False", "Unschedulable", "no room", None),
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
                ]
            },
            id="a condition that did not turn keeps its time",
        ),
        pytest.param(Nomination("n"), {"nominatedNodeName": "n"}, id="a nomination"),
        pytest.param(Nomination(""), {"nominatedNodeName": None}, id="a nomination taken back"),
        pytest.param(
            PodRun(Phase.RUNNING, AT),
            {
                "phase": "Running",
                "startTime": TIME,
                "conditions": [
                    condition("Initialized", "True"),
                    condition("ContainersReady", "True"),
                    condition("Ready", "True"),
                ],
            },
            id="a pod that runs",
        ),
        pytest.param(
            PodRun(Phase.SUCCEEDED, AT, exit_code=0),
            {
                "phase": "Succeeded",
                "message": "exit code 0",
                "conditions": [
                    condition("ContainersReady", "False", "PodCompleted"),
                    condition("Ready", "False", "PodCompleted"),
                ],
            },
            id="a pod that ended well",
        ),
        pytest.param(
            PodRun(Phase.FAILED, AT, "Error", 3),
            {
                "phase": "Failed",
                "reason": "Error",
                "message": "exit code 3",
                "conditions": [
                    condition("ContainersReady", "False", "PodFailed"),
                    condition("Ready", "False", "PodFailed"),
                ],
            },
            id="a pod that failed",
        ),
        pytest.param(
            PodRun(Phase.RUNNING, AT, containers=(("c", "i:1"),)),
            {
                "phase": "Running",
                "startTime": TIME,
                "conditions": [
                    condition("Initialized", "True"),
                    condition("ContainersReady", "True"),
                    condition("Ready", "True"),
                ],
                "containerStatuses": [container_status({"running": {"startedAt": TIME}}, runs=True)],
            },
            id="a pod whose containers run",
        ),
        pytest.param(
            PodRun(Phase.FAILED, AT, exit_code=3, containers=(("c", "i:1"),), started=AT - 60),
            {
                "phase": "Failed",
                "message": "exit code 3",
                "conditions": [
                    condition("ContainersReady", "False", "PodFailed"),
                    condition("Ready", "False", "PodFailed"),
                ],
                "containerStatuses": [
                    container_status(
                        {"terminated": {"exitCode": 3, "reason": "Error", "startedAt": EARLIER, "finishedAt": TIME}},
                        runs=False,
                    )
                ],
            },
            id="a pod whose containers failed",
        ),
        pytest.param(
            PodRun(Phase.PENDING, AT),
            {
                "phase": "Pending",
                "conditions": [
                    condition("ContainersReady", "False", "ContainersNotReady"),
                    condition("Ready", "False", "ContainersNotReady"),
                ],
            },
            id="a pod that is being started",
        ),
    ],
)
def test_pod_status(change, status):
    body = {"metadata": {"uid": "u", "resourceVersion": "7"}, "status": status}
    assert asked(PatchStatus(POD_AT_7, change)) == [("PATCH", f"{POD_PATH}/status", STRATEGIC_MERGE_PATCH, body)]


@pytest.mark.parametrize("ready, status", [(True, "True"), (False, "False")])
def test_node_status(ready, status):
    reported = {**condition("Ready", status, "KubeletReady", "fine"), "lastHeartbeatTime": TIME}
    body = {"metadata": {"uid": "node-u"}, "status": {"conditions": [reported]}}
    write = PatchStatus(NODE, NodeReadiness(ready, "KubeletReady", "fine", AT))
    assert asked(write) == [("PATCH", "/api/v1/nodes/n/status", STRATEGIC_MERGE_PATCH, body)]


def job_condition(type_, reason="", message=""):
    return {**condition(type_, "True", reason, message), "lastProbeTime": TIME}


@pytest.mark.parametrize(
    "progress, status",
    [
        pytest.param(
            JobProgress(2, 1, 3, 4, AT - 60, AT),
            {
                "active": 2,
                "ready": 1,
                "succeeded": 3,
                "failed": 4,
                "startTime": "2025-12-31T23:59:00Z",
                "conditions": [],
            },
            id="a job under way",
        ),
        pytest.param(
            JobProgress(0, 0, 0, 0, None, AT, "Suspended", "JobSuspended", "Job suspended"),
            {"startTime": None, "conditions": [job_condition("Suspended", "JobSuspended", "Job suspended")]},
            id="a suspended job has no start time",
        ),
        pytest.param(
            JobProgress(0, 0, 3, 0, AT - 60, AT, "Complete", "CompletionsReached", "done"),
            {
                "succeeded": 3,
                "startTime": "2025-12-31T23:59:00Z",
                "completionTime": TIME,
                "conditions": [
                    job_condition("SuccessCriteriaMet", "CompletionsReached", "done"),
                    job_condition("Complete", "CompletionsReached", "done"),
                ],
            },
            id="a complete job has met its criteria",
        ),
        pytest.param(
            JobProgress(0, 0, 0, 7, AT - 60, AT, "Failed", "BackoffLimitExceeded", "too many"),
            {
                "failed": 7,
                "startTime": "2025-12-31T23:59:00Z",
                "conditions": [
                    job_condition("FailureTarget", "BackoffLimitExceeded", "too many"),
                    job_condition("Failed", "BackoffLimitExceeded", "too many"),
                ],
            },
            id="a failed job was bound to fail and has no completion time",
        ),
        pytest.param(
            JobProgress(0, 0, 0, 0, None, AT, "Complete"),
            {
                "startTime": TIME,
                "completionTime": TIME,
                "conditions": [job_condition("SuccessCriteriaMet"), job_condition("Complete")],
            },
            id="a job that ended at once started then",
        ),
    ],
)
def test_job_status(progress, status):
    counts = {"active": 0, "ready": 0, "succeeded": 0, "failed": 0}
    body = {"metadata": {"uid": "job-u"}, "status": counts | status}
    assert asked(PatchStatus(JOB, progress)) == [("PATCH", f"{JOB_PATH}/status", MERGE_PATCH, body)]


@pytest.mark.parametrize(
    "target, precondition",
    [
        pytest.param(WORKLOAD, {"uid": "w-u"}, id="of one incarnation"),
        pytest.param(WORKLOAD_AT_7, {"uid": "w-u", "resourceVersion": "7"}, id="of one version"),
    ],
)
@pytest.mark.parametrize(
    "conditions, written",
    [
        pytest.param((), [], id="without conditions none is left"),
        pytest.param(
            (
                Condition("Scheduled", "True", "AllSeated", "", AT),
                Condition("PodsNotMatchingPriority", "False", "Same", "all of 1000", AT),
            ),
            [
                condition("Scheduled", "True", "AllSeated"),
                condition("PodsNotMatchingPriority", "False", "Same", "all of 1000"),
            ],
            id="with all its conditions in order",
        ),
    ],
)
def test_the_status_of_a_workload_is_written_whole(target, precondition, conditions, written):
    numbers = {"priority": 1000, "preemptionPriority": 2000}
    status = {**numbers, "preemptionPolicy": "Never", "conditions": written}
    body = {"metadata": precondition, "status": status}
    path = "/apis/scheduling.headgate.dev/v1alpha1/namespaces/d/workloads/w/status"
    write = PatchStatus(target, WorkloadStatus(1000, 2000, False, conditions))
    assert asked(write) == [("PATCH", path, MERGE_PATCH, body)]


@pytest.mark.parametrize("suspended", [True, False])
def test_suspension(suspended):
    body = {"metadata": {"uid": "job-u"}, "spec": {"suspend": suspended}}
    assert asked(PatchSpec(JOB, Suspension(suspended))) == [("PATCH", JOB_PATH, MERGE_PATCH, body)]


@pytest.mark.parametrize("unschedulable", [True, False])
def test_unschedulability(unschedulable):
    body = {"metadata": {"uid": "node-u"}, "spec": {"unschedulable": unschedulable}}
    assert asked(PatchSpec(NODE, Unschedulability(unschedulable))) == [("PATCH", "/api/v1/nodes/n", MERGE_PATCH, body)]


@pytest.mark.parametrize(
    "key, path",
    [
        pytest.param(POD.key, "/api/v1/namespaces/d/pods", id="in its namespace"),
        pytest.param(NODE.key, "/api/v1/nodes", id="cluster-wide"),
    ],
)
def test_create_sends_the_manifest_as_it_is(key, path):
    assert calls_for(Create(key, Raw(b'{"any": 1.0}')), "r") == (Call("POST", path, {}, JSON, b'{"any": 1.0}'),)


def deletion(**fields):
    return {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", **fields}


@pytest.mark.parametrize(
    "write, options",
    [
        pytest.param(Delete(POD), deletion(preconditions={"uid": "u"}), id="with its own grace period"),
        pytest.param(Delete(POD, 0), deletion(preconditions={"uid": "u"}, gracePeriodSeconds=0), id="at once"),
        pytest.param(
            Delete(POD_AT_7, 5),
            deletion(preconditions={"uid": "u", "resourceVersion": "7"}, gracePeriodSeconds=5),
            id="of one version",
        ),
    ],
)
def test_delete(write, options):
    assert asked(write) == [("DELETE", POD_PATH, JSON, options)]


def test_evict_says_why_and_then_deletes_whatever_version_that_made():
    reason = condition("DisruptionTarget", "True", "PreemptionByScheduler", "for b")
    body = {"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {"conditions": [reason]}}
    assert asked(Evict(POD_AT_7, "PreemptionByScheduler", "for b", AT)) == [
        ("PATCH", f"{POD_PATH}/status", STRATEGIC_MERGE_PATCH, body),
        ("DELETE", POD_PATH, JSON, deletion(preconditions={"uid": "u"})),
    ]


def emit(target=POD, message="bound to n", at=AT):
    return EmitEvent(target, EventType.NORMAL, "Scheduled", "Binding", message, at)


def event(write):
    ((_, _, _, body),) = asked(write)
    return body


def test_an_event():
    ((method, path, content_type, body),) = asked(emit())
    assert (method, path, content_type) == ("POST", "/apis/events.k8s.io/v1/namespaces/d/events", JSON)
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": body["metadata"]["name"], "namespace": "d"},
        "eventTime": "2026-01-01T00:00:00.250000Z",
        "reportingController": "headgate.dev/scheduler",
        "reportingInstance": "headgate.dev/scheduler",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "bound to n",
        "regarding": {"kind": "Pod", "apiVersion": "v1", "namespace": "d", "name": "a", "uid": "u"},
    }


def test_an_event_about_a_node_is_kept_in_default():
    ((_, path, _, body),) = asked(emit(NODE))
    assert path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert body["metadata"]["namespace"] == "default"
    assert body["regarding"] == {"kind": "Node", "apiVersion": "v1", "name": "n", "uid": "node-u"}


def test_one_event_has_one_name_in_every_process():
    assert event(emit())["metadata"]["name"] == "a.80b13a28923b6f87"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(emit(message="another"), id="another message"),
        pytest.param(emit(at=AT + 1), id="another time"),
        pytest.param(emit(Target(POD.key, "v")), id="another incarnation"),
    ],
)
def test_another_event_has_another_name(other):
    assert event(other)["metadata"]["name"] != event(emit())["metadata"]["name"]


def test_the_name_of_an_event_stays_a_name_however_long_the_object_is_called():
    name = event(emit(Target(Key(Kind.POD, "d", "a" * 235 + "-b" * 9), "u")))["metadata"]["name"]
    assert len(name) <= 253
    assert name.startswith("a" * 235 + ".")


def test_a_long_note_is_cut_between_characters():
    note = event(emit(message="é" * 600))["note"]
    assert note == "é" * 512
    assert event(emit(message="x" + "é" * 600))["note"] == "x" + "é" * 511
