"""Writes to queues and to the workloads in them: the exact requests, and that what is written is what is read."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import msgspec
import pytest
from builders import amounts
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.api.amounts import amount_texts, resources_at
from headgate.api.decode import decode
from headgate.api.install_manifests import queue_definitions
from headgate.api.kinds import object_path
from headgate.api.requests import MERGE_PATCH, calls_for
from headgate.apiserver import ApiServer, Request
from headgate.model.effects import (
    Activation,
    AdmissionCheckStatus,
    ClusterQueueStatus,
    CohortStatus,
    Consumption,
    Finalizers,
    FlavorUse,
    LocalQueueStatus,
    PatchSpec,
    PatchStatus,
    QueuePriority,
    Write,
)
from headgate.model.keys import Condition, Key, Kind, Target
from headgate.model.queues import (
    Admission,
    CheckState,
    CheckStatus,
    ClusterQueue,
    EvictionCount,
    GateStatus,
    LocalQueue,
    PodSetAssignment,
    PreemptionProposal,
    QueuedWorkload,
    QueuedWorkloadStatus,
    RequeueState,
)
from headgate.model.resources import Resources

AT, TIME = 1767225600.0, "2026-01-01T00:00:00Z"
GROUP = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOAD = Target(Key(Kind.KUEUE_WORKLOAD, "d", "w"), "u", "7")
QUEUE = Target(Key(Kind.CLUSTER_QUEUE, "", "cq"), "u", "7")
LOCAL = Target(Key(Kind.LOCAL_QUEUE, "d", "lq"), "u", "7")
COHORT = Target(Key(Kind.COHORT, "", "co"), "u")
CHECK = Target(Key(Kind.ADMISSION_CHECK, "", "ac"), "u", "7")
AT_7 = {"uid": "u", "resourceVersion": "7"}
ACTIVE = Condition("Active", "True", "Ready", "on", AT, 3)
SAID_ACTIVE = {
    "type": "Active",
    "status": "True",
    "reason": "Ready",
    "message": "on",
    "lastTransitionTime": TIME,
    "observedGeneration": 3,
}
NO_STATUS = {
    "conditions": [],
    "admission": None,
    "requeueState": None,
    "reclaimablePods": None,
    "admissionChecks": None,
    "preemptionGates": None,
    "preemptionProposal": None,
    "resourceRequests": None,
    "accumulatedPastExecutionTimeSeconds": None,
    "schedulingStats": None,
    "nominatedClusterNames": None,
    "clusterName": None,
}


WORKLOADS = f"{GROUP}/namespaces/default/workloads"


def asked(write: Write) -> tuple[str, str, str, Any]:
    (call,) = calls_for(write, "headgate.dev/scheduler")
    return call.method, call.path, call.content_type, json.loads(call.body)


@pytest.mark.parametrize(
    "target, change, path, status",
    [
        pytest.param(
            WORKLOAD,
            QueuedWorkloadStatus(),
            f"{GROUP}/namespaces/d/workloads/w/status",
            NO_STATUS,
            id="a workload loses all it has",
        ),
        pytest.param(
            WORKLOAD,
            QueuedWorkloadStatus(
                admission=Admission("cq", (PodSetAssignment("main", (("cpu", "spot"),), amounts(1500, 2048), 3),)),
                requeue=RequeueState(0, AT + 0.9),
                checks=(CheckStatus("a", CheckState.READY, "m", AT, updates=b'[{"name":"main"}]'),),
            ),
            f"{GROUP}/namespaces/d/workloads/w/status",
            {
                **NO_STATUS,
                "admission": {
                    "clusterQueue": "cq",
                    "podSetAssignments": [
                        {
                            "name": "main",
                            "flavors": {"cpu": "spot"},
                            "resourceUsage": {"cpu": "1500m", "memory": "2Gi"},
                            "count": 3,
                        }
                    ],
                },
                "requeueState": {"count": None, "requeueAt": TIME},
                "admissionChecks": [
                    {
                        "name": "a",
                        "state": "Ready",
                        "message": "m",
                        "lastTransitionTime": TIME,
                        "podSetUpdates": [{"name": "main"}],
                    }
                ],
            },
            id="a workload gets quota",
        ),
        pytest.param(
            QUEUE,
            ClusterQueueStatus(
                (ACTIVE,), 1, 2, 3, (FlavorUse("spot", amounts(2500, gpu=0), Resources.of({"cpu": 500})),), (), 17
            ),
            f"{GROUP}/clusterqueues/cq/status",
            {
                "conditions": [SAID_ACTIVE],
                "pendingWorkloads": 1,
                "reservingWorkloads": 2,
                "admittedWorkloads": 3,
                "flavorsReservation": [
                    {"name": "spot", "resources": [{"name": "cpu", "total": "2500m", "borrowed": "500m"}]}
                ],
                "flavorsUsage": [],
                "fairSharing": {"weightedShare": 17},
            },
            id="a cluster queue",
        ),
        pytest.param(
            LOCAL,
            LocalQueueStatus(
                (),
                1,
                2,
                3,
                usage=(FlavorUse("spot", Resources.of({"cpu": 0})),),
                consumption=Consumption(Resources.of({"cpu": 10**6, "example.com/gpu": 1}), AT),
            ),
            f"{GROUP}/namespaces/d/localqueues/lq/status",
            {
                "conditions": [],
                "pendingWorkloads": 1,
                "reservingWorkloads": 2,
                "admittedWorkloads": 3,
                "flavorsReservation": [],
                "flavorsUsage": [{"name": "spot", "resources": [{"name": "cpu", "total": "0"}]}],
                "fairSharing": {
                    "weightedShare": 0,
                    "admissionFairSharingStatus": {
                        "consumedResources": {"cpu": "1m", "example.com/gpu": "1n"},
                        "lastUpdate": TIME,
                    },
                },
            },
            id="a local queue",
        ),
        pytest.param(
            CHECK,
            AdmissionCheckStatus((ACTIVE,)),
            f"{GROUP}/admissionchecks/ac/status",
            {"conditions": [SAID_ACTIVE]},
            id="an admission check",
        ),
    ],
)
def test_a_status_is_written_whole_to_the_version_it_was_made_from(target, change, path, status):
    assert asked(PatchStatus(target, change)) == ("PATCH", path, MERGE_PATCH, {"metadata": AT_7, "status": status})


@pytest.mark.parametrize("share, said", [(3, {"weightedShare": 3}), (None, None)], ids=["fair", "without sharing"])
def test_a_cohort_tells_its_share(share, said):
    body = {"metadata": {"uid": "u"}, "status": {"fairSharing": said}}
    assert asked(PatchStatus(COHORT, CohortStatus(share)))[3] == body


@pytest.mark.parametrize(
    "change, body",
    [
        pytest.param(Activation(False), {"metadata": AT_7, "spec": {"active": False}}, id="deactivated"),
        pytest.param(QueuePriority(5), {"metadata": AT_7, "spec": {"priority": 5}}, id="another priority"),
        pytest.param(Finalizers(("a.b/c",)), {"metadata": {**AT_7, "finalizers": ["a.b/c"]}}, id="kept"),
        pytest.param(Finalizers(()), {"metadata": {**AT_7, "finalizers": []}}, id="let go"),
    ],
)
def test_what_is_wanted_of_a_workload(change, body):
    path = f"{GROUP}/namespaces/d/workloads/w"
    assert asked(PatchSpec(WORKLOAD, change)) == ("PATCH", path, MERGE_PATCH, body)


def test_a_message_too_long_for_a_server_is_cut():
    status = asked(PatchStatus(CHECK, AdmissionCheckStatus((msgspec.structs.replace(ACTIVE, message="é" * 40_000),))))
    assert len(status[3]["status"]["conditions"][0]["message"]) == 32_768


@given(st.dictionaries(st.sampled_from(["cpu", "memory", "hugepages-2Mi", "example.com/gpu"]), st.integers(0, 2**62)))
def test_an_amount_is_read_as_it_was_written(given_amounts):
    resources = Resources.of(given_amounts)
    assert resources_at("$", dict(amount_texts(resources))) == resources


class Server:
    """The small Kubernetes with a workload and its queues in it."""

    def __init__(self, lacking: Collection[str] = ()) -> None:
        """The definition of workloads does not have the fields in `lacking`."""
        self._server = ApiServer()
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for manifest in [_without(lacking, one) for one in queue_definitions()]:
            self._ask("POST", definitions, manifest)
        pod_sets = [{"name": name, "template": {"spec": {"containers": []}}} for name in ("main", "b")]
        self._ask("POST", f"{GROUP}/namespaces/default/workloads", _named("Workload", "w", podSets=pod_sets))
        self._ask("POST", f"{GROUP}/namespaces/default/localqueues", _named("LocalQueue", "lq", clusterQueue="cq"))
        self._ask("POST", f"{GROUP}/clusterqueues", _named("ClusterQueue", "cq"))

    def perform(self, write: Write) -> None:
        for call in calls_for(write, "a.b/c"):
            answer = self._server.handle(Request(call.method, call.path, {}, call.body, call.content_type), AT)
            assert answer.code == 200, answer.value

    def read(self, key: Key) -> Any:
        return decode(key.kind, self._server.handle(Request("GET", object_path(key)), AT).body)

    def stored(self, key: Key) -> Any:
        return json.loads(self._server.handle(Request("GET", object_path(key)), AT).body)

    def ask(self, method: str, path: str, body: Any, content: str = "application/json") -> Any:
        return self._server.handle(Request(method, path, {}, json.dumps(body).encode(), content), AT)

    def _ask(self, method: str, path: str, body: Any) -> None:
        answer = self.ask(method, path, body)
        assert answer.code == 201, answer.value


def _named(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _without(fields: Collection[str], schema: Any) -> Any:
    """The schema without these fields, and without rules that may need them."""
    if isinstance(schema, dict):
        dropped = {*fields, "x-kubernetes-validations"} if fields else set()
        return {name: _without(fields, value) for name, value in schema.items() if name not in dropped}
    return [_without(fields, one) for one in schema] if isinstance(schema, list) else schema


def at_version(found: QueuedWorkload | LocalQueue | ClusterQueue) -> Target:
    return Target(found.key, found.uid, found.version)


names = st.sampled_from(["main", "b"])
times = st.integers(0, 2**31).map(float)
texts = st.text("ab ,é", max_size=5)
kinds = st.sampled_from(["QuotaReserved", "Admitted", "Evicted"])
flavors = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["spot", "od"])).map(
    lambda found: tuple(sorted(found.items()))
)
resources = st.dictionaries(st.sampled_from(["cpu", "memory", "a.b/gpu"]), st.integers(0, 2**40)).map(Resources.of)
conditions = st.builds(
    Condition,
    kinds,
    st.sampled_from(["True", "False"]),
    st.just("Because"),
    texts,
    times,
    st.one_of(st.none(), st.integers(0, 9)),
)
assignments = st.builds(PodSetAssignment, names, flavors, resources, st.integers(0, 9))
updates = st.sampled_from([b"", b"[]", b'[{"name":"main","labels":{"a":"b"}}]'])
seconds = st.one_of(st.none(), st.integers(0, 9))
checks = st.builds(
    CheckStatus, st.sampled_from("ab"), st.sampled_from(CheckState), texts, times, seconds, st.integers(0, 3), updates
)
gates = st.builds(GateStatus, st.sampled_from("xy"), st.booleans(), times)
counts = st.integers(0, 2**40)
proposals = st.builds(
    PreemptionProposal, st.booleans(), counts, st.integers(-(2**40), 2**40), counts, st.integers(1, 2**40), times
)
evictions = st.builds(EvictionCount, st.sampled_from("rs"), st.sampled_from(["", "c"]), st.integers(0, 9))


def unique(elements: st.SearchStrategy[Any], by: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(elements, unique_by=by, max_size=2).map(tuple)


statuses = st.builds(
    QueuedWorkloadStatus,
    conditions=unique(conditions, lambda one: one.type),
    admission=st.one_of(
        st.none(),
        st.tuples(assignments, assignments).map(
            lambda two: Admission(
                "cq", tuple(msgspec.structs.replace(one, name=n) for one, n in zip(two, ("main", "b"), strict=True))
            )
        ),
    ),
    requeue=st.one_of(st.none(), st.builds(RequeueState, st.integers(0, 9), st.one_of(st.none(), times))),
    reclaimable=unique(st.tuples(names, st.integers(0, 9)), lambda one: one[0]),
    checks=unique(checks, lambda one: one.name),
    gate_statuses=unique(gates, lambda one: one.name),
    proposal=st.one_of(st.none(), st.just(PreemptionProposal(False)), proposals),
    resource_requests=unique(st.tuples(names, resources), lambda one: one[0]),
    past_execution_seconds=st.integers(0, 9),
    evictions=unique(evictions, lambda one: (one.reason, one.cause)),
    nominated_clusters=unique(st.sampled_from("ew"), lambda one: one),
)


@pytest.fixture(scope="module")
def server() -> Server:
    return Server()


@settings(max_examples=50)
@given(change=statuses)
def test_what_is_written_of_a_workload_is_what_is_read(server, change):
    key = Key(Kind.KUEUE_WORKLOAD, "default", "w")
    server.perform(PatchStatus(at_version(server.read(key)), change))
    assert server.read(key).status == change


GATES_WRITTEN = QueuedWorkloadStatus(
    gate_statuses=(GateStatus("x", True, AT), GateStatus("y", False, AT)),
    proposal=PreemptionProposal(True, 2, 5, 7, 3, AT),
)


def test_gates_are_written_under_the_names_of_the_field_that_the_definition_has():
    key = Key(Kind.KUEUE_WORKLOAD, "default", "w")
    ours, kueues = Server(), Server(lacking=["preemptionProposal", "state"])
    for server in (ours, kueues):
        server.perform(PatchStatus(at_version(server.read(key)), GATES_WRITTEN))
    assert ours.stored(key)["status"]["preemptionGates"] == [
        {"name": "x", "state": "Open", "position": "Open", "lastTransitionTime": TIME},
        {"name": "y", "state": "Closed", "position": "Closed", "lastTransitionTime": TIME},
    ]
    assert kueues.stored(key)["status"] == {
        "conditions": [],
        "preemptionGates": [
            {"name": "x", "position": "Open", "lastTransitionTime": TIME},
            {"name": "y", "position": "Closed", "lastTransitionTime": TIME},
        ],
    }
    assert kueues.read(key).status.gate_statuses == GATES_WRITTEN.gate_statuses


@pytest.mark.parametrize(
    "gates, wrong",
    [
        pytest.param([{"name": "a.b/c"}, {"name": "d"}], None, id="two gates"),
        pytest.param([{"name": ""}], "spec.preemptionGates[0].name", id="one without a name"),
        pytest.param([{"name": "n" * 64}], "spec.preemptionGates[0].name", id="a name too long"),
        pytest.param([{"name": "a"}, {"name": "a"}], "spec.preemptionGates[1]", id="the same gate twice"),
        pytest.param([{"name": f"g{index}"} for index in range(9)], "spec.preemptionGates", id="too many"),
    ],
)
def test_the_definition_of_workloads_says_which_preemption_gates_there_can_be(server, gates, wrong):
    pod_sets = [{"name": "main", "template": {"spec": {"containers": []}}}]
    found = server.ask("POST", WORKLOADS, _named("Workload", "gated", podSets=pod_sets, preemptionGates=gates))
    assert found.code == (201 if wrong is None else 422)
    if wrong is not None:
        assert found.value["details"]["causes"][0]["field"] == wrong


@pytest.mark.parametrize(
    "state, wrong",
    [
        pytest.param({"state": "Open"}, None, id="the state alone"),
        pytest.param({"position": "Open"}, None, id="the position alone"),
        pytest.param({}, "status.preemptionGates[0]", id="neither"),
        pytest.param({"state": "Ajar"}, "status.preemptionGates[0].state", id="what is neither open nor closed"),
    ],
)
def test_whoever_opens_a_gate_says_so_in_either_field(server, state, wrong):
    entry = {"name": "g", "lastTransitionTime": TIME, **state}
    body = {"status": {"preemptionGates": [entry]}}
    found = server.ask("PATCH", f"{WORKLOADS}/w/status", body, MERGE_PATCH)
    assert found.code == (200 if wrong is None else 422)
    if wrong is not None:
        assert found.value["details"]["causes"][0]["field"] == wrong


def test_what_is_written_of_queues_is_what_is_read(server):
    queue, local = Key(Kind.CLUSTER_QUEUE, "", "cq"), Key(Kind.LOCAL_QUEUE, "default", "lq")
    server.perform(PatchStatus(at_version(server.read(queue)), ClusterQueueStatus((ACTIVE,), 1, 2, 3)))
    used = Consumption(amounts(5, 7), AT)
    server.perform(PatchStatus(at_version(server.read(local)), LocalQueueStatus((ACTIVE,), 1, 2, 3, consumption=used)))
    server.perform(PatchSpec(at_version(server.read(queue)), Finalizers(("a.b/c",))))
    assert (server.read(queue).conditions, server.read(queue).finalizers) == ((ACTIVE,), ("a.b/c",))
    assert (server.read(local).consumed, server.read(local).consumed_at) == (amounts(5, 7), AT)
    server.perform(PatchSpec(at_version(server.read(queue)), Finalizers(())))
    assert server.read(queue).finalizers == ()
