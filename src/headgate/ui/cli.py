"""The command `headgate`. A subcommand is imported only when it is called, so that help is fast."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from typing import Any

import click

from headgate.ui.arguments import SuggestingGroup

COMMANDS = {  # by name: the module, the command in it, and its line of help
    "apiserver": ("headgate.ui.up_command", "apiserver", "Serve a small Kubernetes, without pods that run."),
    "install": ("headgate.ui.install_command", "install", "Install CRDs, RBAC and webhooks."),
    "explain": ("headgate.ui.explain", "explain", "Explain a decision."),
    "run": ("headgate.ui.run_command", "run", "Run on a cluster: quota, integrations, scheduler."),
    "simulate": ("headgate.ui.simulate_command", "simulate", "Run a scenario in virtual time."),
    "up": ("headgate.ui.up_command", "up", "Start a cluster on this machine, with Headgate on it."),
    "version": ("headgate.ui.version_command", "show_version", "Show the version."),
}
CLOSED_PIPE, FULL = (errno.EPIPE, errno.ECONNRESET), errno.ENOSPC
FAILED = 1


class LazyGroup(SuggestingGroup):
    """A group that imports the command that is called, and ends quietly where its output goes nowhere."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From COMMANDS, so that help imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])

    def main(self, *args: Any, **extra: Any) -> Any:
        """A pipe that is closed ends the command without a word, a full disk with one line."""
        try:
            try:
                return super().main(*args, **extra)
            finally:
                sys.stdout.flush()
        except OSError as error:
            _discard_output()
            if error.errno not in (*CLOSED_PIPE, FULL):
                raise
            if error.errno == FULL:
                click.echo(f"Error: cannot write the output: {error.strerror}", err=True)
            sys.exit(FAILED)


def _discard_output() -> None:
    """What is still buffered goes nowhere, so that nothing is written when the process ends."""
    with suppress(OSError, ValueError):  # of an output that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        click.echo(f"headgate {version('headgate')}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version, help="Show the version."
)
def main() -> None:
    """Gates, quota, gang scheduling and preemption for batch workloads on Kubernetes.

    \b
    Examples:
      headgate simulate examples/01-first-pod/scenario.yaml
          try it without a cluster
      headgate run --kubeconfig ~/.kube/config --roles scheduler
          run on a cluster
      headgate explain workload job/train
          why a job waits
    """
