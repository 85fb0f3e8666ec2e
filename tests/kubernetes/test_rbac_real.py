"""RBAC on the small Kubernetes and on a real one: they allow the same requests and refuse others in the same words."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from assets import program
from children import PATIENCE, settled
from cluster import Cluster
from exchanges import Step
from exchanges_rbac import CLUSTER_BINDINGS, CLUSTER_ROLES, EXCHANGES, REVIEWS
from ours import our_apiserver
from test_kubectl_session import shown
from test_same_answers import NOW, essence, filled_in
from test_same_webhooks import small_kubernetes
from wire import Answer, Client

from headgate.apiserver import ApiServer, AuthorizationMode, Request
from headgate.apiserver.authorization.default_roles import default_roles
from headgate.apiserver.messages import impersonated_groups

SPACE = "rbac-session"
ACCOUNT = f"system:serviceaccount:{SPACE}:robot"
SESSION = (
    f"create namespace {SPACE}",
    "create role reader --verb=get,list --resource=pods,configmaps",
    "create role namer --verb=get --resource=secrets --resource-name=one",
    "create rolebinding reader --role=reader --serviceaccount=rbac-session:robot",
    "create rolebinding namer --role=namer --group=namers",
    "create clusterrole session-nodes --verb=list --resource=nodes",
    "create clusterrolebinding session-nodes --clusterrole=session-nodes --user=session-jane",
    "create serviceaccount robot",
    "get roles",
    "get rolebindings",
    "get rolebindings -o wide",
    "get clusterrolebinding session-nodes -o wide",
    "get clusterrole session-nodes",
    f"auth can-i list pods --as={ACCOUNT}",
    f"auth can-i delete pods --as={ACCOUNT}",
    f"auth can-i get pods/log --as={ACCOUNT}",
    "auth can-i get secrets/one --as=session-jane --as-group=namers",
    "auth can-i get secrets/two --as=session-jane --as-group=namers",
    "auth can-i list nodes --as=session-jane",
    "auth can-i get /version --as=session-jane",
    "auth can-i get /nonsense --as=session-jane",
    "auth can-i * *",
    "auth can-i --list --as=session-jane --as-group=namers --as-group=others",
    f"auth can-i --list --as={ACCOUNT}",
    f"get configmaps --as={ACCOUNT}",
    f"create configmap m --as={ACCOUNT}",
    f"delete pods --all --as={ACCOUNT}",
    "get nodes --as=nobody-at-all",
    "auth whoami --as=session-jane --as-group=namers",
    "delete clusterrolebinding session-nodes",
    "auth can-i list nodes --as=session-jane",
    "delete clusterrole session-nodes",
    f"delete namespace {SPACE} --wait=false",
)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a `headgate apiserver` with RBAC."""
    with our_apiserver(tmp_path_factory.mktemp("ours"), "--authorization-mode=RBAC") as file:
        yield file


def kubectl(kubeconfig: Path, command: str) -> tuple[int, str, str]:
    space = [] if "namespace" in command else [f"--namespace={SPACE}"]
    asked = [str(program("kubectl")), f"--kubeconfig={kubeconfig}", *command.split(" "), *space]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.returncode, shown(done.stdout), shown(done.stderr)


def test_the_same_session_reads_the_same(cluster: Cluster, ours: Path) -> None:
    differing = []
    for command in SESSION:
        small, real = kubectl(ours, command), kubectl(cluster.administrator, command)
        deadline = time.monotonic() + PATIENCE
        while real != small and command.startswith("auth") and time.monotonic() < deadline:
            real = kubectl(cluster.administrator, command)  # its authorizer learns of bindings a moment later
        if real != small:
            differing.append(f"kubectl {command}\n  real: {real}\n  ours: {small}")
    assert not differing, "\n".join(differing)


def small_server() -> ApiServer:
    return ApiServer(tracks_fields=True, authorization=AuthorizationMode.RBAC)


def ask_small(server: ApiServer, user: str, groups: tuple[str, ...], step: Step) -> Answer:
    path, _, query = step.path.partition("?")
    who = (user, impersonated_groups(user, groups)) if user else ("system:admin", ())
    body = step.body if isinstance(step.body, bytes) else json.dumps(step.body).encode()
    request = Request(step.method, path, dict(parse_qsl(query)), body, step.content_type, who[0], groups=who[1])
    response = server.handle(request, NOW)
    return Answer(response.code, response.body)


async def ask_real(cluster: Cluster, user: str, groups: tuple[str, ...], step: Step) -> Answer:
    headers = [f"Impersonate-User: {user}", *(f"Impersonate-Group: {group}" for group in groups)] if user else []
    server = cluster.server._replace(headers="".join(f"{line}\r\n" for line in headers))
    async with Client(server) as client:
        return await client.request(step.method, step.path, step.body, step.content_type)


async def answer_of_real(cluster: Cluster, user: str, groups: tuple[str, ...], step: Step) -> Any:
    return essence(await ask_real(cluster, user, groups, step))


def has_changed_nothing(step: Step, answered: tuple[int, Any]) -> bool:
    return step.method == "GET" or step.path.startswith(REVIEWS) or answered[0] >= 400


@pytest.mark.parametrize("name", EXCHANGES)
async def test_both_servers_allow_the_same(cluster: Cluster, namespace: str, name: str) -> None:
    small = small_server()
    ask_small(small, "", (), Step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
    for number, (who, asked) in enumerate(EXCHANGES[name]):
        user, *groups = (each.replace("NS", namespace) for each in ((who,) if isinstance(who, str) else who))
        step = filled_in(asked, namespace, None)
        ours = essence(ask_small(small, user, tuple(groups), step))
        ask = partial(answer_of_real, cluster, user, tuple(groups), step)
        real = await settled(ask, ours, partial(has_changed_nothing, step))
        assert ours == real, f"step {number}: {who or 'administrator'}: {step.method} {step.path}"


async def test_the_default_roles_are_those_of_a_real_server(cluster: Cluster) -> None:
    """But for the rules of aggregated roles, which a controller manager would fill in."""
    for value in default_roles():
        path = CLUSTER_ROLES if value["kind"] == "ClusterRole" else CLUSTER_BINDINGS
        async with Client(cluster.server) as client:
            real = await client.get(f"{path}/{value['metadata']['name']}")
        metadata = {key: real["metadata"][key] for key in ("name", "labels", "annotations")}
        assert {**real, "metadata": metadata} == value


async def test_both_servers_tell_the_same_of_whom_one_acts_as(cluster: Cluster) -> None:
    headers = "Impersonate-User: joe\r\nImpersonate-Uid: u-1\r\nImpersonate-Group: a\r\n"
    headers += "Impersonate-Extra-Scopes: view\r\nImpersonate-Extra-Scopes: edit\r\nImpersonate-Extra-A%2fB: c\r\n"
    review = Step("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {"kind": "SelfSubjectReview"})
    review.body["apiVersion"] = "authentication.k8s.io/v1"
    async with Client(cluster.server._replace(headers=headers)) as real, small_kubernetes(headers) as ours:
        told = [await client.request(review.method, review.path, review.body) for client in (real, ours)]
    assert [answer.code for answer in told] == [201, 201]
    assert told[1].value["status"] == told[0].value["status"]
