"""Records the events of every step as a line of JSON, for replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, assert_never

import msgspec
from msgspec import Raw

from headgate.model.effects import Create, EmitEvent
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired
from headgate.model.keys import Key

Told = dict[str, object]


class Recorder:
    """Holds the JSON of what is observed until the batch it falls into is handed over."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._noted: dict[tuple[Key, str], Raw] = {}

    def note(self, event: Observed | Gone, raw: Raw) -> None:
        self._noted[_place(event)] = raw

    def write(self, batch: Sequence[Event], now: float) -> None:
        """{"at": seconds, "events": […]}, where an event is one of

        {"type": "Observed" or "Gone", "kind": …, "object": …}, {"type": "TimerFired", "timer": …},
        {"type": "Outcome", "effect": …, "object": key, "trouble": … or null, "message": …}
        """
        events = [told for event in batch for told in self._event(event)]
        if events:
            self._out.write(msgspec.json.encode({"at": now, "events": events}) + b"\n")
            self._out.flush()

    def _event(self, event: Event) -> Iterator[Told]:
        match event:
            case Observed() | Gone():
                yield self._sight(event)
            case TimerFired(timer):
                yield {"type": "TimerFired", "timer": timer}
            case Outcome(effect=EmitEvent()):
                pass  # nobody decides by it
            case Outcome(effect, trouble, message):
                key = effect.key if isinstance(effect, Create) else effect.target.key
                made = {"effect": type(effect).__name__, "object": str(key)}
                yield {"type": "Outcome", **made, "trouble": trouble, "message": message}
            case _:
                assert_never(event)

    def _sight(self, event: Observed | Gone) -> Told:
        place = _place(event)
        raw = self._noted.pop(place, Raw(b""))
        shown: object = raw if bytes(raw) else _shadow(*place)
        return {"type": type(event).__name__, "kind": place[0].kind.value, "object": shown}


def _place(event: Observed | Gone) -> tuple[Key, str]:
    if isinstance(event, Gone):
        return event.key, event.uid
    return event.object.key, event.object.uid


def _shadow(key: Key, uid: str) -> object:
    """All that is known of an object that was found missing."""
    place = {"namespace": key.namespace} if key.namespace else {}
    return {"metadata": {"name": key.name, "uid": uid, **place}}
