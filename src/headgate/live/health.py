"""Pages over HTTP: /healthz, /livez, /readyz for kubelets, /metrics for Prometheus, /preemptions for people."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from msgspec import Struct

READ_TIMEOUT = 10.0  # seconds for a request to arrive
MOST_CONNECTIONS = 64
PLAIN = "text/plain; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
JSON = "application/json"


class CannotListen(Exception):
    """The address is taken, forbidden or not ours."""


class Listen(Struct, frozen=True):
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Listen | None:
        """HOST:PORT; empty turns listening off. Raises ValueError."""
        if not text:
            return None
        host, colon, port = text.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535:
            raise ValueError(f"expected HOST:PORT such as 0.0.0.0:10270, got {text!r}")
        return cls(host.strip("[]") or "0.0.0.0", int(port))


class Page(Struct, frozen=True):
    status: str
    body: bytes
    content_type: str = PLAIN


Pages = Mapping[str, Callable[[], Page]]


class Readiness:
    """What /readyz and /preemptions show; both change with the process's role (standby or leader)."""

    def __init__(self) -> None:
        self.check: Callable[[], bool] = lambda: False
        self.receipts: Callable[[], bytes] = lambda: b"[]"


def pages(readiness: Readiness, metrics: Callable[[], bytes]) -> Pages:
    alive = Page("200 OK", b"ok\n")
    waiting = Page("503 Service Unavailable", b"the cluster has not been read yet\n")
    return {
        "/healthz": lambda: alive,
        "/livez": lambda: alive,
        "/readyz": lambda: alive if readiness.check() else waiting,
        "/metrics": lambda: Page("200 OK", metrics(), PROMETHEUS),
        "/preemptions": lambda: Page("200 OK", readiness.receipts(), JSON),
    }


@asynccontextmanager
async def serving(listen: Listen, shown: Pages) -> AsyncIterator[int]:
    """Serves while the block lasts; the port it listens on. Raises CannotListen."""
    page_server = _PageServer(shown)
    try:
        server = await asyncio.start_server(page_server.answer, listen.host, listen.port, limit=16 * 1024)
    except OSError as error:
        taken = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        raise CannotListen(
            f"{listen.host}:{listen.port} {taken}; choose another with --listen HOST:PORT, or none with --listen ''"
        ) from error
    async with server:
        yield server.sockets[0].getsockname()[1]


class _PageServer:
    def __init__(self, shown: Pages) -> None:
        self._shown = shown
        self._open = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request per connection; malformed or slow requests are disconnected."""
        self._open += 1
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                if self._open <= MOST_CONNECTIONS:
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(_rendered(head, self._page(head)))
                    await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            self._open -= 1
            writer.close()

    def _page(self, head: bytes) -> Page:
        method, target, *_ = [*head.split(b"\r\n", 1)[0].decode("latin-1").split(" "), "", ""]
        if method not in ("GET", "HEAD"):
            return Page("405 Method Not Allowed", b"only GET and HEAD\n")
        page = self._shown.get(target.split("?", maxsplit=1)[0])
        return page() if page else Page("404 Not Found", f"try {', '.join(self._shown)}\n".encode())


def _rendered(request: bytes, page: Page) -> bytes:
    lines = (
        f"HTTP/1.1 {page.status}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "Connection: close",
    )
    head = "\r\n".join((*lines, "", "")).encode()
    return head if request.startswith(b"HEAD ") else head + page.body
