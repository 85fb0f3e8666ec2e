"""The HTTP server: deadlines for each phase, limits for each peer and for all, and who is dropped for whom."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from headgate.live.certificates import ServerTls, made_for
from headgate.live.http_server import HttpReply, HttpRequest, Listen, ServerLimits, http_server

HERE = Listen("127.0.0.1", 0)
SOON = 0.05  # seconds
A_WHILE = 1.0  # seconds that a busy machine does not take between two turns of the event loop
LIMITS = ServerLimits(connections=6, per_peer=4, head=1000, body=1000, buffered=2500, idle_seconds=30.0)
ASK = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def post(length: int, body: bytes = b"") -> bytes:
    return f"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode() + body


async def echo(request: HttpRequest) -> HttpReply:
    return HttpReply(200, f"{request.method} {request.path} {len(request.body)}".encode())


class Clients:
    """Connections to one server, from any address of this host."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: list[Streams] = []

    async def connect(self, sent: bytes = b"", source: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Streams:
        streams = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(source, 0), ssl=tls)
        self._streams.append(streams)
        streams[1].write(sent)
        return streams

    def close(self) -> None:
        for _, writer in self._streams:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def served(limits: ServerLimits = LIMITS, handler=echo, tls=None) -> AsyncIterator[Clients]:
    async with http_server(HERE, handler, limits, "--listen", tls) as port:
        clients = Clients(port)
        yield clients
        clients.close()


async def answer(streams: Streams) -> bytes:
    """The next whole reply: its status line and its body."""
    reader, _ = streams
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")).split(b" ")[1]
    return head.split(b"\r\n")[0] + b" " + await reader.readexactly(int(length))


async def closed(streams: Streams) -> bytes:
    """What came until the server closed the connection."""
    try:
        return await streams[0].read()
    except ConnectionError:
        return b""


@pytest.mark.parametrize(
    "limits, sent",
    [
        pytest.param({"head_seconds": SOON}, b"", id="nothing at all"),
        pytest.param({"head_seconds": SOON}, b"GET /a HTTP/1.1\r\nHost:", id="half a head"),
        pytest.param({"body_seconds": SOON}, post(10, b"12345"), id="half a body"),
    ],
)
async def test_a_request_that_is_not_whole_in_time_ends_the_connection_however_often_bytes_come(limits, sent):
    async with served(replace(LIMITS, **limits)) as clients:
        streams = await clients.connect(sent)
        ending = asyncio.ensure_future(closed(streams))
        while not ending.done():  # one byte after another extends nothing
            if sent.startswith(b"GET"):
                streams[1].write(b"a")
            await asyncio.wait([ending], timeout=SOON / 10)
        assert ending.result() == b""


async def test_a_handshake_that_is_not_done_in_time_ends_the_connection(ca):
    async with served(replace(LIMITS, handshake_seconds=SOON), tls=ca.server()) as clients:
        assert await closed(await clients.connect()) == b""
        assert await closed(await clients.connect(b"\x16\x03\x01")) == b""


async def test_a_connection_on_which_nothing_more_is_asked_ends_after_a_while():
    async with served(replace(LIMITS, idle_seconds=SOON)) as clients:
        streams = await clients.connect(ASK)
        assert await answer(streams) == b"HTTP/1.1 200 OK GET /a 0"
        assert await closed(streams) == b""


async def test_an_answer_that_does_not_come_is_told_in_time():
    async def hang(_request: HttpRequest) -> HttpReply:
        await asyncio.Event().wait()
        raise AssertionError

    async with served(replace(LIMITS, answer_seconds=SOON), hang) as clients:
        said = await answer(await clients.connect(ASK))
    assert said == b"HTTP/1.1 503 Service Unavailable no answer within 0.05 seconds\n"


