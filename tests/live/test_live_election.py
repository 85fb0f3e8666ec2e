"""Leader election: one leader at a time, by everybody's own clock, whatever the server does."""

from __future__ import annotations

import asyncio
import copy

import pytest
from scripted_server import Exchange, ScriptedServer, scripted
from virtual_clock import VirtualClock

from headgate.live.client import Client
from headgate.live.election import Clocks, Election, LeaseSettings
from headgate.live.logs import Outages

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class LeaseServer:
    """Keeps one lease as an API server would: with versions that guard every change."""

    def __init__(self) -> None:
        self.lease: dict | None = None
        self.version = 0
        self.trouble: list[str] = []  # for the next requests: fail, drop, or lose the answer
        self.transitions: list[str] = []

    async def __call__(self, exchange: Exchange) -> None:
        trouble = self.trouble.pop(0) if self.trouble else ""
        if trouble == "fail":
            exchange.reply(500, {"message": "etcd is away"})
        elif trouble == "drop":
            exchange.drop()
        else:
            status, body = self._handle(exchange)
            exchange.drop() if trouble == "lose" else exchange.reply(status, body)

    def _handle(self, exchange: Exchange) -> tuple[int, dict]:
        match exchange.method, self.lease:
            case "GET", None:
                return 404, {"message": "not found"}
            case "GET", lease:
                return 200, lease
            case "POST", None:
                assert exchange.path == PATH
                return 201, self._store(exchange.json)
            case "PUT", dict() as lease if (
                exchange.json["metadata"]["resourceVersion"] == lease["metadata"]["resourceVersion"]
            ):
                return 200, self._store(exchange.json)
            case _:
                return 409, {"message": "conflict"}

    def _store(self, lease: dict) -> dict:
        self.version += 1
        holder = lease["spec"].get("holderIdentity", "")
        if self.lease is None or self.lease["spec"].get("holderIdentity", "") != holder:
            self.transitions.append(holder)
        self.lease = copy.deepcopy(lease)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return self.lease


class Candidate:
    """Runs for the lease on a clock of its own; `skew` is how wrong its wall clock is."""

    def __init__(self, name: str, server: ScriptedServer, log, skew: float = 0.0) -> None:
        self.clock = VirtualClock()
        client = Client(server.access(), self.clock, self.clock, self.clock.sleep)
        clocks = Clocks(self.clock, lambda: self.clock.now + skew, self.clock.sleep)
        self.election = Election(client, LeaseSettings("kube-system", name), clocks, Outages(log))

    def start(self, work) -> asyncio.Task:
        return asyncio.create_task(work)


@pytest.fixture
def leases() -> LeaseServer:
    return LeaseServer()


