"""Worker clusters, lists of them, and the section multiKueue of the configuration."""

from __future__ import annotations

import json

import pytest

from headgate.api.configuration import InvalidConfiguration, settings_from
from headgate.api.decode import InvalidObject, decode
from headgate.model.keys import Condition, Key, Kind
from headgate.model.queues import MultiKueueCluster, MultiKueueConfig
from headgate.model.settings import INCREMENTAL, MultiKueueSettings

METADATA = {"name": "worker1", "uid": "u", "resourceVersion": "7", "generation": 3}
CLUSTER, CONFIG = Key(Kind.MULTIKUEUE_CLUSTER, "", "worker1"), Key(Kind.MULTIKUEUE_CONFIG, "", "worker1")


def cluster(source: object, **status: object) -> MultiKueueCluster:
    document = {"metadata": METADATA, "spec": {"clusterSource": source}, "status": status}
    found = decode(Kind.MULTIKUEUE_CLUSTER, json.dumps(document).encode())
    assert isinstance(found, MultiKueueCluster)
    return found


@pytest.mark.parametrize(
    "source, secret, path",
    [
        pytest.param({"kubeConfig": {"location": "s", "locationType": "Secret"}}, "s", "", id="in a Secret"),
        pytest.param({"kubeConfig": {"location": "s"}}, "s", "", id="in a Secret where nothing else is said"),
        pytest.param({"kubeConfig": {"location": "/a/b", "locationType": "Path"}}, "", "/a/b", id="in a file"),
        pytest.param({"clusterProfileRef": {"name": "p"}}, "", "", id="in a ClusterProfile, which is nowhere"),
        pytest.param({}, "", "", id="nowhere"),
    ],
)
def test_a_worker_cluster_says_where_its_kubeconfig_is(source, secret, path):
    assert cluster(source) == MultiKueueCluster(CLUSTER, "u", "7", secret, path, generation=3)


def test_a_worker_cluster_says_whether_it_is_connected():
    active = {
        **{"type": "Active", "status": "False", "reason": "BadKubeConfig", "message": "m", "observedGeneration": 3},
        "lastTransitionTime": "1970-01-01T00:01:00Z",
    }
    found = cluster({"kubeConfig": {"location": "s"}}, conditions=[active])
    assert found.conditions == (Condition("Active", "False", "BadKubeConfig", "m", 60.0, 3),)


def test_a_list_of_worker_clusters_is_read_in_order_and_once():
    document = {"metadata": METADATA, "spec": {"clusters": ["b", "a", "b"], "quotaManagement": "Manual"}}
    found = decode(Kind.MULTIKUEUE_CONFIG, json.dumps(document).encode())
    assert found == MultiKueueConfig(CONFIG, "u", "7", ("b", "a"))


@pytest.mark.parametrize(
    "kind, spec, path",
    [
        pytest.param(
            Kind.MULTIKUEUE_CLUSTER,
            {"clusterSource": {"kubeConfig": {"location": "s", "locationType": "Vault"}}},
            "$.spec.clusterSource.kubeConfig.locationType",
            id="a place that does not exist",
        ),
        pytest.param(
            Kind.MULTIKUEUE_CLUSTER, {"clusterSource": {"kubeConfig": {}}}, "$.spec.clusterSource.kubeConfig", id="none"
        ),
        pytest.param(Kind.MULTIKUEUE_CONFIG, {"clusters": [1]}, "$.spec.clusters[0]", id="a cluster without a name"),
    ],
)
def test_what_cannot_be_read_is_named(kind, spec, path):
    with pytest.raises(InvalidObject) as refused:
        decode(kind, json.dumps({"metadata": METADATA, "spec": spec}).encode())
    assert refused.value.path == path


# the section of the configuration

EVERYTHING = {
    "gcInterval": "0s",
    "origin": "manager-1",
    "workerLostTimeout": "1h",
    "dispatcherName": INCREMENTAL,
    "incrementalDispatcherConfig": {"stepSize": 5},
    "singleClusterPreemptionTimeout": "30s",
    "proposalWindow": "0s",
    "kubeConfigDirectory": "/etc/workers",
}


def read(section: object, **others: object) -> MultiKueueSettings:
    return settings_from({"multiKueue": section, **others}, "f").multikueue


def test_without_the_section_the_defaults_hold():
    assert read(None) == read({}) == MultiKueueSettings()
    assert MultiKueueSettings().single_cluster_preemption_timeout == 300
    assert MultiKueueSettings().proposal_window == 1


def test_the_section_is_read_whole():
    everything = MultiKueueSettings("manager-1", 0.0, 3600.0, INCREMENTAL, 5, 30.0, 0.0, True, "/etc/workers")
    assert read(EVERYTHING) == everything
    assert set(EVERYTHING) == {  # a field that is added is tried here, too
        *("gcInterval", "origin", "workerLostTimeout", "dispatcherName", "incrementalDispatcherConfig"),
        *("singleClusterPreemptionTimeout", "proposalWindow", "kubeConfigDirectory"),
    }


def test_an_external_dispatcher_is_known_by_its_name():
    assert read({"dispatcherName": "example.com/cheapest"}).dispatcher == "example.com/cheapest"


def test_the_feature_gate_decides_whether_preemption_is_orchestrated():
    assert read({}, featureGates={"MultiKueueOrchestratedPreemption": False}).orchestrated is False
    assert read({}).orchestrated is True


@pytest.mark.parametrize(
    "section, said",
    [
        pytest.param(
            {"gcInterval": "soon"}, "multiKueue.gcInterval: expected a duration such as 90s", id="no duration"
        ),
        pytest.param({"gcInterval": "-1s"}, "multiKueue.gcInterval: expected a duration of at least 0s", id="negative"),
        pytest.param(
            {"workerLostTimeout": "-1m"}, "multiKueue.workerLostTimeout: expected a duration", id="lost before"
        ),
        pytest.param(
            {"singleClusterPreemptionTimeout": "0s"},
            "multiKueue.singleClusterPreemptionTimeout: expected a duration above 0s",
            id="no time to preempt",
        ),
        pytest.param(
            {"proposalWindow": "-1s"}, "multiKueue.proposalWindow: expected a duration", id="a negative window"
        ),
        pytest.param({"origin": "a b"}, "multiKueue.origin: expected the value of a label, got 'a b'", id="an origin"),
        pytest.param({"dispatcherName": "a/b/c"}, "multiKueue.dispatcherName: expected the name", id="a dispatcher"),
        pytest.param(
            {"kubeConfigDirectory": "etc"}, "multiKueue.kubeConfigDirectory: expected an absolute", id="a path"
        ),
        pytest.param(
            {"incrementalDispatcherConfig": {"stepSize": 0}},
            "multiKueue.incrementalDispatcherConfig.stepSize: ",
            id="steps of nothing",
        ),
        pytest.param({"gcIntervall": "1m"}, "multiKueue: object contains unknown field `gcIntervall`", id="misspelt"),
    ],
)
def test_what_is_wrong_with_the_section_is_named_with_the_fix(section, said):
    with pytest.raises(InvalidConfiguration) as refused:
        read(section)
    assert str(refused.value).startswith(f"f: {said}")
