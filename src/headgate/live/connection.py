"""HTTP/1.1 connections and the pool that keeps them: a request at a time, answered whole or as a stream of lines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_address
from typing import cast

import httptools
from msgspec import Struct

END_OF_HEAD = b"\r\n\r\n"
LARGEST_HEAD = 1024 * 1024  # bytes
LARGEST_ANSWER = 512 * 1024 * 1024  # bytes
PAUSE_READING_AT = 8 * 1024 * 1024  # bytes of unread lines of one stream


class Disconnected(Exception):
    """The server could not be asked, or did not answer."""


class NeverSent(Disconnected):
    """Nothing of the request left this process: asking again is safe."""


class AnswerLost(Disconnected):
    """The request was sent and its answer never came: it may have been carried out."""


class NotResolved(NeverSent):
    """The host has no IP address, or nobody said which in time."""


class AnswerTooLarge(AnswerLost):
    """The answer, or what is being received of several, is larger than this client reads."""


class AnswerLimit:
    """How many bytes of one answer are read, and of all that are being received at once."""

    def __init__(self, each: int = LARGEST_ANSWER, together: int = sys.maxsize) -> None:
        self.each, self.together = each, together
        self._receiving = 0

    def receive(self, size: int, answer: int) -> str:
        """So many bytes more of an answer of which that much was received; why it is not read on, if it is not."""
        self._receiving += size
        if answer > self.each:
            return f"the answer is larger than {self.each} bytes"
        if self._receiving > self.together:
            return f"the answers that are being received are larger than {self.together} bytes together"
        return ""

    def release(self, answer: int) -> None:
        self._receiving -= answer


class HttpResponse(Struct, frozen=True, gc=False):
    """An answer in full; its head, up to the empty line, as it was received."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: bytes) -> bytes:
        """The value of a header, of any case; empty without it. Few answers are asked for one."""
        for line in self.head.split(b"\r\n")[1:]:
            given, _, value = line.partition(b":")
            if given.lower() == name:
                return value.strip()
        return b""