async def test_the_first_candidate_creates_the_lease_and_says_so_in_it(leases, log):
    async with scripted(leases) as server:
        first = Candidate("first", server, log)
        await first.election.acquire()
    spec = leases.lease["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("first", 15, 0)
    assert spec["acquireTime"] == spec["renewTime"]
    assert leases.lease["metadata"]["name"] == "headgate"


async def test_a_holder_that_renews_is_never_replaced_however_wrong_its_clock(leases, log):
    async with scripted(leases) as server:
        first, second = Candidate("first", server, log, skew=-100_000), Candidate("second", server, log)
        await first.election.acquire()
        holding, waiting = first.start(first.election.hold()), second.start(second.election.acquire())
        for _ in range(20):
            await first.clock.advance(2)
            await first.clock.until_sleeping()
            await second.clock.advance(2)
            await second.clock.until_sleeping()
        assert not holding.done()
        assert not waiting.done()
        assert leases.transitions == ["first"]
        holding.cancel()
        waiting.cancel()


async def test_a_lease_that_stands_still_is_taken_when_its_time_is_over(leases, log):
    async with scripted(leases) as server:
        first, second = Candidate("first", server, log), Candidate("second", server, log)
        await first.election.acquire()
        waiting = second.start(second.election.acquire())
        for _ in range(7):
            await second.clock.advance(2)
            await second.clock.until_sleeping()
        assert not waiting.done(), "fourteen seconds are not fifteen"
        await second.clock.advance(2)
        await waiting
        assert leases.transitions == ["first", "second"]
        assert leases.lease["spec"]["leaseTransitions"] == 1


async def test_a_released_lease_is_taken_at_the_next_look(leases, log):
    async with scripted(leases) as server:
        first, second = Candidate("first", server, log), Candidate("second", server, log)
        await first.election.acquire()
        waiting = second.start(second.election.acquire())
        await second.clock.until_sleeping()
        await first.election.release()
        await second.clock.advance(2)
        await waiting
        assert leases.transitions == ["first", "", "second"]


async def test_a_lease_renewed_without_an_answer_is_released_all_the_same(leases, log):
    async with scripted(leases) as server:
        first = Candidate("first", server, log)
        await first.election.acquire()
        holding = first.start(first.election.hold())
        await first.clock.until_sleeping()
        leases.trouble = ["", "lose"]  # of the renewal that is read and then written
        await first.clock.advance(2)
        await first.clock.until_sleeping()
        holding.cancel()
        assert leases.version == 2
        await first.election.release()
        assert leases.transitions == ["first", ""]


async def test_whoever_finds_the_lease_taken_over_stops_at_once(leases, log):
    async with scripted(leases) as server:
        first, second = Candidate("first", server, log), Candidate("second", server, log)
        await first.election.acquire()
        holding = first.start(first.election.hold())
        await first.clock.until_sleeping()
        leases.lease["spec"]["holderIdentity"] = ""
        await second.election.acquire()
        await first.clock.advance(2)
        await holding
        assert first.election.holder == "second"
        await first.election.release()
        assert leases.lease["spec"]["holderIdentity"] == "second", "nobody releases what is not his"


@pytest.mark.parametrize("trouble", ["fail", "drop"])
async def test_a_holder_that_cannot_renew_stops_before_others_may_start(leases, log, trouble):
    async with scripted(leases) as server:
        first = Candidate("first", server, log)
        await first.election.acquire()
        leases.trouble = [trouble] * 100
        began = first.clock.now
        holding = first.start(first.election.hold())
        while first.clock.now < began + 10:
            assert not holding.done()
            await first.clock.advance(2)
        await holding
        assert first.clock.now - began == 10
        assert len(log.lines) == 1, "told once"


async def test_a_short_outage_costs_nothing(leases, log):
    async with scripted(leases) as server:
        first = Candidate("first", server, log)
        await first.election.acquire()
        holding = first.start(first.election.hold())
        leases.trouble = ["drop", "fail", "lose", "lose"]
        for _ in range(10):
            await first.clock.advance(2)
        await first.clock.until_sleeping()
        assert not holding.done()
        assert leases.transitions == ["first"]
        assert [line.split(" ")[0] for line in log.lines] == ["WARNING", "WARNING", "INFO", "INFO"]
        holding.cancel()


async def test_a_lost_answer_to_taking_the_lease_is_found_out_by_looking(leases, log):
    async with scripted(leases) as server:
        first = Candidate("first", server, log)
        leases.trouble = ["", "lose"]
        acquiring = first.start(first.election.acquire())
        await first.clock.advance(2)
        await acquiring
        assert leases.transitions == ["first"]


async def test_of_two_that_are_equally_fast_one_wins(leases, log):
    async with scripted(leases) as server:
        both = [Candidate(name, server, log) for name in ("first", "second")]
        running = [candidate.start(candidate.election.acquire()) for candidate in both]
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        loser = both[0] if running[1].done() else both[1]
        await loser.clock.until_sleeping()
        assert sorted(task.done() for task in running) == [False, True]
        assert len(leases.transitions) == 1
        for task in running:
            task.cancel()


async def test_a_forbidden_lease_is_explained(leases, log):
    async def forbid(exchange: Exchange) -> None:
        exchange.reply(403, {"message": "leases is forbidden"})

    async with scripted(forbid) as server:
        first = Candidate("first", server, log)
        acquiring = first.start(first.election.acquire())
        await first.clock.until_sleeping()
        assert log.lines == [f"WARNING lease {PATH}/headgate: leases is forbidden (403); retrying"]
        acquiring.cancel()
