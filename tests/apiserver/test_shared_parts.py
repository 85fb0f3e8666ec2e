"""Parts of custom objects that read the same are the very same, whoever wrote them; nothing else can be told."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.apiserver import ApiServer, Json, Request, Response
from headgate.apiserver.apiextensions import resource_types_of
from headgate.apiserver.handlers import decode_object
from headgate.apiserver.patches import SharedMerges, apply_merge_patch
from headgate.apiserver.registry import Registry
from headgate.apiserver.storage import Store

STATUS: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SPEC: Json = {"type": "object", "properties": {"n": {"type": "integer"}, "d": {"type": "string", "default": "given"}}}
DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}},
            }
        ],
    },
}
THINGS = "/apis/example.com/v1/namespaces/default/things"
MERGE = "application/merge-patch+json"


@pytest.fixture
def server() -> ApiServer:
    server = ApiServer()
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert server.handle(Request("POST", path, {}, msgspec.json.encode(DEFINITION)), 0.0).code == 201
    return server


def create(server: ApiServer, name: str, spec: Json) -> Json:
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}
    return server.handle(Request("POST", THINGS, {}, msgspec.json.encode(thing)), 0.0).value


def patch(server: ApiServer, name: str, body: bytes) -> Response:
    return server.handle(Request("PATCH", f"{THINGS}/{name}/status", {}, body, MERGE), 0.0)


def test_objects_that_say_the_same_share_it_and_keep_what_is_their_own(server: ApiServer) -> None:
    one, other, third = (
        create(server, "one", {"n": 1}),
        create(server, "other", {"n": 1}),
        create(server, "x", {"n": 2}),
    )
    assert one["spec"] is other["spec"] == {"n": 1, "d": "given"}
    assert third["spec"] == {"n": 2, "d": "given"}
    assert (one["metadata"]["name"], other["metadata"]["name"]) == ("one", "other")


def test_the_same_patches_make_the_same_statuses_and_other_ones_others(server: ApiServer) -> None:
    for name in ("one", "other", "third"):
        create(server, name, {"n": 1})
    first, then, else_ = b'{"status":{"a":{"b":1}}}', b'{"status":{"a":{"c":2}}}', b'{"status":{"a":{"b":null,"c":2}}}'
    results = [[patch(server, name, body).value["status"] for body in (first, then)] for name in ("one", "other")]
    assert results[0] == [{"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}]
    assert all(one is other for one, other in zip(*results, strict=True))
    patch(server, "third", first)
    assert patch(server, "third", else_).value["status"] == {"a": {"c": 2}}
    assert patch(server, "one", b'{"status":null}').value.get("status") is None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"status":{"a":tru}}', id="a part that is no JSON"),
        pytest.param(b'{"status":{"a":"\\q"}}', id="a text in a part"),
        pytest.param(b'{"status":{"a":[{"b":"\\q"}]}}', id="a text in an item"),
        pytest.param(b'{"status":{"a":1}}x', id="something after the whole"),
        pytest.param(b"[1]", id="no object"),
    ],
)
def test_trouble_with_a_body_is_told_by_its_place_in_the_whole(server: ApiServer, body: bytes) -> None:
    create(server, "one", {"n": 1})
    with pytest.raises(msgspec.DecodeError) as trouble:
        msgspec.json.decode(body, type=dict[str, Any])
    for name in ("one", "absent"):  # what cannot be read is refused before anyone looks for the object
        answer = patch(server, name, body)
        assert (answer.code, answer.value["message"]) == (400, f"error decoding patch: {trouble.value}")


TEXTS = st.sampled_from(["", "a", '},"spec":', '{"metadata":{},"status":{}}', '"metadata"'])
INNER = st.recursive(
    st.none() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["metadata", "spec", "status", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)
BODIES = st.dictionaries(st.sampled_from(["metadata", "spec", "status", "a"]), INNER, max_size=4)


@given(BODIES)
def test_a_body_says_what_it_says_wherever_its_parts_begin(body: Json) -> None:
    registry = Registry(Store(), ())
    registry.define(resource_types_of(DEFINITION))
    served = registry.of_kind("example.com/v1", "Thing")
    assert served is not None
    kind = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {}}
    given = {**kind, **{name: {"labels": part} if name == "metadata" else part for name, part in body.items()}}
    text = msgspec.json.encode(given)
    for _ in range(2):
        assert msgspec.json.encode(decode_object(text, served, registry)) == text


PLAIN = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a"])


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.dictionaries(st.sampled_from(["a", "b", "metadata"]), inner, max_size=3)


VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=2) | objects(inner), max_leaves=6)


@given(st.lists(st.tuples(objects(VALUES), objects(VALUES)), max_size=4))
def test_patches_of_shared_parts_are_merge_patches(asked: list[tuple[Json, Json]]) -> None:
    merges, before = SharedMerges(), copy.deepcopy(asked)
    for target, change in [*asked, *asked]:
        made, expected = merges.applied(target, change), apply_merge_patch(target, change)
        assert msgspec.json.encode(made) == msgspec.json.encode(expected)
    assert asked == before
