"""Programs that others wrote on the small Kubernetes: the real kube-scheduler schedules on it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from assets import program
from children import Child, eventually

from headgate.api.requests import JSON, Call
from headgate.live.client import Client
from headgate.live.connection import HttpResponse
from headgate.live.kubeconfig import find_access

NODES, PODS = 20, 1000
PATIENCE = 150.0  # seconds


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a `headgate apiserver`."""
    file = tmp_path / "kubeconfig"
    server = Child([sys.executable, "-m", "headgate", "apiserver", "--kubeconfig", file], tmp_path / "apiserver.log")
    eventually("our API server is up", file.exists)
    yield file
    server.stop()


class Administrator:
    def __init__(self, file: Path) -> None:
        self._client = Client(find_access(str(file), "", {}), time.monotonic, time.time, asyncio.sleep)

    async def ask(self, method: str, path: str, value: object = None, kind: str = JSON) -> dict:
        body = b"" if value is None else json.dumps(value).encode()
        answer: HttpResponse = await self._client.perform(Call(method, path, {}, kind, body))
        assert answer.status in (200, 201), answer.body
        return json.loads(answer.body)


def node(name: str) -> dict:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str) -> dict:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "100m"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def kube_scheduler(kubeconfig: Path, folder: Path) -> Child:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
    }
    configuration = folder / "kube-scheduler.yaml"
    configuration.write_text(yaml.safe_dump(document))
    flags = [f"--config={configuration}", "--secure-port=0", "-v=2"]
    return Child([program("kube-scheduler"), *flags], folder / "kube-scheduler.log")


async def test_the_real_kube_scheduler_schedules_a_thousand_pods(ours: Path, tmp_path: Path):
    administrator, pods = Administrator(ours), "/api/v1/namespaces/default/pods"
    for number in range(NODES):
        made = node(f"n-{number}")
        await administrator.ask("POST", "/api/v1/nodes", made)
        merge = "application/merge-patch+json"
        await administrator.ask("PATCH", f"/api/v1/nodes/n-{number}/status", {"status": made["status"]}, merge)
    for number in range(PODS):
        await administrator.ask("POST", pods, pod(f"p-{number}"))
    scheduler = kube_scheduler(ours, tmp_path)
    try:
        async with asyncio.timeout(PATIENCE):
            while not all(each["spec"].get("nodeName") for each in (await administrator.ask("GET", pods))["items"]):
                assert scheduler.running, scheduler.written()[-3000:]
                await asyncio.sleep(1.0)
    finally:
        scheduler.stop()
    listed = (await administrator.ask("GET", pods))["items"]
    by_node = [sum(each["spec"]["nodeName"] == f"n-{number}" for each in listed) for number in range(NODES)]
    assert sum(by_node) == PODS and max(by_node) <= 80, "no node has more than it can take"
    events = (await administrator.ask("GET", "/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
    assert any(each["reason"] == "Scheduled" for each in events)
