"""`matchConditions` of webhooks: which writes they spare, and what happens where they cannot be told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from apiserver_client import MERGE
from msgspec import structs
from rules_builders import Stored, cluster_wide, created, judge, mutated, operation, pod, with_metadata

from headgate.apiserver import Allowed, ApiError, ApiServer, Denied, Json, Operation, Request, WebhookAdmission

NAME = "gate.example.com"
RULE = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*/*", "*"]}
ACCOUNT = "system:serviceaccount:ours:it"
POD, NAMESPACE = created(pod()), cluster_wide("Namespace", "team-a")
LABELLED = with_metadata(POD, labels={"a.b/c": "d"})
CREATED, UPDATED = operation("CREATE", POD), operation("UPDATE", LABELLED, POD)
DELETED, OF_STATUS = operation("DELETE", None, POD), operation("UPDATE", POD, POD, "status")
NO_SPEC = "object.spec.nothing == 'x'"
FAILS = f"expression '{NO_SPEC}' resulted in error: no such key: nothing"
DIGITS = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
COSTLY = f"{DIGITS}.all(a, {DIGITS}.all(b, {DIGITS}.all(c, {DIGITS}.all(d, {DIGITS}.all(e, true)))))"


def conditions(*expressions: str) -> list[Json]:
    return [{"name": f"condition-{index}", "expression": text} for index, text in enumerate(expressions)]


def stored(kind: str, *expressions: str, **fields: Any) -> Stored:
    hook = {"name": NAME, "rules": [RULE], "matchConditions": conditions(*expressions), **fields}
    configuration = {"metadata": {"name": "ours", "resourceVersion": "1"}, "webhooks": [hook]}
    return Stored(**{f"{kind}webhookconfigurations": [configuration]})


def asked(step: Operation, *expressions: str, **fields: Any) -> bool:
    told: list[Operation] = []

    def listen(heard: Operation) -> Allowed:
        told.append(heard)
        return Allowed()

    judge({NAME: listen}, step, stored("validating", *expressions, **fields))
    return bool(told)


def by(user: str, step: Operation = CREATED) -> Operation:
    return structs.replace(step, user=user)


@pytest.mark.parametrize(
    "step, expressions, expected",
    [
        pytest.param(CREATED, (), True, id="no condition"),
        pytest.param(CREATED, ("true", "true"), True, id="all hold"),
        pytest.param(CREATED, ("true", "false"), False, id="one does not hold"),
        pytest.param(by("someone"), ("request.userInfo.username != 'someone'",), False, id="this user is spared"),
        pytest.param(by("another"), ("request.userInfo.username != 'someone'",), True, id="another is not"),
        pytest.param(
            by(ACCOUNT),
            ("'system:serviceaccounts:ours' in request.userInfo.groups",),
            True,
            id="accounts of a namespace",
        ),
        pytest.param(by(ACCOUNT), ("'system:serviceaccounts' in request.userInfo.groups",), True, id="accounts"),
        pytest.param(by("jane"), ("'system:serviceaccounts' in request.userInfo.groups",), False, id="no account"),
        pytest.param(by("jane"), ("'system:authenticated' in request.userInfo.groups",), True, id="anyone known"),
        pytest.param(by("jane"), ("has(request.userInfo.uid)",), False, id="a user whose uid is not told"),
        pytest.param(CREATED, ("request.operation == 'CREATE'",), True, id="this operation"),
        pytest.param(UPDATED, ("request.operation == 'CREATE'",), False, id="another operation"),
        pytest.param(CREATED, ("request.kind.kind == 'Pod' && request.kind.version == 'v1'",), True, id="its kind"),
        pytest.param(CREATED, ("request.resource.resource == 'pods'",), True, id="its resource"),
        pytest.param(CREATED, ("request.requestResource == request.resource",), True, id="its resource as asked for"),
        pytest.param(OF_STATUS, ("request.subResource == 'status'",), True, id="its subresource"),
        pytest.param(CREATED, ("has(request.subResource)",), False, id="no subresource: no such field"),
        pytest.param(CREATED, ("request.name == 'it' && request.namespace == 'default'",), True, id="its name"),
        pytest.param(
            operation("CREATE", NAMESPACE), ("request.namespace == 'team-a'",), True, id="a namespace is its own"
        ),
        pytest.param(CREATED, ("request.dryRun",), False, id="in earnest"),
        pytest.param(structs.replace(CREATED, dry_run=True), ("request.dryRun",), True, id="not in earnest"),
        pytest.param(UPDATED, ("object.metadata.labels['a.b/c'] == 'd'",), True, id="the object as it is to be"),
        pytest.param(UPDATED, ("has(oldObject.metadata.labels)",), False, id="the object as it was"),
        pytest.param(CREATED, ("oldObject == null",), True, id="a new object was nothing before"),
        pytest.param(DELETED, ("object == null",), True, id="a deleted object is nothing after"),
        pytest.param(CREATED, (NO_SPEC, "false"), False, id="one that does not hold outweighs one that fails"),
        pytest.param(
            CREATED, (NO_SPEC, "request.operation == 'DELETE'"), False, id="also one that is told from the operation"
        ),
    ],
)
def test_who_is_asked_on_conditions(step: Operation, expressions: tuple[str, ...], expected: bool) -> None:
    assert asked(step, *expressions) is expected


@pytest.mark.parametrize(
    "expressions, why",
    [
        pytest.param((NO_SPEC,), FAILS, id="it cannot be evaluated"),
        pytest.param(("true", NO_SPEC), FAILS, id="the others hold"),
        pytest.param((NO_SPEC, NO_SPEC), FAILS, id="the same trouble is told once"),
        pytest.param(
            (NO_SPEC, "request.subResource == 'x'"),
            f"[{FAILS}, expression 'request.subResource == 'x'' resulted in error: no such key: subResource]",
            id="two cannot",
        ),
        pytest.param(
            ("request.name",),
            "expression 'request.name' resulted in error: must evaluate to bool",
            id="neither yes nor no",
        ),
        pytest.param(
            (COSTLY,),
            f"expression '{COSTLY}' resulted in error: operation cancelled: actual cost limit exceeded",
            id="it costs too much",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_a_condition_that_fails_refuses_or_is_passed_by(kind: str, expressions: tuple[str, ...], why: str) -> None:
    def answer(step: Operation) -> Allowed:
        raise AssertionError("it is not asked")

    def pass_by(**fields: Any) -> None:
        catalog = stored(kind, *expressions, **fields)
        mutated({NAME: answer}, CREATED, catalog)
        judge({NAME: answer}, CREATED, catalog)

    pass_by(failurePolicy="Ignore")
    with pytest.raises(ApiError) as refusal:
        pass_by(failurePolicy="Fail")
    assert (refusal.value.code, refusal.value.reason) == (403, "Forbidden")
    assert refusal.value.message == f'pods "it" is forbidden: {why}'


def test_an_expression_that_does_not_compile_fails() -> None:
    with pytest.raises(ApiError, match=r"is forbidden: compilation error: compilation failed: .*undeclared reference"):
        asked(CREATED, "nobody.knows")
    assert not asked(CREATED, "nobody.knows", failurePolicy="Ignore")


def test_conditions_of_a_mutating_webhook_see_what_those_before_it_made() -> None:
    def label(step: Operation) -> Allowed:
        assert step.new is not None
        return Allowed(with_metadata(step.new, labels={"seen": "yes"}))

    def annotate(step: Operation) -> Allowed:
        assert step.new is not None
        return Allowed(with_metadata(step.new, annotations={"asked": "second"}))

    only_labelled = conditions("has(object.metadata.labels) && 'seen' in object.metadata.labels")
    hooks = [
        {"name": "first", "rules": [RULE]},
        {"name": "second", "rules": [RULE], "matchConditions": only_labelled},
    ]
    catalog = Stored(mutatingwebhookconfigurations=[{"metadata": {"name": "ours"}, "webhooks": hooks}])
    changed = mutated({"first": label, "second": annotate}, CREATED, catalog)
    assert changed is not None
    assert changed["metadata"]["annotations"] == {"asked": "second"}


def test_a_server_knows_who_writes() -> None:
    server = ApiServer(admission=(WebhookAdmission({NAME: lambda step: Denied("no")}),))
    hook = {
        "name": NAME,
        "rules": [{**RULE, "resources": ["namespaces"]}],
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": conditions(f"request.userInfo.username != '{ACCOUNT}'"),
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    ask(server, "POST", path, {"metadata": {"name": "ours"}, "webhooks": [hook]})
    assert ask(server, "POST", "/api/v1/namespaces", NAMESPACE, ACCOUNT) == 201
    change = {"metadata": {"labels": {"a": "b"}}}
    for _ in range(2):
        assert ask(server, "PATCH", "/api/v1/namespaces/team-a", change, "someone", MERGE) == 400
        assert ask(server, "PATCH", "/api/v1/namespaces/team-a", change, ACCOUNT, MERGE) == 200
    server.handle(Request("DELETE", f"{path}/ours"), 0.0)
    assert ask(server, "PATCH", "/api/v1/namespaces/team-a", change, "someone", MERGE) == 200


def ask(
    server: ApiServer, method: str, path: str, value: Json, user: str = "system:admin", kind: str = "application/json"
) -> int:
    return server.handle(Request(method, path, {}, msgspec.json.encode(value), kind, user), 0.0).code
