"""Groups of commands that suggest what a misspelt one was meant to be."""

from __future__ import annotations

from difflib import get_close_matches

import click

MOST_SUGGESTED = 3


class SuggestingGroup(click.Group):
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
