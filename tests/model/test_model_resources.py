"""Exact amounts by name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.model.resources import Resources, total

NAMES = ("cpu", "memory", "example.com/gpu")
amounts = st.dictionaries(st.sampled_from(NAMES), st.integers(-9, 9))
resources = amounts.map(Resources.of)


@given(amounts)
def test_a_missing_name_is_zero(known):
    assert {name: Resources.of(known)[name] for name in NAMES} == dict.fromkeys(NAMES, 0) | known


@given(amounts)
def test_the_order_of_names_does_not_matter(known):
    backwards = dict(reversed(known.items()))
    assert Resources.of(backwards) == Resources.of(known)
    assert hash(Resources.of(backwards)) == hash(Resources.of(known))


@given(resources, resources)
def test_adding_and_taking_away_go_name_by_name(left, right):
    assert all((left + right)[name] == left[name] + right[name] for name in NAMES)
    assert all((left - right)[name] == left[name] - right[name] for name in NAMES)


@given(resources, resources)
def test_the_largest_of_two_goes_name_by_name(left, right):
    either = {name for name, _ in (*left, *right)}
    assert all(left.largest(right)[name] == max(left[name], right[name]) for name in either)


@given(st.lists(resources, max_size=4))
def test_a_total_is_the_sum_of_its_parts(parts):
    assert all(total(parts)[name] == sum(part[name] for part in parts) for name in NAMES)
