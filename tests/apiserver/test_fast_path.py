"""What passes at once is what looking field by field would leave alone and find nothing wrong with."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.apiserver import FieldError, Json
from headgate.apiserver.apiextensions.defaulting import compile_defaults, compile_pruning
from headgate.apiserver.apiextensions.fast_path import compile_fast_path
from headgate.apiserver.apiextensions.validation import compile_validation

KEEP = {"x-kubernetes-preserve-unknown-fields": True}
TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "integer"}
AMOUNT: Json = {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+m?$"}
NAMES = st.sampled_from("abc")


def an_object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def by_name(items: Json) -> Json:
    named = {**items, "properties": {**items.get("properties", {}), "a": TEXT}, "type": "object"}
    return {"type": "array", "items": named, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}


LEAVES = st.sampled_from(
    [
        {},
        KEEP,
        TEXT,
        {**TEXT, "maxLength": 2, "minLength": 1},
        {**TEXT, "pattern": "^a*$"},
        {**TEXT, "enum": ["a", "bb"]},
        {**TEXT, "format": "date-time"},
        {**TEXT, "format": "unheard-of"},
        {**TEXT, "default": "a"},
        NUMBER,
        {**NUMBER, "format": "int32", "minimum": 1},
        {**NUMBER, "maximum": 1.5},
        {**NUMBER, "multipleOf": 2},
        {"type": "number", "minimum": 1},
        {"type": "boolean"},
        AMOUNT,
        {**AMOUNT, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"anyOf": [{"minimum": 1}, {"maxLength": 1}]},
        {"type": "object", **KEEP},
        {"type": "object"},
        {"type": "object", **KEEP, "x-kubernetes-embedded-resource": True},
        {"type": "array"},
        {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
    ]
)


def _nested(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    fields = st.dictionaries(NAMES, inner, min_size=1)
    required = st.lists(NAMES, unique=True)
    objects = st.builds(lambda properties: {"type": "object", "properties": properties}, fields)
    return st.one_of(
        objects,
        st.builds(lambda schema, names: {**schema, "required": names}, objects, required),
        st.builds(lambda schema: {**schema, **KEEP}, objects),
        st.builds(lambda schema: {**schema, "nullable": True}, inner),
        st.builds(lambda others: {"type": "object", "additionalProperties": others}, inner),
        st.builds(lambda items: {"type": "array", "items": items, "maxItems": 2}, inner),
        st.builds(by_name, objects),
    )


SCHEMAS = st.recursive(LEAVES, _nested, max_leaves=6)
PLAIN = st.sampled_from(
    [None, True, False, 0, 1, 2, 1.0, 1.5, 2**31, 2**63, "", "a", "bb", "9m", "2026-01-31T12:00:00Z"]
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


def is_left_alone_and_right(schema: Json, value: Any) -> bool:
    result = value
    for rewrite in (compile_defaults(schema), compile_pruning(schema)):
        result = result if rewrite is None else rewrite(result)
    errors: list[FieldError] = []
    compile_validation(schema)(value, "", errors)
    return not errors and msgspec.json.encode(result) == msgspec.json.encode(value)


@given(SCHEMAS, VALUES)
@example(an_object(a={}), {"a": None})
@example(an_object(a=KEEP), {"a": None})
@example({}, {"a": 1})
@example(by_name(an_object()), [{"a": "x"}, {"a": "x"}])
@example(NUMBER, True)
@example({**AMOUNT, "nullable": True}, None)
def test_what_passes_is_complete_and_right(schema: Json, value: Any) -> None:
    passes = compile_fast_path(schema)
    for _ in range(2):  # what is remembered from the first time changes nothing
        assert not passes(value) or is_left_alone_and_right(schema, value)


@pytest.mark.parametrize(
    "schema, value",
    [
        pytest.param(an_object(a=TEXT, b=NUMBER), {"a": "x"}, id="an object without what it may leave out"),
        pytest.param(an_object(a={**TEXT, "default": "y"}), {"a": "x"}, id="what has a default is given"),
        pytest.param(an_object(a={"type": "object", **KEEP}), {"a": {"b": {"c": None}}}, id="a part that is kept"),
        pytest.param({**TEXT, "format": "date-time"}, "2026-01-31T12:00:00Z", id="a time"),
        pytest.param(AMOUNT, "500m", id="an amount as a text"),
        pytest.param(AMOUNT, 2, id="an amount as a number"),
        pytest.param(by_name(an_object(b=NUMBER)), [{"a": "x", "b": 1}, {"a": "y"}], id="a list by names"),
        pytest.param({"type": "object", "additionalProperties": TEXT}, {"x": "y"}, id="a map"),
        pytest.param({**TEXT, "nullable": True}, None, id="null that may be"),
        pytest.param({"anyOf": [{"minimum": 1}, {"maxLength": 1}]}, 2, id="one of several, looked at slowly"),
    ],
)
def test_what_is_usual_passes(schema: Json, value: Any) -> None:
    assert compile_fast_path(schema)(value)
