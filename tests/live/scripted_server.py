"""A web server whose every answer a test writes itself: real sockets, real TLS, no Kubernetes."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlsplit

from headgate.live.access import Access, Anonymous, ClusterEndpoint, Identity, ServerUrl
from headgate.live.connection import Address

NOBODY = Anonymous()
_KEPT: list[socket.socket] = []  # bound, and nobody listens


class Exchange:
    """One request and the means to answer it."""

    def __init__(self, head: bytes, body: bytes, writer: asyncio.StreamWriter, connection: int) -> None:
        line, *headers = head.decode().split("\r\n")
        self.method, target, _ = line.split(" ")
        self.path, self.query = urlsplit(target).path, dict(parse_qsl(urlsplit(target).query))
        self.headers = {name.lower(): value for name, value in (h.split(": ", 1) for h in headers if h)}
        self.body, self.connection = body, connection
        self.streams = False
        self._writer = writer

    @property
    def json(self):
        return json.loads(self.body)

    def reply(self, status: int = 200, value: object = None, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps({} if value is None else value).encode()
        extra = "".join(f"{name}: {text}\r\n" for name, text in (headers or {}).items())
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
        self.write(head.encode() + body)

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def drop(self) -> None:
        """Close the connection without another word."""
        self._writer.close()

    def begin_stream(self) -> None:
        self.streams = True
        self.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    def line(self, value: object) -> None:
        self.chunk(json.dumps(value).encode() + b"\n")

    def chunk(self, data: bytes) -> None:
        self.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def end_stream(self) -> None:
        self.write(b"0\r\n\r\n")

    async def closed(self) -> None:
        await self._writer.wait_closed()


Handler = Callable[[Exchange], Awaitable[None]]


class ScriptedServer:
    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.seen: list[Exchange] = []
        self.connections = 0
        self.open: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.tls = False

    def access(self, identity: Identity = NOBODY, **cluster: object) -> Access:
        url = ServerUrl(Address("127.0.0.1", self.port), self.tls, "")
        return Access(ClusterEndpoint(url, "a test", **cluster), identity)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self.open.add(writer)
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
                length = next(
                    (int(h.split(b":")[1]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length")), 0
                )
                exchange = Exchange(head, await reader.readexactly(length), writer, number)
                self.seen.append(exchange)
                await self._handler(exchange)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open.discard(writer)
            writer.close()


@asynccontextmanager
async def scripted(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    scripted_server = ScriptedServer(handler)
    listening = await asyncio.start_server(scripted_server.serve, "127.0.0.1", 0, ssl=tls)
    scripted_server.port, scripted_server.tls = listening.sockets[0].getsockname()[1], tls is not None
    try:
        yield scripted_server
    finally:
        listening.close()
        for writer in list(scripted_server.open):
            writer.transport.abort()


def unused_port() -> int:
    """A port on which nobody listens: it is ours until this process ends, and other processes get others."""
    kept = socket.socket()
    kept.bind(("127.0.0.1", 0))
    _KEPT.append(kept)
    return int(kept.getsockname()[1])
