"""Pod scheduling readiness on a real cluster: what a server allows, what our process does, and what people see."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import exchanges_gates
import pytest
from children import eventually
from cluster import Cluster
from conftest import Start
from gatekeepers import Gatekeeper
from metering import pending, scrape, values_of
from objects import Manifest, create_nodes, create_pods, node, pod, pods_path
from ours import OurProcess
from test_same_answers import ask_real, ask_small, essence, filled_in
from watching import PodWatch
from wire import Client

from headgate.apiserver import ApiServer, Request
from headgate.model.settings import Settings

PATIENT = {"podInitialBackoffSeconds": 600, "podMaxBackoffSeconds": 600}
"""Of a scheduler under which whatever is bound in the time of a test was not made to wait for another try."""
TOLD = "Scheduling is blocked due to non-empty scheduling gates"
PLUGIN_PACKAGE = Path(__file__).resolve().parents[1] / "plugins" / "annotation_gate"
QUOTA, BUDGET, LICENCE = (f"example.com/{name}" for name in ("quota", "budget", "licence"))


def gated(name: str, *gates: str, **fields: Any) -> Manifest:
    return pod(name, schedulingGates=[{"name": gate} for gate in gates], **fields)


@pytest.mark.parametrize("name", exchanges_gates.EXCHANGES)
async def test_the_table_holds_on_a_real_server_and_on_ours(client: Client, namespace: str, name: str) -> None:
    steps, codes = exchanges_gates.EXCHANGES[name]
    small = ApiServer(tracks_fields=True)
    small.handle(Request("POST", "/api/v1/namespaces", {}, json.dumps({"metadata": {"name": namespace}}).encode()), 0.0)
    real = [await ask_real(client, filled_in(step, namespace, None)) for step in steps]
    ours = [ask_small(small, filled_in(step, namespace, None)) for step in steps]
    assert tuple(answer.code for answer in real) == codes
    assert [essence(answer) for answer in ours] == [essence(answer) for answer in real]


async def test_a_gated_pod_waits_while_others_go_and_goes_as_soon_as_its_gates_are_gone(
    client: Client, namespace: str, pods: PodWatch, start: Start, tmp_path: Path
) -> None:
    await create_nodes(client, [node("first")])
    start("--no-leader-elect", "--config", written(tmp_path, {"scheduler": PATIENT}))
    await create_pods(client, namespace, [gated("held", QUOTA, BUDGET)])
    await pods.until("it is told what it waits for", lambda: says(pods, "held") == TOLD)
    await create_pods(client, namespace, [pod("later")])
    await pods.until("a pod created later is bound", lambda: pods.node_of("later") == "first")
    assert reason(pods, "held") == "SchedulingGated"
    assert pods.node_of("held") == ""

    await set_gates(client, namespace, "held")

    await pods.until("it is bound", lambda: pods.node_of("held") == "first")


async def test_two_controllers_that_know_nothing_of_each_other_agree_on_every_pod(
    cluster: Cluster, client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    names = sorted(f"pod-{index}" for index in range(50))
    await create_nodes(client, [node(f"node-{index}") for index in range(5)])
    start("--no-leader-elect")
    await create_pods(client, namespace, [gated(name, QUOTA, BUDGET) for name in names[:25]])

    async with Gatekeeper(cluster.server, namespace, QUOTA) as quota:
        await create_pods(client, namespace, [gated(name, BUDGET, QUOTA) for name in names[25:]])
        await pods.until("one has agreed to all", lambda: gates_left(pods, names) == {(BUDGET,)})
        await create_pods(client, namespace, [pod("free")])
        await pods.until("a pod without gates is bound", lambda: pods.node_of("free") != "")
        assert pods.bound == 1, "one of two is not enough"
        async with Gatekeeper(cluster.server, namespace, BUDGET) as budget:
            await pods.until("all pods are bound", lambda: pods.bound == 51)

    # Each took off its own gate of each pod, so nobody else did.
    assert sorted(quota.agreed) == sorted(budget.agreed) == names


async def test_the_server_says_that_a_pod_is_gated_and_events_come_once(
    cluster: Cluster, client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    await create_nodes(client, [node("small", cpu="1")])
    start("--no-leader-elect")
    await create_pods(client, namespace, [gated("it", QUOTA, BUDGET, LICENCE, cpu="2")])
    for left in ((QUOTA, BUDGET, LICENCE), (QUOTA, LICENCE), (LICENCE,)):
        await set_gates(client, namespace, "it", *left)
        await pods.until(f"it waits for {left}", partial(waits, pods, "it"))
        assert status_column(cluster, namespace, "it") == "SchedulingGated"

    await set_gates(client, namespace, "it")

    await pods.until("it is tried, and told that it does not fit", lambda: reason(pods, "it") == "Unschedulable")
    assert status_column(cluster, namespace, "it") == "Pending"
    await create_nodes(client, [node("large", cpu="4")])
    await pods.until("it is bound", lambda: pods.node_of("it") == "large")
    assert status_column(cluster, namespace, "it") == "Pending", "there is no kubelet to start it"
    counts = eventually("its story is told to the end", lambda: events_to_the_end(cluster, namespace, "it"))
    assert counts == {"FailedScheduling": 1, "Scheduled": 1}, "gates cost no calls"


async def test_events_come_once_however_quickly_gates_and_conditions_change(
    cluster: Cluster, client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    names = [f"pod-{index}" for index in range(100)]
    await create_nodes(client, [node("full", cpu="50m")])
    start("--no-leader-elect")
    async with Gatekeeper(cluster.server, namespace, QUOTA), Gatekeeper(cluster.server, namespace, BUDGET):
        await create_pods(client, namespace, [gated(name, QUOTA, BUDGET) for name in names])
        await pods.until("none fits", lambda: {reason(pods, name) for name in names} == {"Unschedulable"})
    await create_nodes(client, [node("roomy", cpu="64")])
    told_of = eventually("all bindings are told", lambda: events_of_all(cluster, namespace, 100))
    again = {(name, why): times for (name, why), times in told_of.items() if "Gate" in why and times > 1}
    assert again == {}


async def test_managed_fields_name_the_owner_of_a_gate_and_never_us(
    client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    await create_nodes(client, [node("roomy", cpu="64")])
    start("--no-leader-elect")
    body = json.dumps(gated("it", QUOTA)).encode()
    await client.request("POST", f"{pods_path(namespace)}?fieldManager=quota-manager", body, "application/json")
    await pods.until("it is held", partial(waits, pods, "it"))
    seen = json.loads((await client.request("GET", f"{pods_path(namespace)}/it", b"", "")).body)
    managers = {
        entry["manager"]
        for entry in seen["metadata"]["managedFields"]
        if "f:schedulingGates" in entry["fieldsV1"].get("f:spec", {})
    }
    assert managers == {"quota-manager"}


async def test_a_pod_narrowed_while_gated_goes_where_it_was_narrowed_to(
    client: Client, namespace: str, pods: PodWatch, start: Start, tmp_path: Path
) -> None:
    await create_nodes(client, [node("roomy", cpu="64"), in_zone("a"), in_zone("b")])
    start("--no-leader-elect", "--config", written(tmp_path, {"scheduler": PATIENT}))
    await create_pods(client, namespace, [gated("it", QUOTA)])
    await pods.until("it is held", lambda: says(pods, "it") == TOLD)

    await client.patch(f"{pods_path(namespace)}/it", {"spec": {"nodeSelector": {"zone": "b"}}})
    await set_gates(client, namespace, "it")

    await pods.until("it is bound where it was sent", lambda: pods.node_of("it") == "in-b")


async def test_a_plugin_of_another_package_holds_pods_until_it_lets_go(
    client: Client, namespace: str, pods: PodWatch, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed(PLUGIN_PACKAGE, tmp_path)))
    plugins = {"preEnqueue": {"enabled": [{"name": "AnnotationGate"}]}}
    configuration = written(tmp_path, {"scheduler": {**PATIENT, "profiles": [{"plugins": plugins}]}})
    await create_nodes(client, [node("first")])
    process = start("--no-leader-elect", "--config", configuration)
    held = pod("held")
    held["metadata"]["annotations"] = {"example.com/hold": "budget review"}
    await create_pods(client, namespace, [held])
    await pods.until("it says why", lambda: says(pods, "held") == "held by its owner: budget review")
    assert reason(pods, "held") == "SchedulingGated"
    await create_pods(client, namespace, [pod("free")])
    await pods.until("others go", lambda: pods.node_of("free") == "first")
    assert pods.node_of("held") == ""
    expect_pending(process, active=0, backoff=0, unschedulable=0, gated=1)

    await client.patch(f"{pods_path(namespace)}/held", {"metadata": {"annotations": {"example.com/hold": None}}})

    await pods.until("it is bound", lambda: pods.node_of("held") == "first")


async def test_metrics_count_the_pods_of_each_queue_and_time_the_plugin(
    client: Client, namespace: str, pods: PodWatch, start: Start, tmp_path: Path
) -> None:
    await create_nodes(client, [node("first", cpu="1")])
    process = start("--no-leader-elect", "--config", written(tmp_path, {"scheduler": PATIENT}))
    refused = [pod(f"big-{index}", cpu=f"{2 + index}") for index in range(3)]
    await create_pods(client, namespace, [*refused, *(gated(f"held-{index}", QUOTA) for index in range(4))])
    expect_pending(process, active=0, backoff=0, unschedulable=3, gated=4)

    await create_nodes(client, [node("second", cpu="1")])  # worth another look for all that were refused
    expect_pending(process, active=0, backoff=3, unschedulable=0, gated=4)

    await set_gates(client, namespace, "held-0")
    await pods.until("the released pod is bound", lambda: pods.bound == 1)
    expect_pending(process, active=0, backoff=3, unschedulable=0, gated=3)
    timed = values_of(scrape(process), "scheduler_plugin_execution_duration_seconds_count", plugin="SchedulingGates")
    assert {point for point, _ in timed} == {"PreEnqueue"}
    assert sum(timed.values()) >= 8  # each pod at least once


async def test_pods_whose_turn_has_not_come_are_counted_as_active(
    client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    await create_nodes(client, [node(f"node-{index}") for index in range(60)])
    await create_pods(client, namespace, [pod(f"pod-{index}") for index in range(2000)])
    process = start("--no-leader-elect")
    active, bound = eventually("some wait for their turn", lambda: active_and_bound(process))
    assert active + bound + Settings().max_in_flight >= 2000, "those whose binding is not answered are neither"
    assert active + bound <= 2000
    await pods.until("all pods are bound", lambda: pods.bound == 2000, 240)
    expect_pending(process, active=0, backoff=0, unschedulable=0, gated=0)


async def test_gated_and_refused_pods_outlast_an_outage_and_go_on_afterwards(
    cluster: Cluster, client: Client, namespace: str, pods: PodWatch, start: Start
) -> None:
    held = [f"held-{index}" for index in range(10)]
    await create_nodes(client, [node("small", cpu="1")])
    process = start("--no-leader-elect")
    await create_pods(client, namespace, [pod("big", cpu="2"), *(gated(name, QUOTA, BUDGET) for name in held)])
    await pods.until("one is refused", lambda: reason(pods, "big") == "Unschedulable")
    await pods.until("the others are held", lambda: {says(pods, name) for name in held} == {TOLD})

    with cluster.outage():
        eventually("the outage is noticed", lambda: "retrying" in process.written())
        expect_pending(process, active=0, backoff=0, unschedulable=1, gated=10)

    async with Client(cluster.server) as again:
        await set_gates(again, namespace, held[0], BUDGET)
        await pods.until("one gate is gone", lambda: gates_left(pods, held[:1]) == {(BUDGET,)})
        assert pods.bound == 0
        assert gates_left(pods, held[1:]) == {(QUOTA, BUDGET)}
        await asyncio.gather(*(set_gates(again, namespace, name) for name in held))
        await create_nodes(again, [node("large", cpu="4")])
        await pods.until("all are bound", lambda: pods.bound == 11)
    assert process.running
    assert "Traceback" not in process.written()


# what the tests do


async def set_gates(client: Client, namespace: str, name: str, *left: str) -> None:
    await client.patch(
        f"{pods_path(namespace)}/{name}", {"spec": {"schedulingGates": [{"name": gate} for gate in left]}}
    )


def in_zone(zone: str) -> Manifest:
    made = node(f"in-{zone}")
    made["metadata"]["labels"]["zone"] = zone
    return made


def written(folder: Path, configuration: object) -> str:
    file = folder / "headgate.yaml"
    file.write_text(json.dumps(configuration))
    return str(file)


def installed(package: Path, folder: Path) -> Path:
    """The folder it is installed into, built from a copy so that nothing is left beside its sources."""
    source = shutil.copytree(package, folder / "source")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *options,
        "--target",
        folder / "installed",
        source,
    ]
    subprocess.run(command, check=True)
    return folder / "installed"


# what the tests look at


def says(pods: PodWatch, name: str) -> str:
    condition = pods.pods[name].condition("PodScheduled") if name in pods.pods else None
    return condition.message if condition else ""


def waits(pods: PodWatch, name: str) -> bool:
    return says(pods, name) == TOLD


def reason(pods: PodWatch, name: str) -> str:
    condition = pods.pods[name].condition("PodScheduled") if name in pods.pods else None
    return condition.reason if condition else ""


def gates_left(pods: PodWatch, names: list[str]) -> set[tuple[str, ...]]:
    """Every combination of gates that one of these pods still has; none for a pod not seen yet."""
    seen = [pods.pods[name].spec.schedulingGates if name in pods.pods else None for name in names]
    return {tuple(gate["name"] for gate in gates) if gates is not None else ("not seen",) for gates in seen}


def status_column(cluster: Cluster, namespace: str, name: str) -> str:
    return cluster.kubectl("get", "pod", name, f"--namespace={namespace}", "--no-headers").split()[2]


def events_to_the_end(cluster: Cluster, namespace: str, name: str) -> Counter[str] | None:
    """How often each reason was given, once its refusal and its binding, the last of its story, are among them."""
    selector = f"--field-selector=involvedObject.name={name}"
    shown = json.loads(cluster.kubectl("get", "events", f"--namespace={namespace}", selector, "--output=json"))
    counts = Counter(event["reason"] for event in shown["items"])
    return counts if counts["FailedScheduling"] and counts["Scheduled"] else None


def events_of_all(cluster: Cluster, namespace: str, bound: int) -> Counter[tuple[str, str]] | None:
    """How often each pod was given each reason, once that many are told to be bound."""
    shown = json.loads(cluster.kubectl("get", "events", f"--namespace={namespace}", "--output=json"))
    counts = Counter((event["involvedObject"]["name"], event["reason"]) for event in shown["items"])
    return counts if sum(reason == "Scheduled" for _, reason in counts) == bound else None


def active_and_bound(process: OurProcess) -> tuple[float, float] | None:
    """How many wait for their turn and how many were bound, while some still wait."""
    scraped = scrape(process)
    active = pending(scraped).get("active")
    return (active, sum(values_of(scraped, "scheduler_schedule_attempts_total").values())) if active else None


def expect_pending(process: OurProcess, **expected: int) -> None:
    eventually(f"pending pods are {expected}", lambda: pending(scrape(process)) == expected)
