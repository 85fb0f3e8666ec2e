"""What a write and a watch cost a real kube-apiserver, in CPU time of that process.

python benchmarks/bench_write_cost.py
python benchmarks/bench_write_cost.py --objects 100

Each way to say the same is used on objects of its own, one request at a time, and the CPU time that the threads of
kube-apiserver have used meanwhile is noted; etcd's is not counted. The ways take turns write by write, and the median
is shown, as a ratio against the merge patch of a Workload's status with a short text in the same run: so garbage
collection, which falls on some writes and not on others, counts for none.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kubernetes"))

from assets import MissingProgram
from bench_queues_kubernetes import install, until_quiet
from bench_quota import BASELINE
from cluster import Cluster
from objects import create_namespace, pod, pods_path
from queue_load import API, condition, workload
from wire import JSON_PATCH, MERGE_PATCH, Client, Server

STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf;stream=watch"
SPACE = "cost"
WORKLOADS = f"{API}/namespaces/{SPACE}/workloads"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{SPACE}/events"
MANAGERS = 6  # field managers, where managedFields grow
SHORT = "2 more needed in flavor default"
LONG = "insufficient unused quota for cpu in flavor default, 2 more needed " * 14

Object = dict[str, Any]


class Thing:
    """One object of the server, as the last answer showed it."""

    def __init__(self, path: str, shown: Object) -> None:
        self.path, self.shown = path, shown

    @property
    def tests(self) -> list[Object]:
        meta = self.shown["metadata"]
        return [{"op": "test", "path": f"/metadata/{one}", "value": meta[one]} for one in ("uid", "resourceVersion")]

    @property
    def precondition(self) -> Object:
        return {one: self.shown["metadata"][one] for one in ("uid", "resourceVersion")}


class Request(NamedTuple):
    method: str
    path: str
    body: Any
    content_type: str = "application/json"


Ask = Callable[[Thing, int], Request]


class Way(NamedTuple):
    """A way to say something about an object; the turn makes each write differ from the last."""

    name: str
    ask: Ask


def refusal(text: str, turn: int) -> Object:
    return {**condition("QuotaReserved", "WaitingForQuota"), "status": "False", "message": f"{text} ({turn})"}


def merge(text: str, manager: str = "") -> Ask:
    def ask(thing: Thing, turn: int) -> Request:
        asked = f"?fieldManager={manager}" if manager else ""
        body = {"metadata": thing.precondition, "status": {"conditions": [refusal(text, turn)]}}
        return Request("PATCH", f"{thing.path}/status{asked}", body, MERGE_PATCH)

    return ask


def merge_whole(thing: Thing, turn: int) -> Request:
    """As an admission is written: two conditions and the assignment of quota."""
    assigned = {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}, "count": 1}
    told = [
        {**condition("QuotaReserved", "QuotaReserved"), "message": f"Quota reserved ({turn})"},
        condition("Admitted", "Admitted"),
    ]
    status = {"admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]}, "conditions": told}
    body = {"metadata": thing.precondition, "status": status}
    return Request("PATCH", f"{thing.path}/status", body, MERGE_PATCH)


def json_patch(text: str) -> Ask:
    def ask(thing: Thing, turn: int) -> Request:
        change = {"op": "add", "path": "/status", "value": {"conditions": [refusal(text, turn)]}}
        return Request("PATCH", f"{thing.path}/status", [*thing.tests, change], JSON_PATCH)

    return ask


def put(text: str) -> Ask:
    def ask(thing: Thing, turn: int) -> Request:
        whole = {**thing.shown, "status": {**thing.shown.get("status", {}), "conditions": [refusal(text, turn)]}}
        return Request("PUT", f"{thing.path}/status", whole)

    return ask


def apply(text: str) -> Ask:
    def ask(thing: Thing, turn: int) -> Request:
        meta = thing.shown["metadata"]
        body = {
            "apiVersion": thing.shown["apiVersion"],
            "kind": thing.shown["kind"],
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
            "status": {"conditions": [refusal(text, turn)]},
        }
        return Request("PATCH", f"{thing.path}/status?fieldManager=bench&force=true", body, APPLY)

    return ask


def waits(turn: int) -> Object:
    return {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": f"{SHORT} ({turn})"}


def strategic(thing: Thing, turn: int) -> Request:
    body = {"metadata": {"uid": thing.shown["metadata"]["uid"]}, "status": {"conditions": [waits(turn)]}}
    return Request("PATCH", f"{thing.path}/status", body, STRATEGIC_MERGE_PATCH)


def pod_merge(thing: Thing, turn: int) -> Request:
    body = {"metadata": thing.precondition, "status": {"conditions": [waits(turn)]}}
    return Request("PATCH", f"{thing.path}/status", body, MERGE_PATCH)


def pod_json_patch(thing: Thing, turn: int) -> Request:
    change = {"op": "add", "path": "/status/conditions", "value": [waits(turn)]}
    return Request("PATCH", f"{thing.path}/status", [*thing.tests, change], JSON_PATCH)


def pod_put(thing: Thing, turn: int) -> Request:
    whole = {**thing.shown, "status": {**thing.shown["status"], "conditions": [waits(turn)]}}
    return Request("PUT", f"{thing.path}/status", whole)


def pod_apply(thing: Thing, turn: int) -> Request:
    request = apply(SHORT)(thing, turn)
    return request._replace(body={**request.body, "status": {"conditions": [waits(turn)]}})


def event(thing: Thing, turn: int) -> Request:
    meta = thing.shown["metadata"]
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.{turn}-{time.monotonic_ns()}", "namespace": SPACE},
        "eventTime": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime()),
        "reportingController": "headgate.dev/bench",
        "reportingInstance": "bench",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "type": "Warning",
        "note": SHORT,
        "regarding": {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "namespace": SPACE, "uid": meta["uid"]},
    }
    return Request("POST", EVENTS, body)


VERBS: dict[str, Callable[[str], Ask]] = {
    "merge patch": merge,
    "JSON patch with tests": json_patch,
    "update of the subresource": put,
    "server-side apply": apply,
}
OF_WORKLOADS = tuple(
    Way(f"{verb}, {length}", make(text))
    for verb, make in VERBS.items()
    for length, text in (("short", SHORT), ("long", LONG))
)
ADMISSION = Way("merge patch, an admission", merge_whole)
OF_PODS = (
    Way("pod: strategic merge patch", strategic),
    Way("pod: merge patch", pod_merge),
    Way("pod: JSON patch with tests", pod_json_patch),
    Way("pod: update of the subresource", pod_put),
    Way("pod: server-side apply", pod_apply),
    Way("event", event),
)


class Bench:
    def __init__(self, cluster: Cluster, client: Client) -> None:
        self._server, self._client = cluster.apiserver, client
        self._turn = 0

    async def cost(self, way: Way, thing: Thing) -> float:
        """CPU milliseconds of kube-apiserver for one write, and what it does just after it."""
        self._turn += 1
        before = self._server.exact_cpu_seconds
        answer = await self._client.request(*way.ask(thing, self._turn))
        assert answer.code < 300, f"{way.name}: {answer.body.decode(errors='replace')}"
        if way.ask is not event:
            thing.shown = answer.value
        await asyncio.sleep(SETTLES)
        return 1000 * (self._server.exact_cpu_seconds - before)

    async def costs(self, ways: Mapping[Way, Sequence[Thing]], rounds: int) -> dict[str, float]:
        """The median by way; a round before these warms the server up."""
        measured: dict[str, list[float]] = {way.name: [] for way in ways}
        for turn in range(rounds + 1):
            for row in zip(*([(way, thing) for thing in things] for way, things in ways.items()), strict=True):
                for way, thing in row:
                    spent = await self.cost(way, thing)
                    if turn:
                        measured[way.name].append(spent)
        return {name: statistics.median(spent) for name, spent in measured.items()}

    async def cost_under_load(self, way: Way, things: Sequence[Thing]) -> float:
        """CPU milliseconds of kube-apiserver for each of these writes, made all at once.

        A server that has nothing else to do spends much of its time on waking up for each watch.
        """
        self._turn += 1
        before = self._server.exact_cpu_seconds
        answers = await asyncio.gather(*(self._client.request(*way.ask(thing, self._turn)) for thing in things))
        for thing, answer in zip(things, answers, strict=True):
            assert answer.code < 300, f"{way.name}: {answer.body.decode(errors='replace')}"
            thing.shown = answer.value
        return 1000 * (self._server.exact_cpu_seconds - before) / len(things)

    async def spent(self, work: Callable[[], Awaitable[None]]) -> float:
        """CPU milliseconds of kube-apiserver for the work."""
        before = self._server.exact_cpu_seconds
        await work()
        return 1000 * (self._server.exact_cpu_seconds - before)


async def created(client: Client, path: str, manifests: Sequence[Object]) -> list[Thing]:
    answers = [await client.create(path, manifest) for manifest in manifests]
    return [Thing(f"{path}/{answer.value['metadata']['name']}", answer.value) for answer in answers]


class Accepting(Server):
    """A server that is asked for another encoding."""

    accept = PROTOBUF

    def head(self, method: str, path: str, length: int, content_type: str) -> bytes:
        return super().head(method, path, length, content_type).replace(b"application/json", self.accept.encode(), 1)


@contextlib.asynccontextmanager
async def watched(server: Server, path: str, watchers: int) -> AsyncIterator[None]:
    """So many watches of the collection go on meanwhile."""
    async with Client(server) as client:
        tasks = [asyncio.ensure_future(_listen(client, path)) for _ in range(watchers)]
        await asyncio.sleep(1.0)
        yield
        for task in tasks:
            task.cancel()


async def _listen(client: Client, path: str) -> None:
    while True:
        async for _ in client.lines(f"{path}?watch=true&allowWatchBookmarks=true"):
            pass


SETTLES = 0.003  # seconds after an answer in which the server tells watches of it
WATCHERS = 8  # at once, so that the cost of one is told from chance


async def watch_costs(
    bench: Bench, server: Server, works: Sequence[Thing], pods: Sequence[Thing], rounds: int
) -> list[tuple[str, float]]:
    """What one watch adds to a write, in CPU milliseconds; rounds with and without watches take turns."""
    protobuf, rows = Accepting(*server), []
    for name, way, things, path, reached in (
        ("one watch of Workloads, JSON", OF_WORKLOADS[0], works, WORKLOADS, server),
        ("one watch of pods, JSON", OF_PODS[0], pods, pods_path(SPACE), server),
        ("one watch of pods, protobuf", OF_PODS[0], pods, pods_path(SPACE), protobuf),
    ):
        alone, beside = list[float](), list[float]()
        for turn in range(2 * rounds + 1):
            async with watched(reached, path, WATCHERS if turn % 2 else 0):
                spent = await bench.cost_under_load(way, things)
            if turn:  # the first warms the server up
                (beside if turn % 2 else alone).append(spent)
        rows.append((f"{name}, under load", (statistics.median(beside) - statistics.median(alone)) / WATCHERS))
    return rows


async def start_costs(bench: Bench, client: Client, objects: int) -> list[tuple[str, float]]:
    """What it costs to learn all objects at a start, for each object."""

    async def listed() -> None:
        for _ in range(WATCHERS):
            await client.get_bytes(pods_path(SPACE))

    async def streamed() -> None:
        query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
        for _ in range(WATCHERS):
            async for line in client.lines(f"{pods_path(SPACE)}?{query}"):
                if b"initial-events-end" in line:
                    break

    return [
        ("list, of one pod", await bench.spent(listed) / WATCHERS / objects),
        ("sendInitialEvents, of one pod", await bench.spent(streamed) / WATCHERS / objects),
    ]


class Table:
    """The rows as they are measured; ratios are against the first."""

    def __init__(self) -> None:
        self._base = 0.0
        print(f"{'':52}{'CPU ms':>10}{'ratio':>10}", flush=True)

    def add(self, rows: Iterable[tuple[str, float]]) -> None:
        for name, spent in rows:
            self._base = self._base or spent
            print(f"{name:52}{spent:10.2f}{spent / self._base:10.2f}", flush=True)


async def measure(cluster: Cluster, objects: int, rounds: int) -> None:
    async with Client(cluster.server) as client:
        await create_namespace(client, SPACE)
        await until_quiet(cluster)
        bench, table = Bench(cluster, client), Table()
        ways = (*OF_WORKLOADS, ADMISSION)
        works = {way: await created(client, WORKLOADS, manifests(way.name, objects)) for way in ways}
        table.add((await bench.costs(works, rounds)).items())
        paths = pods_path(SPACE)
        named = [(way, [pod(f"p{place}-{index}") for index in range(objects)]) for place, way in enumerate(OF_PODS)]
        pods = {way: await created(client, paths, wanted) for way, wanted in named}
        table.add((await bench.costs(pods, rounds)).items())
        table.add(await watch_costs(bench, cluster.server, works[OF_WORKLOADS[0]], pods[OF_PODS[0]], rounds))
        table.add(await start_costs(bench, client, objects * len(OF_PODS)))
        for manager in range(MANAGERS):
            other = Way("", merge(SHORT, manager=f"manager-{manager}"))
            for things in works.values():
                for thing in things:
                    await bench.cost(other, thing)
        grown = {way._replace(name=f"{way.name}, {MANAGERS} managers more"): things for way, things in works.items()}
        table.add((await bench.costs(grown, rounds)).items())


def manifests(way: str, objects: int) -> list[Object]:
    """Workloads of its own for each way."""
    found = [workload("lq", BASELINE[0], index) for index in range(objects)]
    for manifest in found:
        manifest["metadata"]["name"] += "-" + "".join(one if one.isalnum() else "-" for one in way.lower())
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="What a write and a watch cost a real kube-apiserver.")
    parser.add_argument("--objects", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder, Cluster(Path(folder)) as cluster:
            install(cluster)
            uvloop.run(measure(cluster, chosen.objects, chosen.rounds))
    except MissingProgram as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
