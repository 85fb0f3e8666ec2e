"""Pages over HTTP: probes for kubelets (/healthz, /livez, /readyz), and reports for who may read them (/metrics for
Prometheus, /preemptions for people).

Probes name nobody and are answered to everybody, without asking anybody. Reports name objects of all tenants: they are
read by whoever the API server lets `get` their path. A bearer token is verified by a TokenReview, a client certificate
in the TLS handshake, and what its user may do by a SubjectAccessReview. Without a clear answer of the API server nobody
reads anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from headgate.api.kinds import RESOURCES
from headgate.api.requests import JSON, Call, decode_status
from headgate.live.access import is_loopback
from headgate.live.connection import Disconnected, HttpResponse
from headgate.live.http_server import Handler, HttpReply, HttpRequest, ServerLimits
from headgate.live.logs import Outages
from headgate.model.keys import Key

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
LIMITS = ServerLimits(connections=256, per_peer=128)

Page = Callable[[], HttpReply]
Access = Callable[[HttpRequest], Awaitable[HttpReply | None]]
"""Why a request may not read the reports; None if it may."""

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REMEMBERED_SECONDS = 10.0  # for which an answer of the API server is used again
MOST_REMEMBERED = 256  # answers; beyond this the oldest are forgotten
REVIEWS_PER_PEER = 4  # under way at once
LONGEST_TOKEN = 8 * 1024  # characters
CHALLENGE = (("WWW-Authenticate", 'Bearer realm="headgate"'),)
WHO = "reviews of who may read pages"
Perform = Callable[[Call], Awaitable[HttpResponse]]


class Readiness:
    """What /readyz and /preemptions show; both change with the process's role (standby or leader)."""

    def __init__(self) -> None:
        self.check: Callable[[], bool] = lambda: False
        self.has_webhook_certificate: Callable[[], bool] = lambda: True
        self.receipts: Callable[[], bytes] = lambda: b"[]"

    def missing(self) -> str:
        """What is still missing for the process to be ready; empty if nothing is."""
        if not self.has_webhook_certificate():
            return "the webhooks have no certificate yet"
        return "" if self.check() else "the cluster has not been read yet"


async def everybody(_request: HttpRequest) -> None:
    """The reports are for everybody who can reach them: the processes of this host."""


def probes(readiness: Readiness) -> Mapping[str, Page]:
    return {
        "/healthz": lambda: HttpReply(200, b"ok\n"),
        "/livez": lambda: HttpReply(200, b"ok\n"),
        "/readyz": lambda: _ready(readiness.missing()),
    }


def reports(readiness: Readiness, metrics: Callable[[], bytes]) -> Mapping[str, Page]:
    return {
        "/metrics": lambda: HttpReply(200, metrics(), PROMETHEUS),
        "/preemptions": lambda: HttpReply(200, readiness.receipts(), JSON),
    }


def page_handler(open_to_all: Mapping[str, Page], guarded: Mapping[str, Page], access: Access) -> Handler:
    """Answers GET and HEAD for these pages."""

    async def answer(request: HttpRequest) -> HttpReply:
        if request.method not in ("GET", "HEAD"):
            return HttpReply(405, b"only GET and HEAD\n")
        if (page := open_to_all.get(request.path)) is not None:
            return page()
        if (page := guarded.get(request.path)) is not None:
            return await access(request) or page()
        return HttpReply(404, f"try {', '.join((*open_to_all, *guarded))}\n".encode())

    return answer


def _ready(missing: str) -> HttpReply:
    return HttpReply(503, f"{missing}\n".encode()) if missing else HttpReply(200, b"ok\n")


class Told(Protocol):
    """An entry of the journal."""

    @property
    def at(self) -> float: ...
    @property
    def key(self) -> Key: ...
    @property
    def decision(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def numbers(self) -> Mapping[str, int | str]: ...


def entry_dict(entry: Told) -> dict[str, Any]:
    """The entry with its object named as manifests name it."""
    resource, key = RESOURCES[entry.key.kind], entry.key
    place = {"namespace": key.namespace} if key.namespace else {}
    return {
        "at": entry.at,
        "object": {"apiVersion": resource.api_version, "kind": resource.kind_name, **place, "name": key.name},
        "decision": entry.decision,
        "reason": entry.reason,
        "message": entry.message,
        "numbers": entry.numbers,
    }


def receipts_json(entries: Iterable[Told]) -> bytes:
    return msgspec.json.encode([entry_dict(entry) for entry in entries])


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
