"""Batches for the engine, timers, and the recording of what was observed."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from headgate.engine.journal import Entry, Journal
from headgate.engine.quarantine import Seen
from headgate.live.loop import EventQueue, Timers, run_steps
from headgate.live.recorder import Recorder
from headgate.model.effects import Bind, Delete, Effect, EmitEvent, EventType, FleetEffect, WakeAt
from headgate.model.events import (
    Gone,
    Observed,
    Outcome,
    RemoteConnection,
    RemoteEvent,
    RemoteState,
    TimerFired,
    Unreadable,
    WriteError,
)
from headgate.model.keys import Key, Kind, Target
from headgate.model.objects import Namespace


def key(name: str) -> Key:
    return Key(Kind.NAMESPACE, "", name)


def seen(name: str, version: int, uid: str = "u1") -> Observed:
    return Observed(Namespace(key(name), uid, str(version), {}))


def gone(name: str, uid: str = "u1") -> Gone:
    return Gone(key(name), uid)


def ready_feed() -> EventQueue:
    feed = EventQueue([Kind.NAMESPACE])
    feed.listed(Kind.NAMESPACE)
    return feed


async def test_the_first_batch_waits_until_every_kind_was_listed():
    feed = EventQueue([Kind.NODE, Kind.NAMESPACE])
    waiting = asyncio.create_task(feed.next())
    feed.observe(seen("a", 1))
    feed.listed(Kind.NODE)
    await asyncio.sleep(0)
    assert not waiting.done()
    feed.observe(seen("b", 2))
    feed.listed(Kind.NAMESPACE)
    assert await waiting == [seen("a", 1), seen("b", 2)]


class Busy:
    """An engine whose every step asks for another at once; the tenth is its last."""

    def __init__(self, feed: EventQueue, log: list[str]) -> None:
        self.journal, self._feed, self._log = Journal(), feed, log

    def step(self, batch: Sequence[Seen], now: float) -> list[Effect | FleetEffect]:
        self._log.append("step")
        if self._log.count("step") == 10:
            raise EOFError
        self._feed.tell(TimerFired("t"))
        return []

    def before_step(self, batch: Sequence[Seen], now: float) -> None: ...

    def after_step(self, batch: Sequence[Seen], entries: Sequence[Entry]) -> None: ...


async def test_others_have_their_turn_between_two_steps_that_follow_at_once():
    """Such as the renewal of the lease."""
    feed, log = ready_feed(), list[str]()
    engine = Busy(feed, log)

    async def others() -> None:
        while True:
            log.append("others")
            await asyncio.sleep(0)

    async def no_rest() -> None: ...

    beside = asyncio.create_task(others())
    with pytest.raises(EOFError):
        await run_steps(engine, feed, lambda _: None, lambda: 0.0, engine, rest=no_rest)
    beside.cancel()
    assert log.count("others") >= 8


async def test_what_is_observed_on_a_worker_cluster_comes_once_and_before_its_connection():
    feed, connected = ready_feed(), RemoteConnection("w", RemoteState.CONNECTED)
    answer = RemoteEvent("w", Outcome(Delete(Target(key("a"), "u1"))))
    for event in (RemoteEvent("w", seen("a", 1)), answer, RemoteEvent("v", seen("a", 1)), connected):
        feed.tell_remote(event)
    feed.tell_remote(RemoteEvent("w", seen("a", 2)))
    feed.observe(seen("a", 3))
    expected = [RemoteEvent("v", seen("a", 1)), RemoteEvent("w", seen("a", 2)), answer, connected]
    assert await feed.next() == [seen("a", 3), *expected]


async def test_nothing_more_comes_of_a_worker_cluster_that_is_forgotten():
    feed = ready_feed()
    for cluster in ("w", "v"):
        feed.tell_remote(RemoteEvent(cluster, seen("a", 1)))
        feed.tell_remote(RemoteConnection(cluster, RemoteState.LOST))
    feed.tell(TimerFired("t"))
    feed.forget_remote("w")
    left = [RemoteEvent("v", seen("a", 1)), RemoteConnection("v", RemoteState.LOST), TimerFired("t")]
    assert await feed.next() == left


async def test_kinds_come_in_the_order_the_engine_reads_them():
    feed = EventQueue([Kind.NODE, Kind.NAMESPACE])
    absent = Gone(Key(Kind.NODE, "", "n"), "u")
    for event in (seen("a", 1), absent):
        feed.observe(event)
    for kind in (Kind.NAMESPACE, Kind.NODE):
        feed.listed(kind)
    assert await feed.next() == [absent, seen("a", 1)]


async def test_an_empty_cluster_is_a_batch_too_but_later_nothing_is_no_batch():
    feed = ready_feed()
    assert await feed.next() == []
    waiting = asyncio.create_task(feed.next())
    feed.listed(Kind.NAMESPACE)  # listed again, after history was lost
    await asyncio.sleep(0)
    assert not waiting.done()
    feed.tell(TimerFired("t"))
    assert await waiting == [TimerFired("t")]


@pytest.mark.parametrize(
    "events, batch",
    [
        pytest.param([seen("a", 1), seen("a", 2)], [seen("a", 2)], id="the last observation wins"),
        pytest.param([seen("a", 1), gone("a")], [gone("a")], id="an absence replaces what was seen before"),
        pytest.param(
            [gone("a", "u1"), seen("a", 5, "u2")],
            [gone("a", "u1"), seen("a", 5, "u2")],
            id="a successor hides no absence",
        ),
        pytest.param(
            [gone("a", "u1"), seen("a", 5, "u2"), gone("a", "u2"), seen("a", 7, "u3")],
            [gone("a", "u1"), gone("a", "u2"), seen("a", 7, "u3")],
            id="every incarnation that went is told",
        ),
        pytest.param(
            [seen("a", 1), seen("b", 2), seen("a", 3)],
            [seen("b", 2), seen("a", 3)],
            id="the later event takes the later place",
        ),
    ],
)
async def test_events_about_one_object_are_gathered(events, batch):
    feed = ready_feed()
    for event in events:
        feed.observe(event)
    assert await feed.next() == batch


async def test_outcomes_and_timers_are_never_merged():
    feed, outcome = ready_feed(), Outcome(Delete(Target(key("a"), "u1")))
    for event in (outcome, TimerFired("t"), outcome):
        feed.tell(event)
    feed.observe(seen("a", 1))
    assert await feed.next() == [seen("a", 1), outcome, TimerFired("t"), outcome]


steps = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["u1", "u2"]), st.booleans()), max_size=20)


@given(steps, st.integers(1, 5))
def test_whatever_the_batches_the_last_word_about_every_object_arrives(steps, size):
    async def last_words() -> dict:
        feed, told = ready_feed(), {}
        for number, (name, uid, exists) in enumerate(steps):
            feed.observe(seen(name, number, uid) if exists else gone(name, uid))
            if number % size == 0:
                told |= {place(event): event for event in await feed.next()}
        feed.tell(TimerFired("end"))
        return told | {place(event): event for event in await feed.next() if not isinstance(event, TimerFired)}

    def place(event: Observed | Gone) -> tuple:
        return (event.key.name, event.uid) if isinstance(event, Gone) else (event.object.key.name, event.object.uid)

    expected = {}
    for number, (name, uid, exists) in enumerate(steps):
        expected[name, uid] = seen(name, number, uid) if exists else gone(name, uid)
    assert asyncio.run(last_words()) == expected


async def test_a_timer_asked_for_twice_fires_once():
    fired, errors = asyncio.Queue(), []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context))
    timers = Timers(lambda: 100.0, fired.put_nowait)
    for timer in ("past", "past", "last"):
        timers.set(WakeAt(50.0, timer))
    assert [await fired.get(), await fired.get()] == [TimerFired("past"), TimerFired("last")]
    assert errors == []


async def test_a_timer_never_fires_early_by_the_clock_of_the_engine():
    now, fired = 200.0, asyncio.Queue()
    timers = Timers(lambda: now, fired.put_nowait)
    timers.set(WakeAt(150.0, "early"))
    now = 100.0  # the clock was set back before the timer fired
    timers.set(WakeAt(100.0, "now"))
    assert await fired.get() == TimerFired("now")
    assert fired.empty()
    timers.clear()


async def test_timers_that_were_cleared_do_not_fire():
    fired = asyncio.Queue()
    timers = Timers(lambda: 100.0, fired.put_nowait)
    timers.set(WakeAt(100.0, "never"))
    timers.clear()
    timers.set(WakeAt(100.0, "now"))
    assert await fired.get() == TimerFired("now")
    assert fired.empty()


def test_a_recording_holds_what_was_told_of_worker_clusters():
    out = io.BytesIO()
    recorder = Recorder(out)
    recorder.note(seen("a", 1), Raw(b'{"metadata":{"name":"a"},"x":1}'))
    recorder.note(seen("a", 1), Raw(b'{"metadata":{"name":"a"},"x":2}'), "w")
    odd = Unreadable(seen("b", 1).object.key, "u2", "1", "$.spec", workload="job-b")
    connected = RemoteConnection("w", RemoteState.CONNECTED, "Active", "Connected")
    lost = Outcome(Delete(Target(odd.key, "u2")), WriteError.UNKNOWN, "lost")
    recorder.write([seen("a", 1), *(RemoteEvent("w", each) for each in (seen("a", 1), odd, lost)), connected], 1.0)
    here, there, unread, answer, state = json.loads(out.getvalue())["events"]
    assert (here["object"]["x"], "cluster" in here) == (1, False)
    assert (there["object"]["x"], there["cluster"]) == (2, "w")
    assert (unread["type"], unread["object"]["metadata"]["name"], unread["why"]) == ("Unreadable", "b", "$.spec")
    assert (answer["effect"], answer["cluster"]) == ("Delete", "w")
    assert (state["type"], state["cluster"], state["state"]) == ("RemoteConnection", "w", "connected")


def test_a_recording_holds_what_each_batch_showed():
    out = io.BytesIO()
    recorder = Recorder(out)
    recorder.note(seen("a", 1), Raw(b'{"metadata":{"name":"a"},"x":1}'))
    recorder.note(seen("a", 2), Raw(b'{"metadata":{"name":"a"},"x":2}'))
    recorder.note(gone("b", "u9"), Raw(b""))
    recorder.write([seen("a", 2), gone("b", "u9"), TimerFired("t")], 12.5)
    pod = Target(Key(Kind.POD, "default", "a"), "u1")
    event = EmitEvent(pod, EventType.NORMAL, "R", "A", "m", 1.0)
    recorder.write([Outcome(Bind(pod, "n"), WriteError.CONFLICT, "changed"), Outcome(event)], 13.0)
    recorder.write([Outcome(event)], 14.0)
    about = {"effect": "Bind", "object": "pods/default/a"}
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {
            "at": 12.5,
            "events": [
                {"type": "Observed", "kind": "namespaces", "object": {"metadata": {"name": "a"}, "x": 2}},
                {"type": "Gone", "kind": "namespaces", "object": {"metadata": {"name": "b", "uid": "u9"}}},
                {"type": "TimerFired", "timer": "t"},
            ],
        },
        {"at": 13.0, "events": [{"type": "Outcome", **about, "trouble": "conflict", "message": "changed"}]},
    ]


SECRET = "hunter2"
CONTAINER = {
    "name": "c",
    "image": "i",
    "resources": {"requests": {"cpu": "1"}},
    "env": [{"name": "PASSWORD", "value": SECRET}],
    "envFrom": [{"secretRef": {"name": SECRET}}],
    "command": ["login", SECRET],
    "args": [f"--password={SECRET}"],
    "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": SECRET}]}},
    "lifecycle": {"preStop": {"exec": {"command": [SECRET]}}},
}
POD_SPEC = {"containers": [CONTAINER], "initContainers": [CONTAINER], "ephemeralContainers": [CONTAINER]}
NOTES = {
    "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"spec": POD_SPEC}),
    "example.com/token": SECRET,
    "password": SECRET,
    "evilkubernetes.io/x": SECRET,
    "headgate.dev/checkpoint-every": "10m",
    "kueue.x-k8s.io/queue-name": "q",
}
LABELS = {"data": "kept", "containers": "kept"}


@pytest.mark.parametrize(
    "thing",
    [
        pytest.param({"spec": POD_SPEC}, id="a pod"),
        pytest.param({"spec": {"template": {"metadata": {"annotations": NOTES}, "spec": POD_SPEC}}}, id="a Job"),
        pytest.param({"spec": {"podSets": [{"template": {"spec": POD_SPEC}}]}}, id="a Workload"),
        pytest.param({"data": {"key": SECRET}, "stringData": {"key": SECRET}}, id="a Secret"),
    ],
)
def test_a_recording_holds_nothing_secret(thing):
    out = io.BytesIO()
    recorder = Recorder(out)
    metadata = {"name": "a", "annotations": NOTES, "labels": LABELS}
    recorder.note(seen("a", 1), Raw(json.dumps({"metadata": metadata, **thing}).encode()))
    recorder.write([seen("a", 1)], 1.0)
    assert SECRET.encode() not in out.getvalue()
    recorded = json.loads(out.getvalue())["events"][0]["object"]
    assert recorded["metadata"]["labels"] == LABELS
    assert recorded["metadata"]["annotations"] == {
        "headgate.dev/checkpoint-every": "10m",
        "kueue.x-k8s.io/queue-name": "q",
    }
    if thing == {"spec": POD_SPEC}:
        kept = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        assert recorded["spec"] == {name: [kept] for name in POD_SPEC}


@pytest.mark.parametrize("depth", [900, 990, 3000])
def test_a_recording_survives_objects_of_any_depth(depth):
    out = io.BytesIO()
    recorder = Recorder(out)
    nested = b'{"a":' * depth + b"1" + b"}" * depth
    recorder.note(seen("a", 1), Raw(b'{"metadata":{"name":"a"},"spec":%s}' % nested))
    recorder.write([seen("a", 1)], 1.0)
    assert b'"name":"a"' in out.getvalue()
