"""What a server's answer means for the decision behind a write."""

from __future__ import annotations

import json

import pytest

from headgate.api.requests import decode_status, trouble_of
from headgate.model.events import WriteError


def status(code, message="why", **fields):
    return json.dumps({"kind": "Status", "status": "Failure", "code": code, "message": message, **fields}).encode()


@pytest.mark.parametrize("code", [200, 201, 202])
def test_success_is_no_trouble(code):
    assert trouble_of(code, b'{"kind": "Pod"}') is None


@pytest.mark.parametrize(
    "code, trouble",
    [
        pytest.param(409, WriteError.CONFLICT, id="a conflict, or something of that name exists"),
        pytest.param(404, WriteError.GONE, id="not found"),
        pytest.param(410, WriteError.GONE, id="gone"),
        pytest.param(400, WriteError.REFUSED, id="a bad request"),
        pytest.param(403, WriteError.REFUSED, id="forbidden"),
        pytest.param(405, WriteError.REFUSED, id="a method not allowed"),
        pytest.param(413, WriteError.REFUSED, id="too large"),
        pytest.param(415, WriteError.REFUSED, id="an unknown media type"),
        pytest.param(401, WriteError.UNAVAILABLE, id="stale credentials"),
        pytest.param(429, WriteError.UNAVAILABLE, id="too many requests"),
        pytest.param(503, WriteError.UNAVAILABLE, id="the server is not available"),
        pytest.param(408, WriteError.UNKNOWN, id="a request that took too long"),
        pytest.param(500, WriteError.UNKNOWN, id="an internal error may come after the write"),
        pytest.param(502, WriteError.UNKNOWN, id="a gateway may have lost the answer"),
        pytest.param(504, WriteError.UNKNOWN, id="a timeout may come after the write"),
        pytest.param(507, WriteError.UNKNOWN, id="any other failure of a server"),
    ],
)
def test_trouble(code, trouble):
    assert trouble_of(code, status(code)) == (trouble, "why")


def causes(*fields):
    return {"causes": [{"reason": "FieldValueInvalid", "message": "no", "field": field} for field in fields]}


@pytest.mark.parametrize(
    "details, trouble",
    [
        pytest.param(causes("spec.suspend"), WriteError.REFUSED, id="an invalid field is refused for good"),
        pytest.param(causes("metadata.uid"), WriteError.CONFLICT, id="another uid means another incarnation"),
        pytest.param({}, WriteError.CONFLICT, id="no cause means a failed test of a JSON patch"),
    ],
)
def test_an_answer_of_422_is_told_apart_by_its_causes(details, trouble):
    assert trouble_of(422, status(422, details=details)) == (trouble, "why")


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b"[]", b'{"message": 5}'])
def test_an_answer_that_is_no_status_still_has_a_message(body):
    assert trouble_of(502, body) == (WriteError.UNKNOWN, "HTTP status 502")


def test_a_status_tells_when_to_come_back():
    found = decode_status(status(429, reason="TooManyRequests", details={"retryAfterSeconds": 3}))
    assert (found.code, found.reason, found.details and found.details.retry_after_seconds) == (
        429,
        "TooManyRequests",
        3,
    )
