"""The queue-allocation gate on a real kube-apiserver: what the queue allows is bound or shown to autoscalers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from children import eventually, free_port
from cluster import OWN_NAMESPACE, Cluster
from conftest import Start
from installing import wait_until_asked, webhooks_installed
from objects import Manifest, create_nodes, create_pods, node, pod, pods_path
from watching import PodWatch
from wire import JSON_PATCH, Client

from headgate.api.install_manifests import volcano_definitions
from headgate.model.volcano import QUEUE_GATE

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


@pytest.fixture(scope="module")
def served(cluster: Cluster) -> None:
    """The server has Volcano's kinds as `headgate install --volcano` leaves them."""
    cluster.define(*volcano_definitions())


@pytest.fixture
async def queue(client: Client, namespace: str, served: None) -> AsyncIterator[str]:
    """A queue with one place."""
    name = f"queue-{namespace}"
    await client.create(QUEUES, queue_manifest(name, "1"))
    yield name
    await client.delete(f"{QUEUES}/{name}")


def queue_manifest(name: str, cpu: str, **spec: Any) -> Manifest:
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return {**kind, "metadata": {"name": name}, "spec": {"capability": {"cpu": cpu}, **spec}}


def gated(name: str, queue: str, **spec: Any) -> Manifest:
    """As the webhook leaves a pod that asked for the gate."""
    made = pod(name, "1", schedulingGates=[{"name": QUEUE_GATE}], **spec)
    made["metadata"]["annotations"] = {QUEUE_GATE: "true", "scheduling.volcano.sh/queue-name": queue}
    return made


def reason(pods: PodWatch, name: str) -> str:
    condition = pods.pods[name].condition("PodScheduled") if name in pods.pods else None
    return condition.reason if condition else ""


def gates(pods: PodWatch, name: str) -> list[str]:
    return [gate["name"] for gate in pods.pods[name].spec.schedulingGates or ()]


async def test_three_pods_and_one_place_in_their_queue(
    cluster: Cluster, client: Client, namespace: str, pods: PodWatch, queue: str, start: Start
) -> None:
    await create_nodes(client, [node("plain")])
    start("--no-leader-elect")
    await create_pods(client, namespace, [gated("pod-1", queue)])
    await pods.until("the first pod is bound", lambda: pods.node_of("pod-1") == "plain")
    assert gates(pods, "pod-1") == []

    await create_pods(client, namespace, [gated("pod-2", queue, nodeSelector={"gpu": "yes"})])
    said = f"waiting for queue capacity: queue {queue} has cpu 1, and cpu 1 is in use or reserved; requested cpu 1"
    await pods.until("the second waits for its queue", lambda: _message(pods, "pod-2") == said)
    assert reason(pods, "pod-2") == "SchedulingGated"
    await create_pods(client, namespace, [gated("pod-3", queue)])
    await pods.until("and the third", lambda: _message(pods, "pod-3") == said)

    await client.patch(f"{pods_path(namespace)}/pod-1/status", {"status": {"phase": "Succeeded"}})
    await pods.until("no node fits the second", lambda: reason(pods, "pod-2") == "Unschedulable")
    assert gates(pods, "pod-2") == []
    assert gates(pods, "pod-3") == [QUEUE_GATE]
    assert reason(pods, "pod-3") == "SchedulingGated"
    eventually("the queue shows the reservation", lambda: _reserved(cluster, queue) == "1")

    bought = node("bought", cpu="1")
    bought["metadata"]["labels"]["gpu"] = "yes"
    await create_nodes(client, [bought])
    await pods.until("the second gets the node that was brought for it", lambda: pods.node_of("pod-2") == "bought")
    assert gates(pods, "pod-3") == [QUEUE_GATE]

    await client.patch(f"{pods_path(namespace)}/pod-2/status", {"status": {"phase": "Succeeded"}})
    await pods.until("then the third runs", lambda: pods.node_of("pod-3") in ("plain", "bought"))


async def test_a_gate_of_somebody_else_comes_first(
    client: Client, namespace: str, pods: PodWatch, queue: str, start: Start
) -> None:
    await create_nodes(client, [node("plain")])
    held = gated("held", queue)
    held["spec"]["schedulingGates"].insert(0, {"name": "example.com/theirs"})
    await create_pods(client, namespace, [held])
    start("--no-leader-elect")
    await create_pods(client, namespace, [gated("other", queue)])
    await pods.until("the other one is bound", lambda: pods.node_of("other") == "plain")
    assert gates(pods, "held") == ["example.com/theirs", QUEUE_GATE]

    await client.patch(f"{pods_path(namespace)}/other/status", {"status": {"phase": "Succeeded"}})
    off = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    await client.patch(f"{pods_path(namespace)}/held", off, JSON_PATCH)
    await pods.until("it is bound", lambda: pods.node_of("held") == "plain")


