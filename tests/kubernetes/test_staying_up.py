"""Our process through leader changes and outages of the API server, with its own rights and no more."""

from __future__ import annotations

import json

import pytest
from children import eventually
from cluster import OWN_ACCOUNT, OWN_NAMESPACE, Cluster
from conftest import Start
from objects import create_nodes, create_pods, node, pod
from ours import OurProcess
from watching import PodWatch
from wire import Client

ELECTED = ("--lease-namespace", OWN_NAMESPACE)


async def test_one_of_two_leads_and_hands_over_when_it_is_stopped(
    cluster: Cluster, client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    await create_nodes(client, [node("first")])
    leader = start(*ELECTED)
    await create_pods(client, namespace, [pod("one")])
    await pods.until("the leader binds", lambda: pods.node_of("one") == "first")
    first_holder = lease_holder(cluster)
    standby = start(*ELECTED)
    eventually("the standby waits for its turn", lambda: standby.answers("/healthz"))
    assert lease_holder(cluster) == first_holder

    leader.terminate()
    assert leader.wait() == 0
    assert lease_holder(cluster) != first_holder, "it is given up, not left to expire"
    await create_pods(client, namespace, [pod("two")])

    await pods.until("the standby took over", lambda: pods.node_of("two") == "first")
    assert lease_holder(cluster) not in ("", first_holder)


async def test_work_resumes_after_an_outage_that_is_told_once(
    cluster: Cluster, client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    await create_nodes(client, [node("first", cpu="1")])
    process = start("--no-leader-elect")
    await create_pods(client, namespace, [pod("before")])
    await pods.until("the first pod is bound", lambda: pods.node_of("before") == "first")
    await create_pods(client, namespace, [pod("waiting", cpu="1")])
    await pods.until("the second is told to wait", lambda: is_told(pods, "waiting"))

    with cluster.outage():
        eventually("the outage is told", lambda: outages(process, "retrying"))

    async with Client(cluster.server) as again:
        await create_nodes(again, [node("second", cpu="4")])
        await create_pods(again, namespace, [pod("after")])
    await pods.until("a pod created afterwards is bound", lambda: pods.node_of("after") != "")
    await pods.until("the pod that waited is bound", lambda: pods.node_of("waiting") == "second")
    assert process.running
    assert len(outages(process, "retrying")) == 1, "an outage is told once"
    eventually("all watches are back, and that is told", lambda: outages(process, "recovered"))
    assert len(outages(process, "recovered")) == 1
    assert "Traceback" not in process.written()


async def test_a_cluster_that_is_not_there_yet_is_waited_for(
    cluster: Cluster, client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    await create_nodes(client, [node("first")])
    await create_pods(client, namespace, [pod("hello")])
    with cluster.outage():
        process = start("--no-leader-elect")
        eventually("the outage is told", lambda: outages(process, "retrying"))
        assert not process.answers("/readyz")
    await pods.until("the pod is bound", lambda: pods.node_of("hello") == "first")
    eventually("our process is ready", lambda: process.answers("/readyz"))


@pytest.mark.parametrize(
    "verb, resource, allowed",
    [
        pytest.param("create", "pods/binding", True, id="it may bind pods"),
        pytest.param("patch", "pods/status", True, id="it may say why a pod waits"),
        pytest.param("watch", "nodes", True, id="it may watch nodes"),
        pytest.param("create", "events.events.k8s.io", True, id="it may record events"),
        pytest.param("patch", "pods", True, id="it may take gates off pods"),
        pytest.param("create", "pods", False, id="it may not create pods"),
        pytest.param("delete", "pods", True, id="it may ask pods to leave"),
        pytest.param("get", "secrets", False, id="it may not read secrets"),
        pytest.param("patch", "nodes", False, id="it may not change nodes"),
        pytest.param("update", "leases.coordination.k8s.io", False, id="it may not take others' leases"),
    ],
)
def test_rights(cluster: Cluster, own_account: object, verb: str, resource: str, allowed: bool) -> None:
    """That they are enough is shown by every other test: our process runs with these rights in all of them."""
    ourselves = f"system:serviceaccount:{OWN_NAMESPACE}:{OWN_ACCOUNT}"
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": ourselves, "resourceAttributes": attributes(verb, resource)},
    }
    answer = json.loads(cluster.kubectl("create", "--filename=-", "--output=json", text=json.dumps(review)))
    assert answer["status"]["allowed"] is allowed


def attributes(verb: str, resource: str) -> dict[str, str]:
    plural, _, group = resource.partition(".")
    plural, _, subresource = plural.partition("/")
    return {"namespace": "default", "verb": verb, "resource": plural, "subresource": subresource, "group": group}


def lease_holder(cluster: Cluster) -> str:
    shown = cluster.kubectl("get", "lease", "headgate", f"--namespace={OWN_NAMESPACE}", "--output=json")
    return str(json.loads(shown)["spec"].get("holderIdentity", ""))


def is_told(pods: PodWatch, name: str) -> bool:
    return name in pods.pods and pods.pods[name].condition("PodScheduled") is not None


def outages(process: OurProcess, words: str) -> list[str]:
    """What it said about the API server as a whole."""
    return [line for line in process.written().splitlines() if "API server http" in line and words in line]
