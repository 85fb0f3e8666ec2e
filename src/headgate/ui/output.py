"""What commands print: tables as kubectl prints them, JSON or YAML, colours, and progress where a terminal shows it."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

import click
import msgspec
import yaml

from headgate.model.keys import Kind
from headgate.model.quantity import units_of

TABLE, JSON, YAML = "table", "json", "yaml"
_ALIASES = {"text": TABLE}
F = TypeVar("F", bound=Callable[..., object])

BAR = 30  # characters
PATIENCE, REDRAW = 2.0, 0.1  # seconds before the line appears, and between two updates


class _Format(click.Choice[str]):
    """table, json or yaml; `text` is another word for table."""

    name = "format"

    def __init__(self) -> None:
        super().__init__([TABLE, JSON, YAML])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(_ALIASES.get(value, value), param, ctx)


def output_option(command: F) -> F:
    """The option --output, -o."""
    option = click.option("--output", "-o", type=_Format(), default=TABLE, show_default=True, help="Output format.")
    return option(command)


def echo_document(document: object, output: str) -> None:
    """Prints a value that JSON can hold as indented JSON or as YAML."""
    if output == YAML:
        click.echo(as_yaml(document), nl=False)
    else:
        click.echo(msgspec.json.format(msgspec.json.encode(document)))


def as_yaml(document: object) -> str:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(msgspec.to_builtins(document), Dumper=dumper, sort_keys=False, allow_unicode=True, width=100))


def styled(text: str, **style: Any) -> str:
    """The text with a style, if standard output is a terminal and NO_COLOR is not set."""
    return click.style(text, **style) if has_colour() else text


def has_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


Style = Callable[[int, str], str]
"""A cell with the style of its column, once it is as wide as that."""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], style: Style | None = None) -> Iterator[str]:
    """Columns as wide as their content; the last one is not padded."""
    lines = [heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads) - 1)]
    for number, line in enumerate(lines):
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        plain = "  ".join([*cells, line[-1]]).rstrip()
        if number == 0:
            yield styled(plain, bold=True)
        elif style is None:
            yield plain
        else:
            yield "  ".join(style(column, cell) for column, cell in enumerate([*cells, line[-1]])).rstrip()


def age(seconds: float) -> str:
    """A duration in at most two units."""
    return "".join(units_of(max(0, int(seconds)))[:2]) or "0s"


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
