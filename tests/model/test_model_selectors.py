"""Label selectors as text and as objects, field selectors as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.selectors import (
    InvalidSelector,
    Operator,
    Requirement,
    label_selector,
    parse_field_selector,
    parse_label_selector,
    selects,
)

IN, NOT_IN, EXISTS, ABSENT = Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST


@pytest.mark.parametrize(
    "text, requirements",
    [
        pytest.param("", [], id="nothing selects everything"),
        pytest.param("   ", [], id="blanks select everything"),
        pytest.param("a=b", [Requirement("a", IN, ("b",))], id="one sign compares"),
        pytest.param("a==b", [Requirement("a", IN, ("b",))], id="two signs compare as well"),
        pytest.param("a!=b", [Requirement("a", NOT_IN, ("b",))], id="a differing value"),
        pytest.param("a=", [Requirement("a", IN, ("",))], id="an empty value"),
        pytest.param("a", [Requirement("a", EXISTS)], id="a key alone must be there"),
        pytest.param("!a", [Requirement("a", ABSENT)], id="a key that must not be there"),
        pytest.param("a in (y, x)", [Requirement("a", IN, ("x", "y"))], id="values are sorted"),
        pytest.param("a in (x,x)", [Requirement("a", IN, ("x",))], id="values are told once"),
        pytest.param("a notin (x,)", [Requirement("a", NOT_IN, ("", "x"))], id="an empty place is the empty value"),
        pytest.param("a in ()", [Requirement("a", IN, ("",))], id="empty parentheses hold the empty value"),
        pytest.param("in in (in)", [Requirement("in", IN, ("in",))], id="words of the grammar are names too"),
        pytest.param(
            "a>1,b<2",
            [Requirement("a", Operator.GREATER, ("1",)), Requirement("b", Operator.LESS, ("2",))],
            id="numbers can be compared",
        ),
        pytest.param(
            "g,example.com/a=b,!f,c!=d",
            [
                Requirement("c", NOT_IN, ("d",)),
                Requirement("example.com/a", IN, ("b",)),
                Requirement("f", ABSENT),
                Requirement("g", EXISTS),
            ],
            id="several, in order of their keys",
        ),
    ],
)
def test_label_selector_text(text, requirements):
    assert parse_label_selector(text) == tuple(requirements)


PARSE = "unable to parse requirement: "
NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
NUMBER = "for 'Gt', 'Lt' operators, the value must be an integer"


@pytest.mark.parametrize(
    "text, error",
    [
        pytest.param("a=b,", "found '', expected: identifier after ','", id="a comma at the end"),
        pytest.param(",a", "found ',', expected: !, identifier, or 'end of string'", id="a comma in front"),
        pytest.param("!a=b", "found '=', expected: ',' or 'end of string'", id="a value for an absent key"),
        pytest.param("a==b c", "found 'c', expected: ',' or 'end of string'", id="a word too many"),
        pytest.param("a b", f"{PARSE}found 'b', expected: in, notin, =, ==, !=, gt, lt", id="two words"),
        pytest.param("!", f"{PARSE}found '', expected: identifier", id="an exclamation mark alone"),
        pytest.param("a=(", f"{PARSE}found '(', expected: identifier", id="a symbol for a value"),
        pytest.param("a===b", f"{PARSE}found '=', expected: identifier", id="a sign too many"),
        pytest.param("a in x", f"{PARSE}found 'x' expected: '('", id="a set without parentheses"),
        pytest.param("a in (", f"{PARSE}found '', expected: ',', ')' or identifier", id="a set that only begins"),
        pytest.param("a in (x", f"{PARSE}found '', expected: ',' or ')'", id="a set that does not end"),
        pytest.param("a in (x,", f"{PARSE}found '', expected: ',', or identifier", id="a set that ends in a comma"),
        pytest.param("a in (=)", f"{PARSE}found '=', expected: ',', ')' or identifier", id="a symbol in a set"),
        pytest.param("-a=b", f'{PARSE}<nil>: Invalid value: "-a": {NAME}', id="a key that is none"),
        pytest.param("a=b/c", f'{PARSE}values[0][a]: Invalid value: "b/c": {VALUE}', id="a value that is none"),
        pytest.param('a="b"', f'{PARSE}values[0][a]: Invalid value: "\\"b\\"": {VALUE}', id="a value in quotes"),
        pytest.param("a>x", f'{PARSE}values[0]: Invalid value: "x": {NUMBER}', id="a comparison with no number"),
        pytest.param(f"a<{2**63}", f'{PARSE}values[0]: Invalid value: "{2**63}": {NUMBER}', id="beyond all numbers"),
        pytest.param(
            "a in (/, -)",
            f'{PARSE}[values[0][a]: Invalid value: "-": {VALUE}, values[1][a]: Invalid value: "/": {VALUE}]',
            id="two values that are none",
        ),
    ],
)
def test_label_selector_text_refused(text, error):
    with pytest.raises(InvalidSelector) as refused:
        parse_label_selector(text)
    assert str(refused.value) == error


@pytest.mark.parametrize(
    "selector, requirements",
    [
        pytest.param({}, [], id="an empty one selects everything"),
        pytest.param({"matchLabels": None}, [], id="null is as good as nothing"),
        pytest.param(
            {"matchLabels": {"b": "2", "a": "1"}},
            [Requirement("a", IN, ("1",)), Requirement("b", IN, ("2",))],
            id="labels come in order of their keys",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["y", "x"]}]},
            [Requirement("a", NOT_IN, ("x", "y"))],
            id="values of an expression are sorted",
        ),
        pytest.param(
            {"matchLabels": {"z": "1"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]},
            [Requirement("z", IN, ("1",)), Requirement("a", EXISTS)],
            id="expressions come after labels",
        ),
    ],
)
def test_label_selector_object(selector, requirements):
    assert label_selector(selector) == tuple(requirements)


def expression(**fields):
    return {"matchExpressions": [fields]}


@pytest.mark.parametrize(
    "selector, error",
    [
        pytest.param({"matchLabels": ["a"]}, "matchLabels: expected an object, found ['a']", id="a list of labels"),
        pytest.param({"matchLabels": {"a": 1}}, "matchLabels[a]: expected text, found 1", id="a number for a value"),
        pytest.param(
            {"matchExpressions": ["a"]},
            "matchExpressions[0]: expected an object with key, operator and values, found 'a'",
            id="text for an expression",
        ),
        pytest.param(
            expression(operator="In"),
            "matchExpressions[0].key: expected text, found None",
            id="an expression without key",
        ),
        pytest.param(
            expression(key="a", operator="Gt", values=["1"]),
            "matchExpressions[0].operator: expected In, NotIn, Exists, DoesNotExist, found 'Gt'",
            id="an operator of node affinity",
        ),
        pytest.param(
            expression(key="a", operator="In"),
            "matchExpressions[0].values: must be specified when `operator` is 'In' or 'NotIn'",
            id="a set without values",
        ),
        pytest.param(
            expression(key="a", operator="Exists", values=["x"]),
            "matchExpressions[0].values: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            id="values that mean nothing",
        ),
        pytest.param(
            expression(key="a", operator="In", values=[1]),
            "matchExpressions[0].values[0]: expected text, found 1",
            id="a number in a set",
        ),
    ],
)
def test_label_selector_object_refused(selector, error):
    with pytest.raises(InvalidSelector) as refused:
        label_selector(selector)
    assert str(refused.value) == error


@pytest.mark.parametrize(
    "text, requirements",
    [
        pytest.param("", [], id="nothing selects everything"),
        pytest.param("metadata.name=x", [Requirement("metadata.name", IN, ("x",))], id="a field with a value"),
        pytest.param("metadata.name==x", [Requirement("metadata.name", IN, ("x",))], id="two signs are one"),
        pytest.param("spec.nodeName!=", [Requirement("spec.nodeName", NOT_IN, ("",))], id="a field that is set"),
        pytest.param(
            "status.phase!=Failed,spec.nodeName=a",
            [Requirement("spec.nodeName", IN, ("a",)), Requirement("status.phase", NOT_IN, ("Failed",))],
            id="several, in the order of their texts",
        ),
        pytest.param("a=b,,", [Requirement("a", IN, ("b",))], id="a comma with nothing behind it"),
        pytest.param("=,!=", [], id="neither a field nor a value demands nothing"),
        pytest.param("=b", [Requirement("", IN, ("b",))], id="a field without a name is for the server to refuse"),
        pytest.param(r"a=x\\y\,z\=", [Requirement("a", IN, (r"x\y,z=",))], id="escaped characters are themselves"),
    ],
)
def test_field_selector(text, requirements):
    assert parse_field_selector(text) == tuple(requirements)


@pytest.mark.parametrize(
    "text, error",
    [
        pytest.param("a", "invalid selector: 'a'; can't understand 'a'", id="a field without value"),
        pytest.param("c,a=b,b", "invalid selector: 'c,a=b,b'; can't understand 'b'", id="two have no value"),
        pytest.param("a=b=c", "invalid field selector: unescaped character in value: 61", id="a sign in a value"),
        pytest.param(r"a=\x", r"invalid field selector: invalid escape sequence: \x", id="an escape that is none"),
        pytest.param("a=\\", "invalid field selector: invalid escape sequence: \\", id="a backslash at the end"),
    ],
)
def test_field_selector_refused(text, error):
    with pytest.raises(InvalidSelector) as refused:
        parse_field_selector(text)
    assert str(refused.value) == error


words = st.text("abc", min_size=1, max_size=2)
labels = st.dictionaries(words, words, max_size=3)


@given(labels, words, st.lists(words, min_size=1, max_size=3))
def test_in_and_notin_are_opposites(found, key, values):
    listed = ",".join(values)
    is_in = selects(parse_label_selector(f"{key} in ({listed})"), found)
    assert is_in is not selects(parse_label_selector(f"{key} notin ({listed})"), found)
    assert is_in == (found.get(key) in values)


@given(labels, labels)
def test_an_object_and_its_text_select_the_same(wanted, found):
    text = ",".join(f"{key}={value}" for key, value in wanted.items())
    assert parse_label_selector(text) == label_selector({"matchLabels": wanted})
    assert selects(parse_label_selector(text), found) == (wanted.items() <= found.items())


@given(st.text("a=!,() <>inot", max_size=12))
def test_any_text_is_a_selector_or_refused_by_name(text):
    try:
        parse_label_selector(text)
    except InvalidSelector as refused:
        assert str(refused).removeprefix(PARSE).startswith(("found '", "values[0]"))
