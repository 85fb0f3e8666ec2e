"""CustomResourceDefinitions: what is demanded of them, and the kinds they make."""

from __future__ import annotations

from typing import Any

import pytest
from rules_builders import create_errors, created, update_errors, with_spec

from headgate.apiserver import ApiError, Json, ResourceType
from headgate.apiserver.apiextensions import resource_types_of
from headgate.apiserver.field_errors import render

SPEC: Json = {
    "type": "object",
    "properties": {"size": {"type": "integer", "minimum": 1, "default": 3}, "note": {"type": "string"}},
}
SCHEMA: Json = {
    "type": "object",
    "properties": {"spec": SPEC, "status": {"type": "object", "properties": {"done": {"type": "boolean"}}}},
}
HERE = "spec.validation.openAPIV3Schema"


def version(name: str = "v1", schema: Json | None = None, **fields: Any) -> Json:
    whole = {"openAPIV3Schema": SCHEMA if schema is None else schema}
    return {"name": name, "served": True, "storage": True, "schema": whole, **fields}


def definition(*versions: Json, **spec: Any) -> Json:
    names = {"plural": "crontabs", "kind": "CronTab", "shortNames": ["ct"]}
    whole = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": list(versions) or [version()]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.example.com"},
        "spec": {**whole, **spec},
    }


def with_schema(schema: Json) -> Json:
    return definition(version(schema=schema))


def a_spec(**properties: Json) -> Json:
    return with_schema({"type": "object", "properties": properties})


