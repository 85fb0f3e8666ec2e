"""Reviews of who somebody is and what they may do, and subresources of pods that only a kubelet could answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.apiserver import ApiServer, Json, Request, Response

AUTHORIZATION, AUTHENTICATION = "/apis/authorization.k8s.io/v1", "/apis/authentication.k8s.io/v1"
NOW = 1_000.0
ASKED: Json = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}


def ask(server: ApiServer, path: str, body: Any, method: str = "POST") -> Response:
    return server.handle(Request(method, path, {}, msgspec.json.encode(body), user="somebody"), NOW)


@pytest.mark.parametrize(
    "path",
    ["selfsubjectaccessreviews", "subjectaccessreviews", "namespaces/default/localsubjectaccessreviews"],
)
def test_whoever_is_known_may_do_everything(path: str):
    asked = ASKED if path.startswith("self") else {**ASKED, "user": "somebody"}
    answer = ask(ApiServer(), f"{AUTHORIZATION}/{path}", {"spec": asked})
    assert (answer.code, answer.value["status"]) == (201, {"allowed": True})
    assert answer.value["spec"] == asked


def test_an_access_review_of_another_names_somebody():
    answer = ask(ApiServer(), f"{AUTHORIZATION}/subjectaccessreviews", {"spec": ASKED})
    assert (answer.code, answer.value["details"]["causes"][0]["field"]) == (422, "spec.user")


@pytest.mark.parametrize("spec", [{}, {**ASKED, "nonResourceAttributes": {"path": "/", "verb": "get"}}])
def test_an_access_review_asks_one_thing(spec: Json):
    assert ask(ApiServer(), f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": spec}).code == 422


def test_the_rules_allow_everything():
    status = ask(ApiServer(), f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}).value[
        "status"
    ]
    assert status["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]


def test_somebody_learns_their_name():
    found = ask(ApiServer(), f"{AUTHENTICATION}/selfsubjectreviews", {}).value["status"]["userInfo"]
    assert found == {"username": "somebody", "groups": ["system:authenticated"]}


def test_a_token_is_reviewed():
    server, accounts = ApiServer(), "/api/v1/namespaces/default/serviceaccounts"
    ask(server, accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    token = ask(server, f"{accounts}/robot/token", {}).value["status"]["token"]
    status = ask(server, f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": token}}).value["status"]
    groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    user = {"username": "system:serviceaccount:default:robot", "groups": groups}
    assert status == {"authenticated": True, "user": user}
    other = ask(server, f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": "x"}}).value["status"]
    assert other == {"user": {}, "error": "invalid bearer token"}


@pytest.mark.parametrize(
    "path, method, code",
    [
        (f"{AUTHORIZATION}/selfsubjectaccessreviews", "GET", 405),
        (f"{AUTHENTICATION}/selfsubjectaccessreviews", "POST", 404),
        (f"{AUTHORIZATION}/nonsensereviews", "POST", 404),
    ],
    ids=["a review is not read", "a review of another group", "a review that is none"],
)
def test_no_other_review_is_answered(path: str, method: str, code: int):
    assert ask(ApiServer(), path, {}, method).code == code


@pytest.mark.parametrize("body", [b"", b"[]", b'{"kind":"Pod"}', b'{"spec":7}', b"\xff"])
def test_what_is_no_review_is_refused(body: bytes):
    answer = ApiServer().handle(Request("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {}, body), NOW)
    assert answer.code == 400


@pytest.mark.parametrize("name", ["log", "exec", "attach", "portforward", "proxy"])
def test_what_a_kubelet_would_answer_is_refused_and_says_why(name: str):
    server, pods = ApiServer(), "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert ask(server, f"{pods}/p/{name}", {}, "GET").code == 404
    ask(server, pods, {"apiVersion": "v1", "kind": "Pod", **pod})
    answer = ask(server, f"{pods}/p/{name}", {}, "GET")
    expected = f"{name} of pods is not served: no kubelet runs containers behind this API server"
    assert (answer.code, answer.value["message"]) == (501, expected)
