"""Webhooks at work in a server: stored configurations, handlers in process, and the writes between them."""

import pytest
from apiserver_client import MERGE, NAMESPACES, PODS, Client, namespace, pod, refused

from headgate.apiserver import ADMISSION, Allowed, ApiServer, Denied, WebhookAdmission
from headgate.apiserver.admission.webhooks import Unreachable

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/"
CREATES = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
UPDATES = {**CREATES, "operations": ["UPDATE"]}
CALLED = {
    "clientConfig": {"url": "https://127.0.0.1:1/"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
GATE = {"name": "example.com/gate"}
UNREACHABLE = 'Internal error occurred: failed calling webhook "{}": failed to call webhook: connection refused'


def add_gate(operation):
    return with_spec(operation, schedulingGates=[GATE])


def add_container(operation):
    containers = operation.new["spec"]["containers"]
    return with_spec(operation, containers=[*containers, {"name": "side", "image": "i"}])


def spoil_name(operation):
    first, *others = operation.new["spec"]["containers"]
    return with_spec(operation, containers=[{**first, "name": "Not_Good"}, *others])


def with_spec(operation, **fields):
    return Allowed({**operation.new, "spec": {**operation.new["spec"], **fields}})


def deny(_operation):
    return Denied("not today", "Forbidden", 403)


def deny_gated(operation):
    gates = operation.new["spec"].get("schedulingGates")
    return Denied(f"saw {gates}", "Forbidden", 403) if gates else Allowed()


def unreachable(_operation):
    raise Unreachable("connection refused")


HANDLERS = {
    "gate.example.com": add_gate,
    "side.example.com": add_container,
    "spoil.example.com": spoil_name,
    "deny.example.com": deny,
    "gated.example.com": deny_gated,
    "down.example.com": unreachable,
}


@pytest.fixture
def client():
    return Client(ApiServer(admission=(*ADMISSION, WebhookAdmission(HANDLERS))))


def configure(client, kind, hook, rule=CREATES, **fields):
    name = f"{hook}.example.com"
    webhook = {**CALLED, "name": name, "rules": [rule], **fields}
    body = {"metadata": {"name": f"{kind}-{hook}"}, "webhooks": [webhook]}
    client.create(f"{CONFIGURATIONS}{kind}webhookconfigurations", body)


def test_a_mutating_webhook_gates_new_pods(client):
    configure(client, "mutating", "gate")
    created = client.create(PODS, pod())
    assert created["spec"]["schedulingGates"] == [GATE]
    assert [one["reason"] for one in created["status"]["conditions"]] == ["SchedulingGated"], "it is completed again"
    assert client.get(f"{PODS}/a") == created


def test_what_a_webhook_adds_is_defaulted(client):
    configure(client, "mutating", "side")
    _, added = client.create(PODS, pod())["spec"]["containers"]
    assert (added["imagePullPolicy"], added["terminationMessagePolicy"]) == ("Always", "File")


def test_what_a_webhook_adds_is_validated(client):
    configure(client, "mutating", "spoil")
    code, reason, message = refused(client.ask("POST", PODS, pod()))
    assert (code, reason) == (422, "Invalid")
    assert 'spec.containers[0].name: Invalid value: "Not_Good"' in message


def test_a_validating_webhook_denies(client):
    configure(client, "validating", "deny")
    message = 'admission webhook "deny.example.com" denied the request: not today'
    assert refused(client.ask("POST", PODS, pod())) == (403, "Forbidden", message)
    assert not client.exists(f"{PODS}/a")


def test_validating_webhooks_see_what_mutating_ones_have_made(client):
    configure(client, "validating", "gated")
    client.create(PODS, pod("free"))
    configure(client, "mutating", "gate")
    assert refused(client.ask("POST", PODS, pod()))[2].endswith(f"denied the request: saw {[GATE]}")


def test_validation_comes_before_validating_webhooks(client):
    configure(client, "validating", "deny")
    assert client.ask("POST", PODS, {**pod(), "spec": {"containers": []}}).code == 422


def test_a_webhook_is_asked_in_the_namespaces_it_selects(client):
    configure(client, "mutating", "gate", namespaceSelector={"matchLabels": {"team": "a"}})
    client.create(NAMESPACES, {**namespace("ours"), "metadata": {"name": "ours", "labels": {"team": "a"}}})
    assert "schedulingGates" not in client.create(PODS, pod())["spec"]
    assert client.create("/api/v1/namespaces/ours/pods", pod())["spec"]["schedulingGates"] == [GATE]


@pytest.mark.parametrize("kind", ["mutating", "validating"])
@pytest.mark.parametrize(
    "fields, code",
    [
        pytest.param({}, 500, id="by default it is in the way"),
        pytest.param({"failurePolicy": "Fail"}, 500, id="it is in the way"),
        pytest.param({"failurePolicy": "Ignore"}, 201, id="it is passed by"),
    ],
)
def test_a_webhook_that_cannot_be_reached(client, kind, fields, code):
    configure(client, kind, "down", **fields)
    response = client.ask("POST", PODS, pod())
    assert response.code == code
    assert code == 201 or response.value["message"] == UNREACHABLE.format("down.example.com")


def test_a_webhook_for_updates_does_not_bother_status_and_binding(client):
    configure(client, "validating", "deny", UPDATES)
    client.create(PODS, pod())
    assert client.ask("PATCH", f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}}, MERGE).code == 403
    assert client.ask("PATCH", f"{PODS}/a/status", {"status": {"phase": "Running"}}, MERGE).code == 200