class Connection(asyncio.Protocol):
    """At most one exchange at a time. Once `usable` is False it never becomes usable again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: AnswerLimit | None = None) -> None:
        self._loop, self._limit = loop, limit or AnswerLimit()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._received = b""  # until the head is complete
        self._has_head = False
        self._body: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[HttpResponse] | None = None
        self._stream: Stream | None = None
        self._opening: asyncio.Future[Stream] | None = None
        self._wants_stream = False
        self._timeout = self._answer_by = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes, timeout: float) -> HttpResponse:
        """Send a whole request and wait for the whole answer."""
        transport = self._writable()
        waiter: asyncio.Future[HttpResponse] = self._loop.create_future()
        self._waiter = waiter
        self._expect_answer(timeout)
        transport.write(request)
        try:
            return await waiter
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            self._waiter = None

    async def open_stream(self, request: bytes, timeout: float) -> Stream | HttpResponse:
        """Send a request whose 200 answer is read line by line; any other status is answered in full."""
        transport = self._writable()
        self._wants_stream = True
        opening: asyncio.Future[Stream] = self._loop.create_future()
        waiter: asyncio.Future[HttpResponse] = self._loop.create_future()
        self._opening, self._waiter = opening, waiter
        self._expect_answer(timeout)
        transport.write(request)
        try:
            await asyncio.wait((opening, waiter), return_when=asyncio.FIRST_COMPLETED)
            return opening.result() if opening.done() else waiter.result()
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            self._opening = self._waiter = None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def _writable(self) -> asyncio.Transport:
        if self._transport is None or self._transport.is_closing():
            raise NeverSent("the connection was closed before the request was sent")
        return self._transport

    def _expect_answer(self, timeout: float) -> None:
        """Gives up what waits for an answer after so many seconds. One timer lasts for many exchanges: it looks whether
        the time of the one under way has come, and is set anew only for one that ends sooner.
        """
        self._timeout, self._answer_by = timeout, self._loop.time() + timeout
        if self._timer is None:
            self._timer = self._loop.call_later(timeout, self._look_at_time)
        elif self._timer.when() > self._answer_by:
            self._timer.cancel()
            self._timer = self._loop.call_later(timeout, self._look_at_time)

    def _look_at_time(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        left = self._answer_by - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look_at_time)
        else:
            self._give_up(f"no answer within {self._timeout:g} s")

    def _give_up(self, why: str, trouble: type[AnswerLost] = AnswerLost) -> None:
        self._fail(trouble(why))
        self.abort()

    def _take_body(self) -> bytes:
        self._limit.release(self._size)
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body, self._size = [], 0
        return body

    def _fail(self, trouble: Disconnected) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(trouble)
        if self._stream is not None:
            self._stream.end(trouble)

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._has_head:
            self._received += data
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._give_up(f"the answer is not HTTP: {error}")
        if len(self._received) > LARGEST_HEAD and not self._has_head:
            self._give_up(f"the head of the answer is larger than {LARGEST_HEAD} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._take_body()
        self._fail(AnswerLost(str(exc) if exc else "the server closed the connection before answering"))

    # what httptools calls

    def on_headers_complete(self) -> None:
        self._has_head = True
        if self._wants_stream and self._parser.get_status_code() == 200 and self._opening is not None:
            self._stream = Stream(self)
            if not self._opening.done():
                self._opening.set_result(self._stream)

    def on_body(self, body: bytes) -> None:
        if self._stream is not None:
            self._stream.receive(body)
            return
        self._body.append(body)
        self._size += len(body)
        if why := self._limit.receive(len(body), self._size):
            self._give_up(why, AnswerTooLarge)

    def on_message_complete(self) -> None:
        status, keep_alive = self._parser.get_status_code(), self._parser.should_keep_alive()
        head, _, self._received = self._received.partition(END_OF_HEAD)
        self._has_head = False
        body = self._take_body()
        if status < 200:
            return
        self._received = b""
        if self._stream is not None:
            self._stream.end(None)
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(HttpResponse(status, head, body))
        if (not keep_alive or self._stream is not None) and self._transport is not None:
            self._transport.close()


class Stream:
    """The lines of an answer that goes on; stops reading from the network while the reader is far behind."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lines: deque[bytes] = deque()
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._unread = 0
        self._paused = False
        self._ended = False
        self._trouble: Disconnected | None = None
        self._reader: asyncio.Future[None] | None = None  # while it waits

    def receive(self, data: bytes) -> None:
        first, *rest = data.split(b"\n")
        self._partial.append(first)
        for piece in rest:
            self._finish_line()
            self._partial.append(piece)
        if self._lines:
            self._wake_reader()
        self._unread += len(data)
        self._partial_size = len(rest[-1]) if rest else self._partial_size + len(first)
        self._keep_within_limits()

    def _keep_within_limits(self) -> None:
        if self._unread > PAUSE_READING_AT and not self._paused and self._lines:
            self._paused = True
            self._connection.pause_reading()
        if self._partial_size > LARGEST_ANSWER:
            self.end(AnswerLost(f"a line is longer than {LARGEST_ANSWER} bytes"))
            self._connection.abort()

    def _finish_line(self) -> None:
        line = b"".join(self._partial)
        self._partial.clear()
        if line:
            self._lines.append(line)

    def end(self, trouble: Disconnected | None) -> None:
        if not self._ended:
            self._ended, self._trouble = True, trouble
            self._wake_reader()

    async def lines(self) -> AsyncIterator[bytes]:
        """Every complete line in order; raises AnswerLost if the answer broke off instead of ending."""
        while True:
            while self._lines:
                yield self._lines.popleft()
            self._resume()
            if self._ended:
                break
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        if self._trouble is not None:
            raise self._trouble

    def close(self) -> None:
        self._connection.abort()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _resume(self) -> None:
        self._unread = 0
        if self._paused:
            self._paused = False
            with contextlib.suppress(RuntimeError):  # the connection may have closed meanwhile
                self._connection.resume_reading()


CONNECT_TIMEOUT = 10.0  # seconds, TLS handshake included
IDLE_LIMIT = 60.0  # seconds; below the 90 s after which API servers and balancers close idle connections
LOOK_UPS = 256  # host names that are looked up at a time
DEFAULT_SIZE = 96  # connections: more than writes are under way, so that none waits for one, nor the lease
PROBES = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}  # seconds, seconds, tries


