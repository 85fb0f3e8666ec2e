"""From a pod's labels to those who look for it: nobody is missed, nobody is named twice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.node import selects
from headgate.model.selectors import Operator, Requirement
from headgate.placement.neighbours import LabelCounts

KEYS, VALUES = ["app", "tier"], ["a", "b", "c"]
requirements = st.builds(
    lambda key, operator, values: Requirement(key, operator, tuple(sorted(values))),
    st.sampled_from(KEYS),
    st.sampled_from(list(Operator)),
    st.lists(st.sampled_from(VALUES), max_size=3),  # the same value twice is odd, and allowed
)
selectors = st.none() | st.lists(requirements, max_size=3).map(tuple)
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


def tallies_of(seekers):
    tallies = LabelCounts(lambda selector: selector)
    for index, seeker in enumerate(seekers):
        tallies.put(seeker, np.array([index, 7]))
    return tallies


@given(st.lists(selectors, unique=True, max_size=8), st.data(), labels)
def test_those_who_look_for_a_pod_are_found_from_its_labels(seekers, data, having):
    tallies = tallies_of(seekers)
    gone = data.draw(st.lists(st.sampled_from(seekers), unique=True) if seekers else st.just([]))
    for seeker in gone:
        tallies.drop(seeker)
    left = [seeker for seeker in seekers if seeker not in gone]
    found = [seeker for seeker, _ in tallies.seeking(having)]
    assert len(found) == len(set(found))
    assert {seeker for seeker in found if selects(seeker, having)} == {
        seeker for seeker in left if selects(seeker, having)
    }
    assert list(tallies) == left


@pytest.mark.parametrize(
    "seeker, asked",
    [
        pytest.param((Requirement("app", Operator.IN, ("b",)),), False, id="one that looks for another value"),
        pytest.param((Requirement("app", Operator.IN, ("a", "b")),), True, id="one that looks for one of several"),
        pytest.param((Requirement("app", Operator.EXISTS),), True, id="one that says no value"),
        pytest.param((), True, id="one that looks for everybody"),
    ],
)
def test_who_is_asked_about_a_pod_with_app_a(seeker, asked):
    """Of hundreds of apps that keep away from themselves, only the pod's own has to be asked."""
    assert bool(list(tallies_of([seeker]).seeking({"app": "a"}))) is asked


def test_amounts_are_kept_as_rows_come_and_are_emptied():
    seeker = (Requirement("app", Operator.IN, ("a",)),)
    tallies = tallies_of([(), seeker])
    tallies.grow(3)
    tallies.clear(0)
    assert tallies.get(seeker).tolist() == [0, 7, 0]
    assert [amounts.tolist() for _, amounts in tallies.seeking({"app": "a"})] == [[0, 7, 0], [0, 7, 0]]
