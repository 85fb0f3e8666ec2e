"""Kubelets: what becomes of pods once they are bound."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from headgate.api.decode import decode
from headgate.api.requests import calls_for
from headgate.apiserver import ApiServer, Request
from headgate.model.effects import Delete, Effect, PatchStatus, PodRun, WakeAt
from headgate.model.events import Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.pod import Phase, Pod, PodShape
from headgate.model.resources import Resources
from headgate.world.nodes import KILLED, Kubelet

NODE = Observed(Node(Key(Kind.NODE, "", "n"), "n-uid", "1", {}, {}, Resources()))


def pod(annotations: Mapping[str, str] | None = None, *, node: str = "n", **fields: object) -> Pod:
    basis = Pod(Key(Kind.POD, "default", "a"), "a-uid", "1", {}, annotations or {}, PodShape(), 0.0, node=node)
    return replace(basis, **fields)


def seconds(run: str = "", stop: str = "", code: str = "") -> dict[str, str]:
    given = {"run-seconds": run, "stop-seconds": stop, "exit-code": code}
    return {f"headgate.dev/{name}": value for name, value in given.items() if value}


def running(kubelet: Kubelet, a: Pod) -> None:
    """The pod runs since time 0 and the kubelet has seen its own report."""
    kubelet.react([NODE, Observed(a)], 0.0)
    kubelet.react([Observed(replace(a, phase=Phase.RUNNING))], 0.0)


def phases(effects: list[Effect]) -> list[Phase]:
    return [e.change.phase for e in effects if isinstance(e, PatchStatus) and isinstance(e.change, PodRun)]


@pytest.mark.parametrize(
    "batch, starts",
    [
        pytest.param([NODE, Observed(pod())], True, id="a pod bound to a node that exists starts"),
        pytest.param([Observed(pod()), NODE], True, id="also when the node is heard of after the pod"),
        pytest.param([Observed(pod())], False, id="a pod whose node does not exist waits for it"),
        pytest.param([NODE, Observed(pod(node=""))], False, id="an unbound pod is nobody's business"),
        pytest.param([NODE, Observed(pod(phase=Phase.SUCCEEDED))], False, id="an ended pod stays ended"),
        pytest.param([Observed(pod()), Gone(pod().key, "a-uid"), NODE], False, id="a pod gone meanwhile never starts"),
    ],
)
def test_a_pod_starts(batch, starts):
    assert phases(Kubelet().react(batch, 5.0)) == ([Phase.RUNNING] if starts else [])


@pytest.mark.parametrize(
    "annotations, phase, code",
    [
        pytest.param(seconds(run="30"), Phase.SUCCEEDED, 0, id="it succeeds"),
        pytest.param(seconds(run="30", code="3"), Phase.FAILED, 3, id="it fails with its exit code"),
    ],
)
def test_a_pod_ends_when_its_time_is_over(annotations, phase, code):
    kubelet = Kubelet()
    started = kubelet.react([NODE, Observed(pod(annotations))], 5.0)
    assert WakeAt(35.0, "a-uid") in started
    assert kubelet.react([TimerFired("a-uid")], 34.0) == [], "not before its time"
    assert kubelet.react([TimerFired("a-uid")], 35.0) == [
        PatchStatus(pod().target, PodRun(phase, 35.0, exit_code=code))
    ]


def test_the_containers_of_a_pod_run_and_end_with_it():
    kubelet, two = Kubelet(), (("main", "i:1"), ("side", "i:2"))
    shape = PodShape(images=("of an init container", "i:1", "i:2"))
    bound = pod(seconds(run="30", code="3"), shape=shape, containers=("main", "side"))
    [runs, _] = kubelet.react([NODE, Observed(bound)], 5.0)
    assert runs == PatchStatus(bound.target, PodRun(Phase.RUNNING, 5.0, containers=two))
    ended = PodRun(Phase.FAILED, 35.0, exit_code=3, containers=two, started=5.0)
    assert kubelet.react([TimerFired("a-uid")], 35.0) == [PatchStatus(bound.target, ended)]


def test_kubectl_shows_that_containers_are_ready_and_that_they_completed():
    server, kubelet, path = ApiServer(), Kubelet(), "/api/v1/namespaces/default/pods"
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
    metadata = {"name": "a", "annotations": seconds(run="30")}
    body = json.dumps({"metadata": metadata, "spec": spec}).encode()
    created = server.handle(Request("POST", path, body=body), 0.0).value

    def shown_after(event, now):
        stored = decode(Kind.POD, server.handle(Request("GET", f"{path}/a"), now).body)
        for effect in kubelet.react([NODE, Observed(stored), *event], now):
            for call in calls_for(effect, "kubelet") if isinstance(effect, PatchStatus) else ():
                asked = Request(call.method, call.path, body=call.body, content_type=call.content_type)
                assert server.handle(asked, now).code == 200
        table = server.handle(Request("GET", path, accept="application/json;as=Table;g=meta.k8s.io;v=v1"), now).value
        return table["rows"][0]["cells"][:4]

    assert shown_after([], 5.0) == ["a", "1/1", "Running", "0"]
    assert shown_after([TimerFired(created["metadata"]["uid"])], 35.0) == ["a", "0/1", "Completed", "0"]


def test_a_pod_that_never_ran_has_no_containers_that_ended():
    kubelet = Kubelet()
    bound = pod(shape=PodShape(images=("i:1",)), containers=("main",), deleted=0.0)
    [failed, _] = kubelet.react([NODE, Observed(bound)], 0.0)
    assert failed == PatchStatus(bound.target, PodRun(Phase.FAILED, 0.0, exit_code=KILLED))


def test_a_pod_without_run_seconds_runs_until_it_is_deleted():
    kubelet = Kubelet()
    effects = kubelet.react([NODE, Observed(pod())], 0.0)
    assert phases(effects) == [Phase.RUNNING]
    assert not [effect for effect in effects if isinstance(effect, WakeAt)]


@pytest.mark.parametrize(
    "annotations, grace, gone_at",
    [
        pytest.param({}, 30, 10.0, id="at once when it needs no time to stop"),
        pytest.param(seconds(stop="4"), 30, 14.0, id="after its stop seconds"),
        pytest.param(seconds(stop="400"), 30, 40.0, id="never later than its grace"),
        pytest.param(seconds(stop="4"), 0, 10.0, id="at once when deleted with force"),
    ],
)
def test_a_deleted_pod_is_gone(annotations, grace, gone_at):
    kubelet = Kubelet()
    running(kubelet, pod(annotations))
    deleted = pod(annotations, phase=Phase.RUNNING, deleted=10.0 + grace, grace=grace)
    removal = [
        PatchStatus(deleted.target, PodRun(Phase.FAILED, gone_at, exit_code=KILLED)),
        Delete(deleted.target, grace=0),
    ]
    first = kubelet.react([Observed(deleted)], 10.0)
    if gone_at == 10.0:
        assert first == removal
    else:
        assert first == [WakeAt(gone_at, "a-uid")]
        assert kubelet.react([Observed(deleted)], 11.0) == [], "hearing it twice changes nothing"
        assert kubelet.react([TimerFired("a-uid")], gone_at) == removal
    assert kubelet.react([Observed(deleted)], gone_at + 1) == [], "it is removed once"


def test_an_ended_pod_keeps_its_phase_when_deleted():
    kubelet = Kubelet()
    ended = pod(phase=Phase.SUCCEEDED, deleted=40.0)
    assert kubelet.react([NODE, Observed(ended)], 10.0) == [Delete(ended.target, grace=0)]


def test_a_stuck_pod_never_stops():
    kubelet = Kubelet(stuck=frozenset({"default/a"}))
    running(kubelet, pod())
    assert kubelet.react([Observed(pod(phase=Phase.RUNNING, deleted=10.0))], 10.0) == []
    assert kubelet.react([TimerFired("a-uid")], 1000.0) == []


def test_stale_and_repeated_sights_change_nothing():
    kubelet = Kubelet()
    late = pod(seconds(run="30"))
    kubelet.react([NODE, Observed(late)], 0.0)
    assert kubelet.react([Observed(late), NODE, Observed(late)], 1.0) == [], "it was reported running already"
    kubelet.react([Observed(replace(late, phase=Phase.RUNNING))], 1.0)
    assert phases(kubelet.react([TimerFired("a-uid")], 30.0)) == [Phase.SUCCEEDED]
    assert kubelet.react([Observed(replace(late, phase=Phase.RUNNING))], 31.0) == [], "it has ended, whatever is seen"


def test_a_report_that_did_not_arrive_is_made_again():
    kubelet = Kubelet()
    report = kubelet.react([NODE, Observed(pod())], 0.0)[0]
    kubelet.react([Outcome(report, WriteError.CONFLICT)], 0.0)
    assert phases(kubelet.react([Observed(pod())], 1.0)) == [Phase.RUNNING]
