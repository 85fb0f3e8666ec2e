"""Two thousand hostile requests to the small Kubernetes; `make nightly` sends a hundred thousand."""

import asyncio
import resource
from collections import Counter

import pytest
from hostile_requests import DAY, SOMEBODY, START, a_day, hostile_server

from headgate.apiserver.server import ApiServer
from headgate.live.api_front import LIMITS, ApiFront
from headgate.live.http_server import Listen, http_server

DAYS = 40
GROWTH = 64 * 1024  # KiB that a process may grow meanwhile
PATIENCE = 60.0  # seconds


async def test_hostile_requests_are_answered_and_memory_stays_as_it_is():
    front, statuses = ApiFront(hostile_server(), lambda _: SOMEBODY, lambda: START), Counter()
    for day in range(DAYS):
        statuses += await a_day(day, front)
        if day == DAYS // 4:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(statuses.values()) == DAYS * DAY
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GROWTH
    accepted = statuses[200] + statuses[201]
    assert accepted > DAYS * DAY / 20, "else nothing behind the first glance would be tried"


GET = b"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", id="TLS where none is served"),
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", id="another HTTP"),
        pytest.param(b"\x00" * 1000, id="nothing"),
        pytest.param(GET + b"X: " + b"y" * 70_000 + b"\r\n\r\n", id="headers without end"),
        pytest.param(POST + b"Content-Length: 99999999999\r\n\r\n", id="a body of terabytes"),
        pytest.param(POST + b"Content-Length: 3145729\r\n\r\n", id="a body that is a byte too long"),
        pytest.param(POST + b"Content-Length: -1\r\n\r\n", id="a negative body"),
        pytest.param(POST + b"Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}", id="two lengths"),
        pytest.param(POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", id="a smuggled body"),
        pytest.param(GET + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n", id="an upgrade"),
        pytest.param(b"GET /api/v1/pods?\xff\xfe=\x80 HTTP/1.1\r\nHost: x\r\n\r\n", id="a query that is no text"),
        pytest.param(GET + b"Accept: " + b";as=" * 5000 + b"\r\n\r\n", id="thousands of forms"),
        pytest.param((GET + b"\r\n") * 50, id="fifty requests at once"),
    ],
)
async def test_what_is_no_request_gets_an_answer_or_an_end_and_others_are_served(sent):
    front = ApiFront(ApiServer(), lambda _: SOMEBODY, lambda: START)
    async with http_server(Listen("127.0.0.1", 0), front, LIMITS, "--port") as port, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        assert not answer or answer.startswith(b"HTTP/1.1 ")
        assert b" 500 " not in answer.partition(b"\r\n")[0]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET + b"Connection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()
