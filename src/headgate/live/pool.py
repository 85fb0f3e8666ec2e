"""Connections to one server, kept open and bounded in number."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable

from msgspec import Struct

from headgate.live.connection import Answer, Connection, NeverSent, Stream

CONNECT_TIMEOUT = 10.0  # seconds, TLS handshake included
IDLE_LIMIT = 60.0  # seconds; below the 90 s after which API servers and balancers close idle connections
DEFAULT_SIZE = 32  # connections
PROBES = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}  # seconds, seconds, tries


class Address(Struct, frozen=True):
    """Where a server listens; `server_name` is what its certificate must say, where that is not the host."""

    host: str
    port: int
    server_name: str = ""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Pool:
    """Exchanges over at most `size` connections; streams get connections of their own, outside the bound."""

    def __init__(
        self,
        address: Address,
        tls: Callable[[], ssl.SSLContext | None],
        clock: Callable[[], float],
        size: int = DEFAULT_SIZE,
    ) -> None:
        self._address, self._tls, self._clock = address, tls, clock
        self._free = size
        self._idle: list[Connection] = []
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def exchange(self, request: bytes, timeout: float) -> Answer:
        """Raises NeverSent or AnswerLost, which say whether it is safe to ask again."""
        await self._take_slot()
        try:
            connection = self._reusable() or await self._connect()
            answer = await connection.exchange(request, timeout)
            self._keep(connection)
            return answer
        finally:
            self._give_slot()

    @contextlib.asynccontextmanager
    async def stream(self, request: bytes, timeout: float) -> AsyncIterator[Stream | Answer]:
        """A stream of lines while the block lasts; or the answer in full when the server refuses."""
        connection = await self._connect()
        try:
            yield await connection.open_stream(request, timeout)
        finally:
            connection.abort()

    def close_idle(self) -> None:
        """Close what nobody uses, so that the next request connects anew (with new credentials, say)."""
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    async def _take_slot(self) -> None:
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return
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
        if connection.usable:
            connection.idle_since = self._clock()
            self._idle.append(connection)

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await self._open()
        except TimeoutError:
            raise NeverSent(f"{self._address}: no connection within {CONNECT_TIMEOUT:g} s") from None
        except (OSError, ssl.SSLError, ssl.CertificateError) as error:
            raise NeverSent(f"{self._address}: {_reason(error)}") from error

    async def _open(self) -> Connection:
        loop = asyncio.get_running_loop()
        tls = self._tls()
        name = (self._address.server_name or self._address.host) if tls else None
        transport, connection = await loop.create_connection(
            lambda: Connection(loop), self._address.host, self._address.port, ssl=tls, server_hostname=name
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
