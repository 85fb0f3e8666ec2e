"""Serves the admission webhooks over HTTPS, with a certificate that is renewed or reloaded while they are served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from headgate.api.admission import InvalidReview, answer, lookup_path, lookup_result, refusal
from headgate.api.decode import MalformedAnswer
from headgate.api.install_manifests import WEBHOOKS, Part
from headgate.api.requests import JSON, Call
from headgate.gates.webhooks import HANDLERS
from headgate.live.certificates import ServerTls, follow, load_certificate
from headgate.live.client import Client
from headgate.live.connection import Disconnected, HttpResponse
from headgate.live.http_server import HttpReply, HttpRequest, Listen, ServerLimits, http_server
from headgate.live.webhook_certificates import CertificateDependencies, Trust
from headgate.model.admission import AdmissionHandler, Json, Lookup, WebhookSettings
from headgate.model.objects import Object

LIMITS = ServerLimits(
    connections=384,
    per_peer=256,  # an API server opens one for each review under way
    head=64 * 1024,
    body=8 * 1024 * 1024,  # two objects as large as API servers take them, in JSON
    buffered=64 * 1024 * 1024,
    idle_seconds=120.0,  # an API server keeps connections open for a minute and a half
)

Perform = Callable[[Call], Awaitable[HttpResponse]]
"""Sends a request to the API server."""
Count = Callable[[str, int], None]
"""Is told the path and the HTTP status of every answer of a webhook, for metrics."""

PATHS: Mapping[str, AdmissionHandler] = {f"/{webhook}": handler for webhook, handler in HANDLERS.items()}
OF_PODS = frozenset(hook.path for hook in WEBHOOKS if hook.part is not Part.QUEUES)
"""The webhooks that no queue of Kueue depends on."""


class ReviewResponder:
    """Answers AdmissionReviews. Lookups read the API server: a cache might be stale."""

    def __init__(self, perform: Perform, settings: WebhookSettings, count: Count, *, queues: bool = True) -> None:
        self._perform, self._settings, self._count, self._turns = perform, settings, count, _Turns()
        self._paths = {path: handler for path, handler in PATHS.items() if queues or path in OF_PODS}

    async def __call__(self, request: HttpRequest) -> HttpReply:
        handler = self._paths.get(request.path)
        if request.method != "POST":
            return HttpReply(400, b"expected a POST with a Content-Length\n")
        if handler is None:
            return HttpReply(404, f"try {', '.join(self._paths)}\n".encode())
        reply = await self._reply(handler, request)
        self._count(request.path, reply.status)
        return reply

    async def _reply(self, handler: AdmissionHandler, request: HttpRequest) -> HttpReply:
        body = request.body
        try:
            asking = answer(body, lambda question: handler(question, self._settings))
            answered = await self._settled(asking, request.peer)
            return HttpReply(200, msgspec.json.encode(answered), JSON)
        except InvalidReview as error:
            return HttpReply(400, f"{error}\n".encode())
        except (Disconnected, MalformedAnswer) as error:
            return HttpReply(503, f"the cluster cannot be read: {error}\n".encode())
        except Exception as error:
            return HttpReply(200, msgspec.json.encode(refusal(body, f"{type(error).__name__}: {error}")), JSON)

    async def _settled(self, asking: Generator[Lookup, tuple[Object, ...], Json], peer: str) -> Json:
        """The answer, after every lookup it yields has been sent."""
        try:
            async with self._turns.of(peer):
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


class _Turns:
    """One review is decoded at a time and the peers take turns, so that expensive reviews of one delay nobody else."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._taken = False

    @asynccontextmanager
    async def of(self, peer: str) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        if self._taken:
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.setdefault(peer, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on()
                raise
        self._taken = True
        try:
            yield
        finally:
            loop.call_soon(self._pass_on)  # whatever else is ready comes in between

    def _pass_on(self) -> None:
        while self._waiting:
            peer, line = next(iter(self._waiting.items()))
            del self._waiting[peer]
            turn = line.popleft()
            if line:
                self._waiting[peer] = line
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False


class WebhookPlan(Struct, frozen=True):
    """Where to listen. Without a certificate of the user's (`chain` and `key`) one is kept in the `namespace`.

    Without `queues`, only the webhooks of our own Workloads are served.
    """

    listen: Listen
    namespace: str
    chain: Path | None = None
    key: Path | None = None
    queues: bool = True


@asynccontextmanager
async def webhooks_served(
    plan: WebhookPlan,
    client: Client,
    tls: ServerTls,
    dependencies: CertificateDependencies,
    responder: ReviewResponder,
) -> AsyncIterator[int]:
    """Serves all webhooks while the block lasts; yields the port. Raises CannotListen and InvalidCertificate."""
    if plan.chain is not None and plan.key is not None:
        tls.show(load_certificate(plan.chain, plan.key))
        keeping = follow(plan.chain, plan.key, tls, dependencies.log, dependencies.sleep)
    else:
        keeping = Trust(client.perform, plan.namespace, tls, dependencies).keep()
    keeper = asyncio.ensure_future(keeping)
    keeper.add_done_callback(lambda ended: _tell(ended, dependencies))
    try:
        async with http_server(plan.listen, responder, LIMITS, "--webhook-listen", tls.context) as port:
            yield port
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


def _tell(ended: asyncio.Future[None], dependencies: CertificateDependencies) -> None:
    if not ended.cancelled() and (trouble := ended.exception()) is not None:
        dependencies.log.error(f"the webhook certificate is no longer renewed: {trouble!r}")
