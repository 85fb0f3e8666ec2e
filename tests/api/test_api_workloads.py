"""Workloads from the wire: our own, and the PodGroups of Kubernetes and of Volcano."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from headgate.api.decode import decode
from headgate.api.wire import InvalidObject
from headgate.model.keys import Condition, Key, Kind
from headgate.model.pod import Gang, PodGroup, PreemptionMode, Workload

NOW, NEW_YEAR = "2026-01-01T00:00:00Z", 1767225600.0
META = {"name": "w", "namespace": "d", "uid": "u", "resourceVersion": "7", "creationTimestamp": NOW}
ALONE, WHOLE = PreemptionMode.POD, PreemptionMode.POD_GROUP
RACK = {"topology": [{"key": "example.com/rack"}]}


def read(kind: Kind, spec: object, **rest: object) -> Workload:
    found = decode(kind, json.dumps({"metadata": META, "spec": spec, **rest}).encode())
    assert isinstance(found, Workload)
    return found


def test_a_workload_with_everything():
    gang = {"name": "workers", "policy": {"gang": {"minCount": 4, "preemptionMode": "PodGroup"}}}
    scheduled = {"type": "Scheduled", "status": "True", "reason": "AllSeated", "message": "4 of 4"}
    spec = {
        "priorityClassName": "high",
        "preemptionPriorityClassName": "shielded",
        "podGroups": [{**gang, "schedulingConstraints": RACK}, {"name": "driver", "policy": {"basic": {}}}],
    }
    status = {
        "priority": 1000,
        "preemptionPriority": 2000,
        "preemptionPolicy": "Never",
        "conditions": [{**scheduled, "lastTransitionTime": NOW}, {"type": "Other", "status": "False"}],
    }
    found = decode(
        Kind.WORKLOAD,
        json.dumps({"metadata": {**META, "deletionTimestamp": NOW}, "spec": spec, "status": status}).encode(),
    )
    assert found == Workload(
        key=Key(Kind.WORKLOAD, "d", "w"),
        uid="u",
        version="7",
        created=NEW_YEAR,
        groups=(PodGroup("workers", Gang(4, WHOLE), "example.com/rack"), PodGroup("driver")),
        priority_class="high",
        preemption_priority_class="shielded",
        priority=1000,
        preemption_priority=2000,
        preempts=False,
        conditions=(
            Condition("Scheduled", "True", "AllSeated", "4 of 4", NEW_YEAR),
            Condition("Other", "False", "", "", 0.0),
        ),
        deleted=NEW_YEAR,
    )


def test_a_workload_that_says_little():
    bare = Workload(Key(Kind.WORKLOAD, "d", "w"), "u", "7", NEW_YEAR)
    assert read(Kind.WORKLOAD, {"podGroups": []}) == bare
    assert read(Kind.WORKLOAD, {"podGroups": [], "priorityClassName": None}, status={"conditions": None}) == bare


def group(policy: object, **rest: object) -> dict[str, object]:
    return {"podGroups": [{"name": "g", "policy": policy, **rest}]}


@pytest.mark.parametrize(
    "spec, expected",
    [
        pytest.param(group({"basic": {}}), PodGroup("g"), id="basic pods have nothing in common"),
        pytest.param(group({"gang": {"minCount": 2}}), PodGroup("g", Gang(2, ALONE)), id="a gang leaves pod by pod"),
        pytest.param(
            group({"gang": {"minCount": 2, "preemptionMode": "Pod"}}),
            PodGroup("g", Gang(2, ALONE)),
            id="a gang that says that it leaves pod by pod",
        ),
        pytest.param(
            group({"gang": {"minCount": 2, "preemptionMode": "PodGroup"}}),
            PodGroup("g", Gang(2, WHOLE)),
            id="a gang that leaves whole",
        ),
        pytest.param(
            group({"basic": {}}, schedulingConstraints=RACK),
            PodGroup("g", None, "example.com/rack"),
            id="basic pods that stay together",
        ),
        pytest.param(
            group({"basic": {}}, schedulingConstraints={"topology": []}), PodGroup("g"), id="no place named after all"
        ),
    ],
)
def test_the_group_of_a_workload(spec, expected):
    assert read(Kind.WORKLOAD, spec).groups == (expected,)


GANG = {"schedulingPolicy": {"gang": {"minCount": 3}}}
BASIC = {"schedulingPolicy": {"basic": {}}}


@pytest.mark.parametrize(
    "spec, expected",
    [
        pytest.param(BASIC, PodGroup(), id="a basic group"),
        pytest.param(GANG, PodGroup("", Gang(3, ALONE)), id="a gang is disrupted pod by pod"),
        pytest.param({**GANG, "disruptionMode": {"single": {}}}, PodGroup("", Gang(3, ALONE)), id="v1beta1: single"),
        pytest.param({**GANG, "disruptionMode": {"all": {}}}, PodGroup("", Gang(3, WHOLE)), id="v1beta1: all"),
        pytest.param(
            {**GANG, "disruptionMode": {"single": None, "all": {}}},
            PodGroup("", Gang(3, WHOLE)),
            id="v1beta1: what is null is not chosen",
        ),
        pytest.param({**GANG, "disruptionMode": "Pod"}, PodGroup("", Gang(3, ALONE)), id="v1alpha2: Pod"),
        pytest.param({**GANG, "disruptionMode": "PodGroup"}, PodGroup("", Gang(3, WHOLE)), id="v1alpha2: PodGroup"),
        pytest.param({**BASIC, "disruptionMode": {"single": {}}}, PodGroup(), id="a basic group disrupted pod by pod"),
        pytest.param(
            {**BASIC, "disruptionMode": {"all": {}}},
            PodGroup("", Gang(1, WHOLE)),
            id="a basic group disrupted as a whole starts with any one pod",
        ),
        pytest.param(
            {**GANG, "schedulingConstraints": RACK},
            PodGroup("", Gang(3, ALONE), "example.com/rack"),
            id="a gang that stays together",
        ),
    ],
)
def test_the_group_of_a_pod_group(spec, expected):
    found = read(Kind.POD_GROUP, spec)
    assert (found.key, found.groups) == (Key(Kind.POD_GROUP, "d", "w"), (expected,))


@pytest.mark.parametrize(
    "said, expected",
    [
        pytest.param({}, ("", None, None), id="nothing said"),
        pytest.param({"priorityClassName": "high"}, ("high", None, None), id="a class not yet resolved"),
        pytest.param({"priorityClassName": "high", "priority": 7}, ("high", 7, None), id="a class as a number"),
        pytest.param({"priority": 0}, ("", 0, None), id="the number 0"),
        pytest.param({"preemptionPolicy": "Never"}, ("", None, False), id="never preempts"),
        pytest.param({"preemptionPolicy": "PreemptLowerPriority"}, ("", None, True), id="preempts"),
    ],
)
def test_the_priority_of_a_pod_group(said, expected):
    found = read(Kind.POD_GROUP, {**GANG, **said})
    assert (found.priority_class, found.priority, found.preempts) == expected
    assert (found.preemption_priority_class, found.preemption_priority) == ("", None)


@pytest.mark.parametrize(
    "spec, gang, priority_class",
    [
        pytest.param({"minMember": 3}, Gang(3, WHOLE), "", id="a gang leaves whole"),
        pytest.param({"minMember": 1, "priorityClassName": "high"}, Gang(1, WHOLE), "high", id="a gang of one"),
        pytest.param({"minMember": 0}, None, "", id="at least none is no gang"),
        pytest.param({}, None, "", id="nothing said is no gang"),
        pytest.param({"minMember": 2, "queue": "q", "minResources": {"cpu": 1}}, Gang(2, WHOLE), "", id="in a queue"),
    ],
)
def test_a_pod_group_of_volcano(spec, gang, priority_class):
    found = read(Kind.VOLCANO_POD_GROUP, spec)
    assert replace(found, volcano=None) == Workload(
        key=Key(Kind.VOLCANO_POD_GROUP, "d", "w"),
        uid="u",
        version="7",
        created=NEW_YEAR,
        groups=(PodGroup("", gang),),
        priority_class=priority_class,
    )


def two_groups() -> dict[str, object]:
    return {"podGroups": [{"name": "g", "policy": {"basic": {}}} for _ in range(2)]}


FIRST = "$.spec.podGroups[0]"
MODES = "expected single or all, or Pod or PodGroup, found"


@pytest.mark.parametrize(
    "kind, spec, path, expected",
    [
        pytest.param(Kind.WORKLOAD, {}, "$.spec", "Object missing required field podGroups", id="no groups"),
        pytest.param(
            Kind.WORKLOAD,
            {"podGroups": [{"policy": {"basic": {}}}]},
            FIRST,
            "Object missing required field name",
            id="a group without a name",
        ),
        pytest.param(
            Kind.WORKLOAD,
            {"podGroups": [{"name": "g"}]},
            FIRST,
            "Object missing required field policy",
            id="a group without a policy",
        ),
        pytest.param(
            Kind.WORKLOAD,
            group({}),
            f"{FIRST}.policy",
            "expected either gang or basic",
            id="a policy that says nothing",
        ),
        pytest.param(
            Kind.WORKLOAD,
            group({"basic": {}, "gang": {"minCount": 2}}),
            f"{FIRST}.policy",
            "expected either gang or basic",
            id="both policies at once",
        ),
        pytest.param(
            Kind.WORKLOAD,
            group({"gang": {}}),
            f"{FIRST}.policy.gang",
            "Object missing required field minCount",
            id="a gang of how many",
        ),
        pytest.param(
            Kind.WORKLOAD,
            group({"gang": {"minCount": 0}}),
            f"{FIRST}.policy.gang.minCount",
            "Expected int >= 1",
            id="a gang of none",
        ),
        pytest.param(
            Kind.WORKLOAD,
            group({"gang": {"minCount": 2, "preemptionMode": "Half"}}),
            f"{FIRST}.policy.gang.preemptionMode",
            "Invalid enum value 'Half'",
            id="a mode nobody knows",
        ),
        pytest.param(
            Kind.WORKLOAD,
            group({"basic": {}}, schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}),
            f"{FIRST}.schedulingConstraints.topology",
            "Expected array of length <= 1",
            id="two places at once",
        ),
        pytest.param(
            Kind.WORKLOAD,
            two_groups(),
            "$.spec.podGroups[1].name",
            "expected a name no other group has, found 'g'",
            id="two groups of one name",
        ),
        pytest.param(
            Kind.POD_GROUP,
            {},
            "$.spec",
            "Object missing required field schedulingPolicy",
            id="a pod group of no policy",
        ),
        pytest.param(
            Kind.POD_GROUP,
            {"schedulingPolicy": {"someday": {}}},
            "$.spec.schedulingPolicy",
            "expected either gang or basic",
            id="a pod group of a policy to come",
        ),
        pytest.param(
            Kind.POD_GROUP,
            {"schedulingPolicy": {"gang": {"minCount": -1}}},
            "$.spec.schedulingPolicy.gang.minCount",
            "Expected int >= 1",
            id="a pod group of less than none",
        ),
        pytest.param(
            Kind.POD_GROUP,
            {**GANG, "disruptionMode": "Half"},
            "$.spec.disruptionMode",
            f"{MODES} 'Half'",
            id="a pod group disrupted by half",
        ),
        pytest.param(
            Kind.POD_GROUP,
            {**GANG, "disruptionMode": {"all": {}, "single": {}}},
            "$.spec.disruptionMode",
            f"{MODES} {{'all': {{}}, 'single': {{}}}}",
            id="a pod group disrupted in two ways",
        ),
        pytest.param(
            Kind.POD_GROUP,
            {**GANG, "disruptionMode": {}},
            "$.spec.disruptionMode",
            f"{MODES} {{}}",
            id="a pod group disrupted in no way",
        ),
        pytest.param(
            Kind.POD_GROUP,
            {**GANG, "priority": "high"},
            "$.spec.priority",
            "Expected int | null, got str",
            id="a pod group of a priority in words",
        ),
        pytest.param(
            Kind.VOLCANO_POD_GROUP,
            {"minMember": -1},
            "$.spec.minMember",
            "Expected int >= 0",
            id="a pod group of Volcano of less than none",
        ),
    ],
)
def test_malformed_groups(kind, spec, path, expected):
    with pytest.raises(InvalidObject) as refused:
        read(kind, spec)
    assert (refused.value.key, refused.value.path, refused.value.expected) == (Key(kind, "d", "w"), path, expected)


def test_a_condition_that_turned_at_no_time():
    status = {"conditions": [{"type": "Scheduled", "status": "True", "lastTransitionTime": "soon"}]}
    with pytest.raises(InvalidObject) as refused:
        read(Kind.WORKLOAD, {"podGroups": []}, status=status)
    assert refused.value.path == "$.status.conditions[0].lastTransitionTime"
