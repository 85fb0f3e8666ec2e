"""Informative writes: the latest value, as much of them as the server has capacity for, none lost."""

from __future__ import annotations

import asyncio
import math
import random

import pytest
from fleet_scenes import FLAVORS
from integration_scenes import CLUSTER_QUEUES, LOCAL_QUEUES, cluster_queue, flavor, local_queue
from msgspec import structs
from served_cluster import WORKLOADS, served
from test_live_fleet import plan_for
from test_live_performer import Server, bind, counts, event, note, performing, target
from test_live_service import process
from virtual_clock import VirtualClock

from headgate.engine.in_flight import AwaitedPermits
from headgate.live.connection import DEFAULT_SIZE
from headgate.live.informing import LONGEST_REST, MOST, WAITED_FOR, InformWindow, WaitingNotes
from headgate.live.performer import CONCURRENCY
from headgate.model.effects import ClusterQueueDebt, Nomination, PatchStatus, PodCondition, WorkloadStatus
from headgate.model.events import WritePermits
from headgate.model.queues import QueuedWorkloadStatus
from headgate.model.settings import InformWithin, Role

WITHIN = InformWithin(5.0, 60.0)
QUICK, LONG = 0.01, 0.5  # seconds a server takes


def window(*seconds: float) -> InformWindow:
    made = InformWindow(WITHIN)
    for one in seconds:
        made.answered(one)
    return made


@pytest.mark.parametrize(
    "answers, size, is_saturated",
    [
        pytest.param([], MOST, False, id="of a server that was never asked nothing bad is thought"),
        pytest.param([QUICK] * 50, MOST, False, id="an idle server"),
        pytest.param([QUICK] * 50 + [LONG] * 50, 1, True, id="a server that takes much longer than at best"),
        pytest.param([QUICK] * 50 + [LONG], MOST, False, id="one slow answer is no load"),
        pytest.param([LONG] * 200, MOST, False, id="a server that is far away and not busy"),
        pytest.param([QUICK] * 50 + [LONG] * 50 + [QUICK] * 200, MOST, False, id="a server that is idle again"),
        pytest.param([0.001] * 50 + [0.04] * 50, MOST, False, id="forty times as long is nothing where it is short"),
        pytest.param([QUICK] * 50 + [LONG] * 3000, 1, True, id="a load that lasts is still a load"),
    ],
)
def test_how_many_may_be_under_way(answers, size, is_saturated):
    made = window(*answers)
    assert (made.size, made.is_saturated) == (size, is_saturated)


@pytest.mark.parametrize(
    "answers, took, age, rest",
    [
        pytest.param([QUICK] * 50, LONG, 61.0, 0.0, id="none while the server has capacity"),
        pytest.param([QUICK] * 50 + [LONG] * 50, LONG, 0.0, LONGEST_REST, id="a second while it is saturated"),
        pytest.param([QUICK] * 50 + [LONG] * 50, LONG, 61.0, LONGEST_REST / 2, id="half of that for what is overdue"),
        pytest.param([QUICK] * 50 + [LONG] * 50, QUICK, 0.0, 0.09, id="less after a quick answer, as it may be idle"),
    ],
)
def test_how_long_the_server_is_left_alone_after_an_informative_write(answers, took, age, rest):
    assert window(*answers).rest(took, age) == pytest.approx(rest)


BUSY_SECONDS, DECISIONS = 100, 75  # of load; decisive writes a second


@pytest.mark.parametrize(
    "mean, spread, most",
    [
        pytest.param(0.06, 0.6, 3, id="somewhat slower than what is slow"),
        pytest.param(0.06, 1.0, 4, id="the same, some of them much slower, most of them quicker"),
        pytest.param(0.05, 0.6, 4, id="as slow as what is slow"),
        pytest.param(0.15, 1.0, 2, id="much slower"),
    ],
)
def test_a_busy_server_that_has_its_good_moments_gets_a_trickle(mean, spread, most):
    """Where its answers waver around what is slow, no good moment opens the window for long."""
    chance, made = random.Random(1), window(*[QUICK] * 100)
    informative, free_at = 0, [0.0] * MOST
    for number in range(BUSY_SECONDS * DECISIONS):
        now = number / DECISIONS
        made.answered(_takes(chance, mean, spread))
        for place in range(made.size):
            if free_at[place] <= now:
                took = _takes(chance, mean, spread)
                made.answered(took)
                free_at[place] = now + took + made.rest(took, 0.0)
                informative += 1
    assert informative / BUSY_SECONDS <= most