async def test_a_gang_is_let_go_whole_or_not_at_all(
    cluster: Cluster, client: Client, namespace: str, pods: PodWatch, queue: str, start: Start
) -> None:
    """The queue and the one above it grow; what no node fits is let go when both have capacity for all of it."""
    names, below = [f"train-{number}" for number in range(3)], f"{queue}-below"
    await client.create(QUEUES, queue_manifest(below, "3", parent=queue))
    groups = QUEUES.replace("queues", f"namespaces/{namespace}/podgroups")
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "train"}}
    await client.create(groups, {**kind, "spec": {"minMember": 3, "queue": below}})
    start("--no-leader-elect")
    members = [gated(name, below) for name in names]
    for each in members:
        each["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "train"
    await create_pods(client, namespace, members)
    for capability in ("1", "2"):
        await client.patch(f"{QUEUES}/{queue}", {"spec": {"capability": {"cpu": capability}}})
        await pods.until(
            f"the level above has {capability}",
            lambda capability=capability: all(f"has cpu {capability}" in _message(pods, name) for name in names),
        )
        assert {reason(pods, name) for name in names} == {"SchedulingGated"}
        assert [gates(pods, name) for name in names] == [[QUEUE_GATE]] * 3

    await client.patch(f"{QUEUES}/{queue}", {"spec": {"capability": {"cpu": "3"}}})
    await pods.until(
        "all of it is shown to autoscalers", lambda: all(reason(pods, name) == "Unschedulable" for name in names)
    )
    assert [gates(pods, name) for name in names] == [[]] * 3
    eventually(
        "both levels show the reservation", lambda: _reserved(cluster, queue) == _reserved(cluster, below) == "3"
    )
    await create_nodes(client, [node("bought", cpu="2")])
    await create_nodes(client, [node("more", cpu="1")])
    await pods.until("all of it is bound", lambda: all(pods.node_of(name) for name in names))
    await client.delete(f"{QUEUES}/{below}")


async def test_turning_the_feature_off_removes_every_gate_of_ours_and_none_of_others(
    client: Client, namespace: str, pods: PodWatch, queue: str, start: Start, tmp_path: Path
) -> None:
    await create_nodes(client, [node("plain")])
    first = start("--no-leader-elect")
    await create_pods(client, namespace, [gated("a-runs", queue)])
    await pods.until("the queue is full", lambda: pods.node_of("a-runs") == "plain")
    others = {
        "b-waits": [QUEUE_GATE],
        "c-short": ["volcano.sh/queue-allocation-gate"],
        "d-held": ["example.com/theirs", QUEUE_GATE, "example.com/more"],
        "e-theirs": ["example.com/theirs"],
    }
    for name, held in others.items():
        made = gated(name, queue)
        made["spec"]["schedulingGates"] = [{"name": gate} for gate in held]
        await create_pods(client, namespace, [made])
    await pods.until("they wait", lambda: {"e-theirs", "c-short"} <= pods.pods.keys())
    await pods.until("and are told why", lambda: "in use or reserved" in _message(pods, "c-short"))
    assert {name: gates(pods, name) for name in others} == others
    first.stop()

    config = tmp_path / "off.yaml"
    config.write_text("featureGates: {SchedulingGatesQueueAdmission: false}")
    start("--no-leader-elect", "--config", str(config))

    released = {"b-waits": [], "c-short": [], "d-held": ["example.com/theirs", "example.com/more"]}
    await pods.until("no gate of ours is left", lambda: {name: gates(pods, name) for name in released} == released)
    assert gates(pods, "e-theirs") == ["example.com/theirs"]
    await pods.until("the queue limits them as before", lambda: reason(pods, "b-waits") != "")
    assert pods.node_of("b-waits") == ""
    await client.patch(f"{pods_path(namespace)}/a-runs/status", {"status": {"phase": "Succeeded"}})
    await pods.until("the next one runs", lambda: pods.node_of("b-waits") == "plain")


@pytest.fixture
def installed(cluster: Cluster, served: None) -> Iterator[int]:
    """The port on which our process is to answer about new pods; afterwards nobody is asked any more."""
    port = free_port()
    with webhooks_installed(cluster, port, "--volcano", "--no-queues"):
        yield port


async def test_one_process_gates_pods_and_lets_them_go(
    cluster: Cluster, client: Client, namespace: str, pods: PodWatch, queue: str, installed: int, start: Start
) -> None:
    await create_nodes(client, [node("plain")])
    flags = ("--no-queues", "--no-leader-elect", "--lease-namespace", OWN_NAMESPACE)
    wait_until_asked(cluster, start("--webhook-listen", f"127.0.0.1:{installed}", *flags))
    asking = gated("first", queue)
    del asking["spec"]["schedulingGates"]
    answer = await client.create(pods_path(namespace), asking)
    assert answer.value["spec"]["schedulingGates"] == [{"name": QUEUE_GATE}]
    await pods.until("the first pod is bound", lambda: pods.node_of("first") == "plain")

    asking["metadata"]["name"] = "second"
    await create_pods(client, namespace, [asking])
    await pods.until("the second waits for its queue", lambda: "in use or reserved" in _message(pods, "second"))
    assert gates(pods, "second") == [QUEUE_GATE]
    await client.delete(f"{pods_path(namespace)}/first?gracePeriodSeconds=0")
    await pods.until("then it runs", lambda: pods.node_of("second") == "plain")
    assert gates(pods, "second") == []


def _message(pods: PodWatch, name: str) -> str:
    condition = pods.pods[name].condition("PodScheduled") if name in pods.pods else None
    return condition.message if condition else ""


def _reserved(cluster: Cluster, queue: str) -> str:
    path = "jsonpath={.status.reservation.resource.cpu}"
    return cluster.kubectl("get", "queues.scheduling.volcano.sh", queue, "-o", path)
