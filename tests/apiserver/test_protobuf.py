"""Objects in protobuf, as typed clients send them. `encode` writes them by the same table of fields."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.apiserver.handlers.protobuf import MAGIC, MEDIA_TYPE, InvalidProtobuf, decode_protobuf
from headgate.apiserver.messages import Request
from headgate.apiserver.server import ApiServer


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(place: int, value: int) -> bytes:
    return varint(place << 3) + varint(value)


def part(place: int, *values: bytes | str) -> bytes:
    data = b"".join(value.encode() if isinstance(value, str) else value for value in values)
    return varint(place << 3 | 2) + varint(len(data)) + data


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return MAGIC + part(1, part(1, api_version), part(2, kind)) + part(2, raw) + part(3, "") + part(4, "")


METADATA = part(1, part(1, "a"), part(2, ""), part(3, ""), number(7, 0), part(8), part(11, part(1, "k"), part(2, "v")))


def test_what_go_writes_and_json_leaves_out_is_left_out():
    body = envelope("v1", "ConfigMap", METADATA + part(2, part(1, "x"), part(2, "y")))
    assert decode_protobuf(body) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "labels": {"k": "v"}},
        "data": {"x": "y"},
    }


def test_what_may_be_zero_on_purpose_stays():
    """A pointer to zero says something; a plain zero does not."""
    job = decode_protobuf(envelope("batch/v1", "Job", METADATA + part(2, number(1, 0), number(7, 0))))
    assert job["spec"] == {"parallelism": 0, "backoffLimit": 0}
    assert "value" not in decode_protobuf(envelope("scheduling.k8s.io/v1", "PriorityClass", METADATA + number(2, 0)))


def test_special_types_are_written_as_in_json():
    container = part(
        2,
        part(1, "c"),
        part(6, number(3, 80)),
        part(8, part(2, part(1, "cpu"), part(2, part(1, "500m")))),
        part(11, part(1, part(2, part(1, "/"), part(2, number(1, 1), part(3, "http"))))),
    )
    volume = part(1, part(1, "v"), part(2, part(19, part(1, part(1, "cm")))))
    pod = decode_protobuf(envelope("v1", "Pod", METADATA + part(2, volume, container)))
    (found,) = pod["spec"]["containers"]
    assert found["resources"] == {"requests": {"cpu": "500m"}}
    assert found["readinessProbe"] == {"httpGet": {"path": "/", "port": "http"}}
    assert pod["spec"]["volumes"] == [{"name": "v", "configMap": {"name": "cm"}}]
    lease = envelope("coordination.k8s.io/v1", "Lease", part(2, part(3, number(1, 1), number(2, 5_000))))
    assert decode_protobuf(lease)["spec"] == {"acquireTime": "1970-01-01T00:00:01.000005Z"}
    secret = decode_protobuf(envelope("v1", "Secret", part(2, part(1, "k"), part(2, b"\x00\xff"))))
    assert secret["data"] == {"k": "AP8="}


def test_negative_numbers_and_fields_nobody_knows_are_read():
    budget = envelope("scheduling.k8s.io/v1", "PriorityClass", number(2, -5) + part(99, "later") + number(98, 1))
    assert decode_protobuf(budget)["value"] == -5


def test_the_server_stores_what_comes_in_protobuf():
    server = ApiServer()
    body = envelope("v1", "Namespace", part(1, part(1, "team")))
    answer = server.handle(Request("POST", "/api/v1/namespaces", body=body, content_type=MEDIA_TYPE), 0.0)
    assert (answer.code, answer.value["status"]) == (201, {"phase": "Active"})
    gone = envelope("v1", "DeleteOptions", part(4, "Background"))
    answer = server.handle(Request("DELETE", "/api/v1/namespaces/team", body=gone, content_type=MEDIA_TYPE), 0.0)
    assert answer.code == 200


@pytest.mark.parametrize(
    "body, why",
    [
        pytest.param(b"{}", "expected prefix", id="JSON"),
        pytest.param(envelope("v1", "Train", b""), 'no kind "Train"', id="an unknown kind"),
        pytest.param(envelope("v1", "Pod", part(1, "x")[:-1]), "unexpected end", id="a body that is cut off"),
        pytest.param(envelope("v1", "Pod", varint(3)), "wire type", id="a group"),
        pytest.param(envelope("v1", "Pod", number(1, 1)), "found a number", id="a number for a message"),
        pytest.param(envelope("v1", "Pod", b"\xff" * 20), "unexpected end", id="a number without end"),
        pytest.param(envelope("v1", "ConfigMap", part(1, part(1, b"\xff"))), "UTF-8", id="text that is none"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(body, why):
    answer = ApiServer().handle(
        Request("POST", "/api/v1/namespaces/default/pods", body=body, content_type=MEDIA_TYPE), 0
    )
    assert (answer.code, answer.value["reason"]) == (400, "BadRequest")
    assert why in answer.value["message"]


@given(st.binary(max_size=200), st.sampled_from(["Pod", "Event", "Node"]))
def test_no_bytes_raise_anything_else(data, kind):
    with contextlib.suppress(InvalidProtobuf):
        msgspec.json.encode(decode_protobuf(envelope("v1", kind, data)))
