"""Who may read the pages that name objects of all tenants: whoever the API server lets `get` their path.

A bearer token is verified by a TokenReview, a client certificate in the TLS handshake, and what its user may do by a
SubjectAccessReview. Without a clear answer of the API server nobody reads anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from headgate.api.requests import JSON, Call, decode_status
from headgate.live.access import is_loopback
from headgate.live.connection import Disconnected, HttpResponse
from headgate.live.http_server import HttpReply, HttpRequest
from headgate.live.logs import Outages

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REMEMBERED_SECONDS = 10.0  # for which an answer of the API server is used again
MOST_REMEMBERED = 256  # answers; beyond this the oldest are forgotten
REVIEWS_PER_PEER = 4  # under way at once
LONGEST_TOKEN = 8 * 1024  # characters
CHALLENGE = (("WWW-Authenticate", 'Bearer realm="headgate"'),)
WHO = "reviews of who may read pages"

Perform = Callable[[Call], Awaitable[HttpResponse]]


class PageUser(Struct, frozen=True, rename="camel"):
    """Who asks, in the words of a TokenReview."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(Struct):
    authenticated: bool = False
    user: PageUser = PageUser()


class _TokenReview(Struct):
    status: _TokenStatus


class _AccessStatus(Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(Struct):
    status: _AccessStatus


class NotReviewed(Exception):
    """The API server gave no verdict."""


class ReviewedAccess:
    """Decides by what the API server answers, which is remembered for seconds."""

    def __init__(self, perform: Perform, outages: Outages, clock: Callable[[], float]) -> None:
        self._perform, self._outages, self._clock = perform, outages, clock
        self._remembered: dict[bytes, tuple[float, HttpReply | None]] = {}
        self._under_way: Counter[str] = Counter()

    async def __call__(self, request: HttpRequest) -> HttpReply | None:
        """Why this request may not read its page; None if it may."""
        token = _bearer(request)
        if not token and not request.certificate:
            return HttpReply(401, b"expected a bearer token or a client certificate\n", headers=CHALLENGE)
        if not request.certificate and not request.tls and not is_loopback(request.peer):
            return HttpReply(
                403, b"a token is taken over TLS only (--metrics-listen); this one was sent in the clear\n"
            )
        proof = sha256(msgspec.json.encode((request.path, token, request.certificate))).digest()
        kept = self._remembered.get(proof)
        if kept is not None and kept[0] > self._clock():
            return kept[1]
        return await self._reviewed(request, token, proof)

    async def _reviewed(self, request: HttpRequest, token: str, proof: bytes) -> HttpReply | None:
        if self._under_way[request.peer] >= REVIEWS_PER_PEER:
            return HttpReply(
                429, b"too many reviews of yours are under way; try again\n", headers=(("Retry-After", "1"),)
            )
        self._under_way[request.peer] += 1
        try:
            verdict = await self._verdict(request, token)
        except (Disconnected, NotReviewed, msgspec.MsgspecError) as error:
            self._outages.failing(WHO, WHO, str(error))
            return HttpReply(503, b"the API server did not say whether you may read this; try again\n")
        finally:
            self._under_way[request.peer] -= 1
            if not self._under_way[request.peer]:
                del self._under_way[request.peer]
        self._outages.recovered(WHO)
        self._remember(proof, verdict)
        return verdict

    async def _verdict(self, request: HttpRequest, token: str) -> HttpReply | None:
        user = certified_user(request.certificate) or (await self._authenticated(token) if token else None)
        if user is None:
            return HttpReply(401, b"the token or certificate names no user\n", headers=CHALLENGE)
        if not await self._allowed(user, request.path):
            return HttpReply(403, f"{user.username} may not get {request.path}\n".encode())
        return None

    async def _authenticated(self, token: str) -> PageUser | None:
        spec = {"token": token}
        answer = await self._created(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", spec)
        status = msgspec.json.decode(answer, type=_TokenReview).status
        return status.user if status.authenticated and status.user.username else None

    async def _allowed(self, user: PageUser, path: str) -> bool:
        asked = {"nonResourceAttributes": {"path": path, "verb": "get"}}
        who = {"user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra}
        answer = await self._created(ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", {**who, **asked})
        status = msgspec.json.decode(answer, type=_AccessReview).status
        return status.allowed and not status.denied

    async def _created(self, path: str, version: str, kind: str, spec: Mapping[str, object]) -> bytes:
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
        answer = await self._perform(Call("POST", path, {}, JSON, body))
        if answer.status not in (200, 201):
            raise NotReviewed(decode_status(answer.body).message or f"{path}: the server answered {answer.status}")
        return answer.body

    def _remember(self, proof: bytes, verdict: HttpReply | None) -> None:
        self._remembered.pop(proof, None)
        self._remembered[proof] = (self._clock() + REMEMBERED_SECONDS, verdict)
        while len(self._remembered) > MOST_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]


def certified_user(certificate: Mapping[str, Any]) -> PageUser | None:
    """The user of a verified client certificate, as API servers read it: the common name, groups from organizations."""
    parts = [part for relative in certificate.get("subject", ()) for part in relative]
    names = [value for name, value in parts if name == "commonName"]
    groups = tuple(value for name, value in parts if name == "organizationName")
    return PageUser(names[0], groups=(*groups, "system:authenticated")) if names and names[0] else None


def _bearer(request: HttpRequest) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and len(token) <= LONGEST_TOKEN else ""
