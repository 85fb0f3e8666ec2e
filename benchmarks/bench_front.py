"""The small Kubernetes on the wire: bindings seen in a cache, many watchers, and how much memory pods take.

Bindings are first asked of the server itself, as the simulator and `headgate up` do: written, drained from a watch and
decoded into a cache, in one process. Then over HTTP, beside a server of aiohttp that validates nothing and stores
nothing: it decodes the binding, answers, and writes an event of the same size. Client and servers are processes of
their own; they take turns, first without TLS and then with it, and what counts is the median of the rounds' ratios.

Run: python benchmarks/bench_front.py [--binds 10000] [--watchers 200 --objects 1000] [--pods 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import os
import resource
import ssl
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from bench_apiserver import POD, body

from headgate.api.decode import decode, decode_list, decode_watch
from headgate.api.requests import JSON, Call
from headgate.apiserver import ApiServer, Request
from headgate.apiserver.messages import ClientIdentity
from headgate.live.access import Access, Anonymous, ClusterEndpoint, server_url
from headgate.live.api_credentials import new_administrator
from headgate.live.api_front import LIMITS, ApiFront
from headgate.live.certificates import ServerTls, ServingCertificate
from headgate.live.client import Client
from headgate.live.connection import Stream
from headgate.live.http_server import Listen, http_server
from headgate.live.start import NEW_LOOP
from headgate.model.keys import Kind

PODS = "/api/v1/namespaces/default/pods"
BINDING = b'{"target":{"kind":"Node","name":"n"}}'
CONNECTIONS = 16
SPREAD = 100  # namespaces of stored pods
ROUNDS = 3  # of bindings over HTTP
GOAL = 10_000  # bindings a second in process
SOMEBODY = ClientIdentity("somebody", ())
DRAINED_EVERY = 16  # bindings in process, as many as are under way over HTTP


def in_another_process(serve: Callable[..., None], *arguments: Any) -> tuple[Any, int]:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(there, *arguments), daemon=True)
    process.start()
    return process, int(here.recv())


def used_by(process: Any) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def server_with(pods: int) -> ApiServer:
    """With that many pods, which wait for a node."""
    server = ApiServer()
    for number in range(pods):
        free = msgspec.json.decode(body(f"pod-{number}"))
        del free["spec"]["schedulingGates"]
        assert server.handle(Request("POST", PODS, {}, msgspec.json.encode(free)), 0.0).code == 201
    return server


def in_process(count: int) -> float:
    """CPU seconds until the last of so many bindings is in a cache that a watch fills."""
    server = server_with(count)
    watch = server.watch(PODS, {"resourceVersion": "0"})
    watch.drain()
    gc.collect()
    gc.freeze()  # as `headgate run` does once it knows the cluster
    cache: dict[str, object] = {}
    began = time.process_time()
    for number in range(count):
        bound = server.handle(Request("POST", f"{PODS}/pod-{number}/binding", {}, BINDING), 0.0)
        assert bound.code == 201
        if number % DRAINED_EVERY == DRAINED_EVERY - 1 or number == count - 1:
            for event in watch.drain():
                seen = decode(Kind.POD, event.raw)
                cache[seen.key.name] = seen
    taken = time.process_time() - began
    assert len(cache) == count
    return taken


def tls_of(shown: ServingCertificate | None) -> ssl.SSLContext | None:
    if shown is None:
        return None
    tls = ServerTls()
    tls.show(shown)
    return tls.context


def serve_ours(told: Connection, pods: int, shown: ServingCertificate | None) -> None:
    server = server_with(pods)
    front = ApiFront(server, lambda _: SOMEBODY, time.time)

    async def run() -> None:
        async with http_server(Listen("127.0.0.1", 0), front, LIMITS, "--port", tls_of(shown)) as port:
            told.send(port)
            await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=NEW_LOOP) as runner:
        runner.run(run())


def serve_aiohttp(told: Connection, _pods: int, shown: ServingCertificate | None) -> None:
    watchers: list[web.StreamResponse] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET" and "watch" not in request.query:
            return web.Response(
                body=b'{"metadata":{"resourceVersion":"1"},"items":[]}', content_type="application/json"
            )
        if request.method == "GET":
            stream = web.StreamResponse(headers={"Content-Type": "application/json"})
            await stream.prepare(request)
            watchers.append(stream)
            await asyncio.Event().wait()
        target, name = msgspec.json.decode(await request.read())["target"], request.path.split("/")[6]
        seen = {**POD, "metadata": {**POD["metadata"], "name": name, "namespace": "default", "uid": name}}
        seen["spec"] = {**POD["spec"], "nodeName": target["name"]}
        for watcher in watchers:
            await watcher.write(b'{"type":"MODIFIED","object":%b}\n' % msgspec.json.encode(seen))
        return web.Response(status=201, body=b"{}", content_type="application/json")

    async def run() -> None:
        serving = asyncio.get_running_loop().create_server(web.Server(answer), "127.0.0.1", 0, ssl=tls_of(shown))
        server = await serving
        told.send(server.sockets[0].getsockname()[1])
        await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=NEW_LOOP) as runner:
        runner.run(run())


@asynccontextmanager
async def asking(port: int, shown: ServingCertificate | None) -> AsyncIterator[Client]:
    scheme, authority = ("https", shown.authority) if shown is not None else ("http", b"")
    endpoint = ClusterEndpoint(server_url(f"{scheme}://127.0.0.1:{port}"), "bench", authority=authority)
    client = Client(Access(endpoint, Anonymous()), time.monotonic, time.time, asyncio.sleep)
    try:
        yield client
    finally:
        client.close()


async def bindings(port: int, count: int, shown: ServingCertificate | None) -> float:
    """Seconds until the last of so many bindings is seen in a cache that a watch fills."""
    cache: dict[str, object] = {}
    left = iter(range(count))
    async with asking(port, shown) as client, asking(port, shown) as watching:

        async def bind() -> None:
            for number in left:
                call = Call("POST", f"{PODS}/pod-{number}/binding", {}, JSON, BINDING)
                assert (await client.perform(call)).status == 201

        async def watch(stream: Stream) -> None:
            async for line in stream.lines():
                event = decode_watch(line)
                if event.type == "MODIFIED":
                    seen = decode(Kind.POD, event.object)
                    cache[seen.key.name] = seen
                    if len(cache) == count:
                        return

        listed = decode_list((await watching.perform(Call("GET", PODS, {"limit": "1"}, "", b""))).body)
        from_here = {"watch": "true", "resourceVersion": listed.version}
        async with watching.stream(Call("GET", PODS, from_here, "", b"")) as stream:
            assert isinstance(stream, Stream)
            began = time.perf_counter()
            await asyncio.gather(watch(stream), *(bind() for _ in range(CONNECTIONS)))
            return time.perf_counter() - began


async def fan_out(watchers: int, objects: int) -> float:
    """Seconds until every watcher has read all events, over sockets, in this process."""
    server = ApiServer()
    front = ApiFront(server, lambda _: SOMEBODY, time.time)
    async with http_server(Listen("127.0.0.1", 0), front, LIMITS, "--port") as port:

        async def watch() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
            writer.write(f"GET {PODS}?watch=true HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            opened.release()
            seen = 0
            while seen < objects:
                seen += (await reader.read(1 << 20)).count(b'{"type":"ADDED"')
            writer.close()

        opened = asyncio.Semaphore(0)
        tasks = [asyncio.ensure_future(watch()) for _ in range(watchers)]
        for _ in tasks:
            await opened.acquire()
        began = time.perf_counter()
        for number in range(objects):
            server.handle(Request("POST", PODS, {}, body(f"pod-{number}")), 0.0)
            if number % 10 == 9:
                front.inform()
                await asyncio.sleep(0)
        front.inform()
        await asyncio.gather(*tasks)
        return time.perf_counter() - began


def stored(count: int) -> int:
    """MiB that a process takes with so many pods of one container each, with requests and labels."""
    container = {"name": "main", "image": "train", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    spec, labels = {"schedulerName": "headgate", "containers": [container]}, {"app": "train", "queue": "main"}
    server = ApiServer()
    for space in range(SPREAD):
        made = {"metadata": {"name": f"team-{space}"}}
        server.handle(Request("POST", "/api/v1/namespaces", {}, msgspec.json.encode(made)), 0.0)
    for number in range(count):
        path = f"/api/v1/namespaces/team-{number % SPREAD}/pods"
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}", "labels": labels}, "spec": spec}
        assert server.handle(Request("POST", path, {}, msgspec.json.encode(pod)), 0.0).code == 201
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def measure_in_process(told: Connection, count: int) -> None:
    told.send(count / in_process(count))


def measure_stored(told: Connection, count: int) -> None:
    told.send(stored(count))


def over_http(binds: int, shown: ServingCertificate | None) -> None:
    ratios: dict[str, list[float]] = {"per second": [], "per CPU second of client and server": []}
    print(f"  over {'HTTP' if shown is None else 'HTTPS'}, {CONNECTIONS} connections:")
    for _ in range(ROUNDS):
        rates = {}
        for name, serve in (("aiohttp", serve_aiohttp), ("ours", serve_ours)):
            process, port = in_another_process(serve, binds, shown)
            began = time.process_time() + used_by(process)
            with asyncio.Runner(loop_factory=NEW_LOOP) as runner:
                taken = runner.run(bindings(port, binds, shown))
            by_cpu = binds / (time.process_time() + used_by(process) - began)
            process.terminate()
            rates[name] = (binds / taken, by_cpu)
            print(f"  {name:16} {binds / taken:9,.0f} bindings/s {by_cpu:9,.0f} per CPU second of client and server")
        for what, ours, theirs in zip(ratios, *(rates[name] for name in ("ours", "aiohttp")), strict=True):
            ratios[what].append(ours / theirs)
    for what, found in ratios.items():
        print(f"  {statistics.median(found):.2f} x aiohttp, which validates and stores nothing, {what}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binds", type=int, default=10_000)
    parser.add_argument("--watchers", type=int, default=200)
    parser.add_argument("--objects", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=100_000)
    arguments = parser.parse_args()
    print(f"bind, watch, cache: {arguments.binds} pods")
    _, rate = in_another_process(measure_in_process, arguments.binds)
    print(f"  in process {rate:9,} bindings per CPU second, expected at least {GOAL:,}")
    certificate = new_administrator(["127.0.0.1"], (), time.time()).certificates.server
    for shown in (None, certificate):
        over_http(arguments.binds, shown)
    with asyncio.Runner(loop_factory=NEW_LOOP) as runner:
        taken = runner.run(fan_out(arguments.watchers, arguments.objects))
    events = arguments.watchers * arguments.objects
    asked = f"{arguments.watchers} watchers, {arguments.objects} objects"
    print(f"{asked}: {events / taken:,.0f} events/s in {taken:.2f} s")
    _, used = in_another_process(measure_stored, arguments.pods)
    print(f"{arguments.pods} pods stored: {used} MiB, {used * 1024 / arguments.pods:.1f} KiB each")


if __name__ == "__main__":
    main()
