"""What several kinds share on the wire: metadata, times, durations, conditions; and how a malformed object is named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from headgate.model.keys import Condition, Key, Kind
from headgate.model.selectors import Operator, Requirement

LONGEST_SAID = 1000  # characters of a path, and of what was expected there

Amounts = dict[str, str | int | float]
"""Quantities by resource name. Servers write text; people also write bare numbers."""
Buffer = bytes | memoryview
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Whole numbers as Kubernetes has them. Servers refuse larger ones in their own kinds, not always in others'."""


class InvalidObject(Exception):
    """An object that does not conform to its kind. `path` begins at the object (`$.spec.…`); `key` if known."""

    def __init__(self, kind: Kind, key: Key | None, path: str, expected: str) -> None:
        path, expected = _bounded(path), _bounded(expected)
        super().__init__(f"{key or kind}: {path}: {expected}")
        self.kind, self.key, self.path, self.expected = kind, key, path, expected


class Undecodable(InvalidObject):
    """An object that our own code could not deal with, which is our mistake."""


class InvalidField(ValueError):
    """A field whose type is right and whose content is not; becomes an InvalidObject once the object is known."""

    def __init__(self, path: str, expected: str) -> None:
        super().__init__(f"{path}: {expected}")
        self.path, self.expected = path, expected


def _bounded(text: str) -> str:
    """What is quoted may be as long as an object is."""
    return text if len(text) <= LONGEST_SAID else f"{text[:LONGEST_SAID]}..."


def invalid_field(error: msgspec.DecodeError) -> InvalidField:
    """What msgspec says, with the path taken apart from the sentence."""
    sentence, _, path = str(error).partition(" - at `")
    return InvalidField(path.rstrip("`") or "$", sentence.replace("`", ""))


class Wire(Struct, rename="camel", frozen=True, gc=False):
    """Fields are read by their Kubernetes names; what is not listed is ignored."""


class WireOwnerReference(Wire, frozen=True):
    kind: str
    name: str
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class WireMetadata(Wire, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    owner_references: list[WireOwnerReference] | None = None

    def key(self, kind: Kind) -> Key:
        return Key(kind, self.namespace, self.name)

    @property
    def created(self) -> float:
        return time_at("$.metadata.creationTimestamp", self.creation_timestamp) or 0.0

    @property
    def deleted(self) -> float | None:
        return time_at("$.metadata.deletionTimestamp", self.deletion_timestamp)


class WireFinalizedMetadata(WireMetadata, frozen=True):
    finalizers: list[str] | None = None


class WireVerbatimSpec(Wire, frozen=True):
    spec: Raw = Raw(b"{}")


class WireConditionStatus(Wire, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class WireExpression(Wire, frozen=True):
    """One entry of matchExpressions or matchFields."""

    key: str
    operator: Operator
    values: list[str] | None = None

    def requirement(self) -> Requirement:
        return Requirement(self.key, self.operator, tuple(sorted(self.values or ())))


def time_at(path: str, text: str | None) -> float | None:
    """The time a field holds, if it holds one."""
    if text is None:
        return None
    try:
        return parse_time(text)
    except InvalidTime as error:
        raise InvalidField(path, str(error)) from None


def controller_uid(metadata: WireMetadata) -> str:
    """The uid of the object that controls this one; empty when there is none."""
    return next((owner.uid for owner in metadata.owner_references or () if owner.controller), "")


def is_true(conditions: list[WireConditionStatus] | None, type_: str) -> bool:
    return any(condition.type == type_ and condition.status == "True" for condition in conditions or ())


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH).total_seconds()
_LAST = (datetime.max.replace(microsecond=0, tzinfo=UTC) - _EPOCH).total_seconds()
_START = datetime(1970, 1, 1)  # the same without its zone, which is written as Z


class InvalidTime(ValueError):
    """The text is no RFC 3339 time."""

    def __init__(self, text: str) -> None:
        super().__init__(f"expected an RFC 3339 time such as 2026-01-31T12:00:00Z, found {text!r}")
        self.text = text


@lru_cache(maxsize=4096)  # bench_decode takes 1.04 to 1.12 times as long without it
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


@lru_cache(maxsize=256)  # most times of one step are the same; bench_queues takes 1.006 times as long without it
def format_time(seconds: float) -> str:
    """RFC 3339 in whole seconds, cut down as Kubernetes does."""
    return (_START + timedelta(seconds=_writable(seconds) // 1)).isoformat(timespec="seconds") + "Z"


@lru_cache(maxsize=64)  # bench_queues takes 1.002 times as long without it
def format_micro_time(seconds: float) -> str:
    """RFC 3339 with six decimals."""
    return (_START + timedelta(seconds=_writable(seconds))).isoformat(timespec="microseconds") + "Z"


def _writable(seconds: float) -> float:
    """The nearest time that can be written: RFC 3339 has years from 1 to 9999."""
    return max(_FIRST, min(_LAST, seconds))


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


def duration_field(path: str, text: str | None) -> float | None:
    """The seconds of a duration that is not negative, if one is given; raises InvalidField."""
    if text is None:
        return None
    try:
        seconds = parse_duration(text)
    except InvalidDuration as wrong:
        raise InvalidField(path, str(wrong)) from None
    if seconds < 0:
        raise InvalidField(path, f"expected a duration of at least 0s, got {text!r}")
    return seconds


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


LONGEST_MESSAGE = 32_768  # characters a server accepts


class WireCondition(Wire, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: Int64 | None = None


class WireWrittenCondition(Wire, frozen=True):
    """One as we write it, whole; what it was said of is left out where that is not told."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str
    observed_generation: Int64 | UnsetType = UNSET


class WireConditions(Wire, frozen=True):
    """A status of which only the conditions are read."""

    conditions: list[WireCondition] | None = None


def conditions_of(entries: Sequence[WireCondition] | None) -> tuple[Condition, ...]:
    """What `$.status.conditions` of an object says, in order."""
    return tuple([_condition(index, entry) for index, entry in enumerate(entries or ())])


def condition_entries(conditions: Sequence[Condition]) -> list[WireWrittenCondition]:
    """The list to write."""
    return [
        WireWrittenCondition(
            each.type,
            each.status,
            each.reason,
            each.message[:LONGEST_MESSAGE],
            format_time(each.at),
            UNSET if each.generation is None else each.generation,
        )
        for each in conditions
    ]


def _condition(index: int, entry: WireCondition) -> Condition:
    text = entry.last_transition_time
    try:
        at = 0.0 if text is None else parse_time(text)
    except InvalidTime as error:
        raise InvalidField(f"$.status.conditions[{index}].lastTransitionTime", str(error)) from None
    return Condition(entry.type, entry.status, entry.reason, entry.message, at, entry.observed_generation)
