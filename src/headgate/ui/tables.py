"""Text as kubectl prints it: columns and ages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from headgate.model.counting import units_of
from headgate.ui.output import styled

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
