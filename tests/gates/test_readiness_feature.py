"""The feature PodSchedulingReadiness turned off: gates are dropped, kept where they were, and ignored."""

from __future__ import annotations

import json

import pytest
from builders import node
from simulator.small_scenarios import decisions, found, nodes, pod, scenario

from headgate.api.configuration import settings_from
from headgate.api.decode import decode
from headgate.apiserver.admission.plugins import ADMISSION
from headgate.apiserver.messages import Request, Response
from headgate.apiserver.server import ApiServer
from headgate.engine.loop import Engine
from headgate.gates.pre_enqueue import PRE_ENQUEUE
from headgate.model.effects import Bind
from headgate.model.events import Observed, Outcome, WriteError
from headgate.model.keys import Kind
from headgate.simulator.cluster import DroppedGates, admission_for
from headgate.simulator.virtual_time import run

GATES = [{"name": "example.com/a"}, {"name": "example.com/b"}]
OFF = {"featureGates": {"PodSchedulingReadiness": False}}
PODS = "/api/v1/namespaces/default/pods"


def test_with_the_feature_off_a_gated_pod_is_created_without_gates_and_gets_a_node():
    report = run(scenario(pod("a", schedulingGates=GATES), machines=[nodes()], config=OFF))
    assert decisions(report, "a") == [(0, "bind")]
    manifest = found(report, "Pod", "a")
    assert "schedulingGates" not in manifest["spec"]
    assert "SchedulingGated" not in json.dumps(manifest)


def test_with_the_feature_off_the_scheduler_ignores_gates_that_a_pod_still_has():
    assert Scheduler(OFF).sees(manifest("a", schedulingGates=GATES)) == ["a"]


def test_with_the_feature_off_other_plugins_hold_pods_all_the_same():
    assert Scheduler(OFF, Holding()).sees(manifest("a", schedulingGates=GATES)) == []


@pytest.mark.parametrize(
    "features", [{}, {"PodSchedulingReadiness": True}], ids=["nothing said about it", "the feature on"]
)
def test_with_the_feature_on_gates_are_kept_and_stop_a_binding_until_they_are_removed(features):
    server = Server(admission_for(features))
    assert server.create("a").code == 201
    assert server.gates("a") == GATES
    assert (server.bind("a").code, server.patch("a", {"spec": {"schedulingGates": None}}).code) == (409, 200)
    assert server.bind("a").code == 201


class Holding:
    name = "Holding"
    wake_on = frozenset()

    def refusal(self, candidate, cluster):
        return "not yet"


class Scheduler:
    """An engine with these feature gates and plugins, told of one node."""

    def __init__(self, config, *plugins) -> None:
        profile = {"plugins": {"preEnqueue": {"enabled": [{"name": plugin.name} for plugin in plugins]}}}
        document = {**config, "scheduler": {"profiles": [profile]}}
        settings = settings_from(document, "f", [plugin.name for plugin in plugins])
        self._engine = Engine(settings, (*PRE_ENQUEUE, *plugins))
        self._engine.step([Observed(node("n", cpu=9000))], 0.0)
        self.now = 0.0
        self.effects: list[object] = []

    def sees(self, *manifests) -> list[str]:
        """The names of the pods that are bound because of that."""
        pods = [decode(Kind.POD, json.dumps(each).encode()) for each in manifests]
        return self.step(*map(Observed, pods))

    def step(self, *events) -> list[str]:
        self.now += 30.0
        self.effects = self._engine.step(events, self.now)
        return [each.target.key.name for each in self.effects if isinstance(each, Bind)]

    def binding(self) -> Bind:
        (bind,) = [each for each in self.effects if isinstance(each, Bind)]
        return bind


class Switchable(DroppedGates):
    """A server whose feature gate is changed, and which is restarted, with its store kept."""

    off = False

    def mutate(self, operation, catalog):
        return super().mutate(operation, catalog) if self.off else operation.new

    def validate(self, operation, catalog):
        if self.off:
            super().validate(operation, catalog)


