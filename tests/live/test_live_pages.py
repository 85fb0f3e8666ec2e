"""Health pages, metrics and log lines."""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import json

import pytest
from builders import node, pod
from page_server import HERE, pages_served

from headgate.engine.journal import Entry
from headgate.engine.scheduler.plugins import plugins_for
from headgate.live.health import LIMITS, Readiness, everybody, page_handler
from headgate.live.http_server import CannotListen, Listen, http_server
from headgate.live.logs import Log, LogLevel, json_line, text_line
from headgate.live.metrics import Metrics, seconds_of_attempts
from headgate.live.plugin_calls import Stopwatch
from headgate.model.effects import Bind
from headgate.model.events import WriteError
from headgate.model.keys import Key, Kind, Target
from headgate.model.settings import Profile
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import Placer
from headgate.placement.table import NodeTable

POD = Key(Kind.POD, "default", "a")
BOUND = Entry(1.0, POD, "bind", "Scheduled", "assigned default/a to n-1", {"node": "n-1"})
REFUSED = Entry(2.0, POD, "wait", "Unschedulable", "0/3 nodes", {"nodes": 3, "Insufficient cpu": 3, "reason": "x"})


async def ask(port: int, request: str) -> tuple[str, dict[str, str], str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{request}\r\nHost: x\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    status, *headers = head.split("\r\n")
    return status.removeprefix("HTTP/1.1 "), dict(header.split(": ", 1) for header in headers), body


@pytest.mark.parametrize(
    "request_line, ready, status, body",
    [
        pytest.param("GET /healthz HTTP/1.1", False, "200 OK", "ok\n", id="alive"),
        pytest.param("GET /livez?verbose HTTP/1.1", False, "200 OK", "ok\n", id="alive, with a query"),
        pytest.param("GET /readyz HTTP/1.1", True, "200 OK", "ok\n", id="ready"),
        pytest.param("HEAD /readyz HTTP/1.1", True, "200 OK", "", id="ready, without a body"),
        pytest.param(
            "GET /readyz HTTP/1.1",
            False,
            "503 Service Unavailable",
            "the cluster has not been read yet\n",
            id="not ready before the first batch",
        ),
        pytest.param(
            "GET / HTTP/1.1",
            True,
            "404 Not Found",
            "try /healthz, /livez, /readyz, /metrics, /preemptions\n",
            id="elsewhere",
        ),
        pytest.param("POST /readyz HTTP/1.1", True, "405 Method Not Allowed", "only GET and HEAD\n", id="writing"),
        pytest.param(
            "nonsense",
            True,
            "400 Bad Request",
            "expected an HTTP/1.1 request: Invalid method encountered\n",
            id="no HTTP at all",
        ),
    ],
)
async def test_pages(request_line, ready, status, body):
    readiness = Readiness()
    readiness.check = lambda: ready
    async with pages_served(readiness, lambda: b"") as port:
        shown, _, text = await ask(port, request_line)
    assert (shown, text) == (status, body)


async def test_whoever_sends_too_much_loses_the_connection_and_nobody_else():
    async with pages_served(Readiness(), lambda: b"") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nA: " + b"a" * 100_000)
        with contextlib.suppress(ConnectionError):
            assert (await reader.read()).startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        writer.close()
        assert (await ask(port, "GET /healthz HTTP/1.1"))[0] == "200 OK"


async def test_a_busy_port_says_which_flag_changes_it():
    handler = page_handler({}, {}, everybody)
    async with http_server(HERE, handler, LIMITS, "--listen") as port:
        with pytest.raises(CannotListen, match=f"127.0.0.1:{port} is in use; choose another with --listen"):
            async with http_server(Listen("127.0.0.1", port), handler, LIMITS, "--listen"):
                pass


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", None),
        ("127.0.0.1:80", Listen("127.0.0.1", 80)),
        (":80", Listen("0.0.0.0", 80)),
        ("[::1]:80", Listen("::1", 80)),
    ],
)
def test_where_to_listen(text, expected):
    assert Listen.parse(text) == expected


@pytest.mark.parametrize("text", ["80", "host:", "host:http", "host:70000"])
def test_nowhere_to_listen(text):
    with pytest.raises(ValueError, match="expected HOST:PORT such as"):
        Listen.parse(text)


def plugin_seconds(point: str, plugin: str, status: str, seconds: float) -> str:
    labels = f'{{extension_point="{point}",plugin="{plugin}",status="{status}"}}'
    return f"scheduler_plugin_execution_duration_seconds_sum{labels} {seconds}"


async def test_metrics_tell_the_journal_the_effects_and_the_engine():
    metrics = Metrics("headgate")
    metrics.stepped(3, 0.002)
    metrics.told([BOUND, REFUSED, BOUND], 0.001)
    metrics.performed(Bind(Target(POD, "u"), "n"), None, 0.25)
    metrics.performed(Bind(Target(POD, "u"), "n"), WriteError.CONFLICT, 0.5)
    metrics.restarted(Kind.NODE)
    metrics.event_dropped()
    attempts = ("scheduler_schedule_attempts_total", (("profile", "headgate"), ("result", "scheduled")))
    metrics.start_leading(lambda: {("scheduler_pending_pods", (("queue", "active"),)): 4.0, attempts: 2.0})
    async with pages_served(Readiness(), metrics.render) as port:
        _, headers, text = await ask(port, "GET /metrics HTTP/1.1")
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = text.splitlines()
    for line in (
        'scheduler_schedule_attempts_total{profile="headgate",result="scheduled"} 2.0',
        'scheduler_pending_pods{queue="active"} 4.0',
        'headgate_decisions_total{decision="bind",reason="Scheduled"} 2.0',
        "headgate_step_duration_seconds_count 1.0",
        "headgate_batch_size_sum 3.0",
        'headgate_effects_total{effect="Bind",outcome="accepted"} 1.0',
        'headgate_effects_total{effect="Bind",outcome="conflict"} 1.0',
        plugin_seconds("Bind", "DefaultBinder", "Success", 0.25),
        plugin_seconds("Bind", "DefaultBinder", "Error", 0.5),
        'headgate_watch_restarts_total{kind="nodes"} 1.0',
        "headgate_events_dropped_total 1.0",
        "headgate_leader 1.0",
    ):
        assert line in lines
    metrics.stop_leading()
    assert b"headgate_leader 0.0" in metrics.render()
    assert b"scheduler_pending_pods" not in metrics.render()


