"""Logs and metrics tell what was done when it was done, and what failed as failed."""

from __future__ import annotations

import pytest
from test_live_pages import ask
from test_live_service import plan_for, port_in, process
from tiny_cluster import tiny_cluster

from headgate.engine.journal import Entry
from headgate.live.announcements import Announcement, Announcements, FailedAnnouncement
from headgate.live.http_server import Listen
from headgate.model.effects import Bind, Effect, EmitEvent, EventType, Evict, PatchStatus, PodCondition
from headgate.model.events import Gone, Outcome, WriteError
from headgate.model.keys import Key, Kind, Target

POD, OTHER = Key(Kind.POD, "default", "a"), Key(Kind.POD, "default", "b")
BIND, AGAIN = Bind(Target(POD, "u"), "n-1"), Bind(Target(POD, "u"), "n-2")
EVICT = Evict(Target(OTHER, "v"), "reason", "text", 1.0)
BOUND, EVICTED = Entry(1.0, POD, "bind", "Scheduled"), Entry(1.0, OTHER, "evict", "Preempted")
WAITS = Entry(1.0, POD, "wait", "Unschedulable")
CONDITION = PatchStatus(Target(POD, "u"), PodCondition("PodScheduled", "False", "Unschedulable", "", None))
EVENT = EmitEvent(Target(POD, "u"), EventType.NORMAL, "R", "A", "m", 1.0)


def told(events: list[object], effects: tuple[Effect, ...] = (BIND,), entries=(BOUND,)) -> list[object]:
    announcements = Announcements()
    assert announcements.hold(entries, effects, 0.5) == []
    return list(announcements.answered(events, 7.0))


SAID = Announcement(Entry(7.0, POD, "bind", "Scheduled"), 0.5)


@pytest.mark.parametrize(
    "events, expected",
    [
        pytest.param([], [], id="nothing before the answer"),
        pytest.param([Outcome(BIND)], [SAID], id="a success, with its own time"),
        pytest.param([Outcome(BIND), Outcome(BIND)], [SAID], id="once"),
        pytest.param(
            [Outcome(BIND, WriteError.CONFLICT, "changed")],
            [FailedAnnouncement(SAID.entry, "conflict", "changed")],
            id="a failure, and why",
        ),
        pytest.param(
            [Outcome(BIND, WriteError.UNKNOWN, "lost"), Outcome(BIND)],
            [FailedAnnouncement(SAID.entry, "unknown", "lost"), SAID],
            id="a lost answer, and the next",
        ),
        pytest.param([Outcome(AGAIN)], [], id="not the answer to another write"),
        pytest.param([Outcome(EVENT)], [], id="not that of an event"),
        pytest.param([Gone(POD, "u"), Outcome(BIND)], [], id="nothing about what is gone"),
    ],
)
def test_what_was_decided_is_told_with_the_answer(events, expected):
    assert told(events) == expected


def test_each_entry_waits_for_the_write_about_its_object():
    both = told([Outcome(EVICT, WriteError.REFUSED, "no"), Outcome(BIND)], (BIND, EVICT, EVENT), (BOUND, EVICTED))
    assert [type(one) for one in both] == [FailedAnnouncement, Announcement]


@pytest.mark.parametrize(
    "entry, effects",
    [
        pytest.param(WAITS, (CONDITION,), id="that a pod waits is true whatever becomes of its condition"),
        pytest.param(WAITS, (BIND,), id="no decision that a write makes true"),
        pytest.param(BOUND, (), id="no write"),
        pytest.param(BOUND, (EVICT, EVENT), id="only writes about others"),
        pytest.param(Entry(1.0, POD, "preempt", "Preempting"), (BIND,), id="a plan, which its victims tell"),
    ],
)
def test_what_depends_on_no_write_is_told_at_once(entry, effects):
    announcements = Announcements()
    assert announcements.hold([entry], effects, 0.5) == [entry]
    assert list(announcements.answered([Outcome(effect) for effect in effects], 7.0)) == []


async def test_a_binding_that_failed_is_logged_and_counted_as_failed_and_the_next_as_done(log):
    async with tiny_cluster() as cluster:
        cluster.hold_bindings = True
        cluster.add_node("n-1")
        cluster.add_pod("a")
        async with process(plan_for(cluster, listen=Listen("127.0.0.1", 0)), log):
            await cluster.until(lambda: cluster.held)
            assert not [line for line in log.lines if " bind object" in line], "not yet"
            cluster.held.pop().reply(409, {"message": "it has been modified", "reason": "Conflict"})
            await cluster.until(lambda: cluster.held)
            _, _, text = await ask(port_in(log), "GET /metrics HTTP/1.1")
            assert "bind failed object=pods/default/a reason=Scheduled error=" in "".join(log.lines)
            assert 'headgate_decisions_total{decision="bind"' not in text
            assert 'headgate_effects_total{effect="Bind",outcome="conflict"} 1.0' in text
            assert "scheduler_pod_scheduling_attempts_count 0.0" in text
            assert 'result="scheduled"' not in text
            assert 'scheduler_schedule_attempts_total{profile="headgate",result="error"} 1.0' in text
            cluster.finish(cluster.held.pop())
            await cluster.until(lambda: cluster.bindings)
    [done] = [line for line in log.lines if line.startswith("INFO    bind object=pods/default/a")]
    assert "attempts=2" in done


async def test_what_is_answered_while_the_process_stops_is_told(log):
    async with tiny_cluster() as cluster:
        cluster.hold_bindings = True
        cluster.add_node("n-1")
        cluster.add_pod("a")
        async with process(plan_for(cluster), log) as (stop, _):
            await cluster.until(lambda: cluster.held)
            stop.set()
            cluster.finish(cluster.held[0])
    assert [line for line in log.lines if line.startswith("INFO    bind object=pods/default/a")]
