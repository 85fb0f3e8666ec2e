"""When an object is as expected."""

from __future__ import annotations

import pytest

from headgate.simulator.report import mismatch

FOUND = {"spec": {"nodeName": "n", "gates": [], "tolerations": [{"key": "a", "value": "x"}, {"key": "b"}]}, "n": 1}


@pytest.mark.parametrize(
    "expected",
    [
        pytest.param({"spec": {"nodeName": "n"}}, id="a part of it"),
        pytest.param({"spec": {"gates": []}}, id="an empty list that is empty"),
        pytest.param({"spec": {"nominated": None}}, id="null for what is absent"),
        pytest.param({"spec": {"labels": {}}}, id="an empty mapping for what is absent"),
        pytest.param({"spec": {"tolerations": [{"key": "a"}]}}, id="the first elements of a list, each in part"),
        pytest.param({"spec": {"tolerations": [{"value": "x"}, {"key": "b"}]}}, id="elements by their position"),
    ],
)
def test_it_matches(expected):
    assert mismatch(expected, FOUND) is None


@pytest.mark.parametrize(
    "expected, difference",
    [
        pytest.param({"spec": {"nodeName": "m"}}, 'spec.nodeName: expected "m", found "n"', id="another value"),
        pytest.param({"spec": {"nodeName": None}}, 'spec.nodeName: expected null, found "n"', id="something for null"),
        pytest.param({"status": {"a": 1}}, 'status: expected {"a":1}, found nothing', id="nothing for something"),
        pytest.param(
            {"spec": {"tolerations": [{"key": "b"}]}},
            'spec.tolerations[0].key: expected "b", found "a"',
            id="the wrong position",
        ),
        pytest.param(
            {"spec": {"gates": [{"name": "g"}]}}, 'spec.gates: expected [{"name":"g"}], found []', id="a list too short"
        ),
        pytest.param({"n": True}, "n: expected true, found 1", id="a number is not a truth"),
    ],
)
def test_a_difference_is_named(expected, difference):
    assert mismatch(expected, FOUND) == difference
