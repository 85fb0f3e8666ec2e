"""Conditions from the wire and back, for objects whose whole list of conditions we read and write."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from headgate.api.errors import InvalidField
from headgate.api.times import InvalidTime, format_time, parse_time
from headgate.api.wire import Int64, Wire
from headgate.model.conditions import Condition

LONGEST_MESSAGE = 32_768  # characters a server accepts


class ConditionEntry(Wire, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: Int64 | None = None


class WrittenCondition(Wire, frozen=True):
    """One as we write it, whole; what it was said of is left out where that is not told."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str
    observed_generation: Int64 | UnsetType = UNSET


class Conditions(Wire, frozen=True):
    """A status of which only the conditions are read."""

    conditions: list[ConditionEntry] | None = None


def conditions_of(entries: Sequence[ConditionEntry] | None) -> tuple[Condition, ...]:
    """What `$.status.conditions` of an object says, in order."""
    return tuple([_condition(index, entry) for index, entry in enumerate(entries or ())])


def condition_entries(conditions: Sequence[Condition]) -> list[WrittenCondition]:
    """The list to write."""
    return [
        WrittenCondition(
            each.type,
            each.status,
            each.reason,
            each.message[:LONGEST_MESSAGE],
            format_time(each.at),
            UNSET if each.generation is None else each.generation,
        )
        for each in conditions
    ]


def _condition(index: int, entry: ConditionEntry) -> Condition:
    text = entry.last_transition_time
    try:
        at = 0.0 if text is None else parse_time(text)
    except InvalidTime as error:
        raise InvalidField(f"$.status.conditions[{index}].lastTransitionTime", str(error)) from None
    return Condition(entry.type, entry.status, entry.reason, entry.message, at, entry.observed_generation)
