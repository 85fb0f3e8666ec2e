"""What a manager of many worker clusters costs: from a worker's signal to its open gate, memory, requests.

python benchmarks/bench_fleet.py --clusters 20 --workloads 2000

Our whole process (engine, reflectors, writes, over HTTPS) runs against servers in a process of their own, which store
objects and validate nothing. Every workload is dispatched to every cluster. Then some more are submitted, and some
replicas signal that they need preemption, one after the other; with no window for proposals, each is answered at once.
"Own time" is the CPU time of our process. Then, in the same run, one cluster dies and another takes two seconds for
each answer, and all is measured again: that may change neither time, memory nor requests by more than a tenth.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import resource
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import httptools

from headgate.live.access import Access, Anonymous, ClusterEndpoint, ServerUrl
from headgate.live.certificates import ServingCertificate, made_for
from headgate.live.connection import Address
from headgate.live.logs import Log, LogLevel, text_line
from headgate.live.service import RunPlan, serve
from headgate.model.kueue_names import MULTIKUEUE, MULTIKUEUE_ORIGIN, PREBUILT_WORKLOAD
from headgate.model.settings import MultiKueueSettings, Role, Settings

Json = dict[str, Any]
KUEUE, THEN = "kueue.x-k8s.io/v1beta2", "2026-01-01T00:00:00Z"
SLOW_SECONDS = 2.0
TARGET_MS = 50.0
TENTH = 1.1
SUBMITTED, WARM_UP = 50, 5
ROUND, ROUNDS = 20, 8  # signals whose time is taken together, and how often
TROUBLED = ("dead", "slow")  # the last two clusters, in the second half


# objects


def metadata(name: str, namespace: str = "default", **rest: Any) -> Json:
    return {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": THEN, **rest}


def pod_sets() -> list[Json]:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": containers}}
    return [{"name": "main", "count": 1, "template": template}]


def job(name: str) -> Json:
    spec = {"suspend": True, "parallelism": 1, "completions": 1, "managedBy": MULTIKUEUE}
    labels = {"kueue.x-k8s.io/queue-name": "lq", PREBUILT_WORKLOAD: f"job-{name}"}
    return {"metadata": metadata(name, labels=labels), "spec": {**spec, "template": pod_sets()[0]["template"]}}


def home_workload(name: str, clusters: list[str]) -> Json:
    """As the quota plane leaves it: with quota, and a check that is pending."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True}
    assigned = [{"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}]
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}
    status = {
        "conditions": [{**reserved, "lastTransitionTime": THEN}],
        "admission": {"clusterQueue": "cq", "podSetAssignments": assigned},
        "admissionChecks": [{"name": "fleet", "state": "Pending", "message": "", "lastTransitionTime": THEN}],
        "nominatedClusterNames": clusters,
    }
    made = metadata(f"job-{name}", ownerReferences=[owner])
    return {"metadata": made, "spec": {"podSets": pod_sets(), "queueName": "lq", "active": True}, "status": status}


def replica(name: str) -> Json:
    made = metadata(f"job-{name}", labels={MULTIKUEUE_ORIGIN: "multikueue"})
    gates = [{"name": MULTIKUEUE}]
    return {"metadata": made, "spec": {"podSets": pod_sets(), "queueName": "lq", "preemptionGates": gates}}


# the servers


class Store:
    """The objects of one cluster, by the plural of their kind."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Json]] = {}
        self.watches: list[tuple[str, dict[str, str], Exchange]] = []
        self.exchanges: set[Exchange] = set()
        self.version, self.requests, self.delay = 0, 0, 0.0
        self.opened: dict[str, float] = {}  # gates, by Workload

    def put(self, plural: str, value: Json) -> None:
        self.version += 1
        name = value["metadata"]["name"]
        known = self.objects.setdefault(plural, {})
        kind = "MODIFIED" if name in known else "ADDED"
        value["metadata"]["resourceVersion"] = str(self.version)
        known[name] = value
        self._tell(plural, kind, value)

    def drop(self, plural: str, name: str) -> None:
        self.version += 1
        if (value := self.objects.get(plural, {}).pop(name, None)) is not None:
            self._tell(plural, "DELETED", value)

    def _tell(self, plural: str, kind: str, value: Json) -> None:
        for watched, query, exchange in self.watches:
            if watched == plural and selected(query, value):
                exchange.line({"type": kind, "object": value})

    def answer(self, exchange: Exchange) -> None:
        parts, query = exchange.path.strip("/").split("/"), exchange.query
        self.requests += 1
        if parts[-1] == "status":
            self._patch(parts[-3], parts[-2], exchange)
        elif exchange.method == "PATCH":
            self._patch(parts[-2], parts[-1], exchange)
        elif exchange.method == "POST":
            value = json.loads(exchange.body)
            value["metadata"] |= {"uid": f"{value['metadata'].get('name')}-{self.version}", "creationTimestamp": THEN}
            if parts[-1] != "events":
                self.put(parts[-1], value)
            exchange.reply(201, value)
        elif exchange.method == "DELETE":
            self.drop(parts[-2], parts[-1])
            exchange.reply(200, {})
        elif "watch" in query:
            exchange.begin()
            self.watches.append((parts[-1], query, exchange))
        else:
            items = [value for value in self.objects.get(parts[-1], {}).values() if selected(query, value)]
            exchange.reply(200, {"metadata": {"resourceVersion": str(self.version)}, "items": items})

    def _patch(self, plural: str, name: str, exchange: Exchange) -> None:
        value, change = self.objects.get(plural, {}).get(name), json.loads(exchange.body)
        if value is None:
            exchange.reply(404, {"kind": "Status", "code": 404, "message": "not found"})
            return
        wanted = change["metadata"].pop("resourceVersion", value["metadata"]["resourceVersion"])
        if wanted != value["metadata"]["resourceVersion"]:
            exchange.reply(409, {"kind": "Status", "code": 409, "reason": "Conflict", "message": "modified"})
            return
        if "preemptionGates" in change.get("status", {}) and name not in self.opened:
            self.opened[name] = time.monotonic()
        merged = merge(value, change)
        self.put(plural, merged)
        exchange.reply(200, merged)


def selected(query: dict[str, str], value: Json) -> bool:
    if field := query.get("fieldSelector"):
        return str(value["metadata"]["name"]) == field.partition("=")[2]
    label, _, wanted = query.get("labelSelector", "").partition("=")
    return not label or value["metadata"].get("labels", {}).get(label) == wanted


def merge(value: Any, change: Any) -> Any:
    if not isinstance(change, dict):
        return change
    merged = dict(value) if isinstance(value, dict) else {}
    for name, part in change.items():
        if part is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), part)
    return merged


class Exchange(asyncio.Protocol):
    """A connection of a client, with one request at a time."""

    def __init__(self, store: Store) -> None:
        self._store, self._parser = store, httptools.HttpRequestParser(self)
        self.path, self.query, self.method, self.body = "", dict[str, str](), "", b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._store.exchanges.add(self)

    def abort(self) -> None:
        self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        self._store.exchanges.discard(self)
        self._store.watches = [one for one in self._store.watches if one[2] is not self]

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.body = b""

    def on_url(self, url: bytes) -> None:
        found = httptools.parse_url(url)
        self.path, query = found.path.decode(), (found.query or b"").decode()
        pairs = (part.partition("=") for part in query.split("&") if part)
        self.query = {name: value.replace("%3D", "=").replace("%2F", "/") for name, _, value in pairs}

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.method = self._parser.get_method().decode()
        self._store.answer(self)

    def reply(self, status: int, value: Json) -> None:
        body = json.dumps(value).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._write(head.encode() + body)

    def begin(self) -> None:
        self._write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    def line(self, value: Json) -> None:
        body = json.dumps(value).encode() + b"\n"
        self._write(f"{len(body):x}\r\n".encode() + body + b"\r\n")

    def _write(self, data: bytes) -> None:
        if self._store.delay:
            asyncio.get_running_loop().call_later(self._store.delay, self._transport.write, data)
        else:
            self._transport.write(data)


class Servers:
    """The home cluster and its workers, and what happens on them, as the benchmark asks for it line by line."""

    def __init__(self, names: list[str], workloads: int, certificate: ServingCertificate) -> None:
        self.home, self._certificate = Store(), certificate
        self.workers = {name: Store() for name in names}
        self._healthy = [name for name in names if name not in TROUBLED]
        self._ports: dict[str, int] = {}
        self._listening: dict[str, asyncio.Server] = {}
        self._submitted = 0
        for number in range(workloads):
            self.home.put("jobs", job(f"w{number}"))
            self.home.put("workloads", home_workload(f"w{number}", names))
            for name in names:
                self.workers[name].put("workloads", replica(f"w{number}"))

    async def start(self) -> int:
        """Listens; the port of the home cluster."""
        with tempfile.TemporaryDirectory() as folder:
            chain, key = Path(folder, "chain"), Path(folder, "key")
            chain.write_bytes(self._certificate.chain)
            key.write_bytes(self._certificate.key)
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(chain, key)
        for name, store in self.workers.items():
            self._ports[name] = await self._listen(name, store, tls)
        self._set_up()
        return await self._listen("", self.home, None)

    async def _listen(self, name: str, store: Store, tls: ssl.SSLContext | None) -> int:
        server = await asyncio.get_running_loop().create_server(lambda: Exchange(store), "127.0.0.1", 0, ssl=tls)
        self._listening[name] = server
        return int(server.sockets[0].getsockname()[1])

    async def trouble(self) -> None:
        """One cluster dies and one becomes slow; returns when the first is shown as lost."""
        dead, slow = TROUBLED
        self._listening[dead].close()
        for exchange in list(self.workers[dead].exchanges):
            exchange.abort()
        self.workers[slow].delay = SLOW_SECONDS
        while "'False'" not in str(self.home.objects["multikueueclusters"][dead].get("status")):
            await asyncio.sleep(0.01)

    def _set_up(self) -> None:
        self.home.put("namespaces", {"metadata": {"name": "default", "uid": "n"}})
        for name, port in self._ports.items():
            secret = {"metadata": metadata(name, "kube-system"), "data": {"kubeconfig": self._kubeconfig(port)}}
            self.home.put("secrets", secret)
            source = {"clusterSource": {"kubeConfig": {"location": name, "locationType": "Secret"}}}
            self.home.put("multikueueclusters", {"metadata": metadata(name, ""), "spec": source})
        self.home.put("multikueueconfigs", {"metadata": metadata("all", ""), "spec": {"clusters": list(self.workers)}})
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
        check = {"controllerName": MULTIKUEUE, "parameters": parameters}
        self.home.put("admissionchecks", {"metadata": metadata("fleet", ""), "spec": check})

    def _kubeconfig(self, port: int) -> str:
        authority = base64.b64encode(self._certificate.authority).decode()
        place = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": authority}
        document = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": place}],
            "users": [{"name": "x", "user": {"token": "t"}}],
        }
        return base64.b64encode(json.dumps(document).encode()).decode()

    async def connected(self) -> None:
        """Returns when every worker is shown as connected."""
        shown = self.home.objects["multikueueclusters"]
        while not all("'True'" in str(shown[name].get("status")) for name in self.workers):
            shown = self.home.objects["multikueueclusters"]
            await asyncio.sleep(0.01)

    async def submit(self, count: int) -> float:
        """Requests for each of so many new workloads, until each has a replica on every healthy worker."""
        before, first = self._requests(), self._submitted
        self._submitted += count
        names = [f"new{number}" for number in range(first, first + count)]
        for name in names:
            self.home.put("jobs", job(name))
            self.home.put("workloads", home_workload(name, []))
        last = [f"job-{name}" for name in names]
        healthy = [self.workers[name].objects["workloads"] for name in self._healthy]
        while not all(name in there for there in healthy for name in last):
            await asyncio.sleep(0.01)
        return (self._requests() - before) / count

    def _requests(self) -> int:
        return self.home.requests + sum(self.workers[name].requests for name in self._healthy)

    async def signal(self, first: int, count: int) -> list[float]:
        """Seconds from each of so many signals, of these and the following workloads, to the open gate."""
        seconds = []
        for number in range(first, first + count):
            worker, name = self.workers[self._healthy[number % len(self._healthy)]], f"job-w{number}"
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            blocked = {"type": "PreemptionBlocked", "status": "True", "reason": "PreemptionGated", "message": ""}
            kept = worker.objects["workloads"][name]
            began = time.monotonic()
            worker.put("workloads", {**kept, "status": {"conditions": [{**blocked, "lastTransitionTime": now}]}})
            while name not in worker.opened:
                await asyncio.sleep(0.0005)
            seconds.append(worker.opened[name] - began)
        return seconds


async def run_servers(names: list[str], workloads: int) -> None:
    """Answers each line of standard input with one of output."""
    certificate = made_for(["localhost", "127.0.0.1"], time.time())
    servers = Servers(names, workloads, certificate)
    print(await servers.start(), flush=True)
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode().split():
        known: dict[str, Callable[..., Awaitable[object]]] = {
            "connected": servers.connected,
            "submit": servers.submit,
            "trouble": servers.trouble,
            "signal": servers.signal,
        }
        asked = known[line[0]]
        print(json.dumps(await asked(*map(int, line[1:]))), flush=True)


# our process


async def measure(names: list[str], workloads: int) -> Json:
    """Our process against such servers."""
    command = [sys.executable, __file__, "--serve", ",".join(names), "--workloads", str(workloads)]
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=2**24)
    assert child.stdin is not None
    assert child.stdout is not None

    async def ask(*words: object) -> Any:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(f"{' '.join(map(str, words))}\n".encode())
        return json.loads(await child.stdout.readline())

    port, stop = int(await child.stdout.readline()), asyncio.Event()
    access = Access(ClusterEndpoint(ServerUrl(Address("127.0.0.1", port), False, ""), "here"), Anonymous())
    fleet = MultiKueueSettings(proposal_window=0.0)
    settings = Settings(roles=frozenset({Role.FLEET}), multikueue=fleet)
    began, memory = time.process_time(), resident()
    log = Log(sys.stderr, text_line, LogLevel.ERROR, time.time)
    serving = asyncio.ensure_future(serve(RunPlan(access, settings), log, stop))
    await ask("connected")
    found: Json = {"start_s": time.process_time() - began}
    signals = 0

    async def half(prefix: str) -> None:
        nonlocal signals
        found[f"{prefix}requests"] = await ask("submit", SUBMITTED)
        known = workloads + (2 * SUBMITTED if prefix else SUBMITTED)
        found[f"{prefix}kib"] = (resident() - memory) / 1024 / known
        own, wall = list[float](), list[float]()
        for count in (WARM_UP, *[ROUND] * ROUNDS):  # the first ones pay for what went before
            before = time.process_time()
            wall += await ask("signal", signals, count)
            own.append((time.process_time() - before) / count)
            signals += count
        found[f"{prefix}own_ms"] = 1000 * statistics.median(own[1:])
        found[f"{prefix}p50_ms"] = 1000 * statistics.median(wall)

    await half("")
    await ask("trouble")
    await half("troubled_")
    stop.set()
    await serving
    child.kill()
    await child.wait()
    return found


def resident() -> int:
    """Bytes of memory that our process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def shown(label: str, found: Json, prefix: str = "") -> str:
    numbers = {name: found[f"{prefix}{name}"] for name in ("own_ms", "p50_ms", "kib", "requests")}
    return (
        f"{label:28} own time {numbers['own_ms']:5.1f} ms a gate (wall p50 {numbers['p50_ms']:.1f}), "
        f"{numbers['kib']:.1f} KiB and {numbers['requests']:.1f} requests a workload"
    )


def compare(clusters: int, workloads: int) -> int:
    names = [*(f"c{number}" for number in range(clusters - len(TROUBLED))), *TROUBLED]
    found = asyncio.run(measure(names, workloads))
    print(f"{clusters} clusters, {workloads} workloads, read in {found['start_s']:.1f} s of own time")
    print(shown("all are well", found))
    print(shown("one is dead and one is slow", found, "troubled_"))
    ratios = {name: found[f"troubled_{name}"] / found[name] for name in ("own_ms", "kib", "requests")}
    print("ratios: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
    worse = [name for name, ratio in ratios.items() if ratio > TENTH]
    late = found["own_ms"] >= TARGET_MS
    print(f"a gate is opened within {TARGET_MS:g} ms of own time: {'NO' if late else 'yes'}")
    print(f"a dead and a slow cluster cost less than a tenth: {f'NO: {worse}' if worse else 'yes'}")
    return int(late or bool(worse))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--clusters", type=int, default=20)
    options.add_argument("--workloads", type=int, default=2000)
    options.add_argument("--serve", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.serve:
        asyncio.run(run_servers(given.serve.split(","), given.workloads))
        return 0
    return compare(given.clusters, given.workloads)


if __name__ == "__main__":
    sys.exit(main())
