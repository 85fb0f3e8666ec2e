"""Rows of text in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their content, the last one as long as it likes."""
    lines = [heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads) - 1)]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        yield "  ".join([*cells, line[-1]]).rstrip()
