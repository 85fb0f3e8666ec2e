"""Of parts of objects that read the same, one is completed and stands for all of them."""

from __future__ import annotations

import copy

import pytest

from headgate.apiserver.messages import Json
from headgate.apiserver.schema import Schema
from headgate.apiserver.schema_parts import Part

SPEC: Json = {
    "type": "object",
    "properties": {"n": {"type": "number"}, "b": {}, "d": {"type": "string", "default": "given"}},
}


def test_what_reads_the_same_becomes_the_very_same() -> None:
    part = Part(SPEC)
    first, second = part.completed({"n": 1}), part.completed({"n": 1})
    assert first == {"n": 1, "d": "given"}
    assert second is first
    assert part.completed(first) is first


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
    part = Part(SPEC)
    part.completed(one)
    again = part.completed(copy.deepcopy(other))
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
