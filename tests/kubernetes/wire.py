"""A minimal HTTP/1.1 client for the tests and the benchmark: it shares no code with what it measures."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple, TypeVar, cast

import httptools

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
CONNECTIONS = 32
IDLE_LIMIT = 30.0  # seconds; a server closes what was idle for 90, and a busy test may hear of that too late


class Answer(NamedTuple):
    code: int
    body: bytes

    @property
    def value(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(self.body))


class Server(NamedTuple):
    """Where a kube-apiserver is; `tls` or `token` also says who we are."""

    host: str
    port: int
    tls: ssl.SSLContext
    headers: str = ""  # of each request besides the usual ones, each with its end of line

    def head(self, method: str, path: str, length: int, content_type: str) -> bytes:
        content = f"Content-Type: {content_type}\r\nContent-Length: {length}\r\n" if length else ""
        fixed = f"Host: {self.host}\r\nAccept: application/json\r\n"
        return f"{method} {path} HTTP/1.1\r\n{fixed}{self.headers}{content}\r\n".encode()


class Connection(asyncio.Protocol):
    """One request at a time on one connection."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._answer: asyncio.Future[Answer] | None = None
        self.closed, self.used_at = False, time.monotonic()

    @property
    def is_usable(self) -> bool:
        """Whether the server can be expected to answer on it."""
        return not self.closed and time.monotonic() < self.used_at + IDLE_LIMIT

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, trouble: Exception | None) -> None:
        self.closed = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(trouble or ConnectionResetError("the server closed the connection"))

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        body, self._pieces = b"".join(self._pieces), []
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Answer(self._parser.get_status_code(), body))

    async def ask(self, request: bytes) -> Answer:
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answer


class Refused(OSError):
    """The server did not begin to stream."""


class Stream(Connection):
    """An answer read line by line as it arrives; None is the last."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._rest = b""

    def on_headers_complete(self) -> None:
        self.code = self._parser.get_status_code()

    def on_body(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self.waiting.put_nowait(line)

    def on_message_complete(self) -> None:
        self.waiting.put_nowait(None)

    def connection_lost(self, trouble: Exception | None) -> None:
        super().connection_lost(trouble)
        self.waiting.put_nowait(None)


Kind = TypeVar("Kind", bound=Connection)


class Client:
    """Up to `CONNECTIONS` requests at once; use it as an async context manager."""

    def __init__(self, server: Server, connections: int = CONNECTIONS) -> None:
        self._server = server
        self._free: deque[Connection] = deque()
        self._slots = asyncio.Semaphore(connections)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._free:
            self._free.pop().transport.close()

    async def request(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> Answer:
        """Send it once; a body that is not bytes is encoded as JSON."""
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = self._server.head(method, path, len(content), content_type) + content
        async with self._slots:
            connection = await self._connection()
            answer = await connection.ask(request)
            connection.used_at = time.monotonic()
            self._free.append(connection)
            return answer

    async def get(self, path: str) -> dict[str, Any]:
        return (await self._accepted("GET", path)).value

    async def get_bytes(self, path: str) -> bytes:
        """The same undecoded; an answer that is no success counts as an outage."""
        answer = await self.request("GET", path)
        if answer.code != 200:
            raise Refused(f"GET {path}: {answer.code}")
        return answer.body

    async def create(self, path: str, manifest: object) -> Answer:
        return await self._accepted("POST", path, manifest)

    async def patch(self, path: str, change: Mapping[str, Any] | list[Any], content_type: str = MERGE_PATCH) -> Answer:
        return await self._accepted("PATCH", path, change, content_type)

    async def delete(self, path: str) -> Answer:
        return await self._accepted("DELETE", path)

    async def _accepted(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> Answer:
        answer = await self.request(method, path, body, content_type)
        assert answer.code < 300, f"{method} {path}: {answer.code} {answer.body.decode(errors='replace')}"
        return answer

    async def _connection(self) -> Connection:
        while self._free:
            connection = self._free.pop()
            if connection.is_usable:
                return connection
            connection.transport.close()
        return await self._connected(Connection)

    async def _connected(self, kind: type[Kind]) -> Kind:
        loop, server = asyncio.get_running_loop(), self._server
        _, connection = await loop.create_connection(kind, server.host, server.port, ssl=server.tls)
        return connection

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """The lines of a watch, until the server ends it."""
        stream = await self._connected(Stream)
        try:
            stream.transport.write(self._server.head("GET", path, 0, ""))
            while (line := await stream.waiting.get()) is not None:
                if stream.code != 200:
                    raise Refused(f"GET {path}: {stream.code} {line.decode()}")
                yield line
        finally:
            stream.transport.close()
