"""Fields that a custom resource does not declare are dropped; the request says whether that is told, and how."""

import pytest
from apiserver_client import DEFINITIONS, JSON_PATCH, MERGE, Client, refused

LEAVES = "/apis/example.com/v1/leaves"
SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "by": {"type": "object", "additionalProperties": {"type": "object", "properties": {"n": {"type": "string"}}}},
    },
}
STATUS = {"type": "object", "properties": {"phase": {"type": "string"}}}


@pytest.fixture
def client():
    client = Client()
    schema = {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": "leaves", "singular": "leaf", "kind": "Leaf", "listKind": "LeafList"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "leaves.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": "Cluster", "versions": [version]},
    }
    client.create(DEFINITIONS, definition)
    return client


def leaf(spec, **rest):
    return {"apiVersion": "example.com/v1", "kind": "Leaf", "metadata": {"name": "leaf"}, "spec": spec, **rest}


@pytest.mark.parametrize(
    "manifest, unknown",
    [
        pytest.param(leaf({"size": 1}), [], id="none"),
        pytest.param(leaf({"sise": 1}), ["spec.sise"], id="a misspelt field"),
        pytest.param(leaf({"sise": None}), ["spec.sise"], id="a misspelt field that is null"),
        pytest.param(leaf({}, spek={}), ["spek"], id="a field of the object itself"),
        pytest.param(leaf({"parts": [{"name": "a"}, {"nam": "b"}]}), ["spec.parts[1].nam"], id="one in a list"),
        pytest.param(leaf({"by": {"x": {"m": "1"}}}), ["spec.by.x.m"], id="one in a map"),
        pytest.param(leaf({"free": {"any": {"thing": 1}}}), [], id="one where any is allowed"),
        pytest.param(leaf({"b": 1, "a": 2}), ["spec.a", "spec.b"], id="several, by their paths"),
        pytest.param(leaf({"size": "x", "b": 1}), None, id="an object that is refused for something else"),
    ],
)
def test_unknown_fields_of_a_new_object(client, manifest, unknown):
    strict = client.ask("POST", f"{LEAVES}?fieldValidation=Strict&dryRun=All", manifest)
    if unknown:
        listed = ", ".join(f'unknown field "{path}"' for path in unknown)
        message = f'Leaf in version "v1" cannot be handled as a Leaf: strict decoding error: {listed}'
        assert refused(strict) == (400, "BadRequest", message)
    ignoring = client.ask("POST", f"{LEAVES}?fieldValidation=Ignore&dryRun=All", manifest)
    assert ignoring.warnings == ()
    for how in ("", "?fieldValidation=Warn"):
        answer = client.ask("POST", f"{LEAVES}{how}", manifest)
        if unknown is None:
            assert answer.code == 422
            continue
        assert answer.warnings == tuple(f'unknown field "{path}"' for path in unknown)
        client.delete(f"{LEAVES}/leaf")


def test_an_object_seen_before_is_warned_of_again(client):
    for _ in range(3):
        answer = client.ask("POST", LEAVES, leaf({"sise": 1}))
        assert answer.warnings == ('unknown field "spec.sise"',)
        client.delete(f"{LEAVES}/leaf")


@pytest.mark.parametrize(
    "change, media",
    [
        pytest.param({"spec": {"sise": 2}}, MERGE, id="by a merge patch"),
        pytest.param([{"op": "add", "path": "/spec/sise", "value": 2}], JSON_PATCH, id="by a JSON patch"),
    ],
)
def test_an_unknown_field_that_a_patch_adds(client, change, media):
    client.create(LEAVES, leaf({"size": 1}))
    code, reason, message = refused(client.ask("PATCH", f"{LEAVES}/leaf?fieldValidation=Strict", change, media))
    assert (code, reason) == (422, "Invalid")
    assert message.startswith(' "" is invalid: patch: Invalid value: ')
    assert message.endswith('strict decoding error: unknown field "spec.sise"')
    assert client.ask("PATCH", f"{LEAVES}/leaf", change, media).warnings == ('unknown field "spec.sise"',)
    assert client.get(f"{LEAVES}/leaf")["spec"] == {"size": 1}


def test_a_patch_that_touches_nothing_unknown_is_not_warned_of(client):
    client.ask("POST", LEAVES, leaf({"size": 1, "sise": 2}))
    assert client.ask("PATCH", f"{LEAVES}/leaf", {"spec": {"size": 2}}, MERGE).warnings == ()


def test_unknown_fields_of_a_status(client):
    client.create(LEAVES, leaf({"size": 1}))
    answer = client.ask("PATCH", f"{LEAVES}/leaf/status", {"status": {"phase": "new", "fase": "old"}}, MERGE)
    assert answer.warnings == ('unknown field "status.fase"',)
    assert answer.value["status"] == {"phase": "new"}


def test_unknown_fields_of_a_replacement(client):
    version = client.create(LEAVES, leaf({"size": 1}))["metadata"]["resourceVersion"]
    new = leaf({"size": 2, "sise": 2})
    new["metadata"]["resourceVersion"] = version
    assert client.ask("PUT", f"{LEAVES}/leaf?fieldValidation=Strict", new).code == 400
    assert client.ask("PUT", f"{LEAVES}/leaf", new).warnings == ('unknown field "spec.sise"',)


def test_a_way_of_validating_that_does_not_exist_is_refused(client):
    answer = client.ask("POST", f"{LEAVES}?fieldValidation=Maybe", leaf({}))
    assert answer.code == 422
    assert answer.value["message"].startswith(
        'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value'
    )
