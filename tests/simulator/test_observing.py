"""What our process sees: everything, or late, or only the last of it, but never back in time."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headgate.apiserver import ApiServer, Request
from headgate.model.events import Gone, Observed
from headgate.model.keys import Key, Kind
from headgate.model.objects import Namespace
from headgate.simulator.observing import DelayedObservations, Feed, coalesced, kinds_of, of_kinds


def space(name: str, version: int = 1, uid: str = "") -> Namespace:
    return Namespace(Key(Kind.NAMESPACE, "", name), uid or f"{name}-uid", str(version), {})


def gone(name: str, uid: str = "") -> Gone:
    return Gone(Key(Kind.NAMESPACE, "", name), uid or f"{name}-uid")


def ask(server: ApiServer, method: str, path: str, body: object = None) -> None:
    raw = b"" if body is None else msgspec.json.encode(body)
    assert server.handle(Request(method, path, body=raw), 0.0).code < 300


def priority(server: ApiServer, name: str) -> None:
    manifest = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1}
    ask(server, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", manifest)


def test_a_feed_tells_every_change_of_every_kind_in_the_servers_order():
    server = ApiServer()
    feed = Feed(server, (Kind.NODE, Kind.PRIORITY_CLASS))
    feed.poll()
    priority(server, "first")
    ask(server, "POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "second"}})
    ask(server, "DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/first")
    seen = [s.object.key.name if isinstance(s, Observed) else f"no {s.key.name}" for s in feed.poll()]
    assert seen == ["first", "second", "no first"]
    assert feed.poll() == []


def definition(group: str, plural: str, kind: str, version: str) -> dict[str, object]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [served],
        },
    }


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POD_GROUPS = "scheduling.volcano.sh", "podgroups", "PodGroup", "v1beta1"


def serve_pod_groups(server: ApiServer) -> None:
    ask(server, "POST", DEFINITIONS, definition(*POD_GROUPS))


def pod_group(server: ApiServer, name: str) -> None:
    group, plural, kind, version = POD_GROUPS
    manifest = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name}, "spec": {}}
    ask(server, "POST", f"/apis/{group}/{version}/namespaces/default/{plural}", manifest)


def test_a_feed_sees_the_objects_of_an_optional_kind_once_that_is_served():
    server = ApiServer()
    feed = Feed(server, (Kind.VOLCANO_POD_GROUP,))
    assert feed.poll() == []
    serve_pod_groups(server)
    pod_group(server, "g")
    (seen,) = feed.poll()
    assert isinstance(seen, Observed) and seen.object.key == Key(Kind.VOLCANO_POD_GROUP, "default", "g")
    assert feed.poll() == []


def test_a_feed_sees_the_objects_of_a_kind_whose_definition_was_made_anew():
    server = ApiServer()
    serve_pod_groups(server)
    feed = Feed(server, (Kind.VOLCANO_POD_GROUP,))
    pod_group(server, "before")
    feed.poll()
    ask(server, "DELETE", f"{DEFINITIONS}/podgroups.scheduling.volcano.sh")
    (lost,) = feed.poll()
    serve_pod_groups(server)
    pod_group(server, "after")
    (seen,) = feed.poll()
    assert isinstance(lost, Gone) and lost.key.name == "before"
    assert isinstance(seen, Observed) and seen.object.key.name == "after"
    assert [key.name for key in feed.objects] == ["after"]


def test_a_feed_that_fell_behind_the_servers_memory_looks_at_everything_anew():
    server = ApiServer(history=4)
    feed = Feed(server, (Kind.PRIORITY_CLASS,))
    priority(server, "leaves")
    feed.poll()
    ask(server, "DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/leaves")
    for number in range(20):
        priority(server, f"p-{number}")
    seen = feed.poll()
    assert isinstance(seen[0], Gone) and seen[0].key.name == "leaves"
    assert {f"p-{number}" for number in range(20)} <= {key.name for key in feed.objects}
    assert "leaves" not in {key.name for key in feed.objects}


def test_what_lags_comes_when_its_time_has_come():
    view = DelayedObservations(lag=5.0)
    view.learn([Observed(space("a"))], now=1.0)
    assert (view.release(5.9), view.next_at) == ([], 6.0)
    assert view.release(6.0) == [Observed(space("a"))]
    assert view.next_at is None


def test_nothing_seen_is_nothing_to_wait_for():
    view = DelayedObservations(lag=5.0)
    view.learn([], now=1.0)
    assert view.next_at is None


def test_who_reads_some_kinds_sees_all_of_them_in_order_and_nothing_else():
    flavor = Gone(Key(Kind.RESOURCE_FLAVOR, "", "f"), "u")
    changes = [Observed(space("a")), flavor, gone("b"), Gone(Key(Kind.COHORT, "", "c"), "u")]
    assert of_kinds(changes, {Kind.NAMESPACE, Kind.RESOURCE_FLAVOR}) == changes[:3]
    assert kinds_of(changes) == {Kind.NAMESPACE, Kind.RESOURCE_FLAVOR, Kind.COHORT}
    assert of_kinds(changes, {Kind.POD}) == []


def test_a_shorter_lag_brings_what_is_under_way_sooner_and_in_order():
    view = DelayedObservations(lag=5.0)
    view.learn([Observed(space("a"))], now=1.0)
    view.set_lag(0.0, now=2.0)
    view.learn([Observed(space("b"))], now=2.0)
    assert view.release(2.0) == [Observed(space("a")), Observed(space("b"))]


def test_a_list_shows_what_is_and_what_is_no_more():
    view = DelayedObservations(lag=0.0)
    view.learn([Observed(space("stays")), Observed(space("goes")), Observed(space("new", uid="old"))], now=0.0)
    view.release(0.0)
    now = [space("stays", 2), space("new", 3, uid="young")]
    seen = view.relist({found.key: found for found in now})
    assert seen == [gone("goes"), gone("new", "old"), *map(Observed, now)]


def test_a_list_overtakes_what_is_under_way():
    view = DelayedObservations(lag=5.0)
    view.learn([Observed(space("a", 1))], now=0.0)
    view.relist({space("a").key: space("a", 2)})
    assert (view.release(100.0), view.next_at) == ([], None)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans())))
def test_coalescing_keeps_the_last_sight_of_every_object(changes):
    changes = [Observed(space(name, version)) if there else gone(name) for version, (name, there) in enumerate(changes)]
    last = {change.object.key if isinstance(change, Observed) else change.key: change for change in changes}
    kept = coalesced(changes)
    assert sorted(map(repr, kept)) == sorted(map(repr, last.values()))
    assert kept == [change for change in changes if any(change is other for other in kept)], "in their order"
