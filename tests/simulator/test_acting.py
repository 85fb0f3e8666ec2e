"""The scenario's own hand: what applying a manifest changes."""

from __future__ import annotations

import pytest

from headgate.simulator.clients import merge_patch


@pytest.mark.parametrize(
    "wanted, applied, live, change",
    [
        pytest.param({"a": 1}, {}, {"a": 1, "b": 2}, {}, id="what is so already stays, what is not mentioned too"),
        pytest.param({"a": 2}, {"a": 1}, {"a": 1}, {"a": 2}, id="a new value is set"),
        pytest.param({"a": 1}, {"a": 1}, {"a": 2}, {"a": 1}, id="what others changed meanwhile is set back"),
        pytest.param({}, {"a": 1}, {"a": 1}, {"a": None}, id="what is wanted no more goes"),
        pytest.param({"m": {"a": 1}}, {}, {}, {"m": {"a": 1}}, id="a mapping that is not there is set"),
        pytest.param(
            {"m": {"a": 1}},
            {"m": {"a": 1, "b": 1}},
            {"m": {"a": 1, "b": 1, "c": 1}},
            {"m": {"b": None}},
            id="further down",
        ),
        pytest.param({"l": [1]}, {"l": [1]}, {"l": [1, 2]}, {}, id="a list the server completed stays"),
        pytest.param({"l": [3]}, {"l": [1]}, {"l": [1, 2]}, {"l": [3]}, id="a list wanted anew is set"),
    ],
)
def test_what_applying_changes(wanted, applied, live, change):
    assert merge_patch(wanted, applied, live) == change
