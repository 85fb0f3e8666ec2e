"""Rules in CEL at work: what a custom resource is asked on creation and on change, and how a refusal reads."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apiserver import Json
from headgate.apiserver.apiextensions import resource_types_of
from headgate.apiserver.field_errors import render
from headgate.apiserver.strategy import RestStrategy

INTEGER: Json = {"type": "integer"}
STRING: Json = {"type": "string"}


def rules_of(spec: Json, **root: Any) -> RestStrategy:
    schema = {"type": "object", "properties": {"spec": spec}, **root}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    whole = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return resource_types_of({"spec": whole})[0].rules


def thing(spec: Any, name: str = "it") -> Json:
    metadata = {"name": name, "namespace": "default", "resourceVersion": "1"}
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": spec}


def an_object(*rules: Json, **properties: Json) -> Json:
    return {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}


def created(spec_schema: Json, spec: Any) -> list[str]:
    return [render(error) for error in rules_of(spec_schema).validate_create(thing(spec))]


def changed(spec_schema: Json, new: Any, old: Any) -> list[str]:
    return [render(error) for error in rules_of(spec_schema).validate_update(thing(new), thing(old))]


SMALL = {"rule": "self.a < 10"}
BY_NAME: Json = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


@pytest.mark.parametrize(
    "schema, spec, expected",
    [
        pytest.param(an_object(SMALL, a=INTEGER), {"a": 9}, [], id="a rule that holds"),
        pytest.param(
            an_object(SMALL, a=INTEGER),
            {"a": 10},
            ["spec: Invalid value: failed rule: self.a < 10"],
            id="a rule that does not hold names itself",
        ),
        pytest.param(
            an_object({**SMALL, "message": "too much"}, a=INTEGER),
            {"a": 10},
            ["spec: Invalid value: too much"],
            id="or says its message",
        ),
        pytest.param(
            an_object({**SMALL, "messageExpression": "'%d is too much'.format([self.a])"}, a=INTEGER),
            {"a": 10},
            ["spec: Invalid value: 10 is too much"],
            id="or what its message expression makes",
        ),
        pytest.param(
            an_object({**SMALL, "message": "too much", "messageExpression": "self.b"}, a=INTEGER, b=STRING),
            {"a": 10},
            ["spec: Invalid value: too much"],
            id="a message expression that fails is not needed",
        ),
        pytest.param(
            an_object({**SMALL, "reason": "FieldValueForbidden", "message": "no"}, a=INTEGER),
            {"a": 10},
            ["spec: Forbidden: no"],
            id="a reason of its own",
        ),
        pytest.param(
            an_object({**SMALL, "reason": "FieldValueDuplicate", "message": "no"}, a=INTEGER),
            {"a": 10},
            ["spec: Duplicate value"],
            id="of a duplicate no more is said",
        ),
        pytest.param(
            an_object({**SMALL, "fieldPath": ".a", "message": "no"}, a=INTEGER),
            {"a": 10},
            ["spec.a: Invalid value: no"],
            id="a field path",
        ),
        pytest.param(
            an_object(a={**INTEGER, "x-kubernetes-validations": [{"rule": "self < 10", "message": "no"}]}),
            {"a": 10},
            ["spec.a: Invalid value: 10: no"],
            id="a plain value is shown",
        ),
        pytest.param(
            an_object({"rule": "self.b == 1"}, a=INTEGER, b=INTEGER),
            {"a": 10},
            ['spec: Invalid value: "object": no such key: b evaluating rule: self.b == 1'],
            id="a rule that reads what is not there",
        ),
        pytest.param(
            an_object({"rule": "self.a + 'x' == 'x'"}, a={"x-kubernetes-int-or-string": True}),
            {"a": 10},
            [
                "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported "
                "operator, function or macro signature for rule: self.a + 'x' == 'x'"
            ],
            id="a rule that adds what cannot be added",
        ),
        pytest.param(
            an_object({"rule": "1 / self.a == 1"}, a=INTEGER),
            {"a": 0},
            ['spec: Invalid value: "object": division by zero evaluating rule: 1 / self.a == 1'],
            id="a rule that divides by zero",
        ),
        pytest.param(
            an_object({"rule": "self == oldSelf"}, a=INTEGER),
            {"a": 1},
            [],
            id="a transition is nothing to a new object",
        ),
        pytest.param(
            an_object(
                {"rule": "oldSelf.hasValue() || self.a == 0", "optionalOldSelf": True, "message": "no"}, a=INTEGER
            ),
            {"a": 1},
            ["spec: Invalid value: no"],
            id="unless the rule says that the old value is optional",
        ),
        pytest.param(
            an_object(
                {"rule": "self.x__dash__y == 1 && self.__namespace__ == 2"}, **{"x-y": INTEGER, "namespace": INTEGER}
            ),
            {"x-y": 1, "namespace": 2},
            [],
            id="fields CEL cannot spell have other names",
        ),
        pytest.param(
            an_object({"rule": "type(self.a) == double && type(self.b) == int"}, a={"type": "number"}, b=INTEGER),
            {"a": 3, "b": 3},
            [],
            id="a number is no integer even when it is written like one",
        ),
        pytest.param(
            an_object(
                m={
                    "type": "object",
                    "additionalProperties": {**INTEGER, "x-kubernetes-validations": [{"rule": "self > 0"}]},
                }
            ),
            {"m": {"x": 1, "y": -1}},
            ["spec.m[y]: Invalid value: -1: failed rule: self > 0"],
            id="values of a map",
        ),
        pytest.param(
            an_object(SMALL, a={**INTEGER, "maximum": 3}),
            {"a": 10},
            [
                "spec.a: Invalid value: 10: spec.a in body should be less than or equal to 3",
                "spec: Invalid value: failed rule: self.a < 10",
            ],
            id="other errors come first",
        ),
        pytest.param(
            an_object(SMALL, a=INTEGER),
            {"a": "x"},
            [
                'spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"',
                "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
                "correct the existing errors to complete validation",
            ],
            id="an object of other types is not asked at all",
        ),
    ],
)
def test_a_new_object(schema: Json, spec: Json, expected: list[str]) -> None:
    assert created(schema, spec) == expected


FIXED_ITEMS = an_object(
    l={**BY_NAME, "items": an_object({"rule": "self == oldSelf", "message": "no"}, name=STRING, a=INTEGER)}
)


@pytest.mark.parametrize(
    "schema, new, old, expected",
    [
        pytest.param(an_object({"rule": "self.a >= oldSelf.a"}, a=INTEGER), {"a": 2}, {"a": 1}, [], id="it may grow"),
        pytest.param(
            an_object({"rule": "self.a >= oldSelf.a"}, a=INTEGER),
            {"a": 1},
            {"a": 2},
            ["spec: Invalid value: failed rule: self.a >= oldSelf.a"],
            id="it may not shrink",
        ),
        pytest.param(
            an_object(a={**INTEGER, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}),
            {"a": 1},
            {},
            [],
            id="a rule of a field is not asked when the field appears",
        ),
        pytest.param(
            an_object(a={**INTEGER, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}),
            {},
            {"a": 1},
            [],
            id="nor when it goes",
        ),
        pytest.param(
            an_object({"rule": "has(self.a) == has(oldSelf.a)", "message": "no"}, a=INTEGER),
            {},
            {"a": 1},
            ["spec: Invalid value: no"],
            id="but a rule around it is",
        ),
        pytest.param(
            FIXED_ITEMS,
            {"l": [{"name": "y", "a": 2}, {"name": "x", "a": 1}]},
            {"l": [{"name": "x", "a": 1}, {"name": "y", "a": 3}]},
            ["spec.l[0]: Invalid value: no"],
            id="items are matched by their key, wherever they stand",
        ),
        pytest.param(
            FIXED_ITEMS,
            {"l": [{"name": "z", "a": 2}]},
            {"l": [{"name": "x", "a": 1}]},
            [],
            id="an item nobody knew is new",
        ),
        pytest.param(
            an_object(an=an_object(SMALL, a=INTEGER), b=INTEGER),
            {"an": {"a": 11}, "b": 2},
            {"an": {"a": 11}, "b": 1},
            [],
            id="what was wrong before and is left alone is let through",
        ),
        pytest.param(
            an_object(an=an_object(SMALL, a=INTEGER), b=INTEGER),
            {"an": {"a": 12}},
            {"an": {"a": 11}},
            ["spec.an: Invalid value: failed rule: self.a < 10"],
            id="what was wrong before and is touched is not",
        ),
        pytest.param(
            an_object({"rule": "oldSelf.value().a == 1", "optionalOldSelf": True}, a=INTEGER),
            {"a": 2},
            {"a": 1},
            [],
            id="an optional old value is there on a change",
        ),
    ],
)
def test_a_changed_object(schema: Json, new: Json, old: Json, expected: list[str]) -> None:
    assert changed(schema, new, old) == expected


@pytest.mark.parametrize(
    "rule, expected",
    [
        pytest.param("self.metadata.name == 'it'", [], id="the name can be seen"),
        pytest.param(
            "self.metadata.name == 'other'",
            ["<nil>: Invalid value: failed rule: self.metadata.name == 'other'"],
            id="a rule of the whole object has no path",
        ),
        pytest.param("!has(self.metadata.resourceVersion)", [], id="the rest of the metadata cannot"),
        pytest.param("self.kind == 'Thing' && self.spec.a == 1", [], id="kind and spec can"),
    ],
)
def test_rules_of_the_whole_object(rule: str, expected: list[str]) -> None:
    rules = rules_of(an_object(a=INTEGER), **{"x-kubernetes-validations": [{"rule": rule}]})
    assert [render(error) for error in rules.validate_create(thing({"a": 1}))] == expected


def test_status_writes_are_asked_too() -> None:
    rules = rules_of(an_object(a=INTEGER), **{"x-kubernetes-validations": [{"rule": "self.spec.a == oldSelf.spec.a"}]})
    errors = rules.validate_status(thing({"a": 2}), thing({"a": 1}))
    assert [render(error) for error in errors] == ["<nil>: Invalid value: failed rule: self.spec.a == oldSelf.spec.a"]


def test_a_rule_that_costs_too_much_for_an_object_refuses_it():
    """A tenant chooses how long a list is; how often a rule goes through it is somebody else's choice."""
    rule = "self.l.all(x, self.l.exists(y, x == y))"
    schema = an_object({"rule": rule}, l={"type": "array", "items": INTEGER})
    assert created(schema, {"l": list(range(20))}) == []
    why = "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost"
    assert created(schema, {"l": list(range(500))}) == [
        f'spec: Invalid value: "object": {why} exceeds limit for rule: {rule}'
    ]
