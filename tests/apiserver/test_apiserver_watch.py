"""Watches: what they begin with, what they tell, and that list and watch never disagree."""

import msgspec
import pytest
from apiserver_client import CONFIG_MAPS, MERGE, NAMESPACES, PODS, Client, binding, config_map, namespace, pod, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.apiserver import ApiError, ApiServer


def told(watch):
    return [(event.type, msgspec.json.decode(event.raw)["metadata"].get("name", "")) for event in watch.drain()]


def version(client):
    return client.get("/api/v1/nodes")["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    "begin", [pytest.param({}, id="no version"), pytest.param({"resourceVersion": "0"}, id="zero")]
)
def test_a_watch_from_nowhere_begins_with_what_exists(begin):
    client = Client()
    client.create(CONFIG_MAPS, config_map("b"))
    client.create(CONFIG_MAPS, config_map("a"))
    watch = client.server.watch("/api/v1/configmaps", begin)
    assert told(watch) == [("ADDED", "a"), ("ADDED", "b")]
    client.delete(f"{CONFIG_MAPS}/a")
    assert told(watch) == [("DELETED", "a")]
    assert told(watch) == []


def test_a_watch_goes_on_after_the_version_it_names():
    client = Client()
    client.create(CONFIG_MAPS, config_map("a"))
    watch = client.server.watch("/api/v1/configmaps", {"resourceVersion": version(client)})
    client.create(CONFIG_MAPS, config_map("b"))
    client.patch(f"{CONFIG_MAPS}/b", {"data": {"k": "v"}})
    assert told(watch) == [("ADDED", "b"), ("MODIFIED", "b")]


def test_a_deleted_object_carries_the_version_of_its_deletion():
    client = Client()
    client.create(CONFIG_MAPS, config_map("a"))
    watch = client.server.watch(CONFIG_MAPS, {"resourceVersion": version(client)})
    client.delete(f"{CONFIG_MAPS}/a")
    (event,) = watch.drain()
    assert msgspec.json.decode(event.raw)["metadata"]["resourceVersion"] == str(event.version) == version(client)


def test_watchers_share_the_bytes_of_a_change():
    client = Client()
    watches = [client.server.watch("/api/v1/configmaps", {}) for _ in range(2)]
    client.create(CONFIG_MAPS, config_map("a"))
    (one,), (other,) = (watch.drain() for watch in watches)
    assert one.raw is other.raw


def test_a_watch_of_a_namespace_tells_of_nothing_else():
    client = Client()
    client.create(NAMESPACES, namespace("other"))
    watch = client.server.watch(CONFIG_MAPS, {})
    client.create("/api/v1/namespaces/other/configmaps", config_map("a"))
    client.create(CONFIG_MAPS, config_map("b"))
    assert told(watch) == [("ADDED", "b")]


def test_an_object_enters_and_leaves_a_selection():
    client = Client()
    unbound = client.server.watch("/api/v1/pods", {"fieldSelector": "spec.nodeName="})
    bound = client.server.watch("/api/v1/pods", {"fieldSelector": "spec.nodeName=n-1"})
    client.create(PODS, pod("a"))
    client.ask("POST", f"{PODS}/a/binding", binding("n-1"))
    client.patch(f"{PODS}/a/status", {"status": {"phase": "Running"}})
    events = unbound.drain()
    assert [event.type for event in events] == ["ADDED", "DELETED"]
    last = msgspec.json.decode(events[1].raw)
    assert "nodeName" not in last["spec"], "what left is shown as it was while it matched"
    assert last["metadata"]["resourceVersion"] == str(events[1].version)
    assert told(bound) == [("ADDED", "a"), ("MODIFIED", "a")]


def test_a_bookmark_tells_a_watch_that_only_time_has_passed():
    client = Client()
    watch = client.server.watch("/api/v1/pods", {"allowWatchBookmarks": "true"})
    assert watch.drain() == []
    client.create(CONFIG_MAPS, config_map("a"))
    (event,) = watch.drain()
    assert (event.type, str(event.version)) == ("BOOKMARK", version(client))
    assert msgspec.json.decode(event.raw)["metadata"] == {"resourceVersion": version(client)}
    assert watch.drain() == []


INITIAL = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}


