"""Tables as kubectl shows them, and objects cut down to their metadata."""

from __future__ import annotations

import msgspec
import pytest
from test_discovery import DEFINITION

from headgate.apiserver.jsonpath import InvalidJsonPath, compile_json_path
from headgate.apiserver.messages import Request
from headgate.apiserver.printing import human_duration
from headgate.apiserver.server import ApiServer

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PODS, JOBS = "/api/v1/namespaces/default/pods", "/apis/batch/v1/namespaces/default/jobs"
CONTAINERS = [{"name": "c", "image": "busybox"}]
BORN = 1_000_000_000.0


def pod(name: str = "a", **spec) -> dict:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": CONTAINERS, **spec}}


def create(server: ApiServer, path: str, value: dict) -> None:
    answer = server.handle(Request("POST", path, body=msgspec.json.encode(value)), BORN)
    assert answer.code == 201, answer.value


def rows(server: ApiServer, path: str, now: float = BORN, **query: str) -> list[dict]:
    """The visible cells of each row by column."""
    table = server.handle(Request("GET", path, query, accept=TABLE), now).value
    assert table["kind"] == "Table", table
    columns = [column["name"] for column in table["columnDefinitions"]]
    return [dict(zip(columns, row["cells"], strict=True)) for row in table["rows"]]


def status(server: ApiServer, path: str, **fields) -> None:
    body, kind = msgspec.json.encode({"status": fields}), "application/merge-patch+json"
    answer = server.handle(Request("PATCH", f"{path}/status", body=body, content_type=kind), BORN)
    assert answer.code == 200, answer.value


@pytest.mark.parametrize(
    "seconds, shown",
    [
        pytest.param(0, "0s", id="now"),
        pytest.param(119, "119s", id="below two minutes in seconds"),
        pytest.param(120, "2m", id="whole minutes"),
        pytest.param(599, "9m59s", id="below ten minutes with seconds"),
        pytest.param(10_799, "179m", id="below three hours in minutes"),
        pytest.param(7 * 3600 + 60, "7h1m", id="below eight hours with minutes"),
        pytest.param(47 * 3600, "47h", id="below two days in hours"),
        pytest.param(7 * 86_400 + 3600, "7d1h", id="below eight days with hours"),
        pytest.param(729 * 86_400, "729d", id="below two years in days"),
        pytest.param(3 * 365 * 86_400, "3y", id="whole years"),
        pytest.param(-1, "0s", id="clocks that differ a little"),
        pytest.param(-5, "<invalid>", id="the future"),
    ],
)
def test_ages_are_told_as_kubectl_tells_them(seconds, shown):
    assert human_duration(seconds) == shown


@pytest.mark.parametrize(
    "spec, state, shown",
    [
        pytest.param({}, {}, "Pending", id="a phase"),
        pytest.param({"schedulingGates": [{"name": "g"}]}, {}, "SchedulingGated", id="gates"),
        pytest.param({}, {"reason": "Evicted", "phase": "Failed"}, "Evicted", id="a reason before the phase"),
        pytest.param(
            {},
            {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
            "ImagePullBackOff",
            id="what a container waits for",
        ),
        pytest.param(
            {},
            {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 3}}}]},
            "ExitCode:3",
            id="how a container ended",
        ),
    ],
)
def test_why_a_pod_is_as_it_is(spec, state, shown):
    server = ApiServer()
    create(server, PODS, pod(**spec))
    if state:
        status(server, f"{PODS}/a", **state)
    assert rows(server, PODS)[0]["Status"] == shown


def test_a_pod_that_is_being_deleted_terminates():
    server = ApiServer()
    create(server, PODS, pod(nodeName="n"))
    server.handle(Request("DELETE", f"{PODS}/a"), BORN)
    assert rows(server, PODS, BORN + 60)[0] == {
        **{"Name": "a", "Ready": "0/1", "Status": "Terminating", "Restarts": "0", "Age": "60s"},
        **{"IP": "<none>", "Node": "n", "Nominated Node": "<none>", "Readiness Gates": "<none>"},
    }


def test_how_far_a_job_is():
    server, template = ApiServer(), {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    create(server, JOBS, {**job, "spec": {"completions": 3, "suspend": False, "template": template}})
    status(server, f"{JOBS}/j", startTime="2001-09-09T01:46:40Z", succeeded=1)
    (found,) = rows(server, JOBS, BORN + 90)
    assert (found["Status"], found["Completions"], found["Duration"]) == ("Running", "1/3", "90s")


def test_a_custom_resource_shows_the_columns_of_its_definition():
    server, spec = ApiServer(), msgspec.json.decode(msgspec.json.encode(DEFINITION))
    spec["spec"]["versions"][0]["additionalPrinterColumns"] = [
        {"name": "Wheels", "type": "integer", "jsonPath": ".spec.wheels"},
        {"name": "Text", "type": "integer", "jsonPath": ".metadata.name"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    create(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", spec)
    train = {"apiVersion": "example.org/v1", "kind": "Train", "metadata": {"name": "t"}, "spec": {"wheels": 8}}
    create(server, "/apis/example.org/v1/namespaces/default/trains", train)
    found = rows(server, "/apis/example.org/v1/trains", BORN + 5)
    assert found == [{"Name": "t", "Wheels": 8, "Text": None, "Age": "5s"}]  # what is of another type is left out


def test_a_table_of_one_object_has_one_row_and_as_much_of_it_as_is_asked_for():
    server = ApiServer()
    create(server, PODS, pod())
    for include, kind in (("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Pod")):
        query = {"includeObject": include}
        table = server.handle(Request("GET", f"{PODS}/a", query, accept=TABLE), BORN).value
        (row,) = table["rows"]
        assert row.get("object", {}).get("kind") == kind
        assert table["metadata"]["resourceVersion"]


def test_partial_metadata_leaves_out_spec_and_status():
    server = ApiServer()
    create(server, PODS, pod())
    form = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    listed = server.handle(Request("GET", PODS, accept=form), BORN).value
    assert (listed["kind"], listed["items"][0].keys()) == (
        "PartialObjectMetadataList",
        {"kind", "apiVersion", "metadata"},
    )


def test_errors_are_never_tables():
    answer = ApiServer().handle(Request("GET", f"{PODS}/none", accept=TABLE), BORN)
    assert (answer.code, answer.value["kind"]) == (404, "Status")


def test_a_form_that_is_not_served_is_refused():
    answer = ApiServer().handle(Request("GET", PODS, accept="application/xml"), BORN)
    assert (answer.code, answer.value["reason"]) == (406, "NotAcceptable")


VALUE = {"a": [{"t": "x", "v": 1}, {"t": "y", "v": 2}], "b": {"c.d": 3}}


@pytest.mark.parametrize(
    "path, found",
    [
        (".a[0].v", [1]),
        (".a[-1].v", [2]),
        (".a[*].v", [1, 2]),
        ('.a[?(@.t=="y")].v', [2]),
        (".a[?(@.t!='y')].v", [1]),
        (".b['c.d']", [3]),
        (".b.c\\.d", [3]),
        (".none.deeper", []),
        (".a[7]", []),
    ],
)
def test_a_json_path_finds(path, found):
    assert compile_json_path(path)(VALUE) == found


@pytest.mark.parametrize("path", ["a", ".a[", ".a[?(@.t>3)]", "..a"])
def test_a_json_path_that_cannot_be_read_is_refused(path):
    with pytest.raises(InvalidJsonPath):
        compile_json_path(path)
