"""Exchanges about ValidatingAdmissionPolicies: which are refused, and which requests they refuse.

All policies are about the namespace of the exchange only. What they may refuse is tried with a dry run.
"""

from __future__ import annotations

from typing import Any

from exchanges import Manifest, Step, create, merge

GROUP = "admissionregistration.k8s.io"
POLICIES = f"/apis/{GROUP}/v1/validatingadmissionpolicies"
BINDINGS = f"/apis/{GROUP}/v1/validatingadmissionpolicybindings"
MAPS = "/api/v1/namespaces/NS/configmaps"
RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE", "DELETE"],
    "resources": ["configmaps"],
}
HERE = {"matchLabels": {"kubernetes.io/metadata.name": "NS"}}


def policy(*expressions: str, name: str = "NS-p", match: Any = None, **spec: Any) -> Manifest:
    constraints = {"resourceRules": [RULE], "namespaceSelector": HERE, **(match or {})}
    whole = {"matchConstraints": constraints, "validations": [{"expression": each} for each in expressions], **spec}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {part: value for part, value in whole.items() if value is not None},
    }


def binding(name: str = "NS-b", to: str = "NS-p", **spec: Any) -> Manifest:
    whole = {"policyName": to, "validationActions": ["Deny"], **spec}
    kind = {"apiVersion": f"{GROUP}/v1", "kind": "ValidatingAdmissionPolicyBinding"}
    return {**kind, "metadata": {"name": name}, "spec": whole}


def config_map(name: str = "it", data: Any = None, **metadata: Any) -> Manifest:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return made if data is None else {**made, "data": data}


def tried(name: str = "it", data: Any = None, **metadata: Any) -> Step:
    return create(config_map(name, data, **metadata), f"{MAPS}?dryRun=All")


def in_force(made: Manifest, *bindings: Manifest) -> tuple[Step, ...]:
    return create(made, POLICIES), *(create(each, BINDINGS) for each in bindings or (binding(),))


def new_map(*made: Manifest) -> tuple[Step, ...]:
    return tuple(create(each, MAPS) for each in made)


def on(kind: str, **reference: Any) -> tuple[Manifest, Manifest]:
    """A policy that compares with its parameters, and its binding."""
    group, _, name = kind.rpartition("/")
    made = policy("object.data.a == params.data.a", paramKind={"apiVersion": group, "kind": name})
    return made, binding(paramRef={"parameterNotFoundAction": "Deny", **reference})


def _secret(name: str, value: str) -> Manifest:
    metadata = {"name": name, "labels": {"params": "yes"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"a": value}}


