"""The engine's loop on a cluster. It differs from the simulator's in where batches come from and who performs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Protocol

from headgate.engine.journal import Entry, Journal
from headgate.engine.quarantine import Seen
from headgate.model.effects import Effect

GC_THRESHOLDS = (50_000, 20, 100)
"""Most of what is allocated between two collections lives on as state; looking at it often only costs."""


class Batches(Protocol):
    async def next(self) -> list[Seen]: ...


class Decides(Protocol):
    """The engine, as this loop sees it."""

    @property
    def journal(self) -> Journal: ...

    def step(self, batch: Sequence[Seen], now: float) -> list[Effect]: ...


class Audience(Protocol):
    """Who hears of every step: logs, metrics, the recorder."""

    def before_step(self, batch: Sequence[Seen], now: float) -> None: ...

    def after_step(self, batch: Sequence[Seen], entries: Sequence[Entry]) -> None: ...


async def run(
    engine: Decides, feed: Batches, perform: Callable[[Effect], None], now: Callable[[], float], audience: Audience
) -> None:
    """Goes on until cancelled, or until the engine finds one of its invariants broken."""
    await _turn(engine, feed, perform, now, audience)
    _settle_memory()
    while True:
        await _turn(engine, feed, perform, now, audience)


async def _turn(
    engine: Decides, feed: Batches, perform: Callable[[Effect], None], now: Callable[[], float], audience: Audience
) -> None:
    batch, at = await feed.next(), now()
    audience.before_step(batch, at)
    for effect in engine.step(batch, at):
        perform(effect)
    audience.after_step(batch, engine.journal.take())


def _settle_memory() -> None:
    """The cluster as first read stays for good: the collector need not look at it again."""
    gc.set_threshold(*GC_THRESHOLDS)
    gc.unfreeze()
    gc.collect()
    gc.freeze()
