"""The command `headgate`. Each subcommand is imported only when it is asked for, so that help comes at once."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version

import click

COMMANDS = {
    "install": ("headgate.ui.install_command", "install", "Give a cluster what Workloads need."),
    "explain": ("headgate.ui.explain_command", "explain", "Say why something was decided."),
    "run": ("headgate.ui.run_command", "run", "Schedule on a real cluster."),
    "simulate": ("headgate.ui.simulate_command", "simulate", "Try a scenario in virtual time."),
}


class LazyGroup(click.Group):
    """Knows its commands by name and loads the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table, so that help loads no command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])


def show_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        click.echo(f"headgate {version('headgate')}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version, help="Show the version."
)
def main() -> None:
    """Decides when work may start, where it runs, and who must leave, on Kubernetes.

    \b
    Try it without a cluster:
      headgate simulate examples/01-first-pod/scenario.yaml
    Schedule on a cluster:
      headgate run --kubeconfig ~/.kube/config --roles scheduler
    """
