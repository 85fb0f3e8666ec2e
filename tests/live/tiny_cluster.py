"""Just enough of a cluster to schedule on: nodes and pods that can be listed, watched and bound, and a lease."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from scripted_server import Exchange, ScriptedServer, scripted
from test_live_election import LeaseServer

NODE = {
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
}


class TinyCluster:
    def __init__(self) -> None:
        self.objects: dict[str, dict[str, dict]] = defaultdict(dict)
        self.leases = LeaseServer()
        self.bindings: list[tuple[str, str]] = []
        self.tokens: dict[str, str] = {}  # users by token
        self.readers: set[tuple[str, str]] = set()  # users and the paths they may get
        self.hold_bindings = False
        self.held: list[Exchange] = []
        self.changed = asyncio.Event()
        self._version = 0
        self._watches: dict[str, list[Exchange]] = defaultdict(list)
        self.server: ScriptedServer

    def add_node(self, name: str) -> None:
        self._put("nodes", {"metadata": {"name": name}, **NODE})

    def add_pod(self, name: str, cpu: str = "1", scheduler: str = "headgate", gates: tuple[str, ...] = ()) -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        named = [{"name": gate} for gate in gates]
        spec = {"schedulerName": scheduler, "containers": [container], "schedulingGates": named}
        made = {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
        self._put("pods", {"metadata": made, "spec": spec, "status": {"phase": "Pending"}})

    def _put(self, plural: str, thing: dict) -> None:
        self._version += 1
        name = thing["metadata"]["name"]
        known = name in self.objects[plural]
        thing["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": str(self._version)}
        self.objects[plural][name] = thing
        for watch in self._watches[plural]:
            watch.line({"type": "MODIFIED" if known else "ADDED", "object": thing})
        self.changed.set()

    async def until(self, holds) -> None:
        while not holds():
            self.changed.clear()
            await self.changed.wait()

    async def __call__(self, exchange: Exchange) -> None:
        parts = exchange.path.strip("/").split("/")
        if "leases" in parts:
            await self.leases(exchange)
            self.changed.set()
        elif parts[-1] in ("tokenreviews", "subjectaccessreviews"):
            exchange.reply(201, {"status": self._reviewed(exchange.json["spec"])})
        elif parts[-1] == "binding":
            self._bind(exchange, parts[-2])
        elif exchange.method == "GET" and "watch" in exchange.query:
            self._watch(exchange, parts[-1])
        elif exchange.method == "GET":
            items = list(self.objects[parts[-1]].values())
            exchange.reply(200, {"metadata": {"resourceVersion": str(self._version)}, "items": items})
        else:
            exchange.reply(201)

    def _reviewed(self, spec: dict) -> dict:
        if "token" in spec:
            user = self.tokens.get(spec["token"])
            return {"authenticated": True, "user": {"username": user, "groups": ["g"]}} if user else {}
        asked = spec["nonResourceAttributes"]
        return {"allowed": asked["verb"] == "get" and (spec["user"], asked["path"]) in self.readers}

    def _watch(self, exchange: Exchange, plural: str) -> None:
        exchange.begin_stream()
        for thing in self.objects[plural].values():
            if int(thing["metadata"]["resourceVersion"]) > int(exchange.query["resourceVersion"]):
                exchange.line({"type": "MODIFIED", "object": thing})
        self._watches[plural].append(exchange)

    def _bind(self, exchange: Exchange, name: str) -> None:
        if self.hold_bindings:
            self.held.append(exchange)
            self.changed.set()
            return
        self.bindings.append((name, exchange.json["target"]["name"]))
        pod = self.objects["pods"][name]
        pod["spec"]["nodeName"] = exchange.json["target"]["name"]
        exchange.reply(201)
        self._put("pods", pod)

    def finish(self, held: Exchange) -> None:
        self.hold_bindings = False
        self._bind(held, held.path.split("/")[-2])

    def kubeconfig(self, folder: Path) -> Path:
        document = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{self.server.port}"}}],
        }
        file = folder / "kubeconfig"
        file.write_text(json.dumps(document))
        return file


@asynccontextmanager
async def tiny_cluster() -> AsyncIterator[TinyCluster]:
    cluster = TinyCluster()
    async with scripted(cluster) as server:
        cluster.server = server
        yield cluster
