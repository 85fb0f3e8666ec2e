"""How objects end: finalizers, owners, namespaces, definitions."""

import pytest
from apiserver_client import (
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACES,
    PODS,
    STRATEGIC,
    Client,
    accepted,
    binding,
    config_map,
    namespace,
    owner,
    pod,
    refused,
)

HOLD = "example.com/hold"


def test_an_object_with_finalizers_waits_for_the_write_that_removes_the_last():
    client = Client()
    client.create(CONFIG_MAPS, config_map(finalizers=[HOLD, "example.com/two"]))
    watch = client.server.watch(CONFIG_MAPS, {})
    watch.drain()
    going = client.delete(f"{CONFIG_MAPS}/a")
    assert going["metadata"]["deletionTimestamp"] == "1970-01-01T00:16:40Z"
    client.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": [HOLD]}})
    assert client.exists(f"{CONFIG_MAPS}/a")
    client.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}})
    assert not client.exists(f"{CONFIG_MAPS}/a")
    assert [event.type for event in watch.drain()] == ["MODIFIED", "MODIFIED", "DELETED"]


def test_deleting_again_what_waits_changes_nothing():
    client = Client()
    client.create(CONFIG_MAPS, config_map(finalizers=[HOLD]))
    going = client.delete(f"{CONFIG_MAPS}/a")
    client.now += 10
    assert client.delete(f"{CONFIG_MAPS}/a") == going


def test_a_going_object_takes_no_new_finalizers():
    client = Client()
    client.create(CONFIG_MAPS, config_map(finalizers=[HOLD]))
    client.delete(f"{CONFIG_MAPS}/a")
    answer = client.ask("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": [HOLD, "x.y/z"]}}, STRATEGIC)
    code, _, message = refused(answer)
    assert code == 422
    assert "no new finalizers can be added if the object is being deleted" in message


def test_a_pod_without_finalizers_still_waits_for_its_grace():
    client = Client()
    client.create(PODS, pod())
    accepted(client.ask("POST", f"{PODS}/a/binding", binding()))
    client.patch(f"{PODS}/a", {"metadata": {"finalizers": [HOLD]}})
    client.delete(f"{PODS}/a")
    client.patch(f"{PODS}/a", {"metadata": {"finalizers": None}})
    assert client.exists(f"{PODS}/a")
    client.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert not client.exists(f"{PODS}/a")


def family(client, **reference):
    """An owner, its child and its grandchild."""
    parent = client.create(CONFIG_MAPS, config_map("parent"))
    child = client.create(CONFIG_MAPS, config_map("child", ownerReferences=[owner(parent, **reference)]))
    client.create(CONFIG_MAPS, config_map("grandchild", ownerReferences=[owner(child, **reference)]))
    return parent, child


@pytest.mark.parametrize(
    "policy, left",
    [
        pytest.param("Background", [], id="in the background all go"),
        pytest.param("Foreground", [], id="in the foreground all go"),
        pytest.param("Orphan", ["child", "grandchild"], id="orphans stay"),
        pytest.param(None, [], id="the default is the background"),
    ],
)
@pytest.mark.parametrize("blocks", [True, False])
def test_what_becomes_of_dependents(policy, left, blocks):
    client = Client()
    family(client, blockOwnerDeletion=blocks)
    client.delete(f"{CONFIG_MAPS}/parent", {"propagationPolicy": policy} if policy else {})
    assert client.names(CONFIG_MAPS) == left


def test_orphans_forget_their_owner():
    client = Client()
    family(client)
    client.delete(f"{CONFIG_MAPS}/parent", {"propagationPolicy": "Orphan"})
    assert "ownerReferences" not in client.get(f"{CONFIG_MAPS}/child")["metadata"]


def test_in_the_foreground_the_owner_waits_for_those_that_hold_it():
    client = Client()
    parent = client.create(CONFIG_MAPS, config_map("parent"))
    held = config_map("child", ownerReferences=[owner(parent, blockOwnerDeletion=True)], finalizers=[HOLD])
    client.create(CONFIG_MAPS, held)
    client.delete(f"{CONFIG_MAPS}/parent", {"propagationPolicy": "Foreground"})
    waiting = client.get(f"{CONFIG_MAPS}/parent")["metadata"]
    assert waiting["finalizers"] == ["foregroundDeletion"]
    assert client.get(f"{CONFIG_MAPS}/child")["metadata"]["deletionTimestamp"]
    client.patch(f"{CONFIG_MAPS}/child", {"metadata": {"finalizers": None}})
    assert client.names(CONFIG_MAPS) == []


