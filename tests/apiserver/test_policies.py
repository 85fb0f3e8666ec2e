"""ValidatingAdmissionPolicies: what they refuse now, and after policies, bindings and parameters have changed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from apiserver_client import CONFIG_MAPS, DEFINITIONS, Client, config_map, refused

from headgate.apiserver import ApiServer, AuthorizationMode, Json, Request

GROUP = "admissionregistration.k8s.io"
POLICIES = f"/apis/{GROUP}/v1/validatingadmissionpolicies"
BINDINGS = f"/apis/{GROUP}/v1/validatingadmissionpolicybindings"
RULE: Json = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}


def policy(*expressions: str, name: str = "p", rule: Json = RULE, **spec: Any) -> Json:
    validations = [{"expression": each} for each in expressions]
    whole = {"matchConstraints": {"resourceRules": [rule]}, "validations": validations, **spec}
    return {"metadata": {"name": name}, "spec": whole}


def binding(name: str = "b", to: str = "p", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"policyName": to, "validationActions": ["Deny"], **spec}}


@pytest.fixture
def client() -> Client:
    return Client()


def in_force(client: Client, made: Json, bound: Json | None = None) -> None:
    client.create(POLICIES, made)
    client.create(BINDINGS, bound or binding())


def denied(client: Client, value: Json, path: str = CONFIG_MAPS) -> str:
    """Why the object is denied; empty if it is not. Nothing is stored."""
    answer = client.ask("POST", f"{path}?dryRun=All", value)
    return "" if answer.code == 201 else answer.value["message"].rpartition(" denied request: ")[2]


def test_a_violation_is_refused_with_policy_binding_and_expression(client: Client):
    in_force(client, policy("object.data.a == 'x'"))
    answer = client.ask("POST", CONFIG_MAPS, config_map("it", {"a": "y"}))
    message = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: object.data.a == 'x'"
    assert refused(answer) == (422, "Invalid", f'configmaps "it" is forbidden: {message}')
    assert answer.value["details"] == {"name": "it", "kind": "configmaps", "causes": [{"message": message}]}
    assert not client.exists(f"{CONFIG_MAPS}/it")


def test_policies_are_in_force_from_the_moment_they_are_bound(client: Client):
    value, said = config_map("it", {"a": "y"}), [denied(client, config_map("it", {"a": "y"}))]
    client.create(POLICIES, policy("false"))
    said.append(denied(client, value))
    client.create(BINDINGS, binding())
    said.append(denied(client, value))
    client.patch(f"{POLICIES}/p", {"spec": {"validations": [{"expression": "false", "message": "never"}]}})
    said.append(denied(client, value))
    client.patch(f"{BINDINGS}/b", {"spec": {"validationActions": ["Audit"]}})
    said.append(denied(client, value))
    client.patch(f"{BINDINGS}/b", {"spec": {"validationActions": ["Deny"]}})
    client.delete(f"{POLICIES}/p")
    said.append(denied(client, value))
    assert said == ["", "", "failed expression: false", "never", "", ""]


def test_parameters_are_those_of_now(client: Client):
    kind, reference = {"apiVersion": "v1", "kind": "Secret"}, {"name": "limits", "parameterNotFoundAction": "Deny"}
    in_force(client, policy("object.data.a == params.data.a", paramKind=kind), binding(paramRef=reference))
    value, secrets = config_map("it", {"a": "eA=="}), "/api/v1/namespaces/default/secrets"
    missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    said = [denied(client, value)]
    client.create(secrets, {"metadata": {"name": "limits"}, "data": {"a": "eA=="}})
    said.append(denied(client, value))
    client.patch(f"{secrets}/limits", {"data": {"a": "eQ=="}})
    said.append(denied(client, value))
    client.delete(f"{secrets}/limits")
    said.append(denied(client, value))
    assert said == [missing, "", "failed expression: object.data.a == params.data.a", missing]


def test_a_parameter_kind_that_comes_later_counts_from_then_on(client: Client):
    kind, reference = (
        {"apiVersion": "example.com/v1", "kind": "Limit"},
        {"name": "a", "parameterNotFoundAction": "Allow"},
    )
    in_force(client, policy("object.data.a == params.spec.a", paramKind=kind), binding(paramRef=reference))
    said = [denied(client, config_map("it", {"a": "x"}))]
    client.create(DEFINITIONS, definition("Namespaced"))
    said.append(denied(client, config_map("it", {"a": "x"})))
    client.create("/apis/example.com/v1/namespaces/default/limits", limit({"a": "y"}))
    said.append(denied(client, config_map("it", {"a": "x"})))
    assert said == [
        "failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'",
        "",
        "failed expression: object.data.a == params.spec.a",
    ]


def definition(scope: str, *versions: str) -> Json:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": "limits", "singular": "limit", "kind": "Limit", "listKind": "LimitList"}
    served = [
        {"name": name, "served": True, "storage": index == 0, "schema": schema}
        for index, name in enumerate(versions or ("v1",))
    ]
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    spec = {"group": "example.com", "scope": scope, "names": names, "versions": served}
    return {**kind, "metadata": {"name": "limits.example.com"}, "spec": spec}


def limit(spec: Json, version: str = "v1") -> Json:
    return {"apiVersion": f"example.com/{version}", "kind": "Limit", "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(
    "match_policy, said",
    [
        pytest.param("Equivalent", "failed expression: false", id="a rule is about all versions of its resource"),
        pytest.param("Exact", "", id="or about the versions it names"),
    ],
)
def test_versions_of_a_resource(client: Client, match_policy: str, said: str):
    client.create(DEFINITIONS, definition("Namespaced", "v1", "v2"))
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["limits"]}
    made = policy("false", matchConstraints={"resourceRules": [rule], "matchPolicy": match_policy})
    in_force(client, made)
    assert denied(client, limit({}), "/apis/example.com/v1/namespaces/default/limits") == "failed expression: false"
    assert denied(client, limit({}, "v2"), "/apis/example.com/v2/namespaces/default/limits") == said


def test_warnings_are_told_and_do_not_refuse(client: Client):
    in_force(client, policy("false", name="p"), binding(validationActions=["Warn"]))
    answer = client.ask("POST", CONFIG_MAPS, config_map("it"))
    expected = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: false"
    assert (answer.code, answer.warnings) == (201, (expected,))


def test_the_first_policy_by_name_is_told_and_all_warn(client: Client):
    in_force(client, policy("false", name="b"), binding("b", "b"))
    in_force(client, policy("1 == 2", name="a"), binding("a", "a"))
    assert denied(client, config_map("it")) == "failed expression: 1 == 2"


def test_variables_are_evaluated_when_they_are_read_and_name_what_failed(client: Client):
    variables = [{"name": "a", "expression": "object.data.a"}, {"name": "b", "expression": "variables.a + '!'"}]
    in_force(client, policy("object.metadata.name == 'ok' || variables.b == 'x!'", variables=variables))
    assert denied(client, config_map("ok")) == ""
    assert denied(client, config_map("it", {"a": "x"})) == ""
    text = "object.metadata.name == 'ok' || variables.b == 'x!'"
    why = 'composited variable "b" fails to evaluate: composited variable "a" fails to evaluate: no such key: a'
    assert denied(client, config_map("it")) == f"expression '{text}' resulted in error: {why}"


def test_no_policy_locks_its_authors_out(client: Client):
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    in_force(client, policy("false", rule=rule))
    assert denied(client, config_map("it")) == "failed expression: false"
    client.delete(f"{POLICIES}/p")
    assert denied(client, config_map("it")) == ""


def test_expressions_ask_what_the_user_may_do():
    server = ApiServer(authorization=AuthorizationMode.RBAC)
    client = Client(server)
    checks = (
        "authorizer.group('').resource('secrets').namespace(request.namespace).check('get').allowed()",
        "authorizer.requestResource.check('create').allowed()",
        "!authorizer.requestResource.check('delete').allowed()",
        "authorizer.path('/healthz').check('get').reason().startsWith('RBAC: allowed by ClusterRoleBinding')",
        "!authorizer.serviceAccount('default', 'robot').group('').resource('secrets').check('get').allowed()",
        "!authorizer.path('/healthz').check('get').errored()",
    )
    in_force(client, policy(*checks))
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    rules.append({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]})
    for name, given in (("jane", rules), ("joe", rules[1:])):
        client.create(f"{rbac}/roles", {"metadata": {"name": name}, "rules": given})
        bound = {"roleRef": {"kind": "Role", "name": name}, "subjects": [{"kind": "User", "name": name}]}
        client.create(f"{rbac}/rolebindings", {"metadata": {"name": name}, **bound})
    for user, code in (("jane", 201), ("joe", 422)):
        body = msgspec.json.encode(config_map(user))
        answer = server.handle(Request("POST", CONFIG_MAPS, body=body, user=user), client.now)
        assert answer.code == code, answer.value
    assert answer.value["message"].endswith(f"failed expression: {checks[0]}")


def test_what_nobody_asks_the_authorizer_is_refused_when_it_is_written(client: Client):
    code, _, message = refused(client.ask("POST", POLICIES, policy("authorizer.nonsense('').allowed()")))
    assert (code, "undeclared reference to 'nonsense'" in message) == (422, True)


@pytest.mark.parametrize(
    "value",
    [
        policy(validations=[{"expression": "x" * 100_000}]),
        policy("(" * 5_000 + "true" + ")" * 5_000),
        policy("true", variables=[{"name": "a", "expression": "variables.a"}]),
        policy(validations=[{"expression": None}]),
        policy("true", matchConstraints=None),
        {"metadata": {"name": "p"}, "spec": None},
    ],
    ids=["a very long name", "very deep", "a variable of itself", "null", "no constraints", "no spec"],
)
def test_what_cannot_be_evaluated_is_refused(client: Client, value: Json):
    assert client.ask("POST", POLICIES, value).code == 422
    assert denied(client, config_map("it")) == ""


def test_namespaces_are_selected_by_their_labels_of_now(client: Client):
    selector = {"matchLabels": {"team": "a"}}
    in_force(client, policy("false", matchConstraints={"resourceRules": [RULE], "namespaceSelector": selector}))
    said = [denied(client, config_map("it"))]
    client.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"team": "a"}}})
    said.append(denied(client, config_map("it")))
    assert said == ["", "failed expression: false"]
