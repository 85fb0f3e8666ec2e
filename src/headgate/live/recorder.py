"""Writing down what was observed, batch by batch, for replay: one JSON line a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

import msgspec
from msgspec import Raw

from headgate.model.events import Event, Gone, Observed
from headgate.model.keys import Key


class Recorder:
    """Holds the JSON of what is observed until the batch it falls into is handed over."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._noted: dict[tuple[Key, str], Raw] = {}

    def note(self, event: Observed | Gone, raw: Raw) -> None:
        self._noted[_place(event)] = raw

    def write(self, batch: Sequence[Event], now: float) -> None:
        """{"at": seconds, "events": [{"type": "Observed" or "Gone", "kind": …, "object": …}]}"""
        events = [self._event(event) for event in batch if isinstance(event, Observed | Gone)]
        if events:
            self._out.write(msgspec.json.encode({"at": now, "events": events}) + b"\n")
            self._out.flush()

    def _event(self, event: Observed | Gone) -> dict[str, object]:
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
