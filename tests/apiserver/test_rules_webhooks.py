"""Admission webhooks in process: who is asked, what they are told, what they may do."""

from __future__ import annotations

from typing import Any

import pytest
from rules_builders import Stored, cluster_wide, created, judge, mutated, operation, pod, with_metadata

from headgate.apiserver import Allowed, ApiError, Denied, Handler, Json, Operation
from headgate.apiserver.admission.webhooks import Unreachable

NAME = "gate.example.com"
PODS = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


def hook(rule: Json = PODS, **fields: Any) -> Json:
    return {"name": NAME, "rules": [rule], **fields}


def stored(kind: str, *hooks: Json, labels: Json | None = None) -> Stored:
    """One configuration of this kind, and the namespace `default` with these labels."""
    configuration = {"metadata": {"name": "ours", "resourceVersion": "1"}, "webhooks": list(hooks)}
    namespace = with_metadata(cluster_wide("Namespace", "default"), labels=labels or {})
    return Stored(**{f"{kind}webhookconfigurations": [configuration], "namespaces": [namespace]})


def answering(answer: Allowed | Denied) -> Handler:
    return lambda operation: answer


def adding_gate(name: str) -> Handler:
    def change(operation: Operation) -> Allowed:
        assert operation.new is not None
        spec = operation.new["spec"]
        gates = [*spec.get("schedulingGates", []), {"name": name}]
        return Allowed({**operation.new, "spec": {**spec, "schedulingGates": gates}})

    return change


class Listener:
    """Remembers what it was told and allows it."""

    def __init__(self) -> None:
        self.told: list[Operation] = []

    def __call__(self, operation: Operation) -> Allowed:
        self.told.append(operation)
        return Allowed()


POD = created(pod())


def asked(rule: Json, fields: Json, verb: str, value: Json, subresource: str, labels: Json) -> bool:
    listener = Listener()
    old = value if verb != "CREATE" else None
    step = operation(verb, value if verb != "DELETE" else None, old, subresource)
    judge({NAME: listener}, step, stored("validating", hook(rule, **fields), labels=labels))
    return bool(listener.told)


LABELLED = with_metadata(POD, labels={"a": "b"})
NODE = cluster_wide("Node", spec={})


@pytest.mark.parametrize(
    "rule, fields, verb, value, subresource, labels, expected",
    [
        pytest.param(PODS, {}, "CREATE", POD, "", {}, True, id="the rule fits"),
        pytest.param(PODS, {}, "UPDATE", POD, "", {}, False, id="another operation"),
        pytest.param({**PODS, "operations": ["*"]}, {}, "DELETE", POD, "", {}, True, id="every operation"),
        pytest.param({**PODS, "apiGroups": ["batch"]}, {}, "CREATE", POD, "", {}, False, id="another group"),
        pytest.param({**PODS, "resources": ["*"]}, {}, "CREATE", NODE, "", {}, True, id="every resource"),
        pytest.param({**PODS, "operations": ["UPDATE"]}, {}, "UPDATE", POD, "status", {}, False, id="not its status"),
        pytest.param(
            {**PODS, "operations": ["UPDATE"], "resources": ["pods/*"]},
            {},
            "UPDATE",
            POD,
            "status",
            {},
            True,
            id="its status",
        ),
        pytest.param({**PODS, "scope": "Cluster"}, {}, "CREATE", POD, "", {}, False, id="cluster-wide only"),
        pytest.param({**PODS, "scope": "Namespaced"}, {}, "CREATE", POD, "", {}, True, id="namespaced only"),
        pytest.param(
            PODS,
            {"objectSelector": {"matchLabels": {"a": "b"}}},
            "CREATE",
            LABELLED,
            "",
            {},
            True,
            id="selected object",
        ),
        pytest.param(
            PODS, {"objectSelector": {"matchLabels": {"a": "b"}}}, "CREATE", POD, "", {}, False, id="another object"
        ),
        pytest.param(
            PODS,
            {"namespaceSelector": {"matchLabels": {"t": "x"}}},
            "CREATE",
            POD,
            "",
            {"t": "x"},
            True,
            id="its namespace",
        ),
        pytest.param(
            PODS,
            {"namespaceSelector": {"matchLabels": {"t": "x"}}},
            "CREATE",
            POD,
            "",
            {},
            False,
            id="another namespace",
        ),
        pytest.param(
            {**PODS, "resources": ["nodes"]},
            {"namespaceSelector": {"matchLabels": {"t": "x"}}},
            "CREATE",
            NODE,
            "",
            {},
            True,
            id="namespaces do not exclude what is in none",
        ),
    ],
)
def test_who_is_asked(
    rule: Json, fields: Json, verb: str, value: Json, subresource: str, labels: Json, expected: bool
) -> None:
    assert asked(rule, fields, verb, value, subresource, labels) is expected


def test_what_a_webhook_is_told() -> None:
    listener, step = Listener(), operation("CREATE", POD)
    judge({NAME: listener}, step, stored("validating", hook()))
    assert listener.told == [step]


def test_a_mutating_webhook_changes_and_the_next_one_sees_it() -> None:
    handlers = {NAME: adding_gate("a"), "second.example.com": adding_gate("b")}
    catalog = stored("mutating", hook(), {**hook(), "name": "second.example.com"})
    changed = mutated(handlers, operation("CREATE", POD), catalog)
    assert changed is not None
    assert changed["spec"]["schedulingGates"] == [{"name": "a"}, {"name": "b"}]
    assert "schedulingGates" not in POD["spec"], "the object given is not changed"


def test_without_configurations_the_very_same_object_goes_on() -> None:
    assert mutated({}, operation("CREATE", POD), Stored()) is POD


def unreachable(operation: Operation) -> Allowed | Denied:
    raise Unreachable("connection refused")


@pytest.mark.parametrize(
    "handler, code, message",
    [
        pytest.param(
            answering(Denied("not today", code=403)),
            403,
            f'admission webhook "{NAME}" denied the request: not today',
            id="a denial with a message",
        ),
        pytest.param(
            answering(Denied(reason="Busy")),
            400,
            f'admission webhook "{NAME}" denied the request: Busy',
            id="a denial with a reason",
        ),
        pytest.param(
            answering(Denied(code=200)),
            400,
            f'admission webhook "{NAME}" denied the request without explanation',
            id="a denial without a word, by a code that looks like success",
        ),
        pytest.param(
            unreachable,
            500,
            f'Internal error occurred: failed calling webhook "{NAME}": failed to call webhook: connection refused',
            id="a webhook that cannot be reached",
        ),
    ],
)
def test_what_stops_a_write(handler: Handler, code: int, message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        mutated({NAME: handler}, operation("CREATE", POD), stored("mutating", hook()))
    assert refusal.value.code == code
    assert refusal.value.message == message


@pytest.mark.parametrize(
    "handlers",
    [
        pytest.param({NAME: unreachable}, id="a webhook that cannot be reached"),
        pytest.param({}, id="a webhook nobody serves"),
    ],
)
def test_a_failure_may_be_ignored(handlers: dict[str, Handler]) -> None:
    catalog = stored("mutating", hook(failurePolicy="Ignore"))
    assert mutated(handlers, operation("CREATE", POD), catalog) is POD