def test_a_configuration_counts_as_long_as_it_is_stored(client):
    configure(client, "validating", "deny")
    client.delete(f"{CONFIGURATIONS}validatingwebhookconfigurations/validating-deny")
    client.create(PODS, pod())


@pytest.mark.parametrize(
    "webhooks, code, said",
    [
        pytest.param("all", 400, "webhooks", id="no list"),
        pytest.param([1], 400, "webhooks", id="a number"),
        pytest.param([{**CALLED, "name": "a.b.c", "rules": "all"}], 400, "rules", id="rules that are none"),
        pytest.param([{**CALLED, "name": "a.b.c", "rules": [{"operations": [1]}]}], 400, "operations", id="no text"),
        pytest.param(
            [{**CALLED, "name": "a.b.c", "clientConfig": {"url": "https://a", "caBundle": "???"}}],
            400,
            "caBundle",
            id="an authority that is no base64",
        ),
        pytest.param(
            [{**CALLED, "name": "a.b.c", "matchConditions": [{"name": "x", "expression": "object.("}]}],
            422,
            "webhooks[0].matchConditions[0].expression",
            id="an expression that does not compile",
        ),
        pytest.param(
            [{**CALLED, "name": "a.b.c", "clientConfig": {"url": "https://a:x/"}}],
            422,
            "webhooks[0].clientConfig.url",
            id="a port that is no number",
        ),
    ],
)
def test_a_configuration_that_cannot_be_heeded_is_refused_and_in_nobodys_way(client, webhooks, code, said):
    path = f"{CONFIGURATIONS}validatingwebhookconfigurations"
    refusal = refused(client.ask("POST", path, {"metadata": {"name": "a"}, "webhooks": webhooks}))
    assert refusal[0] == code
    assert said in refusal[2]
    client.create(PODS, pod())


def test_a_configuration_says_what_holds_where_it_says_nothing(client):
    configure(client, "mutating", "gate")
    [webhook] = client.get(f"{CONFIGURATIONS}mutatingwebhookconfigurations/mutating-gate")["webhooks"]
    told = {name: webhook[name] for name in ("failurePolicy", "matchPolicy", "timeoutSeconds", "reinvocationPolicy")}
    assert told == {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 10,
        "reinvocationPolicy": "Never",
    }
    assert webhook["rules"][0]["scope"] == "*"
