"""The patch an API server is told is exactly the difference between what it asked about and what was decided."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.api.admission import review_response, steps_between
from headgate.apiserver.patches import apply_json_patch, decode_json_patch
from headgate.model.admission import AdmissionAllowed, AdmissionDenied, AdmissionResponse

NAMES = st.sampled_from(["a", "b", "x/y", "m~n", "~1", ""])
LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "s"])
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3))
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_the_patch_makes_one_of_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    steps = list(steps_between(old, new))
    patched = apply_json_patch(old, decode_json_patch(msgspec.json.encode(steps)))
    assert msgspec.json.encode(patched, order="sorted") == msgspec.json.encode(new, order="sorted")


@given(OBJECTS)
def test_there_is_nothing_to_do_where_nothing_differs(value: dict[str, Any]) -> None:
    assert list(steps_between(value, value)) == []


@pytest.mark.parametrize(
    "verdict, response",
    [
        pytest.param(AdmissionAllowed(), {"uid": "u", "allowed": True}, id="yes"),
        pytest.param(AdmissionAllowed({"a": 1}), {"uid": "u", "allowed": True}, id="yes, just as it is"),
        pytest.param(
            AdmissionAllowed({"a": 1, "b/c": 2}),
            {
                "uid": "u",
                "allowed": True,
                "patchType": "JSONPatch",
                "patch": base64.b64encode(b'[{"op":"add","path":"/b~1c","value":2}]').decode(),
            },
            id="yes, with something filled in",
        ),
        pytest.param(
            AdmissionDenied("because"),
            {"uid": "u", "allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": "because"}},
            id="no",
        ),
    ],
)
def test_a_verdict_in_the_words_of_a_server(verdict: AdmissionResponse, response: dict[str, Any]) -> None:
    assert review_response("u", {"a": 1}, verdict)["response"] == response
