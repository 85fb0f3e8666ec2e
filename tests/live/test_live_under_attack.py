"""A real process under attack: whoever is hostile loses connections, and everybody else is answered meanwhile.

The hostile clients have one address of this host, others have the same or another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from throwaway_ca import ThrowawayCa
from tiny_cluster import tiny_cluster

from headgate.live.health import LIMITS as PAGE_LIMITS
from headgate.live.webhooks import LIMITS as WEBHOOK_LIMITS

pytestmark = pytest.mark.asyncio(loop_scope="module")

RUN = (sys.executable, "-c", "from headgate.ui.run_command import run; run()")
HOSTILE, OTHER = "127.0.0.1", "127.0.0.2"
PATIENCE = 60.0  # seconds; the attackers take their share of this machine, too


class Target:
    """The process: where it listens, and connections to it."""

    def __init__(self, process: asyncio.subprocess.Process, ca: ThrowawayCa) -> None:
        self.process = process
        self.pages = self.webhooks = self.metrics = 0  # ports
        self.listening = asyncio.Event()
        self.said: list[str] = []
        self.tls = ssl.create_default_context(cafile=str(ca.certificate))
        self.stranger = ssl.create_default_context()
        self.stranger.check_hostname, self.stranger.verify_mode = False, ssl.CERT_NONE
        self._hostile: list[asyncio.StreamWriter] = []

    async def hostile(self, port: int, sent: bytes = b"", tls: ssl.SSLContext | None = None) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(HOSTILE, port, local_addr=(HOSTILE, 0), ssl=tls)
        self._hostile.append(writer)
        writer.write(sent)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        return reader

    def end_attack(self) -> None:
        for writer in self._hostile:
            writer.transport.abort()
        self._hostile.clear()

    async def probe(self, source: str) -> str:
        """The status of /livez. Who shares the address of hostile clients may have to try again, as kubelets do."""
        for _ in range(2 if source == HOSTILE else 0):
            with contextlib.suppress(ConnectionError):
                if status := await self._probe(source):
                    return status
        return await self._probe(source)

    async def _probe(self, source: str) -> str:
        async with self._connected(self.pages, source, None) as (reader, writer):
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            return (await reader.read()).split(b"\r\n")[0].decode()

    async def review(self, source: str) -> object:
        """The answer to an AdmissionReview about a Workload of a class that does not exist."""
        async with self._connected(self.webhooks, source, self.tls) as (reader, writer):
            body = json.dumps(REVIEW).encode()
            writer.write(post("/validate-workload", len(body)) + body)
            await reader.readuntil(b"\r\n\r\n")
            return json.JSONDecoder().raw_decode((await reader.readuntil(b"}}}")).decode())[0]["response"]["status"]

    async def scrape(self, source: str, token: str = "", path: str = "/metrics", *, tls: bool = True) -> bytes:
        """The answer to a scrape of the metrics."""
        port, context = (self.metrics, self.stranger) if tls else (self.pages, None)
        async with self._connected(port, source, context) as (reader, writer):
            proof = f"Authorization: Bearer {token}\r\n" if token else ""
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n{proof}\r\n".encode())
            return await reader.read()

    @contextlib.asynccontextmanager
    async def _connected(self, port: int, source: str, tls: ssl.SSLContext | None):
        reader, writer = await asyncio.open_connection(HOSTILE, port, local_addr=(source, 0), ssl=tls)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


REVIEW = {
    "request": {
        "uid": "u1",
        "resource": {"group": "scheduling.headgate.dev", "version": "v1alpha1", "resource": "workloads"},
        "object": {
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {
                "priorityClassName": "none",
                "podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 4}}}],
            },
        },
    }
}
REFUSED = {"code": 403, "reason": "Forbidden", "message": "no PriorityClass with name none was found"}


def post(path: str, length: int) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def target(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    folder: Path = tmp_path_factory.mktemp("attack")
    ca = ThrowawayCa(folder)
    chain, key = ca.issue("webhook")
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("a-tenants-pod", cpu="99")
        cluster.tokens = {"good": "prometheus", "poor": "tenant"}
        cluster.readers = {("prometheus", "/metrics"), ("prometheus", "/preemptions")}
        flags = {
            "--kubeconfig": cluster.kubeconfig(folder),
            "--leader-elect": "false",
            "--listen": "0.0.0.0:0",
            "--metrics-listen": "0.0.0.0:0",
            "--webhook-listen": "0.0.0.0:0",
            "--webhook-cert": chain,
            "--webhook-key": key,
            "--roles": "scheduler,quota,integrations",
        }
        arguments = [str(part) for flag in flags.items() for part in flag]
        process = await asyncio.create_subprocess_exec(
            *RUN, *arguments, stderr=asyncio.subprocess.PIPE, env=dict(os.environ)
        )
        target = Target(process, ca)
        reading = asyncio.ensure_future(read_log(target))
        try:
            await target.listening.wait()
            yield target
        finally:
            process.terminate()
            await process.wait()
            await reading
    assert process.returncode == 0
    assert not [line for line in target.said if "Traceback" in line or " ERROR " in line]


async def read_log(target: Target) -> None:
    assert target.process.stderr is not None
    async for line in target.process.stderr:
        text = line.decode()
        target.said.append(text)
        if "health and metrics are served" in text:
            target.pages = int(text.split("port=")[1])
        if "metrics are served over TLS" in text:
            target.metrics = int(text.split("port=")[1])
        if "webhooks are served" in text:
            target.webhooks = int(text.split("port=")[1])
        if "started" in text:
            target.listening.set()


async def at_once(makers: list[Awaitable[object]]) -> None:
    """Hostile clients do not mind being refused."""
    await asyncio.gather(*makers, return_exceptions=True)


async def idle_connections(target: Target) -> None:
    await at_once([target.hostile(target.pages) for _ in range(3 * PAGE_LIMITS.connections)])


async def silent_handshakes(target: Target) -> None:
    sent = (b"", b"\x16\x03\x01\x02\x00\x01")
    count = WEBHOOK_LIMITS.connections + 100
    await at_once([target.hostile(target.webhooks, sent[number % 2]) for number in range(count)])


async def slow_heads(target: Target) -> None:
    head = b"POST /validate-pod HTTP/1.1\r\nHost: x\r\nContent-"
    await at_once([target.hostile(target.pages, head) for _ in range(2 * PAGE_LIMITS.connections)])
    await at_once([target.hostile(target.webhooks, head, target.tls) for _ in range(100)])


async def slow_bodies(target: Target) -> None:
    sent = post("/validate-pod", WEBHOOK_LIMITS.body) + b'{"request":'
    await at_once([target.hostile(target.webhooks, sent, target.tls) for _ in range(100)])
    await at_once([target.hostile(target.pages, sent) for _ in range(100)])


async def huge_bodies(target: Target) -> None:
    """Some larger than is taken, and some that are taken but never end, of more bytes than are kept."""
    size = WEBHOOK_LIMITS.body
    too_large = post("/validate-pod", 10 * size) + b"x" * 1_000_000
    endless = post("/validate-pod", size) + b"x" * (size - 1)
    await at_once([target.hostile(target.webhooks, too_large, target.tls) for _ in range(10)])
    await at_once([target.hostile(target.webhooks, endless, target.tls) for _ in range(10)])


async def deep_json(target: Target) -> None:
    """Nested 3,000 levels and more, small and large, and texts that never end."""
    nested = b"[" * 3000 + b"]" * 3000
    named = b'{"a":' * 3000 + b"1" + b"}" * 3000
    review = b'{"request":{"uid":"u","resource":{"group":"","resource":"pods"},"object":{"metadata":{},"spec":%s}}}'
    bodies = (
        review % nested,
        review % named,
        review % (b"[" * 200_000 + b"]" * 200_000),
        review % (b"[" * 1_000_000 + b"]" * 1_000_000),
        b'{"request":{"x":' + b"[" * 3000 + b'"' + b'\\"' * 200_000,
    )
    sent = [post("/default-pod", len(body)) + body for body in bodies]
    await at_once([target.hostile(target.webhooks, sent[number % 5], target.tls) for number in range(15)])


async def pipelined_garbage(target: Target) -> None:
    garbage = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 200 + bytes(range(256)) * 200
    await at_once([target.hostile(target.pages, garbage) for _ in range(100)])
    await at_once([target.hostile(target.webhooks, garbage, target.tls) for _ in range(50)])
    await at_once([target.hostile(target.webhooks, garbage) for _ in range(50)])


async def guessed_tokens(target: Target) -> None:
    sent = [f"GET /metrics HTTP/1.1\r\nAuthorization: Bearer {number}\r\n\r\n".encode() for number in range(300)]
    await at_once([target.hostile(target.metrics, one, target.stranger) for one in sent[:150]])
    await at_once([target.hostile(target.pages, one) for one in sent[150:]])


Attack = Callable[[Target], Awaitable[None]]


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(idle_connections, id="idle connections"),
        pytest.param(silent_handshakes, id="TLS handshakes that never come"),
        pytest.param(slow_heads, id="heads that never end"),
        pytest.param(slow_bodies, id="bodies that never end"),
        pytest.param(huge_bodies, id="huge bodies"),
        pytest.param(deep_json, id="deeply nested JSON"),
        pytest.param(pipelined_garbage, id="pipelined garbage"),
        pytest.param(guessed_tokens, id="guessed tokens"),
    ],
)
async def test_probes_and_reviews_of_others_are_answered_under_attack(target: Target, attack: Attack):
    attacking = asyncio.ensure_future(attack(target))
    try:
        rounds = 0
        while rounds < 3 or not attacking.done():
            for source in (HOSTILE, OTHER):
                async with asyncio.timeout(PATIENCE):
                    assert await target.probe(source) == "HTTP/1.1 200 OK"
                async with asyncio.timeout(PATIENCE):
                    assert await target.review(source) == REFUSED
            async with asyncio.timeout(PATIENCE):
                assert b"headgate_leader 1.0" in await target.scrape(OTHER, "good")
            rounds += attacking.done()
        await attacking
    finally:
        attacking.cancel()
        target.end_attack()


async def test_deep_json_gets_an_answer(target: Target):
    nested = b"[" * 3000 + b"]" * 3000
    body = json.dumps(REVIEW).encode().replace(b'"none"', b'"none","x":%s' % nested)
    reader = await target.hostile(target.webhooks, post("/validate-workload", len(body)) + body, target.tls)
    async with asyncio.timeout(PATIENCE):
        assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"
        assert b"no PriorityClass with name none was found" in await reader.readuntil(b"}}}")
    target.end_attack()


@pytest.mark.parametrize("path", ["/metrics", "/preemptions"])
@pytest.mark.parametrize("tls", [True, False], ids=["over TLS", "in the clear on this host"])
@pytest.mark.parametrize(
    "token, status",
    [
        pytest.param("", b"401 Unauthorized", id="nobody"),
        pytest.param("wrong", b"401 Unauthorized", id="a wrong token"),
        pytest.param("poor", b"403 Forbidden", id="a user who may not"),
        pytest.param("good", b"200 OK", id="a user who may"),
    ],
)
async def test_reports_are_for_those_the_api_server_lets_read_them(target: Target, path, tls, token, status):
    said = await target.scrape(OTHER, token, path, tls=tls)
    assert said.startswith(b"HTTP/1.1 " + status + b"\r\n")
    assert token == "good" or b"tenants-pod" not in said


async def test_a_process_that_serves_webhooks_with_a_certificate_is_ready(target: Target):
    assert (await target.scrape(OTHER, path="/readyz", tls=False)).startswith(b"HTTP/1.1 200 OK\r\n")
