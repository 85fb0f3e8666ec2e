"""Following one kind: every change once, whatever the server and the network do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from scripted_server import Exchange, ScriptedServer, scripted
from virtual_clock import ImpatientClock

from headgate.live.client import Client
from headgate.live.logs import Log, Outages
from headgate.live.reflector import UNSERVED_SECONDS, JitteredBackoff, Reflector, ReflectorDependencies
from headgate.model.events import Gone, Observed, Unreadable
from headgate.model.keys import Kind


def namespace(name: str, version: int, uid: str = "", **fields: object) -> dict:
    return {"metadata": {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}, **fields}


def page(version: int, *items: dict, after: str = "") -> dict:
    return {"kind": "NamespaceList", "metadata": {"resourceVersion": str(version), "continue": after}, "items": items}


def news(kind: str, thing: dict) -> dict:
    return {"type": kind, "object": thing}


def bookmark(version: int) -> dict:
    return news("BOOKMARK", {"kind": "Namespace", "metadata": {"resourceVersion": str(version)}})


EXPIRED = news("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})


class Script:
    """The server's part: one entry for each request, in order. After the last one the server stays silent."""

    def __init__(self, *answers: Callable[[Exchange], None]) -> None:
        self._answers = list(answers)
        self.over = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        if self._answers:
            self._answers.pop(0)(exchange)
        else:
            self.over.set()


def lists(*answer: dict) -> Callable[[Exchange], None]:
    return lambda exchange: exchange.reply(200, answer[0])


def refuses(status: int, message: str = "no") -> Callable[[Exchange], None]:
    return lambda exchange: exchange.reply(status, {"kind": "Status", "code": status, "message": message})


def watches(*lines: dict, breaks: bool = False) -> Callable[[Exchange], None]:
    """A watch with these lines; then it ends, or breaks off."""

    def answer(exchange: Exchange) -> None:
        exchange.begin_stream()
        for line in lines:
            exchange.line(line)
        exchange.drop() if breaks else exchange.end_stream()

    return answer


def drops(exchange: Exchange) -> None:
    exchange.drop()


class Follower:
    def __init__(self, server: ScriptedServer, log: Log, kind: Kind) -> None:
        self.server, self.clock = server, ImpatientClock()
        self.events: list[str] = []
        self.listed: list[Kind] = []
        self.restarts: list[Kind] = []
        client = Client(server.access(), self.clock, self.clock, self.clock.sleep)
        outages = Outages(log)
        around = ReflectorDependencies(client, outages, log, self.clock.sleep, lambda: 0.5, self.restarts.append)
        self.reflector = Reflector(kind, around, self._note, self.listed.append)

    def _note(self, event: Observed | Gone | Unreadable, _raw: object) -> None:
        match event:
            case Unreadable(key, _, version, why):
                self.events.append(f"?{key.name}@{version} {why.split(':')[0]}")
            case Gone(key, uid):
                self.events.append(f"-{key.name}/{uid}")
            case Observed(thing):
                self.events.append(f"+{thing.key.name}@{thing.version}")

    @property
    def watched_from(self) -> list[str]:
        return [exchange.query["resourceVersion"] for exchange in self.server.seen if "watch" in exchange.query]


@asynccontextmanager
async def following(
    log: Log, *answers: Callable[[Exchange], None], kind: Kind = Kind.NAMESPACE
) -> AsyncIterator[Follower]:
    """A reflector that has gone through the whole script."""
    script = Script(*answers)
    async with scripted(script) as server:
        follower = Follower(server, log, kind)
        running = asyncio.create_task(follower.reflector.run())
        over = asyncio.create_task(script.over.wait())
        await asyncio.wait((running, over), return_when=asyncio.FIRST_COMPLETED)
        assert not running.done(), running.exception()
        yield follower
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_list_comes_in_pages_and_counts_when_it_is_whole(log):
    first, second = page(7, namespace("a", 1), after="more"), page(7, namespace("b", 2))
    async with following(log, lists(first), lists(second)) as follower:
        assert follower.events == ["+a@1", "+b@2"]
        assert follower.listed == [Kind.NAMESPACE]
        assert [(e.query.get("limit"), e.query.get("continue")) for e in follower.server.seen[:2]] == [
            ("500", None),
            ("500", "more"),
        ]
        assert follower.watched_from == ["7"]


async def test_changes_arrive_as_observations_and_absences(log):
    watch = watches(
        news("ADDED", namespace("b", 8)), news("MODIFIED", namespace("a", 9)), news("DELETED", namespace("b", 10))
    )
    async with following(log, lists(page(7, namespace("a", 1))), watch) as follower:
        assert follower.events == ["+a@1", "+b@8", "+a@9", "-b/uid-b"]


