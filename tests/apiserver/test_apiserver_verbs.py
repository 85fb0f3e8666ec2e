"""Create, get, list, update and delete, and what is said when they are refused."""

import pytest
from apiserver_client import CONFIG_MAPS, JOBS, NAMESPACES, PODS, Client, accepted, config_map, namespace, pod, refused

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"


@pytest.fixture
def client():
    client = Client()
    client.create(CONFIG_MAPS, config_map("a", {"k": "v"}))
    return client


def test_a_created_object_can_be_read_back():
    client = Client()
    created = client.create(CONFIG_MAPS, config_map("a", {"k": "v"}))
    assert client.get(f"{CONFIG_MAPS}/a") == created
    assert created["data"] == {"k": "v"}


@pytest.mark.parametrize(
    "odd, read",
    [
        pytest.param(b"\xff", "\ufffd", id="a byte that is never used"),
        pytest.param(b"\xe2\x82 ", "\ufffd\ufffd ", id="a character cut short, byte by byte"),
        pytest.param(b"\xc3(", "\ufffd(", id="one that goes on otherwise"),
    ],
)
def test_bytes_that_are_no_text_are_unknown_characters(client, odd, read):
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"k":"%b"}}' % odd
    assert accepted(client.ask("POST", CONFIG_MAPS, body))["data"] == {"k": read}


@pytest.mark.parametrize(
    "method, path, body, expected",
    [
        pytest.param("GET", f"{PODS}/x", None, (404, "NotFound", 'pods "x" not found'), id="no such pod"),
        pytest.param("GET", f"{JOBS}/x", None, (404, "NotFound", 'jobs.batch "x" not found'), id="with the group"),
        pytest.param("DELETE", f"{PODS}/x", None, (404, "NotFound", 'pods "x" not found'), id="nothing to delete"),
        pytest.param(
            "PUT", f"{CONFIG_MAPS}/x", config_map("x"), (404, "NotFound", 'configmaps "x" not found'), id="PUT"
        ),
        pytest.param(
            "POST",
            CONFIG_MAPS,
            config_map("a"),
            (409, "AlreadyExists", 'configmaps "a" already exists'),
            id="the name is taken",
        ),
        pytest.param(
            "PUT",
            f"{CONFIG_MAPS}/a",
            config_map("a", resourceVersion="1"),
            (409, "Conflict", f'Operation cannot be fulfilled on configmaps "a": {MODIFIED}'),
            id="an update of an older version",
        ),
        pytest.param(
            "PUT",
            f"{CONFIG_MAPS}/a",
            config_map("b"),
            (400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)"),
            id="another name in the body",
        ),
        pytest.param(
            "POST",
            CONFIG_MAPS,
            config_map("b", namespace="other"),
            (400, "BadRequest", OTHER_NAMESPACE),
            id="another namespace in the body",
        ),
        pytest.param(
            "POST",
            "/api/v1/namespaces/nowhere/configmaps",
            config_map("b"),
            (404, "NotFound", 'namespaces "nowhere" not found'),
            id="a namespace that is not there",
        ),
        pytest.param(
            "POST",
            CONFIG_MAPS,
            b"{not json",
            (
                400,
                "BadRequest",
                "the object provided is unrecognized (must be of type ConfigMap): "
                "JSON is malformed: object keys must be strings (byte 1) ({not json)",
            ),
            id="malformed JSON",
        ),
        pytest.param(
            "POST",
            CONFIG_MAPS,
            {**config_map("b"), "apiVersion": "v2"},
            (
                400,
                "BadRequest",
                'ConfigMap in version "v2" cannot be handled as a ConfigMap: '
                'no kind "ConfigMap" is registered for version "v2" in scheme "pkg/runtime/scheme.go:111"',
            ),
            id="a version that is not served",
        ),
        pytest.param(
            "POST",
            CONFIG_MAPS,
            {**config_map("b"), "apiVersion": "batch/v1"},
            (
                400,
                "BadRequest",
                'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
                'no kind "ConfigMap" is registered for version "batch/v1" in scheme "pkg/runtime/scheme.go:111"',
            ),
            id="a group that has no such kind",
        ),
        pytest.param(
            "POST",
            CONFIG_MAPS,
            {**config_map("b"), "apiVersion": "batch/v1", "kind": "Job"},
            (400, "BadRequest", "the API version in the data (batch/v1) does not match the expected API version (v1)"),
            id="another kind of another group",
        ),
        pytest.param(
            "POST",
            CONFIG_MAPS,
            {**config_map("b"), "kind": "Pod"},
            (400, "BadRequest", 'Pod in version "v1" cannot be handled as a ConfigMap: unknown conversion'),
            id="another kind",
        ),
        pytest.param(
            "POST",
            CONFIG_MAPS,
            config_map("b", resourceVersion="7"),
            (500, "", "resourceVersion should not be set on objects to be created"),
            id="a new object with a version",
        ),
        pytest.param(
            "POST",
            PODS,
            {**pod(), "spec": {"containers": []}},
            (422, "Invalid", 'Pod "a" is invalid: spec.containers: Required value'),
            id="one thing invalid",
        ),
        pytest.param(
            "GET",
            "/api/v1/namespaces/default/nothings",
            None,
            (404, "NotFound", "the server could not find the requested resource"),
            id="no such resource",
        ),
        pytest.param(
            "GET",
            "/api/v1/namespaces/default/nodes",
            None,
            (404, "NotFound", "the server could not find the requested resource"),
            id="a cluster-wide resource in a namespace",
        ),
        pytest.param(
            "GET",
            "/metrics/too",
            None,
            (404, "NotFound", "the server could not find the requested resource"),
            id="a path of no API",
        ),
        pytest.param(
            "POST",
            f"{CONFIG_MAPS}/a",
            config_map("a"),
            (405, "MethodNotAllowed", "the server does not allow this method on the requested resource"),
            id="POST to an object",
        ),
        pytest.param(
            "POST",
            "/api/v1/configmaps",
            config_map("b"),
            (405, "MethodNotAllowed", "the server does not allow this method on the requested resource"),
            id="a namespaced object without namespace",
        ),
        pytest.param(
            "DELETE",
            "/api/v1/configmaps",
            None,
            (405, "MethodNotAllowed", "the server does not allow this method on the requested resource"),
            id="objects of all namespaces at once",
        ),
        pytest.param(
            "POST",
            f"{CONFIG_MAPS}?dryRun=Some",
            config_map("b"),
            (
                422,
                "Invalid",
                'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
            ),
            id="an unknown dry run",
        ),
    ],
)
def test_a_request_is_refused(client, method, path, body, expected):
    before = client.get("/api/v1/configmaps")
    assert refused(client.ask(method, path, body)) == expected
    assert client.get("/api/v1/configmaps") == before, "nothing was changed"


