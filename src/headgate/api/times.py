"""Kubernetes timestamps (RFC 3339) and seconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH).total_seconds()
_LAST = (datetime.max.replace(microsecond=0, tzinfo=UTC) - _EPOCH).total_seconds()
_START = datetime(1970, 1, 1)  # the same without its zone, which is written as Z


class InvalidTime(ValueError):
    """The text is no RFC 3339 time."""

    def __init__(self, text: str) -> None:
        super().__init__(f"expected an RFC 3339 time such as 2026-01-31T12:00:00Z, found {text!r}")
        self.text = text


@lru_cache(maxsize=4096)
def parse_time(text: str) -> float:
    """Seconds since the epoch; raises InvalidTime."""
    if len(text) < 20 or text[10] not in "Tt":
        raise InvalidTime(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidTime(text) from None
    if moment.tzinfo is None:
        raise InvalidTime(text)
    return (moment - _EPOCH).total_seconds()


@lru_cache(maxsize=256)  # most times of one step are the same
def format_time(seconds: float) -> str:
    """RFC 3339 in whole seconds, cut down as Kubernetes does."""
    return (_START + timedelta(seconds=_writable(seconds) // 1)).isoformat(timespec="seconds") + "Z"


@lru_cache(maxsize=64)
def format_micro_time(seconds: float) -> str:
    """RFC 3339 with six decimals."""
    return (_START + timedelta(seconds=_writable(seconds))).isoformat(timespec="microseconds") + "Z"


def _writable(seconds: float) -> float:
    """The nearest time that can be written: RFC 3339 has years from 1 to 9999."""
    return max(_FIRST, min(_LAST, seconds))
