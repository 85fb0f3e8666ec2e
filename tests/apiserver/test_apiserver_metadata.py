"""What the server itself writes: identity, generated names, times, generations, versions."""

import re

import pytest
from apiserver_client import CLASSES, CONFIG_MAPS, JOBS, MERGE, PODS, Client, accepted, config_map, pod, refused

from headgate.apiserver import ApiServer


def job(name="j"):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    spec = {"suspend": True, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def test_a_uid_is_a_uuid_of_version_four():
    uid = Client().create(CONFIG_MAPS, config_map())["metadata"]["uid"]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", uid)


def uid_of(seed=0, name="a", before=()):
    client = Client(ApiServer(seed))
    for other in before:
        client.create(CONFIG_MAPS, config_map(other))
        client.delete(f"{CONFIG_MAPS}/{other}")
    return client.create(CONFIG_MAPS, config_map(name))["metadata"]["uid"]


@pytest.mark.parametrize(
    "other, equal",
    [
        pytest.param({}, True, id="the same history gives the same uid"),
        pytest.param({"seed": 1}, False, id="another seed gives another"),
        pytest.param({"name": "b"}, False, id="another name gives another"),
        pytest.param({"before": ["a"]}, False, id="a second incarnation gets another"),
        pytest.param({"before": ["x", "y"]}, True, id="what happened to others does not matter"),
    ],
)
def test_a_uid_depends_on_seed_name_and_incarnation(other, equal):
    assert (uid_of() == uid_of(**other)) is equal


def test_generated_names_repeat_with_the_seed_and_never_within_a_server():
    def generated(seed):
        client = Client(ApiServer(seed))
        unnamed = {**config_map(), "metadata": {"generateName": "job-"}}
        return [client.create(CONFIG_MAPS, unnamed)["metadata"]["name"] for _ in range(20)]

    assert generated(1) == generated(1)
    assert generated(1) != generated(2)
    assert len(set(generated(1))) == 20
    assert all(re.fullmatch("job-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in generated(1))


def test_a_long_prefix_is_cut_so_that_the_name_fits():
    unnamed = {**config_map(), "metadata": {"generateName": "x" * 80}}
    assert len(Client().create(CONFIG_MAPS, unnamed)["metadata"]["name"]) == 63


def test_an_object_needs_a_name():
    answer = Client().ask("POST", CONFIG_MAPS, {"metadata": {}})
    message = 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    assert refused(answer) == (422, "Invalid", message)


@pytest.mark.parametrize("field", ["name", "generateName", "namespace", "uid", "resourceVersion"])
def test_metadata_of_the_wrong_type_is_named(field):
    answer = Client().ask("POST", CONFIG_MAPS, {"metadata": {field: 5}})
    assert refused(answer) == (400, "BadRequest", f"metadata.{field}: expected a string")


def test_versions_only_grow():
    client = Client()
    versions = [int(client.create(CONFIG_MAPS, config_map(name))["metadata"]["resourceVersion"]) for name in "abc"]
    assert versions == sorted(set(versions))


@pytest.mark.parametrize(
    "subresource, patch, generation",
    [
        pytest.param("", {"spec": {"suspend": False}}, 2, id="a new spec counts"),
        pytest.param("", {"metadata": {"labels": {"a": "b"}}}, 1, id="new labels do not count"),
        pytest.param("", {"spec": {"suspend": True}}, 1, id="the same spec does not count"),
        pytest.param("/status", {"status": {"active": 1}}, 1, id="a new status does not count"),
        pytest.param("", {"metadata": {"generation": 9}}, 1, id="a client cannot set it"),
    ],
)
def test_the_generation_counts_changes_of_the_spec(subresource, patch, generation):
    client = Client()
    assert client.create(JOBS, job())["metadata"]["generation"] == 1
    assert client.patch(f"{JOBS}/j{subresource}", patch)["metadata"]["generation"] == generation


def test_kinds_without_a_spec_to_follow_have_no_generation():
    assert "generation" not in Client().create(CONFIG_MAPS, config_map())["metadata"]


@pytest.mark.parametrize(
    "field, value",
    [
        pytest.param("creationTimestamp", "2001-01-01T00:00:00Z", id="the time of creation"),
        pytest.param("deletionTimestamp", "2001-01-01T00:00:00Z", id="the time of deletion"),
        pytest.param("deletionGracePeriodSeconds", 5, id="the grace"),
        pytest.param("managedFields", [{"manager": "x"}], id="managed fields"),
        pytest.param("selfLink", "/x", id="the self link"),
    ],
)
def test_what_only_the_server_sets_is_ignored_from_clients(field, value):
    client = Client()
    created = client.create(CONFIG_MAPS, config_map(**{field: value}))
    assert created["metadata"].get(field) != value
    patched = client.patch(f"{CONFIG_MAPS}/a", {"metadata": {field: value}})
    assert patched == created


def test_an_update_meant_for_another_incarnation_is_refused():
    client = Client()
    uid = client.create(CONFIG_MAPS, config_map())["metadata"]["uid"]
    answer = client.ask("PUT", f"{CONFIG_MAPS}/a", config_map(uid="other"))
    assert refused(answer) == (
        409,
        "Conflict",
        'Operation cannot be fulfilled on configmaps "a": StorageError: invalid object, Code: 4, '
        "Key: /registry/configmaps/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: other, UID in object meta: {uid}",
    )


@pytest.mark.parametrize("path", [f"{PODS}/a", f"{PODS}/a/status"])
def test_a_patch_meant_for_another_incarnation_is_invalid(path):
    client = Client()
    client.create(PODS, pod())
    answer = client.ask("PATCH", path, {"metadata": {"uid": "other"}}, MERGE)
    message = 'Pod "a" is invalid: metadata.uid: Invalid value: "other": field is immutable'
    assert refused(answer) == (422, "Invalid", message)
    assert [cause["field"] for cause in answer.value["details"]["causes"]] == ["metadata.uid"] * 2


def test_the_generation_of_a_priority_class_stays():
    client = Client()
    high = {"metadata": {"name": "high"}, "value": 1000}
    assert client.create(CLASSES, high)["metadata"]["generation"] == 1
    described = client.patch(f"{CLASSES}/high", {"description": "first"})
    assert (described["description"], described["metadata"]["generation"]) == ("first", 1)


def test_an_update_may_leave_out_what_the_server_knows():
    client = Client()
    created = client.create(PODS, pod(labels={"a": "b"}))
    bare = {**created, "metadata": {"name": "a", "labels": {"a": "b"}}}
    assert accepted(client.ask("PUT", f"{PODS}/a", bare)) == created
