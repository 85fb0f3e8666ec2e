"""The feature PodSchedulingReadiness turned off: gates are dropped, kept where they were, and ignored."""

from __future__ import annotations

import json

import pytest
from simulator.small_scenarios import decisions, found, nodes, pod, scenario

from headgate.apiserver.admission.plugins import ADMISSION
from headgate.apiserver.messages import Request, Response
from headgate.apiserver.server import ApiServer
from headgate.simulator.cluster import DroppedGates, admission_for
from headgate.simulator.virtual_time import run

GATES = [{"name": "example.com/a"}, {"name": "example.com/b"}]
PODS = "/api/v1/namespaces/default/pods"


def test_with_the_feature_off_a_gated_pod_is_created_without_gates_and_gets_a_node():
    config = {"featureGates": {"PodSchedulingReadiness": False}}
    report = run(scenario(pod("a", schedulingGates=GATES), machines=[nodes()], config=config))
    assert decisions(report, "a") == [(0, "bind")]
    manifest = found(report, "Pod", "a")
    assert "schedulingGates" not in manifest["spec"]
    assert "SchedulingGated" not in json.dumps(manifest)


@pytest.mark.parametrize(
    "features", [{}, {"PodSchedulingReadiness": True}], ids=["nothing said about it", "the feature on"]
)
def test_with_the_feature_on_the_server_is_as_ever(features):
    assert admission_for(features) == ADMISSION


class Switchable(DroppedGates):
    """A server whose feature gate is changed, and which is restarted, with its store kept."""

    off = False

    def mutate(self, operation, catalog):
        return super().mutate(operation, catalog) if self.off else operation.new

    def validate(self, operation, catalog):
        if self.off:
            super().validate(operation, catalog)


class RollBack:
    def __init__(self) -> None:
        self.feature = Switchable()
        self._server = ApiServer(admission=(self.feature, *ADMISSION))

    def create(self, name: str) -> Response:
        body = json.dumps(pod(name, schedulingGates=GATES)).encode()
        return self._server.handle(Request("POST", PODS, body=body), 0.0)

    def patch(self, name: str, change: dict) -> Response:
        body = json.dumps(change).encode()
        request = Request("PATCH", f"{PODS}/{name}", body=body, content_type="application/merge-patch+json")
        return self._server.handle(request, 1.0)

    def gates(self, name: str) -> list[dict[str, str]] | None:
        return self._server.handle(Request("GET", f"{PODS}/{name}"), 1.0).value["spec"].get("schedulingGates")


def test_on_and_off_and_on_again():
    cluster = RollBack()
    assert cluster.create("old").code == 201

    cluster.feature.off = True
    assert cluster.create("new").code == 201
    assert cluster.gates("new") is None, "dropped from what is created"
    assert cluster.patch("old", {"metadata": {"labels": {"seen": "yes"}}}).code == 200
    assert cluster.gates("old") == GATES, "kept where it was"
    refused = cluster.patch("old", {"spec": {"schedulingGates": GATES[:1]}})
    assert (refused.code, refused.value["message"]) == (
        422,
        'Pod "old" is invalid: spec.schedulingGates: Forbidden: '
        "may not be changed while the feature PodSchedulingReadiness is disabled",
    )

    cluster.feature.off = False
    assert cluster.patch("old", {"spec": {"schedulingGates": GATES[:1]}}).code == 200
    assert cluster.gates("old") == GATES[:1], "changes are respected again"
    assert cluster.gates("new") is None
