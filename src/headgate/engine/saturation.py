"""Requests too large to be counted: what the journal and the object's events say about them."""

from __future__ import annotations

from headgate.engine.journal import Entry
from headgate.model.effects import EmitEvent, EventType
from headgate.model.keys import Key, Target
from headgate.model.resources import LARGEST_REQUEST, amount_text


def saturated_entry(key: Key, names: tuple[str, ...], now: float) -> Entry:
    most = ", ".join(f"{name} {amount_text(name, LARGEST_REQUEST)}" for name in names)
    message = f"requests more than can be counted, which no node has; it counts as {most}"
    return Entry(now, key, "saturate", "RequestsTooLarge", message)


def saturated_event(target: Target, entry: Entry) -> EmitEvent:
    return EmitEvent(target, EventType.WARNING, entry.reason, "Scheduling", entry.message, entry.at)
