"""The small Kubernetes over HTTPS: a worker or manager cluster that can be slow, broken or gone."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scripted_server import Exchange, ScriptedServer, scripted
from throwaway_ca import ThrowawayCa

from headgate.api.install_manifests import queue_definitions
from headgate.apiserver import ApiError, ApiServer, Json, Request, Watch

NAMESPACE = "headgate-system"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}


class ServedCluster:
    """While it `holds`, requests are taken and not answered; while it is `down`, connections break."""

    def __init__(self, ca: ThrowawayCa, *, with_queues: bool = True) -> None:
        self._ca = ca
        self.api = ApiServer()
        self.holds = self.is_down = False
        self.held: list[Exchange] = []
        self.tokens = {"good"}
        self.asked: list[tuple[str, str]] = []
        self._watches: list[tuple[Watch, Exchange]] = []
        self.changed = asyncio.Event()  # something was asked, or changed by the administrator
        self.server: ScriptedServer
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for definition in queue_definitions() if with_queues else ():
            self.ask("POST", DEFINITIONS, definition)

    def ask(self, method: str, path: str, value: object = None, content_type: str = "application/json") -> Json:
        """As its administrator; whoever watches is told of changes."""
        body = b"" if value is None else json.dumps(value).encode()
        response = self.api.handle(Request(method, path, {}, body, content_type), time.time())
        assert response.code in (200, 201), response.value
        if method != "GET":
            self._tell_watchers()
        return response.value

    def add_workload(self, name: str, origin: str = "multikueue", **fields: object) -> Json:
        labels = {"kueue.x-k8s.io/multikueue-origin": origin} if origin else {}
        spec = {"podSets": [{"template": TEMPLATE, "count": 1}], "queueName": "queue", **fields}
        made = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": name, "labels": labels},
        }
        return self.ask("POST", WORKLOADS, {**made, "spec": spec})

    def keep_kubeconfig(self, name: str, content: bytes) -> None:
        """In a Secret; instead of what it holds if there is one."""
        data = {"kubeconfig": base64.b64encode(content).decode()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
        there = [one["metadata"]["name"] for one in self.ask("GET", SECRETS)["items"]]
        if name in there:
            self.ask("PATCH", f"{SECRETS}/{name}", {"data": data}, MERGE)
        else:
            self.ask("POST", SECRETS, secret)

    def kubeconfig(self, token: str = "good") -> bytes:
        authority = base64.b64encode(self._ca.certificate.read_bytes()).decode()
        place = {"server": f"https://127.0.0.1:{self.server.port}", "certificate-authority-data": authority}
        document = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": place}],
            "users": [{"name": "x", "user": {"token": token}}],
        }
        return json.dumps(document).encode()

    async def __call__(self, exchange: Exchange) -> None:
        self.asked.append((exchange.method, exchange.path))
        if self.is_down:
            exchange.drop()
        elif self.holds:
            self.held.append(exchange)
        else:
            self.answer(exchange)

    def go_down(self) -> None:
        self.is_down = True
        self._watches.clear()
        for writer in list(self.server.open):
            writer.transport.abort()

    def answer(self, exchange: Exchange) -> None:
        if exchange.headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            exchange.reply(401, {"kind": "Status", "message": "Unauthorized", "code": 401})
        elif exchange.method == "GET" and "watch" in exchange.query:
            self._watch(exchange)
        else:
            content_type = exchange.headers.get("content-type", "application/json")
            request = Request(exchange.method, exchange.path, exchange.query, exchange.body, content_type)
            response = self.api.handle(request, time.time())
            exchange.reply(response.code, response.value)
            self._tell_watchers()

    def _watch(self, exchange: Exchange) -> None:
        try:
            watch = self.api.watch(exchange.path, exchange.query)
        except ApiError as refusal:
            exchange.reply(refusal.code, {"kind": "Status", "message": str(refusal), "code": refusal.code})
            return
        exchange.begin_stream()
        self._watches.append((watch, exchange))
        self._tell_watchers()

    def _tell_watchers(self) -> None:
        self.changed.set()
        for watch, exchange in self._watches:
            for event in watch.drain():
                exchange.line({"type": event.type, "object": json.loads(event.raw)})


@asynccontextmanager
async def served(ca: ThrowawayCa, **options: bool) -> AsyncIterator[ServedCluster]:
    cluster = ServedCluster(ca, **options)
    async with scripted(cluster, ca.server()) as server:
        cluster.server = server
        yield cluster
