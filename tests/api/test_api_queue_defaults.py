"""What the definitions of Kueue's kinds fill in is what reading takes for granted: both mean the same queue."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.api.decode import decode
from headgate.api.install_manifests import queue_definitions
from headgate.api.kinds import RESOURCES
from headgate.apiserver.apiextensions import resource_types_of
from headgate.model.keys import Kind

RULES = {definition["metadata"]["name"]: resource_types_of(definition)[0].rules for definition in queue_definitions()}
TEMPLATE = {"spec": {"containers": []}}


def test_every_kind_of_kueue_that_we_know_has_a_definition():
    assert sorted(RULES) == sorted(kind for kind in Kind if kind.endswith(".kueue.x-k8s.io"))


@pytest.mark.parametrize("definition", queue_definitions(), ids=lambda definition: definition["metadata"]["name"])
def test_a_definition_is_of_the_kind_we_ask_for(definition):
    resource, spec = RESOURCES[Kind(definition["metadata"]["name"])], definition["spec"]
    assert (spec["names"]["plural"], spec["names"]["kind"]) == (resource.plural, resource.kind_name)
    assert [version["name"] for version in spec["versions"]] == [resource.version]
    assert spec["scope"] == ("Namespaced" if resource.namespaced else "Cluster")


@pytest.mark.parametrize(
    "kind, rest",
    [
        pytest.param(Kind.CLUSTER_QUEUE, {"spec": {}}, id="a cluster queue"),
        pytest.param(
            Kind.CLUSTER_QUEUE,
            {"spec": {"preemption": {"borrowWithinCohort": {}}, "flavorFungibility": {}, "fairSharing": {}}},
            id="a cluster queue with empty policies",
        ),
        pytest.param(Kind.LOCAL_QUEUE, {"spec": {"clusterQueue": "cq", "fairSharing": {}}}, id="a local queue"),
        pytest.param(Kind.COHORT, {"spec": {"fairSharing": {}}}, id="a cohort"),
        pytest.param(Kind.RESOURCE_FLAVOR, {"spec": {}}, id="a flavor"),
        pytest.param(Kind.WORKLOAD_PRIORITY_CLASS, {"value": 1}, id="a priority class"),
        pytest.param(Kind.ADMISSION_CHECK, {"spec": {"controllerName": "a"}}, id="an admission check"),
        pytest.param(
            Kind.MULTIKUEUE_CLUSTER, {"spec": {"clusterSource": {"kubeConfig": {"location": "s"}}}}, id="a worker"
        ),
        pytest.param(Kind.KUEUE_WORKLOAD, {"spec": {"podSets": [{"template": TEMPLATE}]}}, id="a workload"),
    ],
)
def test_defaults_mean_nothing_new(kind: Kind, rest: dict[str, Any]) -> None:
    manifest = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Any", "metadata": {"name": "it"}, **rest}
    completed = RULES[kind].prepare_create(manifest)
    assert decode(kind, json.dumps(completed).encode()) == decode(kind, json.dumps(manifest).encode())
