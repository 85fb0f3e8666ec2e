"""A client of the small Kubernetes on the wire that can do what no client should."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import yaml

from headgate.apiserver.server import ApiServer
from headgate.live.api_credentials import write_private
from headgate.live.api_front import LIMITS, ApiFront, served
from headgate.live.certificates import tls_context
from headgate.live.http_server import Listen, ServerLimits
from headgate.live.kubeconfig import find_access

MAPS = "/api/v1/namespaces/default/configmaps"
PATIENCE = 60.0  # seconds


def config_map(name: str, size: int = 1) -> bytes:
    value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "x" * size}}
    return json.dumps(value).encode()


class Wire:
    """One front and how to ask it; every request on a connection of its own."""

    front: ApiFront

    def __init__(self, file: Path, server: ApiServer) -> None:
        self.server, self.file = server, file
        document = yaml.safe_load(file.read_text())
        self.token = document["users"][0]["user"]["token"]
        self.port = int(document["clusters"][0]["cluster"]["server"].rpartition(":")[2])
        access = find_access(str(file), "", {})
        self.with_certificate = tls_context(access.cluster, access.certificate)
        self.without = tls_context(access.cluster, None)

    async def send(
        self, method: str, path: str, body: bytes = b"", tls: ssl.SSLContext | None = None, **headers: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls or self.without)
        lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        return reader, writer

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
        headers = {"Authorization": f"Bearer {self.token}", **headers}
        reader, writer = await self.send(method, path, body, **headers)
        async with asyncio.timeout(PATIENCE):
            head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        first, *lines = head.decode().split("\r\n")
        return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), rest

    @contextlib.asynccontextmanager
    async def watch(self, path: str, **headers: str) -> AsyncIterator[asyncio.StreamReader]:
        reader, writer = await self.send("GET", path, Authorization=f"Bearer {self.token}", **headers)
        async with asyncio.timeout(PATIENCE):
            await reader.readuntil(b"\r\n\r\n")
        yield reader
        writer.transport.abort()


@contextlib.asynccontextmanager
async def wired(server: ApiServer, file: Path, limits: ServerLimits = LIMITS) -> AsyncIterator[Wire]:
    """The server on the wire, and a client with the kubeconfig in that file."""
    async with served(server, Listen("127.0.0.1", 0), limits) as api:
        write_private(file, api.administrator.kubeconfig(api.url, "test"))
        wire = Wire(file, server)
        wire.front = api.front
        yield wire


async def events(reader: asyncio.StreamReader, count: int) -> list[dict]:
    """That many events of a watch, whatever the chunks they come in."""
    found, text = [], b""
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            size = int(await reader.readline(), 16)
            assert size, "the watch ended"
            text += (await reader.readexactly(size + 2))[:-2]
            *lines, text = text.split(b"\n")
            found += [json.loads(line) for line in lines]
    return found
