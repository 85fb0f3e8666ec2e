"""Timestamps and durations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.api.wire import (
    InvalidDuration,
    InvalidTime,
    format_duration,
    format_micro_time,
    format_time,
    parse_duration,
    parse_time,
)


@pytest.mark.parametrize(
    "text, seconds",
    [
        pytest.param("1970-01-01T00:00:00Z", 0.0, id="the epoch"),
        pytest.param("2026-01-01T00:00:00Z", 1767225600.0, id="a new year"),
        pytest.param("2026-01-01T01:00:00+01:00", 1767225600.0, id="another time zone"),
        pytest.param("2026-01-01T00:00:00.250000Z", 1767225600.25, id="microseconds"),
        pytest.param("1969-12-31T23:59:59Z", -1.0, id="before the epoch"),
    ],
)
def test_parse_time(text, seconds):
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01 00:00:00Z",
        "2026-13-01T00:00:00Z",
        "20260101T000000Z",
    ],
)
def test_parse_time_refused(text):
    with pytest.raises(InvalidTime) as refused:
        parse_time(text)
    assert str(refused.value) == f"expected an RFC 3339 time such as 2026-01-31T12:00:00Z, found {text!r}"


@pytest.mark.parametrize(
    "seconds, whole, micro",
    [
        pytest.param(0.0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z", id="the epoch"),
        pytest.param(
            59.999999, "1970-01-01T00:00:59Z", "1970-01-01T00:00:59.999999Z", id="whole seconds are cut, not rounded"
        ),
        pytest.param(
            59.9999999,
            "1970-01-01T00:00:59Z",
            "1970-01-01T00:01:00.000000Z",
            id="however little is missing to the next",
        ),
        pytest.param(-0.5, "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.500000Z", id="before the epoch as well"),
    ],
)
def test_format_time(seconds, whole, micro):
    assert (format_time(seconds), format_micro_time(seconds)) == (whole, micro)


@given(st.integers(0, 4_000_000_000))
def test_a_whole_second_survives_both_ways(seconds):
    assert parse_time(format_time(seconds)) == parse_time(format_micro_time(seconds)) == seconds


@pytest.mark.parametrize(
    "text, seconds, formatted",
    [
        pytest.param("0", 0.0, "0s", id="a bare zero"),
        pytest.param("90s", 90.0, "1m30s", id="seconds"),
        pytest.param("1m30s", 90.0, "1m30s", id="several units"),
        pytest.param("2h", 7200.0, "2h0m0s", id="hours"),
        pytest.param("1.5h", 5400.0, "1h30m0s", id="a decimal"),
        pytest.param(".5s", 0.5, "500ms", id="no digit before the point"),
        pytest.param("250ms", 0.25, "250ms", id="milliseconds"),
        pytest.param("1500us", 0.0015, "1.5ms", id="microseconds"),
        pytest.param("2µs", 0.000002, "2µs", id="microseconds with the micro sign"),
        pytest.param("7ns", 7e-9, "7ns", id="nanoseconds"),
        pytest.param("-1m", -60.0, "-1m0s", id="a negative one"),
        pytest.param("+1s", 1.0, "1s", id="a plus sign"),
        pytest.param("1.25s", 1.25, "1.25s", id="a fraction of seconds"),
    ],
)
def test_durations(text, seconds, formatted):
    assert parse_duration(text) == seconds
    assert format_duration(seconds) == formatted


@pytest.mark.parametrize("text", ["", "1", "s", "1x", "1s ", "--1s", ".", ".s", "1m 30s", "1d", "1e3s", "٣s"])
def test_durations_refused(text):
    with pytest.raises(InvalidDuration) as refused:
        parse_duration(text)
    assert str(refused.value) == f"expected a duration such as 90s, 1m30s or 2h, found {text!r}"


@given(st.integers(-(10**15), 10**15))
def test_a_duration_in_microseconds_survives_both_ways(micros):
    assert parse_duration(format_duration(micros / 1_000_000)) == pytest.approx(micros / 1_000_000, abs=1e-6)
