"""Where each kind is served."""

from __future__ import annotations

import pytest

from headgate.api.decode import READABLE
from headgate.api.kinds import RESOURCES, collection_path, collection_paths, object_path
from headgate.model.keys import Key, Kind


@pytest.mark.parametrize(
    "kind, namespace, path",
    [
        pytest.param(Kind.POD, "", "/api/v1/pods", id="pods of all namespaces"),
        pytest.param(Kind.POD, "team", "/api/v1/namespaces/team/pods", id="pods of one namespace"),
        pytest.param(Kind.NODE, "", "/api/v1/nodes", id="nodes are cluster-wide"),
        pytest.param(Kind.NODE, "team", "/api/v1/nodes", id="a namespace means nothing to nodes"),
        pytest.param(Kind.NAMESPACE, "", "/api/v1/namespaces", id="namespaces are cluster-wide"),
        pytest.param(Kind.JOB, "team", "/apis/batch/v1/namespaces/team/jobs", id="jobs have a group"),
        pytest.param(
            Kind.PRIORITY_CLASS,
            "",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            id="priority classes are cluster-wide",
        ),
        pytest.param(
            Kind.DISRUPTION_BUDGET, "", "/apis/policy/v1/poddisruptionbudgets", id="budgets of all namespaces"
        ),
    ],
)
def test_collection_path(kind, namespace, path):
    assert collection_path(RESOURCES[kind], namespace) == path


@pytest.mark.parametrize(
    "key, subresource, path",
    [
        pytest.param(Key(Kind.POD, "d", "a"), "", "/api/v1/namespaces/d/pods/a", id="a pod"),
        pytest.param(Key(Kind.POD, "d", "a"), "binding", "/api/v1/namespaces/d/pods/a/binding", id="its binding"),
        pytest.param(Key(Kind.NODE, "", "n"), "status", "/api/v1/nodes/n/status", id="a node's status"),
        pytest.param(Key(Kind.NAMESPACE, "", "d"), "", "/api/v1/namespaces/d", id="a namespace"),
        pytest.param(Key(Kind.JOB, "d", "j"), "", "/apis/batch/v1/namespaces/d/jobs/j", id="a job"),
        pytest.param(
            Key(Kind.WORKLOAD, "d", "w"),
            "status",
            "/apis/scheduling.headgate.dev/v1alpha1/namespaces/d/workloads/w/status",
            id="a workload's status",
        ),
    ],
)
def test_object_path(key, subresource, path):
    assert object_path(key, subresource) == path


@pytest.mark.parametrize(
    "kind, paths",
    [
        pytest.param(Kind.POD, ("/api/v1/pods",), id="pods are served in one version"),
        pytest.param(
            Kind.POD_GROUP,
            ("/apis/scheduling.k8s.io/v1beta1/podgroups", "/apis/scheduling.k8s.io/v1alpha2/podgroups"),
            id="pod groups in two, of which the newer comes first",
        ),
        pytest.param(
            Kind.VOLCANO_POD_GROUP,
            ("/apis/scheduling.volcano.sh/v1beta1/podgroups",),
            id="Volcano's pod groups in one",
        ),
    ],
)
def test_collection_paths(kind, paths):
    assert collection_paths(RESOURCES[kind]) == paths


GROUPS = (Kind.WORKLOAD, Kind.POD_GROUP, Kind.VOLCANO_POD_GROUP)
OF_KUEUE = tuple(kind for kind in Kind if kind.endswith(".kueue.x-k8s.io"))


@pytest.mark.parametrize("kind", (*GROUPS, *OF_KUEUE))
def test_a_server_need_not_know_what_describes_groups_and_queues(kind):
    assert RESOURCES[kind].optional


def test_all_kinds_can_be_read():
    assert set(READABLE) == set(Kind)


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_is_served_under_its_own_name(kind):
    resource = RESOURCES[kind]
    assert resource.kind is kind
    assert kind.value == (f"{resource.plural}.{resource.group}" if resource.group else resource.plural)