NO_PROBE = "object.metadata.name != 'probe'"
"""Of a policy that is to allow what follows: once it refuses a probe, it is in force."""
_V = {"expression": "object.data.a == 'x'"}
EVALUATED: dict[str, tuple[Step, ...]] = {
    "a violation is refused with the expression": (
        *in_force(policy("object.data.a == 'x'")),
        tried(data={"a": "y"}),
        tried(data={"a": "x"}),
        tried(),
        tried(data={"b": "x"}),
    ),
    "a message, an expression of a message and a reason": (
        *in_force(
            policy(
                validations=[
                    {**_V, "message": " a must be x ", "reason": "Forbidden"},
                    {**_V, "messageExpression": "'not ' + object.metadata.name"},
                ]
            )
        ),
        tried(data={"a": "y"}),
    ),
    "the second of two validations": (
        *in_force(
            policy(
                validations=[
                    {"expression": "object.metadata.name != 'x'"},
                    {**_V, "messageExpression": "'is ' + object.data.a", "reason": "RequestEntityTooLarge"},
                ]
            )
        ),
        tried(data={"a": "y"}),
        tried("x", data={"a": "y"}),
    ),
    "an expression of a message that fails": (
        *in_force(policy(validations=[{**_V, "messageExpression": "string(object.nothing)", "message": "else"}])),
        tried(data={"a": "y"}),
    ),
    "failures are ignored where they may be": (
        *in_force(policy("object.data.a == 'x'", failurePolicy="Ignore")),
        tried(data={"b": "y"}),
        tried(data={"a": "y"}),
    ),
    "variables": (
        *in_force(
            policy(
                "variables.c",
                variables=[
                    {"name": "a", "expression": "object.data.a"},
                    {"name": "b", "expression": "variables.a + 'y'"},
                    {"name": "c", "expression": "variables.b == 'xy'"},
                ],
            )
        ),
        tried(data={"a": "x"}),
        tried(data={"a": "y"}),
        tried(data={"b": "y"}),
    ),
    "variables are evaluated when they are read": (
        *in_force(
            policy(
                "object.metadata.name == 'it' || variables.a == 'x'",
                variables=[{"name": "a", "expression": "object.data.a"}],
            )
        ),
        tried(),
        tried("other"),
        tried("other", {"a": "x"}),
    ),
    "match conditions": (
        *in_force(
            policy("false", matchConditions=[{"name": "named", "expression": "object.metadata.name.startsWith('bad')"}])
        ),
        tried("bad-one"),
        tried("good"),
    ),
    "a match condition that fails": (
        *in_force(policy("false", matchConditions=[{"name": "a", "expression": "object.data.a == 'x'"}])),
        tried(data={"a": "y"}),
        tried(data={"b": "x"}),
    ),
    "old objects and operations": (
        *in_force(
            policy(
                "request.operation != 'UPDATE' || object.data.a == oldObject.data.a",
                "request.operation != 'DELETE' || oldObject.data.a != 'x'",
                "request.operation != 'CREATE' || oldObject == null",
            )
        ),
        create(config_map(data={"a": "x"}), MAPS),
        merge({"data": {"a": "y"}}, f"{MAPS}/it?dryRun=All"),
        merge({"data": {"b": "y"}}, f"{MAPS}/it?dryRun=All"),
        Step("DELETE", f"{MAPS}/it?dryRun=All"),
    ),
    "the namespace and the request": (
        *in_force(
            policy(
                "namespaceObject.metadata.name == request.namespace && request.resource.resource == 'configmaps'",
                "request.userInfo.username != '' && request.kind.kind == 'ConfigMap' && has(request.dryRun)",
                NO_PROBE,
            )
        ),
        tried("probe"),
        tried(),
    ),
    "the authorizer": (
        *in_force(
            policy(
                "authorizer.group('').resource('configmaps').namespace('NS').name('it').check('get').allowed()",
                "authorizer.requestResource.check('create').allowed()",
                "authorizer.path('/healthz').check('get').allowed()",
                "!authorizer.serviceAccount('NS', 'robot').group('').resource('pods').check('list').allowed()",
                NO_PROBE,
            )
        ),
        tried("probe"),
        tried(),
    ),
    "rules that exclude, names and labels of objects": (
        *in_force(
            policy(
                "false",
                match={
                    "objectSelector": {"matchLabels": {"checked": "yes"}},
                    "excludeResourceRules": [{**RULE, "resourceNames": ["spared"]}],
                },
            )
        ),
        tried(),
        tried(labels={"checked": "yes"}),
        tried("spared", labels={"checked": "yes"}),
    ),
    "rules for names": (
        *in_force(policy("false", match={"resourceRules": [{**RULE, "resourceNames": ["it"]}]})),
        tried(),
        tried("other"),
    ),
    "a binding narrows": (
        *in_force(policy("false"), binding(matchResources={"objectSelector": {"matchLabels": {"a": "b"}}})),
        tried(),
        tried(labels={"a": "b"}),
    ),
    "a policy without a binding does nothing": (create(policy("false"), POLICIES), tried()),
    "audit alone refuses nothing": (*in_force(policy("false"), binding(validationActions=["Audit"])), tried()),
    "parameters by name": (
        *in_force(*on("v1/ConfigMap", name="params")),
        tried(data={"a": "x"}),
        *new_map(config_map("params", {"a": "x"})),
        tried(data={"a": "x"}),
        tried(data={"a": "y"}),
    ),
    "parameters that may be missing": (
        *in_force(*on("v1/ConfigMap", name="params", parameterNotFoundAction="Allow")),
        tried(data={"a": "x"}),
    ),
    "parameters by selector": (
        *in_force(*on("v1/Secret", selector={"matchLabels": {"params": "yes"}})),
        tried(data={"a": "x"}),
        *(create(_secret(n, v), "/api/v1/namespaces/NS/secrets") for n, v in (("one", "eA=="), ("two", "eQ=="))),
        tried(data={"a": "eA=="}),
    ),
    "parameters of the cluster": (
        *in_force(
            policy("params.metadata.name == object.data.a", paramKind={"apiVersion": "v1", "kind": "Namespace"}),
            binding(paramRef={"name": "NS", "parameterNotFoundAction": "Deny"}),
        ),
        tried(data={"a": "NS"}),
        tried(data={"a": "y"}),
    ),
    "parameters of the cluster in a namespace": (
        *in_force(
            policy("params == null", paramKind={"apiVersion": "v1", "kind": "Namespace"}),
            binding(paramRef={"name": "NS", "namespace": "NS", "parameterNotFoundAction": "Deny"}),
        ),
        tried(),
    ),
    "parameters of a kind that is not served": (
        *in_force(*on("example.com/v1/Nothing", name="params", parameterNotFoundAction="Allow")),
        tried(data={"a": "x"}),
    ),
    "parameters that a binding does not name": (
        *in_force(policy("params == null", NO_PROBE, paramKind={"apiVersion": "v1", "kind": "ConfigMap"})),
        tried("probe"),
        tried(),
    ),
}


