"""Webhooks that answer without end, and names that nobody resolves: what it costs those who call other webhooks."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from scripted_webhooks import ScriptedWebhooks, scripted_webhooks
from wire_client import MAPS, PATIENCE, Wire, config_map, wired

from headgate.apiserver import ADMISSION, ApiServer, WebhookAdmission
from headgate.live.api_credentials import new_administrator
from headgate.live.certificates import ServerTls
from headgate.live.connection import LOOK_UPS, Address, LookUps, NotResolved
from headgate.live.webhook_client import LARGEST_REVIEW

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MANY = 40  # calls, more than an event loop has threads to look up names in


@pytest.fixture
async def webhooks() -> AsyncIterator[ScriptedWebhooks]:
    async with scripted_webhooks(["quick.example"]) as running:
        yield running


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncIterator[Wire]:
    server = ApiServer(admission=(*ADMISSION, WebhookAdmission({})), calls_webhooks=True)
    async with wired(server, tmp_path / "kubeconfig") as wire:
        yield wire


async def configure(wire: Wire, *hooks: dict[str, Any]) -> None:
    body = json.dumps({"metadata": {"name": "a"}, "webhooks": list(hooks)}).encode()
    code, _, answer = await wire.ask("POST", CONFIGURATIONS, body)
    assert code == 201, answer


@asynccontextmanager
async def endless(head: bytes) -> AsyncIterator[dict[str, Any]]:
    """A webhook whose answer begins with this head and never ends, for as long as anybody reads it."""
    shown, tls = new_administrator(["127.0.0.1"], (), time.time()).certificates.server, ServerTls()
    tls.show(shown)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + head)
            while True:
                writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                await writer.drain()
                await asyncio.sleep(0)  # a transport that has failed takes all, and it takes a turn of the loop to tell
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls.context)
    port = server.sockets[0].getsockname()[1]
    try:
        yield {"url": f"https://127.0.0.1:{port}/x", "caBundle": b64encode(shown.authority).decode()}
    finally:
        server.close()


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n", id="in chunks"),
        pytest.param(b"Content-Length: 999999999999\r\n\r\n", id="of a length that is told"),
    ],
)
@pytest.mark.parametrize("policy, code", [("Fail", 500), ("Ignore", 201)])
async def test_an_answer_without_end_is_not_read_to_the_end(wire, webhooks, head, policy, code):
    async with endless(head) as there:
        hook = webhooks.configured("/endless", clientConfig=there, failurePolicy=policy, timeoutSeconds=30)
        await configure(wire, hook)
        async with asyncio.timeout(PATIENCE):
            found, _, body = await wire.ask("POST", MAPS, config_map("a"))
    assert found == code
    if policy == "Fail":
        said = json.loads(body)["message"]
        assert 'failed calling webhook "endless.example.com": failed to call webhook: Post "https://127.0.0.1:' in said
        assert said.endswith(f": the answer is larger than {LARGEST_REVIEW} bytes")


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A resolver that never answers for names in slow.example, and for others at once; the names it was asked for."""
    released, asked, known = threading.Event(), list[str](), socket.getaddrinfo

    def look_up(host: Any, *args: Any, **fields: Any) -> Any:
        asked.append(str(host))
        if str(host).endswith("slow.example"):
            released.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "temporary failure")
        return known("127.0.0.1" if host == "quick.example" else host, *args, **fields)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield asked
    released.set()


async def test_a_name_that_nobody_resolves_keeps_no_other_webhook_waiting(wire, webhooks, hanging):
    client = webhooks.configured("/allow")["clientConfig"]
    conditions = [{"name": "a", "expression": "object.metadata.name.startsWith('slow')"}]
    slow = webhooks.configured(
        "/slow-name",
        clientConfig={**client, "url": "https://webhook.slow.example/x"},
        matchConditions=conditions,
        timeoutSeconds=1,
    )
    quick = webhooks.configured(
        "/allow", clientConfig={**client, "url": f"https://quick.example:{webhooks.port}/allow"}
    )
    await configure(wire, slow, quick)
    waiting = [asyncio.ensure_future(wire.ask("POST", MAPS, config_map(f"slow-{n}"))) for n in range(MANY)]
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        assert (await wire.ask("POST", MAPS, config_map("quick")))[0] == 201
        answers = await asyncio.gather(*waiting)
    assert {code for code, _, _ in answers} == {500}
    assert "context deadline exceeded" in json.loads(answers[0][2])["message"]
    assert hanging.count("webhook.slow.example") == 1, "all wait for one look-up"


async def test_no_more_than_so_many_names_are_looked_up_at_a_time(hanging):
    look_ups = LookUps()
    waiting = [asyncio.ensure_future(look_ups.resolve(Address(f"n{n}.slow.example", 443))) for n in range(LOOK_UPS)]
    while len(hanging) < LOOK_UPS:
        await asyncio.sleep(0)
    with pytest.raises(NotResolved, match=f"{LOOK_UPS} other names are being looked up"):
        await look_ups.resolve(Address("quick.example", 443))
    assert await look_ups.resolve(Address("::1", 443)) == ("::1",)
    for each in waiting:
        each.cancel()


async def test_a_name_that_does_not_exist_is_told_as_such(wire, webhooks, monkeypatch):
    def unknown(host: Any, *args: Any, **fields: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    client = webhooks.configured("/allow")["clientConfig"]
    await configure(wire, webhooks.configured("/x", clientConfig={**client, "url": "https://nowhere.example/x"}))
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    _, _, body = await wire.ask("POST", MAPS, config_map("a"))
    assert "dial tcp: lookup nowhere.example: no such host" in json.loads(body)["message"]
