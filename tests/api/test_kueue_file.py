"""Kueue's own configuration file is read: each field is applied, does not apply and is listed, or is refused."""

from itertools import groupby
from pathlib import Path

import pytest

from headgate.api.configuration import FEATURE_GATES, InvalidConfiguration, settings_from
from headgate.api.kueue_configuration import ALIASES, BUILT, FIELDS, NOT_BUILT, WITHOUT_EFFECT, Fate
from headgate.model.settings import DEFAULT_FAIR, PodsReady, QuotaRelease, Settings

QUEUES = Path(__file__).parents[2] / "docs" / "queues.md"
V1BETA1, V1BETA2 = "config.kueue.x-k8s.io/v1beta1", "config.kueue.x-k8s.io/v1beta2"
SHIPPED = {
    "health": {"healthProbeBindAddress": ":8081"},
    "metrics": {"bindAddress": ":8443", "enableClusterQueueResources": True},
    "webhook": {"port": 9443},
    "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
    "controller": {"groupKindConcurrency": {"Job.batch": 5, "Pod": 5, "Workload.kueue.x-k8s.io": 10}},
    "clientConnection": {"qps": 300, "burst": 500},
    "integrations": {"frameworks": ["batch/job", "pod", "deployment", "statefulset"]},
}
EXAMPLES = {
    "manageJobsWithoutQueueName": True,
    "managedJobsNamespaceSelector": {"matchLabels": {"team": "a"}},
    "featureGates": {"FailureRecoveryPolicy": True},
    "waitForPodsReady.timeout": "7m",
    "waitForPodsReady.blockAdmission": True,
    "waitForPodsReady.recoveryTimeout": "3m",
    "waitForPodsReady.requeuingStrategy": {"backoffLimitCount": 3},
    "integrations.frameworks": ["batch/job"],
    "integrations.labelKeysToCopy": ["example.com/team"],
    "fairSharing.preemptionStrategies": ["LessThanInitialShare"],
    "admissionFairSharing.usageHalfLifeTime": "1h",
    "admissionFairSharing.usageSamplingInterval": "1m",
    "admissionFairSharing.resourceWeights": {"cpu": 2},
    "resources.quotaCheckStrategy": "IgnoreUndeclared",
    "resources.excludeResourcePrefixes": ["example.com/"],
    "resources.transformations": [{"input": "a.io/b", "outputs": {"a.io/c": "2"}}],
    "objectRetentionPolicies.workloads": {"afterFinished": "1h"},
    "metrics.enableClusterQueueResources": True,
    "metrics.localQueueMetrics": {"enable": False},
    "multiKueue.gcInterval": "5m",
    "multiKueue.origin": "manager-1",
    "multiKueue.workerLostTimeout": "1h",
    "multiKueue.dispatcherName": "kueue.x-k8s.io/multikueue-dispatcher-incremental",
    "multiKueue.incrementalDispatcherConfig": {"stepSize": 5},
    "multiKueue.singleClusterPreemptionTimeout": "2m",
}
"""A value of each field that is applied which changes the settings."""
OLD = {"apiVersion", "kind", "waitForPodsReady.enable", "fairSharing.enable"}  # tried by tests of their own


def with_field(path, value, **rest):
    for name in reversed(path.split(".")):
        value = {name: value}
    return {"apiVersion": V1BETA2, "kind": "Configuration", **rest, **value}


def paths(fate):
    return [field.path for field in FIELDS if field.fate is fate]


@pytest.mark.parametrize("path", [path for path in paths(Fate.APPLIED) if path not in OLD])
def test_a_field_that_is_applied_changes_the_settings(path):
    read = settings_from(with_field(path, EXAMPLES[path]), "f")
    assert read != settings_from({}, "f")
    assert read == settings_from({path.split(".")[0]: with_field(path, EXAMPLES[path])[path.split(".")[0]]}, "f")
    assert read.not_applied == ()


@pytest.mark.parametrize("value", [1, "text", True, ["a"], {"a": "b"}])
@pytest.mark.parametrize("path", paths(Fate.NOT_APPLICABLE))
def test_a_field_that_does_not_apply_is_listed_and_changes_nothing(path, value):
    read = settings_from(with_field(path, value), "f")
    assert read.not_applied == (path,)
    assert read.quota == settings_from({}, "f").quota


@pytest.mark.parametrize("path", paths(Fate.REFUSED))
def test_a_field_that_is_refused_says_why_by_its_path(path):
    with pytest.raises(InvalidConfiguration, match=rf"^f: {path}: expected nothing, because .*$"):
        settings_from(with_field(path, ["something"]), "f")
    assert settings_from(with_field(path, []), "f").quota == settings_from({}, "f").quota


def test_a_file_as_kueue_ships_it_is_read_once_it_names_only_frameworks_that_are_built():
    read = settings_from({"apiVersion": V1BETA2, "kind": "Configuration", **SHIPPED}, "f")
    assert read.quota.metrics.cluster_queue_resources
    assert read.not_applied == (
        "health.healthProbeBindAddress",
        "metrics.bindAddress",
        "webhook.port",
        "leaderElection.leaderElect",
        "leaderElection.resourceName",
        "controller.groupKindConcurrency",
        "clientConnection.qps",
        "clientConnection.burst",
    )


