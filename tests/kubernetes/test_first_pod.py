"""A pod on a real cluster: bound when there is room, told why when there is none, bound when room comes."""

from __future__ import annotations

from children import eventually
from cluster import Cluster
from conftest import Start
from objects import create_nodes, create_pods, node, pod, pods_path
from watching import PodWatch
from wire import JSON_PATCH, Client


async def test_a_pod_is_bound_and_says_so(
    cluster: Cluster, client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    await create_nodes(client, [node("first")])
    start("--no-leader-elect")
    await create_pods(client, namespace, [pod("hello")])

    await pods.until("the pod is bound", lambda: pods.node_of("hello") == "first")

    scheduled = pods.pods["hello"].condition("PodScheduled")
    assert scheduled is not None
    assert scheduled.status == "True"
    described = eventually("kubectl describe shows the event", lambda: _scheduled_event(cluster, namespace, "hello"))
    assert f"Successfully assigned {namespace}/hello to first" in described


async def test_a_pod_without_room_says_why_and_is_bound_when_a_node_comes(
    client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    await create_nodes(client, [node("small", cpu="1")])
    start("--no-leader-elect")
    await create_pods(client, namespace, [pod("big", cpu="2")])

    await pods.until("the pod is told why it waits", lambda: _reason(pods, "big") == "Unschedulable")
    scheduled = pods.pods["big"].condition("PodScheduled")
    assert scheduled is not None
    assert scheduled.status == "False"
    assert scheduled.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")

    await create_nodes(client, [node("large", cpu="4")])
    await pods.until("the pod is bound to the new node", lambda: pods.node_of("big") == "large")


async def test_a_pod_behind_another_partys_gate_is_left_alone_until_the_gate_is_gone(
    client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    await create_nodes(client, [node("first")])
    gated = pod("gated", schedulingGates=[{"name": "example.com/not-yet"}])
    await create_pods(client, namespace, [gated])
    start("--no-leader-elect")
    await create_pods(client, namespace, [pod("later")])

    await pods.until("a pod created later is bound", lambda: pods.node_of("later") == "first")
    assert pods.node_of("gated") == ""
    assert pods.pods["gated"].spec.schedulingGates == [{"name": "example.com/not-yet"}]

    off = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    await client.patch(f"{pods_path(namespace)}/gated", off, JSON_PATCH)
    await pods.until("the pod is bound", lambda: pods.node_of("gated") == "first")


async def test_an_administrators_kubeconfig_and_a_bare_cluster_are_enough(
    cluster: Cluster, client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    await create_nodes(client, [node("first")])
    await create_pods(client, namespace, [pod("hello")])
    start(kubeconfig=cluster.administrator)
    await pods.until("the pod is bound", lambda: pods.node_of("hello") == "first")


async def test_pods_of_other_schedulers_are_left_alone(
    client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    await create_nodes(client, [node("first")])
    await create_pods(client, namespace, [pod("theirs", scheduler="default-scheduler")])
    start("--no-leader-elect")
    await create_pods(client, namespace, [pod("ours")])
    await pods.until("our pod is bound", lambda: pods.node_of("ours") == "first")
    assert pods.node_of("theirs") == ""
    assert pods.pods["theirs"].condition("PodScheduled") is None


def _reason(pods: PodWatch, name: str) -> str:
    condition = pods.pods[name].condition("PodScheduled") if name in pods.pods else None
    return condition.reason if condition else ""


def _scheduled_event(cluster: Cluster, namespace: str, name: str) -> str | None:
    described = cluster.kubectl("describe", "pod", name, f"--namespace={namespace}")
    return described if "Scheduled" in described.partition("Events:")[2] else None
