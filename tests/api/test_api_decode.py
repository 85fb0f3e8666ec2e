"""Objects, lists and watch lines from bytes."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from headgate.api.decode import Identity, MalformedAnswer, decode, decode_list, decode_watch, identity
from headgate.api.wire import InvalidObject
from headgate.model.keys import Key, Kind, Target
from headgate.model.node import Node, NodeTerm, PreferredTerm, Taint, TaintEffect, Toleration
from headgate.model.objects import DisruptionBudget, Job, Namespace, PriorityClass
from headgate.model.pod import Phase, Pod, PodShape, ScheduledCondition
from headgate.model.resources import Resources
from headgate.model.selectors import Operator, Requirement

NEW_YEAR = 1767225600.0
NOW = "2026-01-01T00:00:00Z"


def raw(**manifest):
    return json.dumps(manifest).encode()


def metadata(**fields):
    return {"name": "a", "namespace": "d", "uid": "u", "resourceVersion": "7", "creationTimestamp": NOW, **fields}


def pod(spec=None, status=None, **meta) -> Pod:
    spec = {"containers": [{"name": "c"}], **(spec or {})}
    return decode(Kind.POD, raw(metadata=metadata(**meta), spec=spec, status=status or {}))


FULL_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": metadata(
        labels={"app": "x"},
        annotations={"headgate.dev/run-seconds": "5"},
        deletionTimestamp="2026-01-01T00:00:30Z",
        deletionGracePeriodSeconds=10,
        ownerReferences=[
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": "m-uid"},
            {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j-uid", "controller": True},
        ],
        managedFields=[{"manager": "kubelet"}],
    ),
    "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Ki"}}}],
        "nodeName": "n-1",
        "nodeSelector": {"zone": "b", "pool": "x"},
        "affinity": {
            "podAntiAffinity": {"ignored": True},
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h100", "a100"]}],
                            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n-9"]}],
                        },
                        {},
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}
                ],
            },
        },
        "tolerations": [
            {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
            {"operator": "Exists", "tolerationSeconds": 60},
            {"key": "level", "operator": "Gt", "value": "5"},
        ],
        "schedulerName": "headgate",
        "schedulingGates": [{"name": "a.example/first"}, {"name": "b.example/second"}],
        "priority": 1000,
        "preemptionPolicy": "Never",
        "terminationGracePeriodSeconds": 40,
    },
    "status": {
        "phase": "Running",
        "nominatedNodeName": "n-2",
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "waits"},
        ],
    },
}


def test_a_pod_with_everything():
    requests = Resources.of({"cpu": 1000, "memory": 1024})
    assert decode(Kind.POD, json.dumps(FULL_POD).encode()) == Pod(
        key=Key(Kind.POD, "d", "a"),
        uid="u",
        version="7",
        labels={"app": "x"},
        annotations={"headgate.dev/run-seconds": "5"},
        shape=PodShape(
            requests=requests,
            scored_requests=requests,
            node_selector=(("pool", "x"), ("zone", "b")),
            required_terms=(
                NodeTerm(
                    (Requirement("gpu", Operator.IN, ("a100", "h100")),),
                    (Requirement("metadata.name", Operator.NOT_IN, ("n-9",)),),
                ),
                NodeTerm(),
            ),
            preferred_terms=(PreferredTerm(5, NodeTerm((Requirement("ssd", Operator.EXISTS),))),),
            tolerations=(
                Toleration("gpu", value="yes", effect=TaintEffect.NO_SCHEDULE),
                Toleration(exists=True, seconds=60),
            ),
            images=("i:latest",),
        ),
        created=NEW_YEAR,
        scheduler_name="headgate",
        priority=1000,
        preempts=False,
        gates=("a.example/first", "b.example/second"),
        node="n-1",
        phase=Phase.RUNNING,
        deleted=NEW_YEAR + 30,
        grace=10,
        owner=Target(Key(Kind.JOB, "d", "j"), "j-uid"),
        scheduled=ScheduledCondition("False", "SchedulingGated", "waits"),
        nominated="n-2",
        containers=("c",),
    )


def test_a_pod_with_the_least():
    found = decode(Kind.POD, b'{"metadata": {"name": "a"}, "spec": {"containers": []}}')
    assert found == Pod(Key(Kind.POD, "", "a"), "", "", {}, {}, PodShape(), 0.0)


@pytest.mark.parametrize(
    "found, grace",
    [
        pytest.param(pod(), 30, id="thirty seconds where nothing is said"),
        pytest.param(pod({"terminationGracePeriodSeconds": 0}), 0, id="what the pod says"),
        pytest.param(
            pod({"terminationGracePeriodSeconds": 9}, deletionGracePeriodSeconds=0), 0, id="what its deletion says"
        ),
    ],
)
def test_grace(found, grace):
    assert found.grace == grace


def owned(**reference):
    return pod(ownerReferences=[{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "x"} | reference]).owner


@pytest.mark.parametrize(
    "owner, wanted",
    [
        pytest.param(owned(controller=True), Target(Key(Kind.JOB, "d", "j"), "x"), id="the Job that controls it"),
        pytest.param(owned(), None, id="an owner that does not control is none"),
        pytest.param(owned(controller=True, kind="ReplicaSet"), None, id="a kind we do not know is none"),
        pytest.param(owned(controller=True, apiVersion="example.com/v1"), None, id="somebody else's Job is none"),
    ],
)
def test_owner(owner, wanted):
    assert owner == wanted


def test_a_demand_without_terms_is_kept_apart_from_no_demand():
    none_match = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    assert pod({"affinity": none_match}).shape.required_terms == ()
    assert pod({"affinity": {"nodeAffinity": {}}}).shape.required_terms is None


def test_null_is_as_good_as_nothing():
    nulls = dict.fromkeys(("nodeSelector", "affinity", "tolerations", "schedulingGates", "priority", "initContainers"))
    nulls["topologySpreadConstraints"] = None
    assert pod(nulls, labels=None, annotations=None, deletionTimestamp=None) == pod()


def test_pods_of_one_template_share_their_shape_wherever_they_are_bound():
    assert pod({"nodeName": "n-1"}, name="x").shape is pod({"nodeName": "n-2"}, name="y").shape


def test_raw_decodes_like_bytes():
    encoded = json.dumps(FULL_POD).encode()
    assert decode(Kind.POD, Raw(encoded)) == decode(Kind.POD, encoded)
    assert identity(Kind.POD, Raw(encoded)) == identity(Kind.POD, encoded)


def test_a_node():
    found = decode(
        Kind.NODE,
        raw(
            metadata=metadata(namespace="", labels={"zone": "a"}, annotations={"k": "v"}),
            spec={"unschedulable": True, "taints": [{"key": "gpu", "effect": "NoExecute", "timeAdded": NOW}]},
            status={
                "capacity": {"cpu": "8"},
                "allocatable": {"cpu": "7500m", "memory": "1Gi", "pods": "110", "example.com/gpu": "0"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "images": [{"names": ["i@sha256:1", "i:1"], "sizeBytes": 5}, {"names": None, "sizeBytes": 9}],
            },
        ),
    )
    assert found == Node(
        key=Key(Kind.NODE, "", "a"),
        uid="u",
        version="7",
        labels={"zone": "a"},
        annotations={"k": "v"},
        allocatable=Resources.of({"cpu": 7500, "memory": 2**30, "pods": 110, "example.com/gpu": 0}),
        taints=(Taint("gpu", "", TaintEffect.NO_EXECUTE),),
        unschedulable=True,
        ready=True,
        images={"i@sha256:1": 5, "i:1": 5},
    )


@pytest.mark.parametrize(
    "status, ready",
    [
        pytest.param({}, False, id="a node nobody reported on is not ready"),
        pytest.param({"conditions": [{"type": "Ready", "status": "Unknown"}]}, False, id="nor is one not heard from"),
        pytest.param({"conditions": [{"type": "Ready", "status": "True"}]}, True, id="only one that says so is"),
    ],
)
def test_node_readiness(status, ready):
    assert decode(Kind.NODE, raw(metadata=metadata(), status=status)).ready is ready


def test_a_node_that_does_not_say_offers_its_capacity():
    found = decode(Kind.NODE, raw(metadata=metadata(), status={"capacity": {"cpu": "8"}}))
    assert found.allocatable == Resources.of({"cpu": 8000})


def test_a_job():
    template = '{"spec": {"containers": [], "unknown": 1.50}}'
    text = json.dumps(
        {
            "metadata": metadata(labels={"l": "1"}, annotations={"a": "1"}, deletionTimestamp=NOW),
            "spec": {"template": "HERE", "parallelism": 0, "completions": 3, "suspend": True, "backoffLimit": 0}
            | {"managedBy": "example.com/x"},
            "status": {
                "succeeded": 1,
                "failed": 2,
                "startTime": NOW,
                "conditions": [{"type": "Complete", "status": "False"}, {"type": "Failed", "status": "True"}],
            },
        }
    )
    found = decode(Kind.JOB, text.replace('"HERE"', template).encode())
    assert found == Job(
        key=Key(Kind.JOB, "d", "a"),
        uid="u",
        version="7",
        labels={"l": "1"},
        annotations={"a": "1"},
        template=Raw(template.encode()),
        created=NEW_YEAR,
        parallelism=0,
        completions=3,
        suspended=True,
        backoff_limit=0,
        managed_by="example.com/x",
        succeeded=1,
        failed=2,
        started=NEW_YEAR,
        ended="Failed",
        deleted=NEW_YEAR,
    )


def test_a_job_with_the_least():
    found = decode(Kind.JOB, raw(metadata={"name": "a", "namespace": "d"}, spec={"template": {}}))
    assert found == Job(Key(Kind.JOB, "d", "a"), "", "", {}, {}, Raw(b"{}"), 0.0)


@pytest.mark.parametrize(
    "conditions, ended",
    [
        pytest.param([("Suspended", "True")], "", id="a suspended job has not ended"),
        pytest.param([("SuccessCriteriaMet", "True"), ("Complete", "True")], "Complete", id="a complete one has"),
        pytest.param([("FailureTarget", "True")], "", id="one bound to fail has not yet"),
    ],
)
def test_when_a_job_has_ended(conditions, ended):
    status = {"conditions": [{"type": type_, "status": status} for type_, status in conditions]}
    assert decode(Kind.JOB, raw(metadata=metadata(), spec={"template": {}}, status=status)).ended == ended


def test_a_namespace():
    found = decode(Kind.NAMESPACE, raw(metadata=metadata(namespace="", labels={"team": "x"}, deletionTimestamp=NOW)))
    assert found == Namespace(Key(Kind.NAMESPACE, "", "a"), "u", "7", {"team": "x"}, NEW_YEAR)


@pytest.mark.parametrize(
    "fields, is_default, preempts",
    [
        pytest.param({}, False, True, id="an ordinary class preempts"),
        pytest.param({"globalDefault": True, "preemptionPolicy": "Never"}, True, False, id="one that does not"),
    ],
)
def test_a_priority_class(fields, is_default, preempts):
    found = decode(Kind.PRIORITY_CLASS, raw(metadata=metadata(namespace=""), value=-10, **fields))
    assert found == PriorityClass(Key(Kind.PRIORITY_CLASS, "", "a"), "u", "7", -10, is_default, preempts)


@pytest.mark.parametrize(
    "spec, selector",
    [
        pytest.param({}, None, id="without a selector it selects nothing"),
        pytest.param({"selector": {}}, (), id="with an empty one everything"),
        pytest.param(
            {"selector": {"matchLabels": {"app": "x"}}},
            (Requirement("app", Operator.IN, ("x",)),),
            id="else what it says",
        ),
    ],
)
def test_a_disruption_budget(spec, selector):
    status = {"disruptionsAllowed": 2, "disruptedPods": {"gone-1": NOW}}
    found = decode(Kind.DISRUPTION_BUDGET, raw(metadata=metadata(), spec=spec, status=status))
    key = Key(Kind.DISRUPTION_BUDGET, "d", "a")
    assert found == DisruptionBudget(key, "u", "7", selector, 2, frozenset({"gone-1"}))


def test_identity_reads_only_who_it_is():
    found = identity(Kind.POD, raw(metadata=metadata(), spec="of no interest"))
    assert found == Identity(Key(Kind.POD, "d", "a"), "u", "7")


def test_identity_of_a_bookmark_is_its_version():
    assert identity(Kind.POD, raw(metadata={"resourceVersion": "9"})).version == "9"


def test_identity_refuses_what_has_no_metadata():
    with pytest.raises(InvalidObject, match="pods: \\$: Object missing required field metadata"):
        identity(Kind.POD, b"{}")


def test_a_list_keeps_its_items_encoded():
    page = decode_list(b'{"kind":"PodList","metadata":{"resourceVersion":"5","continue":"t"},"items":[{"a": 1},{}]}')
    assert ([bytes(item) for item in page.items], page.version, page.continuation) == ([b'{"a": 1}', b"{}"], "5", "t")


def test_a_list_of_nothing():
    page = decode_list(b'{"metadata":{"resourceVersion":"5"},"items":null}')
    assert (page.items, page.version, page.continuation) == ([], "5", "")


def test_a_watch_line_keeps_its_object_encoded():
    line = decode_watch(b'{"type":"ADDED","object":{"metadata": {}}}\n')
    assert (line.type, bytes(line.object)) == ("ADDED", b'{"metadata": {}}')


@pytest.mark.parametrize(
    "read, sent, error",
    [
        pytest.param(decode_list, b"[]", "not a list: Expected `object`, got `array`", id="an array"),
        pytest.param(decode_list, b"<html>", "not a list: JSON is malformed: invalid character (byte 0)", id="a page"),
        pytest.param(
            decode_watch, b"{}", "not a watch event: Object missing required field `type`", id="an empty line"
        ),
    ],
)
def test_malformed_answers(read, sent, error):
    with pytest.raises(MalformedAnswer) as refused:
        read(sent)
    assert str(refused.value) == error
