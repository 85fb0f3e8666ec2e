"""ValidatingAdmissionPolicies on the small Kubernetes and on a real one: both store and refuse the same."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from assets import program
from children import Child, eventually
from cluster import Cluster
from exchanges import Step
from exchanges_policies import BINDINGS, EXCHANGES, POLICIES, binding, policy
from test_kubectl_session import shown
from test_same_answers import ask_real, ask_small, essence, filled_in
from wire import Client

from headgate.apiserver import ApiServer, AuthorizationMode

PATIENCE = 100  # tenths of a second


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
        ours, real = essence(ask_small(small, step)), essence(await ask_real(client, step))
        for _ in range(PATIENCE if "dryRun" in step.path else 0):
            if ours == real:
                break
            await asyncio.sleep(0.1)  # a real server learns of policies and parameters from a watch
            real = essence(await ask_real(client, step))
        assert ours == real, f"step {number}: {step.method} {step.path}"


SPACE = "policy-session"
WARNING = (policy("false", name="warned"), binding("warned", "warned", validationActions=["Warn", "Audit"]))


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "kubeconfig"
    server = Child([sys.executable, "-m", "headgate", "apiserver", "--kubeconfig", file], tmp_path / "apiserver.log")
    eventually("our API server is up", file.exists)
    yield file
    server.stop()


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