def _stated(**validation: Any) -> Manifest:
    return policy(validations=[{"expression": "true", **validation}])


_ODD_RULE = {
    **RULE,
    "operations": ["GET", "*"],
    "scope": "Bad",
    "resources": ["*", "pods", "pods/*"],
    "resourceNames": ["a", "a"],
}
_WRONG_POLICIES = (
    {**policy(), "spec": {}},
    policy("true"),
    policy("true", failurePolicy="X"),
    policy("true", paramKind={}),
    policy("true", paramKind={"apiVersion": "a/b/c", "kind": "Bad_Kind"}),
    policy("true", matchConstraints={}),
    policy("true", matchConstraints={"resourceRules": [{}]}),
    policy(
        "true",
        match={"resourceRules": [_ODD_RULE], "matchPolicy": "X", "objectSelector": {"matchLabels": {"a b": "c"}}},
    ),
    policy(),
    policy(validations=[{}]),
    policy("foo"),
    policy("object.x +"),
    policy("object.x"),
    _stated(messageExpression="object.x"),
    policy("1"),
    policy("variables.a"),
    policy("params.x.y == 1"),
    policy("true &&\n  params.x == 1"),
    policy("request.foo == 1"),
    policy("namespaceObject.foo == 1"),
    policy("object.a == 1 &&& 2"),
    _stated(message="a\nb"),
    _stated(message="  "),
    _stated(messageExpression="1"),
    _stated(messageExpression="nope"),
    _stated(reason="Nope"),
    policy("variables.a == 1", variables=[{"name": "a", "expression": "1"}]),
    policy("variables.b == 1", variables=[{"name": "a", "expression": "1"}]),
    policy("true", variables=[{"name": "1a", "expression": ""}]),
    policy("true", variables=[{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]),
    policy("true", matchConditions=[{"name": "a b", "expression": "1"}, {"name": "", "expression": ""}]),
    policy("true", matchConditions=[{"name": "a", "expression": "params.x == 1"}, {"name": "a", "expression": "true"}]),
    policy("true", auditAnnotations=[{"key": "a", "valueExpression": "1"}, {"key": "a b", "valueExpression": ""}]),
    policy(auditAnnotations=[{"key": "a", "valueExpression": "'x'"}]),
)
_REF = {"name": "a", "parameterNotFoundAction": "Allow"}
_WRONG_BINDINGS = (
    binding(),
    binding(policyName=""),
    binding(policyName="Bad Name"),
    *(binding(validationActions=each) for each in ([], ["Deny", "Warn"], ["Deny", "Deny"], ["X"])),
    *(
        binding(paramRef=each)
        for each in ({}, {"name": "a"}, {**_REF, "selector": {}}, {**_REF, "parameterNotFoundAction": "X"})
    ),
    binding(paramRef={"selector": {"matchLabels": {"a b": "c"}}, "parameterNotFoundAction": "Deny"}),
    binding(matchResources={"resourceRules": [{}]}),
    binding(matchResources={}),
)
WRITTEN: dict[str, tuple[Step, ...]] = {
    "policies as they are written": tuple(create(each, f"{POLICIES}?dryRun=All") for each in _WRONG_POLICIES),
    "bindings as they are written": tuple(create(each, f"{BINDINGS}?dryRun=All") for each in _WRONG_BINDINGS),
    "a policy that changes": (
        create(policy("true"), POLICIES),
        merge({"spec": {"failurePolicy": "Ignore"}}, f"{POLICIES}/NS-p"),
        merge({"spec": {"validations": [{"expression": "foo"}]}}, f"{POLICIES}/NS-p"),
        Step("PUT", f"{POLICIES}/NS-p", policy("true")),
    ),
}
EXCHANGES = {**WRITTEN, **EVALUATED}
