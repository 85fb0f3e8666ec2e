"""What is demanded of the rules a CustomResourceDefinition brings."""

from __future__ import annotations

from typing import Any

import pytest
from rules_builders import create_errors

from headgate.apiserver import Json

HERE = "spec.validation.openAPIV3Schema.properties[spec]"


def definition(spec: Json) -> Json:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def with_rule(rule: str = "true", **fields: Any) -> Json:
    properties = {"a": {"type": "integer"}, "l": {"type": "array", "items": {"type": "string"}}}
    rules = [{"rule": rule, **fields}]
    return definition({"type": "object", "properties": properties, "x-kubernetes-validations": rules})


def items_with_rule(rule: str, **array: Any) -> Json:
    items = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
    items["x-kubernetes-validations"] = [{"rule": rule}]
    return definition({"type": "object", "properties": {"l": {"type": "array", "items": items, **array}}})


def shown(rule: str, message: str = "", expression: str = "") -> str:
    return (
        f'{{"Rule":"{rule}","Message":"{message}","MessageExpression":"{expression}",'
        '"Reason":null,"FieldPath":"","OptionalOldSelf":null}'
    )


@pytest.mark.parametrize(
    "given, field, expected",
    [
        pytest.param(with_rule(""), "rule", "Required value: rule is not specified", id="no rule"),
        pytest.param(
            with_rule(message=" "),
            "message",
            'Invalid value: " ": must be non-empty if specified',
            id="a blank message",
        ),
        pytest.param(
            with_rule(message="a\nb"),
            "message",
            'Invalid value: "a\\nb": must not contain line breaks',
            id="a message of two lines",
        ),
        pytest.param(
            with_rule("true &&\ntrue"),
            "message",
            "Required value: message must be specified if rule contains line breaks",
            id="a rule of two lines without a message",
        ),
        pytest.param(
            with_rule(messageExpression=" "),
            "messageExpression",
            "Required value: messageExpression must be non-empty if specified",
            id="a blank message expression",
        ),
        pytest.param(
            with_rule(reason="Nope"),
            "reason",
            'Unsupported value: "Nope": supported values: "FieldValueDuplicate", "FieldValueForbidden", '
            '"FieldValueInvalid", "FieldValueRequired"',
            id="an unknown reason",
        ),
        pytest.param(
            with_rule(fieldPath=".nope"),
            "fieldPath",
            'Invalid value: ".nope": must be a valid path',
            id="a path to nowhere",
        ),
        pytest.param(
            with_rule("foo", message="x"),
            "rule",
            f"Invalid value: {shown('foo', 'x')}: compilation failed: ERROR: <input>:1:1: undeclared reference to "
            "'foo' (in container '')\n | foo\n | ^",
            id="a rule about nothing known",
        ),
        pytest.param(
            with_rule("size(self.l)"),
            "rule",
            f"Invalid value: {shown('size(self.l)')}: cel expression must evaluate to a bool",
            id="a rule that is no question",
        ),
        pytest.param(
            with_rule("self.a == 1", messageExpression="1"),
            "messageExpression",
            f"Invalid value: {shown('self.a == 1', expression='1')}: messageExpression must evaluate to a string",
            id="a message that is no text",
        ),
        pytest.param(
            with_rule("self.a == 1", optionalOldSelf=True),
            "optionalOldSelf",
            "Invalid value: true: may not be set if oldSelf is not used in rule",
            id="an optional old value that nobody asks for",
        ),
    ],
)
def test_a_rule_that_is_refused(given: Json, field: str, expected: str) -> None:
    assert create_errors(given) == [f"{HERE}.x-kubernetes-validations[0].{field}: {expected}"]


def test_old_items_of_a_list_without_keys_cannot_be_known() -> None:
    [error] = create_errors(items_with_rule("self == oldSelf"))
    assert error == (
        f'{HERE}.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": '
        f"oldSelf cannot be used on the uncorrelatable portion of the schema within {HERE}.properties[l]"
    )


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(with_rule("self.a == oldSelf.a", message="no", fieldPath=".a"), id="a transition"),
        pytest.param(with_rule("oldSelf.hasValue()", optionalOldSelf=True), id="an optional one"),
        pytest.param(with_rule(messageExpression="'a' + string(self.a)", reason="FieldValueInvalid"), id="words made"),
        pytest.param(
            items_with_rule(
                "self == oldSelf", **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
            ),
            id="old items of a list with keys",
        ),
    ],
)
def test_a_rule_that_is_taken(given: Json) -> None:
    assert create_errors(given) == []
