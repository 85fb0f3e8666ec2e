"""Fields that a custom resource does not declare are dropped; the request says whether that is told, and how."""

import pytest
from apiserver_client import DEFINITIONS, JOBS, JSON_PATCH, MERGE, PODS, STRATEGIC, Client, refused

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


# built-in kinds


def pod(container=None, **spec):
    containers = [{"name": "c", "image": "i", **(container or {})}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


def job(**fields):
    spec = {"template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}, **fields}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}


@pytest.mark.parametrize(
    "path, manifest, unknown",
    [
        pytest.param(PODS, pod(), [], id="a pod"),
        pytest.param(PODS, pod(nodeSelector={"any": "label"}), [], id="labels are not fields"),
        pytest.param(PODS, pod(nodeNam="n"), ["spec.nodeNam"], id="a misspelt field of a pod"),
        pytest.param(PODS, pod({"ressources": {}}), ["spec.containers[0].ressources"], id="one of a container"),
        pytest.param(PODS, pod({"resources": {"request": {}}}), ["spec.containers[0].resources.request"], id="deeper"),
        pytest.param(PODS, {**pod(), "specs": {}}, ["specs"], id="one of the object"),
        pytest.param(PODS, {**pod(), "metadata": {"name": "p", "label": {}}}, ["metadata.label"], id="of its metadata"),
        pytest.param(PODS, pod(workloadRef={"name": "w", "podGroup": "g"}), [], id="a reference to a Workload"),
        pytest.param(JOBS, job(parallelsim=2), ["spec.parallelsim"], id="one of a Job"),
        pytest.param(
            JOBS,
            job(template={"spec": {**pod(priorityclassName="x")["spec"], "restartPolicy": "Never"}}),
            ["spec.template.spec.priorityclassName"],
            id="one of a template",
        ),
    ],
)
def test_unknown_fields_of_built_in_kinds_are_told_to_who_asks(path, manifest, unknown):
    client, kind = Client(), manifest["kind"]
    strict = client.ask("POST", f"{path}?fieldValidation=Strict&dryRun=All", manifest)
    if unknown:
        listed = ", ".join(f'unknown field "{each}"' for each in unknown)
        message = f'{kind} in version "v1" cannot be handled as a {kind}: strict decoding error: {listed}'
        assert refused(strict) == (400, "BadRequest", message)
    else:
        assert strict.code == 201
    answer = client.ask("POST", f"{path}?fieldValidation=Warn", manifest)
    assert answer.warnings == tuple(f'unknown field "{each}"' for each in unknown)


@pytest.mark.parametrize("media", [MERGE, STRATEGIC])
def test_an_unknown_field_that_a_patch_adds_to_a_built_in_kind(media):
    client = Client()
    client.create(JOBS, job())
    answer = client.ask("PATCH", f"{JOBS}/j?fieldValidation=Warn", {"spec": {"parallelsim": 2}}, media)
    assert answer.warnings == ('unknown field "spec.parallelsim"',)
    strict = client.ask("PATCH", f"{JOBS}/j?fieldValidation=Strict", {"spec": {"parallelsim": 2}}, media)
    assert strict.code == 422


def test_what_is_of_another_shape_than_its_type_is_the_matter_of_validation():
    assert Client().ask("POST", f"{PODS}?fieldValidation=Warn", pod(containers="none")).code == 400
