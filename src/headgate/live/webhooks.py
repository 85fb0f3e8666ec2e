"""Serves the admission webhooks over HTTPS, with a certificate that is renewed or reloaded while they are served."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from headgate.api.admission import InvalidReview, answer, lookup_path, lookup_result, refusal
from headgate.api.decode import MalformedAnswer
from headgate.api.requests import Call
from headgate.gates.webhooks import HANDLERS
from headgate.lifecycle.jobframework.pod_group import role_hash
from headgate.live.certificates import InvalidCertificate, ServerTls, load_certificate
from headgate.live.client import Client
from headgate.live.connection import Disconnected, HttpResponse
from headgate.live.health import CannotListen, Listen
from headgate.live.webhook_certificates import CertificateDependencies, Trust
from headgate.model.admission import AdmissionHandler, Json, Lookup, WebhookSettings
from headgate.model.objects import Object
from headgate.model.settings import Settings

IDLE_SECONDS = 120.0  # an API server keeps connections open for a minute and a half
READ_TIMEOUT = 10.0  # seconds for the rest of a request that has begun
LARGEST_HEAD, LARGEST_REVIEW = 64 * 1024, 8 * 1024 * 1024  # bytes
MOST_CONNECTIONS = 256

Perform = Callable[[Call], Awaitable[HttpResponse]]
"""Sends a request to the API server."""

PATHS: Mapping[str, AdmissionHandler] = {f"/{webhook}": handler for webhook, handler in HANDLERS.items()}


class Reply(Struct, frozen=True):
    status: str
    body: bytes

    @property
    def content_type(self) -> str:
        return "application/json" if self.status.startswith("200") else "text/plain; charset=utf-8"


class ReviewResponder:
    """Answers AdmissionReviews. Lookups read the API server: a cache might be stale."""

    def __init__(self, perform: Perform, settings: WebhookSettings) -> None:
        self._perform, self._settings = perform, settings

    async def reply(self, path: str, body: bytes) -> Reply:
        handler = PATHS.get(path)
        if handler is None:
            return Reply("404 Not Found", f"try {', '.join(PATHS)}\n".encode())
        try:
            answered = await self._settled(answer(body, lambda question: handler(question, self._settings)))
            return Reply("200 OK", msgspec.json.encode(answered))
        except InvalidReview as error:
            return Reply("400 Bad Request", f"{error}\n".encode())
        except (Disconnected, MalformedAnswer) as error:
            return Reply("503 Service Unavailable", f"the cluster cannot be read: {error}\n".encode())
        except Exception as error:
            return Reply("200 OK", msgspec.json.encode(refusal(body, f"{type(error).__name__}: {error}")))

    async def _settled(self, asking: Generator[Lookup, tuple[Object, ...], Json]) -> Json:
        """The answer, after every lookup it yields has been sent."""
        try:
            wanted = next(asking)
            while True:
                wanted = asking.send(await self._look(wanted))
        except StopIteration as done:
            answered: Json = done.value
            return answered

    async def _look(self, wanted: Lookup) -> tuple[Object, ...]:
        path = lookup_path(wanted)
        found = await self._perform(Call("GET", path, {}, "", b""))
        if found.status == 404:
            return ()
        if found.status != 200:
            raise Disconnected(f"{path}: the server answered {found.status}")
        return lookup_result(wanted, found.body)


@asynccontextmanager
async def webhook_server(listen: Listen, tls: ssl.SSLContext, responder: ReviewResponder) -> AsyncIterator[int]:
    """Serves while the block lasts; yields the port. Raises CannotListen."""
    connections = _WebhookConnections(responder)
    try:
        server = await asyncio.start_server(
            connections.serve, listen.host, listen.port, ssl=tls, ssl_handshake_timeout=READ_TIMEOUT, limit=LARGEST_HEAD
        )
    except OSError as error:
        taken = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        text = f"{listen.host}:{listen.port} {taken}; choose another with --webhook-listen HOST:PORT"
        raise CannotListen(text) from error
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await connections.hang_up()


class _WebhookConnections:
    """Open connections of API servers; malformed or slow requests are disconnected."""

    def __init__(self, responder: ReviewResponder) -> None:
        self._bench = responder
        self._open: dict[asyncio.StreamWriter, asyncio.Event] = {}  # set when the conversation is over

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            writer.close()
            return
        over = self._open[writer] = asyncio.Event()
        try:
            while await self._exchange(reader, writer):
                pass
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, ValueError):
            pass
        finally:
            del self._open[writer]
            writer.close()
            over.set()

    async def hang_up(self) -> None:
        """Closes connections that API servers keep alive; cancelling their tasks would be logged as an error."""
        for writer, over in list(self._open.items()):
            writer.transport.abort()
            await over.wait()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers one request; whether the connection is kept alive."""
        async with asyncio.timeout(IDLE_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        start, *lines = head.decode("latin-1").split("\r\n")
        method, target, *_ = [*start.split(" "), "", ""]
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length") or -1)
        if method != "POST" or not 0 <= length <= LARGEST_REVIEW:
            await _send(writer, Reply("400 Bad Request", b"expected a POST with a Content-Length\n"), keep=False)
            return False
        async with asyncio.timeout(READ_TIMEOUT):
            body = await reader.readexactly(length)
        keep = headers.get("connection", "").lower() != "close"
        await _send(writer, await self._bench.reply(target.split("?", maxsplit=1)[0], body), keep=keep)
        return keep


async def _send(writer: asyncio.StreamWriter, reply: Reply, *, keep: bool) -> None:
    lines = (
        f"HTTP/1.1 {reply.status}",
        f"Content-Type: {reply.content_type}",
        f"Content-Length: {len(reply.body)}",
        f"Connection: {'keep-alive' if keep else 'close'}",
    )
    writer.write("\r\n".join((*lines, "", "")).encode() + reply.body)
    await writer.drain()


REREAD_SECONDS = 60.0  # how often certificates in files are looked at, because somebody replaces them


class WebhookPlan(Struct, frozen=True):
    """Where to listen. Without a certificate of the user's (`chain` and `key`) one is kept in the `namespace`."""

    listen: Listen
    namespace: str
    chain: Path | None = None
    key: Path | None = None


@asynccontextmanager
async def webhooks_served(
    plan: WebhookPlan, client: Client, dependencies: CertificateDependencies, settings: Settings
) -> AsyncIterator[int]:
    """Serves all webhooks while the block lasts; yields the port. Raises CannotListen and InvalidCertificate."""
    tls = ServerTls()
    if plan.chain is not None and plan.key is not None:
        tls.show(load_certificate(plan.chain, plan.key))
        keeping = _follow(plan.chain, plan.key, tls, dependencies)
    else:
        keeping = Trust(client.perform, plan.namespace, tls, dependencies).keep()
    keeper = asyncio.ensure_future(keeping)
    keeper.add_done_callback(lambda ended: _tell(ended, dependencies))
    try:
        responder = ReviewResponder(
            client.perform, WebhookSettings(settings.quota, role_hash, settings.gated_schedulers)
        )
        async with webhook_server(plan.listen, tls.context, responder) as port:
            yield port
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


async def _follow(chain: Path, key: Path, tls: ServerTls, dependencies: CertificateDependencies) -> None:
    """Reloads the certificate files when they change."""
    while True:
        await dependencies.sleep(REREAD_SECONDS)
        try:
            if tls.show(load_certificate(chain, key)):
                dependencies.log.info("webhooks serve the new certificate", file=chain)
        except InvalidCertificate as error:  # perhaps only one of them has been replaced yet
            dependencies.log.warning(f"webhooks still serve the old certificate: {error}")


def _tell(ended: asyncio.Future[None], dependencies: CertificateDependencies) -> None:
    if not ended.cancelled() and (trouble := ended.exception()) is not None:
        dependencies.log.error(f"the webhook certificate is no longer renewed: {trouble!r}")
