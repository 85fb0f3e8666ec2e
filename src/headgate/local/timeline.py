"""Plays a scenario into running clusters: its objects first, then its timeline at its times."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, assert_never

import msgspec

from headgate.api.requests import Call
from headgate.apiserver.messages import Request, Response
from headgate.live.client import Client
from headgate.live.loop import WallClock
from headgate.local.servers import OWN_NAMESPACE, StartedCluster
from headgate.simulator.clients import AmbiguousKind, Kubectl, RefusedRequest
from headgate.simulator.manifests import Manifest, unreadable_quantity
from headgate.simulator.scenario import (
    Apply,
    Crash,
    DeleteObject,
    DisconnectCluster,
    DropNode,
    InvalidScenario,
    PatchObject,
    Reference,
    Scenario,
    ScheduledAction,
    Stale,
)

ANSWER_SECONDS = 60.0
PATIENCE, PAUSE = 30.0, 0.2  # seconds for webhooks to answer after the start, and between two tries
MULTIKUEUE_CLUSTER = "MultiKueueCluster"
KUEUE = "kueue.x-k8s.io/v1beta2"
CHECK, CONFIG = "fleet", "workers"

Restart = Callable[[str, float], None]
"""Crashes our process of a cluster (of all, without a name) for some seconds."""
Tell = Callable[[str, str], None]
"""Is told the cluster and a line."""


class BlockingServer:
    """An API server that is asked over HTTPS by another thread than that of the event loop, which waits."""

    def __init__(self, cluster: StartedCluster) -> None:
        self._client = Client(cluster.administrator, time.monotonic, time.time, asyncio.sleep)
        self._loop = asyncio.get_running_loop()

    def handle(self, request: Request, _now: float, /) -> Response:
        call = Call(request.method, request.path, request.query, request.content_type, request.body)
        asked = asyncio.run_coroutine_threadsafe(self._client.perform(call), self._loop)
        answer = asked.result(ANSWER_SECONDS)
        warning = answer.header(b"warning").decode("latin-1")
        return Response(answer.status, msgspec.json.decode(answer.body), (warning,) if warning else ())

    def close(self) -> None:
        self._client.close()


class TimelinePlayer:
    """Creates the objects of all clusters, then performs what the timeline says."""

    def __init__(
        self, scenario: Scenario, clusters: Mapping[str, StartedCluster], clock: WallClock, restart: Restart, tell: Tell
    ) -> None:
        self._scenario, self._clusters, self._clock = scenario, clusters, clock
        self._restart, self._tell = restart, tell
        self._servers = {name: BlockingServer(cluster) for name, cluster in clusters.items()}
        self._kubectl = {name: Kubectl(server) for name, server in self._servers.items()}

    async def create_objects(self) -> None:
        """Raises InvalidScenario for what a server refuses; what is there already stays as it is."""
        for plan in self._scenario.clusters:
            wanted = [(located.path, located.manifest) for located in plan.objects]
            secrets = [("", secret) for _, manifest in wanted for secret in self._kubeconfig_for(manifest)]
            for path, manifest in (*secrets, *wanted):
                refused = await self._create(plan.name, manifest)
                if refused is not None:
                    field, problem = unreadable_quantity(manifest) or ("", "")
                    problem = problem or f"refused with {refused.code} {refused.reason}: {refused.message}"
                    raise InvalidScenario(self._scenario.source, f"{path}.{field}" if field else path, problem)

    async def play(self) -> None:
        """Returns when the last action is performed; times count from now."""
        start = self._clock()
        for scheduled in sorted(self._scenario.timeline, key=lambda one: one.at):
            await asyncio.sleep(max(0.0, start + scheduled.at - self._clock()) / self._clock.speed)
            await self._perform(scheduled)

    def close(self) -> None:
        for server in self._servers.values():
            server.close()

    async def _create(self, cluster: str, manifest: Manifest) -> RefusedRequest | None:
        """Our webhooks may not answer yet, on a server that calls them over HTTPS."""
        for _ in range(int(PATIENCE / PAUSE)):
            refused = await asyncio.to_thread(self._kubectl[cluster].create, manifest, 0.0)
            if refused is None or refused.reason == "AlreadyExists":
                return None
            if "webhook" not in refused.message or refused.code < 500:
                return refused
            await asyncio.sleep(PAUSE)
        return refused

    async def _perform(self, scheduled: ScheduledAction) -> None:
        action, cluster = scheduled.action, scheduled.cluster or self._scenario.clusters[0].name
        kubectl = self._kubectl[cluster]
        match action:
            case Apply(manifests):
                for located in manifests:
                    self._report(cluster, await asyncio.to_thread(kubectl.apply, located.manifest, 0.0))
            case DeleteObject(reference):
                await self._try(scheduled, cluster, asyncio.to_thread(kubectl.delete, reference, 0.0))
            case PatchObject(reference, merge):
                await self._try(scheduled, cluster, asyncio.to_thread(kubectl.patch, reference, merge, 0.0))
            case DropNode(name):
                node = Reference("Node", name)
                await self._try(scheduled, cluster, asyncio.to_thread(kubectl.delete, node, 0.0))
            case Crash(seconds):
                self._restart(scheduled.cluster, seconds)
            case DisconnectCluster() | Stale():
                self._tell(cluster, f"{scheduled.path}: left out, because it exists in virtual time only")
            case _:
                assert_never(action)

    async def _try(self, scheduled: ScheduledAction, cluster: str, asked: Awaitable[RefusedRequest | None]) -> None:
        try:
            self._report(cluster, await asked)
        except AmbiguousKind as error:
            raise InvalidScenario(self._scenario.source, scheduled.path, str(error)) from None

    def _report(self, cluster: str, refused: RefusedRequest | None) -> None:
        for warned in self._kubectl[cluster].take_warnings():
            self._tell(cluster, f"{warned.verb} {_named(warned.object)} warned: {warned.message}")
        if refused is not None:
            what = f"{refused.verb} {_named(refused.object)} refused"
            self._tell(cluster, f"{what}: {refused.code} {refused.message}")

    def _kubeconfig_for(self, manifest: Manifest) -> tuple[Manifest, ...]:
        """The Secret that a MultiKueueCluster names, if it is one of our clusters."""
        worker = self._clusters.get(manifest["metadata"].get("name") or "")
        if manifest["kind"] != MULTIKUEUE_CLUSTER or worker is None:
            return ()
        source = ((manifest.get("spec") or {}).get("clusterSource") or {}).get("kubeConfig") or {}
        return (kubeconfig_secret(str(source.get("location") or worker.name), worker),)


def kubeconfig_secret(name: str, worker: StartedCluster) -> Manifest:
    """The kubeconfig of a worker cluster, as its manager reads it."""
    data = {"kubeconfig": base64.b64encode(msgspec.json.encode(worker.kubeconfig)).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": OWN_NAMESPACE}, "data": data}


def fleet_objects(workers: tuple[str, ...]) -> list[Manifest]:
    """The objects that connect worker clusters of these names, for queues with the AdmissionCheck `fleet`."""

    def made(kind: str, name: str, spec: dict[str, Any]) -> Manifest:
        return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, "spec": spec}

    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": CONFIG}
    return [
        *(
            made(
                MULTIKUEUE_CLUSTER,
                worker,
                {"clusterSource": {"kubeConfig": {"location": worker, "locationType": "Secret"}}},
            )
            for worker in workers
        ),
        made("MultiKueueConfig", CONFIG, {"clusters": list(workers)}),
        made("AdmissionCheck", CHECK, {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}),
    ]


def _named(reference: Mapping[str, str]) -> str:
    where = f"{reference['namespace']}/" if "namespace" in reference else ""
    return f"{reference['kind']} {where}{reference['name']}"
