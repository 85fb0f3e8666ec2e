"""Discovery and OpenAPI: what clients learn about the resources that are served."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from headgate.apiserver.messages import Request
from headgate.apiserver.server import ApiServer

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
DEFINITION = yaml.safe_load("""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: trains.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: trains, singular: train, kind: Train, shortNames: [tr], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {wheels: {type: integer}}}}}}
""")


def with_trains() -> ApiServer:
    server = ApiServer()
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert server.handle(Request("POST", path, body=msgspec.json.encode(DEFINITION)), 0.0).code == 201
    return server


def get(server: ApiServer, path: str, accept: str = ""):
    response = server.handle(Request("GET", path, accept=accept), 0.0)
    assert response.code == 200, response.value
    return response


def resources(document, group: str = ""):
    found = next(item for item in document["items"] if item["metadata"].get("name", "") == group)
    return {each["resource"]: each for version in found["versions"] for each in version["resources"]}


def test_one_document_has_all_resources_of_the_core_group():
    found = resources(get(ApiServer(), "/api", AGGREGATED).value)
    assert (found["pods"]["shortNames"], found["pods"]["categories"]) == (["po"], ["all"])
    assert [each["subresource"] for each in found["pods"]["subresources"]] == ["binding", "eviction", "status"]
    assert "deletecollection" not in found["namespaces"]["verbs"]


def test_the_answer_says_that_it_is_the_aggregated_form():
    """Clients tell it from the older form by the media type alone."""
    assert "as=APIGroupDiscoveryList" in get(ApiServer(), "/apis", AGGREGATED).content_type
    assert get(ApiServer(), "/apis").content_type == "application/json"


def test_a_custom_resource_is_discovered_while_it_is_defined():
    server = with_trains()
    train = resources(get(server, "/apis", AGGREGATED).value, "example.org")["trains"]
    assert train["responseKind"] == {"group": "example.org", "version": "v1", "kind": "Train"}
    assert (train["singularResource"], train["shortNames"]) == ("train", ["tr"])
    server.handle(Request("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/trains.example.org"), 0.0)
    names = [item["metadata"]["name"] for item in get(server, "/apis", AGGREGATED).value["items"]]
    assert "example.org" not in names


def test_the_older_form_lists_subresources_among_the_resources():
    listed = get(with_trains(), "/apis/example.org/v1").value
    assert [each["name"] for each in listed["resources"]] == ["trains", "trains/status"]
    assert get(with_trains(), "/apis/example.org").value["preferredVersion"]["groupVersion"] == "example.org/v1"
    assert get(with_trains(), "/api").value["versions"] == ["v1"]
    assert "batch" in [group["name"] for group in get(with_trains(), "/apis").value["groups"]]


@pytest.mark.parametrize("path", ["/apis/nope", "/apis/batch/v7", "/api/v2", "/nope", "/", "/openapi/v3/apis/nope/v1"])
def test_what_is_not_there_is_not_found(path):
    assert ApiServer().handle(Request("GET", path), 0.0).code == 404


def test_only_get_discovers():
    assert ApiServer().handle(Request("POST", "/apis", body=b"{}"), 0.0).code == 404


def test_openapi_has_a_document_for_each_group_and_version():
    server = with_trains()
    index = get(server, "/openapi/v3").value["paths"]
    assert {"api/v1", "apis/batch/v1", "apis/example.org/v1"} <= index.keys()
    for place in index:
        assert get(server, f"/openapi/v3/{place}").value["paths"]


def test_openapi_says_that_fields_are_validated_and_which_patches_are_served():
    document = get(ApiServer(), "/openapi/v3/apis/batch/v1").value
    patch = document["paths"]["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "batch", "kind": "Job", "version": "v1"}
    assert "fieldValidation" in [each["name"] for each in patch["parameters"]]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    train = get(with_trains(), "/openapi/v3/apis/example.org/v1").value["paths"]
    (path,) = train.values()
    assert "application/strategic-merge-patch+json" not in path["patch"]["requestBody"]["content"]


def test_openapi_describes_built_in_and_custom_fields():
    schemas = get(ApiServer(), "/openapi/v3/api/v1").value["components"]["schemas"]
    assert schemas["core.v1.Container"]["properties"]["image"] == {"type": "string"}
    assert "configMap" in schemas["core.v1.Volume"]["properties"]  # it stands in a message of its own on the wire
    train = get(with_trains(), "/openapi/v3/apis/example.org/v1").value["components"]["schemas"]
    assert train["org.example.v1.Train"]["properties"]["spec"]["properties"]["wheels"] == {"type": "integer"}
