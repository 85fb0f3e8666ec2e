"""ValidatingAdmissionPolicies on the small Kubernetes and on a real one: both store and refuse the same."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from assets import program
from children import eventually, settled
from cluster import Cluster
from exchanges import Step
from exchanges_policies import BINDINGS, EXCHANGES, POLICIES, binding, policy
from ours import our_apiserver
from test_kubectl_session import shown
from test_same_answers import ask_real, ask_small, essence, filled_in
from wire import Client

from headgate.apiserver import ApiServer, AuthorizationMode


@pytest.fixture
async def client(client: Client) -> AsyncIterator[Client]:
    """Takes away what an exchange left behind."""
    yield client
    for path in (BINDINGS, POLICIES):
        for found in (await client.get(path))["items"]:
            await client.delete(f"{path}/{found['metadata']['name']}")


@pytest.mark.parametrize("name", EXCHANGES)
async def test_both_servers_answer_alike(client: Client, namespace: str, name: str) -> None:
    small = ApiServer(tracks_fields=True, authorization=AuthorizationMode.RBAC)
    ask_small(small, Step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
    for number, given in enumerate(EXCHANGES[name]):
        step = filled_in(given, namespace, None)
        ours, ask = essence(ask_small(small, step)), partial(answer_of_real, client, step)
        real = await settled(ask, ours) if "dryRun" in step.path else await ask()
        assert ours == real, f"step {number}: {step.method} {step.path}"


async def answer_of_real(client: Client, step: Step) -> Any:
    return essence(await ask_real(client, step))


SPACE = "policy-session"
WARNING = (policy("false", name="warned"), binding("warned", "warned", validationActions=["Warn", "Audit"]))


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Path]:
    with our_apiserver(tmp_path) as file:
        yield file


def kubectl(kubeconfig: Path, *command: str, text: str = "") -> tuple[int, str, str]:
    asked = [str(program("kubectl")), f"--kubeconfig={kubeconfig}", *command]
    done = subprocess.run(asked, input=text, capture_output=True, text=True, check=False)
    return done.returncode, shown(done.stdout), shown(done.stderr)


def test_kubectl_shows_the_same_warnings_and_columns(cluster: Cluster, client: Client, ours: Path) -> None:
    seen = []
    for file in (cluster.administrator, ours):
        kubectl(file, "create", "namespace", SPACE)
        for each in WARNING:
            kubectl(file, "create", "-f", "-", text=json.dumps(each).replace("NS", SPACE))
        asked = ("create", "configmap", "it", f"--namespace={SPACE}", "--dry-run=server")
        eventually("the policy is in force", lambda file=file, asked=asked: kubectl(file, *asked)[2])
        tables = [kubectl(file, "get", f"validatingadmission{kind}") for kind in ("policies", "policybindings")]
        seen.append((kubectl(file, *asked), tables))
    assert seen[0] == seen[1]
