"""Connections and their pool: what was never sent, what may have been done, what is reused, what is bounded."""

from __future__ import annotations

import asyncio
import time
from unittest.mock import Mock

import pytest
from scripted_server import Exchange, scripted, unused_port

from headgate.live import connection as connection_module
from headgate.live.connection import (
    IDLE_LIMIT,
    LARGEST_HEAD,
    PAUSE_READING_AT,
    Address,
    AnswerLost,
    Connection,
    HttpResponse,
    NeverSent,
    Pool,
)

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


def pool_to(port: int, clock=time.monotonic, size: int = 4) -> Pool:
    return Pool(Address("127.0.0.1", port), lambda: None, clock, size)


async def ok(exchange: Exchange) -> None:
    exchange.reply(200, {"n": exchange.connection})


async def test_an_answer_holds_status_headers_and_body():
    async def created(exchange: Exchange) -> None:
        exchange.reply(201, {"a": 1}, {"X-Thing": "7"})

    async with scripted(created) as server:
        answer = await pool_to(server.port).exchange(POST, 5)
    assert (answer.status, answer.header(b"x-thing"), answer.body) == (201, b"7", b'{"a": 1}')
    assert server.seen[0].body == b"{}"


async def test_one_connection_serves_requests_that_follow_each_other():
    async with scripted(ok) as server:
        pool = pool_to(server.port)
        for _ in range(5):
            await pool.exchange(GET, 5)
        assert server.connections == 1


async def test_a_connection_idle_for_too_long_is_not_trusted():
    now = 0.0
    async with scripted(ok) as server:
        pool = pool_to(server.port, lambda: now)
        await pool.exchange(GET, 5)
        now += IDLE_LIMIT
        assert (await pool.exchange(GET, 5)).body == b'{"n": 2}'


async def test_connections_are_bounded_and_the_next_in_line_gets_the_free_one():
    arrived, release = asyncio.Semaphore(0), asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        arrived.release()
        await release.wait()
        exchange.reply()

    async with scripted(slow) as server:
        pool = pool_to(server.port, size=2)
        asking = [asyncio.create_task(pool.exchange(GET, 5)) for _ in range(6)]
        await arrived.acquire()
        await arrived.acquire()
        asking[5].cancel()
        release.set()
        answers = await asyncio.gather(*asking, return_exceptions=True)
        assert [isinstance(answer, HttpResponse) for answer in answers] == [True] * 5 + [False]
        assert server.connections == 2


async def test_a_refused_connection_means_nothing_was_sent():
    with pytest.raises(NeverSent, match=r"127\.0\.0\.1:.*refused"):
        await pool_to(unused_port()).exchange(POST, 5)


async def _drop(exchange: Exchange) -> None:
    exchange.drop()


async def _half(exchange: Exchange) -> None:
    exchange.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    exchange.drop()


async def _nonsense(exchange: Exchange) -> None:
    exchange.write(b"this is not HTTP\r\n\r\n")


@pytest.mark.parametrize(
    "handler, why",
    [
        pytest.param(_drop, "closed the connection", id="the server hangs up on the request"),
        pytest.param(_half, "closed the connection", id="the answer breaks off half-way"),
        pytest.param(_nonsense, "not HTTP", id="the answer is something else"),
    ],
)
async def test_after_sending_a_lost_answer_may_mean_it_was_done(handler, why):
    async with scripted(handler) as server:
        with pytest.raises(AnswerLost, match=why):
            await pool_to(server.port).exchange(POST, 5)


async def test_an_answer_that_takes_too_long_is_lost_and_its_connection_is_not_used_again():
    calls = 0

    async def first_never(exchange: Exchange) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            exchange.reply()

    async with scripted(first_never) as server:
        pool = pool_to(server.port, size=1)
        with pytest.raises(AnswerLost, match=r"within 0\.1 s"):
            await pool.exchange(POST, 0.1)
        assert (await pool.exchange(POST, 60)).status == 200
        assert server.connections == 2


async def test_a_request_that_is_cancelled_frees_its_place():
    arrived = asyncio.Event()

    async def first_never(exchange: Exchange) -> None:
        if arrived.is_set():
            exchange.reply()
        arrived.set()

    async with scripted(first_never) as server:
        pool = pool_to(server.port, size=1)
        asking = asyncio.create_task(pool.exchange(POST, 5))
        await arrived.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await pool.exchange(POST, 5)).status == 200


async def test_a_connection_the_server_wants_closed_is_not_kept():
    async def last(exchange: Exchange) -> None:
        exchange.reply(200, {"n": exchange.connection}, {"Connection": "close"})

    async with scripted(last) as server:
        pool = pool_to(server.port)
        await pool.exchange(GET, 5)
        assert (await pool.exchange(GET, 5)).body == b'{"n": 2}'


async def test_a_stream_gives_whole_lines_however_they_are_cut():
    async def stream(exchange: Exchange) -> None:
        exchange.begin_stream()
        for piece in (b'{"a"', b': 1}\n{"b": 2}\n\n{"c', b'": 3}\n'):
            exchange.chunk(piece)
        exchange.end_stream()

    async with scripted(stream) as server, pool_to(server.port).stream(GET, 5) as opened:
        assert [line async for line in opened.lines()] == [b'{"a": 1}', b'{"b": 2}', b'{"c": 3}']


