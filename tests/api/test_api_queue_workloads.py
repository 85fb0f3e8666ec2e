"""Workloads of kueue.x-k8s.io from the wire, and what one pod of a template asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import MIB, amounts, changed, kueue_workload

from headgate.api.decode import decode
from headgate.api.wire import InvalidObject
from headgate.model.keys import Condition, Key, Kind, Target
from headgate.model.node import NodeTerm, PreferredTerm, Toleration
from headgate.model.pod import PodShape
from headgate.model.queues import (
    Admission,
    CheckState,
    CheckStatus,
    EvictionCount,
    GateStatus,
    PodSet,
    PodSetAssignment,
    PreemptionProposal,
    PriorityClassRef,
    QueuedWorkload,
    RequeueState,
)
from headgate.model.resources import ContainerNeeds, Resources, TemplateNeeds
from headgate.model.selectors import Operator, Requirement

NOW, NEW_YEAR = "2026-01-01T00:00:00Z", 1767225600.0
META = {"name": "w", "namespace": "d", "uid": "u", "resourceVersion": "7", "creationTimestamp": NOW}


def pod_set(*containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": containers}}, **fields}


def asking(limits: dict[str, Any] | None = None, **requests: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, **({"limits": limits} if limits else {})}}


def read(spec: dict[str, Any], metadata: dict[str, Any] | None = None, **rest: Any) -> QueuedWorkload:
    manifest = {"metadata": {**META, **(metadata or {})}, "spec": spec, **rest}
    found = decode(Kind.KUEUE_WORKLOAD, json.dumps(manifest).encode())
    assert isinstance(found, QueuedWorkload)
    return found


def one(**template: Any) -> PodShape:
    spec = {"podSets": [{"template": {"spec": {"containers": [asking(cpu=1)], **template}}}]}
    return read(spec).pod_sets[0].shape


def test_a_workload_that_says_little():
    shape = PodShape(Resources.of({"cpu": 1000}), Resources.of({"cpu": 1000}))
    needs = TemplateNeeds((ContainerNeeds(amounts(cpu=1000)),))
    pod_sets = (PodSet("main", shape, needs=needs),)
    assert read({"podSets": [pod_set(asking(cpu=1))]}) == kueue_workload(
        Key(Kind.KUEUE_WORKLOAD, "d", "w"), "u", "7", NEW_YEAR, pod_sets, owned_by_stranger=False
    )


def test_an_owner_of_a_kind_we_do_not_know_is_a_stranger():
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "r", "uid": "r-u", "controller": True}
    found = read({"podSets": [pod_set(asking(cpu=1))]}, metadata={"ownerReferences": [owner]})
    assert (found.owner, found.owned_by_stranger) == (None, True)


def test_a_workload_with_everything():
    metadata = {
        "generation": 2,
        "labels": {"kueue.x-k8s.io/job-uid": "j-u"},
        "annotations": {
            "kueue.x-k8s.io/priority-boost": "-5",
            "kueue.x-k8s.io/admission-gated-by": "a.b/c, a.b/d,",
        },
        "finalizers": ["kueue.x-k8s.io/resource-in-use"],
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j-u", "controller": True},
        ],
        "deletionTimestamp": NOW,
    }
    spec = {
        "podSets": [pod_set(name="driver"), pod_set(asking(memory="1Mi"), name="workers", count=4, minCount=2)],
        "queueName": "lq",
        "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
        "priority": 1000,
        "active": False,
        "maximumExecutionTimeSeconds": 60,
        "preemptionGates": [{"name": "x"}, {"name": "y"}],
    }
    condition = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "m"}
    updates = [{"name": "workers", "labels": {"a": "b"}}]
    check = {"name": "budget", "state": "Retry", "lastTransitionTime": NOW, "message": "later"}
    status = {
        "conditions": [{**condition, "lastTransitionTime": NOW, "observedGeneration": 1}],
        "admission": {
            "clusterQueue": "cq",
            "podSetAssignments": [
                {"name": "driver"},
                {
                    "name": "workers",
                    "flavors": {"memory": "spot", "cpu": "other"},
                    "resourceUsage": {"memory": "3Mi", "cpu": "1500m"},
                    "count": 3,
                },
            ],
        },
        "requeueState": {"count": 2, "requeueAt": NOW},
        "reclaimablePods": [{"name": "workers", "count": 1}],
        "admissionChecks": [{**check, "requeueAfterSeconds": 5, "retryCount": 1, "podSetUpdates": updates}],
        "resourceRequests": [{"name": "workers", "resources": {"cpu": "2"}}],
        "accumulatedPastExecutionTimeSeconds": 7,
        "schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 3}]},
        "nominatedClusterNames": ["east"],
        "clusterName": "west",
        "preemptionGates": [
            {"name": "x", "position": "Open", "lastTransitionTime": NOW},
            {"name": "y", "position": "Closed"},
        ],
        "preemptionProposal": {
            "canPreempt": True,
            "victims": 2,
            "highestPriority": 5,
            "prioritySum": 7,
            "pods": 3,
            "runningSince": NOW,
        },
    }
    memory = Resources.of({"memory": MIB})
    found = read(spec, metadata, status=status)
    assert found == kueue_workload(
        key=Key(Kind.KUEUE_WORKLOAD, "d", "w"),
        uid="u",
        version="7",
        created=NEW_YEAR,
        pod_sets=(
            PodSet("driver", PodShape()),
            PodSet("workers", PodShape(memory, memory), 4, 2, TemplateNeeds((ContainerNeeds(memory),))),
        ),
        queue="lq",
        priority=1000,
        priority_class=PriorityClassRef("kueue.x-k8s.io", "WorkloadPriorityClass", "high"),
        boost=-5,
        gated_by=("a.b/c", "a.b/d"),
        preemption_gates=("x", "y"),
        active=False,
        max_execution_seconds=60,
        generation=2,
        labels=metadata["labels"],
        annotations=metadata["annotations"],
        finalizers=("kueue.x-k8s.io/resource-in-use",),
        owner=Target(Key(Kind.JOB, "d", "j"), "j-u"),
        deleted=NEW_YEAR,
        conditions=(Condition("QuotaReserved", "True", "QuotaReserved", "m", NEW_YEAR, 1),),
        admission=Admission(
            "cq",
            (
                PodSetAssignment("driver", (), Resources(), 1),
                PodSetAssignment("workers", (("cpu", "other"), ("memory", "spot")), amounts(1500, 3), 3),
            ),
        ),
        requeue=RequeueState(2, NEW_YEAR),
        reclaimable=(("workers", 1),),
        checks=(CheckStatus("budget", CheckState.RETRY, "later", NEW_YEAR, 5, 1, json.dumps(updates).encode()),),
        gate_statuses=(GateStatus("x", True, NEW_YEAR), GateStatus("y")),
        proposal=PreemptionProposal(True, 2, 5, 7, 3, NEW_YEAR),
        resource_requests=(("workers", Resources.of({"cpu": 2000})),),
        past_execution_seconds=7,
        evictions=(EvictionCount("Preempted", "", 3),),
        nominated_clusters=("east",),
        cluster="west",
        owned_by_stranger=False,
    )
    assert (found.effective_priority, found.has_closed_gate) == (995, True)
    assert found.status.proposal is not None
    assert [found.status.proposal.work_lost(NEW_YEAR + seconds) for seconds in (-1, 0, 10)] == [0, 0, 30]


@pytest.mark.parametrize(
    "states, is_closed",
    [
        pytest.param([], True, id="a gate without a state is closed"),
        pytest.param([{"state": "Closed", "position": "Closed"}], True, id="both fields close it"),
        pytest.param([{"state": "Open", "position": "Open"}], False, id="both fields open it"),
        pytest.param([{"state": "Open"}], False, id="the seed's field alone opens it"),
        pytest.param([{"position": "Open"}], False, id="Kueue's field alone opens it"),
        pytest.param([{"state": "Open", "position": "Closed"}], False, id="opened by who knows one field"),
        pytest.param([{"state": "Closed", "position": "Open"}], False, id="opened by who knows the other"),
        pytest.param([{"state": "Ajar"}], True, id="what is neither is closed"),
        pytest.param([{}], True, id="a state that says nothing is closed"),
    ],
)
def test_a_preemption_gate_is_open_if_either_field_says_so(states, is_closed):
    spec = {"podSets": [pod_set()], "preemptionGates": [{"name": "g"}]}
    found = read(spec, status={"preemptionGates": [{"name": "g", **one} for one in states]})
    assert found.has_closed_gate is is_closed


@pytest.mark.parametrize(
    "shown, since",
    [
        pytest.param({}, None, id="nothing is said"),
        pytest.param({"BlockedOnPreemptionGates": ("True", 3)}, 3, id="Kueue's condition alone"),
        pytest.param({"PreemptionBlocked": ("True", 3)}, 3, id="the seed's condition alone"),
        pytest.param(
            {"BlockedOnPreemptionGates": ("True", 3), "PreemptionBlocked": ("True", 5)}, 3, id="the first signal counts"
        ),
        pytest.param(
            {"BlockedOnPreemptionGates": ("False", 5), "PreemptionBlocked": ("True", 3)}, None, id="withdrawn since"
        ),
        pytest.param(
            {"BlockedOnPreemptionGates": ("False", 3), "PreemptionBlocked": ("True", 5)}, 5, id="signalled since"
        ),
        pytest.param(
            {"BlockedOnPreemptionGates": ("False", 3), "PreemptionBlocked": ("True", 3)}, 3, id="in the same second"
        ),
    ],
)
def test_since_when_a_workload_waits_for_its_gates_is_read_from_either_condition(shown, since):
    conditions = tuple(Condition(type_, status, "R", "", float(at)) for type_, (status, at) in shown.items())
    assert changed(read({"podSets": [pod_set()]}), conditions=conditions).gated_since == since


@pytest.mark.parametrize(
    "template, requests",
    [
        pytest.param({}, amounts(1000), id="what its container asks for"),
        pytest.param({"containers": [asking(cpu=1), asking(cpu="250m")]}, amounts(1250), id="two containers together"),
        pytest.param({"containers": [asking({"cpu": 2})]}, amounts(2000), id="a limit without a request is a request"),
        pytest.param({"containers": [asking({"cpu": 2}, cpu=1)]}, amounts(1000), id="a request goes before a limit"),
        pytest.param(
            {"containers": [asking({"cpu": 2, "memory": "1Mi"}, cpu=1)]}, amounts(1000, 1), id="a limit for the rest"
        ),
        pytest.param({"initContainers": [asking({"cpu": 3})]}, amounts(3000), id="a first step that is larger"),
        pytest.param(
            {"initContainers": [{**asking(cpu=3), "restartPolicy": "Always"}]}, amounts(4000), id="a sidecar stays"
        ),
        pytest.param({"overhead": {"cpu": "100m"}}, amounts(1100), id="overhead comes on top"),
        pytest.param({"resources": {"requests": {"cpu": 5}}}, amounts(5000), id="what the pod as a whole asks for"),
        pytest.param({"resources": {"limits": {"cpu": 6}}}, amounts(6000), id="what the pod as a whole is limited to"),
        pytest.param({"containers": []}, Resources(), id="nothing"),
    ],
)
def test_what_one_pod_asks_for(template, requests):
    assert one(**template).requests == requests


def test_where_its_pods_may_run():
    expression = {"key": "zone", "operator": "In", "values": ["b", "a"]}
    terms = {"matchExpressions": [expression]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [terms]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": terms}],
        }
    }
    shape = one(nodeSelector={"b": "c", "a": "b"}, affinity=affinity, tolerations=[{"operator": "Exists"}])
    zones = NodeTerm((Requirement("zone", Operator.IN, ("a", "b")),))
    assert shape.node_selector == (("a", "b"), ("b", "c"))
    assert (shape.required_terms, shape.preferred_terms) == ((zones,), (PreferredTerm(3, zones),))
    assert shape.tolerations == (Toleration(exists=True),)


@pytest.mark.parametrize(
    "annotation, boost",
    [
        pytest.param("7", 7, id="a number"),
        pytest.param("-7", -7, id="a negative number"),
        pytest.param("", 0, id="nothing"),
        pytest.param("lots", 0, id="a word counts for nothing, so that held quota stays held"),
    ],
)
def test_a_boost_of_its_priority(annotation, boost):
    annotations = {"kueue.x-k8s.io/priority-boost": annotation}
    assert read({"podSets": [pod_set()]}, {"annotations": annotations}).boost == boost


@pytest.mark.parametrize(
    "owner, expected",
    [
        pytest.param({"apiVersion": "v1", "kind": "Pod"}, Target(Key(Kind.POD, "d", "o"), "o-u"), id="a single pod"),
        pytest.param({"apiVersion": "a.b/v1", "kind": "Train"}, None, id="a kind we do not know"),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod", "controller": False},
            Target(Key(Kind.POD, "d", "o"), "o-u"),
            id="the first of many pods",
        ),
    ],
)
def test_whom_it_stands_for(owner, expected):
    references = [{"controller": True, **owner, "name": "o", "uid": "o-u"}]
    assert read({"podSets": [pod_set()]}, {"ownerReferences": references}).owner == expected


TEMPLATE = "$.spec.podSets[1].template"


def second(**template: Any) -> dict[str, Any]:
    return {"podSets": [pod_set(), {"name": "b", "template": template}]}


@pytest.mark.parametrize(
    "spec, status, path, expected",
    [
        pytest.param({}, {}, "$.spec", "Object missing required field podSets", id="no pod sets"),
        pytest.param(second(), {}, TEMPLATE, "Object missing required field spec", id="a template of nothing"),
        pytest.param(
            second(spec={}), {}, f"{TEMPLATE}.spec", "Object missing required field containers", id="no containers"
        ),
        pytest.param(
            second(spec={"containers": [asking(cpu="1x")]}),
            {},
            f"{TEMPLATE}.spec.containers[0].resources.requests.cpu",
            "'1x' is not a quantity",
            id="a request that is no amount",
        ),
        pytest.param(
            second(spec={"containers": [], "affinity": {"nodeAffinity": 1}}),
            {},
            f"{TEMPLATE}.spec.affinity.nodeAffinity",
            "Expected object | null, got int",
            id="an affinity that is none",
        ),
        pytest.param(
            second(spec={"containers": [], "tolerations": [{"effect": "Never"}]}),
            {},
            f"{TEMPLATE}.spec.tolerations[0].effect",
            "expected NoSchedule",
            id="a toleration of no known effect",
        ),
        pytest.param(
            {"podSets": [pod_set(count=-1)]}, {}, "$.spec.podSets[0].count", "Expected int >= 0", id="fewer than none"
        ),
        pytest.param(
            {"podSets": [pod_set()]},
            {"admission": {"clusterQueue": "q", "podSetAssignments": [{"resourceUsage": {"cpu": "x"}}]}},
            "$.status.admission.podSetAssignments[0].resourceUsage.cpu",
            "'x' is not a quantity",
            id="a usage that is no amount",
        ),
        pytest.param(
            {"podSets": [pod_set()]},
            {"admissionChecks": [{"name": "a", "state": "Maybe"}]},
            "$.status.admissionChecks[0].state",
            "Invalid enum value 'Maybe'",
            id="a check in no known state",
        ),
        pytest.param(
            {"podSets": [pod_set()]},
            {"requeueState": {"requeueAt": "soon"}},
            "$.status.requeueState.requeueAt",
            "expected an RFC 3339 time",
            id="a time that is none",
        ),
    ],
)
def test_what_is_wrong_is_told_precisely(spec, status, path, expected):
    with pytest.raises(InvalidObject) as wrong:
        read(spec, status=status)
    assert wrong.value.path == path
    assert expected in wrong.value.expected
