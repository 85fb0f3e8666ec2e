"""Text as kubectl prints it: columns and ages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

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
    return "".join(_units(max(0, int(seconds)))[:2]) or "0s"


def duration(seconds: float) -> str:
    """A duration to the microsecond: 0.5s, 90s, 31m, 1h2m3s."""
    rounded = round(float(seconds), 6)
    if rounded < 120 or not rounded.is_integer():
        return f"{rounded:.6f}".rstrip("0").rstrip(".") + "s"
    return "".join(_units(int(rounded)))


def _units(left: int) -> list[str]:
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return parts
