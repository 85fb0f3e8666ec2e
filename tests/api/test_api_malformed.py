"""Malformed objects: each is named with its field and what was expected there."""

from __future__ import annotations

import json

import pytest

from headgate.api.decode import decode
from headgate.api.wire import InvalidObject
from headgate.model.keys import Key, Kind

META = {"name": "a", "namespace": "d"}
SHAPE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def pod(**spec):
    return {"metadata": META, "spec": {"containers": [], **spec}}


def container(**requests):
    return {"name": "c", "resources": {"requests": requests}}


def affinity(**expression):
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    "kind, manifest, path, expected",
    [
        pytest.param(Kind.POD, {"metadata": META}, "$", "Object missing required field spec", id="a pod without spec"),
        pytest.param(
            Kind.POD,
            {"metadata": META, "spec": {}},
            "$.spec",
            "Object missing required field containers",
            id="a pod without containers",
        ),
        pytest.param(
            Kind.POD, pod(priority="high"), "$.spec.priority", "Expected int | null, got str", id="a priority in words"
        ),
        pytest.param(
            Kind.POD,
            pod(schedulingGates=[{"name": "x"}, {}]),
            "$.spec.schedulingGates[1]",
            "Object missing required field name",
            id="a gate without a name",
        ),
        pytest.param(
            Kind.POD,
            pod(containers=[container(cpu="1"), container(cpu="1x")]),
            "$.spec.containers[1].resources.requests.cpu",
            f"'1x' is not a quantity: {SHAPE}",
            id="a request that is no quantity",
        ),
        pytest.param(
            Kind.POD,
            pod(initContainers=[container(memory="1K")]),
            "$.spec.initContainers[0].resources.requests.memory",
            "'1K' is not a quantity: unable to parse quantity's suffix",
            id="a request with a wrong suffix",
        ),
        pytest.param(
            Kind.POD,
            pod(overhead={"cpu": ""}),
            "$.spec.overhead.cpu",
            f"'' is not a quantity: {SHAPE}",
            id="an overhead of nothing",
        ),
        pytest.param(
            Kind.POD,
            pod(resources={"requests": {"cpu": "."}}),
            "$.spec.resources.requests.cpu",
            "'.' is not a quantity: unable to parse numeric part of quantity",
            id="a pod-level request of a point",
        ),
        pytest.param(
            Kind.POD,
            pod(containers=[container(cpu=True)]),
            "$.spec.containers[0].resources.requests[...]",
            "Expected int | float | str, got bool",
            id="a request that is true",
        ),
        pytest.param(
            Kind.POD,
            pod(affinity=affinity(key="a", operator="Near")),
            "$.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ".nodeSelectorTerms[0].matchExpressions[0].operator",
            "Invalid enum value 'Near'",
            id="an operator nobody knows",
        ),
        pytest.param(
            Kind.POD,
            pod(tolerations=[{"key": "a", "effect": "Never"}]),
            "$.spec.tolerations[0].effect",
            "expected NoSchedule, PreferNoSchedule, NoExecute or nothing, found 'Never'",
            id="an effect nobody knows",
        ),
        pytest.param(
            Kind.POD,
            {**pod(), "status": {"phase": "Sleeping"}},
            "$.status.phase",
            "expected one of Pending, Running, Succeeded, Failed, Unknown, found 'Sleeping'",
            id="a phase nobody knows",
        ),
        pytest.param(
            Kind.POD,
            {**pod(), "metadata": {**META, "creationTimestamp": "yesterday"}},
            "$.metadata.creationTimestamp",
            "expected an RFC 3339 time such as 2026-01-31T12:00:00Z, found 'yesterday'",
            id="a time in words",
        ),
        pytest.param(
            Kind.POD,
            {**pod(), "metadata": {**META, "deletionTimestamp": "soon"}},
            "$.metadata.deletionTimestamp",
            "expected an RFC 3339 time such as 2026-01-31T12:00:00Z, found 'soon'",
            id="a deletion in words",
        ),
        pytest.param(
            Kind.POD,
            {**pod(), "metadata": {**META, "labels": {"a": 1}}},
            "$.metadata.labels[...]",
            "Expected str, got int",
            id="a label that is a number",
        ),
        pytest.param(
            Kind.NODE,
            {"metadata": META, "status": {"allocatable": {"memory": "lots"}}},
            "$.status.allocatable.memory",
            f"'lots' is not a quantity: {SHAPE}",
            id="a node with lots of memory",
        ),
        pytest.param(
            Kind.NODE,
            {"metadata": META, "status": {"capacity": {"cpu": "two"}}},
            "$.status.capacity.cpu",
            f"'two' is not a quantity: {SHAPE}",
            id="a node with two cpus in words",
        ),
        pytest.param(
            Kind.NODE,
            {"metadata": META, "spec": {"taints": [{"key": "a", "effect": "Sometimes"}]}},
            "$.spec.taints[0].effect",
            "Invalid enum value 'Sometimes'",
            id="a taint with an effect nobody knows",
        ),
        pytest.param(
            Kind.JOB,
            {"metadata": META, "spec": {}},
            "$.spec",
            "Object missing required field template",
            id="a job without template",
        ),
        pytest.param(
            Kind.JOB,
            {"metadata": META, "spec": {"template": {}}, "status": {"startTime": "now"}},
            "$.status.startTime",
            "expected an RFC 3339 time such as 2026-01-31T12:00:00Z, found 'now'",
            id="a job started in words",
        ),
        pytest.param(
            Kind.PRIORITY_CLASS,
            {"metadata": META},
            "$",
            "Object missing required field value",
            id="a priority class without value",
        ),
        pytest.param(
            Kind.DISRUPTION_BUDGET,
            {"metadata": META, "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}},
            "$.spec.selector",
            "matchExpressions[0].values: must be specified when `operator` is 'In' or 'NotIn'",
            id="a budget that selects by nothing",
        ),
    ],
)
def test_malformed(kind, manifest, path, expected):
    with pytest.raises(InvalidObject) as refused:
        decode(kind, json.dumps(manifest).encode())
    key = Key(kind, "d", "a")
    assert (refused.value.kind, refused.value.key) == (kind, key)
    assert (refused.value.path, refused.value.expected) == (path, expected)
    assert str(refused.value) == f"{key}: {path}: {expected}"


@pytest.mark.parametrize(
    "sent, error",
    [
        pytest.param(b"", "pods: $: Input data was truncated", id="nothing at all"),
        pytest.param(b"{no", "pods: $: JSON is malformed: object keys must be strings (byte 1)", id="no JSON"),
        pytest.param(b"[]", "pods: $: Expected object, got array", id="a list"),
        pytest.param(b'{"metadata": {}}', "pods: $.metadata: Object missing required field name", id="no name"),
        pytest.param(
            b'{"metadata": {"name": 5}}', "pods: $.metadata.name: Expected str, got int", id="a number for a name"
        ),
    ],
)
def test_malformed_beyond_its_name(sent, error):
    with pytest.raises(InvalidObject) as refused:
        decode(Kind.POD, sent)
    assert (str(refused.value), refused.value.key) == (error, None)
