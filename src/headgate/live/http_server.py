"""An HTTP/1.1 server that stays open to all while some are hostile; the parser is llhttp (httptools), TLS is OpenSSL.

Every phase of a connection has a deadline that no byte extends. A new connection is always accepted: where a peer or
the server is at its limit, the connection that waits longest is dropped for it, of the peer that has most of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from functools import lru_cache
from http import HTTPStatus
from typing import Any, cast

import httptools
from msgspec import Struct

PLAIN = "text/plain; charset=utf-8"
BACKLOG = 1024  # connections the kernel keeps for us while we are busy
LINGER_SECONDS = 2.0  # for a client that still sends to read why it was refused
REPEATED = ("impersonate-group", "impersonate-extra-")
"""How headers begin of which each one counts; their values are joined by newlines."""
ACCEPT_PAUSE = 0.05  # seconds before accepting again when it failed, for want of file descriptors


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


class HttpRequest(Struct, frozen=True):
    """Header names are in lower case. `certificate` is the client's, verified, as `ssl` decodes it; empty if none."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    peer: str  # its address
    tls: bool
    certificate: Mapping[str, Any]
    query: str = ""  # as it was sent


class HttpReply(Struct, frozen=True):
    """A reply with a body; with a `stream` its parts follow as they come, until it ends or the client goes."""

    status: int
    body: bytes = b""
    content_type: str = PLAIN
    headers: tuple[tuple[str, str], ...] = ()
    stream: AsyncGenerator[bytes, None] | None = None


Handler = Callable[[HttpRequest], HttpReply | Awaitable[HttpReply]]
"""Answers a request; at once where it returns the reply itself, which spares a task."""


class ServerLimits(Struct, frozen=True, kw_only=True):
    """Connections, bytes and seconds that nobody gets more of. `buffered` bytes are those of all requests together."""

    connections: int
    per_peer: int
    head: int = 16 * 1024
    body: int = 0
    buffered: int = 0
    handshake_seconds: float = 5.0
    head_seconds: float = 5.0
    body_seconds: float = 10.0
    answer_seconds: float = 10.0
    drain_seconds: float = 10.0
    idle_seconds: float = 0.0  # between two requests of one connection; 0: one request for each
    streams: int = 0  # replies that go on; more of them are refused


class ConnectionPhase(Enum):
    """What a connection waits for. One whose request is being answered, or goes on being answered, is not dropped for
    another."""

    HANDSHAKE = "handshake"
    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"
    STREAM = "stream"
    DRAIN = "drain"  # the client reads the reply slowly, or has not noticed yet that it was refused
    IDLE = "idle"


