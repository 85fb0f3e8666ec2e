"""Kueue's kinds on a real kube-apiserver and on the small one: established, and answered for alike."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from importlib.resources import files

import exchanges_queues
import pytest
from cluster import Cluster
from exchanges import Step
from test_same_answers import ask_real, ask_small, essence, filled_in
from wire import Answer, Client

from headgate.api.decode import decode
from headgate.api.install_manifests import queue_definitions
from headgate.api.requests import calls_for
from headgate.apiserver import ApiServer
from headgate.model.effects import PatchStatus
from headgate.model.keys import Condition, Kind, Target
from headgate.model.queues import (
    Admission,
    CheckState,
    CheckStatus,
    EvictionCount,
    GateStatus,
    PodSetAssignment,
    PreemptionProposal,
    QueuedWorkload,
    QueuedWorkloadStatus,
    RequeueState,
)
from headgate.model.resources import Resources

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLUSTER_WIDE = ("CLUSTER_QUEUES", "COHORTS", "FLAVORS", "CHECKS", "CLASSES", "WORKERS", "FLEETS")


@pytest.fixture(scope="module")
def served(cluster: Cluster) -> None:
    """A real server has Kueue's kinds, by the files a user would apply."""
    for file in sorted((files("headgate.api") / "crds").iterdir(), key=lambda found: found.name):
        if file.name.startswith("kueue-"):
            cluster.kubectl("apply", "--server-side", "--filename", "-", text=file.read_text("utf-8"))
    cluster.wait_until_served(*(definition["metadata"]["name"] for definition in queue_definitions()))


@pytest.fixture
async def client(client: Client, served: None) -> AsyncIterator[Client]:
    """What an exchange leaves behind of the cluster-wide kinds goes when it ends."""
    yield client
    for kind in CLUSTER_WIDE:
        await client.delete(getattr(exchanges_queues, kind))


def small_server(namespace: str) -> ApiServer:
    small = ApiServer(tracks_fields=True)
    ask_small(small, Step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
    for definition in queue_definitions():
        answer = ask_small(small, Step("POST", DEFINITIONS, definition))
        assert answer.code == 201, answer.value
        found = ask_small(small, Step("GET", f"{DEFINITIONS}/{definition['metadata']['name']}")).value
        assert {one["type"]: one["status"] for one in found["status"]["conditions"]}["Established"] == "True"
    return small


@pytest.mark.parametrize("name", exchanges_queues.EXCHANGES)
async def test_both_servers_treat_queues_alike(client: Client, namespace: str, name: str) -> None:
    small = small_server(namespace)
    for number, step in enumerate(exchanges_queues.EXCHANGES[name]):
        real = await ask_real(client, filled_in(step, namespace, None))
        ours = ask_small(small, filled_in(step, namespace, None))
        assert essence(ours) == essence(real), f"step {number}: {step.method} {step.path}"


async def test_workloads_are_found_by_the_queue_that_let_them_in(client: Client, namespace: str) -> None:
    for step in (exchanges_queues.workload(), exchanges_queues.RESERVED):
        assert (await ask_real(client, filled_in(step, namespace, None))).code in (200, 201)
    path = exchanges_queues.WORKLOADS.replace("NS", namespace)
    found = {
        queue: len((await client.get(f"{path}?fieldSelector=status.admission.clusterQueue%3D{queue}"))["items"])
        for queue in ("cq", "other")
    }
    assert found == {"cq": 1, "other": 0}


@pytest.mark.parametrize(
    "short_name, columns",
    [
        pytest.param("cq", ["NAME", "COHORT", "STRATEGY", "PENDING WORKLOADS", "ADMITTED WORKLOADS"], id="queues"),
        pytest.param("mkc", ["NAME", "CONNECTED", "AGE"], id="worker clusters"),
        pytest.param("kwl", ["NAME", "QUEUE", "RESERVED IN", "ADMITTED", "FINISHED", "AGE"], id="workloads"),
    ],
)
async def test_kubectl_shows_the_columns_users_know(
    cluster: Cluster, client: Client, namespace: str, short_name: str, columns: list[str]
) -> None:
    worker = exchanges_queues.worker(kubeConfig={"location": "secret"})
    for step in (exchanges_queues.cluster_queue(), exchanges_queues.workload(), worker):
        assert (await ask_real(client, filled_in(step, namespace, None))).code == 201
    headings = cluster.kubectl("get", short_name, f"--namespace={namespace}", "--output=wide").splitlines()[0]
    assert [one for one in re.split(r" {2,}", headings) if one] == columns


AT = 1767225600.0
STATUS = QueuedWorkloadStatus(
    conditions=(Condition("QuotaReserved", "True", "QuotaReserved", "reserved", AT, 1),),
    admission=Admission("cq", (PodSetAssignment("main", (("cpu", "spot"),), Resources.of({"cpu": 1500}), 1),)),
    requeue=RequeueState(1, AT),
    reclaimable=(("main", 1),),
    checks=(CheckStatus("a", CheckState.READY, "fine", AT, 5, 1, b'[{"labels":{"a":"b"},"name":"main"}]'),),
    gate_statuses=(GateStatus("x", True, AT),),
    proposal=PreemptionProposal(True, 2, 5, 7, 3, AT),
    resource_requests=(("main", Resources.of({"memory": 1 << 30})),),
    past_execution_seconds=7,
    evictions=(EvictionCount("Preempted", "", 1),),
    nominated_clusters=("east",),
)


async def test_what_is_written_of_a_workload_is_what_is_read(client: Client, namespace: str) -> None:
    first = await ask_real(client, filled_in(exchanges_queues.workload(), namespace, None))
    stale = decoded(first)
    await write(client, Target(stale.key, stale.uid, stale.version), STATUS, 200)
    path = exchanges_queues.THE_WORKLOAD.replace("NS", namespace)
    written = decoded(await client.request("GET", path, b"", ""))
    assert written.status == STATUS
    await write(client, Target(stale.key, stale.uid, stale.version), QueuedWorkloadStatus(), 409)
    await write(client, Target(written.key, written.uid, written.version), QueuedWorkloadStatus(), 200)
    assert decoded(await client.request("GET", path, b"", "")).status == QueuedWorkloadStatus()


def decoded(answer: Answer) -> QueuedWorkload:
    found = decode(Kind.KUEUE_WORKLOAD, answer.body)
    assert isinstance(found, QueuedWorkload)
    return found


async def write(client: Client, target: Target, change: QueuedWorkloadStatus, code: int) -> None:
    for call in calls_for(PatchStatus(target, change), "headgate.dev/scheduler"):
        answer = await client.request(call.method, call.path, call.body, call.content_type)
        assert answer.code == code, answer.body
