"""The pages of a process, served on this host alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from headgate.live.health import LIMITS, Readiness, everybody, page_handler, probes, reports
from headgate.live.http_server import Listen, http_server

HERE = Listen("127.0.0.1", 0)


@asynccontextmanager
async def pages_served(readiness: Readiness, metrics: Callable[[], bytes] = lambda: b"") -> AsyncIterator[int]:
    """While the block lasts; yields the port."""
    handler = page_handler(probes(readiness), reports(readiness, metrics), everybody)
    async with http_server(HERE, handler, LIMITS, "--listen") as port:
        yield port