@pytest.mark.parametrize(
    "document, path, expected",
    [
        pytest.param(
            {"webhook": {"prot": 1}}, "webhook.prot", "expected one of port, host, certDir", id="a misspelt port"
        ),
        pytest.param({"webhok": {}}, "", "unknown field `webhok`", id="a misspelt section"),
        pytest.param({"resources": {"exclude": []}}, "resources", "unknown field `exclude`", id="a misspelt field"),
        pytest.param(
            {"integrations": {"frameworks": ["batch/job", "ray.io/rayjob"]}},
            r"integrations.frameworks\[1\]",
            "expected one of .*, got 'ray.io/rayjob'",
            id="a framework that is not supported",
        ),
        pytest.param({"featureGates": {"Nonsense": True}}, "featureGates.Nonsense", "expected one of", id="no gate"),
        pytest.param({"apiVersion": "config.kueue.x-k8s.io/v1"}, "apiVersion", "expected .*v1beta1", id="no version"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(document, path, expected):
    with pytest.raises(InvalidConfiguration, match=f"^f: {path}.*{expected}"):
        settings_from({"apiVersion": V1BETA2, **document}, "f")


def test_a_file_of_our_own_has_no_fields_that_do_not_apply():
    with pytest.raises(InvalidConfiguration, match="unknown field `webhook`"):
        settings_from({"webhook": {"port": 9443}}, "f")


@pytest.mark.parametrize("value", [None, {}])
@pytest.mark.parametrize("section", ["webhook", "leaderElection", "controller", "multiKueue", "tls"])
def test_a_section_that_says_nothing_is_passed_over(section, value):
    assert settings_from({"apiVersion": V1BETA2, section: value}, "f") == settings_from({}, "f")


# feature gates


@pytest.mark.parametrize("gate", BUILT)
def test_a_gate_that_decisions_are_made_with_cannot_be_turned_off(gate):
    assert settings_from(with_field("featureGates", {gate: True}), "f") == settings_from({}, "f")
    with pytest.raises(InvalidConfiguration, match=f"featureGates.{gate}: expected true"):
        settings_from(with_field("featureGates", {gate: False}), "f")


@pytest.mark.parametrize("gate", NOT_BUILT)
def test_a_gate_of_what_is_not_built_cannot_be_turned_on(gate):
    assert settings_from(with_field("featureGates", {gate: False}), "f") == settings_from({}, "f")
    with pytest.raises(InvalidConfiguration, match=f"featureGates.{gate}: expected false"):
        settings_from(with_field("featureGates", {gate: True}), "f")


@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("gate", WITHOUT_EFFECT)
def test_a_gate_without_effect_is_listed(gate, state):
    assert settings_from(with_field("featureGates", {gate: state}), "f").not_applied == (f"featureGates.{gate}",)


def test_no_gate_is_named_twice():
    everywhere = [*BUILT, *NOT_BUILT, *WITHOUT_EFFECT, *ALIASES, *FEATURE_GATES]
    assert len(everywhere) == len(set(everywhere))


def test_fast_release_is_known_by_kueues_name():
    read = settings_from(with_field("featureGates", {"FastQuotaReleaseInPodIntegration": False}), "f")
    assert read.quota.quota_release is QuotaRelease.GRACE


def test_waiting_for_pods_can_be_turned_off():
    read = settings_from(with_field("featureGates", {"DisableWaitForPodsReady": True}), "f").quota
    assert (read.pods_ready, read.block_admission) == (PodsReady(None, None), False)


# v1beta1


def old(**document):
    return settings_from({"apiVersion": V1BETA1, **document}, "f").quota


@pytest.mark.parametrize("section", [None, {}, {"enable": False, "timeout": "7m"}])
def test_in_v1beta1_pods_are_waited_for_only_if_that_is_enabled(section):
    assert old(waitForPodsReady=section).pods_ready == PodsReady(None, None)
    assert old().pods_ready == PodsReady(None, None)


def test_in_v1beta1_waiting_for_pods_has_defaults_of_its_own():
    read = old(waitForPodsReady={"enable": True})
    assert (read.pods_ready.timeout, read.pods_ready.recovery_timeout, read.block_admission) == (300.0, 300.0, True)
    assert old(waitForPodsReady={"enable": True, "blockAdmission": False, "timeout": "7m"}).pods_ready.timeout == 420.0


def test_in_v1beta1_fair_sharing_is_on_only_if_it_is_enabled():
    assert old(fairSharing={"enable": True}).fair == DEFAULT_FAIR
    assert old(fairSharing={"enable": False, "preemptionStrategies": ["LessThanInitialShare"]}).fair == ()


def test_v1beta2_has_no_such_field():
    with pytest.raises(InvalidConfiguration, match=r"fairSharing: .*unknown field `enable`"):
        settings_from({"apiVersion": V1BETA2, "fairSharing": {"enable": True}}, "f")


# the table that users see


def rows():
    """As docs/queues.md shows them: the fields of one section that share their fate."""
    for (section, fate, why), fields in groupby(FIELDS, lambda one: (one.path.rpartition(".")[0], one.fate, one.why)):
        names = ", ".join(f"`{one.path.rpartition('.')[2]}`" for one in fields)
        yield f"| {f'`{section}`' if section else ''} | {names} | {fate.value}{f': {why}' if why else ''} |"


@pytest.mark.parametrize("row", list(rows()))
def test_the_document_shows_what_becomes_of_each_field(row):
    assert row in QUEUES.read_text().splitlines()


@pytest.mark.parametrize("gate", [*BUILT, *NOT_BUILT])
def test_the_document_names_the_gates_that_are_fixed(gate):
    assert f"`{gate}`" in QUEUES.read_text()


def test_settings_by_default_list_nothing():
    assert Settings().not_applied == ()
