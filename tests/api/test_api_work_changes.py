"""What quota reads of Jobs and of the pods it holds back, and how it starts and stops them."""

import json

import pytest
from msgspec import Raw

from headgate.api.decode import decode
from headgate.api.requests import calls_for
from headgate.api.wire import InvalidObject
from headgate.model.effects import (
    Directives,
    JobRestore,
    JobStart,
    JobStop,
    Owners,
    PatchSpec,
    PodStart,
    WorkloadRewrite,
)
from headgate.model.keys import Key, Kind, Target
from headgate.model.node import TaintEffect, Toleration
from headgate.model.pod import HeldPod, PodShape, PodTemplate
from headgate.model.resources import ContainerNeeds, Resources, TemplateNeeds

JOB = Target(Key(Kind.JOB, "d", "j"), "u", "7")
POD = Target(Key(Kind.POD, "d", "p"), "u")
SPOT = Toleration("spot", exists=True, effect=TaintEffect.NO_SCHEDULE, seconds=5)


def read(kind, **manifest):
    return decode(kind, json.dumps({"metadata": {"name": "a", "namespace": "d"}, **manifest}).encode())


def body(target, change):
    (call,) = calls_for(PatchSpec(target, change), "example.com/us")
    return call.content_type.split("+")[0].removeprefix("application/"), json.loads(call.body)


def test_what_a_job_says_of_its_pods():
    container = {"name": "c", "resources": {"limits": {"cpu": "2"}}}
    spec = {"containers": [container], "nodeSelector": {"a": "b"}, "priorityClassName": "high"}
    found = read(Kind.JOB, spec={"template": {"metadata": {"labels": {"l": "1"}}, "spec": spec}})
    cpu = Resources.of({"cpu": 2000})
    needs = TemplateNeeds((ContainerNeeds(limits=cpu),))
    assert found.pods == PodTemplate(PodShape(cpu, cpu, node_selector=(("a", "b"),)), {"l": "1"}, {}, "high", needs)


def test_a_template_that_cannot_be_read_is_named():
    container = {"name": "c", "resources": {"requests": {"cpu": "much"}}}
    with pytest.raises(InvalidObject, match=r"spec\.template\.spec\.containers\[0\]"):
        read(Kind.JOB, spec={"template": {"spec": {"containers": [container]}}})


def test_how_far_a_job_is():
    conditions = [{"type": "Suspended", "status": "True"}, {"type": "Failed", "status": "True", "message": "why"}]
    status = {"active": 1, "ready": 2, "terminating": 3, "uncountedTerminatedPods": {"succeeded": ["x", "y"]}}
    found = read(Kind.JOB, spec={"template": {}}, status={**status, "conditions": conditions})
    assert (found.active, found.ready, found.terminating, found.uncounted_succeeded) == (1, 2, 3, 2)
    assert (found.suspension_shown, found.ended, found.ended_message) == (True, "Failed", "why")


@pytest.mark.parametrize("labels, is_held", [({"kueue.x-k8s.io/managed": "true"}, True), ({}, False)])
def test_more_is_read_of_pods_that_are_held_back_and_of_no_others(labels, is_held):
    metadata = {"name": "a", "namespace": "d", "labels": labels, "finalizers": ["f"]}
    conditions = [
        {"type": "Ready", "status": "True"},
        {
            "type": "ContainersReady",
            "status": "False",
            "reason": "PodFailed",
            "lastTransitionTime": "1970-01-01T00:00:09Z",
        },
    ]
    spec = {"containers": [], "priorityClassName": "high"}
    found = decode(
        Kind.POD,
        json.dumps({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}).encode(),
    ).held
    assert (found is not None) is is_held
    if isinstance(found, HeldPod):
        assert json.loads(bytes(found.spec)) == spec
        assert (found.finalizers, found.priority_class, found.ready, found.failed_at) == (("f",), "high", True, 9.0)


def test_the_pods_of_a_group_own_its_workload_together():
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"u-{name}"} for name in "ab"]
    metadata = {"name": "g", "namespace": "d", "ownerReferences": owners}
    template = {"spec": {"containers": []}}
    found = decode(
        Kind.KUEUE_WORKLOAD, json.dumps({"metadata": metadata, "spec": {"podSets": [{"template": template}]}}).encode()
    )
    assert [owner.key.name for owner in found.owners] == ["a", "b"]
    assert found.owner == found.owners[0]
    assert not found.is_controlled


def test_a_job_is_started_with_all_it_needs_at_once():
    change = JobStart(Directives({"a": "b"}, (SPOT,), {"l": "1"}, {"n": "2"}), 3, 4)
    toleration = {"key": "spot", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}
    template = {
        "metadata": {"labels": {"l": "1"}, "annotations": {"n": "2"}},
        "spec": {"nodeSelector": {"a": "b"}, "tolerations": [toleration]},
    }
    spec = {"suspend": False, "parallelism": 3, "completions": 4, "template": template}
    assert body(JOB, change) == ("merge-patch", {"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": spec})


def test_what_a_job_has_is_left_as_it_is_where_nothing_is_said():
    _, patch = body(JOB, JobStart(Directives()))
    assert patch["spec"] == {"suspend": False, "template": {"metadata": {}, "spec": {}}}


def test_a_job_is_stopped_and_marked_and_the_mark_goes_when_it_was_put_back():
    _, stopped = body(JOB, JobStop())
    assert stopped["spec"] == {"suspend": True}
    assert stopped["metadata"]["annotations"] == {"kueue.x-k8s.io/stopping": "true"}
    _, restored = body(JOB, JobRestore(Directives({"a": None}, (), {"l": None}), 5))
    assert restored["metadata"]["annotations"] == {"kueue.x-k8s.io/stopping": None}
    template = {"metadata": {"labels": {"l": None}}, "spec": {"nodeSelector": {"a": None}, "tolerations": []}}
    assert restored["spec"] == {"parallelism": 5, "template": template}


def test_a_pod_is_started_by_a_patch_that_makes_sure_of_its_gates():
    change = PodStart(Directives({"a": "b"}, (Toleration("x", value="y"),), {"k/l": "1"}), ((0, "g"), (2, "h")))
    kind, steps = body(POD, change)
    assert kind == "json-patch"
    assert steps == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": "g"},
        {"op": "test", "path": "/spec/schedulingGates/2/name", "value": "h"},
        {"op": "add", "path": "/metadata/labels/k~1l", "value": "1"},
        {"op": "add", "path": "/spec/nodeSelector", "value": {}},
        {"op": "add", "path": "/spec/nodeSelector/a", "value": "b"},
        {"op": "add", "path": "/spec/tolerations", "value": []},
        {"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Equal", "key": "x", "value": "y"}},
        {"op": "remove", "path": "/spec/schedulingGates/2"},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]


def test_what_a_pod_has_is_added_to():
    change = PodStart(Directives({"a": "b"}, (SPOT,), {}, {"n": "1"}), ((0, "g"),), True, True, True)
    paths = [step["path"] for step in body(POD, change)[1] if step["op"] == "add"]
    assert paths == ["/metadata/annotations/n", "/spec/nodeSelector/a", "/spec/tolerations/-"]


def test_a_workload_gets_a_new_spec_or_new_owners():
    workload = Target(Key(Kind.KUEUE_WORKLOAD, "d", "w"), "u", "7")
    assert body(workload, WorkloadRewrite(Raw(b'{"priority":5}')))[1]["spec"] == {"priority": 5}
    _, patch = body(workload, Owners((POD, JOB), JOB))
    assert patch["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"},
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "j",
            "uid": "u",
            "controller": True,
            "blockOwnerDeletion": True,
        },
    ]