def test_several_faults_are_told_together_and_as_causes():
    broken = {**pod(), "metadata": {"name": "UPPER"}, "spec": {"containers": []}}
    status = Client().ask("POST", PODS, broken).value
    assert status["message"].startswith('Pod "UPPER" is invalid: [metadata.name: Invalid value: "UPPER": ')
    assert status["message"].endswith(", spec.containers: Required value]")
    causes = [(cause["reason"], cause["field"]) for cause in status["details"]["causes"]]
    assert causes == [("FieldValueInvalid", "metadata.name"), ("FieldValueRequired", "spec.containers")]


def test_a_refusal_is_a_complete_status_object():
    assert Client().ask("GET", f"{JOBS}/x").value == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'jobs.batch "x" not found',
        "reason": "NotFound",
        "details": {"name": "x", "group": "batch", "kind": "jobs"},
        "code": 404,
    }


def test_an_update_replaces_the_object(client):
    old = client.get(f"{CONFIG_MAPS}/a")
    new = accepted(client.ask("PUT", f"{CONFIG_MAPS}/a", {**old, "data": {"n": "w"}}))
    assert new["data"] == {"n": "w"}
    assert int(new["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])


def test_an_update_that_changes_nothing_leaves_no_trace(client):
    old = client.get(f"{CONFIG_MAPS}/a")
    watch = client.server.watch(CONFIG_MAPS, {"resourceVersion": old["metadata"]["resourceVersion"]})
    assert accepted(client.ask("PUT", f"{CONFIG_MAPS}/a", old)) == old
    assert watch.drain() == []


def test_an_update_without_version_wins(client):
    assert accepted(client.ask("PUT", f"{CONFIG_MAPS}/a", config_map("a", {"n": "w"})))["data"] == {"n": "w"}


@pytest.mark.parametrize(
    "method, path, body",
    [
        pytest.param("POST", CONFIG_MAPS, config_map("new"), id="create"),
        pytest.param("PUT", f"{CONFIG_MAPS}/a", config_map("a", {"n": "w"}), id="update"),
        pytest.param("DELETE", f"{CONFIG_MAPS}/a", None, id="delete"),
        pytest.param("DELETE", CONFIG_MAPS, None, id="delete all"),
        pytest.param("DELETE", f"{NAMESPACES}/space", None, id="delete a namespace"),
    ],
)
def test_a_dry_run_answers_but_changes_nothing(client, method, path, body):
    client.create(NAMESPACES, namespace("space"))
    before = client.get("/api/v1/configmaps"), client.get(NAMESPACES)
    assert client.ask(method, f"{path}?dryRun=All", body).code in (200, 201)
    assert (client.get("/api/v1/configmaps"), client.get(NAMESPACES)) == before


def test_a_dry_run_does_not_use_up_an_identity():
    client = Client()
    rehearsed = accepted(client.ask("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("x")))
    assert client.create(CONFIG_MAPS, config_map("x"))["metadata"]["uid"] == rehearsed["metadata"]["uid"]


def test_a_deletion_says_what_is_gone(client):
    uid = client.get(f"{CONFIG_MAPS}/a")["metadata"]["uid"]
    status = client.delete(f"{CONFIG_MAPS}/a")
    assert status["status"] == "Success"
    assert "code" not in status
    assert status["details"] == {"name": "a", "kind": "configmaps", "uid": uid}
    assert not client.exists(f"{CONFIG_MAPS}/a")


@pytest.mark.parametrize(
    "preconditions, message",
    [
        pytest.param(
            {"uid": "other"}, "the UID in the precondition (other) does not match the UID in record", id="uid"
        ),
        pytest.param(
            {"resourceVersion": "1"},
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record",
            id="resourceVersion",
        ),
    ],
)
def test_a_deletion_with_an_unmet_precondition_is_refused(client, preconditions, message):
    code, reason, told = refused(client.ask("DELETE", f"{CONFIG_MAPS}/a", {"preconditions": preconditions}))
    assert (code, reason) == (409, "Conflict")
    assert told.startswith(f'Operation cannot be fulfilled on ConfigMap "a": {message}')
    assert client.exists(f"{CONFIG_MAPS}/a")


def test_an_unknown_propagation_policy_is_refused(client):
    answer = client.ask("DELETE", f"{CONFIG_MAPS}/a", {"propagationPolicy": "Sideways"})
    assert refused(answer) == (
        422,
        "Invalid",
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Sideways": '
        'supported values: "Foreground", "Background", "Orphan", "nil"',
    )


def test_a_collection_is_deleted_as_far_as_it_is_selected():
    client = Client()
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {"x": "1"})):
        client.create(CONFIG_MAPS, config_map(name, labels=labels))
    client.delete(f"{CONFIG_MAPS}?labelSelector=x=1")
    assert client.names(CONFIG_MAPS) == ["b"]


def test_lists_are_ordered_by_namespace_and_name():
    client = Client()
    client.create(NAMESPACES, namespace("alpha"))
    for space, name in (("default", "b"), ("alpha", "z"), ("default", "a")):
        client.create(f"/api/v1/namespaces/{space}/configmaps", config_map(name))
    listed = client.get("/api/v1/configmaps")
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "ConfigMapList")
    assert not any("kind" in item or "apiVersion" in item for item in listed["items"]), "the list says it for all"
    found = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in listed["items"]]
    assert found == [("alpha", "z"), ("default", "a"), ("default", "b")]


def test_pages_show_one_moment_whatever_happens_between_them():
    client = Client()
    for name in "abcde":
        client.create(CONFIG_MAPS, config_map(name))
    first = client.get(f"{CONFIG_MAPS}?limit=2")
    client.delete(f"{CONFIG_MAPS}/d")
    client.create(CONFIG_MAPS, config_map("cc"))
    client.patch(f"{CONFIG_MAPS}/e", {"data": {"late": "yes"}})
    second = client.get(f"{CONFIG_MAPS}?limit=2&continue={first['metadata']['continue']}")
    third = client.get(f"{CONFIG_MAPS}?limit=2&continue={second['metadata']['continue']}")
    pages = [[item["metadata"]["name"] for item in page["items"]] for page in (first, second, third)]
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    assert third["items"][0]["data"] == {}
    assert len({page["metadata"]["resourceVersion"] for page in (first, second, third)}) == 1
    assert [page["metadata"].get("remainingItemCount") for page in (first, second, third)] == [3, 1, None]
