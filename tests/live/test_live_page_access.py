"""Who may read pages that name objects of all tenants: asked of the API server, remembered shortly, closed in doubt."""

from __future__ import annotations

import asyncio
import json
import ssl

import pytest
from virtual_clock import VirtualClock

from headgate.api.requests import Call
from headgate.live.access import is_loopback
from headgate.live.certificates import InvalidCertificate, ServerTls, load_certificate
from headgate.live.connection import HttpResponse, NeverSent
from headgate.live.health import (
    LIMITS,
    MOST_REMEMBERED,
    REMEMBERED_SECONDS,
    REVIEWS_PER_PEER,
    Readiness,
    ReviewedAccess,
    certified_user,
    page_handler,
    probes,
    reports,
)
from headgate.live.http_server import HttpReply, HttpRequest, Listen, http_server
from headgate.live.logs import Outages

USERS = {"t-1": "prometheus", "t-2": "tenant"}


class Reviews:
    """An API server that reviews tokens and access; only prometheus may get anything."""

    def __init__(self) -> None:
        self.asked: list[dict] = []
        self.status, self.down = 201, False
        self.gate = asyncio.Event()
        self.gate.set()

    async def perform(self, call: Call) -> HttpResponse:
        await self.gate.wait()
        if self.down:
            raise NeverSent("127.0.0.1:1: Connection refused")
        spec = json.loads(call.body)["spec"]
        self.asked.append(spec)
        if self.status != 201:
            return HttpResponse(self.status, b"", b'{"message": "you may not create reviews"}')
        if "token" in spec:
            user = USERS.get(spec["token"])
            status = {"authenticated": user is not None, "user": {"username": user or "", "groups": ["g"], "uid": "7"}}
        else:
            status = {"allowed": spec["user"] == "prometheus"}
        return HttpResponse(201, b"", json.dumps({"status": status}).encode())


@pytest.fixture
def reviews() -> Reviews:
    return Reviews()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def access(reviews, clock, log) -> ReviewedAccess:
    return ReviewedAccess(reviews.perform, Outages(log), clock)


def request(token: str = "", *, path: str = "/metrics", peer: str = "10.0.0.9", tls: bool = True, subject=()):
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return HttpRequest("GET", path, headers, b"", peer, tls, {"subject": subject} if subject else {})


def status(reply: HttpReply | None) -> int:
    return 200 if reply is None else reply.status


PROMETHEUS = ((("organizationName", "monitoring"),), (("commonName", "prometheus"),))


@pytest.mark.parametrize(
    "asked, expected",
    [
        pytest.param(request(), 401, id="nobody"),
        pytest.param(request("t-1"), 200, id="a reader"),
        pytest.param(request("t-2"), 403, id="another user"),
        pytest.param(request("t-3"), 401, id="nobody's token"),
        pytest.param(request("x" * 9000), 401, id="a token longer than any"),
        pytest.param(request("t-1", tls=False), 403, id="a token sent in the clear"),
        pytest.param(request("t-1", tls=False, peer="127.0.0.1"), 200, id="a token that never left this host"),
        pytest.param(request(subject=PROMETHEUS), 200, id="the certificate of a reader"),
        pytest.param(request(subject=((("commonName", "tenant"),),)), 403, id="the certificate of another"),
        pytest.param(request(subject=((("organizationName", "x"),),)), 401, id="a certificate of nobody"),
    ],
)
async def test_the_api_server_decides(access, asked, expected):
    assert status(await access(asked)) == expected


async def test_it_is_asked_as_for_any_path_that_is_no_resource(access, reviews):
    await access(request("t-1", path="/preemptions"))
    assert reviews.asked == [
        {"token": "t-1"},
        {
            "user": "prometheus",
            "uid": "7",
            "groups": ["g"],
            "extra": {},
            "nonResourceAttributes": {"path": "/preemptions", "verb": "get"},
        },
    ]


