"""Why was it decided so? `headgate explain`: one module for each subcommand.

To explain something else, write a click command in a module of its own and add it to the group below.
"""

import click

from headgate.ui.explain.preemption_command import preemption
from headgate.ui.explain.workload_command import workload

__all__ = ["explain"]


@click.group()
def explain() -> None:
    """Explain a decision."""


explain.add_command(preemption)
explain.add_command(workload)