def test_a_dependent_stays_for_its_other_owner_and_forgets_the_lost_one():
    client = Client()
    first, second = (client.create(CONFIG_MAPS, config_map(name)) for name in ("first", "second"))
    client.create(CONFIG_MAPS, config_map("child", ownerReferences=[owner(first), owner(second)]))
    client.delete(f"{CONFIG_MAPS}/first")
    assert client.get(f"{CONFIG_MAPS}/child")["metadata"]["ownerReferences"] == [owner(second)]
    client.delete(f"{CONFIG_MAPS}/second")
    assert client.names(CONFIG_MAPS) == []


@pytest.mark.parametrize(
    "reference, stays",
    [
        pytest.param({"apiVersion": "v1", "kind": "ConfigMap"}, False, id="a known kind: the owner is lost"),
        pytest.param({"apiVersion": "apps/v1", "kind": "Unheard"}, True, id="an unknown kind: nobody can tell"),
    ],
)
def test_a_new_object_whose_owner_is_not_there(reference, stays):
    client = Client()
    lost = {**reference, "name": "x", "uid": "no-such-uid"}
    client.create(CONFIG_MAPS, config_map("child", ownerReferences=[lost]))
    assert client.exists(f"{CONFIG_MAPS}/child") is stays


def test_a_namespaced_owner_does_not_reach_into_other_namespaces():
    client = Client()
    client.create(NAMESPACES, namespace("other"))
    parent = client.create(CONFIG_MAPS, config_map("parent"))
    client.create("/api/v1/namespaces/other/configmaps", config_map("child", ownerReferences=[owner(parent)]))
    assert client.names("/api/v1/namespaces/other/configmaps") == []


def test_an_owner_recreated_under_its_name_is_another():
    client = Client()
    parent = client.create(CONFIG_MAPS, config_map("parent"))
    client.delete(f"{CONFIG_MAPS}/parent")
    client.create(CONFIG_MAPS, config_map("parent"))
    client.create(CONFIG_MAPS, config_map("child", ownerReferences=[owner(parent)]))
    assert client.names(CONFIG_MAPS) == ["parent"]


def test_the_first_namespaces_are_there_and_active():
    listed = Client().get(NAMESPACES)["items"]
    phases = {item["metadata"]["name"]: item["status"]["phase"] for item in listed}
    assert phases == dict.fromkeys(("default", "kube-node-lease", "kube-public", "kube-system"), "Active")


def test_a_namespace_takes_its_contents_along():
    client = Client()
    client.create(NAMESPACES, namespace("space"))
    client.create("/api/v1/namespaces/space/configmaps", config_map())
    client.create("/api/v1/namespaces/space/pods", pod())
    client.delete(f"{NAMESPACES}/space")
    assert not client.exists(f"{NAMESPACES}/space")
    assert client.names("/api/v1/configmaps") == client.names("/api/v1/pods") == []


def terminating():
    client = Client()
    client.create(NAMESPACES, namespace("space"))
    client.create("/api/v1/namespaces/space/configmaps", config_map(finalizers=[HOLD]))
    client.delete(f"{NAMESPACES}/space")
    return client


def test_a_namespace_waits_for_its_contents():
    client = terminating()
    waiting = client.get(f"{NAMESPACES}/space")
    assert waiting["status"]["phase"] == "Terminating"
    assert "deletionGracePeriodSeconds" not in waiting["metadata"]
    client.patch("/api/v1/namespaces/space/configmaps/a", {"metadata": {"finalizers": None}})
    assert not client.exists(f"{NAMESPACES}/space")


@pytest.mark.parametrize(
    "method, path, body, expected",
    [
        pytest.param(
            "POST",
            "/api/v1/namespaces/space/configmaps",
            config_map("b"),
            (
                403,
                "Forbidden",
                'configmaps "b" is forbidden: unable to create new content in namespace space '
                "because it is being terminated",
            ),
            id="nothing new goes into a terminating one",
        ),
        pytest.param(
            "DELETE",
            f"{NAMESPACES}/space",
            None,
            (
                409,
                "Conflict",
                'Operation cannot be fulfilled on namespaces "space": The system is ensuring all content is removed '
                "from this namespace.  Upon completion, this namespace will automatically be purged by the system.",
            ),
            id="a terminating one is not deleted twice",
        ),
        pytest.param(
            "DELETE",
            f"{NAMESPACES}/default",
            None,
            (403, "Forbidden", 'namespaces "default" is forbidden: this namespace may not be deleted'),
            id="the default one stays",
        ),
    ],
)
def test_namespaces_refuse(method, path, body, expected):
    assert refused(terminating().ask(method, path, body)) == expected


WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def definition():
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        }
        for name in ("v1", "v1beta1")
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions},
    }


def widget(**spec):
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


@pytest.fixture
def with_widgets():
    client = Client()
    client.create(DEFINITIONS, definition())
    return client


def test_a_definition_is_established_and_served_at_once(with_widgets):
    status = with_widgets.get(f"{DEFINITIONS}/widgets.example.com")["status"]
    assert [one["type"] for one in status["conditions"] if one["status"] == "True"] == ["NamesAccepted", "Established"]
    assert status["storedVersions"] == ["v1"]
    assert with_widgets.create(WIDGETS, widget(size=1))["metadata"]["generation"] == 1


def test_every_version_shows_the_same_objects(with_widgets):
    with_widgets.create(WIDGETS, widget(size=1))
    watch = with_widgets.server.watch("/apis/example.com/v1beta1/widgets", {})
    seen = with_widgets.get("/apis/example.com/v1beta1/namespaces/default/widgets/w")
    assert (seen["apiVersion"], seen["spec"]) == ("example.com/v1beta1", {"size": 1})
    assert b'"apiVersion":"example.com/v1beta1"' in watch.drain()[0].raw


def test_custom_objects_are_replaced_only_at_a_known_version(with_widgets):
    with_widgets.create(WIDGETS, widget(size=1))
    answer = with_widgets.ask("PUT", f"{WIDGETS}/w", widget(size=2))
    message = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    assert refused(answer) == (422, "Invalid", f'widgets.example.com "w" is invalid: {message}')


def test_custom_objects_take_no_strategic_patch(with_widgets):
    with_widgets.create(WIDGETS, widget())
    assert with_widgets.ask("PATCH", f"{WIDGETS}/w", {}, STRATEGIC).code == 415


@pytest.mark.parametrize(
    "plural, code",
    [
        pytest.param("priorityclasses", 200, id="a built-in kind stays what it is"),
        pytest.param("workloads", 404, id="a new kind in a built-in version is out of reach"),
    ],
)
def test_a_definition_does_not_touch_built_in_versions(plural, code):
    client, claim = Client(), definition()
    group = "scheduling.k8s.io"
    names = {"plural": plural, "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    approval = {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"}
    claim["metadata"] = {"name": f"{plural}.{group}", "annotations": approval}
    claim["spec"] = {**claim["spec"], "group": group, "names": names}
    path, before = f"/apis/{group}/v1/{plural}", client.get(f"/apis/{group}/v1/priorityclasses")["items"]
    client.create(DEFINITIONS, claim)
    assert client.ask("GET", path).code == code
    client.delete(f"{DEFINITIONS}/{plural}.{group}")
    assert client.get(f"/apis/{group}/v1/priorityclasses")["items"] == before


def test_a_deleted_definition_waits_for_the_finalizers_of_its_objects(with_widgets):
    held = widget()
    held["metadata"]["finalizers"] = [HOLD]
    with_widgets.create(WIDGETS, held)
    with_widgets.delete(f"{DEFINITIONS}/widgets.example.com")
    assert with_widgets.get(f"{WIDGETS}/w")["metadata"]["deletionTimestamp"]
    assert with_widgets.get(f"{DEFINITIONS}/widgets.example.com")["metadata"]["deletionTimestamp"]
    with_widgets.patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
    assert not with_widgets.exists(f"{DEFINITIONS}/widgets.example.com")
    assert with_widgets.ask("GET", WIDGETS).code == 404


def test_what_is_served_changes_with_the_definitions(with_widgets):
    def served():
        return [(kind.group, kind.version, kind.plural) for kind in with_widgets.server.served()]

    assert served()[0] == ("", "v1", "pods")
    assert served()[-2:] == [("example.com", "v1", "widgets"), ("example.com", "v1beta1", "widgets")]
    with_widgets.delete(f"{DEFINITIONS}/widgets.example.com")
    assert all(group != "example.com" for group, _, _ in served())


def test_a_deleted_definition_takes_its_objects_along(with_widgets):
    with_widgets.create(WIDGETS, widget())
    watch = with_widgets.server.watch(WIDGETS, {})
    watch.drain()
    with_widgets.delete(f"{DEFINITIONS}/widgets.example.com")
    assert [event.type for event in watch.drain()] == ["DELETED"]
    assert with_widgets.ask("GET", WIDGETS).code == 404
    with_widgets.create(DEFINITIONS, definition())
    assert with_widgets.names(WIDGETS) == []