@pytest.mark.parametrize("breaks", [pytest.param(False, id="ended"), pytest.param(True, id="broke off")])
async def test_a_watch_goes_on_where_the_last_one(log, breaks: bool):
    first = watches(news("ADDED", namespace("a", 8)), bookmark(20), breaks=breaks)
    second = watches(news("MODIFIED", namespace("a", 21)))
    async with following(log, lists(page(7)), first, second) as follower:
        assert follower.watched_from == ["7", "20", "21"]
        assert follower.events == ["+a@8", "+a@21"]
        assert follower.listed == [Kind.NAMESPACE], "nothing is listed again"
        assert len(follower.restarts) == 2


@pytest.mark.parametrize(
    "expiry",
    [
        pytest.param(refuses(410, "gone"), id="when asking to watch"),
        pytest.param(watches(EXPIRED), id="in the middle of a watch"),
    ],
)
async def test_lost_history_is_made_good_by_a_list_that_reports_only_differences(log, expiry):
    before = page(7, namespace("same", 1), namespace("changed", 2), namespace("gone", 3), namespace("reborn", 4))
    after = page(
        50, namespace("same", 1), namespace("changed", 30), namespace("new", 31), namespace("reborn", 32, "u2")
    )
    async with following(log, lists(before), expiry, lists(after)) as follower:
        del follower.events[:4]
        assert follower.events == ["+changed@30", "+new@31", "-reborn/uid-reborn", "+reborn@32", "-gone/uid-gone"]
        assert follower.watched_from[-1] == "50"


async def test_a_list_whose_continuation_expired_starts_over(log):
    first = page(7, namespace("a", 1), after="more")
    async with following(log, lists(first), refuses(410), lists(page(9, namespace("a", 1)))) as follower:
        assert follower.events == ["+a@1"]
        assert follower.watched_from == ["9"]


async def test_the_same_key_with_another_uid_is_another_object(log):
    watch = watches(news("MODIFIED", namespace("a", 8, "u2")))
    async with following(log, lists(page(7, namespace("a", 1, "u1"))), watch) as follower:
        assert follower.events == ["+a@1", "-a/u1", "+a@8"]


async def test_an_outage_is_told_once_and_so_is_its_end(log):
    outage = [drops, drops, drops]
    async with following(log, *outage, lists(page(7)), *outage, watches(bookmark(8))) as follower:
        told = [line for line in log.lines if "API server" in line]
        address = follower.server.port
        assert len(told) == 4
        assert told[0].startswith(f"WARNING API server http://127.0.0.1:{address}: the server closed the connection")
        assert told[1] == f"INFO    API server http://127.0.0.1:{address}: recovered"
        assert follower.clock.pauses[:3] == [0.8, 1.6, 3.2]
        assert follower.clock.pauses[3:6] == [0.8, 1.6, 3.2], "success starts the pauses over"


async def test_a_watch_that_breaks_off_is_no_outage_while_the_next_one_opens(log):
    broken = watches(news("ADDED", namespace("a", 8)), breaks=True)
    async with following(log, lists(page(7)), broken, broken, watches(bookmark(9))) as follower:
        assert log.lines == []
        assert follower.clock.pauses == [0.8, 0.8], "but it is not opened again at once"


def test_of_many_who_suffer_the_first_and_the_last_are_heard(log):
    outages = Outages(log)
    outages.failing("server", "pods", "refused")
    outages.failing("server", "nodes", "refused")
    outages.failing("disk", "pods", "full")
    outages.recovered("pods")
    outages.dropped("nodes")
    outages.recovered("nodes")
    assert [line.split(" ", 1)[1].strip() for line in log.lines] == [
        "server: refused; retrying",
        "disk: full; retrying",
        "disk: recovered",
    ]


async def test_a_refusal_names_the_kind_and_what_the_server_said(log):
    async with following(log, refuses(403, "namespaces is forbidden"), refuses(403), lists(page(7))):
        assert log.lines == [
            "WARNING reading namespaces: namespaces is forbidden (403); retrying",
            "INFO    reading namespaces: recovered",
        ]


async def test_a_watch_that_opens_only_to_bring_an_error_is_told_once_and_tried_less_and_less_often(log):
    troubled = watches(news("ERROR", {"kind": "Status", "code": 500, "message": "etcd is ill"}))
    well = watches(news("ADDED", namespace("b", 8)))
    async with following(log, lists(page(7)), troubled, troubled, troubled, well) as follower:
        assert follower.events == ["+b@8"]
        assert follower.clock.pauses == [0.8, 1.6, 3.2]
    assert log.lines == [
        "WARNING reading namespaces: etcd is ill (500); retrying",
        "INFO    reading namespaces: recovered",
    ]


async def test_a_watch_that_tells_nothing_is_not_opened_again_at_once(log):
    async with following(log, lists(page(7)), watches(), watches()) as follower:
        assert follower.clock.pauses == [0.8, 0.8]
        assert log.lines == []


