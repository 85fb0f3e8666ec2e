"""The subresources `scale` and `token`. What a real server answers: `tests/kubernetes/exchanges_scale.py`."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

import msgspec
import pytest

from headgate.apiserver import ApiServer, Json, Request, Response

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
MERGE = "application/merge-patch+json"
NOW = 1_000_000.0


def ask(server: ApiServer, method: str, path: str, body: Any = None, kind: str = "application/json") -> Response:
    return server.handle(Request(method, path, {}, b"" if body is None else msgspec.json.encode(body), kind), NOW)


def deployment(**spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    whole = {"selector": {"matchLabels": {"app": "x"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": whole}


def test_a_scale_changes_the_replicas_and_nothing_else():
    server = ApiServer()
    before = ask(server, "POST", DEPLOYMENTS, deployment()).value
    scaled = ask(server, "PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}, "status": {"replicas": 9}}, MERGE)
    assert (scaled.code, scaled.value["spec"], scaled.value["status"]["replicas"]) == (200, {"replicas": 3}, 0)
    assert scaled.value["status"]["selector"] == "app=x"
    after = ask(server, "GET", f"{DEPLOYMENTS}/d").value
    assert after["spec"] == {**before["spec"], "replicas": 3}
    assert after["metadata"]["generation"] == 2


@pytest.mark.parametrize("replicas", ["many", 1.5, True, None, [], -1])
def test_a_scale_that_is_no_count_is_refused(replicas: Any):
    server = ApiServer()
    ask(server, "POST", DEPLOYMENTS, deployment())
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": replicas}}
    assert ask(server, "PUT", f"{DEPLOYMENTS}/d/scale", scale).code in (400, 422)
    assert ask(server, "GET", f"{DEPLOYMENTS}/d").value["spec"]["replicas"] == 1


DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "herds.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "herds", "kind": "Herd"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.size.wanted",
                        "statusReplicasPath": ".status.size",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}
HERDS = "/apis/example.com/v1/namespaces/default/herds"


def test_a_custom_resource_is_scaled_where_its_definition_says():
    server = ApiServer()
    ask(server, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    herd = {"apiVersion": "example.com/v1", "kind": "Herd", "metadata": {"name": "h"}, "spec": {"size": {"wanted": 2}}}
    assert ask(server, "POST", HERDS, herd).code == 201
    ask(server, "PATCH", f"{HERDS}/h/status", {"status": {"size": 1, "selector": "a=b"}}, MERGE)
    scale = ask(server, "PATCH", f"{HERDS}/h/scale", {"spec": {"replicas": 5}}, MERGE).value
    assert (scale["spec"], scale["status"]) == ({"replicas": 5}, {"replicas": 1, "selector": "a=b"})
    assert ask(server, "GET", f"{HERDS}/h").value["spec"] == {"size": {"wanted": 5}}
    ask(server, "PATCH", f"{HERDS}/h", {"spec": None}, MERGE)
    assert ask(server, "GET", f"{HERDS}/h/scale").code == 500, "as on a real server: it has no replicas any more"


def account(server: ApiServer, name: str = "robot") -> None:
    made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    assert ask(server, "POST", ACCOUNTS, made).code == 201


def token_of(server: ApiServer, name: str = "robot", **spec: Any) -> str:
    answer = ask(server, "POST", f"{ACCOUNTS}/{name}/token", {"spec": spec})
    assert answer.code == 201, answer.value
    return str(answer.value["status"]["token"])


def test_a_token_is_that_of_its_account_until_it_expires():
    server = ApiServer(token_key=b"secret")
    account(server)
    token = token_of(server, expirationSeconds=600)
    assert server.account_of(token, NOW) == "system:serviceaccount:default:robot"
    assert server.account_of(token, NOW + 599) is not None
    assert server.account_of(token, NOW + 600) is None


def test_a_token_goes_with_its_account_and_is_not_that_of_the_next_one():
    server = ApiServer()
    account(server)
    token = token_of(server)
    ask(server, "DELETE", f"{ACCOUNTS}/robot")
    assert server.account_of(token, NOW) is None
    account(server)
    assert server.account_of(token, NOW) is None


def _forged(claims: Json) -> str:
    parts = ({"alg": "none"}, claims)
    return ".".join(urlsafe_b64encode(msgspec.json.encode(part)).decode().rstrip("=") for part in parts) + "."


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b.c",
        "..",
        _forged(
            {"sub": "system:serviceaccount:default:robot", "exp": 2**40, "aud": ["https://kubernetes.default.svc"]}
        ),
        "ü.ü.ü",
    ],
    ids=["nothing", "a letter", "three letters", "dots", "one without a signature", "other letters"],
)
def test_no_other_text_is_a_token(token: str):
    server = ApiServer()
    account(server)
    assert server.account_of(token, NOW) is None


def test_a_token_of_another_server_or_for_somebody_else_is_none_of_ours():
    server, other = ApiServer(token_key=b"one"), ApiServer(token_key=b"two")
    account(server)
    account(other)
    assert other.account_of(token_of(server), NOW) is None
    assert server.account_of(token_of(server, audiences=["vault"]), NOW) is None
