"""The three kinds of patches, alone and through the server."""

import pytest
from apiserver_client import (
    CONFIG_MAPS,
    DEFINITIONS,
    JSON_PATCH,
    MERGE,
    PODS,
    STRATEGIC,
    Client,
    config_map,
    pod,
    refused,
)
from hypothesis import given
from hypothesis import strategies as st

from headgate.apiserver.patches import (
    PatchFailed,
    PatchOperation,
    apply_json_patch,
    apply_merge_patch,
    apply_strategic_patch,
    same_json,
)

scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab/~", max_size=2)
values = st.recursive(
    scalars,
    lambda part: (
        st.lists(part, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "a/b", "~"]), part, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


def merge_as_the_rfc_defines(target, patch):
    """The pseudocode of RFC 7386, section 2, on copies."""
    if isinstance(patch, dict):
        target = dict(target) if isinstance(target, dict) else {}
        for name, value in patch.items():
            if value is None:
                if name in target:
                    del target[name]
            else:
                target[name] = merge_as_the_rfc_defines(target.get(name), value)
        return target
    return patch


@given(values, values)
def test_merge_patch_does_what_the_rfc_defines(target, patch):
    before = repr((target, patch))
    assert apply_merge_patch(target, patch) == merge_as_the_rfc_defines(target, patch)
    assert repr((target, patch)) == before, "neither side is changed in place"


@given(objects)
def test_an_empty_merge_patch_shares_every_part(target):
    patched = apply_merge_patch(target, {})
    assert patched == target
    assert all(patched[name] is target[name] for name in target)


def step(op, path, **more):
    if "source" in more:
        return PatchOperation(op, path, source=more["source"])
    return PatchOperation(op, path, value=more["value"]) if "value" in more else PatchOperation(op, path)


@pytest.mark.parametrize(
    "document, steps, result",
    [
        pytest.param({"a": 1}, [step("add", "/b", value=2)], {"a": 1, "b": 2}, id="add sets a member"),
        pytest.param({"a": 1}, [step("add", "/a", value=2)], {"a": 2}, id="add replaces a member that exists"),
        pytest.param([1, 3], [step("add", "/1", value=2)], [1, 2, 3], id="add inserts before an index"),
        pytest.param([1], [step("add", "/-", value=2)], [1, 2], id="a dash appends"),
        pytest.param([1], [step("add", "/1", value=2)], [1, 2], id="the index after the last appends"),
        pytest.param({"a": 1, "b": 2}, [step("remove", "/a")], {"b": 2}, id="remove takes a member out"),
        pytest.param([1, 2, 3], [step("remove", "/1")], [1, 3], id="remove closes the gap in a list"),
        pytest.param({"a": [1]}, [step("replace", "/a/0", value=9)], {"a": [9]}, id="replace changes a list item"),
        pytest.param({"a/b": {"~": 1}}, [step("replace", "/a~1b/~0", value=2)], {"a/b": {"~": 2}}, id="escapes"),
        pytest.param({"a": 1}, [step("move", "/b", source="/a")], {"b": 1}, id="move renames"),
        pytest.param([1, 2], [step("move", "/1", source="/0")], [2, 1], id="move within a list counts after removal"),
        pytest.param({"a": 1}, [step("move", "/a", source="/a")], {"a": 1}, id="move onto itself changes nothing"),
        pytest.param({"a": [1]}, [step("copy", "/b", source="/a")], {"a": [1], "b": [1]}, id="copy keeps the source"),
        pytest.param({"a": 1}, [step("test", "/a", value=1.0)], {"a": 1}, id="numbers are tested by value"),
        pytest.param({"a": 1}, [step("replace", "", value=[])], [], id="the empty path is the whole document"),
    ],
)
def test_json_patch(document, steps, result):
    before = repr(document)
    assert apply_json_patch(document, steps) == result
    assert repr(document) == before, "the original is not changed in place"


@pytest.mark.parametrize(
    "document, one",
    [
        pytest.param({}, step("remove", "/a"), id="remove of what is not there"),
        pytest.param({}, step("replace", "/a", value=1), id="replace of what is not there"),
        pytest.param({}, step("add", "/a/b", value=1), id="add below what is not there"),
        pytest.param([1], step("add", "/2", value=1), id="add beyond the end"),
        pytest.param([1], step("remove", "/-"), id="remove at the dash"),
        pytest.param([1, 2], step("remove", "/01"), id="an index with a leading zero"),
        pytest.param({"a": 1}, step("test", "/a", value=2), id="a test that does not hold"),
        pytest.param({"a": 1}, step("test", "/a", value=True), id="true is not one"),
        pytest.param({"a": {"b": 1}}, step("move", "/a/b/c", source="/a"), id="a move into itself"),
        pytest.param({"a": 1}, step("add", "a", value=1), id="a path that is no pointer"),
        pytest.param({"a": 1}, step("add", "/a/b", value=1), id="a path through a number"),
    ],
)
def test_json_patch_refuses(document, one):
    with pytest.raises(PatchFailed):
        apply_json_patch(document, [one])


@given(objects, st.sampled_from("abc"), values)
def test_what_was_added_can_be_tested_and_removed(document, name, value):
    added = apply_json_patch(document, [step("add", f"/{name}", value=value), step("test", f"/{name}", value=value)])
    without = {key: part for key, part in document.items() if key != name}
    assert same_json(apply_json_patch(added, [step("remove", f"/{name}")]), without)


@given(st.lists(values, min_size=1, max_size=5), st.data())
def test_moving_there_and_back_again_restores_a_list(items, data):
    source, target = (data.draw(st.integers(0, len(items) - 1)) for _ in range(2))
    there = apply_json_patch(items, [step("move", f"/{target}", source=f"/{source}")])
    assert apply_json_patch(there, [step("move", f"/{source}", source=f"/{target}")]) == items


@pytest.mark.parametrize(
    "kind, target, patch, result",
    [
        pytest.param(
            "core.v1.PodStatus",
            {"conditions": [{"type": "A", "status": "False", "reason": "r"}]},
            {"conditions": [{"type": "A", "status": "True"}, {"type": "B"}]},
            {"conditions": [{"type": "A", "status": "True", "reason": "r"}, {"type": "B"}]},
            id="conditions merge by type",
        ),
        pytest.param(
            "core.v1.PodSpec",
            {"containers": [{"name": "x", "image": "1", "env": [{"name": "E", "value": "1"}]}]},
            {"containers": [{"name": "x", "env": [{"name": "F", "value": "2"}]}]},
            {
                "containers": [
                    {"name": "x", "image": "1", "env": [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}]}
                ]
            },
            id="containers and their variables merge by name, new ones first",
        ),
        pytest.param(
            "core.v1.PodSpec",
            {"schedulingGates": [{"name": "a"}, {"name": "b"}]},
            {"schedulingGates": [{"name": "a", "$patch": "delete"}]},
            {"schedulingGates": [{"name": "b"}]},
            id="an item is deleted by its key",
        ),
        pytest.param(
            "core.v1.PodSpec",
            {"volumes": [{"name": "a"}]},
            {"volumes": [{"$patch": "replace"}, {"name": "b"}]},
            {"volumes": [{"name": "b"}]},
            id="a list is replaced on demand",
        ),
        pytest.param(
            "meta.v1.ObjectMeta",
            {"labels": {"a": "1"}},
            {"labels": {"$patch": "replace", "b": "2"}},
            {"labels": {"b": "2"}},
            id="an object is replaced on demand",
        ),
        pytest.param(
            "core.v1.PodSpec",
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
            id="tolerations are replaced whole",
        ),
        pytest.param(
            "meta.v1.ObjectMeta",
            {"finalizers": ["a", "b"]},
            {"finalizers": ["b", "c"], "$setElementOrder/finalizers": ["c", "b", "a"]},
            {"finalizers": ["c", "b", "a"]},
            id="finalizers are added to as a set, in the order that is wanted",
        ),
        pytest.param(
            "meta.v1.ObjectMeta",
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b"]},
            id="plain values are deleted from a list",
        ),
        pytest.param(
            "core.v1.Container",
            {"ports": [{"containerPort": 80}, {"containerPort": 81}]},
            {"ports": [{"containerPort": 80, "name": "web"}]},
            {"ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 81}]},
            id="container ports merge by their number",
        ),
        pytest.param(
            "core.v1.ServiceSpec",
            {"ports": [{"port": 80}, {"port": 81}]},
            {"ports": [{"port": 80, "name": "web"}]},
            {"ports": [{"port": 80, "name": "web"}, {"port": 81}]},
            id="those of a service by theirs",
        ),
        pytest.param(
            "core.v1.NodeSpec",
            {"taints": [{"key": "a"}]},
            {"taints": [{"key": "b"}]},
            {"taints": [{"key": "b"}]},
            id="taints are replaced whole",
        ),
        pytest.param(
            "meta.v1.ObjectMeta",
            {"ownerReferences": [{"uid": "1"}]},
            {"ownerReferences": [{"uid": "1", "$patch": "delete"}, {"uid": "2"}]},
            {"ownerReferences": [{"uid": "2"}]},
            id="owners merge by uid",
        ),
        pytest.param("core.v1.Pod", {"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes a field"),
        pytest.param(
            "core.v1.Container", {"args": ["x"]}, {"args": ["y"]}, {"args": ["y"]}, id="other lists are replaced whole"
        ),
    ],
)
def test_strategic_patch(kind, target, patch, result):
    before = repr(target)
    assert apply_strategic_patch(target, patch, kind) == result
    assert repr(target) == before, "the original is not changed in place"


@pytest.mark.parametrize(
    "content_type, patch",
    [
        pytest.param(MERGE, {"metadata": {"labels": {"a": "b"}}}, id="merge patch"),
        pytest.param(JSON_PATCH, [{"op": "add", "path": "/metadata/labels/a", "value": "b"}], id="JSON patch"),
        pytest.param(STRATEGIC, {"metadata": {"labels": {"a": "b"}}}, id="strategic merge patch"),
    ],
)
def test_every_kind_of_patch_reaches_the_object(content_type, patch):
    client = Client()
    client.create(PODS, pod(labels={"x": "y"}))
    assert client.patch(f"{PODS}/a", patch, content_type)["metadata"]["labels"] == {"x": "y", "a": "b"}


@pytest.mark.parametrize(
    "content_type, body, expected",
    [
        pytest.param(
            JSON_PATCH,
            [{"op": "test", "path": "/data/k", "value": "other"}],
            (422, "Invalid", "the server rejected our request due to an error in our request"),
            id="a failed test changes nothing",
        ),
        pytest.param(
            JSON_PATCH,
            [{"op": "remove", "path": "/data/surprise"}],
            (422, "Invalid", "the server rejected our request due to an error in our request"),
            id="a place that is not there",
        ),
        pytest.param(
            JSON_PATCH,
            [{"op": "bend", "path": "/data/k"}],
            (422, "Invalid", "the server rejected our request due to an error in our request"),
            id="an unknown operation",
        ),
        pytest.param(
            JSON_PATCH,
            [{"op": "add", "path": "/data/k"}],
            (400, "BadRequest", "error decoding patch: operation 0 (add) needs a value"),
            id="an operation without its value",
        ),
        pytest.param(
            MERGE,
            [],
            (400, "BadRequest", "error decoding patch: Expected `object`, got `array`"),
            id="a merge patch that is a list",
        ),
        pytest.param(
            "application/apply-patch+yaml",
            {},
            (
                415,
                "UnsupportedMediaType",
                "415: Unsupported Media Type",
            ),
            id="server-side apply is not served",
        ),
        pytest.param(
            MERGE,
            {"metadata": {"name": "b"}},
            (400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)"),
            id="a patch cannot rename",
        ),
        pytest.param(
            MERGE,
            {"metadata": {"resourceVersion": "1"}},
            (
                409,
                "Conflict",
                'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
                "please apply your changes to the latest version and try again",
            ),
            id="a resourceVersion in a patch is a precondition",
        ),
    ],
)
def test_a_patch_is_refused(content_type, body, expected):
    client = Client()
    before = client.create(CONFIG_MAPS, config_map(data={"k": "v"}))
    assert refused(client.ask("PATCH", f"{CONFIG_MAPS}/a", body, content_type)) == expected
    assert client.get(f"{CONFIG_MAPS}/a") == before


# patches that cost much

LEAVES = "/apis/example.com/v1/namespaces/default/leaves"
LEAF_DEFINITION = {
    "metadata": {"name": "leaves.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "leaves", "singular": "leaf", "kind": "Leaf", "listKind": "LeafList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            [{"op": "copy", "from": "/spec", "path": f"/spec/x{n}"} for n in range(60)], id="each of all there is"
        ),
        pytest.param([{"op": "copy", "from": "/spec", "path": "/spec/x"}] * 2000, id="each into itself"),
        pytest.param(
            [{"op": "copy", "from": "/spec/big", "path": f"/spec/x{n}"} for n in range(2000)], id="of something large"
        ),
    ],
)
def test_copies_of_copies_are_refused_before_they_are_too_large(steps):
    client = Client()
    client.create(DEFINITIONS, LEAF_DEFINITION)
    kind = {"apiVersion": "example.com/v1", "kind": "Leaf"}
    client.create(LEAVES, {**kind, "metadata": {"name": "a"}, "spec": {"big": "x" * 100_000}})
    code, reason, _ = refused(client.ask("PATCH", f"{LEAVES}/a", steps, JSON_PATCH))
    assert (code, reason) == (422, "Invalid")
    assert client.get(f"{LEAVES}/a")["spec"] == {"big": "x" * 100_000}


def test_a_patch_of_very_many_operations_is_too_large():
    client = Client()
    client.create(CONFIG_MAPS, config_map("a"))
    steps = [{"op": "add", "path": "/data/k", "value": "v"}] * 10_001
    assert refused(client.ask("PATCH", f"{CONFIG_MAPS}/a", steps, JSON_PATCH)) == (
        413,
        "RequestEntityTooLarge",
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
    )
    assert client.ask("PATCH", f"{CONFIG_MAPS}/a", steps[1:], JSON_PATCH).code == 200


@given(objects)
def test_what_a_patch_copies_is_not_changed_with_its_copy(target):
    before = repr(target)
    steps = [
        step("add", "/n", value={"in": []}),
        step("add", "/n/in/-", value=1),
        step("copy", "/m", source="/n"),
        step("add", "/m/in/-", value=2),
        step("add", "/n/in/-", value=3),
    ]
    assert apply_json_patch(target, steps) == {**target, "n": {"in": [1, 3]}, "m": {"in": [1, 2]}}
    assert repr((target, steps[0].value)) == f"({before}, {{'in': []}})", "nor is the document, or a value of the patch"
