"""Each part of an object is completed and checked once, and rules are asked once about what they see alike."""

from __future__ import annotations

import copy
from itertools import product

import pytest

from headgate.apiserver import Json
from headgate.apiserver.apiextensions.custom_resources import Schema, SchemaField
from headgate.apiserver.apiextensions.rules import SchemaRules

SPEC: Json = {
    "type": "object",
    "properties": {"n": {"type": "number"}, "b": {}, "d": {"type": "string", "default": "given"}},
}


def test_what_was_completed_once_becomes_the_very_same() -> None:
    part, spec = SchemaField(SPEC), {"n": 1}
    first, second = part.checked(spec).completed, part.checked(spec).completed
    assert first == {"n": 1, "d": "given"}
    assert second is first
    assert part.checked(first).completed is first


@pytest.mark.parametrize(
    "one, other",
    [
        pytest.param({"b": 1, "d": "x"}, {"b": True, "d": "x"}, id="one and true"),
        pytest.param({"n": 1, "d": "x"}, {"n": 1.0, "d": "x"}, id="a number and one with a fraction"),
        pytest.param({"n": 1, "d": "x"}, {"d": "x", "n": 1}, id="another order"),
        pytest.param({"n": 1}, {"n": 1, "d": "given"}, id="a default and the same given"),
    ],
)
def test_what_reads_differently_stays_apart(one: Json, other: Json) -> None:
    part = SchemaField(SPEC)
    part.checked(one)
    again = part.checked(copy.deepcopy(other)).completed
    assert list(again.items())[: len(other)] == list(other.items())
    assert [type(value) for value in again.values()][: len(other)] == [type(value) for value in other.values()]


def test_what_is_wrong_is_wrong_for_each_object_that_says_so() -> None:
    schema = Schema({"type": "object", "properties": {"spec": SPEC}})
    for _ in range(2):
        completed = schema.complete({"spec": {"n": "many"}})
        assert [error.path for error in schema.errors(completed)] == ["spec.n"]


HELD: Json = {
    "type": "object",
    "x-kubernetes-validations": [{"rule": "self.spec.n <= oldSelf.spec.n", "message": "it may not grow"}],
    "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}},
}


def test_rules_that_held_for_two_parts_may_fail_for_one_of_them_and_another() -> None:
    schema, (small, large) = Schema(HELD), ({"spec": {"n": 1}}, {"spec": {"n": 2}})
    for _ in range(2):
        assert schema.rule_errors(small, large, []) == []
        assert schema.rule_errors(small, small, []) == []
        assert [error.detail for error in schema.rule_errors(large, small, [])] == ["it may not grow"]
        assert schema.rule_errors(large, None, []) == []


def test_rules_of_a_part_that_held_for_two_fields_may_fail_for_one_of_them_and_another() -> None:
    counted = {"type": "object", "properties": {"n": {"type": "integer"}, "b": {"type": "string"}}}
    rules = [{"rule": "self.n <= oldSelf.n", "message": "it may not grow"}]
    schema = Schema({"type": "object", "properties": {"status": {**counted, "x-kubernetes-validations": rules}}})
    small, large = ({"status": {"n": number, "b": "x"}} for number in (1, 2))
    for beside in ("x", "y"):
        aside = {"status": {**small["status"], "b": beside}}
        assert schema.status_errors(aside, large) == []
        assert schema.status_errors(aside, small) == []
        assert [error.detail for error in schema.status_errors(large, aside)] == ["it may not grow"]


def test_rules_that_read_the_name_are_asked_about_each_name() -> None:
    rules = [{"rule": "self.metadata.name == 'it'", "message": "it must be it"}]
    schema = Schema({"type": "object", "x-kubernetes-validations": rules, "properties": {"spec": SPEC}})
    spec = {"n": 1, "d": "x"}
    for name, wrong in (("it", []), ("other", ["it must be it"]), ("it", [])):
        found = schema.rule_errors({"metadata": {"name": name}, "spec": spec}, None, [])
        assert [error.detail for error in found] == wrong


def rule(text: str) -> list[Json]:
    return [{"rule": text, "message": text}]


DEEP: Json = {
    "type": "object",
    "x-kubernetes-validations": rule("!has(self.status) || has(self.spec)"),
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"n": {"type": "integer", "x-kubernetes-validations": rule("self >= oldSelf")}, "b": {}},
        },
        "status": {
            "type": "object",
            "properties": {
                "list": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {
                        "type": "object",
                        "x-kubernetes-validations": rule("!has(self.n) || !has(oldSelf.n) || self.n == oldSelf.n"),
                        "properties": {"k": {"type": "string"}, "n": {"type": "integer"}, "text": {"type": "string"}},
                    },
                },
                "map": {
                    "type": "object",
                    "additionalProperties": {"type": "integer", "x-kubernetes-validations": rule("self < 2")},
                },
            },
        },
    },
}
OBJECTS: list[Json] = [
    {},
    {"spec": {"n": 1}},
    {"spec": {"n": 2}},
    {"spec": {"n": 2, "b": "aside"}},
    {"status": {}},
    {"spec": {}, "status": {"map": {"x": 1}}},
    {"spec": {}, "status": {"map": {"x": 2}}},
    {"spec": {}, "status": {"list": [{"k": "x", "n": 1}]}},
    {"spec": {}, "status": {"list": [{"k": "x", "n": 1, "text": "aside"}]}},
    {"spec": {}, "status": {"list": [{"k": "x", "n": 2}]}},
    {"spec": {}, "status": {"list": [{"k": "y", "n": 1}]}},
    {"spec": {}, "status": {"list": [{"k": "y"}, {"k": "x", "n": 1}]}},
]


@pytest.mark.parametrize("turned", [False, True], ids=["in this order", "in the other order"])
def test_what_is_remembered_of_rules_makes_no_difference(turned: bool) -> None:
    remembering, pairs = SchemaRules(DEEP), list(product(OBJECTS, [None, *OBJECTS]))
    told = [told_by(remembering, *pair) for pair in (reversed(pairs) if turned else pairs)]
    anew = [told_by(SchemaRules(DEEP), *pair) for pair in (reversed(pairs) if turned else pairs)]
    assert told == anew
    paths = {path for errors in anew for path, _ in errors}
    assert paths == {"<nil>", "spec.n", "status.map[x]", "status.list[0]", "status.list[1]"}


def told_by(rules: SchemaRules, new: Json, old: Json | None) -> list[tuple[str, str]]:
    return [(error.path, error.detail) for error in rules.errors(new, old, ())]
