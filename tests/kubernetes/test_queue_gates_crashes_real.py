"""Our scheduler on a real kube-apiserver dies before or after any one of its writes; its successor ends the same.

It runs in the test's own process, so that the write can be chosen: what is cancelled leaves nothing behind but the
cluster.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from children import PATIENCE
from cluster import Cluster
from objects import NODES, Manifest, create_namespace, create_nodes, create_pods, node, pods_path, remove_all
from test_queue_gates_real import QUEUES, gated, queue_manifest, served
from wire import Client

from headgate.api.requests import Call
from headgate.engine.quarantine import Quarantine
from headgate.live import client as live_client
from headgate.live.connection import HttpResponse
from headgate.live.kubeconfig import find_access
from headgate.live.logs import FORMATS, Log, LogLevel, Outages
from headgate.live.metrics import Metrics
from headgate.live.plugin_calls import pre_enqueue_plugins
from headgate.live.reflector import ReflectorDependencies
from headgate.live.term import LeaderTerm, TermDependencies
from headgate.model.settings import Settings
from headgate.model.volcano import QUEUE_GATE, RESERVED_AT

pytestmark = pytest.mark.usefixtures(served.__name__)
MOST_WRITES = 60  # of the whole story; a story that never ends would have more
WORKERS = ("b-worker-0", "b-worker-1")


class MortalClient(live_client.Client):
    """Lives until it is to send write number `last`: then it sends nothing more, or hears no answer any more."""

    def __init__(self, kubeconfig: Path, last: int, *, sent: bool) -> None:
        access = find_access(str(kubeconfig), "", {})
        super().__init__(access, time.monotonic, time.time, asyncio.sleep)
        self._numbers, self._last, self._sent = count(), last, sent
        self.died = asyncio.Event()

    async def perform(self, call: Call, timeout: float = live_client.ANSWER_TIMEOUT) -> HttpResponse:
        is_write = call.method != "GET" and not call.path.endswith("/events")
        number = next(self._numbers) if is_write else -1
        if self._last >= 0 and (number == self._last or (is_write and self.died.is_set())):
            if number == self._last and self._sent:
                await super().perform(call, timeout)
            self.died.set()
            await asyncio.Event().wait()
        return await super().perform(call, timeout)


def leader_term(client: live_client.Client) -> LeaderTerm:
    log = Log(sys.stderr, FORMATS["text"], LogLevel.WARNING, time.time)
    metrics = Metrics("headgate")
    reflector = ReflectorDependencies(client, Outages(log), log, asyncio.sleep, random.random, metrics.restarted)
    plugins = pre_enqueue_plugins((), 1.0, metrics.asked, time.perf_counter)
    return LeaderTerm(
        TermDependencies(Settings(), plugins, reflector, metrics, log, None, time.perf_counter, time.time, Quarantine())
    )


@asynccontextmanager
async def succession(kubeconfig: Path, last: int, *, sent: bool) -> AsyncIterator[MortalClient]:
    """A scheduler that dies at that write, and one that follows it when it does."""

    async def rule() -> None:
        for client in (first, MortalClient(kubeconfig, -1, sent=True)):
            term = asyncio.ensure_future(leader_term(client).run(asyncio.Event()))
            try:
                await client.died.wait()
            finally:
                term.cancel()
                await asyncio.gather(term, return_exceptions=True)
                client.close()

    first = MortalClient(kubeconfig, last, sent=sent)
    ruling = asyncio.ensure_future(rule())
    try:
        yield first
    finally:
        ruling.cancel()
        await asyncio.gather(ruling, return_exceptions=True)


class Story:
    """A queue with three places: one pod fits, a gang of two is let go, one waits, and one is gated by others too."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self.name = client, name
        self._pods = pods_path(name)

    async def begin(self) -> None:
        await create_namespace(self._client, self.name)
        await self._client.create(QUEUES, queue_manifest(self.name, "3"))
        groups = f"{QUEUES.rpartition('/')[0]}/namespaces/{self.name}/podgroups"
        group = {**queue_manifest("b", "0"), "kind": "PodGroup", "spec": {"minMember": 2, "queue": self.name}}
        await self._client.create(groups, group)
        await create_nodes(self._client, [node("plain", cpu="1")])
        workers = [gated(name, self.name, nodeSelector={"gpu": "yes"}) for name in WORKERS]
        for each in workers:
            each["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "b"
        held = gated("d-held", self.name)
        held["spec"]["schedulingGates"].insert(0, {"name": "example.com/theirs"})
        await create_pods(self._client, self.name, [gated("a-fits", self.name), *workers, held])
        await create_pods(self._client, self.name, [gated("c-waits", self.name)])

    async def end(self) -> None:
        await remove_all(self._client, self._pods)
        await remove_all(self._client, NODES)
        await self._client.request("DELETE", f"{QUEUES}/{self.name}")

    async def buy_a_node(self) -> None:
        bought = node("bought", cpu="2")
        bought["metadata"]["labels"]["gpu"] = "yes"
        await create_nodes(self._client, [bought])

    async def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """All that must be the same in the end, as soon as it is so."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds(seen := await self._seen()):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"not within {PATIENCE:.0f} s: {await self._seen()}") from None
        return seen

    async def _seen(self) -> dict[str, Any]:
        pods = (await self._client.get(self._pods))["items"]
        queue = await self._client.get(f"{QUEUES}/{self.name}")
        status = {name: queue.get("status", {}).get(name) for name in ("state", "allocated", "reservation")}
        return {"queue": status, **{each["metadata"]["name"]: self._shown(each) for each in pods}}

    def _shown(self, pod: Manifest) -> tuple[str, list[str], str, str, bool]:
        """Its node, its gates, why it waits, and whether it was let go to reserve capacity."""
        conditions = {each["type"]: each for each in pod["status"].get("conditions", ())}
        said = conditions.get("PodScheduled", {})
        return (
            pod["spec"].get("nodeName", ""),
            [gate["name"] for gate in pod["spec"].get("schedulingGates", ())],
            said.get("reason", ""),
            said.get("message", "").replace(self.name, "NAME"),
            RESERVED_AT in pod["metadata"]["annotations"],
        )


THEIRS = "example.com/theirs"
FULL = "waiting for queue capacity: queue NAME has cpu 3, and cpu 3 is in use or reserved; requested cpu 1"


def let_go(seen: dict[str, Any]) -> bool:
    """The queue is full: one runs, the gang waits for a node, and nobody else was let go."""
    return (
        seen["a-fits"][0] == "plain"
        and all(seen[name][1:3] == ([], "Unschedulable") and seen[name][4] for name in WORKERS)
        and seen["c-waits"] == ("", [QUEUE_GATE], "SchedulingGated", FULL, False)
        and seen["d-held"][:2] == ("", [THEIRS, QUEUE_GATE])
        and seen["queue"]["reservation"] == {"resource": {"cpu": "2"}}
    )


def placed(seen: dict[str, Any]) -> bool:
    return all(seen[name][0] == "bought" for name in WORKERS) and seen["queue"] == {
        "state": "Open",
        "allocated": {"cpu": "3"},
        "reservation": {"resource": {"cpu": "0"}},
    }


async def told(
    client: Client, kubeconfig: Path, name: str, last: int, *, sent: bool, expected: dict[str, Any] | None = None
) -> tuple[bool, dict[str, Any]]:
    """Whether the first scheduler died, and how the story ended: as `expected`, if that is given."""
    story = Story(client, name)
    try:
        await story.begin()
        async with succession(kubeconfig, last, sent=sent) as first:
            await story.until(let_go)
            await story.buy_a_node()
            ended = await story.until(lambda seen: placed(seen) and expected in (None, seen))
            assert ended["c-waits"] == ("", [QUEUE_GATE], "SchedulingGated", FULL, False), "its queue is still full"
            assert ended["d-held"][:2] == ("", [THEIRS, QUEUE_GATE]), "gates of others stay, and ours with them"
            return first.died.is_set(), ended
    finally:
        await story.end()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("sent", [pytest.param(False, id="before"), pytest.param(True, id="after")])
async def test_a_crash_before_or_after_any_write_ends_the_same(
    cluster: Cluster, client: Client, namespace: str, own_account: Path, sent: bool
) -> None:
    _, expected = await told(client, own_account, f"{namespace}-undisturbed", -1, sent=True)
    for number in range(MOST_WRITES):
        died, _ = await told(client, own_account, f"{namespace}-{number}", number, sent=sent, expected=expected)
        if not died:
            assert number >= 10, "a story with so few writes shows nothing"
            return
    raise AssertionError("the story has too many writes")