async def test_an_object_that_cannot_be_read_is_reported_as_such_and_told_once(log):
    bad = namespace("bad", 2)
    bad["metadata"]["labels"] = 7
    watch = watches(news("MODIFIED", bad), news("DELETED", bad), news("ADDED", namespace("c", 9)))
    async with following(log, lists(page(7, namespace("a", 1), bad)), watch) as follower:
        assert follower.events == ["+a@1", "?bad@2 $.metadata.labels", "-bad/uid-bad", "+c@9"]
        assert len(log.lines) == 1
        assert "quarantined, because it cannot be decoded: namespaces/bad: $.metadata.labels" in log.lines[0]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda exchange: exchange.reply(200, ["no", "list"]), id="a list of another shape"),
        pytest.param(lambda exchange: exchange.reply(200, {"items": []}), id="a list without a version"),
    ],
)
async def test_an_answer_of_no_use_is_an_outage_like_any_other(log, answer):
    async with following(log, answer, lists(page(7, namespace("a", 1)))) as follower:
        assert follower.events == ["+a@1"]
        assert len(log.lines) == 2


async def test_a_watch_line_of_no_use_makes_the_watch_start_again(log):
    def nonsense(exchange: Exchange) -> None:
        exchange.begin_stream()
        exchange.chunk(b"<html>\n")

    async with following(log, lists(page(7)), nonsense, watches(news("ADDED", namespace("a", 8)))) as follower:
        assert follower.events == ["+a@8"]
        assert follower.watched_from == ["7", "7", "8"]


def test_pauses_double_up_to_half_a_minute_and_differ_between_clients():
    early, late = JitteredBackoff(lambda: 0.0), JitteredBackoff(lambda: 0.99)
    nominal = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    assert [early.pause() for _ in nominal] == pytest.approx([seconds * 0.5 for seconds in nominal])
    assert [late.pause() for _ in nominal] == pytest.approx([seconds * 1.49 for seconds in nominal])


async def test_a_kind_that_not_every_server_serves_counts_as_listed_and_is_asked_for_again_after_a_while(log):
    answers = (refuses(404), refuses(404), lists(page(7, namespace("a", 1))))
    async with following(log, *answers, kind=Kind.DEVICE_CLAIM) as follower:
        assert follower.listed == [Kind.DEVICE_CLAIM] * 3
        assert follower.events == ["+a@1"]
        assert follower.clock.pauses[:2] == [UNSERVED_SECONDS, UNSERVED_SECONDS]


async def test_objects_of_a_kind_that_is_served_no_more_are_gone(log):
    answers = (lists(page(7, namespace("a", 1))), refuses(404), refuses(404))
    async with following(log, *answers, kind=Kind.DEVICE_CLAIM) as follower:
        assert follower.events == ["+a@1", "-a/uid-a"]


NEWER, OLDER = (f"/apis/scheduling.k8s.io/{version}/podgroups" for version in ("v1beta1", "v1alpha2"))


def group(name: str, version: int) -> dict:
    return namespace(name, version, spec={"schedulingPolicy": {"basic": {}}})


async def test_a_kind_that_is_not_served_in_its_newest_version_is_read_in_an_older_one(log):
    answers = (refuses(404), lists(page(7, group("a", 1))), watches(news("ADDED", group("b", 8))))
    async with following(log, *answers, kind=Kind.POD_GROUP) as follower:
        assert [exchange.path for exchange in follower.server.seen] == [NEWER, OLDER, OLDER, OLDER]
        assert (follower.events, follower.listed) == (["+a@1", "+b@8"], [Kind.POD_GROUP])


async def test_objects_stay_when_the_server_turns_from_an_older_version_to_the_newest(log):
    answers = (refuses(404), lists(page(7, group("a", 1))), refuses(404), lists(page(9, group("a", 1))))
    async with following(log, *answers, kind=Kind.POD_GROUP) as follower:
        assert [exchange.path for exchange in follower.server.seen] == [NEWER, OLDER, OLDER, NEWER, NEWER]
        assert follower.events == ["+a@1"]


async def test_a_kind_has_no_objects_once_it_is_served_in_no_version(log):
    answers = (lists(page(7, group("a", 1))), refuses(404), refuses(404), refuses(404), refuses(404))
    async with following(log, *answers, kind=Kind.POD_GROUP) as follower:
        assert [exchange.path for exchange in follower.server.seen] == [NEWER, NEWER, OLDER, NEWER, OLDER, NEWER]
        assert follower.events == ["+a@1", "-a/uid-a"]
        assert follower.clock.pauses == [UNSERVED_SECONDS, UNSERVED_SECONDS]


async def test_a_kind_that_every_server_serves_is_waited_for(log):
    async with following(log, refuses(404), lists(page(7))) as follower:
        assert follower.listed == [Kind.NAMESPACE]
        assert UNSERVED_SECONDS not in follower.clock.pauses