def _takes(chance: random.Random, mean: float, spread: float) -> float:
    return chance.lognormvariate(math.log(mean) - spread**2 / 2, spread)


def test_an_idle_server_is_known_again_by_a_few_seconds_of_informative_writes():
    made, seconds = window(*[QUICK] * 50, *[LONG] * 500), 0.0
    while made.size < MOST:
        made.answered(QUICK)
        seconds += (QUICK + made.rest(QUICK, 0.0)) / made.size
    assert seconds < WITHIN.idle


@pytest.mark.parametrize(
    "change, informs",
    [
        pytest.param(PodCondition("PodScheduled", "False", "Unschedulable", "", 0.0), True, id="why a pod waits"),
        pytest.param(PodCondition("DisruptionTarget", "True", "Preempted", "", 0.0), False, id="a mark on a victim"),
        pytest.param(Nomination("n"), False, id="a nomination, which keeps autoscalers from buying"),
        pytest.param(ClusterQueueDebt(), True, id="a debt"),
        pytest.param(QueuedWorkloadStatus(), False, id="an admission"),
        pytest.param(WorkloadStatus(1, 1), False, id="what a class was worth, which decides"),
    ],
)
def test_which_changes_of_status_only_inform(change, informs):
    assert PatchStatus(target("a"), change).informs is informs


def test_a_permitted_write_informs():
    assert PatchStatus(target("a"), QueuedWorkloadStatus(), permitted=True).informs


class Counting:
    def __init__(self) -> None:
        self.dropped = self.merged = 0
        self.notes = WaitingNotes(60.0, self._drop, self._merge)

    def _drop(self) -> None:
        self.dropped += 1

    def _merge(self) -> None:
        self.merged += 1

    def put(self, *notes, now=0.0, is_saturated=False):
        for one in notes:
            self.notes.put(one, now, is_saturated=is_saturated)

    def taken(self, *busy, now=0.0):
        return list(iter(lambda: self.notes.take({one.key for one in busy}, now), None))


def waits(name, message, at):
    return PatchStatus(target(name), PodCondition("PodScheduled", "False", "Unschedulable", message, at))


def test_a_later_note_takes_the_place_of_an_earlier_and_keeps_the_time_the_condition_changed():
    told = Counting()
    told.put(waits("a", "1 more", 7.0), waits("b", "1 more", 8.0), waits("a", "2 more", None))
    assert told.taken() == [waits("a", "2 more", 7.0), waits("b", "1 more", 8.0)]
    assert told.merged == 1


def turned(name, reason):
    return PatchStatus(target(name), PodCondition("PodScheduled", "False", reason, "", None, new_reason=True))


def test_a_new_reason_has_a_line_of_its_own_where_texts_that_follow_take_its_place():
    told = Counting()
    told.put(waits("a", "1 more", 7.0), waits("b", "1 more", 8.0), turned("b", "Unschedulable"))
    told.put(waits("b", "2 more", None), turned("c", "SchedulingGated"))
    assert told.notes.take_waited_for(()) == waits("b", "2 more", 8.0)
    assert told.notes.take_waited_for({target("c").key}) is None, "a write about it is under way"
    told.notes.outdate(target("c"))
    assert told.notes.take_waited_for(()) is None
    assert told.taken() == [waits("a", "1 more", 7.0)]


def test_two_statuses_of_one_object_do_not_replace_each_other():
    told = Counting()
    debt = PatchStatus(counts("q").target, ClusterQueueDebt())
    told.put(counts("q"), debt)
    assert told.taken() == [counts("q"), debt]


def test_events_come_last_and_only_while_saturated_one_stands_for_all_of_its_object():
    told = Counting()
    other = structs.replace(event("a"), reason="FailedScheduling")
    told.put(event("a"), other, event("a"), event("b"), note("a"))
    assert told.taken() == [note("a"), other, event("a"), event("b")], "of one reason the last"
    told.put(event("a"), event("b"), other, is_saturated=True)
    assert told.taken() == [event("b"), other]
    assert told.merged == 2


