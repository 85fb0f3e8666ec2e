"""What commands are given: files and schedulers that options name, and suggestions for misspelt commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import click

STANDARD_INPUT = Path("/dev/stdin")
MOST_SUGGESTED = 3
DNS_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


def read_file(_context: click.Context, _parameter: click.Parameter, name: str | None) -> Path | None:
    """The file; `-` is standard input."""
    if name is None:
        return None
    return STANDARD_INPUT if name == "-" else Path(name)


def read_scheduler_names(_context: click.Context, _parameter: click.Parameter, names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if not DNS_NAME.fullmatch(name):
            raise click.BadParameter(f"expected a name of lower-case letters, digits, '-' and '.', got {name!r}")
    return tuple(dict.fromkeys(names))


class SuggestingGroup(click.Group):
    """Suggests what a misspelt command was meant to be."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            known = self.list_commands(ctx)
            close = get_close_matches(name, known, MOST_SUGGESTED)
            hint = f"Did you mean {' or '.join(close)}?" if close else f"Commands: {', '.join(known)}."
            raise click.UsageError(f"No such command {name!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)