async def test_a_stream_that_breaks_off_gives_its_lines_and_then_the_loss():
    async def stream(exchange: Exchange) -> None:
        exchange.begin_stream()
        exchange.line({"a": 1})
        exchange.drop()

    async with scripted(stream) as server, pool_to(server.port).stream(GET, 5) as opened:
        received = opened.lines()
        assert await anext(received) == b'{"a": 1}'
        with pytest.raises(AnswerLost):
            await anext(received)


async def test_a_stream_that_is_refused_is_an_ordinary_answer():
    async def gone(exchange: Exchange) -> None:
        exchange.reply(410, {"code": 410})

    async with scripted(gone) as server, pool_to(server.port).stream(GET, 5) as opened:
        assert isinstance(opened, HttpResponse)
        assert opened.status == 410


class RecordingTransport(asyncio.Transport):
    """Writes down what is asked of the network."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.asked.append("pause")

    def resume_reading(self) -> None:
        self.asked.append("resume")


async def test_a_line_that_never_ends_ends_the_stream(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection_module, "LARGEST_ANSWER", 1000)

    async def endless(exchange: Exchange) -> None:
        exchange.begin_stream()
        exchange.line({"a": 1})
        exchange.chunk(b"x" * 2000)

    async with scripted(endless) as server, pool_to(server.port).stream(GET, 5) as opened:
        lines = opened.lines()
        assert await anext(lines) == b'{"a": 1}'
        with pytest.raises(AnswerLost, match="longer than 1000 bytes"):
            await anext(lines)


async def test_a_reader_that_falls_behind_makes_the_server_wait():
    transport, connection = RecordingTransport(), Connection(asyncio.get_running_loop())
    connection.connection_made(transport)
    opening = asyncio.create_task(connection.open_stream(GET, 5))
    await asyncio.sleep(0)
    connection.data_received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    lines = (await opening).lines()
    big = b"x" * (PAUSE_READING_AT // 2) + b"\n"
    for _ in range(3):
        connection.data_received(f"{len(big):x}\r\n".encode() + big + b"\r\n")
    assert transport.asked == ["pause"]
    for _ in range(3):
        await anext(lines)
    connection.data_received(b"0\r\n\r\n")
    assert [line async for line in lines] == []
    assert transport.asked == ["pause", "resume"]


async def answering(*pieces: bytes) -> HttpResponse:
    """What comes of an answer that arrives in these pieces."""
    connection = Connection(asyncio.get_running_loop())
    connection.connection_made(RecordingTransport())
    asked = asyncio.create_task(connection.exchange(GET, 5))
    await asyncio.sleep(0)
    for piece in pieces:
        connection.data_received(piece)
    return await asked


BUSY = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\nRetry-After:  7\r\nX-Other: 1\r\n\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([BUSY + b"{}"], id="at once"),
        pytest.param([BUSY[:50], BUSY[50:], b"{}"], id="in pieces, one ending within the head"),
        pytest.param([BUSY[:-2], BUSY[-2:] + b"{}"], id="in pieces, one ending within the end of the head"),
        pytest.param([b"HTTP/1.1 102 Processing\r\nRetry-After: 9\r\n\r\n" + BUSY + b"{}"], id="after a first word"),
        pytest.param([b"HTTP/1.1 102 Processing\r\n\r\n", BUSY, b"{}"], id="some time after a first word"),
    ],
)
async def test_a_header_is_found_however_the_answer_arrives(pieces):
    answer = await answering(*pieces)
    assert (answer.status, answer.header(b"retry-after"), answer.body) == (429, b"7", b"{}")
    assert answer.header(b"retry") == b""


async def test_a_head_that_never_ends_is_given_up():
    endless = b"HTTP/1.1 200 OK\r\n" + b"X-More: 1\r\n" * (LARGEST_HEAD // 10)
    with pytest.raises(AnswerLost, match="head"):
        await answering(endless)


async def test_an_exchange_may_have_less_time_than_the_one_before():
    silence = asyncio.Event()

    async def first_only(exchange: Exchange) -> None:
        if len(server.seen) > 1:
            await silence.wait()
        exchange.reply(200)

    async with scripted(first_only) as server:
        pool = pool_to(server.port)
        assert (await pool.exchange(GET, 60)).status == 200
        async with asyncio.timeout(30):
            with pytest.raises(AnswerLost, match=r"no answer within 0\.1 s"):
                await pool.exchange(GET, 0.1)
        silence.set()


class Hands:
    """A loop whose clock is turned by hand."""

    def __init__(self) -> None:
        self.now, self.set = 0.0, []

    def time(self) -> float:
        return self.now

    def create_future(self):
        return asyncio.get_running_loop().create_future()

    def call_later(self, delay, call):
        timer = asyncio.TimerHandle(self.now + delay, call, (), asyncio.get_running_loop())
        self.set.append(timer)
        return timer

    def turn_to(self, now: float) -> None:
        self.now = now
        due = [timer for timer in self.set if timer.when() <= now]
        self.set = [timer for timer in self.set if timer.when() > now]
        for timer in due:
            timer._callback()


async def test_the_time_of_an_exchange_is_not_that_of_the_one_before():
    hands, transport = Hands(), Mock(is_closing=lambda: False)
    connection = Connection(hands)
    connection.connection_made(transport)
    for start in (0.0, 50.0):
        hands.turn_to(start)
        asked = asyncio.create_task(connection.exchange(GET, 60))
        await asyncio.sleep(0)
        hands.turn_to(start + 59)  # the second has time left when that of the first is over
        connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        assert (await asked).status == 200
    hands.turn_to(1000)
    assert not hands.set
    assert not transport.abort.called
