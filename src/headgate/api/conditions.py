"""Conditions from the wire and back, for objects whose whole list of conditions we read and write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from headgate.api.errors import InvalidField
from headgate.api.times import InvalidTime, format_time, parse_time
from headgate.api.wire import Wire
from headgate.model.conditions import Condition

LONGEST_MESSAGE = 32_768  # characters a server accepts
REMEMBERED = 4_096
"""How many conditions are kept in words; the one not written for longest goes first."""


class ConditionEntry(Wire, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None


class Conditions(Wire, frozen=True):
    """A status of which only the conditions are read."""

    conditions: list[ConditionEntry] | None = None


def conditions_of(entries: Sequence[ConditionEntry] | None) -> tuple[Condition, ...]:
    """What `$.status.conditions` of an object says, in order."""
    return tuple([_condition(index, entry) for index, entry in enumerate(entries or ())])


def condition_entries(conditions: Sequence[Condition]) -> list[Raw]:
    """The list to write; most of them stay as they were and are not put into words again."""
    return [_entry(condition) for condition in conditions]


def _condition(index: int, entry: ConditionEntry) -> Condition:
    text = entry.last_transition_time
    try:
        at = 0.0 if text is None else parse_time(text)
    except InvalidTime as error:
        raise InvalidField(f"$.status.conditions[{index}].lastTransitionTime", str(error)) from None
    return Condition(entry.type, entry.status, entry.reason, entry.message, at, entry.observed_generation)


@lru_cache(maxsize=REMEMBERED)
def _entry(condition: Condition) -> Raw:
    entry: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message[:LONGEST_MESSAGE],
        "lastTransitionTime": format_time(condition.at),
    }
    if condition.generation is not None:
        entry["observedGeneration"] = condition.generation
    return Raw(msgspec.json.encode(entry))