class Address(Struct, frozen=True):
    """Where a server listens; `server_name` is what its certificate must say, where that is not the host."""

    host: str
    port: int
    server_name: str = ""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class LookUps:
    """Host names that are being looked up, each in a thread of its own, for all that wait for the same host.

    The threads in which an event loop looks up names are few, and a resolver that does not answer holds one for long.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Future[tuple[str, ...]]] = {}

    async def resolve(self, address: Address) -> tuple[str, ...]:
        """The IP addresses of the host. Raises NotResolved."""
        if _is_ip(address.host):
            return (address.host,)
        found = self._under_way.get(address.host)
        if found is None:
            if len(self._under_way) >= LOOK_UPS:
                raise NotResolved(f"{address}: {LOOK_UPS} other names are being looked up")
            found = self._look_up(address)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await asyncio.shield(found)
        except TimeoutError as error:
            raise NotResolved(f"{address}: its name was not resolved within {CONNECT_TIMEOUT:g} s") from error

    def _look_up(self, address: Address) -> asyncio.Future[tuple[str, ...]]:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[tuple[str, ...]] = loop.create_future()
        found.add_done_callback(lambda done: done.exception())  # whoever waited may have given up
        self._under_way[address.host] = found

        def tell(answer: tuple[str, ...] | OSError | UnicodeError) -> None:
            del self._under_way[address.host]
            if isinstance(answer, tuple):
                found.set_result(answer)
            else:
                trouble = NotResolved(f"{address}: {answer}")
                trouble.__cause__ = answer
                found.set_exception(trouble)

        def look_up() -> None:
            answer: tuple[str, ...] | OSError | UnicodeError
            try:
                there = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
                answer = tuple(dict.fromkeys(str(each[4][0]) for each in there))
            except (OSError, UnicodeError) as error:
                answer = error
            with contextlib.suppress(RuntimeError):  # the loop may be closed by then
                loop.call_soon_threadsafe(tell, answer)

        threading.Thread(target=look_up, name=f"resolving {address.host}", daemon=True).start()
        return found


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class Pool:
    """Exchanges over at most `size` connections; streams get connections of their own, outside the bound."""

    def __init__(
        self,
        address: Address,
        tls: Callable[[], ssl.SSLContext | None],
        clock: Callable[[], float],
        size: int = DEFAULT_SIZE,
        *,
        limit: AnswerLimit | None = None,
        look_ups: LookUps | None = None,
    ) -> None:
        """With `look_ups` the host is looked up there for each connection; otherwise the event loop does that."""
        self._address, self._tls, self._clock = address, tls, clock
        self._limit, self._look_ups = limit or AnswerLimit(), look_ups
        self._resolved: tuple[str, ...] = ()  # the IP addresses, where they were looked up before
        self._free = size
        self._closed = False
        self._idle: list[Connection] = []
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def exchange(self, request: bytes, timeout: float) -> HttpResponse:
        """Raises NeverSent or AnswerLost, which say whether it is safe to ask again."""
        if self._free > 0 and not self._waiting:
            self._free -= 1
        else:
            await self._wait_for_slot()
        try:
            connection = self._reusable() or await self._connect()
            answer = await connection.exchange(request, timeout)
            self._keep(connection)
            return answer
        finally:
            self._give_slot()

    @contextlib.asynccontextmanager
    async def stream(self, request: bytes, timeout: float) -> AsyncIterator[Stream | HttpResponse]:
        """A stream of lines while the block lasts; or the answer in full when the server refuses."""
        connection = await self._connect()
        try:
            yield await connection.open_stream(request, timeout)
        finally:
            connection.abort()

    async def resolve(self) -> None:
        """Look up the host for all connections from here on. Raises NotResolved."""
        self._resolved = await LookUps().resolve(self._address)

    def close_idle(self) -> None:
        """Close what nobody uses, so that the next request connects anew (with new credentials, say)."""
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    def close(self) -> None:
        """Keep no connection any more: those in use are closed when they are answered."""
        self._closed = True
        self.close_idle()

    async def _wait_for_slot(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_slot()
            raise

    def _give_slot(self) -> None:
        """Hand the slot to whoever waits longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _reusable(self) -> Connection | None:
        """The connection used last, which is the least likely to be closed by the server just now."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and self._clock() - connection.idle_since < IDLE_LIMIT:
                return connection
            connection.abort()
        return None

    def _keep(self, connection: Connection) -> None:
        if self._closed:
            connection.abort()
        elif connection.usable:
            connection.idle_since = self._clock()
            self._idle.append(connection)

    async def _connect(self) -> Connection:
        hosts = self._resolved or (self._address.host,)
        if self._look_ups is not None:
            hosts = await self._look_ups.resolve(self._address)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await self._open(hosts)
        except TimeoutError as error:
            raise NeverSent(f"{self._address}: no connection within {CONNECT_TIMEOUT:g} s") from error
        except (OSError, ssl.SSLError, ssl.CertificateError) as error:
            raise NeverSent(f"{self._address}: {_reason(error)}") from error

    async def _open(self, hosts: tuple[str, ...]) -> Connection:
        """Connects to the first of them that can be reached."""
        for host in hosts[:-1]:
            try:
                return await self._open_to(host)
            except ssl.SSLError:
                raise
            except OSError:
                continue
        return await self._open_to(hosts[-1])

    async def _open_to(self, host: str) -> Connection:
        loop = asyncio.get_running_loop()
        tls = self._tls()
        name = (self._address.server_name or self._address.host) if tls else None
        transport, connection = await loop.create_connection(
            lambda: Connection(loop, self._limit), host, self._address.port, ssl=tls, server_hostname=name
        )
        _notice_dead_peers(transport.get_extra_info("socket"))
        return connection


def _notice_dead_peers(connected: socket.socket) -> None:
    """A watch may be silent for minutes; probes tell a quiet server from one that vanished."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):  # not every platform lets a program choose
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
