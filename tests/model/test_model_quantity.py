"""The Kubernetes quantity grammar."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.quantity import (
    LARGEST,
    NANOS,
    WRONG_NUMBER,
    WRONG_SHAPE,
    WRONG_SUFFIX,
    InvalidQuantity,
    Notation,
    Quantity,
    parse_quantity,
)

SCALES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
    "e3": Fraction(10**3),
    "E3": Fraction(10**3),
    "e-3": Fraction(1, 1000),
    "e+6": Fraction(10**6),
}


@pytest.mark.parametrize(
    "text, nanos",
    [
        pytest.param("0", 0, id="zero is nothing"),
        pytest.param("1", NANOS, id="a bare number counts units"),
        pytest.param("+1", NANOS, id="a plus sign changes nothing"),
        pytest.param("-1", -NANOS, id="amounts can be negative"),
        pytest.param("100m", NANOS // 10, id="m stands for thousandths"),
        pytest.param("5u", 5000, id="u stands for millionths"),
        pytest.param("7n", 7, id="n stands for billionths"),
        pytest.param("0.1n", 1, id="what is finer than a billionth is rounded up"),
        pytest.param("-0.1n", -1, id="a negative sliver is rounded away from zero"),
        pytest.param("1.5", NANOS * 3 // 2, id="a decimal is exact"),
        pytest.param(".5", NANOS // 2, id="digits before the point may be missing"),
        pytest.param("2.", 2 * NANOS, id="digits after the point may be missing"),
        pytest.param("1k", 1000 * NANOS, id="k is decimal"),
        pytest.param("1Ki", 1024 * NANOS, id="Ki is binary"),
        pytest.param("1.5Gi", 3 * 2**29 * NANOS, id="binary suffixes take decimals"),
        pytest.param("1E", 10**18 * NANOS, id="E alone is a suffix"),
        pytest.param("1E3", 1000 * NANOS, id="E with digits is an exponent"),
        pytest.param("12e-3", 12 * NANOS // 1000, id="an exponent may be negative"),
        pytest.param("16Ei", LARGEST * NANOS, id="binary amounts stop at the largest 64-bit number"),
        pytest.param("-16Ei", -LARGEST * NANOS, id="negative binary amounts stop there too"),
        pytest.param("0001", NANOS, id="leading zeros change nothing"),
    ],
)
def test_amount(text, nanos):
    assert parse_quantity(text).nanos == nanos


@pytest.mark.parametrize(
    "text, value, milli_value",
    [
        pytest.param("2", 2, 2000, id="whole units stay whole"),
        pytest.param("100m", 1, 100, id="a tenth counts as one whole unit"),
        pytest.param("1u", 1, 1, id="a millionth counts as one thousandth"),
        pytest.param("-100m", -1, -100, id="negative amounts round away from zero"),
        pytest.param("1500m", 2, 1500, id="one and a half counts as two"),
        pytest.param("9E", 9 * 10**18, LARGEST, id="thousandths stop at the largest 64-bit number"),
        pytest.param("1e30", LARGEST, LARGEST, id="units stop at the largest 64-bit number"),
        pytest.param("-1e30", -LARGEST, -LARGEST, id="and at its negative"),
    ],
)
def test_rounding(text, value, milli_value):
    assert (parse_quantity(text).value, parse_quantity(text).milli_value) == (value, milli_value)


@pytest.mark.parametrize(
    "text, reason",
    [
        pytest.param("", WRONG_SHAPE, id="nothing is no quantity"),
        pytest.param("abc", WRONG_SHAPE, id="a word is no quantity"),
        pytest.param("1 Gi", WRONG_SHAPE, id="no space before the suffix"),
        pytest.param("1Gi ", WRONG_SHAPE, id="no space at the end"),
        pytest.param("1.1.1", WRONG_SHAPE, id="one point at most"),
        pytest.param("--1", WRONG_SHAPE, id="one sign at most"),
        pytest.param("0x10", WRONG_SHAPE, id="no hexadecimal"),
        pytest.param("1e3m", WRONG_SHAPE, id="nothing follows an exponent"),
        pytest.param("१", WRONG_SHAPE, id="only ASCII digits count"),
        pytest.param(".", WRONG_NUMBER, id="a point alone is no number"),
        pytest.param("-", WRONG_SHAPE, id="a sign alone is no number"),
        pytest.param("Ki", WRONG_SHAPE, id="a suffix alone is no number"),
        pytest.param("9" * 1001, WRONG_NUMBER, id="a thousand digits are enough"),
        pytest.param("1K", WRONG_SUFFIX, id="capital K is no suffix"),
        pytest.param("1ki", WRONG_SUFFIX, id="ki is no suffix"),
        pytest.param("1mi", WRONG_SUFFIX, id="mi is no suffix"),
        pytest.param("1e", WRONG_SUFFIX, id="an exponent needs digits"),
        pytest.param("1m3", WRONG_SUFFIX, id="a suffix has no digits"),
        pytest.param("1e9999", "exponent must be between -1000 and 1000", id="an exponent has bounds"),
        pytest.param("1e" + "9" * 5000, "exponent must be between -1000 and 1000", id="however long it is"),
    ],
)
def test_refused(text, reason):
    with pytest.raises(InvalidQuantity) as refused:
        parse_quantity(text)
    assert (refused.value.text, refused.value.reason) == (text, reason)
    assert str(refused.value) == f"{text!r} is not a quantity: {reason}"


@pytest.mark.parametrize(
    "text, canonical",
    [
        pytest.param("0Gi", "0", id="zero has no suffix"),
        pytest.param("1.5", "1500m", id="no fraction is written"),
        pytest.param("1000m", "1", id="the largest suffix that loses nothing is used"),
        pytest.param("1.5Gi", "1536Mi", id="binary stays binary"),
        pytest.param("1024Mi", "1Gi", id="binary goes up too"),
        pytest.param("1000Ki", "1000Ki", id="decimal thousands stay binary"),
        pytest.param("0.5Ki", "512", id="below 1024 binary is written plain"),
        pytest.param("1.0001Ki", "1024102400u", id="a binary fraction is written in decimals"),
        pytest.param("12000000", "12M", id="plain digits get a decimal suffix"),
        pytest.param("1000E", "1000E", id="there is nothing above E"),
        pytest.param("1024Ei", "9223372036854775807", id="a capped amount is written in full"),
        pytest.param("1200e3", "1200e3", id="exponents stay exponents in steps of three"),
        pytest.param("1000e0", "1e3", id="exponents go up in steps of three"),
        pytest.param("1e-4", "100e-6", id="and down"),
        pytest.param("12e0", "12", id="an exponent of nothing is left out"),
        pytest.param("-2048Mi", "-2Gi", id="the sign of a negative amount stays"),
    ],
)
def test_canonical_text(text, canonical):
    assert str(parse_quantity(text)) == canonical


numbers = st.from_regex(r"[+-]?([0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12})", fullmatch=True)
texts = st.tuples(numbers, st.sampled_from(sorted(SCALES)))


def exact(number: str, suffix: str) -> Fraction:
    return Fraction(number.rstrip(".").replace("+.", "+0.").replace("-.", "-0.")) * SCALES[suffix]


@given(texts)
def test_the_amount_is_the_exact_one_rounded_up_to_a_billionth(parts):
    wanted = exact(*parts)
    found = abs(parse_quantity("".join(parts)).nanos)
    bound = LARGEST * NANOS if parts[1].endswith("i") else None
    nanos = abs(wanted) * NANOS
    rounded = -(-nanos.numerator // nanos.denominator)
    assert found == (rounded if bound is None else min(rounded, bound))


@given(texts)
def test_canonical_text_means_the_same_and_is_its_own_canonical_text(parts):
    quantity = parse_quantity("".join(parts))
    again = parse_quantity(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)


small = st.tuples(
    st.from_regex(r"-?[0-9]{1,6}(\.[0-9]{1,3})?", fullmatch=True), st.sampled_from(["m", "", "k", "Ki", "Mi"])
)


@given(small, small)
def test_order_agrees_with_the_order_of_exact_numbers(left, right):
    a, b = parse_quantity("".join(left)), parse_quantity("".join(right))
    x, y = exact(*left), exact(*right)
    assert (a < b, a <= b, a == b, a > b, a >= b) == (x < y, x <= y, x == y, x > y, x >= y)


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_refused_by_name(text):
    try:
        assert parse_quantity(text).nanos is not None
    except InvalidQuantity as refused:
        assert refused.text == text


def test_equal_amounts_are_one_in_a_set_however_written():
    assert len({parse_quantity("1Ki"), parse_quantity("1024"), Quantity(1024 * NANOS, Notation.EXPONENT)}) == 1


def test_a_quantity_equals_nothing_else():
    assert parse_quantity("1") != 1
