"""What the configuration file may say of quota, what that means, and how a mistake in it is told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.api.configuration import InvalidConfiguration, settings_from
from headgate.model.resources import Resources
from headgate.model.selectors import Operator, Requirement
from headgate.model.settings import (
    FairStrategy,
    PodsReady,
    QuotaMetrics,
    QuotaSettings,
    RequeueTime,
    Retention,
    Transformation,
    UsageSharing,
)

GATES = {"preemption_gates": True}
FINAL, INITIAL = FairStrategy.FINAL_SHARE, FairStrategy.INITIAL_SHARE


def read(**document: Any) -> QuotaSettings:
    return settings_from(document, "f").quota


def test_a_file_as_users_of_kueue_have_it():
    document = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "manageJobsWithoutQueueName": True,
        "managedJobsNamespaceSelector": {"matchLabels": {"kueue": "yes"}},
        "waitForPodsReady": {
            "timeout": "5m",
            "blockAdmission": True,
            "recoveryTimeout": "3m",
            "requeuingStrategy": {
                "timestamp": "Creation",
                "backoffLimitCount": 5,
                "backoffBaseSeconds": 10,
                "backoffMaxSeconds": 100,
            },
        },
        "integrations": {"frameworks": ["pod", "batch/job"], "labelKeysToCopy": ["a.b/team", "cost", "a.b/team"]},
        "fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]},
        "resources": {
            "quotaCheckStrategy": "IgnoreUndeclared",
            "excludeResourcePrefixes": ["example.com/"],
            "transformations": [
                {
                    "input": "nvidia.com/mig-1g.5gb",
                    "strategy": "Replace",
                    "multiplyBy": "cpu",
                    "outputs": {"example.com/memory": "5Gi", "cpu": "500m"},
                }
            ],
        },
        "objectRetentionPolicies": {"workloads": {"afterFinished": "1h", "afterDeactivatedByKueue": "0s"}},
        "featureGates": {"MultiKueueOrchestratedPreemption": False},
    }
    outputs = Resources.of({"example.com/memory": 5 << 30, "cpu": 500})
    assert read(**document) == QuotaSettings(
        fair=(INITIAL,),
        requeue_time=RequeueTime.CREATION,
        ignore_undeclared=True,
        excluded_prefixes=("example.com/",),
        transformations=(Transformation("nvidia.com/mig-1g.5gb", outputs, keeps=False, multiplied_by="cpu"),),
        preemption_gates=False,
        block_admission=True,
        manages_all=True,
        namespaces=(Requirement("kueue", Operator.IN, ("yes",)),),
        frameworks=("pod", "batch/job"),
        copied_labels=("a.b/team", "cost"),
        pods_ready=PodsReady(300, 180, 5, 10, 100),
        retention=Retention(3600, 0),
    )


@pytest.mark.parametrize(
    "document, expected",
    [
        pytest.param({}, {}, id="nothing said"),
        pytest.param(
            {
                "waitForPodsReady": None,
                "integrations": None,
                "fairSharing": None,
                "resources": None,
                "objectRetentionPolicies": None,
                "managedJobsNamespaceSelector": None,
            },
            {},
            id="nothing said in many words",
        ),
        pytest.param({"fairSharing": {}}, {"fair": (FINAL, INITIAL)}, id="fair sharing as it is by default"),
        pytest.param(
            {"fairSharing": {"preemptionStrategies": []}}, {"fair": (FINAL, INITIAL)}, id="fair sharing by no strategy"
        ),
        pytest.param(
            {"fairSharing": {"preemptionStrategies": [FINAL, INITIAL]}},
            {"fair": (FINAL, INITIAL)},
            id="fair sharing by both strategies",
        ),
        pytest.param(
            {"waitForPodsReady": {"timeout": "10s"}},
            {"pods_ready": PodsReady(10, 10)},
            id="pods may take as long to be ready again",
        ),
        pytest.param(
            {"waitForPodsReady": {"recoveryTimeout": "0s"}},
            {"pods_ready": PodsReady(recovery_timeout=None)},
            id="pods may take for ever to be ready again",
        ),
        pytest.param(
            {"waitForPodsReady": {"requeuingStrategy": {"backoffBaseSeconds": 0}}},
            {"pods_ready": PodsReady(backoff_base=0)},
            id="no rest before it queues up again",
        ),
        pytest.param(
            {"managedJobsNamespaceSelector": {}, "integrations": {"frameworks": ["batch/job"]}},
            {"namespaces": (), "frameworks": ("batch/job",)},
            id="jobs of all namespaces",
        ),
        pytest.param({"integrations": {"frameworks": []}}, {"frameworks": ()}, id="no kind of work"),
        pytest.param(
            {"resources": {"transformations": [{"input": "a.b/c"}]}},
            {"transformations": (Transformation("a.b/c", Resources()),)},
            id="a transformation that keeps its input",
        ),
        pytest.param({"objectRetentionPolicies": {"workloads": {}}}, {}, id="a policy that says nothing"),
        pytest.param(
            {"admissionFairSharing": {}},
            {"usage_sharing": UsageSharing(0, 300)},
            id="use is sampled every five minutes",
        ),
        pytest.param(
            {
                "admissionFairSharing": {
                    "usageHalfLifeTime": "168h",
                    "usageSamplingInterval": "10s",
                    "resourceWeights": {"memory": 1e-9, "cpu": 2.5},
                }
            },
            {"usage_sharing": UsageSharing(604800, 10, (("cpu", 25 * 10**11), ("memory", 1000)))},
            id="use is weighed by resource",
        ),
        pytest.param({"metrics": {}}, {}, id="metrics of all local queues"),
        pytest.param(
            {"metrics": {"enableClusterQueueResources": True, "localQueueMetrics": {"enable": False}}},
            {"metrics": QuotaMetrics(True, None)},
            id="metrics of no local queue, and what cluster queues have and use",
        ),
        pytest.param(
            {
                "metrics": {
                    "localQueueMetrics": {"enable": True, "localQueueSelector": {"matchLabels": {"told": "yes"}}}
                }
            },
            {"metrics": QuotaMetrics(local_queues=(Requirement("told", Operator.IN, ("yes",)),))},
            id="metrics of some local queues",
        ),
    ],
)
def test_what_is_not_said_is_as_by_default(document, expected):
    assert read(**document) == msgspec.structs.replace(QuotaSettings(**GATES), **expected)


@pytest.mark.parametrize(
    "document, path, expected",
    [
        pytest.param({"webhook": {}}, "", "object contains unknown field `webhook`", id="an unknown section"),
        pytest.param(
            {"admissionFairSharing": {"usageHalfLifeTime": "-1h"}},
            "admissionFairSharing.usageHalfLifeTime",
            "expected a duration of at least 0s, got '-1h'",
            id="a half-life below nothing",
        ),
        pytest.param(
            {"admissionFairSharing": {"resourceWeights": {"cpu": -1}}},
            "admissionFairSharing.resourceWeights.cpu",
            "expected a number of at least 0, got -1.0",
            id="a resource that weighs less than nothing",
        ),
        pytest.param(
            {"metrics": {"localQueueMetrics": {"enable": True, "localQueueSelector": {"labels": {}}}}},
            "metrics.localQueueMetrics.localQueueSelector.labels",
            "expected one of matchLabels, matchExpressions",
            id="local queues selected by what is no selector",
        ),
        pytest.param(
            {"waitForPodsReady": {"enable": True}},
            "waitForPodsReady",
            "object contains unknown field `enable`",
            id="an unknown field",
        ),
        pytest.param(
            {"waitForPodsReady": {"timeout": "soon"}},
            "waitForPodsReady.timeout",
            "expected a duration such as 90s, 1m30s or 2h, found 'soon'",
            id="a duration that is none",
        ),
        pytest.param(
            {"waitForPodsReady": {"timeout": "0s"}},
            "waitForPodsReady.timeout",
            "expected a duration above 0s, got '0s'",
            id="no time at all",
        ),
        pytest.param(
            {"waitForPodsReady": {"recoveryTimeout": "-1s"}},
            "waitForPodsReady.recoveryTimeout",
            "expected a duration of at least 0s, got '-1s'",
            id="less than no time",
        ),
        pytest.param(
            {"waitForPodsReady": {"requeuingStrategy": {"backoffLimitCount": -1}}},
            "waitForPodsReady.requeuingStrategy.backoffLimitCount",
            "expected `int` >= 0",
            id="fewer tries than none",
        ),
        pytest.param(
            {"waitForPodsReady": {"requeuingStrategy": {"timestamp": "Birth"}}},
            "waitForPodsReady.requeuingStrategy.timestamp",
            "invalid enum value 'Birth'",
            id="an unknown time",
        ),
        pytest.param(
            {"integrations": {"labelKeysToCopy": ["team", "not a key"]}},
            "integrations.labelKeysToCopy[1]",
            "expected the key of a label",
            id="a label that can be none",
        ),
        pytest.param(
            {"integrations": {"frameworks": ["statefulset"]}, "managedJobsNamespaceSelector": {}},
            "managedJobsNamespaceSelector",
            "expected a selector that leaves out headgate-system",
            id="pods of sets in all namespaces",
        ),
        pytest.param(
            {"integrations": {"frameworks": ["pod", "ray.io/rayjob"]}},
            "integrations.frameworks[1]",
            "expected one of batch/job, pod, deployment, statefulset, got 'ray.io/rayjob'",
            id="a framework we have no integration for",
        ),
        pytest.param(
            {"integrations": {"frameworks": ["pod", "pod"]}},
            "integrations.frameworks[1]",
            "expected a framework not listed before, got 'pod'",
            id="a framework twice",
        ),
        pytest.param(
            {"integrations": {"frameworks": ["pod"]}, "managedJobsNamespaceSelector": {"matchLabels": {}}},
            "managedJobsNamespaceSelector",
            "expected a selector that leaves out headgate-system, as the pod integration is on",
            id="pods of all namespaces",
        ),
        pytest.param(
            {"managedJobsNamespaceSelector": {"matchLables": {}}},
            "managedJobsNamespaceSelector.matchLables",
            "expected one of matchLabels, matchExpressions",
            id="a selector with a slip of the pen",
        ),
        pytest.param(
            {"managedJobsNamespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            "managedJobsNamespaceSelector",
            "matchExpressions[0]",
            id="a selector that is none",
        ),
        pytest.param(
            {"fairSharing": {"preemptionStrategies": [INITIAL, FINAL]}},
            "fairSharing.preemptionStrategies",
            "expected one of them, or LessThanOrEqualToFinalShare and then LessThanInitialShare, got "
            "LessThanInitialShare, LessThanOrEqualToFinalShare",
            id="strategies in an order without use",
        ),
        pytest.param(
            {"fairSharing": {"preemptionStrategies": ["Luck"]}},
            "fairSharing.preemptionStrategies[0]",
            "invalid enum value 'Luck'",
            id="an unknown strategy",
        ),
        pytest.param(
            {"resources": {"excludeResourcePrefixes": [""]}},
            "resources.excludeResourcePrefixes[0]",
            "expected a prefix, got nothing",
            id="a prefix of everything",
        ),
        pytest.param(
            {"resources": {"transformations": [{"input": "a"}, {"input": "a"}]}},
            "resources.transformations[1].input",
            "expected a resource not transformed before, got 'a'",
            id="a resource transformed twice",
        ),
        pytest.param(
            {"resources": {"transformations": [{"input": "a", "outputs": {"b": "much"}}]}},
            "resources.transformations[0].outputs.b",
            "'much' is not a quantity",
            id="an output that is no amount",
        ),
        pytest.param(
            {"resources": {"transformations": [{"input": "a", "strategy": "Keep"}]}},
            "resources.transformations[0].strategy",
            "invalid enum value 'Keep'",
            id="an unknown way to transform",
        ),
        pytest.param(
            {"objectRetentionPolicies": {"workloads": {"afterFinished": "1 day"}}},
            "objectRetentionPolicies.workloads.afterFinished",
            "expected a duration",
            id="a time to keep workloads that is none",
        ),
    ],
)
def test_a_mistake_is_told_where_it_stands(document, path, expected):
    with pytest.raises(InvalidConfiguration) as wrong:
        read(**document)
    assert wrong.value.path == path
    assert expected in wrong.value.expected
