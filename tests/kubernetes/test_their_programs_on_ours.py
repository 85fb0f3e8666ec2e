"""Programs that others wrote on the small Kubernetes: kube-scheduler schedules on it, Kueue's scheduler admits."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from assets import program
from children import Child, eventually_asked
from kueue.kueue_oracle import kueue_definitions, kueue_on_a_server
from ours import our_apiserver

from headgate.api.requests import JSON, Call
from headgate.live.client import Client
from headgate.live.connection import HttpResponse
from headgate.live.kubeconfig import find_access

NODES, PODS = 20, 1000
QUEUES, WORKLOADS, QUOTA = 4, 200, 10  # ClusterQueues, workloads of one CPU in all of them, CPUs of each queue
KUEUE = "kueue.x-k8s.io/v1beta2"
MERGE = "application/merge-patch+json"
NOW = "2026-01-01T00:00:00Z"
PATIENCE = 400.0  # seconds


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a `headgate apiserver`."""
    with our_apiserver(tmp_path) as file:
        yield file


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
        await administrator.ask("PATCH", f"/api/v1/nodes/n-{number}/status", {"status": made["status"]}, MERGE)
    for number in range(PODS):
        await administrator.ask("POST", pods, pod(f"p-{number}"))
    scheduler = kube_scheduler(ours, tmp_path)
    try:
        async with asyncio.timeout(PATIENCE):
            while not all(each["spec"].get("nodeName") for each in (await administrator.ask("GET", pods))["items"]):
                assert scheduler.running, scheduler.written()[-3000:]
                await asyncio.sleep(1.0)
        told = await eventually_asked("bindings are told", partial(told_of, administrator, "Scheduled"))
        assert told <= {f"p-{number}" for number in range(PODS)}
    finally:
        scheduler.stop()
    listed = (await administrator.ask("GET", pods))["items"]
    by_node = [sum(each["spec"]["nodeName"] == f"n-{number}" for each in listed) for number in range(NODES)]
    assert sum(by_node) == PODS and max(by_node) <= 80, "no node has more than it can take"


async def told_of(administrator: Administrator, reason: str) -> set[str]:
    """The objects that events of this reason are about; client-go sends events later, and not all of them."""
    events = (await administrator.ask("GET", "/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
    return {each["regarding"]["name"] for each in events if each["reason"] == reason}


def of_kueue(kind: str, name: str, spec: dict) -> dict:
    return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, "spec": spec}


def cluster_queue(name: str) -> dict:
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": str(QUOTA)}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    return of_kueue("ClusterQueue", name, {"cohortName": "all", "namespaceSelector": {}, "resourceGroups": groups})


def workload(name: str, queue: str) -> dict:
    template = {"spec": {"restartPolicy": "Never", "containers": pod(name)["spec"]["containers"]}}
    template["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    return of_kueue(
        "Workload", name, {"queueName": queue, "podSets": [{"name": "main", "count": 1, "template": template}]}
    )


def holds(found: dict, kind: str) -> bool:
    conditions = found.get("status", {}).get("conditions", ())
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


async def test_kueues_own_scheduler_admits_two_hundred_workloads(ours: Path, tmp_path: Path):
    """A fifth of them at first: then what is admitted is said to be finished, and its quota is used again."""
    administrator, api = Administrator(ours), f"/apis/{KUEUE}"
    workloads = f"{api}/namespaces/default/workloads"
    kubectl = [program("kubectl"), f"--kubeconfig={ours}", "create", "--filename", kueue_definitions()]
    subprocess.run(kubectl, check=True, capture_output=True)
    await administrator.ask("POST", f"{api}/resourceflavors", of_kueue("ResourceFlavor", "default", {}))
    for number in range(QUEUES):
        await administrator.ask("POST", f"{api}/clusterqueues", cluster_queue(f"cq-{number}"))
        local = of_kueue("LocalQueue", f"lq-{number}", {"clusterQueue": f"cq-{number}"})
        await administrator.ask("POST", f"{api}/namespaces/default/localqueues", local)
    kueue = Child([kueue_on_a_server(), f"--kubeconfig={ours}", "--zap-log-level=info"], tmp_path / "kueue.log")
    most, finished = 0, set[str]()
    try:
        for number in range(WORKLOADS):
            await administrator.ask("POST", workloads, workload(f"w-{number}", f"lq-{number % QUEUES}"))
        async with asyncio.timeout(PATIENCE):
            while len(finished) < WORKLOADS:
                assert kueue.running, kueue.written()[-3000:]
                listed = (await administrator.ask("GET", workloads))["items"]
                admitted = [each for each in listed if holds(each, "Admitted") and not holds(each, "Finished")]
                most = max(most, len(admitted))
                for name in (each["metadata"]["name"] for each in admitted if most >= QUEUES * QUOTA):
                    await administrator.ask("PATCH", f"{workloads}/{name}/status", finish(listed, name), MERGE)
                    finished.add(name)
                await asyncio.sleep(0.2)
            queues = await settled_queues(administrator, f"{api}/clusterqueues")
            told = await eventually_asked("admissions are told", partial(told_of, administrator, "Admitted"))
    finally:
        kueue.stop()
    assert most == QUEUES * QUOTA, "never more than there is quota for"
    by_queue = Counter(each["status"]["admission"]["clusterQueue"] for each in listed if "admission" in each["status"])
    assert set(by_queue) <= {f"cq-{number}" for number in range(QUEUES)}
    assert all(holds(each, "Active") for each in queues)
    assert told <= finished


def finish(listed: list[dict], name: str) -> dict:
    """The status of that workload with one more condition."""
    [found] = [each for each in listed if each["metadata"]["name"] == name]
    done = {"type": "Finished", "status": "True", "reason": "JobFinished", "message": "", "lastTransitionTime": NOW}
    return {"status": {"conditions": [*found["status"]["conditions"], done]}}


async def settled_queues(administrator: Administrator, path: str) -> list[dict]:
    """The ClusterQueues once their statuses say that nothing waits and nothing is admitted."""
    while True:
        queues = (await administrator.ask("GET", path))["items"]
        if all(
            not each["status"].get("pendingWorkloads") and not each["status"].get("admittedWorkloads")
            for each in queues
        ):
            return queues
        await asyncio.sleep(0.2)
