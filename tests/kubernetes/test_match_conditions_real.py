"""Webhooks with `matchConditions`: the small Kubernetes asks, spares and refuses as a real one does."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from children import PATIENCE
from objects import pods_path
from wire import Answer, Client

from headgate.apiserver import ADMISSION, Allowed, ApiServer, Operation, Request, WebhookAdmission
from headgate.apiserver.admission.webhooks import Unreachable

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NAME = "nobody.example.com"
CASES = {
    "all hold": (("true", "request.operation == 'CREATE'"), "Fail", 500),
    "one does not hold": (("true", "request.kind.kind == 'Node'"), "Fail", 201),
    "this user is spared": (("!('system:authenticated' in request.userInfo.groups)",), "Fail", 201),
    "no subresource: no such field": (("has(request.subResource)",), "Fail", 201),
    "a new object was nothing before": (("oldObject != null",), "Fail", 201),
    "its own name and namespace": (("request.name != object.metadata.name",), "Fail", 201),
    "one fails": (("object.spec.nothing == 'x'",), "Fail", 403),
    "two fail": (("object.spec.nothing == 'x'", "request.subResource == 'x'"), "Fail", 403),
    "one that does not hold outweighs one that fails": (("object.spec.nothing == 'x'", "false"), "Fail", 201),
    "one fails and that may be ignored": (("object.spec.nothing == 'x'",), "Ignore", 201),
}


def configuration(namespace: str, expressions: tuple[str, ...], policy: str) -> dict[str, Any]:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    hook = {
        "name": NAME,
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "matchConditions": [{"name": f"c{place}", "expression": text} for place, text in enumerate(expressions)],
        "failurePolicy": policy,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    everyone = {**hook, "name": "begun.example.com", "matchConditions": [], "failurePolicy": "Fail"}
    probes = {**everyone, "objectSelector": {"matchLabels": {"is": "probe"}}}
    return {"metadata": {"name": namespace}, "webhooks": [hook, probes]}


def manifest(**metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "none"}], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it", **metadata}, "spec": spec}


async def begun(client: Client, pods: str) -> None:
    """A server takes a moment to heed a new configuration."""
    async with asyncio.timeout(PATIENCE):
        probe = json.dumps(manifest(labels={"is": "probe"})).encode()
        while (await client.request("POST", f"{pods}?dryRun=All", probe)).code == 201:
            await asyncio.sleep(0.05)


def unreachable(_operation: Operation) -> Allowed:
    raise Unreachable("connection refused")


def answer_of_small(namespace: str, written: dict[str, Any]) -> Answer:
    server = ApiServer(admission=(*ADMISSION, WebhookAdmission({NAME: unreachable})))
    ask(server, "/api/v1/namespaces", {"metadata": {"name": namespace}})
    ask(server, CONFIGURATIONS, written)
    return ask(server, pods_path(namespace), manifest())


def ask(server: ApiServer, path: str, value: dict[str, Any]) -> Answer:
    response = server.handle(Request("POST", path, {}, json.dumps(value).encode()), 1_800_000_000.0)
    return Answer(response.code, response.body)


@pytest.mark.parametrize("name", CASES)
async def test_both_servers_heed_conditions_alike(client: Client, namespace: str, name: str) -> None:
    expressions, policy, code = CASES[name]
    written = configuration(namespace, expressions, policy)
    await client.create(CONFIGURATIONS, written)
    try:
        await begun(client, pods_path(namespace))
        real = await client.request("POST", pods_path(namespace), json.dumps(manifest()).encode())
    finally:
        await client.delete(f"{CONFIGURATIONS}/{namespace}")
    small = answer_of_small(namespace, written)
    assert (small.code, real.code) == (code, code)
    if code == 403:
        assert small.value == real.value