def bound(at: float, **numbers: int | str) -> Entry:
    return Entry(at, POD, "bind", "Scheduled", "", {"node": "n-1", **numbers})


async def test_metrics_tell_how_long_and_how_often_pods_were_tried():
    metrics = Metrics("")
    entries = [
        bound(5.0, profile="p", attempts=1, queued_ms=0),
        bound(5.0, profile="p", attempts=3, queued_ms=4000),
        bound(5.0, profile="q", attempts=99, queued_ms=60_000),
    ]
    metrics.told([*entries, REFUSED], seconds_of_attempts([*entries, REFUSED], 0.009))
    async with pages_served(Readiness(), metrics.render) as port:
        lines = (await ask(port, "GET /metrics HTTP/1.1"))[2].splitlines()
    for line in (
        'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="1"} 0.0',
        'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="3"} 4.0',
        'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="15+"} 60.0',
        "scheduler_pod_scheduling_attempts_sum 103.0",
        "scheduler_pod_scheduling_attempts_count 3.0",
        'scheduler_scheduling_attempt_duration_seconds_sum{profile="p",result="scheduled"} 0.0045',
    ):
        assert line in lines


async def test_metrics_tell_how_long_placement_rules_take():
    metrics, seconds = Metrics(""), itertools.count()
    nodes = NodeTable()
    nodes.put(node("n-1"))
    plugins = plugins_for(Profile(), Neighbours(nodes), watch=Stopwatch(metrics.asked, lambda: float(next(seconds))))
    placer = Placer(plugins.rules)
    for candidate in (pod("small"), pod("large", cpu=9999)):
        placer.place(candidate)
    plugins.reserve[0].reserve(pod("small"), "n-1")
    async with pages_served(Readiness(), metrics.render) as port:
        lines = (await ask(port, "GET /metrics HTTP/1.1"))[2].splitlines()
    for plugin, point in (
        ("NodeUnschedulable", "Filter"),
        ("NodeResourcesFit", "Filter"),
        ("NodeResourcesFit", "Score"),
        ("NodeRoom", "Reserve"),
    ):
        assert plugin_seconds(point, plugin, "Success", 1.0) in lines


def test_what_the_engine_counts_is_a_counter_and_what_it_measures_a_gauge():
    metrics = Metrics("")
    incoming = ("scheduler_queue_incoming_pods_total", (("event", "PodAdd"), ("queue", "active")))
    parked = ("scheduler_unschedulable_pods", (("plugin", "NodePorts"), ("profile", "headgate")))
    metrics.start_leading(lambda: {incoming: 7.0, parked: 2.0})
    lines = metrics.render().decode().splitlines()
    assert "# TYPE scheduler_queue_incoming_pods_total counter" in lines
    assert 'scheduler_queue_incoming_pods_total{event="PodAdd",queue="active"} 7.0' in lines
    assert "# TYPE scheduler_unschedulable_pods gauge" in lines
    assert 'scheduler_unschedulable_pods{plugin="NodePorts",profile="headgate"} 2.0' in lines


def written(line, level: LogLevel, *entries: Entry) -> list[str]:
    out = io.StringIO()
    log = Log(out, line, level, lambda: 0.0)
    log.entries(entries)
    log.info("small")
    log.warning("odd", path="a b")
    return out.getvalue().splitlines()


def test_log_lines_for_people():
    assert written(text_line, LogLevel.INFO, BOUND) == [
        "1970-01-01T00:00:01.000000Z INFO    bind object=pods/default/a reason=Scheduled"
        ' detail="assigned default/a to n-1" node=n-1',
        "1970-01-01T00:00:00.000000Z INFO    small",
        '1970-01-01T00:00:00.000000Z WARNING odd path="a b"',
    ]


def test_log_lines_for_machines():
    assert [json.loads(line) for line in written(json_line, LogLevel.DEBUG, REFUSED)] == [
        {
            "time": "1970-01-01T00:00:02.000000Z",
            "level": "info",
            "message": "wait",
            "object": "pods/default/a",
            "reason": "Unschedulable",
            "detail": "0/3 nodes",
            "nodes": 3,
            "Insufficient cpu": 3,
        },
        {"time": "1970-01-01T00:00:00.000000Z", "level": "info", "message": "small"},
        {"time": "1970-01-01T00:00:00.000000Z", "level": "warning", "message": "odd", "path": "a b"},
    ]


def test_a_level_hides_what_is_below_it():
    assert [line.split()[1] for line in written(text_line, LogLevel.WARNING, BOUND)] == ["WARNING"]
