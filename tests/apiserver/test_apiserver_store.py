"""Paths, and the store below the verbs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.apiserver import ApiError
from headgate.apiserver.registry import ResourcePath, parse_path
from headgate.apiserver.storage import Store


@pytest.mark.parametrize(
    "path, expected",
    [
        pytest.param("/api/v1/nodes", ResourcePath("", "v1", "", "nodes"), id="a cluster-wide collection"),
        pytest.param("/api/v1/nodes/n", ResourcePath("", "v1", "", "nodes", "n"), id="a cluster-wide object"),
        pytest.param("/api/v1/pods", ResourcePath("", "v1", "", "pods"), id="all namespaces"),
        pytest.param("/api/v1/namespaces/x/pods", ResourcePath("", "v1", "x", "pods"), id="one namespace"),
        pytest.param("/api/v1/namespaces/x/pods/", ResourcePath("", "v1", "x", "pods"), id="a slash at the end"),
        pytest.param("/api/v1/namespaces/x/pods/p", ResourcePath("", "v1", "x", "pods", "p"), id="an object"),
        pytest.param(
            "/api/v1/namespaces/x/pods/p/binding",
            ResourcePath("", "v1", "x", "pods", "p", "binding"),
            id="a subresource",
        ),
        pytest.param("/api/v1/namespaces/x", ResourcePath("", "v1", "", "namespaces", "x"), id="a namespace itself"),
        pytest.param(
            "/api/v1/namespaces/x/status", ResourcePath("", "v1", "", "namespaces", "x", "status"), id="its status"
        ),
        pytest.param(
            "/apis/batch/v1/namespaces/x/jobs/j",
            ResourcePath("batch", "v1", "x", "jobs", "j"),
            id="a group with a name",
        ),
    ],
)
def test_a_path_is_taken_apart(path, expected):
    assert parse_path(path) == expected


@pytest.mark.parametrize(
    "path", ["", "/", "/api", "/api/v1", "/apis/batch", "/apis/batch/v1", "/healthz", "/api/v1//x"]
)
def test_a_path_that_names_nothing_is_not_found(path):
    with pytest.raises(ApiError) as caught:
        parse_path(path)
    assert caught.value.code == 404


def value(text=""):
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {}, "text": text}


def test_a_stored_value_is_not_changed_by_later_writes():
    store = Store()
    things = store.collection("", "things")
    first = store.put(things, "x", "a", value("one"))
    before = repr(first)
    store.put(things, "x", "a", {**first, "text": "two"})
    assert repr(first) == before


@pytest.mark.parametrize(
    "metadata, called",
    [
        pytest.param({}, False, id="what it says"),
        pytest.param({"labels": {"a": "b"}}, False, id="its labels"),
        pytest.param({"ownerReferences": [{"uid": "u"}]}, True, id="its owners"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, True, id="that it is going"),
    ],
)
def test_a_change_calls_for_action_by(metadata, called):
    store = Store()
    things = store.collection("", "things")
    store.put(things, "x", "a", value("one"))
    assert [change.type for change in store.take_unreconciled()] == ["ADDED"]
    store.put(things, "x", "a", {**value("two"), "metadata": metadata})
    assert bool(store.take_unreconciled()) == called
    things.is_reconciled = True
    store.put(things, "x", "a", {**value("three"), "metadata": metadata})
    store.remove(things, "x", "a", value())
    assert [change.type for change in store.take_unreconciled()] == ["MODIFIED", "DELETED"]


def test_a_revision_is_encoded_once():
    store = Store()
    things = store.collection("", "things")
    store.put(things, "x", "a", value())
    revision = things.get("x", "a")
    assert revision.raw is revision.raw


places = st.tuples(st.sampled_from("xyz"), st.sampled_from("abc"))


@given(st.lists(st.tuples(places, st.booleans()), max_size=40), st.integers(1, 10))
def test_a_collection_is_in_order_and_reaches_back_as_far_as_it_promises(writes, keep):
    store, expected, states = Store(keep), {}, {}
    things = store.collection("", "things")
    for (namespace, name), stays in writes:
        if stays:
            expected[namespace, name] = store.put(things, namespace, name, value())
        elif (namespace, name) in expected:
            store.remove(things, namespace, name, expected.pop((namespace, name)))
        else:
            continue
        states[store.version] = dict(expected)
    listed = [(namespace, name, revision.value) for namespace, name, revision in things.items()]
    assert listed == [(*place, expected[place]) for place in sorted(expected)]
    for version in list(states)[-keep - 1 :]:
        then = {(namespace, name): found.value for namespace, name, found in things.items_at(version)}
        assert then == states[version]
