"""The whole process against a tiny cluster: what cannot be dealt with is left out, and the rest goes on."""

from __future__ import annotations

import asyncio
import json

import pytest
from test_live_pages import ask
from test_live_service import plan_for, port_in, process
from tiny_cluster import tiny_cluster

from headgate.live import performer, webhooks
from headgate.live.http_server import HttpRequest, Listen
from headgate.model.admission import WebhookSettings
from headgate.model.settings import QuotaSettings
from headgate.placement.filters import NodeResourcesFit


@pytest.fixture
def broken_rule(monkeypatch):
    """A rule with a bug: it cannot judge pods that ask for 666 millicores."""
    priority_class_response = NodeResourcesFit.demands

    def demands(self, shape, nodes, rows, already):
        if shape.requests["cpu"] == 666:
            raise ZeroDivisionError("the rule has a bug")
        return priority_class_response(self, shape, nodes, rows, already)

    monkeypatch.setattr(NodeResourcesFit, "demands", demands)


def events_about(cluster, name):
    posted = [exchange.json for exchange in cluster.server.seen if exchange.path.endswith("/events")]
    return [event["reason"] for event in posted if event["regarding"]["name"] == name]


async def test_a_pod_that_a_rule_cannot_judge_is_quarantined_and_the_others_get_nodes(log, broken_rule):
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("early")
        async with process(plan_for(cluster, listen=Listen("127.0.0.1", 0)), log):
            await cluster.until(lambda: len(cluster.bindings) == 1)
            cluster.add_pod("bad", cpu="666m")
            cluster.add_pod("late")
            await cluster.until(lambda: len(cluster.bindings) == 2)
            metrics = (await ask(port_in(log), "GET /metrics HTTP/1.1"))[2]
            assert 'headgate_quarantined_objects{kind="pods"} 1.0' in metrics
            assert 'headgate_quarantines_total{kind="pods"} 1.0' in metrics
            assert "headgate_engine_rebuilds_total 1.0" in metrics
            cluster.add_pod("bad", cpu="1")
            await cluster.until(lambda: len(cluster.bindings) == 3)
    assert cluster.bindings == [("early", "n-1"), ("late", "n-1"), ("bad", "n-1")]
    assert events_about(cluster, "bad")[0] == "Quarantined"
    (told,) = [line for line in log.lines if "quarantined until it changes" in line]
    assert "object=pods/default/bad" in told
    assert "ZeroDivisionError: the rule has a bug" in told


async def test_a_binding_under_way_is_waited_for_and_neither_lost_nor_made_twice(log, broken_rule):
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.hold_bindings = True
        cluster.add_pod("a", cpu="4")
        async with process(plan_for(cluster), log):
            await cluster.until(lambda: cluster.held)
            cluster.add_pod("bad", cpu="666m")
            while not any("quarantined until it changes" in line for line in log.lines):
                await asyncio.sleep(0)
            cluster.add_pod("b", cpu="4")
            cluster.finish(cluster.held[0])
            cluster.add_node("n-2")
            await cluster.until(lambda: len(cluster.bindings) == 2)
    assert cluster.bindings == [("a", "n-1"), ("b", "n-2")]
    assert len(cluster.held) == 1


async def test_a_pod_that_cannot_be_decoded_does_not_end_the_watch(log):
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        async with process(plan_for(cluster), log):
            cluster.add_pod("bad", cpu="1e999999999")
            cluster.add_pod("a")
            await cluster.until(lambda: cluster.bindings)
            cluster.add_pod("bad", cpu="1")
            await cluster.until(lambda: len(cluster.bindings) == 2)
    assert cluster.bindings == [("a", "n-1"), ("bad", "n-1")]
    assert any("quarantine object=pods/default/bad" in line for line in log.lines)


async def test_two_pods_of_8e_on_one_node_do_not_end_the_process(log):
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_node("n-2")
        for name in ("huge-1", "huge-2"):
            cluster.add_pod(name)
            pod = json.loads(json.dumps(cluster.objects["pods"][name]))
            pod["spec"] |= {"nodeName": "n-1", "containers": [{"resources": {"requests": {"memory": "8E"}}}] * 2}
            cluster.objects["pods"][name] = pod
        async with process(plan_for(cluster), log):
            cluster.add_pod("a")
            await cluster.until(lambda: cluster.bindings)
    assert any("RequestsTooLarge" in line for line in log.lines)


async def test_a_webhook_that_fails_refuses_the_object_and_says_so(monkeypatch):
    def handler(question, rules):
        raise ZeroDivisionError("the judge has a bug")

    monkeypatch.setitem(webhooks.PATHS, "/validate-pod", handler)
    review = {"request": {"uid": "u", "resource": {"resource": "pods"}, "object": {"metadata": {}}}}
    settings = WebhookSettings(QuotaSettings(), lambda *_: "")
    responder = webhooks.ReviewResponder(lambda call: None, settings, lambda *_: None)
    replied = await responder(
        HttpRequest("POST", "/validate-pod", {}, json.dumps(review).encode(), "127.0.0.1", True, {})
    )
    response = json.loads(replied.body)["response"]
    assert (replied.status, response["uid"], response["allowed"]) == (200, "u", False)
    assert "ZeroDivisionError: the judge has a bug" in response["status"]["message"]


async def test_what_cannot_be_put_into_a_request_is_refused_and_the_others_are_written(log, monkeypatch):
    """A write that cannot be put into words is the write's trouble and not the process's."""
    made = performer.calls_for

    def calls_for(write, reporter):
        if write.target.key.name == "bad":
            raise OverflowError("date value out of range")
        return made(write, reporter)

    monkeypatch.setattr(performer, "calls_for", calls_for)
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("bad")
        async with process(plan_for(cluster), log):
            cluster.add_pod("a")
            await cluster.until(lambda: cluster.bindings)
    assert cluster.bindings == [("a", "n-1")]
    assert any("it cannot be written: OverflowError" in line for line in log.lines)
