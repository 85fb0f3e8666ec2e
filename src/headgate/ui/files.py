"""Files that options name."""

from __future__ import annotations

from pathlib import Path

import click

STANDARD_INPUT = Path("/dev/stdin")


def read_file(_context: click.Context, _parameter: click.Parameter, name: str | None) -> Path | None:
    """The file; `-` is standard input."""
    if name is None:
        return None
    return STANDARD_INPUT if name == "-" else Path(name)