@pytest.mark.parametrize("token, expected", [("t-1", 200), ("t-2", 403), ("t-3", 401)])
async def test_an_answer_is_used_again_for_seconds_and_no_longer(access, reviews, clock, token, expected):
    for _ in range(5):
        assert status(await access(request(token))) == expected
    once = len(reviews.asked)
    assert once <= 2
    clock.now += REMEMBERED_SECONDS
    await access(request(token))
    assert len(reviews.asked) == 2 * once


async def test_an_answer_is_for_one_token_and_one_path(access, reviews):
    await access(request("t-1"))
    assert status(await access(request("t-2"))) == 403
    await access(request("t-1", path="/preemptions"))
    assert len(reviews.asked) == 6


async def test_whoever_guesses_tokens_fills_no_memory(access):
    for number in range(2 * MOST_REMEMBERED):
        assert status(await access(request(str(number)))) == 401
    assert len(access._remembered) == MOST_REMEMBERED
    assert not access._under_way


async def test_without_an_answer_nobody_reads_and_nothing_is_remembered(access, reviews, log):
    reviews.down = True
    assert status(await access(request("t-1"))) == 503
    reviews.down, reviews.status = False, 403
    assert status(await access(request("t-1"))) == 503
    reviews.status = 201
    assert status(await access(request("t-1"))) == 200
    assert [line for line in log.lines if "reviews" in line] == [
        "WARNING reviews of who may read pages: 127.0.0.1:1: Connection refused; retrying",
        "INFO    reviews of who may read pages: recovered",
    ]


async def test_reviews_under_way_are_bounded_for_each_peer(access, reviews):
    reviews.gate.clear()
    asked = [asyncio.ensure_future(access(request(str(number)))) for number in range(REVIEWS_PER_PEER)]
    await asyncio.sleep(0)
    assert status(await access(request("one more"))) == 429
    other = asyncio.ensure_future(access(request("t-1", peer="10.0.0.8")))
    reviews.gate.set()
    assert status(await other) == 200
    assert [status(await one) for one in asked] == [401] * REVIEWS_PER_PEER


async def test_probes_are_answered_without_asking_anybody(access, reviews):
    reviews.down = True
    readiness = Readiness()
    handler = page_handler(probes(readiness), reports(readiness, lambda: b"a tenant's name"), access)
    assert [(await handler(request(path=path, tls=False))).status for path in ("/healthz", "/livez", "/readyz")] == [
        200,
        200,
        503,
    ]
    refused = await handler(request("t-1"))
    assert (refused.status, b"tenant" in refused.body) == (503, False)


async def test_a_client_certificate_of_the_authority_is_a_proof_and_another_is_none(access, reviews, ca):
    tls = ServerTls(ca.certificate.read_bytes())
    tls.show(load_certificate(*ca.issue("metrics")))
    readiness = Readiness()
    handler = page_handler({}, reports(readiness, lambda: b"numbers"), access)
    answers = []
    async with http_server(Listen("127.0.0.1", 0), handler, LIMITS, "--metrics-listen", tls.context) as port:
        for name in ("", "tenant", "prometheus"):
            client = ssl.create_default_context(cafile=str(ca.certificate))
            if name:
                client.load_cert_chain(*ca.issue(name))
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            answers.append((await reader.read()).split(b"\r\n")[0])
            writer.close()
    assert answers == [b"HTTP/1.1 401 Unauthorized", b"HTTP/1.1 403 Forbidden", b"HTTP/1.1 200 OK"]


def test_a_client_authority_that_is_none_is_told():
    with pytest.raises(InvalidCertificate, match="expected the certificates of an authority in PEM"):
        ServerTls(b"nonsense")


def test_users_of_certificates_are_read_as_api_servers_read_them():
    user = certified_user({"subject": PROMETHEUS})
    assert user is not None
    assert (user.username, user.groups) == ("prometheus", ("monitoring", "system:authenticated"))


@pytest.mark.parametrize(
    "host, expected",
    [
        *((host, True) for host in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost")),
        *((host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "localhost.example.com", "")),
    ],
)
def test_addresses_of_this_host_alone(host: str, expected: bool):
    assert is_loopback(host) is expected
