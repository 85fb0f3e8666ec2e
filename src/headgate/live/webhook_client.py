"""Calls admission webhooks over HTTPS for the small Kubernetes; what goes wrong is told in a real server's words."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from headgate.apiserver.webhook_calls import (
    CallFailed,
    CallsNeeded,
    WebhookAnswer,
    WebhookAnswers,
    WebhookCall,
    read_answer,
)
from headgate.live.connection import (
    Address,
    AnswerLimit,
    AnswerTooLarge,
    Disconnected,
    LookUps,
    NotResolved,
    Pool,
)

KNOWN_WEBHOOKS = 200  # whose connections are kept
CONNECTIONS = 256  # to one webhook at a time; what is more waits, within its timeout
LARGEST_REVIEW = 6 * 1024 * 1024  # bytes: a patch that replaces an object as large as is taken has two thirds of that
REVIEWS_TOGETHER = 64 * 1024 * 1024  # bytes of the answers of one webhook that are being received
AGENT = "kube-apiserver-admission"
NO_PEM = "unable to load root certificates: unable to parse bytes as PEM block"

_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21})  # what OpenSSL says of chains that lead to nobody known
_EXPIRED = frozenset({9, 10})


Result = TypeVar("Result")


class WebhookClient:
    """Calls webhooks. Each has connections of its own, so that none waits for another."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, str, bytes], Pool] = {}
        self._look_ups = LookUps()

    async def carry_out(
        self, attempt: Callable[[], Result], calls: Sequence[WebhookCall], answers: WebhookAnswers
    ) -> Result:
        """The result of the first attempt that has all answers it needs; those to `calls` are known to be missing."""
        while True:
            for call, answer in zip(calls, await asyncio.gather(*map(self.call, calls)), strict=True):
                answers.add(call, answer)
            try:
                return attempt()
            except CallsNeeded as needed:
                calls = needed.calls

    async def call(self, call: WebhookCall) -> WebhookAnswer:
        """The webhook's answer; CallFailed if there is none."""
        uid = str(uuid4())
        try:
            async with asyncio.timeout(call.seconds):
                answer = await self._pool(call).exchange(_request(call, uid), call.seconds + 1)
        except TimeoutError:
            return call.failed("context deadline exceeded")
        except Disconnected as error:
            return call.failed(_told(call, error))
        except (ssl.SSLError, ValueError):
            return CallFailed(f"could not get REST client: {NO_PEM}")
        content_type = answer.header(b"content-type").decode("latin-1")
        return read_answer(call, uid, answer.status, content_type, answer.body)

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def _pool(self, call: WebhookCall) -> Pool:
        """The connections to the webhook. Raises ssl.SSLError and ValueError if its authority is no PEM."""
        key = (call.url, call.host, call.authority)
        pool = self._pools.pop(key, None)
        if pool is None:
            context, address = _trusting(call.authority), Address(call.host, call.port, call.server_name)
            limit, shared = AnswerLimit(LARGEST_REVIEW, REVIEWS_TOGETHER), self._look_ups
            pool = Pool(address, lambda: context, time.monotonic, CONNECTIONS, limit=limit, look_ups=shared)
            if len(self._pools) >= KNOWN_WEBHOOKS:
                self._pools.pop(next(iter(self._pools))).close()
        self._pools[key] = pool  # the one used last
        return pool


def _trusting(authority: bytes) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.decode("ascii")) if authority else ssl.create_default_context()


def _request(call: WebhookCall, uid: str) -> bytes:
    body = call.review(uid)
    url = urlsplit(call.target)
    lines = (
        f"POST {url.path or '/'}?{url.query} HTTP/1.1",
        f"Host: {url.netloc}",
        f"User-Agent: {AGENT}",
        "Accept: application/json, */*",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def _told(call: WebhookCall, error: Disconnected) -> str:
    """Why a webhook was not reached, as Go tells it."""
    cause, at = error.__cause__, _address(call)
    if isinstance(error, AnswerTooLarge):
        return str(error)
    if isinstance(error, NotResolved):
        return f"dial tcp: lookup {call.host}: {_of_name(cause)}"
    match cause:
        case ssl.SSLCertVerificationError():
            return f"tls: failed to verify certificate: x509: {_of_certificate(call, cause)}"
        case ssl.SSLError():
            return "tls: first record does not look like a TLS handshake"
        case ConnectionRefusedError():
            return f"dial tcp {at}: connect: connection refused"
        case TimeoutError():
            return f"dial tcp {at}: i/o timeout"
        case OSError():
            return f"dial tcp {at}: connect: {(cause.strerror or str(cause)).lower()}"
    return "EOF"


def _of_name(cause: BaseException | None) -> str:
    if isinstance(cause, TimeoutError):
        return "i/o timeout"
    return "no such host" if cause is not None else "too many other names are being looked up"


def _address(call: WebhookCall) -> str:
    return f"[{call.host}]:{call.port}" if ":" in call.host else f"{call.host}:{call.port}"


def _of_certificate(call: WebhookCall, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return "certificate signed by unknown authority"
    if error.verify_code in _EXPIRED:
        return "certificate has expired or is not yet valid"
    return f"certificate is not valid for {call.server_name}: {error.verify_message}"