def test_a_watch_that_asks_for_initial_events_is_told_when_they_end():
    client = Client()
    client.create(CONFIG_MAPS, config_map("a"))
    watch = client.server.watch(CONFIG_MAPS, INITIAL)
    added, end = watch.drain()
    assert (added.type, end.type) == ("ADDED", "BOOKMARK")
    assert msgspec.json.decode(end.raw)["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def small_history():
    client = Client(ApiServer(history=4))
    client.create(CONFIG_MAPS, config_map("a"))
    start = version(client)
    watch = client.server.watch(CONFIG_MAPS, {"resourceVersion": start})
    page = client.get(f"{CONFIG_MAPS}?limit=1&resourceVersion=0")
    client.create(CONFIG_MAPS, config_map("b"))
    paged = client.get(f"{CONFIG_MAPS}?limit=1")["metadata"]["continue"]
    assert "continue" not in page["metadata"]
    for number in range(10):
        client.patch(f"{CONFIG_MAPS}/a", {"data": {"n": str(number)}})
    return client, start, watch, paged


def test_a_watch_that_fell_behind_the_history_is_expired():
    client, start, watch, _ = small_history()
    for attempt in (watch.drain, lambda: client.server.watch(CONFIG_MAPS, {"resourceVersion": start})):
        with pytest.raises(ApiError, match="too old resource version") as caught:
            attempt()
        assert (caught.value.code, caught.value.reason) == (410, "Expired")


def test_a_continuation_that_fell_behind_the_history_is_expired():
    client, _, _, paged = small_history()
    code, reason, _ = refused(client.ask("GET", f"{CONFIG_MAPS}?limit=1&continue={paged}"))
    assert (code, reason) == (410, "Expired")


@pytest.mark.parametrize(
    "path, query, code, message",
    [
        pytest.param(CONFIG_MAPS, {"resourceVersion": "999"}, 504, "Too large resource version: 999", id="future"),
        pytest.param(CONFIG_MAPS, {"resourceVersion": "x"}, 400, "invalid resource version 'x'", id="no number"),
        pytest.param(
            CONFIG_MAPS,
            {"labelSelector": "a in b"},
            400,
            "unable to parse requirement",
            id="a selector that cannot be read",
        ),
        pytest.param(
            CONFIG_MAPS, {"fieldSelector": "data.k=v"}, 400, '"data.k" is not a known field selector', id="field"
        ),
        pytest.param("/api/v1/nothings", {}, 404, "could not find the requested resource", id="no such resource"),
        pytest.param(f"{CONFIG_MAPS}/a", {}, 405, "does not allow this method", id="a single object"),
    ],
)
def test_a_watch_is_refused(path, query, code, message):
    with pytest.raises(ApiError, match=message) as caught:
        Client().server.watch(path, query)
    assert caught.value.code == code


names = st.sampled_from("abc")
acts = st.one_of(
    st.tuples(st.just("create"), names, st.sampled_from(["red", "blue"])),
    st.tuples(st.just("paint"), names, st.sampled_from(["red", "blue"])),
    st.tuples(st.just("delete"), names, st.none()),
    st.tuples(st.just("drain"), st.none(), st.none()),
)


def perform(client, act):
    match act:
        case ("create", name, color):
            client.ask("POST", CONFIG_MAPS, config_map(name, labels={"color": color}))
        case ("paint", name, color):
            client.ask("PATCH", f"{CONFIG_MAPS}/{name}", {"metadata": {"labels": {"color": color}}}, MERGE)
        case ("delete", name, None):
            client.ask("DELETE", f"{CONFIG_MAPS}/{name}")


def whole(item):
    """An item of a list as a watch shows it."""
    return {"apiVersion": "v1", "kind": "ConfigMap", **item}


def follow(state, watch):
    for event in watch.drain():
        value = msgspec.json.decode(event.raw)
        name = value["metadata"]["name"]
        assert (event.type == "ADDED") == (name not in state), "added exactly when it was not there"
        if event.type == "DELETED":
            del state[name]
        else:
            state[name] = value


@settings(max_examples=60, deadline=None)
@given(st.lists(acts, max_size=12), st.lists(acts, max_size=20), st.sampled_from(["", "color=red", "color!=red"]))
def test_a_list_and_the_watch_after_it_give_what_a_later_list_shows(before, after, selector):
    client = Client()
    for act in before:
        perform(client, act)
    path = f"{CONFIG_MAPS}?labelSelector={selector}"
    listed = client.get(path)
    state = {item["metadata"]["name"]: whole(item) for item in listed["items"]}
    since = {"resourceVersion": listed["metadata"]["resourceVersion"], "labelSelector": selector}
    watch = client.server.watch(CONFIG_MAPS, since)
    for act in after:
        follow(state, watch) if act[0] == "drain" else perform(client, act)
    follow(state, watch)
    assert [state[name] for name in sorted(state)] == list(map(whole, client.get(path)["items"]))


@settings(max_examples=40, deadline=None)
@given(st.lists(acts, min_size=1, max_size=12), st.lists(acts, max_size=12))
def test_a_list_of_an_earlier_version_shows_what_a_list_then_showed(before, after):
    client = Client()
    for act in before:
        perform(client, act)
    then = client.get(CONFIG_MAPS)
    for act in after:
        perform(client, act)
    exact = f"resourceVersionMatch=Exact&resourceVersion={then['metadata']['resourceVersion']}"
    assert client.get(f"{CONFIG_MAPS}?{exact}") == then
