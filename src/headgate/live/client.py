"""A client of a Kubernetes API server: requests with credentials; Retry-After is respected."""

from __future__ import annotations

import contextlib
import ssl
import string
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib.metadata import version
from urllib.parse import quote, urlencode

from headgate.api.requests import Call
from headgate.live.access import Access, Certificate
from headgate.live.certificates import tls_context
from headgate.live.connection import HttpResponse, Pool, Stream
from headgate.live.credentials import Credentials, CredentialsUnavailable, Proof
from headgate.live.kubeconfig import InvalidKubeconfig

ANSWER_TIMEOUT = 60.0  # seconds; a server gives up on its own requests after that
LONGEST_PAUSE = 60.0  # seconds, whatever a server asks for
SHORTEST_PAUSE = 1.0
BUSY = frozenset({429, 503})  # the server did nothing and asks to come back later
PLAIN = string.ascii_letters.encode() + string.digits.encode() + b"_.~/-"  # what is the same when quoted


class Client:
    """One cluster's API server. `clock` is monotonic, `wall` is seconds since the epoch."""

    def __init__(
        self,
        access: Access,
        clock: Callable[[], float],
        wall: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._access, self._clock, self._sleep = access, clock, sleep
        self._credentials = Credentials(access, clock, wall)
        self._certificate = access.certificate
        self._tls = tls_context(access.cluster, access.certificate)
        self._pool = Pool(access.cluster.url.address, self._current_tls, clock)
        self._heads: tuple[Proof, bytes] | None = None
        self._pause_until = 0.0

    @property
    def server(self) -> str:
        return str(self._access.cluster.url)

    async def perform(self, call: Call, timeout: float = ANSWER_TIMEOUT) -> HttpResponse:
        """The server's answer, whatever its status. Raises NeverSent or AnswerLost."""
        if self._pause_until:
            await self._respect_pause()
        proof = self._credentials.current() or await self._credentials.obtain()
        answer = await self._pool.exchange(self._request(call, proof), timeout)
        if answer.status == 401 and (renewed := await self._credentials.obtain(refused=proof)) is not proof:
            answer = await self._pool.exchange(self._request(call, renewed), timeout)
        if answer.status in BUSY:
            self._pause_until = self._clock() + _asked_pause(answer)
        return answer

    @contextlib.asynccontextmanager
    async def stream(self, call: Call, timeout: float = ANSWER_TIMEOUT) -> AsyncIterator[Stream | HttpResponse]:
        """The lines of the answer while the block lasts, or the whole answer where its status is not 200."""
        await self._respect_pause()
        proof = self._credentials.current() or await self._credentials.obtain()
        async with self._pool.stream(self._request(call, proof), timeout) as opened:
            if isinstance(opened, HttpResponse) and opened.status == 401:
                await self._credentials.obtain(refused=proof)  # the next try shows the new one
            if isinstance(opened, HttpResponse) and opened.status in BUSY:
                self._pause_until = self._clock() + _asked_pause(opened)
            yield opened

    async def resolve(self) -> None:
        """Look up the server's name once, apart from other clients. Raises NeverSent."""
        await self._pool.resolve()

    def close(self) -> None:
        self._pool.close()

    async def _respect_pause(self) -> None:
        while (left := self._pause_until - self._clock()) > 0:
            await self._sleep(left)
        self._pause_until = 0.0

    def _request(self, call: Call, proof: Proof) -> bytes:
        is_plain = not call.path.encode().translate(None, PLAIN)
        path = self._access.cluster.url.prefix + (call.path if is_plain else quote(call.path))
        target = f"{path}?{urlencode(call.query)}" if call.query else path
        start = f"{call.method} {target} HTTP/1.1\r\n".encode("ascii")
        if not call.body:
            return start + self._head(proof) + b"\r\n"
        sized = f"Content-Type: {call.content_type}\r\nContent-Length: {len(call.body)}\r\n\r\n".encode("ascii")
        return b"".join((start, self._head(proof), sized, call.body))

    def _head(self, proof: Proof) -> bytes:
        """The headers that are the same for every request with this proof."""
        if self._heads is None or self._heads[0] is not proof:
            self._show(proof.certificate)
            self._heads = (proof, _common_head(self._access, proof))
        return self._heads[1]

    def _show(self, certificate: Certificate | None) -> None:
        """Connections made from here on present this certificate."""
        if certificate != self._certificate:
            try:
                self._tls = tls_context(self._access.cluster, certificate)
            except InvalidKubeconfig as error:
                raise CredentialsUnavailable(str(error)) from error
            self._certificate = certificate
            self._pool.close_idle()

    def _current_tls(self) -> ssl.SSLContext | None:
        return self._tls


def _common_head(access: Access, proof: Proof) -> bytes:
    headers: Mapping[str, str] = {
        "Host": str(access.cluster.url.address),
        "User-Agent": f"headgate/{version('headgate')}",
        "Accept": "application/json",
    }
    if proof.token:
        headers = {**headers, "Authorization": f"Bearer {proof.token}"}
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("ascii")


def _asked_pause(answer: HttpResponse) -> float:
    """Seconds to stay away, from Retry-After; its date form is not used by API servers."""
    asked = answer.header(b"retry-after")
    return min(max(float(asked), SHORTEST_PAUSE), LONGEST_PAUSE) if asked.isdigit() else SHORTEST_PAUSE
