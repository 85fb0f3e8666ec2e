"""`headgate version`."""

from __future__ import annotations

from importlib.metadata import version
from platform import python_version

import click

from headgate.ui.output import TABLE, echo_document, output_option


@click.command(
    name="version",
    epilog="""\b
Examples:
  headgate version
  headgate version --output json
""",
)
@output_option
def show_version(output: str) -> None:
    """Show the version of headgate, and of the Python it runs on."""
    ours = version("headgate")
    if output == TABLE:
        click.echo(f"headgate {ours} (Python {python_version()})")
    else:
        echo_document({"headgate": ours, "python": python_version()}, output)
