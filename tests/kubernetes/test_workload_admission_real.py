"""Workloads on a real cluster: the definition and its rules, and our webhooks asked over TLS under our own rights."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import exchanges_workloads
import pytest
import yaml
from children import free_port
from cluster import OWN_NAMESPACE, Cluster
from conftest import Start
from exchanges import Step, priority_class
from exchanges_workloads import DEFINITION, workload
from installing import CONFIGURATIONS, install, run_install, wait_until_asked, webhooks_installed
from objects import priority_classes
from ours import HEADGATE
from test_same_answers import ask_real, ask_small, essence, filled_in
from wire import Client

from headgate.api.install_manifests import definitions
from headgate.apiserver import ApiServer

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def defined(cluster: Cluster) -> None:
    """Our kind and the made-up one are there, and no webhooks yet."""
    install(cluster)
    cluster.define(DEFINITION)


@pytest.mark.usefixtures("defined")
@pytest.mark.parametrize("name", exchanges_workloads.EXCHANGES)
async def test_both_servers_judge_custom_resources_alike(client: Client, namespace: str, name: str) -> None:
    small = ApiServer(tracks_fields=True)
    ask_small(small, Step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
    for definition in (*definitions(), DEFINITION):
        assert ask_small(small, Step("POST", DEFINITIONS, definition)).code == 201
    for number, step in enumerate(exchanges_workloads.EXCHANGES[name]):
        real = await ask_real(client, filled_in(step, namespace, None))
        ours = ask_small(small, filled_in(step, namespace, None))
        assert essence(ours) == essence(real), f"step {number}: {step.method} {step.path}"


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def checked(cluster: Cluster, port: int, start: Start) -> Iterator[str]:
    """Our process is asked about new workloads. Afterwards nobody is, since nobody would answer."""
    with webhooks_installed(cluster, port, "--no-queues") as told:
        flags = ("--no-queues", "--no-leader-elect", "--lease-namespace", OWN_NAMESPACE)
        process = start("--webhook-listen", f"127.0.0.1:{port}", *flags)
        wait_until_asked(cluster, process)
        yield told
        process.stop()


def trusts(cluster: Cluster, kind: str) -> bool:
    hooks = json.loads(cluster.kubectl("get", kind, "headgate", "--output=json"))["webhooks"]
    return all(hook["clientConfig"].get("caBundle") for hook in hooks)


@pytest.fixture
async def classes(client: Client) -> AsyncIterator[None]:
    known = [
        priority_class("wl-high", 1000),
        priority_class("wl-low", 10),
        priority_class("wl-normal", 50, globalDefault=True),
    ]
    async with priority_classes(client, *known):
        yield


DENIED = 'admission webhook "validate.workloads.headgate.dev" denied the request: '


@pytest.mark.usefixtures("checked", "classes")
async def test_a_real_server_asks_us_about_new_workloads(client: Client, namespace: str) -> None:
    path = f"/apis/scheduling.headgate.dev/v1alpha1/namespaces/{namespace}/workloads"

    async def create(name: str, **spec: Any) -> tuple[int, Any]:
        answer = await client.request("POST", path, workload(name=name, **spec))
        return answer.code, answer.value.get("message") or answer.value["spec"]

    assert await create("a", priorityClassName="nope") == (403, DENIED + "no PriorityClass with name nope was found")
    assert await create("b", priorityClassName="wl-high", preemptionPriorityClassName="wl-low") == (
        403,
        f"{DENIED}the value of preemptionPriorityClassName wl-low (10) is below the value of priorityClassName wl-high "
        "(1000): workloads like this one would preempt each other without end",
    )
    code, spec = await create("c")
    assert (code, spec["priorityClassName"]) == (201, "wl-normal")
    code, spec = await create("d", priorityClassName="wl-low", preemptionPriorityClassName="wl-high")
    assert (code, spec["priorityClassName"]) == (201, "wl-low")
    code, message = await create("e", podGroups=[])
    assert (code, message.partition("invalid: ")[2]) == (
        422,
        "spec.podGroups: Invalid value: 0: spec.podGroups in body should have at least 1 items",
    )


def test_installing_again_changes_nothing_and_keeps_the_trust(cluster: Cluster, port: int, checked: str) -> None:
    assert "MutatingWebhookConfiguration headgate: created" in checked
    again = run_install(cluster.administrator, "--webhook-url", f"https://127.0.0.1:{port}", "--no-queues")
    outcomes = {line.rpartition(": ")[2] for line in again.stdout.splitlines() if ".kueue." not in line}
    assert outcomes == {"unchanged"}, again.stdout  # Kueue's kinds may have come from elsewhere
    assert all(trusts(cluster, kind) for kind in CONFIGURATIONS)


def test_who_may_not_install_is_told_so(own_account: Path) -> None:
    done = run_install(own_account)
    assert done.returncode == 1
    assert "is forbidden" in done.stderr


def test_what_a_dry_run_prints_can_be_applied(cluster: Cluster) -> None:
    printed = subprocess.run([HEADGATE, "install", "--dry-run"], capture_output=True, text=True, check=True).stdout
    kinds = [document["kind"] for document in yaml.safe_load_all(printed)]
    applied = cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename", "-", text=printed)
    assert len(applied.splitlines()) == len(kinds)
