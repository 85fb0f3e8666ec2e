"""Queues, cohorts, flavors, classes and checks of kueue.x-k8s.io from the wire."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from headgate.api.decode import decode
from headgate.api.wire import InvalidObject
from headgate.model.keys import Condition, Key, Kind, Target
from headgate.model.node import Taint, TaintEffect, Toleration
from headgate.model.objects import Object
from headgate.model.queues import (
    AdmissionCheck,
    BorrowWithinCohort,
    CheckParameters,
    ClusterQueue,
    Cohort,
    FlavorPreference,
    FlavorQuotas,
    FlavorSearch,
    Fungibility,
    LocalQueue,
    QueueingStrategy,
    QueuePreemption,
    Quota,
    Reclaim,
    RequiredCheck,
    ResourceFlavor,
    ResourceGroup,
    StopPolicy,
    WithinQueue,
    WorkloadPriorityClass,
)
from headgate.model.resources import Resources
from headgate.model.selectors import Operator, Requirement

NOW, NEW_YEAR = "2026-01-01T00:00:00Z", 1767225600.0
UNLIMITED = 2**63 - 1
META = {"name": "it", "uid": "u", "resourceVersion": "7", "generation": 3, "deletionTimestamp": NOW}
ACTIVE = {"type": "Active", "status": "True", "reason": "Ready", "message": "on", "lastTransitionTime": NOW}
IS_ACTIVE = Condition("Active", "True", "Ready", "on", NEW_YEAR, 3)
IN_USE = "kueue.x-k8s.io/resource-in-use"


def read(kind: Kind, namespace: str = "", **rest: Any) -> Object:
    metadata = {**META, "namespace": namespace, "finalizers": [IN_USE]}
    return decode(kind, json.dumps({"metadata": metadata, **rest}).encode())


def group(*quotas: dict[str, Any], flavor: str = "spot") -> dict[str, Any]:
    return {
        "coveredResources": [quota["name"] for quota in quotas],
        "flavors": [{"name": flavor, "resources": quotas}],
    }


def quota(name: str, nominal: Any, **limits: Any) -> dict[str, Any]:
    return {"name": name, "nominalQuota": nominal, **limits}


def test_a_cluster_queue_with_everything():
    spec = {
        "resourceGroups": [
            group(quota("memory", "1.5Gi"), quota("cpu", "1500m", borrowingLimit=2, lendingLimit="0")),
            group(quota("example.com/gpu", 8), flavor="gpus"),
        ],
        "cohortName": "team",
        "queueingStrategy": "StrictFIFO",
        "namespaceSelector": {"matchLabels": {"team": "a"}},
        "flavorFungibility": {
            "whenCanBorrow": "TryNextFlavor",
            "whenCanPreempt": "TryNextFlavor",
            "preference": "PreemptionOverBorrowing",
        },
        "preemption": {
            "withinClusterQueue": "LowerPriority",
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100},
        },
        "admissionChecksStrategy": {"admissionChecks": [{"name": "a", "onFlavors": ["spot"]}, {"name": "b"}]},
        "stopPolicy": "Hold",
        "fairSharing": {"weight": "1500m"},
        "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
    }
    status = {"conditions": [{**ACTIVE, "observedGeneration": 3}]}
    memory, cpu = ("memory", Quota(3 << 29)), ("cpu", Quota(1500, 2000, 0))
    assert read(Kind.CLUSTER_QUEUE, spec=spec, status=status) == ClusterQueue(
        key=Key(Kind.CLUSTER_QUEUE, "", "it"),
        uid="u",
        version="7",
        groups=(
            ResourceGroup(("memory", "cpu"), (FlavorQuotas("spot", (memory, cpu)),)),
            ResourceGroup(("example.com/gpu",), (FlavorQuotas("gpus", (("example.com/gpu", Quota(8)),)),)),
        ),
        cohort="team",
        strategy=QueueingStrategy.STRICT_FIFO,
        namespaces=(Requirement("team", Operator.IN, ("a",)),),
        fungibility=Fungibility(
            FlavorSearch.TRY_NEXT_FLAVOR, FlavorSearch.TRY_NEXT_FLAVOR, FlavorPreference.PREEMPTION_OVER_BORROWING
        ),
        preemption=QueuePreemption(WithinQueue.LOWER_PRIORITY, Reclaim.ANY, BorrowWithinCohort.LOWER_PRIORITY, 100),
        checks=(RequiredCheck("a", ("spot",)), RequiredCheck("b")),
        stop_policy=StopPolicy.HOLD,
        fair_weight=1500,
        usage_based=True,
        conditions=(IS_ACTIVE,),
        finalizers=(IN_USE,),
        generation=3,
        deleted=NEW_YEAR,
    )


NOTHING = ClusterQueue(
    Key(Kind.CLUSTER_QUEUE, "", "it"), "u", "7", finalizers=(IN_USE,), generation=3, deleted=NEW_YEAR
)


@pytest.mark.parametrize(
    "rest, expected",
    [
        pytest.param({}, {}, id="no spec at all"),
        pytest.param({"spec": {}, "status": {}}, {}, id="nothing said"),
        pytest.param({"spec": {"namespaceSelector": None}}, {"namespaces": None}, id="no selector selects nothing"),
        pytest.param({"spec": {"namespaceSelector": {}}}, {"namespaces": ()}, id="an empty selector selects all"),
        pytest.param({"spec": {"fairSharing": {}}}, {"fair_weight": 1000}, id="a weight that is not said is one"),
        pytest.param({"spec": {"fairSharing": {"weight": 0}}}, {"fair_weight": 0}, id="no weight"),
        pytest.param({"spec": {"fairSharing": {"weight": "1n"}}}, {"fair_weight": 1}, id="a tiny weight is not none"),
        pytest.param(
            {"spec": {"admissionScope": {"admissionMode": "NoAdmissionFairSharing"}}},
            {"usage_based": False},
            id="not by what was used",
        ),
        pytest.param(
            {"spec": {"preemption": {"reclaimWithinCohort": "Any"}, "flavorFungibility": {}}},
            {"preemption": QueuePreemption(reclaim=Reclaim.ANY)},
            id="half of a policy",
        ),
    ],
)
def test_a_cluster_queue_that_says_little(rest, expected):
    assert read(Kind.CLUSTER_QUEUE, **rest) == msgspec.structs.replace(NOTHING, **expected)


@pytest.mark.parametrize(
    "name, amount, expected",
    [
        pytest.param("cpu", 2, 2000, id="cpu counts in thousandths"),
        pytest.param("cpu", "0.1", 100, id="a part of a cpu"),
        pytest.param("cpu", 1.5, 1500, id="a bare number with a fraction"),
        pytest.param("memory", "36Gi", 36 << 30, id="memory counts in bytes"),
        pytest.param("example.com/gpu", "1.5", 2, id="a part of a device is a whole one"),
        pytest.param("memory", "10E", UNLIMITED, id="more than can be counted is no limit"),
        pytest.param("cpu", "10P", UNLIMITED, id="more cpu than can be counted is no limit"),
    ],
)
def test_quota_is_exact(name, amount, expected):
    found = read(Kind.COHORT, spec={"resourceGroups": [group(quota(name, amount))]})
    assert isinstance(found, Cohort)
    assert found.groups[0].flavors[0].quotas == ((name, Quota(expected)),)


def test_a_local_queue():
    fair = {"admissionFairSharingStatus": {"consumedResources": {"cpu": "1500m"}, "lastUpdate": NOW}}
    spec = {"clusterQueue": "cq", "stopPolicy": "HoldAndDrain", "fairSharing": {"weight": 2}}
    status = {"conditions": [ACTIVE], "fairSharing": {"weightedShare": 0, **fair}}
    key = Key(Kind.LOCAL_QUEUE, "d", "it")
    found = read(Kind.LOCAL_QUEUE, "d", spec=spec, status=status)
    assert found == LocalQueue(
        key=key,
        uid="u",
        version="7",
        cluster_queue="cq",
        stop_policy=StopPolicy.HOLD_AND_DRAIN,
        fair_weight=2000,
        conditions=(msgspec.structs.replace(IS_ACTIVE, generation=None),),
        consumed=Resources.of({"cpu": 1_500_000_000}),
        consumed_at=NEW_YEAR,
        generation=3,
        deleted=NEW_YEAR,
    )
    assert found.target == Target(key, "u")


def test_a_cohort():
    spec = {"parentName": "root", "resourceGroups": [group(quota("cpu", 1))], "fairSharing": {"weight": "250m"}}
    groups = (ResourceGroup(("cpu",), (FlavorQuotas("spot", (("cpu", Quota(1000)),)),)),)
    assert read(Kind.COHORT, spec=spec) == Cohort(
        Key(Kind.COHORT, "", "it"), "u", "7", "root", groups, 250, generation=3, deleted=NEW_YEAR
    )


@pytest.mark.parametrize(
    "spec, is_concurrent",
    [
        pytest.param({}, False, id="no policy"),
        pytest.param({"concurrentAdmissionPolicy": None}, False, id="a policy that is null"),
        pytest.param(
            {"concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}}}, True, id="a policy"
        ),
    ],
)
def test_whether_a_cluster_queue_admits_concurrently(spec, is_concurrent):
    found = read(Kind.CLUSTER_QUEUE, spec=spec)
    assert isinstance(found, ClusterQueue)
    assert found.concurrent_admission is is_concurrent


@pytest.mark.parametrize(
    "status, share",
    [
        pytest.param({}, None, id="none"),
        pytest.param({"fairSharing": {"weightedShare": 0}}, 0, id="nothing"),
        pytest.param({"fairSharing": {"weightedShare": 250}}, 250, id="a quarter"),
    ],
)
def test_the_share_a_cohort_shows(status, share):
    found = read(Kind.COHORT, status=status)
    assert isinstance(found, Cohort)
    assert found.shown_share == share


def test_a_flavor():
    spec = {
        "nodeLabels": {"pool": "spot"},
        "nodeTaints": [{"key": "spot", "effect": "NoSchedule"}],
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        "topologyName": "racks",
    }
    assert read(Kind.RESOURCE_FLAVOR, spec=spec) == ResourceFlavor(
        key=Key(Kind.RESOURCE_FLAVOR, "", "it"),
        uid="u",
        version="7",
        node_labels={"pool": "spot"},
        node_taints=(Taint("spot", "", TaintEffect.NO_SCHEDULE),),
        tolerations=(Toleration("a", True, "", TaintEffect.NO_EXECUTE, 5),),
        topology="racks",
        finalizers=(IN_USE,),
        deleted=NEW_YEAR,
    )


def test_a_workload_priority_class():
    key = Key(Kind.WORKLOAD_PRIORITY_CLASS, "", "it")
    assert read(Kind.WORKLOAD_PRIORITY_CLASS, value=-5) == WorkloadPriorityClass(key, "u", "7", -5)


def test_an_admission_check():
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
    key = Key(Kind.ADMISSION_CHECK, "", "it")
    status = {"conditions": [{**ACTIVE, "observedGeneration": 3}]}
    assert read(Kind.ADMISSION_CHECK, spec=spec, status=status) == AdmissionCheck(
        key=key,
        uid="u",
        version="7",
        controller="kueue.x-k8s.io/multikueue",
        parameters=CheckParameters("kueue.x-k8s.io", "MultiKueueConfig", "all"),
        conditions=(IS_ACTIVE,),
        finalizers=(IN_USE,),
        generation=3,
        deleted=NEW_YEAR,
    )


RESOURCE = "$.spec.resourceGroups[0].flavors[0].resources[1]"


@pytest.mark.parametrize(
    "kind, rest, path, expected",
    [
        pytest.param(
            Kind.CLUSTER_QUEUE,
            {"spec": {"resourceGroups": [group(quota("cpu", 1), quota("memory", "much"))]}},
            f"{RESOURCE}.nominalQuota",
            "'much' is not a quantity",
            id="quota that is no amount",
        ),
        pytest.param(
            Kind.COHORT,
            {"spec": {"resourceGroups": [group(quota("cpu", 1), quota("memory", 1, lendingLimit="1K"))]}},
            f"{RESOURCE}.lendingLimit",
            "'1K' is not a quantity",
            id="a limit that is no amount",
        ),
        pytest.param(
            Kind.CLUSTER_QUEUE,
            {"spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "a"}]}]}},
            "$.spec.resourceGroups[0].flavors[0]",
            "Object missing required field resources",
            id="a flavor without resources",
        ),
        pytest.param(
            Kind.CLUSTER_QUEUE,
            {"spec": {"queueingStrategy": "Lottery"}},
            "$.spec.queueingStrategy",
            "Invalid enum value 'Lottery'",
            id="an unknown strategy",
        ),
        pytest.param(
            Kind.CLUSTER_QUEUE,
            {"spec": {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}},
            "$.spec.namespaceSelector",
            "matchExpressions[0]",
            id="a selector that is none",
        ),
        pytest.param(
            Kind.LOCAL_QUEUE,
            {"spec": {"clusterQueue": "cq", "fairSharing": {"weight": "heavy"}}},
            "$.spec.fairSharing.weight",
            "'heavy' is not a quantity",
            id="a weight that is no amount",
        ),
        pytest.param(
            Kind.LOCAL_QUEUE,
            {"status": {"fairSharing": {"admissionFairSharingStatus": {"lastUpdate": "now"}}}},
            "$.status.fairSharing.admissionFairSharingStatus.lastUpdate",
            "expected an RFC 3339 time",
            id="a time that is none",
        ),
        pytest.param(
            Kind.WORKLOAD_PRIORITY_CLASS, {}, "$", "Object missing required field value", id="a class without a value"
        ),
        pytest.param(
            Kind.ADMISSION_CHECK, {}, "$", "Object missing required field spec", id="a check without a controller"
        ),
        pytest.param(
            Kind.RESOURCE_FLAVOR,
            {"spec": {"nodeTaints": [{"key": "a", "effect": "Never"}]}},
            "$.spec.nodeTaints[0].effect",
            "Invalid enum value 'Never'",
            id="a taint of no known effect",
        ),
    ],
)
def test_what_is_wrong_is_told_precisely(kind, rest, path, expected):
    with pytest.raises(InvalidObject) as wrong:
        read(kind, **rest)
    assert (wrong.value.kind, wrong.value.path) == (kind, path)
    assert expected in wrong.value.expected
