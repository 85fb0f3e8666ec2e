"""Calls with credentials: renewed when refused or replaced, over TLS, with the server's wish for a pause respected."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from scripted_server import Exchange, scripted
from throwaway_ca import ThrowawayCa
from virtual_clock import ImpatientClock

from headgate.api.requests import Call
from headgate.live.access import Access, Anonymous, Certificate, ClusterEndpoint, FixedToken, ServerUrl, TokenFile
from headgate.live.client import LONGEST_PAUSE, Client
from headgate.live.connection import DEFAULT_SIZE, Address, HttpResponse, NeverSent
from headgate.live.credentials import REREAD_AFTER

GET = Call("GET", "/api/v1/pods", {"limit": "5"}, "", b"")
POST = Call("POST", "/api/v1/pods", {}, "application/json", b'{"a":1}')


def client_for(access: Access, clock: ImpatientClock | None = None) -> Client:
    clock = clock or ImpatientClock()
    return Client(access, clock, clock, clock.sleep)


async def ok(exchange: Exchange) -> None:
    exchange.reply()


def tokens(seen: list[Exchange]) -> list[str]:
    return [exchange.headers.get("authorization", "") for exchange in seen]


async def test_a_call_is_sent_as_it_was_decided():
    async with scripted(ok) as server:
        client = client_for(server.access(FixedToken("secret")))
        await client.perform(POST)
        await client.perform(GET)
    sent, asked = server.seen
    assert (sent.method, sent.path, sent.body, sent.headers["content-type"]) == (
        "POST",
        "/api/v1/pods",
        b'{"a":1}',
        "application/json",
    )
    assert (asked.method, asked.query) == ("GET", {"limit": "5"})
    assert sent.headers["authorization"] == "Bearer secret"
    assert sent.headers["user-agent"].startswith("headgate/")
    assert "accept-encoding" not in sent.headers


async def test_a_server_under_a_path_gets_every_path_below_it():
    async with scripted(ok) as server:
        url = ServerUrl(Address("127.0.0.1", server.port), False, "/k8s/c-1")
        await client_for(Access(ClusterEndpoint(url, ""), Anonymous())).perform(GET)
    assert server.seen[0].path == "/k8s/c-1/api/v1/pods"


async def test_a_token_file_is_read_again_after_a_minute_and_not_before(tmp_path: Path):
    file, clock = tmp_path / "token", ImpatientClock()
    file.write_text("first\n")
    async with scripted(ok) as server:
        client = client_for(server.access(TokenFile(file)), clock)
        await client.perform(GET)
        file.write_text("second\n")
        await client.perform(GET)
        clock.now += REREAD_AFTER
        await client.perform(GET)
    assert tokens(server.seen) == ["Bearer first", "Bearer first", "Bearer second"]


async def test_a_refused_token_is_read_again_at_once_and_the_call_repeated_once(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("old")

    async def only_new(exchange: Exchange) -> None:
        exchange.reply(200 if exchange.headers["authorization"] == "Bearer new" else 401)

    async with scripted(only_new) as server:
        client = client_for(server.access(TokenFile(file)))
        assert (await client.perform(POST)).status == 401
        file.write_text("new")
        assert (await client.perform(POST)).status == 200
    assert tokens(server.seen) == ["Bearer old", "Bearer old", "Bearer old", "Bearer new"]


async def test_a_fixed_token_that_is_refused_is_not_tried_twice():
    async def refuse(exchange: Exchange) -> None:
        exchange.reply(401)

    async with scripted(refuse) as server:
        assert (await client_for(server.access(FixedToken("x"))).perform(GET)).status == 401
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "content, why",
    [
        pytest.param(None, "No such file", id="a missing file"),
        pytest.param("", "expected a token", id="an empty file"),
        pytest.param("a\nb: c", "expected a token on one line", id="more than a token"),
    ],
)
async def test_without_a_token_nothing_is_sent(tmp_path: Path, content: str | None, why: str):
    if content is not None:
        (tmp_path / "token").write_text(content)
    async with scripted(ok) as server:
        with pytest.raises(NeverSent, match=why):
            await client_for(server.access(TokenFile(tmp_path / "token"))).perform(GET)
    assert server.seen == []


@pytest.mark.parametrize(
    "status, headers, pauses",
    [
        pytest.param(429, {"Retry-After": "7"}, [7.0], id="too many requests, come back in seven seconds"),
        pytest.param(503, {"Retry-After": "2"}, [2.0], id="unavailable, come back in two seconds"),
        pytest.param(429, {}, [1.0], id="too many requests without a hint means a second"),
        pytest.param(429, {"Retry-After": "99999"}, [LONGEST_PAUSE], id="an endless pause is cut short"),
        pytest.param(429, {"Retry-After": "tomorrow"}, [1.0], id="a hint that is no number means a second"),
        pytest.param(500, {"Retry-After": "7"}, [], id="other trouble is no reason to pause"),
    ],
)
async def test_the_next_call_waits_as_long_as_the_server_asked(status, headers, pauses):
    async def busy(exchange: Exchange) -> None:
        exchange.reply(status, {}, headers)

    clock = ImpatientClock()
    async with scripted(busy) as server:
        client = client_for(server.access(), clock)
        assert (await client.perform(POST)).status == status
        assert clock.pauses == [], "the answer itself is not held back"
        await client.perform(POST)
    assert clock.pauses == pauses


async def test_tls_trusts_only_the_named_authority(ca: ThrowawayCa, tmp_path: Path):
    async with scripted(ok, ca.server()) as server:
        trusting = server.access(authority=ca.certificate.read_bytes())
        assert (await client_for(trusting).perform(GET)).status == 200
        stranger = ThrowawayCa(tmp_path).certificate.read_bytes()
        with pytest.raises(NeverSent, match="certificate was not accepted"):
            await client_for(server.access(authority=stranger)).perform(GET)
        assert (await client_for(server.access(verify=False)).perform(GET)).status == 200


@pytest.mark.parametrize("name, accepted", [("kubernetes.default", True), ("elsewhere.example", False)])
async def test_the_certificate_must_carry_the_name_that_was_asked_for(ca: ThrowawayCa, name: str, accepted: bool):
    async with scripted(ok, ca.server()) as server:
        url = ServerUrl(Address("127.0.0.1", server.port, name), True, "")
        client = client_for(Access(ClusterEndpoint(url, "", ca.certificate.read_bytes()), Anonymous()))
        if accepted:
            assert (await client.perform(GET)).status == 200
        else:
            with pytest.raises(NeverSent, match="certificate"):
                await client.perform(GET)


async def test_a_client_certificate_is_shown(ca: ThrowawayCa):
    chain, key = ca.issue("somebody")
    async with scripted(ok, ca.server(demand_certificate=True)) as server:
        cluster = server.access(authority=ca.certificate.read_bytes()).cluster
        shown = Certificate(chain.read_bytes(), key.read_bytes(), "a test")
        assert (await client_for(Access(cluster, Anonymous(), shown)).perform(GET)).status == 200


async def test_many_calls_at_once_share_the_pool():
    async with scripted(ok) as server:
        client = client_for(server.access())
        answers = await asyncio.gather(*(client.perform(POST) for _ in range(200)))
        assert all(isinstance(answer, HttpResponse) for answer in answers)
        assert server.connections <= DEFAULT_SIZE