@pytest.mark.parametrize(
    "given, expected",
    [
        pytest.param(definition(), [], id="a plain definition is fine"),
        pytest.param(
            definition(group="example.org"),
            ['metadata.name: Invalid value: "crontabs.example.com": must be spec.names.plural+"."+spec.group'],
            id="a name that does not fit",
        ),
        pytest.param(
            definition(scope="Everywhere"),
            ['spec.scope: Unsupported value: "Everywhere": supported values: "Cluster", "Namespaced"'],
            id="an unknown scope",
        ),
        pytest.param(
            with_schema({"properties": {}}),
            [f"{HERE}.type: Required value: must not be empty at the root"],
            id="a root without a type",
        ),
        pytest.param(
            with_schema({"type": "array", "items": {"type": "string"}}),
            [f'{HERE}.type: Invalid value: "array": must be object at the root'],
            id="a root that is a list",
        ),
        pytest.param(
            a_spec(spec={}),
            [f"{HERE}.properties[spec].type: Required value: must not be empty for specified object fields"],
            id="a field without a type",
        ),
        pytest.param(
            a_spec(spec={"type": "array"}),
            [f"{HERE}.properties[spec].items: Required value: must be specified"],
            id="a list of nothing",
        ),
        pytest.param(
            a_spec(spec={"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
            [
                f"{HERE}.properties[spec].uniqueItems: Forbidden: "
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            ],
            id="unique items",
        ),
        pytest.param(
            a_spec(spec={"type": "string", "anyOf": [{"type": "string"}]}),
            [f"{HERE}.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural"],
            id="a type inside an alternative",
        ),
        pytest.param(
            a_spec(spec={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            [],
            id="the two types of an int or string",
        ),
        pytest.param(
            a_spec(spec={"type": "integer", "default": "many"}),
            [
                f'{HERE}.properties[spec].default: Invalid value: "string": '
                f'{HERE}.properties[spec].default in body must be of type integer: "string"'
            ],
            id="a default of another type",
        ),
        pytest.param(
            a_spec(spec={"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
            [
                f"{HERE}.properties[spec].x-kubernetes-list-map-keys: Required value: "
                "must not be empty if x-kubernetes-list-type is map"
            ],
            id="a map without keys",
        ),
        pytest.param(
            {**definition(group="x.k8s.io"), "metadata": {"name": "crontabs.x.k8s.io"}},
            [
                "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval "
                'annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111'
            ],
            id="a group of Kubernetes itself",
        ),
    ],
)
def test_what_a_definition_may_not_be(given: Json, expected: list[str]) -> None:
    assert create_errors(given) == expected


@pytest.mark.parametrize(
    "versions, detail",
    [
        pytest.param([version(storage=False)], "must have exactly one version marked as storage version", id="none"),
        pytest.param(
            [version(), version("v2")], "must have exactly one version marked as storage version", id="two are stored"
        ),
        pytest.param([version(), version(storage=False)], "must contain unique version names", id="one name twice"),
    ],
)
def test_exactly_one_version_is_stored(versions: list[Json], detail: str) -> None:
    (error,) = create_errors(definition(*versions))
    assert error.startswith("spec.versions: Invalid value: [")
    assert error.endswith(detail)


def test_a_schema_is_demanded() -> None:
    assert create_errors(definition({"name": "v1", "served": True, "storage": True})) == [
        "spec.versions[0].schema.openAPIV3Schema: Required value"
    ]


def test_a_malformed_schema_cannot_be_read() -> None:
    with pytest.raises(ApiError) as refusal:
        created(with_schema({"type": "object", "properties": []}))
    assert refusal.value.code == 400


def test_names_follow_from_the_kind() -> None:
    names = created(definition())["spec"]["names"]
    assert (names["singular"], names["listKind"]) == ("crontab", "CronTabList")


def test_the_group_and_the_names_stay() -> None:
    old = created(definition())
    new = with_spec(old, scope="Cluster")
    assert update_errors(new, old) == ['spec.scope: Invalid value: "Cluster": field is immutable']


def crontabs(**fields: Any) -> ResourceType:
    (found,) = resource_types_of(created(definition(version(**fields))))
    return found


def crontab(**fields: Any) -> Json:
    metadata = {"name": "it", "namespace": "default", "labels": {"a": "b"}}
    return {"apiVersion": "example.com/v1", "kind": "CronTab", "metadata": metadata, **fields}


WITH_STATUS = crontabs(subresources={"status": {}})
WITHOUT_STATUS = crontabs()


def test_the_served_versions_become_types() -> None:
    kept, old = version("v2"), version("v1", storage=False)
    retired = version("v0", storage=False, served=False)
    types = resource_types_of(created(definition(old, retired, kept)))
    assert [one.version for one in types] == ["v2", "v1"]
    assert types[0].short_names == ("ct",)
    assert types[0].namespaced


def test_custom_objects_are_completed() -> None:
    stored = WITH_STATUS.rules.prepare_create(crontab(spec={"note": "x", "surprise": 1}, status={"done": True}))
    assert stored == crontab(spec={"note": "x", "size": 3}), "defaulted, pruned, without status"
    assert WITH_STATUS.rules.prepare_create(stored) == stored


def test_status_is_written_where_it_belongs() -> None:
    old = WITH_STATUS.rules.prepare_create(crontab(spec={}))
    reported = WITH_STATUS.rules.prepare_status({**crontab(spec={"size": 9}), "status": {"done": True}}, old)
    assert reported == {**old, "status": {"done": True}}
    changed = WITH_STATUS.rules.prepare_update(crontab(spec={"size": 9}, status={}), reported)
    assert changed == crontab(spec={"size": 9}, status={"done": True})


def test_without_a_subresource_status_is_a_field_as_any_other() -> None:
    assert not WITHOUT_STATUS.has_status
    given = crontab(spec={"size": 1}, status={"done": True})
    assert WITHOUT_STATUS.rules.prepare_create(given) == given


@pytest.mark.parametrize(
    "fields, expected",
    [
        pytest.param({"spec": {"size": 1}}, [], id="a valid object"),
        pytest.param(
            {"spec": {"size": 0}},
            ["spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"],
            id="a value its schema refuses",
        ),
        pytest.param(
            {"spec": []},
            ['spec: Invalid value: "array": spec in body must be of type object: "array"'],
            id="a list for an object",
        ),
    ],
)
def test_custom_objects_are_checked(fields: Json, expected: list[str]) -> None:
    rules = WITH_STATUS.rules
    assert [render(error) for error in rules.validate_create(rules.prepare_create(crontab(**fields)))] == expected