def test_an_event_that_could_not_be_sent_in_time_is_dropped_and_counted():
    told = Counting()
    told.put(event("a"), now=0.0)
    told.put(event("b"), now=50.0)
    assert told.taken(now=70.0) == [event("b")]
    assert told.dropped == 1


def test_what_is_under_way_about_an_object_is_not_overtaken():
    told = Counting()
    told.put(note("a"), note("b"))
    assert told.taken(target("a")) == [note("b")]
    assert told.taken() == [note("a")]


def test_what_ends_the_waiting_of_a_pod_says_nothing_of_another_of_its_name():
    told = Counting()
    told.put(note("a"), note("b"))
    told.notes.outdate(structs.replace(target("a"), uid="of the one before"))
    told.notes.outdate(target("b"))
    assert told.taken() == [note("a")]


def refusal(name: str) -> PatchStatus:
    return PatchStatus(target(name), QueuedWorkloadStatus(), permitted=True)


async def test_an_idle_server_gets_all_that_waits_in_the_engine_at_once():
    server = Server()
    async with performing(server) as (performer, watcher):
        performer.await_permits(AwaitedPermits(3, 995.0), 1000.0)
        assert watcher.outcomes.get_nowait() == WritePermits(3)
        for name in ("a", "b", "c"):
            performer.submit(refusal(name))
        await server.expect(3)
        performer.await_permits(None, 1000.0)
        assert watcher.outcomes.qsize() == 0 or not isinstance(watcher.outcomes.get_nowait(), WritePermits)


async def test_permits_are_given_once_for_what_waits_and_no_more_than_may_be_under_way():
    server = Server()
    server.open.clear()
    async with performing(server) as (performer, watcher):
        performer.await_permits(AwaitedPermits(100, 995.0), 1000.0)
        assert watcher.outcomes.get_nowait() == WritePermits(MOST)
        for number in range(MOST):
            performer.submit(refusal(f"w{number}"))
        performer.await_permits(AwaitedPermits(100 - MOST, 995.0), 1000.0)
        await server.expect(MOST)
        assert watcher.outcomes.empty(), "as many are under way as may be"
        server.open.set()
        told = [await watcher.next() for _ in range(2)]
        assert sum(isinstance(one, WritePermits) for one in told) == 1


async def test_permits_that_no_step_has_taken_yet_leave_no_capacity_for_others():
    server = Server()
    async with performing(server) as (performer, watcher):
        performer.await_permits(AwaitedPermits(MOST, 995.0), 1000.0)
        assert watcher.outcomes.get_nowait() == WritePermits(MOST)
        performer.submit(event("a"))
        await asyncio.sleep(0)
        assert server.calls == []
        performer.await_permits(None, 1000.0)  # a step has taken them, and had nothing to tell any more
        await server.expect(1)


async def test_during_a_step_no_permits_are_given_for_what_may_be_told_in_it():
    server = Server()
    server.open.clear()
    async with performing(server) as (performer, watcher):
        for number in range(MOST):
            performer.submit(refusal(f"w{number}"))
        performer.await_permits(AwaitedPermits(1, 995.0), 1000.0)
        await server.expect(MOST)
        performer.submit(event("a"))
        assert watcher.outcomes.empty()


async def test_whatever_waits_longest_is_told_first_here_or_in_the_engine():
    server, clock = Server(), VirtualClock()
    server.open.clear()
    async with performing(server, clock) as (performer, watcher):
        for number in range(MOST):
            performer.submit(note(f"p{number}"))
        performer.submit(note("late"))
        performer.await_permits(AwaitedPermits(1, 40.0), 50.0)  # ten seconds ago, by the engine's clock
        await server.expect(MOST)
        server.open.set()
        told = [await watcher.next() for _ in range(2)]
        assert isinstance(told[1], WritePermits)


async def test_a_decisive_write_that_waits_behind_a_permitted_one_of_its_object_is_next():
    server = Server()
    server.open.clear()
    async with performing(server) as (performer, watcher):
        performer.submit(refusal("a"))
        performer.submit(bind("a"))
        await server.expect(1)
        server.open.set()
        assert [(await watcher.next()).effect for _ in range(2)] == [refusal("a"), bind("a")]