async def test_a_handler_that_raises_is_told_without_its_words():
    async def broken(_request: HttpRequest) -> HttpReply:
        raise ValueError("secret")

    async with served(handler=broken) as clients:
        said = await answer(await clients.connect(ASK))
    assert said == b"HTTP/1.1 500 Internal Server Error this request cannot be answered: ValueError\n"


def echo_at_once(request: HttpRequest) -> HttpReply:
    return HttpReply(200, f"{request.method} {request.path} {len(request.body)}".encode())


async def test_a_handler_may_answer_at_once():
    async with served(handler=echo_at_once) as clients:
        streams = await clients.connect()
        for _ in range(3):
            streams[1].write(post(5, b"12345"))
            assert await answer(streams) == b"HTTP/1.1 200 OK POST /a 5"


async def test_a_handler_that_raises_at_once_is_told_too():
    def fail(request: HttpRequest) -> HttpReply:
        raise ValueError(f"a secret of {request.path}")

    async with served(handler=fail) as clients:
        said = await answer(await clients.connect(ASK))
        assert said == b"HTTP/1.1 500 Internal Server Error this request cannot be answered: ValueError\n"


@pytest.mark.parametrize("handler", [echo, echo_at_once])
async def test_every_request_of_a_connection_has_the_same_time(handler):
    async with served(replace(LIMITS, head_seconds=A_WHILE), handler) as clients, asyncio.timeout(60):
        streams, began = await clients.connect(), time.monotonic()
        while time.monotonic() < began + 1.5 * A_WHILE:  # longer than one head may take
            streams[1].write(ASK)
            assert await answer(streams) == b"HTTP/1.1 200 OK GET /a 0"
        streams[1].write(ASK[:-2])
        assert await closed(streams) == b""


async def test_a_connection_is_used_again_and_again():
    async with served() as clients:
        streams = await clients.connect()
        for size in (0, 1000, 5):
            streams[1].write(post(size, b"x" * size))
            assert await answer(streams) == f"HTTP/1.1 200 OK POST /a {size}".encode()


@pytest.mark.parametrize(
    "sent, said",
    [
        pytest.param(
            post(1001), b"413 Request Entity Too Large expected at most 1000 bytes, got 1001", id="a huge body"
        ),
        pytest.param(
            b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"411 Length Required expected a Content-Length",
            id="a body of unknown size",
        ),
        pytest.param(
            b"GET /a HTTP/1.1\r\nA: " + b"a" * 2000,
            b"431 Request Header Fields Too Large expected at most 1000 bytes of headers",
            id="a huge head",
        ),
        pytest.param(b"\x00\x01\x02\r\n\r\n", b"400 Bad Request expected an HTTP/1.1 request", id="no HTTP"),
        pytest.param(
            b"POST /a HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
            b"400 Bad Request expected an HTTP/1.1 request",
            id="two lengths",
        ),
    ],
)
async def test_what_cannot_be_taken_is_told_and_ends_the_connection(sent, said):
    async with served() as clients:
        streams = await clients.connect(sent)
        assert (await answer(streams)).startswith(b"HTTP/1.1 " + said)
        assert await closed(streams) == b""


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(ASK * 50, id="requests"),
        pytest.param(ASK + b"garbage \x00" * 50, id="garbage"),
        pytest.param(
            ASK[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05hello", id="another protocol"
        ),
    ],
)
async def test_what_is_sent_before_the_reply_is_not_answered(sent):
    async with served() as clients:
        streams = await clients.connect(sent)
        assert await answer(streams) == b"HTTP/1.1 200 OK GET /a 0"
        assert await closed(streams) == b""


async def test_of_a_peer_at_its_limit_the_connection_that_waits_longest_is_dropped_for_a_new_one():
    async with served() as clients:
        idle = [await clients.connect() for _ in range(4)]
        assert await answer(await clients.connect(ASK)) == b"HTTP/1.1 200 OK GET /a 0"
        assert await closed(idle[0]) == b""
        idle[1][1].write(ASK)
        assert await answer(idle[1]) == b"HTTP/1.1 200 OK GET /a 0"


