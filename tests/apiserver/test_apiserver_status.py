"""Writes to the status subresource: what they may bring along."""

import pytest
from apiserver_client import JOBS, PODS, Client, pod, refused

NODES = "/api/v1/nodes"
OWNER = {"apiVersion": "example.com/v1", "kind": "Unknown", "name": "n", "uid": "u"}


@pytest.fixture
def client():
    client = Client()
    client.create(PODS, pod())
    client.create(NODES, {"metadata": {"name": "a"}})
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    client.create(JOBS, {"metadata": {"name": "a", "labels": {"old": "one"}}, "spec": {"template": template}})
    return client


@pytest.mark.parametrize("path", [f"{PODS}/a", f"{NODES}/a", f"{JOBS}/a"])
def test_labels_annotations_and_finalizers_are_written_along(client, path):
    metadata = {"labels": {"x": "y"}, "annotations": {"a": "b"}, "finalizers": ["example.com/hold"]}
    client.patch(f"{path}/status", {"metadata": metadata})
    stored = client.get(path)["metadata"]
    assert stored["labels"].items() >= {"x": "y"}.items()
    assert (stored["annotations"], stored["finalizers"]) == ({"a": "b"}, ["example.com/hold"])


@pytest.mark.parametrize(
    "path, owners",
    [
        pytest.param(f"{PODS}/a", None, id="of a pod they stay"),
        pytest.param(f"{NODES}/a", [OWNER], id="of others they change"),
    ],
)
def test_owners(client, path, owners):
    changed = client.patch(f"{path}/status", {"metadata": {"ownerReferences": [OWNER]}})
    assert changed["metadata"].get("ownerReferences") == owners


@pytest.mark.parametrize("path", [f"{PODS}/a", f"{NODES}/a", f"{JOBS}/a"])
def test_bad_labels_are_refused_there_as_well(client, path):
    code, reason, message = refused(
        client.ask(
            "PATCH", f"{path}/status", {"metadata": {"labels": {"x": "not good"}}}, "application/merge-patch+json"
        )
    )
    assert (code, reason) == (422, "Invalid")
    assert 'metadata.labels: Invalid value: "not good"' in message


def test_the_spec_is_not_written_along(client):
    changed = client.patch(f"{NODES}/a/status", {"spec": {"unschedulable": True}, "status": {"phase": "Running"}})
    assert "unschedulable" not in changed["spec"]
    assert changed["status"]["phase"] == "Running"


@pytest.mark.parametrize("path", [f"{PODS}/a", f"{JOBS}/a"])
def test_conditions_show_their_times_known_or_not(client, path):
    changed = client.patch(f"{path}/status", {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}})
    unknown = {"lastProbeTime": None, "lastTransitionTime": None}
    assert changed["status"]["conditions"] == [{**unknown, "type": "Suspended", "status": "True"}]
