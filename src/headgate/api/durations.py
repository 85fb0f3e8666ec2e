"""Durations as Go writes them: `90s`, `1m30s`, `1.5h`, `250ms`."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
}
_PART = re.compile(r"([0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(ms|us|µs|μs|ns|h|m|s)")
_NANOS = 10**9


class InvalidDuration(ValueError):
    """The text is no duration."""

    def __init__(self, text: str) -> None:
        super().__init__(f"expected a duration such as 90s, 1m30s or 2h, found {text!r}")
        self.text = text


def parse_duration(text: str) -> float:
    """Seconds; raises InvalidDuration."""
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return 0.0
    seconds, end = Fraction(0), 0
    while part := _PART.match(body, end):
        seconds += Fraction(f"0{part[1]}") * _UNITS[part[2]]
        end = part.end()
    if not body or end != len(body):
        raise InvalidDuration(text)
    return float(sign * seconds)


def format_duration(seconds: float) -> str:
    """As Go prints it, to the nanosecond: 1m30s, 2h0m0s, 250ms, 0s."""
    nanos = round(Fraction(seconds) * _NANOS)
    sign = "-" if nanos < 0 else ""
    nanos = abs(nanos)
    if nanos < _NANOS:
        return sign + _below_a_second(nanos)
    minutes, rest = divmod(nanos, 60 * _NANOS)
    hours, minutes = divmod(minutes, 60)
    before = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{before}{_with_fraction(rest, _NANOS)}s"


def _below_a_second(nanos: int) -> str:
    if nanos == 0:
        return "0s"
    unit, size = ("ms", 10**6) if nanos >= 10**6 else ("µs", 10**3) if nanos >= 10**3 else ("ns", 1)
    return _with_fraction(nanos, size) + unit


def _with_fraction(nanos: int, size: int) -> str:
    whole, rest = divmod(nanos, size)
    return f"{whole}.{str(size + rest)[1:].rstrip('0')}" if rest else str(whole)
