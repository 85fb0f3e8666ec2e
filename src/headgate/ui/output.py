"""What commands print: the option for the format, tables as kubectl prints them, colours where a terminal has them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import click
import msgspec
import yaml

from headgate.model.quantity import units_of

TABLE, JSON, YAML = "table", "json", "yaml"
_ALIASES = {"text": TABLE}
F = TypeVar("F", bound=Callable[..., object])


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
