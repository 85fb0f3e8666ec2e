"""Progress of what takes long on standard error, where that is a terminal: one line that is drawn anew in its place."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

import click

from headgate.model.keys import Kind

BAR = 30  # characters
PATIENCE, REDRAW = 2.0, 0.1  # seconds before the line appears, and between two updates


class _Line:
    """Appears after PATIENCE, and is no longer than the terminal is wide."""

    def __init__(self) -> None:
        self._next = monotonic() + PATIENCE
        self._width = 0

    @property
    def is_due(self) -> bool:
        return monotonic() >= self._next

    def draw(self, text: str) -> None:
        self._next = monotonic() + REDRAW
        text = text[: shutil.get_terminal_size().columns - 1]
        self._width = max(self._width, len(text))
        click.echo(f"\r{text:<{self._width}}", err=True, nl=False)

    def clear(self) -> None:
        if self._width:
            click.echo(f"\r{'':<{self._width}}\r", err=True, nl=False)
            self._width = 0


@contextmanager
def progress_bar() -> Iterator[Callable[[float, float | None], None] | None]:
    """Shows how far a simulation is, until the end of the block; None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    line = _Line()

    def show(now: float, end: float | None) -> None:
        if line.is_due:
            line.draw(f"simulating {_share(now / end) if end else f'{now:.0f}s'}")

    try:
        yield show
    finally:
        line.clear()


class ClusterReading:
    """Shows how many objects of each kind were read, until `done`, and below whatever is written meanwhile.

    Where standard error is no terminal it only writes.
    """

    def __init__(self) -> None:
        self._line = _Line() if sys.stderr.isatty() else None
        self._read = Counter[Kind]()

    def read(self, kind: Kind, count: int) -> None:
        """So many more objects of a kind have been read."""
        if self._line is None:
            return
        self._read[kind] += count
        if self._line.is_due:
            counts = ", ".join(f"{number:,} {kind}" for kind, number in self._read.most_common() if number)
            self._line.draw(f"reading the cluster: {counts}")

    def done(self) -> None:
        """The line goes away and does not come back."""
        if self._line is not None:
            self._line.clear()
            self._line = None

    # of a text stream

    def write(self, text: str) -> None:
        if self._line is not None:
            self._line.clear()
        sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


@contextmanager
def cluster_reading() -> Iterator[ClusterReading]:
    """The line goes away at the end of the block at the latest."""
    reading = ClusterReading()
    try:
        yield reading
    finally:
        reading.done()


def _share(share: float) -> str:
    return f"[{'#' * int(share * BAR):<{BAR}}] {share:4.0%}"