class Server:
    """The small API server with these admission plugins."""

    def __init__(self, admission) -> None:
        self._server = ApiServer(admission=admission)

    def ask(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Response:
        sent = b"" if body is None else json.dumps(body).encode()
        return self._server.handle(Request(method, f"{PODS}{path}", body=sent, content_type=content_type), 1.0)

    def create(self, name: str, **spec) -> Response:
        return self.ask("POST", "", pod(name, **(spec or {"schedulingGates": GATES})))

    def patch(self, name: str, change: dict) -> Response:
        return self.ask("PATCH", f"/{name}", change, "application/merge-patch+json")

    def bind(self, name: str) -> Response:
        target = {"apiVersion": "v1", "kind": "Node", "name": "n"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        return self.ask("POST", f"/{name}/binding", body)

    def get(self, name: str) -> dict:
        return self.ask("GET", f"/{name}").value

    def gates(self, name: str) -> list[dict[str, str]] | None:
        return self.get(name)["spec"].get("schedulingGates")


class RollBack(Server):
    def __init__(self) -> None:
        self.feature = Switchable()
        super().__init__((self.feature, *ADMISSION))


REFUSED = (
    'Pod "old" is invalid: spec.schedulingGates: Forbidden: '
    "may not be changed while the feature PodSchedulingReadiness is disabled"
)


def test_on_and_off_and_on_again():
    """With a scheduler of the same position each time, and a pod that runs throughout."""
    cluster, scheduler = RollBack(), Scheduler({})
    assert (cluster.create("old").code, cluster.create("running", terminationGracePeriodSeconds=30).code) == (201, 201)
    assert scheduler.sees(cluster.get("old"), cluster.get("running")) == ["running"]
    assert cluster.bind("running").code == 201
    running = cluster.get("running")

    cluster.feature.off, scheduler = True, Scheduler(OFF)
    assert cluster.create("new").code == 201
    assert cluster.gates("new") is None, "dropped from what is created"
    assert cluster.patch("old", {"metadata": {"labels": {"seen": "yes"}}}).code == 200
    assert cluster.gates("old") == GATES, "kept where it was"
    refused = cluster.patch("old", {"spec": {"schedulingGates": GATES[:1]}})
    assert (refused.code, refused.value["message"]) == (422, REFUSED)
    ignoring = scheduler.sees(running, cluster.get("old"), cluster.get("new"))
    assert sorted(ignoring) == ["new", "old"]
    assert cluster.bind("new").code == 201

    cluster.feature.off, scheduler = False, Scheduler({})
    assert cluster.patch("old", {"spec": {"schedulingGates": GATES[:1]}}).code == 200
    assert cluster.gates("old") == GATES[:1], "changes are respected again"
    assert scheduler.sees(running, cluster.get("old"), cluster.get("new")) == [], "and so are gates"
    assert cluster.patch("old", {"spec": {"schedulingGates": None}}).code == 200
    assert scheduler.sees(cluster.get("old")) == ["old"]
    assert cluster.get("running") == running, "nobody touched it"


def test_a_scheduler_that_does_not_know_gates_is_stopped_by_a_server_that_does():
    """It tries the pod as if there were no gates, is refused, and goes on when they are gone."""
    cluster, scheduler = Server(ADMISSION), Scheduler(OFF)
    cluster.create("a")
    assert scheduler.sees(cluster.get("a")) == ["a"]
    assert cluster.bind("a").code == 409
    scheduler.step(Outcome(scheduler.binding(), WriteError.CONFLICT))
    cluster.patch("a", {"spec": {"schedulingGates": None}})
    assert scheduler.sees(cluster.get("a")) == ["a"]
    assert cluster.bind("a").code == 201


def test_of_servers_that_differ_one_accepts_a_change_of_gates_and_the_other_rejects_it():
    """Both serve one store; no gate is lost and none comes back, whoever is asked."""
    cluster = RollBack()
    cluster.create("old")
    for off, code, left in ((True, 422, GATES), (False, 200, GATES[:1]), (True, 422, GATES[:1]), (False, 200, None)):
        cluster.feature.off = off
        change = {"spec": {"schedulingGates": GATES[:1] if left is not None else None}}
        change = {"spec": {"schedulingGates": []}} if off else change
        assert cluster.patch("old", change).code == code
        assert (cluster.gates("old") or None) == left


def test_two_gates_add_some_64_bytes_to_a_pod():
    cluster = Server(ADMISSION)
    cluster.create("with")
    cluster.create("without", terminationGracePeriodSeconds=30)
    with_gates, without = (json.dumps(cluster.get(name)["spec"], separators=(",", ":")) for name in ("with", "without"))
    assert 48 <= len(with_gates) - len(without) <= 80


def manifest(name, **spec):
    """A pod as a server serves it."""
    made = pod(name, **spec)
    made["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return made
