"""The whole process against a tiny cluster: it schedules, takes turns, and stops cleanly."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from test_live_pages import ask
from tiny_cluster import TinyCluster, tiny_cluster

from headgate.engine.loop import Engine
from headgate.live.election import LeaseSettings
from headgate.live.http_server import Listen
from headgate.live.loop import EventQueue, run_steps
from headgate.live.service import RunPlan, serve
from headgate.live.term import BrokenEngine
from headgate.live.webhooks import WebhookPlan
from headgate.model.keys import Kind
from headgate.model.settings import Profile, Settings

QUICK = LeaseSettings("kube-system", "me", duration=20, renew_deadline=10, retry=0.05)  # looks often, gives up late


@asynccontextmanager
async def process(plan: RunPlan, log) -> AsyncIterator[tuple[asyncio.Event, asyncio.Task]]:
    stop = asyncio.Event()
    running = asyncio.create_task(serve(plan, log, stop))
    yield stop, running
    stop.set()
    await running


def plan_for(cluster: TinyCluster, **fields: object) -> RunPlan:
    return RunPlan(cluster.server.access(), **{"settings": Settings(), **fields})


async def test_pods_get_nodes_before_and_after_the_start(log):
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("early")
        cluster.add_pod("foreign", scheduler="somebody-else")
        async with process(plan_for(cluster), log):
            await cluster.until(lambda: len(cluster.bindings) == 1)
            cluster.add_pod("late")
            await cluster.until(lambda: len(cluster.bindings) == 2)
        assert cluster.bindings == [("early", "n-1"), ("late", "n-1")]
        assert "INFO    stopped" in log.lines
        assert any(line.startswith("INFO    bind object=pods/default/early") for line in log.lines)


class Onlooker:
    """Notes what was read before the first decision."""

    def __init__(self):
        self.counts, self.is_done = Counter(), False

    def read(self, kind, count):
        assert not self.is_done
        self.counts[kind] += count

    def done(self):
        self.is_done = True


async def test_what_is_read_at_the_start_is_counted_by_kind_until_all_is_read(log):
    onlooker = Onlooker()
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("a")
        cluster.add_pod("b")
        async with process(plan_for(cluster, reading=onlooker), log):
            await cluster.until(lambda: len(cluster.bindings) == 2)
            assert onlooker.is_done
            cluster.add_pod("late")
            await cluster.until(lambda: len(cluster.bindings) == 3)
    assert onlooker.counts == {Kind.NODE: 1, Kind.POD: 2}


async def test_a_pod_that_does_not_fit_gets_its_node_when_one_comes(log):
    async with tiny_cluster() as cluster:
        cluster.add_node("small")
        cluster.add_pod("big", cpu="4")
        cluster.add_pod("second", cpu="4")
        async with process(plan_for(cluster), log):
            await cluster.until(lambda: cluster.bindings == [("big", "small")])
            cluster.add_node("new")
            await cluster.until(lambda: ("second", "new") in cluster.bindings)


def port_in(log) -> int:
    return next(int(line.split("port=")[1]) for line in log.lines if "port=" in line)


async def test_a_clean_stop_waits_for_the_answer_to_what_was_sent(log):
    async with tiny_cluster() as cluster:
        cluster.hold_bindings = True
        cluster.add_node("n-1")
        cluster.add_pod("a")
        async with process(plan_for(cluster, listen=Listen("127.0.0.1", 0)), log) as (stop, running):
            await cluster.until(lambda: cluster.held)
            stop.set()
            for _ in range(5):
                assert (await ask(port_in(log), "GET /healthz HTTP/1.1"))[0] == "200 OK"
            assert not running.done()
            cluster.finish(cluster.held[0])
        assert cluster.bindings == [("a", "n-1")]


async def test_readiness_follows_the_first_batch(log):
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("a")
        async with process(plan_for(cluster, listen=Listen("127.0.0.1", 0)), log):
            await cluster.until(lambda: cluster.bindings)
            port = port_in(log)
            assert (await ask(port, "GET /readyz HTTP/1.1"))[0] == "200 OK"
            assert 'scheduler_pending_pods{queue="active"} 0.0' in (await ask(port, "GET /metrics HTTP/1.1"))[2]


async def test_a_process_whose_webhooks_have_no_certificate_is_not_ready(log, ca):
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("a")
        here, files = Listen("127.0.0.1", 0), ca.issue("webhook")
        for webhooks, expected in (
            (WebhookPlan(here, "ns"), ("503 Service Unavailable", "the webhooks have no certificate yet\n")),
            (WebhookPlan(here, "ns", *files), ("200 OK", "ok\n")),
        ):
            log.out.truncate(0)
            cluster.bindings.clear()
            async with process(plan_for(cluster, listen=here, webhooks=webhooks), log):
                await cluster.until(lambda: cluster.bindings)
                status, _, text = await ask(port_in(log), "GET /readyz HTTP/1.1")
                assert (status, text) == expected
            cluster.objects["pods"].clear()
            cluster.add_pod("b")


async def test_metrics_tell_how_pods_wait_and_how_long_plugins_take(log):
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        for name, gates in (("a", ()), ("b", ("x",)), ("c", ("x", "y"))):
            cluster.add_pod(name, gates=gates)
        cluster.add_pod("too-large", cpu="99")
        async with process(plan_for(cluster, listen=Listen("127.0.0.1", 0)), log):
            await cluster.until(lambda: cluster.bindings)
            lines, counted = [], 'scheduler_schedule_attempts_total{profile="headgate",result="scheduled"} 1.0'
            while counted not in lines:  # once the answer to the binding has arrived
                lines = (await ask(port_in(log), "GET /metrics HTTP/1.1"))[2].splitlines()
    for queue, waiting in (("active", 0), ("backoff", 0), ("unschedulable", 1), ("gated", 2)):
        assert f'scheduler_pending_pods{{queue="{queue}"}} {waiting}.0' in lines
    asked = 'scheduler_plugin_execution_duration_seconds_count{extension_point="PreEnqueue",plugin="SchedulingGates"'
    told = {line.removeprefix(asked).split(" ")[0] for line in lines if line.startswith(asked)}
    assert told == {',status="Success"}', ',status="UnschedulableAndUnresolvable"}'}
    for plugin, point, status in (
        ("TaintToleration", "Filter", "Success"),
        ("NodeResourcesFit", "Filter", "Success"),
        ("NodeResourcesFit", "Score", "Success"),
        ("DefaultPreemption", "PostFilter", "Unschedulable"),
        ("NodeRoom", "Reserve", "Success"),
    ):
        answer = f'extension_point="{point}",plugin="{plugin}",status="{status}"'
        assert any(line.startswith(f"scheduler_plugin_execution_duration_seconds_count{{{answer}}}") for line in lines)
    for result in ("scheduled", "unschedulable"):
        labels = f'{{profile="headgate",result="{result}"}}'
        assert f"scheduler_schedule_attempts_total{labels} 1.0" in lines
        assert f"scheduler_scheduling_attempt_duration_seconds_count{labels} 1.0" in lines
    assert not [line for line in lines if "_created" in line]


class Hanging:
    """A plugin that does not come back from the pod called `odd` until the test is over."""

    name = "Hanging"
    wake_on = frozenset()

    def __init__(self) -> None:
        self.over = threading.Event()

    def refusal(self, candidate, cluster):
        return str(self.over.wait()) if candidate.key.name == "odd" else None


async def test_a_plugin_that_hangs_holds_back_its_pods_and_nobody_elses(log):
    settings = Settings(profiles=(Profile("strict", enabled=frozenset({"Hanging"})), Profile("lax")))
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("odd", scheduler="strict")
        cluster.add_pod("behind", scheduler="strict")
        cluster.add_pod("a", scheduler="lax")
        hanging = Hanging()
        plan = plan_for(cluster, settings=settings, plugins=(hanging,), plugin_timeout=0.01)
        async with process(plan, log):
            await cluster.until(lambda: cluster.bindings)
            cluster.add_pod("b", scheduler="lax")
            await cluster.until(lambda: len(cluster.bindings) == 2)
        assert cluster.bindings == [("a", "n-1"), ("b", "n-1")]
        hanging.over.set()
        told = [line for line in log.lines if "plugin Hanging took longer than 10ms" in line]
        assert [line.split("object=pods/default/")[1].split(" ")[0] for line in told] == ["odd", "behind"]


async def test_the_leader_decides_and_a_clean_stop_hands_over(log):
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("a")
        async with process(plan_for(cluster, lease=QUICK), log):
            await cluster.until(lambda: cluster.bindings)
        assert cluster.leases.transitions == ["me", ""]


async def test_whoever_stands_by_decides_nothing_and_is_ready(log):
    async with tiny_cluster() as cluster:
        cluster.leases.lease = {
            "metadata": {"name": "headgate", "namespace": "kube-system", "resourceVersion": "1"},
            "spec": {"holderIdentity": "another", "leaseDurationSeconds": 60},
        }
        async with process(plan_for(cluster, lease=QUICK, listen=Listen("127.0.0.1", 0)), log):
            await cluster.until(lambda: len(cluster.server.seen) >= 3)
            port = port_in(log)
            assert (await ask(port, "GET /readyz HTTP/1.1"))[0] == "200 OK"
        assert {exchange.method for exchange in cluster.server.seen} == {"GET"}
        assert not any("pods" in exchange.path for exchange in cluster.server.seen)


async def test_a_lost_lease_ends_the_term_and_a_new_one_starts_from_observation(log):
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("a")
        async with process(plan_for(cluster, lease=QUICK), log):
            await cluster.until(lambda: cluster.bindings)
            cluster.leases._store({"metadata": {}, "spec": {"holderIdentity": "thief", "leaseDurationSeconds": 1}})
            cluster.leases.lease["metadata"] |= {"name": "headgate", "namespace": "kube-system"}
            await cluster.until(lambda: cluster.leases.transitions[-2:] == ["thief", "me"])
            cluster.add_pod("b")
            await cluster.until(lambda: len(cluster.bindings) == 2)
        assert cluster.bindings == [("a", "n-1"), ("b", "n-1")]
        assert any("lost the lease" in line for line in log.lines)


async def test_what_was_observed_is_recorded(log):
    out = io.BytesIO()
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("a")
        async with process(plan_for(cluster, record=out), log):
            await cluster.until(lambda: cluster.bindings)
    first = json.loads(out.getvalue().splitlines()[0])
    assert [(event["type"], event["kind"], event["object"]["metadata"]["name"]) for event in first["events"]] == [
        ("Observed", "nodes", "n-1"),
        ("Observed", "pods", "a"),
    ]


async def test_a_broken_invariant_stops_the_process_with_its_story(log, monkeypatch: pytest.MonkeyPatch):
    step = Engine.step

    def broken(engine: Engine, batch, now):
        step(engine, batch, now)
        raise AssertionError("two pods in one place")

    monkeypatch.setattr(Engine, "step", broken)
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("a")
        with pytest.raises(BrokenEngine, match="two pods in one place") as stopped:
            await serve(plan_for(cluster), log, asyncio.Event())
        assert [entry.decision for entry in stopped.value.story] == ["bind"]
        assert cluster.bindings == []


async def test_the_settings_decide_whose_pods_are_served(log):
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("a", scheduler="special")
        settings = Settings(profiles=(Profile("special"),))
        async with process(msgspec.structs.replace(plan_for(cluster), settings=settings), log):
            await cluster.until(lambda: cluster.bindings)


async def test_the_loop_hands_every_effect_over_before_the_next_batch():
    """Side by side with the simulator's loop: batch, step, perform, tell."""
    order: list[str] = []

    class Recording:
        def before_step(self, batch, now) -> None:
            order.append(f"step {len(batch)} at {now}")

        def after_step(self, batch, entries) -> None:
            order.append(f"told {len(entries)}")
            raise asyncio.CancelledError

    async def rest() -> None:
        raise AssertionError("there is no second step")

    feed = EventQueue([Kind.NODE])
    feed.listed(Kind.NODE)
    with pytest.raises(asyncio.CancelledError):
        await run_steps(
            Engine(Settings()), feed, lambda effect: order.append(str(effect)), lambda: 7.0, Recording(), rest=rest
        )
    assert order == ["step 0 at 7.0", "told 0"]
