"""Structural schemas: defaulting, pruning, validation; and the laws that hold for all of them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.apiserver import Json
from headgate.apiserver.apiextensions.custom_resources import Schema
from headgate.apiserver.field_errors import render

KEEP = "x-kubernetes-preserve-unknown-fields"
TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "integer"}


def an_object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    "schema, value, expected",
    [
        pytest.param(an_object(a={**TEXT, "default": "x"}), {}, {"a": "x"}, id="a missing field gets its default"),
        pytest.param(an_object(a={**TEXT, "default": "x"}), {"a": "y"}, {"a": "y"}, id="a given field is kept"),
        pytest.param(an_object(a={**TEXT, "default": "x"}), {"a": None}, {"a": "x"}, id="null means the default"),
        pytest.param(an_object(a=TEXT), {"a": None}, {}, id="null without a default goes"),
        pytest.param(an_object(a={**TEXT, "nullable": True}), {"a": None}, {"a": None}, id="null that may be stays"),
        pytest.param(
            an_object(a={**an_object(b={**NUMBER, "default": 1}), "default": {}}),
            {},
            {"a": {"b": 1}},
            id="defaults nest",
        ),
        pytest.param(an_object(a=an_object(b={**NUMBER, "default": 1})), {}, {}, id="no parent is made for a default"),
        pytest.param(
            an_object(a={"type": "array", "items": an_object(b={**NUMBER, "default": 1})}),
            {"a": [{}, {"b": 2}]},
            {"a": [{"b": 1}, {"b": 2}]},
            id="items get defaults",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": an_object(b={**NUMBER, "default": 1})},
            {"x": {}},
            {"x": {"b": 1}},
            id="values of a map get defaults",
        ),
        pytest.param(an_object(a=TEXT), {"a": "x", "b": 1}, {"a": "x"}, id="an unknown field goes"),
        pytest.param(an_object(a=an_object()), {"a": {"b": 1}}, {"a": {}}, id="unknown fields go at every depth"),
        pytest.param(an_object(a={"type": "object", KEEP: True}), {"a": {"b": 1}}, {"a": {"b": 1}}, id="unless kept"),
        pytest.param(
            {**an_object(a=an_object()), KEEP: True},
            {"a": {"b": 1}, "c": 2},
            {"a": {}, "c": 2},
            id="keeping is not inherited",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": an_object(b=NUMBER)},
            {"x": {"b": 1, "c": 2}},
            {"x": {"b": 1}},
            id="values of a map are pruned",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": True}, {"x": {"b": 1}}, {"x": {"b": 1}}, id="a free map is kept"
        ),
    ],
)
def test_completion(schema: Json, value: Json, expected: Json) -> None:
    before = copy.deepcopy(value)
    assert Schema(schema).complete(value) == expected
    assert value == before, "the given value is not changed"


def test_what_needs_no_change_is_the_very_same() -> None:
    value = {"a": {"b": [1, 2]}}
    schema = an_object(a=an_object(b={"type": "array", "items": NUMBER}))
    assert Schema(schema).complete(value) is value


def at(**property_schema: Any) -> Json:
    return an_object(spec=an_object(x=property_schema))


@pytest.mark.parametrize(
    "schema, x, expected",
    [
        pytest.param(TEXT, "a", [], id="a text"),
        pytest.param(
            TEXT,
            1,
            ['spec.x: Invalid value: "integer": spec.x in body must be of type string: "integer"'],
            id="a number for a text",
        ),
        pytest.param(
            NUMBER,
            "1",
            ['spec.x: Invalid value: "string": spec.x in body must be of type integer: "string"'],
            id="a text for a number",
        ),
        pytest.param(NUMBER, 1.0, [], id="a whole number however written"),
        pytest.param(
            NUMBER,
            1.5,
            ['spec.x: Invalid value: "number": spec.x in body must be of type integer: "number"'],
            id="a fraction",
        ),
        pytest.param(
            NUMBER,
            True,
            ['spec.x: Invalid value: "boolean": spec.x in body must be of type integer: "boolean"'],
            id="a yes for a number",
        ),
        pytest.param(
            TEXT,
            None,
            ['spec.x: Invalid value: "null": spec.x in body must be of type string: "null"'],
            id="nothing for a text",
        ),
        pytest.param({**TEXT, "nullable": True}, None, [], id="nothing where it may be"),
        pytest.param(
            {**NUMBER, "minimum": 1},
            0,
            ["spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1"],
            id="too little",
        ),
        pytest.param(
            {**NUMBER, "minimum": 1, "exclusiveMinimum": True},
            1,
            ["spec.x: Invalid value: 1: spec.x in body should be greater than 1"],
            id="not more",
        ),
        pytest.param(
            {**NUMBER, "maximum": 5},
            6,
            ["spec.x: Invalid value: 6: spec.x in body should be less than or equal to 5"],
            id="too much",
        ),
        pytest.param(
            {**NUMBER, "maximum": 5, "exclusiveMaximum": True},
            5,
            ["spec.x: Invalid value: 5: spec.x in body should be less than 5"],
            id="not less",
        ),
        pytest.param(
            {**NUMBER, "multipleOf": 2},
            3,
            ["spec.x: Invalid value: 3: spec.x in body should be a multiple of 2"],
            id="odd",
        ),
        pytest.param(
            {**NUMBER, "format": "int32"},
            2**31,
            ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x'],
            id="too large for 32 bits",
        ),
        pytest.param({**TEXT, "maxLength": 1}, "ab", ["spec.x: Too long: may not be more than 1 byte"], id="too long"),
        pytest.param(
            {**TEXT, "minLength": 2},
            "a",
            ['spec.x: Invalid value: "a": spec.x in body should be at least 2 chars long'],
            id="too short",
        ),
        pytest.param(
            {**TEXT, "pattern": "^a+$"},
            "b",
            ["spec.x: Invalid value: \"b\": spec.x in body should match '^a+$'"],
            id="another pattern",
        ),
        pytest.param(
            {**TEXT, "pattern": "^a+$"},
            "a\n",
            ["spec.x: Invalid value: \"a\\n\": spec.x in body should match '^a+$'"],
            id="the end is the very end",
        ),
        pytest.param({**TEXT, "format": "date-time"}, "2026-01-01T00:00:00.5Z", [], id="a time"),
        pytest.param(
            {**TEXT, "format": "date-time"},
            "noon",
            ['spec.x: Invalid value: "noon": spec.x in body must be of type date-time: "noon"'],
            id="no time",
        ),
        pytest.param({**TEXT, "format": "poetry"}, "x", [], id="an unknown format is not checked"),
        pytest.param(
            {**TEXT, "enum": ["b", "a"]},
            "c",
            ['spec.x: Unsupported value: "c": supported values: "b", "a"'],
            id="not one of them",
        ),
        pytest.param(
            {"type": "array", "items": TEXT, "maxItems": 1},
            ["a", "b"],
            ["spec.x: Too many: 2: must have at most 1 item"],
            id="too many",
        ),
        pytest.param(
            {"type": "array", "items": TEXT, "minItems": 1},
            [],
            ["spec.x: Invalid value: 0: spec.x in body should have at least 1 items"],
            id="too few",
        ),
        pytest.param(
            {"type": "array", "items": NUMBER},
            [1, "a"],
            ['spec.x[1]: Invalid value: "string": spec.x[1] in body must be of type integer: "string"'],
            id="a wrong item",
        ),
        pytest.param(
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            ["a", "b", "a"],
            ['spec.x[2]: Duplicate value: "a"'],
            id="twice in a set",
        ),
        pytest.param(
            {
                "type": "array",
                "items": an_object(k=TEXT),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
            },
            [{"k": "a"}, {"k": "a"}],
            ['spec.x[1]: Duplicate value: {"k":"a"}'],
            id="one key twice",
        ),
        pytest.param(
            {**an_object(a=TEXT), "required": ["a"]}, {}, ["spec.x.a: Required value"], id="a field that must be there"
        ),
        pytest.param(
            {"type": "object", "additionalProperties": NUMBER},
            {"k": "a"},
            ['spec.x.k: Invalid value: "string": spec.x.k in body must be of type integer: "string"'],
            id="a wrong value in a map",
        ),
        pytest.param(
            {"type": "object", "maxProperties": 0},
            {"k": 1},
            ["spec.x: Too many: 1: must have at most 0 items"],
            id="too many fields",
        ),
        pytest.param({"x-kubernetes-int-or-string": True}, "50%", [], id="a text where a number may be"),
        pytest.param({"x-kubernetes-int-or-string": True}, 5, [], id="a number where a text may be"),
        pytest.param(
            {"x-kubernetes-int-or-string": True},
            True,
            [
                '<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
                'spec.x: Invalid value: "boolean": spec.x in body must be of type integer: "boolean"',
            ],
            id="neither number nor text",
        ),
        pytest.param(
            {**NUMBER, "oneOf": [{"minimum": 1}, {"minimum": 5}]},
            7,
            [
                '<nil>: Invalid value: "": "spec.x" '
                "must validate one and only one schema (oneOf). Found 2 valid alternatives"
            ],
            id="two of one",
        ),
        pytest.param(
            {**NUMBER, "allOf": [{"minimum": 5}]},
            1,
            [
                "spec.x: Invalid value: 1: spec.x in body should be greater than or equal to 5",
                '<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf). None validated',
            ],
            id="not all",
        ),
        pytest.param(
            {**NUMBER, "not": {"minimum": 5}},
            7,
            ['<nil>: Invalid value: "": "spec.x" must not validate the schema (not)'],
            id="what must not be",
        ),
    ],
)
def test_validation(schema: Json, x: Any, expected: list[str]) -> None:
    assert [render(error) for error in Schema(at(**schema)).errors({"spec": {"x": x}})] == expected


leaves = st.sampled_from(
    [TEXT, NUMBER, {**TEXT, "default": "d"}, {**NUMBER, "default": 1, "nullable": True}, {"type": "object", KEEP: True}]
)
names = st.sampled_from("abc")


def nodes(parts: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    objects = st.dictionaries(names, parts, max_size=3).map(lambda parts: {"type": "object", "properties": parts})
    maps = parts.map(lambda part: {"type": "object", "additionalProperties": part})
    lists = parts.map(lambda part: {"type": "array", "items": part})
    kept = objects.map(lambda part: {**part, KEEP: True})
    with_default = objects.map(lambda part: {**part, "default": {}})
    return objects | maps | lists | kept | with_default


schemas = st.recursive(leaves, nodes, max_leaves=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x"]),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(names, parts, max_size=3),
    max_leaves=12,
)


@given(schemas, values)
def test_completing_twice_changes_nothing_more(document: Json, value: Any) -> None:
    schema = Schema(document)
    before = copy.deepcopy(value)
    once = schema.complete(value)
    assert schema.complete(once) == once
    assert schema.prune(schema.default(once)) is once
    assert value == before
