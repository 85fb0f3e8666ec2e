"""Server-side apply and managers of fields. What a real server answers: `tests/kubernetes/exchanges_apply.py`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.apiserver import ApiServer, Json, Request, Response
from headgate.apiserver.managedfields.paths import InvalidFields, decode_paths, encode_paths, keyed, of_value, shown

MAPS = "/api/v1/namespaces/default/configmaps"
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
NOW = 1_000.0


def config_map(data: Any, **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", **metadata}, "data": data}


class Client:
    """Asks one server, a second later each time."""

    def __init__(self, server: ApiServer | None = None) -> None:
        self.server, self.now = server or ApiServer(tracks_fields=True), NOW

    def ask(self, method: str, path: str, body: Any, kind: str = "application/json", **query: str) -> Response:
        self.now += 1
        request = Request(method, path, query, msgspec.json.encode(body), kind, user_agent="tests/1")
        return self.server.handle(request, self.now)

    def create(self, value: Json, path: str = MAPS) -> Response:
        return self.ask("POST", path, value)

    def apply(self, value: Json, manager: str = "one", path: str = f"{MAPS}/m", **query: str) -> Response:
        return self.ask("PATCH", path, value, APPLY, fieldManager=manager, **query)

    def merge(self, change: Any, path: str = f"{MAPS}/m", **query: str) -> Response:
        return self.ask("PATCH", path, change, MERGE, **query)


def owners(response: Response) -> dict[str, Any]:
    """The fields of each manager."""
    assert response.code in (200, 201), response.value
    entries = response.value["metadata"].get("managedFields") or []
    return {f"{entry['manager']} {entry['operation']}": entry["fieldsV1"] for entry in entries}


def test_each_manager_owns_what_it_wrote_last():
    client = Client()
    client.create(config_map({"a": "1", "b": "1"}))
    answer = client.merge({"data": {"a": "2"}}, fieldManager="patcher")
    assert owners(answer) == {
        "tests Update": {"f:data": {".": {}, "f:b": {}}},
        "patcher Update": {"f:data": {"f:a": {}}},
    }


def test_entries_come_by_operation_then_by_time():
    client = Client()
    client.create(config_map({"a": "1"}))
    client.merge({"data": {"z": "1"}}, fieldManager="zoe")
    client.merge({"data": {"b": "1"}}, fieldManager="bob")
    client.apply(config_map({"x": "1"}), "xenia")
    answer = client.apply(config_map({"y": "1"}), "anna")
    assert list(owners(answer)) == ["xenia Apply", "anna Apply", "tests Update", "zoe Update", "bob Update"]


def test_an_update_that_changes_nothing_stores_nothing():
    client = Client()
    first = client.apply(config_map({"a": "1"}))
    for answer in (client.apply(config_map({"a": "1"})), client.merge({"data": {"a": "1"}}, fieldManager="other")):
        assert answer.value == first.value


def test_who_applies_the_same_value_owns_it_too_and_keeps_it():
    client = Client()
    client.apply(config_map({"a": "1"}))
    client.apply(config_map({"a": "1"}), "two")
    without = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
    assert client.apply(without).value["data"] == {"a": "1"}
    assert "data" not in client.apply(without, "two").value


def test_a_conflict_names_the_field_and_its_manager_and_changes_nothing():
    client = Client()
    client.apply(config_map({"a": "1"}))
    refused = client.apply(config_map({"a": "2"}), "two")
    assert refused.code == 409
    assert refused.value["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert owners(client.apply(config_map({"a": "2"}), "two", force="true")) == {"two Apply": {"f:data": {"f:a": {}}}}


@pytest.mark.parametrize("given_entries", [[], [{}]], ids=["no entries", "one that is empty"])
def test_managers_can_be_reset_and_are_tracked_again_from_the_next_apply(given_entries: Any):
    client = Client()
    client.create(config_map({"a": "1"}))
    assert "managedFields" not in client.merge({"metadata": {"managedFields": given_entries}}).value["metadata"]
    assert "managedFields" not in client.merge({"data": {"b": "1"}}).value["metadata"]
    assert set(owners(client.apply(config_map({"c": "1"})))) == {"one Apply", "before-first-apply Update"}


@pytest.mark.parametrize(
    "entries",
    [
        7,
        [7],
        [{"operation": "Update"}],
        [{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}],
        [{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"k:{": {}}}],
        [{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": 1}}],
    ],
    ids=["a number", "a list of one", "no version", "no element", "no JSON", "a number below"],
)
def test_entries_that_cannot_be_read_change_nothing(entries: Any):
    client = Client()
    before = client.create(config_map({"a": "1"})).value["metadata"]["managedFields"]
    answer = client.merge({"metadata": {"managedFields": entries}})
    assert answer.code in (200, 400), answer.value
    if answer.code == 200:
        assert answer.value["metadata"]["managedFields"] == before


def test_without_tracking_objects_have_no_managers_and_nothing_is_applied():
    client = Client(ApiServer())
    assert "managedFields" not in client.create(config_map({"a": "1"})).value["metadata"]
    assert client.apply(config_map({"a": "2"})).code == 415


THINGS = "/apis/example.com/v1/namespaces/default/things"
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "n": {"type": "integer"},
                "atomic": {"type": "array", "items": {"type": "string"}},
                "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "byName": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "v": {"type": "integer"}},
                    },
                },
                "whole": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "additionalProperties": {"type": "string"},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"m": {"type": "string"}}},
    },
}
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
                "schema": {"openAPIV3Schema": SCHEMA},
            }
        ],
    },
}


def thing(spec: Json, **others: Any) -> Json:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec, **others}


@pytest.fixture
def things() -> Client:
    client = Client()
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert client.create(DEFINITION, path).code == 201
    return client


@pytest.mark.parametrize(
    "first, second, merged",
    [
        ({"set": ["a"]}, {"set": ["b"]}, {"set": ["a", "b"]}),
        ({"byName": [{"name": "a", "v": 1}]}, {"byName": [{"name": "b"}]}, [{"name": "a", "v": 1}, {"name": "b"}]),
        ({"byName": [{"name": "a"}]}, {"byName": [{"name": "a", "v": 1}]}, [{"name": "a", "v": 1}]),
        ({"free": {"x": {"y": 1}}}, {"free": {"x": {"z": 2}}}, {"free": {"x": {"y": 1, "z": 2}}}),
    ],
    ids=["sets are united", "items are told apart by their key", "an item is merged", "free fields are merged"],
)
def test_custom_resources_merge_as_their_schema_says(things: Client, first: Json, second: Json, merged: Any):
    things.apply(thing(first), "one", f"{THINGS}/t")
    spec = things.apply(thing(second), "two", f"{THINGS}/t").value["spec"]
    assert spec == (merged if isinstance(merged, dict) else {"byName": merged})


@pytest.mark.parametrize(
    "first, second, field",
    [
        ({"atomic": ["a"]}, {"atomic": ["b"]}, ".spec.atomic"),
        ({"whole": {"a": "1"}}, {"whole": {"b": "1"}}, ".spec.whole"),
        ({"byName": [{"name": "a", "v": 1}]}, {"byName": [{"name": "a", "v": 2}]}, '.spec.byName[name="a"].v'),
        ({"n": 1}, {"n": 2}, ".spec.n"),
    ],
    ids=["a list is one value", "a map is one value", "one field of an item", "a number"],
)
def test_custom_resources_conflict_as_their_schema_says(things: Client, first: Json, second: Json, field: str):
    things.apply(thing(first), "one", f"{THINGS}/t")
    refused = things.apply(thing(second), "two", f"{THINGS}/t")
    assert refused.value["message"] == f'Apply failed with 1 conflict: conflict with "one": {field}'


def test_a_status_is_owned_by_who_applies_it_and_the_spec_beside_it_is_not(things: Client):
    things.apply(thing({"n": 1}), "one", f"{THINGS}/t")
    answer = things.apply(thing({"n": 2}, status={"m": "x"}), "two", f"{THINGS}/t/status")
    assert answer.value["spec"] == {"n": 1}
    assert owners(answer) == {"one Apply": {"f:spec": {"f:n": {}}}, "two Apply": {"f:status": {"f:m": {}}}}


names = st.sampled_from("abc")
data = st.dictionaries(names, st.sampled_from("12"), max_size=3)
writes = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), st.sampled_from(["one", "two"]), data),
        st.tuples(st.just("update"), st.sampled_from(["one", "two", "three"]), data),
    ),
    min_size=1,
    max_size=8,
)


@given(writes)
def test_whatever_is_written_every_value_has_an_owner_and_nobody_owns_what_is_not_there(history: Any):
    client = Client()
    answer = client.create(config_map({"a": "0"}))
    for verb, manager, values in history:
        if verb == "apply":
            answer = client.apply(config_map(values), manager, force="true")
            assert values.items() <= (answer.value.get("data") or {}).items()
        else:
            answer = client.ask("PUT", f"{MAPS}/m", config_map(values), fieldManager=manager)
        assert answer.code == 200, answer.value
        owned = {path for fields in owners(answer).values() for path in decode_paths(fields)}
        there = {("f:data", f"f:{name}") for name in answer.value.get("data") or {}}
        assert {path for path in owned if len(path) == 2 and path[0] == "f:data"} == there


elements = st.one_of(
    names.map("f:{}".format), st.dictionaries(names, st.integers(0, 3), min_size=1).map(keyed), names.map(of_value)
)


@given(st.frozensets(st.lists(elements, min_size=1, max_size=4).map(tuple)))
def test_a_set_of_fields_survives_its_form_in_objects(paths: Any):
    assert decode_paths(msgspec.json.decode(msgspec.json.encode(encode_paths(paths)))) == paths
    assert all(shown(path) for path in paths)


def test_a_set_nested_without_end_is_no_set():
    fields: Json = {}
    for _ in range(300):
        fields = {"f:x": fields}
    with pytest.raises(InvalidFields):
        decode_paths(fields)


@pytest.mark.parametrize("depth", [100, 400, 5000])
def test_objects_nested_too_deeply_are_refused_and_stop_nobody(things: Client, depth: int):
    spec = b'{"free":' + b'{"a":' * depth + b"1" + b"}" * (depth + 1)
    body = b'{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t"},"spec":' + spec + b"}"
    asked = (Request("POST", THINGS, {}, body), Request("PATCH", f"{THINGS}/t", {"fieldManager": "x"}, body, APPLY))
    assert {things.server.handle(request, NOW).code for request in asked} <= {200, 201, 400}
    assert things.apply(config_map({"a": "1"})).code == 201