@asynccontextmanager
async def http_server(
    listen: Listen, handler: Handler, limits: ServerLimits, flag: str, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serves while the block lasts; yields the port. Raises CannotListen, which names the flag."""
    listening = await _bound(listen, flag)
    connections = _Connections(handler, limits, tls)
    accepting = [asyncio.ensure_future(connections.accept(one)) for one in listening]
    try:
        yield listening[0].getsockname()[1]
    finally:
        for task in accepting:
            task.cancel()
        await asyncio.gather(*accepting, return_exceptions=True)
        for one in listening:
            one.close()
        await connections.close()


async def _bound(listen: Listen, flag: str) -> list[socket.socket]:
    made: list[socket.socket] = []
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, address in dict.fromkeys((info[0], info[4]) for info in found):
            made.append(socket.create_server(cast(Any, address), family=family, backlog=BACKLOG))
            made[-1].setblocking(False)
    except OSError as error:
        for one in made:
            one.close()
        taken = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        text = f"{listen.host}:{listen.port} {taken}; choose another with {flag} HOST:PORT, or none with {flag} ''"
        raise CannotListen(text) from error
    return made


class _Connections:
    """All open connections of one server, those that may be dropped in the order in which they began to wait."""

    def __init__(self, handler: Handler, limits: ServerLimits, tls: ssl.SSLContext | None) -> None:
        self.handler, self.limits, self._tls = handler, limits, tls
        self.buffered = 0
        self.streams = 0
        self._open: dict[str, dict[_Connection, None]] = {}  # by peer
        self._waiting: dict[str, dict[_Connection, None]] = {}  # by peer; of the open ones
        self._count = 0

    async def accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError:
                self._drop_oldest(self._largest_peer())
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            self._admit(accepted, str(address[0]))
            await asyncio.sleep(0)  # whoever connects a thousand times does not keep others from being answered

    def _admit(self, accepted: socket.socket, peer: str) -> None:
        full = len(self._open.get(peer, ())) >= self.limits.per_peer
        if (full and not self._drop_oldest(peer)) or (
            self._count >= self.limits.connections and not self._drop_oldest(self._largest_peer())
        ):
            accepted.close()  # all of them are being answered, which takes a bounded time
            return
        connection = _Connection(self, peer)
        self._open.setdefault(peer, {})[connection] = None
        self._count += 1
        self.wait(connection)
        connection.begin(accepted, self._tls)

    def wait(self, connection: _Connection) -> None:
        """From now on the connection may be dropped for another."""
        if connection in self._open.get(connection.peer, ()):
            waiting = self._waiting.setdefault(connection.peer, {})
            waiting.pop(connection, None)
            waiting[connection] = None

    def keep(self, connection: _Connection) -> None:
        """The connection is not dropped for another until it waits again."""
        _discard(self._waiting, connection)

    def forget(self, connection: _Connection) -> None:
        self.keep(connection)
        if _discard(self._open, connection):
            self._count -= 1

    def buffer(self, connection: _Connection, size: int) -> bool:
        """Whether there is space for that many bytes of its body; whoever holds most of them makes some."""
        while self.buffered + size > self.limits.buffered:
            holding = max((one for of in self._waiting.values() for one in of), key=lambda one: one.size)
            if holding is connection or not holding.size:
                return False
            holding.drop()
        self.buffered += size
        return True

    async def close(self) -> None:
        for connection in [one for of in self._open.values() for one in of]:
            connection.drop()
            await connection.ended()

    def _largest_peer(self) -> str:
        return max(self._waiting, key=lambda peer: len(self._waiting[peer]), default="")

    def _drop_oldest(self, peer: str) -> bool:
        """Drops the connection of that peer which waits longest; whether there was one."""
        oldest = next(iter(self._waiting.get(peer, ())), None)
        if oldest is not None:
            oldest.drop()
        return oldest is not None


def _discard(by_peer: dict[str, dict[_Connection, None]], connection: _Connection) -> bool:
    of = by_peer.get(connection.peer, {})
    if connection not in of:
        return False
    del of[connection]
    if not of:
        del by_peer[connection.peer]
    return True


class _Connection(asyncio.Protocol):
    """One client. At most one request at a time: what is sent before the reply (pipelining) ends the connection."""

    def __init__(self, owner: _Connections, peer: str) -> None:
        self._owner, self._limits, self.peer = owner, owner.limits, peer
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._answering: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None  # fires at the deadline of the phase, or earlier
        self._deadline = 0.0
        self._late = False  # no answer came in time
        self._accepted: socket.socket | None = None  # until a transport owns it
        self._dropped = self._unread = False
        self._read = asyncio.Event()  # what was sent so far, as far as buffers go
        self._read.set()
        self._phase = ConnectionPhase.HANDSHAKE
        self._fresh()

    def _fresh(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._method = ""
        self._target: list[bytes] = []
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._head_size = self.size = 0  # bytes of head and body
        self._refusal: HttpReply | None = None
        self._has_head = self._complete = self._keep_alive = False

    def begin(self, accepted: socket.socket, tls: ssl.SSLContext | None) -> None:
        accepted.setblocking(False)
        self._accepted = accepted
        self._enter(ConnectionPhase.HANDSHAKE, self._limits.handshake_seconds)
        self._handshake = self._loop.create_task(self._shake_hands(accepted, tls))

    async def _shake_hands(self, accepted: socket.socket, tls: ssl.SSLContext | None) -> None:
        self._accepted = None
        try:
            await self._loop.connect_accepted_socket(lambda: self, accepted, ssl=tls)
        except (OSError, asyncio.CancelledError):  # no TLS, or not in time
            self._end()

    def drop(self) -> None:
        """Ends the connection without another word."""
        self._dropped = True
        if self._transport is not None:
            self._transport.abort()
        elif self._handshake is not None:
            self._handshake.cancel()
        self._end()

    async def ended(self) -> None:
        tasks = [task for task in (self._handshake, self._answering) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self) -> None:
        self._release()
        self._owner.forget(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._answering is not None:
            self._answering.cancel()
        if self._accepted is not None:
            self._accepted.close()

    def _enter(self, phase: ConnectionPhase, seconds: float) -> None:
        """A timer that fires earlier than need be is left as it is: most phases end long before their deadline."""
        self._phase, self._deadline = phase, self._loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= self._deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._expire)

    def _expire(self) -> None:
        """A request that is not answered in time gets a reply that says so; any other phase ends the connection."""
        self._timer = None
        if self._phase is ConnectionPhase.STREAM:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._expire)
        elif self._phase is ConnectionPhase.ANSWER and self._answering is not None and not self._late:
            self._late = True
            self._enter(ConnectionPhase.ANSWER, self._limits.drain_seconds)
            self._answering.cancel()
        else:
            self.drop()

    def _release(self) -> None:
        """The body of the request is no longer held."""
        self._owner.buffered -= self.size
        self.size, self._body = 0, []

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._dropped:
            self._transport.abort()
            return
        self._enter(ConnectionPhase.HEAD, self._limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def data_received(self, data: bytes) -> None:
        if self._phase in (ConnectionPhase.DRAIN, ConnectionPhase.STREAM):
            return
        if self._phase is ConnectionPhase.ANSWER:
            self._keep_alive = False
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, UnicodeDecodeError) as error:
            if not self._complete:
                self._refuse(400, f"expected an HTTP/1.1 request: {error}")
            self._keep_alive = False  # after a whole request comes something that is none
        self._head_size += len(data) if not self._has_head else 0
        if self._head_size > self._limits.head and not self._complete:
            self._refuse(431, f"expected at most {self._limits.head} bytes of headers")
        if self._refusal is not None:
            self._send(self._refusal, keep=False, linger=True)
        elif self._complete and self._unread:
            self.drop()  # it asks again and again, and reads no answer
        elif self._complete:
            self._answer()
        elif self._has_head and self._phase is not ConnectionPhase.BODY:
            self._enter(ConnectionPhase.BODY, self._limits.body_seconds)
        elif self._phase is ConnectionPhase.IDLE:
            self._enter(ConnectionPhase.HEAD, self._limits.head_seconds)

    def pause_writing(self) -> None:
        self._unread = True
        self._read.clear()

    def resume_writing(self) -> None:
        self._unread = False
        self._read.set()
        if self._phase is ConnectionPhase.DRAIN and self._keep_alive:
            self._next_request()

    # what httptools calls

    def on_message_begin(self) -> None:
        self._keep_alive = False

    def on_url(self, url: bytes) -> None:
        if not self._complete:
            self._target.append(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._complete:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            again = key in self._headers and key.startswith(REPEATED)
            self._headers[key] = f"{self._headers[key]}\n{text}" if again else text

    def on_headers_complete(self) -> None:
        if self._complete:
            return
        length = self._headers.get("content-length", "0")
        if "transfer-encoding" in self._headers:
            self._refuse(411, "expected a Content-Length")
        elif int(length) > self._limits.body:
            self._refuse(413, f"expected at most {self._limits.body} bytes, got {length}")
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        if self._complete or self._refusal is not None:
            return
        if not self._owner.buffer(self, len(body)):
            self._refuse(503, "too much is being sent at once; try again")
        else:
            self.size += len(body)
            self._body.append(body)

    def on_message_complete(self) -> None:
        if not self._complete and self._refusal is None:
            self._method = self._parser.get_method().decode("latin-1")
            self._complete, self._keep_alive = True, self._parser.should_keep_alive()

    # requests and replies

    def _refuse(self, status: int, why: str) -> None:
        self._refusal = self._refusal or HttpReply(status, f"{why}\n".encode())

    def _answer(self) -> None:
        """Reads nothing more until the reply is sent."""
        self._owner.keep(self)
        transport = cast(asyncio.Transport, self._transport)
        path, _, query = b"".join(self._target).decode("latin-1").partition("?")
        request = HttpRequest(
            self._method,
            path,
            self._headers,
            b"".join(self._body),
            self.peer,
            transport.get_extra_info("sslcontext") is not None,
            transport.get_extra_info("peercert") or {},
            query,
        )
        try:
            reply = self._owner.handler(request)
        except Exception as error:
            reply = _unanswerable(error)
        if isinstance(reply, HttpReply) and reply.stream is None:
            self._send_reply(request, reply)
            return
        self._late = False
        self._enter(ConnectionPhase.ANSWER, self._limits.answer_seconds)
        with contextlib.suppress(RuntimeError):  # the connection may be closed already
            transport.pause_reading()
        self._answering = self._loop.create_task(self._reply_to(request, reply))

    async def _reply_to(self, request: HttpRequest, awaited: HttpReply | Awaitable[HttpReply]) -> None:
        try:
            reply = awaited if isinstance(awaited, HttpReply) else await awaited
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._late or task is None or task.uncancel():
                raise
            reply = HttpReply(503, f"no answer within {self._limits.answer_seconds:g} seconds\n".encode())
        except Exception as error:
            reply = _unanswerable(error)
        if reply.stream is not None:
            await self._send_stream(reply, reply.stream)
            return
        self._answering = None
        self._send_reply(request, reply)

    def _send_reply(self, request: HttpRequest, reply: HttpReply) -> None:
        keep = self._keep_alive and reply.status < 400 and self._limits.idle_seconds > 0
        self._send(reply, keep=keep, bodiless=request.method == "HEAD")

    def _send(self, reply: HttpReply, *, keep: bool, bodiless: bool = False, linger: bool = False) -> None:
        """Closes unless the connection is kept."""
        self._release()
        self._keep_alive = keep
        self._owner.wait(self)
        transport = cast(asyncio.Transport, self._transport)
        head = _head(reply, keep=keep)
        transport.write(head if bodiless else head + reply.body)
        if keep and not self._unread:
            self._next_request()
            return
        self._enter(ConnectionPhase.DRAIN, LINGER_SECONDS if linger else self._limits.drain_seconds)
        if not keep and not linger:
            transport.close()
        elif not keep and transport.can_write_eof():
            transport.write_eof()

    async def _send_stream(self, reply: HttpReply, stream: AsyncGenerator[bytes, None]) -> None:
        """Sends what comes until it ends; a client that does not read is dropped, one that goes ends the stream."""
        if self._owner.streams >= self._limits.streams:
            await stream.aclose()
            self._answering = None
            self._send(HttpReply(429, b"too many open watches; try again later\n"), keep=False)
            return
        self._owner.streams += 1
        self._release()
        self._phase = ConnectionPhase.STREAM
        transport = cast(asyncio.Transport, self._transport)
        with contextlib.suppress(RuntimeError):
            transport.resume_reading()  # to learn that the client is gone
        try:
            transport.write(_head(reply, keep=False))
            async for part in stream:
                transport.write(b"%x\r\n%b\r\n" % (len(part), part))
                if self._unread:
                    async with asyncio.timeout(self._limits.drain_seconds):
                        await self._read.wait()
            transport.write(b"0\r\n\r\n")
            transport.close()
        except TimeoutError:
            transport.abort()
        finally:
            self._answering = None
            self._owner.streams -= 1
            await stream.aclose()

    def _next_request(self) -> None:
        self._fresh()
        self._enter(ConnectionPhase.IDLE, self._limits.idle_seconds)
        with contextlib.suppress(RuntimeError):
            cast(asyncio.Transport, self._transport).resume_reading()


def _unanswerable(error: Exception) -> HttpReply:
    return HttpReply(500, f"this request cannot be answered: {type(error).__name__}\n".encode())


def _head(reply: HttpReply, *, keep: bool) -> bytes:
    size = f"Content-Length: {len(reply.body)}" if reply.stream is None else "Transfer-Encoding: chunked"
    start = _head_start(reply.status, reply.content_type, reply.headers)
    return f"{start}{size}\r\nConnection: {'keep-alive' if keep else 'close'}\r\n\r\n".encode("latin-1")


_PHRASES = {int(status): status.phrase for status in HTTPStatus}


@lru_cache(maxsize=256)  # bench_front takes 1.01 times as long without it
def _head_start(status: int, content_type: str, headers: tuple[tuple[str, str], ...]) -> str:
    lines = (
        f"HTTP/1.1 {status} {_PHRASES.get(status, '')}",
        f"Content-Type: {content_type}",
        *(f"{name}: {value}" for name, value in headers),
    )
    return "\r\n".join((*lines, ""))
