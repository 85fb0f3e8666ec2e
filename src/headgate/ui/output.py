"""What commands print: one option for the format, and colours where a terminal shows them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec
import yaml

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