async def test_cancelled_with_much_to_tell_it_ends_and_begins_nothing_more():
    server = Server()
    server.open.clear()
    async with performing(server) as (performer, _):
        running = asyncio.create_task(performer.run())
        await asyncio.sleep(0)
        for number in range(3 * MOST):
            performer.submit(note(f"p{number}"))
        await server.expect(MOST)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert len(server.calls) == MOST


def test_no_write_that_is_under_way_keeps_another_from_a_connection():
    assert DEFAULT_SIZE > CONCURRENCY + MOST + WAITED_FOR


async def test_a_whole_process_tells_a_workload_why_it_waits_and_a_queue_what_it_counts(ca, log):
    async with served(ca) as cluster, asyncio.timeout(60):
        cluster.ask("POST", FLAVORS, flavor("default"))
        cluster.ask("POST", CLUSTER_QUEUES, cluster_queue(1))
        cluster.ask("POST", LOCAL_QUEUES, local_queue())
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        pod_sets = [{"name": "main", "count": 1, "template": template}]
        cluster.add_workload("a", origin="", queueName="lq", podSets=pod_sets)
        async with process(plan_for(cluster, frozenset({Role.QUOTA})), log):

            def shown() -> tuple[list[str], int | None]:
                told = cluster.ask("GET", f"{WORKLOADS}/a").get("status", {}).get("conditions", [])
                counts = cluster.ask("GET", f"{CLUSTER_QUEUES}/cq").get("status", {})
                return [one["reason"] for one in told], counts.get("pendingWorkloads")

            while shown() != (["ExceedsMaxQuota", "NoReservation"], 1):
                cluster.changed.clear()
                await cluster.changed.wait()


async def test_events_wait_while_decisive_writes_wait_for_a_connection():
    server = Server()
    server.open.clear()
    async with performing(server) as (performer, _):
        for number in range(CONCURRENCY + 1):
            performer.submit(bind(f"p{number}"))
        await server.expect(CONCURRENCY)
        performer.submit(event("a"))
        performer.submit(note("b"))
        await server.expect(1)
        assert server.calls[-1].path.endswith("/pods/b/status"), "conditions have connections of their own"
        server.open.set()
        await server.expect(2)
        assert [call.path.rpartition("/")[2] for call in server.calls[-2:]] == ["binding", "events"]


async def test_events_do_not_wait_for_decisive_writes_until_they_are_dropped():
    server, clock = Server(), VirtualClock()
    server.open.clear()
    async with performing(server, clock) as (performer, watcher):
        for number in range(CONCURRENCY + 1):
            performer.submit(bind(f"p{number}"))
        performer.submit(event("a"))
        await server.expect(CONCURRENCY)
        clock.now += WITHIN.saturated / 2
        performer.submit(event("b"))
        await server.expect(1)
        assert server.calls[-1].path.endswith("/events")
        assert watcher.dropped == 0


async def test_a_step_waits_for_capacity_while_more_is_decided_than_can_be_sent(monkeypatch):
    monkeypatch.setattr("headgate.live.performer.BACKLOG_PAUSE", 3600.0)
    server = Server()
    server.open.clear()
    async with performing(server) as (performer, _), asyncio.timeout(30):
        for number in range(2 * CONCURRENCY):
            performer.submit(bind(f"p{number}"))
        await server.expect(CONCURRENCY)
        await performer.rest_of_a_step()
        assert len(server.calls) == CONCURRENCY, "no more waits than may be under way: nothing to wait for"
        performer.submit(bind("one more"))
        waiting = asyncio.create_task(performer.rest_of_a_step())
        await asyncio.sleep(0)
        assert not waiting.done()
        server.open.set()
        await waiting


async def test_a_server_that_answers_nothing_does_not_keep_the_next_step_waiting():
    server = Server()
    server.open.clear()
    async with performing(server) as (performer, _), asyncio.timeout(30):
        for number in range(3 * CONCURRENCY):
            performer.submit(bind(f"p{number}"))
        await server.expect(CONCURRENCY)
        await performer.rest_of_a_step()
        assert len(server.calls) == CONCURRENCY
