"""Requests that come to more than 64 bits hold, as a real API server stores them: the others are scheduled."""

from __future__ import annotations

from children import eventually
from conftest import Start
from objects import Manifest, create_nodes, create_pods, node, pod
from watching import PodWatch
from wire import Client


def asking(name: str, *memories: str, **spec: object) -> Manifest:
    made = pod(name, **spec)
    made["spec"]["containers"] = [
        {"name": f"c{n}", "image": "registry.example/none", "resources": {"requests": {"memory": memory}}}
        for n, memory in enumerate(memories)
    ]
    return made


async def test_amounts_of_8e_end_no_process_and_no_process_after_it(
    client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    await create_nodes(client, [node("first"), node("second")])
    placed = [asking(name, "8E", "8E", nodeName="first") for name in ("on-node-1", "on-node-2")]
    process = start("--no-leader-elect")
    await create_pods(client, namespace, [*placed, asking("huge", "8E", "8E"), asking("one", "1Gi")])
    await pods.until("the small pod is bound", lambda: pods.node_of("one") == "second")
    await pods.until("the huge pod is told to wait", lambda: says(pods, "huge") == ("False", "Unschedulable"))
    process.terminate()
    assert process.wait() == 0

    again = start("--no-leader-elect")
    await create_pods(client, namespace, [asking("two", "1Gi")])
    await pods.until("so is one after a restart", lambda: pods.node_of("two") == "second")
    assert pods.node_of("huge") == ""
    assert again.running
    eventually("it says why", lambda: "RequestsTooLarge" in again.written())
    assert "Traceback" not in again.written() + process.written()


def says(pods: PodWatch, name: str) -> tuple[str, str] | None:
    told = pods.pods[name].condition("PodScheduled") if name in pods.pods else None
    return None if told is None else (told.status, told.reason)
