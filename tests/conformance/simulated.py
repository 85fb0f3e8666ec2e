"""A scenario in the simulator with a tap between the cluster and the engine: what it was told, and what it decided."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from msgspec import Raw

from headgate.apiserver import WatchEvent
from headgate.engine.loop import Engine
from headgate.live.recorder import Recorder
from headgate.model.events import Event, Gone, Observed
from headgate.model.keys import Key, Kind
from headgate.simulator.faults import Faults
from headgate.simulator.observing import Feed
from headgate.simulator.scenario import Scenario
from headgate.simulator.virtual_time import run

Line = Mapping[str, Any]
"""One step: when, and all the engine was told in it."""

AS_A_WATCHER_SEES_IT = Faults(coalesced=1.0)  # of several changes at one instant only the last, as the live feed does


class Tap:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._raws: dict[tuple[Key, str], bytes] = {}
        self._out = io.BytesIO()
        self._recorder = Recorder(self._out)
        monkeypatch.setattr(Feed, "_decoded", self._keeping(Feed._decoded))
        monkeypatch.setattr(Engine, "step", self._writing(Engine.step))

    @property
    def lines(self) -> list[Line]:
        return [json.loads(line) for line in self._out.getvalue().splitlines()]

    def _keeping(self, decoded):
        def seeing(feed: Feed, kind: Kind, events: Iterable[WatchEvent]):
            told = list(events)
            raws = {event.version: event.raw for event in told}
            fresh = decoded(feed, kind, told)
            for version, change in fresh:
                match change:
                    case Observed(found):
                        self._raws[found.key, found.version] = self._raws[found.key, found.uid] = raws[version]
                    case Gone(key, uid):
                        self._raws[key, uid] = raws[version]  # what a watch says of an object that is gone
            return fresh

        return seeing

    def _writing(self, step):
        def stepping(engine: Engine, batch: Sequence[Event], now: float):
            told = [event for event in batch if _concerns(event, engine.reads)]
            for event in told:
                if isinstance(event, Observed):
                    self._recorder.note(event, Raw(self._raws[event.object.key, event.object.version]))
                elif isinstance(event, Gone):
                    self._recorder.note(event, Raw(self._raws[event.key, event.uid]))
            self._recorder.write(told, now)
            return step(engine, batch, now)

        return stepping


def simulated(scenario: Scenario, seed: int) -> tuple[list[Line], Sequence[Mapping[str, Any]]]:
    """What the engine was told, and its journal."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        tap = Tap(monkeypatch)
        report = run(scenario, seed, AS_A_WATCHER_SEES_IT)
    assert report.refused == []
    return tap.lines, report.journal


def _concerns(event: Event, kinds: Sequence[Kind]) -> bool:
    match event:
        case Observed(found):
            return found.key.kind in kinds
        case Gone(key):
            return key.kind in kinds
        case _:
            return True
