"""Serves the admission webhooks over HTTPS, with a certificate that is renewed or reloaded while they are served.

A certificate of our own is shared by all replicas in a Secret, and its CA is written into the webhook configurations.
"""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from headgate.api.admission import InvalidReview, answer, lookup_path, lookup_result, refusal
from headgate.api.decode import MalformedAnswer
from headgate.api.install_manifests import CONFIGURATION, WEBHOOKS, Part
from headgate.api.requests import JSON, STRATEGIC_MERGE_PATCH, Call, decode_status
from headgate.gates.webhooks import HANDLERS
from headgate.live.certificates import (
    InvalidCertificate,
    ServerTls,
    ServingCertificate,
    follow,
    load_certificate,
    made_for,
    serves,
)
from headgate.live.client import Client
from headgate.live.connection import Disconnected, HttpResponse
from headgate.live.http_server import HttpReply, HttpRequest, Listen, ServerLimits, http_server
from headgate.live.logs import Log, Outages
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

SECRET = "headgate-webhook"
CHECK_SECONDS = 60.0  # between two looks whether we are still believed
RETRY_SECONDS = 5.0
CONFIGURATIONS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{CONFIGURATION}"
    for kind in ("mutating", "validating")
)
WHO = "webhook certificates"
NOT_ASKED = "no webhook configuration names us yet: run `headgate install --webhook-url URL`"


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


class SecretRefused(Exception):
    """The server did not do what was asked."""


class _Service(Struct):
    name: str = ""
    namespace: str = ""


class _WebhookClientConfig(Struct, rename="camel"):
    url: str | None = None
    service: _Service | None = None
    ca_bundle: str = ""

    @property
    def host(self) -> str:
        """The host name in the webhook configuration."""
        if self.service is not None:
            return f"{self.service.name}.{self.service.namespace}.svc"
        return urlsplit(self.url or "").hostname or ""


class _Webhook(Struct, rename="camel"):
    name: str
    client_config: _WebhookClientConfig


class _Configuration(Struct):
    webhooks: list[_Webhook] = []


class _SecretMetadata(Struct, rename="camel"):
    resource_version: str = ""


class _Secret(Struct):
    metadata: _SecretMetadata
    data: dict[str, str] = {}

    @property
    def certificate(self) -> ServingCertificate:
        chain, key, authority = (_decoded(self.data.get(name, "")) for name in ("tls.crt", "tls.key", "ca.crt"))
        return ServingCertificate(chain, key, authority)


class CertificateDependencies(Struct, frozen=True):
    """What keeping a certificate depends on."""

    log: Log
    outages: Outages
    sleep: Callable[[float], Awaitable[None]]
    wall: Callable[[], float]


class Trust:
    """Call `keep` for as long as the webhooks are served."""

    def __init__(
        self,
        perform: Callable[[Call], Awaitable[HttpResponse]],
        namespace: str,
        tls: ServerTls,
        dependencies: CertificateDependencies,
    ):
        self._perform, self._namespace, self._tls = perform, namespace, tls
        self._log, self._outages, self._sleep, self._wall = (
            dependencies.log,
            dependencies.outages,
            dependencies.sleep,
            dependencies.wall,
        )
        self._secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self._said_not_asked = False

    async def keep(self) -> None:
        """Creates, shares and renews the certificate, and restores overwritten CA bundles; runs until cancelled."""
        while True:
            try:
                await self.establish()
            except (Disconnected, SecretRefused, InvalidCertificate, msgspec.MsgspecError) as error:
                self._outages.failing(WHO, WHO, str(error))
                await self._sleep(RETRY_SECONDS)
            else:
                self._outages.recovered(WHO)
                await self._sleep(CHECK_SECONDS)

    async def establish(self) -> bool:
        """One pass; whether the API server trusts the certificate afterwards."""
        configurations = {path: found for path in CONFIGURATIONS if (found := await self._configuration(path))}
        hosts = sorted({hook.client_config.host for found in configurations.values() for hook in found.webhooks} - {""})
        if not hosts:
            self._say_not_asked()
            return False
        certificate = await self._shared(hosts)
        if self._tls.show(certificate):
            self._log.info("webhooks serve a certificate of their own CA", hosts=",".join(hosts))
        bundle = base64.b64encode(certificate.authority).decode()
        for path, found in configurations.items():
            if any(hook.client_config.ca_bundle != bundle for hook in found.webhooks):
                await self._tell(path, found, bundle)
        return True

    async def _configuration(self, path: str) -> _Configuration | None:
        answer = await self._perform(Call("GET", path, {}, JSON, b""))
        if answer.status == 404:
            return None
        return msgspec.json.decode(_accepted(answer).body, type=_Configuration)

    def _say_not_asked(self) -> None:
        if not self._said_not_asked:
            self._said_not_asked = True
            self._log.warning(NOT_ASKED)

    async def _shared(self, hosts: Sequence[str]) -> ServingCertificate:
        """The certificate in the Secret; a new one if there is none that is valid."""
        answer = await self._perform(Call("GET", f"{self._secrets}/{SECRET}", {}, JSON, b""))
        if answer.status == 404:
            made = made_for(hosts, self._wall())
            await self._write("POST", self._secrets, self._secret(made, {}))
            return made
        secret = msgspec.json.decode(_accepted(answer).body, type=_Secret)
        if serves(secret.certificate, hosts, self._wall()):
            return secret.certificate
        made = made_for(hosts, self._wall(), before=secret.certificate)
        version = {"resourceVersion": secret.metadata.resource_version}
        await self._write("PUT", f"{self._secrets}/{SECRET}", self._secret(made, version))
        return made

    def _secret(self, certificate: ServingCertificate, version: dict[str, str]) -> dict[str, Any]:
        parts = {"tls.crt": certificate.chain, "tls.key": certificate.key, "ca.crt": certificate.authority}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": SECRET, "namespace": self._namespace, **version},
            "data": {name: base64.b64encode(part).decode() for name, part in parts.items()},
        }

    async def _tell(self, path: str, found: _Configuration, bundle: str) -> None:
        hooks = [{"name": hook.name, "clientConfig": {"caBundle": bundle}} for hook in found.webhooks]
        await self._write("PATCH", path, {"webhooks": hooks}, STRATEGIC_MERGE_PATCH)

    async def _write(self, method: str, path: str, body: object, content_type: str = JSON) -> None:
        _accepted(await self._perform(Call(method, path, {}, content_type, msgspec.json.encode(body))))


def _accepted(answer: HttpResponse) -> HttpResponse:
    if answer.status not in (200, 201):
        raise SecretRefused(decode_status(answer.body).message or f"the server answered {answer.status}")
    return answer


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""
