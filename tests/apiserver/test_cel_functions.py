"""The functions Kubernetes adds to CEL, by the examples of its documentation and a few of ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.apiserver.cel import CompilationError, EvaluationError, InvalidPath, compile_expression, field_path
from headgate.apiserver.cel.views import escaped


def value_of(text: str, self: object = None) -> object:
    return compile_expression(text, optional_old=False).evaluate(self, None)


@pytest.mark.parametrize(
    "text",
    [
        "isQuantity('1.3Gi') && !isQuantity('1,3G') && !isQuantity('200K')",
        "quantity('50000000G').isInteger() && quantity('50k').asInteger() == 50000",
        "!quantity('9999999999999999999999999999999999999G').isInteger()",
        "quantity('50k').add(quantity('20k')) == quantity('70k')",
        "quantity('50k').add(20) == quantity('50020')",
        "quantity('50k').sub(20000).asApproximateFloat() == 30000.0",
        "quantity('200M').compareTo(quantity('0.2G')) == 0",
        "quantity('50M').compareTo(quantity('50Mi')) == -1",
        "quantity('150Mi').isGreaterThan(quantity('100Mi'))",
        "quantity('50M').isLessThan(quantity('100M'))",
        "quantity('-1').sign() == -1 && quantity('0').sign() == 0",
        "[1, 2, 3].isSorted() && ![2.0, 1.0].isSorted() && [].isSorted()",
        "[1, 3].sum() == 4 && [1.0, 3.0].sum() == 4.0 && [].sum() == 0",
        "[1, 3].min() == 1 && [1, 3].max() == 3 && ['a', 'b'].max() == 'b'",
        "[1, 2, 2, 3].indexOf(2) == 1 && [1, 2, 2, 3].lastIndexOf(2) == 2 && [].indexOf('x') == -1",
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]+') == ''",
        "'123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '123 abc 456'.findAll('[0-9]+', 1) == ['123']",
        "sets.contains([1, 2], [2]) && !sets.contains([1], [1, 2]) && sets.contains([], [])",
        "sets.equivalent([1, 2, 2], [2, 1]) && !sets.equivalent([1], [2])",
        "sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [2])",
        "'abc'.indexOf('b') == 1 && 'a-b'.split('-').join('+') == 'a+b'",
        "self.filter(x, x > 1).map(x, x * 2).sum() == 10",
    ],
)
def test_it_is_true(text: str) -> None:
    assert value_of(text, [1, 2, 3]) is True


@pytest.mark.parametrize(
    "text, why",
    [
        ("quantity('Three').isInteger()", "quantities must match the regular expression"),
        ("quantity('0.5').asInteger() == 0", "cannot convert value to integer"),
        ("[].min() == 0", "min called on empty list"),
        ("'a'.find('(') == ''", "Illegal regex"),
        ("self[7] == 1", "index out of bounds: 7"),
        ("self.nope == 1", "no such overload"),
    ],
)
def test_it_fails_and_says_why(text: str, why: str) -> None:
    failed = value_of(text, [1])
    assert isinstance(failed, EvaluationError)
    assert failed.why.startswith(why)


@pytest.mark.parametrize("text", ["self ==", "nobody == 1", "self.size("])
def test_it_does_not_compile(text: str) -> None:
    with pytest.raises(CompilationError, match="<input>:1"):
        compile_expression(text, optional_old=False)


@given(st.integers(-(2**60), 2**60), st.integers(-(2**60), 2**60))
def test_quantities_are_exact(one: int, other: int) -> None:
    text = f"quantity('{one}').add(quantity('{other}')) == quantity('{one + other}')"
    assert value_of(text) is True
    assert value_of(f"quantity('{one}').compareTo(quantity('{other}'))") == (one > other) - (one < other)


@pytest.mark.parametrize(
    "name, spelled",
    [
        ("plain", "plain"),
        ("x-y", "x__dash__y"),
        ("x.y/z", "x__dot__y__slash__z"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("9lives", None),
        ("a b", None),
        ("", None),
    ],
)
def test_field_names_as_rules_spell_them(name: str, spelled: str | None) -> None:
    assert escaped(name) == spelled


SCHEMA = {
    "properties": {
        "a": {"properties": {"b-c": {"type": "string"}}},
        "m": {"additionalProperties": {"properties": {"d": {"type": "string"}}}},
    }
}


@pytest.mark.parametrize(
    "path, written",
    [("", ""), (".a", "a"), (".a.b-c", "a.b-c"), ("['a']['b-c']", "a.b-c"), (".m['k.x'].d", "m[k.x].d")],
)
def test_a_field_path_that_leads_somewhere(path: str, written: str) -> None:
    assert field_path(SCHEMA, path) == written


@pytest.mark.parametrize("path", ["a", ".", ".nope", ".a[0]", ".a['b-c", ".a.b-c.d", " "])
def test_a_field_path_that_does_not(path: str) -> None:
    with pytest.raises(InvalidPath):
        field_path(SCHEMA, path)
