"""What `headgate install` installs, on a small Kubernetes that enforces it: enough for Headgate, and no more."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import structs

from headgate.api.install_manifests import AtUrl
from headgate.api.requests import JSON, Call
from headgate.apiserver import ApiServer, AuthorizationMode, Request
from headgate.live.access import Access, FixedToken
from headgate.live.api_front import served
from headgate.live.client import Client
from headgate.live.election import LeaseSettings
from headgate.live.http_server import Listen
from headgate.live.install import install, manifests
from headgate.live.kubeconfig import worker_access
from headgate.live.logs import FORMATS, Log, LogLevel
from headgate.live.service import MetricsPlan, RunPlan, serve
from headgate.live.webhooks import WebhookPlan
from headgate.model.settings import Settings

PATIENCE = 60.0  # seconds
OWN = "headgate-system"
PODS, WORKLOADS = "/api/v1/namespaces/default/pods", "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
AMOUNTS = {"cpu": "4", "memory": "8Gi", "pods": "10"}
HERE = Listen("127.0.0.1", 0)


class InstalledCluster:
    def __init__(self, server: ApiServer, administrator: Access) -> None:
        self.server, self.administrator = server, administrator
        self._client = Client(administrator, time.monotonic, time.time, asyncio.sleep)

    async def install(self) -> None:
        wanted = manifests(AtUrl("https://127.0.0.1:1"), volcano=True, fleet=True)
        async for _ in install(wanted, self._client.perform, asyncio.sleep):
            pass

    async def ask(self, method: str, path: str, value: object = None, kind: str = JSON) -> dict[str, Any]:
        answer = await self._client.perform(Call(method, path, {}, kind, json.dumps(value).encode() if value else b""))
        assert answer.status in (200, 201), answer.body
        return json.loads(answer.body)

    async def own_access(self) -> Access:
        """That of the service account our process runs as, and no more."""
        asked = await self.ask("POST", f"/api/v1/namespaces/{OWN}/serviceaccounts/headgate/token", {"spec": {}})
        return structs.replace(self.administrator, identity=FixedToken(asked["status"]["token"]), certificate=None)

    def close(self) -> None:
        self._client.close()


@pytest.fixture
async def cluster() -> AsyncIterator[InstalledCluster]:
    server = ApiServer(tracks_fields=True, authorization=AuthorizationMode.RBAC, now=time.time())
    async with served(server, HERE) as api:
        kubeconfig = json.dumps(api.administrator.kubeconfig(api.url, "test")).encode()
        made = InstalledCluster(server, worker_access(kubeconfig, "test"))
        await made.install()
        yield made
        made.close()


@contextlib.asynccontextmanager
async def headgate(cluster: InstalledCluster) -> AsyncIterator[io.StringIO]:
    """Our process as `headgate run` runs it, with an election, pages and webhooks; yields its log."""
    log, stop = io.StringIO(), asyncio.Event()
    plan = RunPlan(
        await cluster.own_access(),
        Settings(),
        listen=HERE,
        lease=LeaseSettings(OWN, "test"),
        webhooks=WebhookPlan(HERE, OWN),
        metrics=MetricsPlan(HERE),
        namespace=OWN,
    )
    running = asyncio.ensure_future(serve(plan, Log(log, FORMATS["text"], LogLevel.INFO, time.time), stop))
    try:
        yield log
    finally:
        stop.set()
        await running


def pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "headgate", "containers": [container], "tolerations": [{"operator": "Exists"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def test_headgate_schedules_with_the_rights_it_installs(cluster: InstalledCluster):
    """Election, certificate of the webhooks, binding, condition and event of a pod that does not fit."""
    ready = [{"type": "Ready", "status": "True"}]
    node = {"metadata": {"name": "n"}, "status": {"capacity": AMOUNTS, "allocatable": AMOUNTS, "conditions": ready}}
    await cluster.ask("POST", "/api/v1/nodes", node)
    async with headgate(cluster) as log, asyncio.timeout(PATIENCE):
        for name in ("a", "b", "c", "d", "too-many"):
            await cluster.ask("POST", PODS, pod(name))
        while True:
            found = {each["metadata"]["name"]: each for each in (await cluster.ask("GET", PODS))["items"]}
            placed = sum("nodeName" in each["spec"] for each in found.values())
            told = [one for each in found.values() for one in each["status"].get("conditions", ())]
            if placed == 4 and any(one.get("reason") == "Unschedulable" for one in told):
                break
            await asyncio.sleep(0)
        held = await cluster.ask("GET", f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/headgate")
        assert held["spec"]["holderIdentity"].startswith("test")
        await cluster.ask("GET", f"/api/v1/namespaces/{OWN}/secrets/headgate-webhook")
    assert "forbidden" not in log.getvalue().lower()


async def test_its_account_may_do_nothing_else(cluster: InstalledCluster):
    own = Client(await cluster.own_access(), time.monotonic, time.time, asyncio.sleep)
    refused = [
        ("GET", "/api/v1/namespaces/default/secrets"),
        ("GET", f"/api/v1/namespaces/{OWN}/secrets/another"),
        ("DELETE", "/api/v1/nodes/n"),
        ("POST", PODS),
        ("PUT", f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/another"),
        ("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/headgate-scheduler"),
    ]
    merge = "application/merge-patch+json"
    calls = [Call(method, path, {}, merge if method == "PATCH" else JSON, b"{}") for method, path in refused]
    codes = [(await own.perform(call)).status for call in calls]
    own.close()
    assert codes == [403] * len(refused)


def asked(cluster: InstalledCluster, user: str, path: str, value: dict[str, Any]) -> str:
    """Why a user's object is refused; empty if it is stored."""
    groups = ("system:authenticated",)
    request = Request("POST", path, body=json.dumps(value).encode(), user=user, groups=groups)
    answer = cluster.server.handle(request, time.time())
    return "" if answer.code == 201 else answer.value["message"]


async def test_only_who_may_boost_raises_a_priority(cluster: InstalledCluster):
    """The policy that is installed asks the authorizer."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}]
    made = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "spec": {"podSets": sets, "queueName": "q"}}
    rights = {"tenant": ["create"], "booster": ["create", "boost"]}
    for user, verbs in rights.items():
        group = "rbac.authorization.k8s.io"
        rule = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": verbs}
        await cluster.ask("POST", f"/apis/{group}/v1/clusterroles", {"metadata": {"name": user}, "rules": [rule]})
        bound = {"roleRef": {"kind": "ClusterRole", "name": user}, "subjects": [{"kind": "User", "name": user}]}
        await cluster.ask("POST", f"/apis/{group}/v1/clusterrolebindings", {"metadata": {"name": user}, **bound})
    said = {}
    for user in rights:
        metadata = {"name": user, "annotations": {"kueue.x-k8s.io/priority-boost": "5"}}
        said[user] = asked(cluster, user, WORKLOADS, {**made, "metadata": metadata})
    assert "only who may boost workloads.kueue.x-k8s.io raises a priority" in said["tenant"]
    assert said["booster"] == ""
