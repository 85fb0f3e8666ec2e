"""Priorities of the system on a real cluster: the policy we install keeps them to the namespaces that may have them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from assets import program
from children import eventually
from cluster import Cluster
from installing import install

KUEUE, OURS = "kueue.x-k8s.io/v1beta2", "scheduling.headgate.dev/v1alpha1"
GROUPS = [{"name": "workers", "policy": {"gang": {"minCount": 1}}}]
POD = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
POD_SETS = [{"name": "main", "count": 1, "template": {"spec": POD}}]
QUEUED = {"kueue.x-k8s.io/queue-name": "q"}
SYSTEM = "system-node-critical"
VOLCANO = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.volcano.sh"},
    "spec": {
        "group": "scheduling.volcano.sh",
        "scope": "Namespaced",
        "names": {"plural": "podgroups", "kind": "PodGroup"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def ours(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": OURS, "kind": "Workload", "spec": {"podGroups": GROUPS, **spec}}


def of_kueue(boost: str = "", **spec: Any) -> dict[str, Any]:
    notes = {"annotations": {"kueue.x-k8s.io/priority-boost": boost}} if boost else {}
    return {"apiVersion": KUEUE, "kind": "Workload", "metadata": notes, "spec": {"podSets": POD_SETS, **spec}}


def reference(kind: str, group: str, name: str) -> dict[str, str]:
    return {"kind": kind, "group": group, "name": name}


def job(labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    template = {"spec": {**POD, **spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"labels": labels}, "spec": {"template": template}}


def of_volcano(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "spec": {"minMember": 1, **spec}}


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> None:
    cluster.define(VOLCANO)
    install(cluster, "--system-class-namespaces", "kube-system,storage")
    cluster.kubectl("create", "namespace", "storage")
    eventually("the policy is enforced as it was installed", lambda: all(enforced(cluster)))


def enforced(cluster: Cluster) -> Iterator[bool]:
    """Whether each thing that reaches the server on its own way is there.

    A policy and a binding that other modules installed, for other kinds and namespaces, may be enforced until then.
    """
    critical = ours(priorityClassName=SYSTEM)
    yield REFUSED in create(cluster, "default", critical)
    yield create(cluster, "storage", critical) == ""
    yield REFUSED in create(cluster, "default", job(QUEUED, priorityClassName=SYSTEM))
    yield REFUSED in create(cluster, "default", of_volcano(priorityClassName=SYSTEM))
    yield REFUSED in create(cluster, "default", of_kueue(priority=5, priorityClassRef=CRITICAL))
    yield TOO_HIGH in create(cluster, "default", of_kueue(priority=2_000_000_000))


def create(cluster: Cluster, namespace: str, thing: dict[str, Any], kubeconfig: Path | None = None) -> str:
    """Why it was refused; empty if it was not. Nothing is stored."""
    named = {**thing, "metadata": {"name": "a", "namespace": namespace, **thing.get("metadata", {})}}
    access = f"--kubeconfig={kubeconfig or cluster.administrator}"
    command = [str(program("kubectl")), access, "create", "--dry-run=server", "--filename=-"]
    done = subprocess.run(command, input=json.dumps(named), capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


REFUSED = f"PriorityClass {SYSTEM} may not be used in namespace default"
TOO_HIGH = "spec.priority: may not be above"
CRITICAL = reference("PriorityClass", "scheduling.k8s.io", SYSTEM)
SAME_NAME = reference("WorkloadPriorityClass", "kueue.x-k8s.io", SYSTEM)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "namespace, thing, said",
    [
        pytest.param("default", ours(), "", id="a Workload without a class"),
        pytest.param("default", ours(priorityClassName="my-system-class"), "", id="a class of users"),
        pytest.param("default", ours(priorityClassName=SYSTEM), REFUSED, id="a class of the system"),
        pytest.param("default", ours(preemptionPriorityClassName=SYSTEM), REFUSED, id="a class that protects"),
        pytest.param("kube-system", ours(priorityClassName=SYSTEM), "", id="where the system is"),
        pytest.param("storage", ours(priorityClassName=SYSTEM), "", id="where it was allowed"),
        pytest.param("default", of_kueue(priority=5, priorityClassRef=CRITICAL), REFUSED, id="a Workload of Kueue"),
        pytest.param(
            "default", of_kueue(priority=5, priorityClassRef=SAME_NAME), "", id="a WorkloadPriorityClass of that name"
        ),
        pytest.param("default", of_kueue(priority=2_000_000_000), TOO_HIGH, id="a number"),
        pytest.param("default", of_volcano(priorityClassName=SYSTEM), REFUSED, id="a PodGroup of Volcano"),
        pytest.param("default", of_volcano(), "", id="a PodGroup without a class"),
        pytest.param("default", job(QUEUED, priorityClassName=SYSTEM), REFUSED, id="a Job in a queue"),
        pytest.param("default", job({}, priorityClassName=SYSTEM), "", id="a Job in none, whose pods are asked"),
    ],
)
def test_who_may_name_classes_of_the_system(cluster: Cluster, namespace: str, thing: dict[str, Any], said: str) -> None:
    refused = create(cluster, namespace, thing)
    assert (said in refused) if said else not refused, refused


TENANT = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: kueue-workload-writer}
rules:
- {apiGroups: [kueue.x-k8s.io], resources: [workloads], verbs: [create, update, patch, get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kueue-workload-writer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kueue-workload-writer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: a-tenant}]
"""


@pytest.mark.usefixtures("installed")
def test_only_who_may_boost_raises_a_priority(cluster: Cluster) -> None:
    cluster.kubectl("apply", "--filename=-", text=TENANT)
    tenant = cluster.kubeconfig_of_user("a-tenant", "tenants")
    said = "only who may boost workloads.kueue.x-k8s.io raises a priority"
    eventually("the tenant may write", lambda: create(cluster, "default", of_kueue(), tenant) == "")
    assert said in create(cluster, "default", of_kueue(boost="5"), tenant)
    assert create(cluster, "default", of_kueue(boost="-5"), tenant) == ""
    assert create(cluster, "default", of_kueue(boost="5")) == "", "an administrator may do everything"


@pytest.mark.usefixtures("installed")
def test_what_was_there_before_the_policy_can_still_be_changed_and_deleted(cluster: Cluster) -> None:
    finalized = {"name": "old", "namespace": "default", "finalizers": ["example.com/kept"]}
    old = {**ours(priorityClassName=SYSTEM), "metadata": finalized}
    try:
        cluster.kubectl("delete", "validatingadmissionpolicybinding", "headgate-priorities")
        eventually("it is stored", lambda: stored(cluster, old))
    finally:
        install(cluster)
    eventually("the policy is back", lambda: REFUSED in create(cluster, "default", ours(priorityClassName=SYSTEM)))
    which = ("workloads.scheduling.headgate.dev", "old", "--namespace=default")
    cluster.kubectl("label", *which, "touched=yes")
    cluster.kubectl("delete", *which, "--wait=false")
    cluster.kubectl("patch", *which, "--type=merge", "--patch", '{"metadata": {"finalizers": []}}')


def stored(cluster: Cluster, thing: dict[str, Any]) -> bool:
    try:
        cluster.kubectl("create", "--filename=-", text=json.dumps(thing))
    except AssertionError:
        return False
    return True
