"""Thousands of pods, and our process killed or doubled on the way: each is bound once, to a node that has room."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from conftest import Start
from objects import create_nodes, create_pods, node, pod
from watching import PodWatch
from wire import Client

NODES, PODS = 1000, 5000
KILLED_AT = (1000, 2500, 4000)  # pods bound
BIND_PATIENCE = 240.0  # seconds for thousands of pods


@pytest.mark.timeout(900)
async def test_no_pod_is_lost_or_bound_twice_when_our_process_is_killed_three_times(
    client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    await create_nodes(client, [node(f"node-{index}", cpu="500m") for index in range(NODES)])  # room for 5 pods each
    await create_pods(client, namespace, [pod(f"pod-{index}") for index in range(PODS)])

    for enough in KILLED_AT:
        process = start("--no-leader-elect")
        await pods.until(f"{enough} pods are bound", partial(has_bound, pods, enough), BIND_PATIENCE)
        process.kill()
        assert pods.bound < PODS, "it was killed on the way, not at the end"
    start("--no-leader-elect")
    await pods.until("all pods are bound", lambda: pods.bound == PODS, BIND_PATIENCE)

    assert_each_bound_once(pods, PODS)
    assert max(pods_by_node(pods).values()) == PODS // NODES


async def test_two_processes_that_both_lead_bind_each_pod_once(
    client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    await create_nodes(client, [node(f"node-{index}") for index in range(50)])  # room for 40 pods each
    processes = [start("--no-leader-elect"), start("--no-leader-elect")]
    await create_pods(client, namespace, [pod(f"pod-{index}") for index in range(500)])

    await pods.until("all pods are bound", lambda: pods.bound == 500, BIND_PATIENCE)

    assert_each_bound_once(pods, 500)
    assert max(pods_by_node(pods).values()) <= 40
    for process in processes:
        assert process.running
        assert [line for line in process.written().splitlines() if " ERROR " in line] == []


def has_bound(pods: PodWatch, enough: int) -> bool:
    return pods.bound >= enough


def assert_each_bound_once(pods: PodWatch, count: int) -> None:
    """No pod is missing, and none ever had a second node."""
    assert len(pods.pods) == len(pods.nodes_by_uid) == count
    wrong = [names for names in pods.nodes_by_uid.values() if len(names) != 2]
    assert wrong == []


def pods_by_node(pods: PodWatch) -> Counter[str]:
    return Counter(seen.spec.nodeName for seen in pods.pods.values())
