"""Progress of long runs on standard error, where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import click

from headgate.simulator import Progress

BAR = 30  # characters
PATIENCE, REDRAW = 2.0, 0.1  # seconds before the bar appears, and between two updates


@contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """A bar that appears after PATIENCE and goes away at the end; None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _Bar()
    try:
        yield bar.show
    finally:
        bar.clear()


class _Bar:
    def __init__(self) -> None:
        self._next = monotonic() + PATIENCE
        self._width = 0

    def show(self, now: float, end: float | None) -> None:
        if monotonic() < self._next:
            return
        self._next = monotonic() + REDRAW
        text = f"simulating {_share(now / end) if end else f'{now:.0f}s'}"
        self._width = max(self._width, len(text))
        click.echo(f"\r{text:<{self._width}}", err=True, nl=False)

    def clear(self) -> None:
        if self._width:
            click.echo(f"\r{'':<{self._width}}\r", err=True, nl=False)


def _share(share: float) -> str:
    return f"[{'#' * int(share * BAR):<{BAR}}] {share:4.0%}"
