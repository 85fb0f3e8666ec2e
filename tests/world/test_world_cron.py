"""Schedules of CronJobs: which times they mean, and what they refuse."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.world.cron_jobs import InvalidSchedule, parse_schedule


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "schedule, after, due",
    [
        pytest.param("* * * * *", "2026-01-01T00:00", "2026-01-01T00:01", id="every minute, and not the same again"),
        pytest.param("*/20 * * * *", "2026-01-01T00:01", "2026-01-01T00:20", id="every twenty minutes"),
        pytest.param("5 4 * * *", "2026-01-01T04:05", "2026-01-02T04:05", id="once a day"),
        pytest.param("0 9-17/4 * * MON-FRI", "2026-01-02T17:30", "2026-01-05T09:00", id="on weekdays by name"),
        pytest.param("0 0 1,15 * *", "2026-01-01T00:00", "2026-01-15T00:00", id="twice a month"),
        pytest.param("0 0 13 * 5", "2026-01-01T00:00", "2026-01-02T00:00", id="of two kinds of days either will do"),
        pytest.param("0 0 29 2 *", "2026-01-01T00:00", "2028-02-29T00:00", id="on a leap day"),
        pytest.param("0 0 * * 7", "2026-01-01T00:00", "2026-01-04T00:00", id="Sunday is 7 as well as 0"),
        pytest.param("0 12 * jun *", "2026-01-01T00:00", "2026-06-01T12:00", id="a month by name"),
        pytest.param("@hourly", "2026-01-01T00:59", "2026-01-01T01:00", id="by a name"),
    ],
)
def test_when_a_job_is_due(schedule, after, due):
    assert parse_schedule(schedule).after(at(after)) == at(due)


def test_a_day_that_never_comes_is_never_due():
    assert parse_schedule("0 0 31 2 *").after(at("2026-01-01T00:00")) is None


@pytest.mark.parametrize(
    "schedule, complaint",
    [
        pytest.param("* * * *", "expected five fields", id="a field too few"),
        pytest.param("", "expected five fields", id="nothing"),
        pytest.param("60 * * * *", "expected a minute from 0 to 59, got '60'", id="a minute too late"),
        pytest.param("* * 0 * *", "expected a day of month from 1 to 31, got '0'", id="no such day"),
        pytest.param("* * * foo *", "expected a month from 1 to 12, got 'foo'", id="no such month"),
        pytest.param("*/0 * * * *", "expected a minute from 1 to 59, got '0'", id="a step of nothing"),
        pytest.param("30-10 * * * *", "expected a range that goes up in the minute, got '30-10'", id="a range down"),
        pytest.param("99999999999999999999 * * * *", "expected a minute from 0 to 59", id="a huge number"),
    ],
)
def test_what_is_no_schedule_is_refused(schedule, complaint):
    with pytest.raises(InvalidSchedule, match=complaint):
        parse_schedule(schedule)


@given(st.integers(0, 59), st.integers(0, 23), st.floats(0, 4e9))
def test_the_next_time_is_later_and_matches(minute, hour, moment):
    due = parse_schedule(f"{minute} {hour} * * *").after(moment)
    found = datetime.fromtimestamp(due, UTC)
    assert moment < due <= moment + 86_400 and (found.minute, found.hour, found.second) == (minute, hour, 0)
