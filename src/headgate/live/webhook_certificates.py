"""The webhook certificate: shared by all replicas in a Secret, its CA written into the webhook configurations."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from headgate.api.install_manifests import CONFIGURATION
from headgate.api.requests import JSON, STRATEGIC_MERGE_PATCH, Call, decode_status
from headgate.live.certificates import InvalidCertificate, ServerTls, ServingCertificate, made_for, serves
from headgate.live.connection import Disconnected, HttpResponse
from headgate.live.logs import Log, Outages

SECRET = "headgate-webhook"
CHECK_SECONDS = 60.0  # between two looks whether we are still believed
RETRY_SECONDS = 5.0
CONFIGURATIONS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{CONFIGURATION}"
    for kind in ("mutating", "validating")
)
WHO = "webhook certificates"
NOT_ASKED = "no webhook configuration names us yet: run `headgate install --webhook-url URL`"


class SecretRefused(Exception):
    """The server did not do what was asked."""


class _Service(Struct):
    name: str = ""
    namespace: str = ""


class _ClientConfig(Struct, rename="camel"):
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
    client_config: _ClientConfig


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