async def test_of_all_peers_the_one_with_most_connections_loses_one():
    async with served() as clients:
        modest = [await clients.connect(source="127.0.0.2") for _ in range(2)]
        greedy = [await clients.connect(source="127.0.0.1") for _ in range(4)]
        assert await answer(await clients.connect(ASK, source="127.0.0.3")) == b"HTTP/1.1 200 OK GET /a 0"
        assert await closed(greedy[0]) == b""
        for streams in (*modest, *greedy[1:]):
            streams[1].write(ASK)
            assert await answer(streams) == b"HTTP/1.1 200 OK GET /a 0"


async def test_a_request_that_is_being_answered_is_never_dropped_for_another():
    asked, going_on = asyncio.Semaphore(0), asyncio.Event()

    async def slow(request: HttpRequest) -> HttpReply:
        asked.release()
        await going_on.wait()
        return await echo(request)

    async with served(handler=slow) as clients:
        busy = []
        for _ in range(LIMITS.per_peer):
            idle = [await clients.connect() for _ in range(10)]
            busy.append(await clients.connect(ASK))
            await asked.acquire()
        assert [await closed(streams) for streams in idle[:-1]] == [b""] * 9
        assert await closed(await clients.connect(ASK)) == b""  # nobody can be dropped for it
        going_on.set()
        for streams in busy:
            assert await answer(streams) == b"HTTP/1.1 200 OK GET /a 0"


async def test_whoever_holds_the_most_bytes_of_bodies_gives_way():
    async with served() as clients:
        hoarding = [await clients.connect(post(1000, b"x" * 900)) for _ in range(2)]
        small = await clients.connect(post(800, b"x" * 799))
        small[1].write(b"x")
        assert await answer(small) == b"HTTP/1.1 200 OK POST /a 800"
        gone, _ = await asyncio.wait(
            [asyncio.ensure_future(closed(streams)) for streams in hoarding], return_when=asyncio.FIRST_COMPLETED
        )
        assert [one.result() for one in gone] == [b""]


async def test_whoever_asks_and_never_reads_is_dropped():
    async def much(_request: HttpRequest) -> HttpReply:
        return HttpReply(200, b"x" * 20_000_000)

    async with served(replace(LIMITS, drain_seconds=SOON, head_seconds=3 * SOON), much) as clients:
        asking = await clients.connect(ASK)
        await asking[0].readexactly(100)
        later = await clients.connect()
        await closed(later)  # its deadline is the later one
        assert len(await closed(asking)) < 19_000_000


async def test_a_server_that_ends_leaves_no_connection_and_no_task(ca):
    before = asyncio.all_tasks()
    async with http_server(HERE, echo, LIMITS, "--listen", ca.server()) as port:
        clients = Clients(port)
        silent = [await clients.connect() for _ in range(3)]
    for streams in silent:
        assert await closed(streams) == b""
    clients.close()
    assert asyncio.all_tasks() == before


async def test_a_request_says_who_sent_it():
    seen: list[HttpRequest] = []

    async def note(request: HttpRequest) -> HttpReply:
        seen.append(request)
        return HttpReply(200, b"")

    certificate, tls = made_for(["127.0.0.1"], time.time()), ServerTls()
    tls.show(certificate)
    trusting = ssl.create_default_context(cadata=certificate.authority.decode())
    async with served(handler=note, tls=tls.context) as clients:
        await answer(await clients.connect(ASK, source="127.0.0.2", tls=trusting))
    async with served(handler=note) as clients:
        await answer(await clients.connect(ASK.replace(b"/a", b"/b?c=d")))
    assert [(one.peer, one.tls, one.path, one.headers) for one in seen] == [
        ("127.0.0.2", True, "/a", {"host": "x"}),
        ("127.0.0.1", False, "/b", {"host": "x"}),
    ]
