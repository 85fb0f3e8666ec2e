"""A recorded log straight through an engine: no sockets, no cluster, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from simulated import Line

from headgate.api.decode import decode, identity
from headgate.engine.journal import Entry
from headgate.engine.loop import Engine
from headgate.model.effects import Effect, WakeAt
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.keys import Kind
from headgate.model.settings import Settings


def replayed(lines: Sequence[Line], settings: Settings) -> list[Entry]:
    engine, asked, story = Engine(settings), list[Effect](), list[Entry]()
    for line in lines:
        batch = [_event(told, asked) for told in line["events"]]
        asked += [effect for effect in engine.step(batch, line["at"]) if not isinstance(effect, WakeAt)]
        story += engine.journal.take()
    return story


def _event(told: dict[str, Any], asked: list[Effect]) -> Event:
    match told["type"]:
        case "Observed":
            return Observed(decode(Kind(told["kind"]), msgspec.json.encode(told["object"])))
        case "Gone":
            gone = identity(Kind(told["kind"]), msgspec.json.encode(told["object"]))
            return Gone(gone.key, gone.uid)
        case "TimerFired":
            return TimerFired(told["timer"])
        case "Outcome":
            return _outcome(told, asked)
    raise AssertionError(f"a log says nothing like {told}")


def _outcome(told: dict[str, Any], asked: list[Effect]) -> Outcome:
    """Of the first write of its kind to its object that was not answered yet, for those are done in order."""
    for index, effect in enumerate(asked):
        if (type(effect).__name__, str(effect.target.key)) == (told["effect"], told["object"]):
            trouble = WriteError(told["trouble"]) if told["trouble"] else None
            return Outcome(asked.pop(index), trouble, told["message"])
    raise AssertionError(f"the log answers a write that was not decided: {told}")
